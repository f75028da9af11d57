/* Checks of the algebra that counts obey, and sums that were made anew from a factor, in integers.
 *
 * Limit: memory for find_broken_pair; for the others some eight multiplications an entry. */
#include "native.h"

/* Two columns x, y within [low, high] and with these totals over n samples: (x - l)(y - m) >= 0 and
 * its three kin, summed over the samples, bound the sum of x y. */
typedef struct {
    i64 low, high, total;
} column;

/* Below 2^29 samples of 16 bits, nothing here leaves 64 bits. */
static inline i64 least_product(column a, column b, i64 n) {
    return most(a.low * b.total + b.low * (a.total - n * a.low),
                a.high * b.total + b.high * (a.total - n * a.high));
}

static inline i64 most_product(column a, column b, i64 n) {
    return least(a.high * b.total + b.low * (a.total - n * a.high),
                 a.low * b.total + b.high * (a.total - n * a.low));
}

/* Whether such columns can have the product `p`: where all terms fit 62 bits, and in 128 bits. */
typedef __int128 wide;

static inline int possible_narrow(i64 p, column a, column b, i64 n) {
    return least_product(a, b, n) <= p && p <= most_product(a, b, n);
}

static int possible_wide(i64 p, column a, column b, i64 n) {
    wide al = a.low, ah = a.high, at = a.total, bl = b.low, bh = b.high, bt = b.total;
    return p >= al * bt + bl * at - n * al * bl && p >= ah * bt + bh * at - n * ah * bh &&
           p <= al * bt + bh * at - n * al * bh && p <= ah * bt + bl * at - n * ah * bl;
}

/* Whether its square is at most the product of theirs (Cauchy and Schwarz). */
static inline int fits_squares(i64 p, i64 square, i64 other) { return (wide)p * p <= (wide)square * other; }

#define G i4
#include "check.inc"
#define G i8
#include "check.inc"

#define T f4
#include "round_tile.inc"
#define T f8
#include "round_tile.inc"

#define G i4
#define T f4
#include "add_integers.inc"
#define G i4
#define T f8
#include "add_integers.inc"
#define G i8
#define T f4
#include "add_integers.inc"
#define G i8
#define T f8
#include "add_integers.inc"

/* The lexicographically first independent columns of a symmetric matrix of residues, at most
 * `limit`: elimination modulo the Mersenne prime 2^31 - 1, so that no rounding decides. A product of
 * two residues fits 62 bits and is reduced by a shift. The matrix is used up. */
enum { PRIME = 2147483647 };

static i64 inverse_of(i64 value) {
    i64 result = 1, power = value;
    for (i64 exponent = PRIME - 2; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result = result * power % PRIME;
        power = power * power % PRIME;
    }
    return result;
}

KERNEL(first_independent)(i64 *gram, i64 size, i64 limit, i64 *chosen, i64 *count) {
    i64 found = 0;
    for (i64 step = 0; step < size && found < limit; step++) {
        i64 *restrict row = gram + step * size;
        if (row[step] == 0) continue;
        chosen[found++] = step;
        i64 inverse = inverse_of(row[step]);
        for (i64 i = step + 1; i < size; i++) {
            i64 factor = PRIME - row[i] * inverse % PRIME, *restrict target = gram + i * size;
            for (i64 j = i; j < size; j++) {
                i64 value = target[j] + factor * row[j];
                value = (value & PRIME) + (value >> 31);
                value = (value & PRIME) + (value >> 31);
                target[j] = value >= PRIME ? value - PRIME : value;
            }
        }
    }
    *count = found;
}
