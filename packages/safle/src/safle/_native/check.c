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

/* Whether such columns can have the product `p`, in integers of a type that holds every term, and
 * whether its square is at most the product of theirs (Cauchy and Schwarz), in 128 bits. */
typedef __int128 wide;

#define POSSIBLE(W)                                                                               \
    ((W)p - (W)a.low * b.total - (W)b.low * a.total + (W)n * a.low * b.low >= 0 &&                \
     (W)p - (W)a.high * b.total - (W)b.high * a.total + (W)n * a.high * b.high >= 0 &&            \
     (W)a.low * b.total + (W)b.high * a.total - (W)n * a.low * b.high - (W)p >= 0 &&              \
     (W)a.high * b.total + (W)b.low * a.total - (W)n * a.high * b.low - (W)p >= 0)

static inline int possible_narrow(i64 p, column a, column b, i64 n) { return POSSIBLE(i64); }
static inline int possible_wide(i64 p, column a, column b, i64 n) { return POSSIBLE(wide); }

static inline int fits_squares(i64 p, i64 square, i64 other) { return (wide)p * p <= (wide)square * other; }

/* found[row] = the first column >= first_column at which a packed gram has an entry that no samples
 * have, or -1; `power` is its diagonal; `narrow` where all terms and entries fit 62 bits. */
#define FIND_IMPOSSIBLE(G, g)                                                                     \
    KERNEL_OF(find_impossible, g)(const G *gram, i64 dim, i64 first_column, const i64 *low,       \
                                  const i64 *high, const i64 *total, const i64 *power, i64 n,     \
                                  i64 narrow, i64 *found, i64 first, i64 last) {                  \
        for (i64 i = first; i < last; i++) {                                                      \
            column own = {low[i], high[i], total[i]};                                             \
            const G *entries = gram + start(i, dim);                                              \
            found[i] = -1;                                                                        \
            for (i64 j = most(i, first_column); j < dim; j++) {                                   \
                column other = {low[j], high[j], total[j]};                                       \
                i64 p = entries[j];                                                               \
                int fine = narrow && p < (1LL << 62) && p > -(1LL << 62)                          \
                               ? possible_narrow(p, own, other, n)                                \
                               : possible_wide(p, own, other, n);                                 \
                if (fine && fits_squares(p, power[i], power[j])) continue;                        \
                found[i] = j;                                                                     \
                break;                                                                            \
            }                                                                                     \
        }                                                                                         \
    }
FIND_IMPOSSIBLE(int32_t, i4)
FIND_IMPOSSIBLE(int64_t, i8)

/* found[expert] = (row, column) where its block with itself or a later expert does not add up, or
 * (-1, -1). Entries lie between 0 and the diagonal, so that no margin can wrap around to it.
 * `column_sums` has offsets[experts] entries. */
