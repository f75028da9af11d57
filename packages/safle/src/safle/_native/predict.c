/* Codes -> scores, in integers: exact, so that sums may run in any order.
 *
 * look_up adds a row of a table for every expert: entries have 24 bits, 64 rows add up in 32 bits
 * before the sum is widened. Limit: tables stay in L2; a row of twelve classes costs two additions.
 * add_scores multiplies int16 codes by weights of two int16 halves, high * 2^12 + low: 16 products an
 * instruction of AVX2 against 4 of a float64 multiply-add. Limit: two multiplications a cycle. */
#include "native.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum { ROWS_PER_WORD = 64, CHUNK = 256, PART_BITS = 12, ROWS = 4, SAMPLES = 2 };

/* Scores that one addition takes: as many as the machine has, and four. */
#if defined(__AVX2__)
enum { WIDE = 8 };
#else
enum { WIDE = 4 };
#endif
typedef int32_t wide __attribute__((vector_size(4 * WIDE)));
typedef int32_t four __attribute__((vector_size(16)));
typedef int32_t loose_wide __attribute__((vector_size(4 * WIDE), aligned(4)));
typedef int32_t loose_four __attribute__((vector_size(16), aligned(4)));

#define S u1
#include "look_up.inc"
#define S u2
#include "look_up.inc"

/* sums[s, r] += products of two samples' codes and ROWS rows of halves of weights over `size`
 * vectors of columns, so few that no sum of 32 bits overflows. */
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
enum { LANES = 32 };
typedef __m512i vector;
#define LOAD(from) _mm512_loadu_si512(from)
#define ADD_PRODUCTS(total, a, b) _mm512_dpwssd_epi32(total, a, b)
static inline i64 sum_lanes(vector sums) {
    __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(sums));
    __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(sums, 1));
    return _mm512_reduce_add_epi64(_mm512_add_epi64(low, high));
}
#elif defined(__AVX2__)
enum { LANES = 16 };
typedef __m256i vector;
#define LOAD(from) _mm256_loadu_si256((const __m256i *)(from))
#define ADD_PRODUCTS(total, a, b) _mm256_add_epi32(total, _mm256_madd_epi16(a, b))
static inline i64 sum_lanes(vector sums) {
    __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(sums));
    __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(sums, 1));
    i64 found[4];
    _mm256_storeu_si256((__m256i *)found, _mm256_add_epi64(low, high));
    return (found[0] + found[1]) + (found[2] + found[3]);
}
#else
enum { LANES = 16 };
#endif

#if defined(ADD_PRODUCTS)
/* Sums of one row of weights, for two samples. */
typedef struct {
    vector a, b;
} pair;

static inline pair add_row(pair sums, vector a, vector b, const int16_t *weights) {
    vector factors = LOAD(weights);
    /* Held in a register: else the compiler reads the factors twice. */
    __asm__("" : "+v"(factors));
    return (pair){ADD_PRODUCTS(sums.a, a, factors), ADD_PRODUCTS(sums.b, b, factors)};
}
#endif

static inline void multiply(const int16_t *one, const int16_t *other, const int16_t *weights,
                            i64 stride, i64 size, i64 *first_sums, i64 *second_sums) {
#if defined(ADD_PRODUCTS)
    /* Variables, not an array: that would be stored in every step. */
    pair p0 = {{0}}, p1 = p0, p2 = p0, p3 = p0;
    for (i64 at = 0; at < size * LANES; at += LANES) {
        vector a = LOAD(one + at), b = LOAD(other + at);
        p0 = add_row(p0, a, b, weights + at);
        p1 = add_row(p1, a, b, weights + stride + at);
        p2 = add_row(p2, a, b, weights + 2 * stride + at);
        p3 = add_row(p3, a, b, weights + 3 * stride + at);
    }
    pair sums[ROWS] = {p0, p1, p2, p3};
    for (int r = 0; r < ROWS; r++) {
        first_sums[r] += sum_lanes(sums[r].a);
        second_sums[r] += sum_lanes(sums[r].b);
    }
#else
    for (int r = 0; r < ROWS; r++) {
        const int16_t *factors = weights + r * stride;
        int32_t a[8] = {0}, b[8] = {0};
        for (i64 k = 0; k < size * LANES; k++) {
            a[k % 8] += (int32_t)one[k] * factors[k];
            b[k % 8] += (int32_t)other[k] * factors[k];
        }
        for (int k = 0; k < 8; k++) {
            first_sums[r] += a[k];
            second_sums[r] += b[k];
        }
    }
#endif
}

/* scores[s, c] += step * sum_k dense[s, left + k] * weight[k, c], samples first to last in pieces of
 * PIECE. weights is (rows, columns): low and high halves of each class in turn, rows a multiple of
 * ROWS; sums has (PIECE + 1) * rows entries. In `depth` vectors no sum of 32 bits overflows; in PASS
 * columns the weights and the codes of a piece stay in L1. */
enum { PIECE = 32, PASS = 512 };

KERNEL(add_scores)(const int16_t *restrict dense, i64 samples, i64 width, i64 left,
                   const int16_t *restrict weights, i64 rows, i64 columns, i64 depth, double step,
                   double *restrict scores, i64 classes, i64 *restrict sums, i64 first, i64 last) {
    i64 vectors = columns / LANES;
    depth = least(depth, PASS / LANES);
    for (i64 piece = first; piece < last; piece++) {
        i64 begin = piece * PIECE, end = least(samples, begin + PIECE);
        /* The row after the last sample's is for its double, where there is an odd one out. */
        memset(sums, 0, (size_t)((end - begin + 1) * rows) * sizeof *sums);
        for (i64 vector = 0; vector < vectors; vector += depth) {
            i64 size = least(depth, vectors - vector), at = vector * LANES;
            for (i64 row = 0; row < rows; row += ROWS)
                for (i64 sample = begin; sample < end; sample += SAMPLES) {
                    i64 *own = sums + (sample - begin) * rows + row;
                    multiply(dense + sample * width + left + at,
                             dense + least(sample + 1, end - 1) * width + left + at,
                             weights + row * columns + at, columns, size, own, own + rows);
                }
        }
        for (i64 sample = begin; sample < end; sample++) {
            i64 *own = sums + (sample - begin) * rows;
            for (i64 column = vectors * LANES; column < columns; column++)
                for (i64 row = 0; row < rows; row++)
                    own[row] += (i64)dense[sample * width + left + column] * weights[row * columns + column];
            for (i64 c = 0; c < classes; c++)
                scores[sample * classes + c] += (double)(own[2 * c + 1] * (1 << PART_BITS) + own[2 * c]) * step;
        }
    }
}