#define FIND_BROKEN_PAIR(G, g)                                                                    \
    static void NAMED3(check_expert, g, LEVEL)(i64 expert, const i64 *offsets, i64 experts,       \
                                               i64 dim, const G *gram, const i64 *diagonal,       \
                                               i64 *column_sums, i64 *found) {                    \
        i64 begin = offsets[expert], end = offsets[expert + 1];                                   \
        found[0] = found[1] = -1;                                                                 \
        memset(column_sums, 0, (size_t)offsets[experts] * sizeof *column_sums);                   \
        for (i64 row = begin; row < end; row++) {                                                 \
            const G *entries = gram + start(row, dim);                                            \
            for (i64 j = row + 1; j < end; j++)                                                   \
                if (entries[j] != 0) {                                                            \
                    found[0] = row, found[1] = j;                                                 \
                    return;                                                                       \
                }                                                                                 \
            for (i64 other = expert + 1; other < experts; other++) {                              \
                i64 margin = 0, smallest = 0, largest = 0;                                        \
                for (i64 j = offsets[other]; j < offsets[other + 1]; j++) {                       \
                    i64 entry = entries[j];                                                       \
                    smallest = least(smallest, entry);                                            \
                    largest = most(largest, entry);                                               \
                    margin = (i64)((uint64_t)margin + (uint64_t)entry);                           \
                    column_sums[j] = (i64)((uint64_t)column_sums[j] + (uint64_t)entry);           \
                }                                                                                 \
                if (smallest < 0 || largest > diagonal[row] || margin != diagonal[row]) {         \
                    found[0] = row, found[1] = offsets[other];                                    \
                    return;                                                                       \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
        for (i64 j = end; j < offsets[experts]; j++)                                              \
            if (column_sums[j] != diagonal[j]) {                                                  \
                found[0] = begin, found[1] = j;                                                   \
                return;                                                                           \
            }                                                                                     \
    }                                                                                             \
    KERNEL_OF(find_broken_pair, g)(const i64 *offsets, i64 experts, i64 dim, const G *gram,       \
                                   const i64 *diagonal, i64 *found, i64 *column_sums, i64 first,  \
                                   i64 last) {                                                    \
        for (i64 expert = first; expert < last; expert++)                                         \
            NAMED3(check_expert, g, LEVEL)                                                        \
        (expert, offsets, experts, dim, gram, diagonal, column_sums, found + 2 * expert);         \
    }
FIND_BROKEN_PAIR(int32_t, i4)
FIND_BROKEN_PAIR(int64_t, i8)

/* Round rows of a tile of a gram (rows from top on, columns from left on) in place; faults[row]
 * counts entries on or above the diagonal that are no integers but for `tolerance`, leave their
 * bounds, or belong to two different codes of one expert and are not zero. */
#define ROUND_TILE(T, t)                                                                          \
    KERNEL_OF(round_tile, t)(T *restrict tile, i64 width, i64 top, i64 left, const i64 *low,      \
                             const i64 *high, const i64 *total, const int32_t *expert, i64 n,     \
                             double tolerance, i64 *faults, i64 first, i64 last) {                \
        for (i64 index = first; index < last; index++) {                                          \
            i64 i = top + index, found = 0;                                                       \
            T *restrict row = tile + index * width;                                               \
            column own = {low[i], high[i], total[i]};                                             \
            for (i64 k = most(0, i - left); k < width; k++) {                                     \
                i64 j = left + k;                                                                 \
                double value = row[k], rounded = rint(value);                                     \
                /* Written so that what is not a number is refused too. */                        \
                if (!(fabs(value - rounded) <= tolerance && fabs(rounded) < 4611686018427387904.0)) { \
                    found++;                                                                      \
                    continue;                                                                     \
                }                                                                                 \
                column other = {low[j], high[j], total[j]};                                       \
                i64 whole = (i64)rounded;                                                         \
                found += whole < least_product(own, other, n) || whole > most_product(own, other, n) || \
                         (expert[j] == expert[i] && i != j && whole != 0);                        \
                row[k] = (T)rounded;                                                              \
            }                                                                                     \
            faults[index] = found;                                                                \
        }                                                                                         \
    }
ROUND_TILE(float, f4)
ROUND_TILE(double, f8)

/* gram[positions_i, positions_j] += sign * tile[i - top, j - left] for i <= j, rows of the tile;
 * `together` where the tile's columns are neighbours in the gram. */
#define ADD_INTEGERS(G, g, T, t)                                                                  \
    KERNEL_OF(add_integers_##g, t)(G *restrict gram, i64 dim, const i64 *positions, i64 top,      \
                                   i64 left, const T *restrict tile, i64 width, i64 sign,         \
                                   i64 together, i64 first, i64 last) {                           \
        for (i64 index = first; index < last; index++) {                                          \
            i64 i = top + index, base = start(positions[i], dim);                                 \
            const T *restrict values = tile + index * width;                                      \
            G *restrict target = gram + base + positions[left];                                   \
            if (together)                                                                         \
                for (i64 k = most(0, i - left); k < width; k++) target[k] += (G)(sign * (G)values[k]); \
            else                                                                                  \
                for (i64 k = most(0, i - left); k < width; k++)                                   \
                    gram[base + positions[left + k]] += (G)(sign * (G)values[k]);                 \
        }                                                                                         \
    }
ADD_INTEGERS(int32_t, i4, float, f4)
ADD_INTEGERS(int32_t, i4, double, f8)
ADD_INTEGERS(int64_t, i8, float, f4)
ADD_INTEGERS(int64_t, i8, double, f8)

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
