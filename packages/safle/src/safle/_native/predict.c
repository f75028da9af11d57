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

typedef int32_t four __attribute__((vector_size(16)));
typedef int32_t eight __attribute__((vector_size(32)));
typedef int32_t loose_four __attribute__((vector_size(16), aligned(4)));
typedef int32_t loose_eight __attribute__((vector_size(32), aligned(4)));

/* scores[s, :] += sum_e tables[bases[e] + symbols[s, e], :]; pieces of CHUNK samples; width is a
 * multiple of 4. Samples inside experts: a few tables stay in L1 for all samples of a piece. */
#define ADD_LANES(FIRST, FIRST_LANES, SECOND, SECOND_LANES)                                       \
    do {                                                                                          \
        FIRST a = {0};                                                                            \
        SECOND b = {0};                                                                           \
        for (i64 e = begin; e < end; e++) {                                                       \
            const int32_t *row = tables + (bases[e] + own[e]) * width + lane;                     \
            a += *(const loose_##FIRST *)row;                                                     \
            if (SECOND_LANES) b += *(const loose_##SECOND *)(row + FIRST_LANES);                  \
        }                                                                                         \
        for (int k = 0; k < FIRST_LANES; k++) scores[sample * width + lane + k] += a[k];          \
        for (int k = 0; k < SECOND_LANES; k++)                                                    \
            scores[sample * width + lane + FIRST_LANES + k] += b[k];                              \
    } while (0)

#define LOOK_UP(S, s)                                                                             \
    KERNEL_OF(look_up, s)(const S *restrict symbols, i64 samples, const i64 *restrict bases,      \
                          i64 experts, const int32_t *restrict tables, i64 width,                 \
                          i64 *restrict scores, i64 first, i64 last) {                            \
        i64 stop = least(samples, last * CHUNK);                                                  \
        for (i64 chunk = first * CHUNK; chunk < stop; chunk += CHUNK)                             \
            for (i64 begin = 0; begin < experts; begin += ROWS_PER_WORD) {                        \
                i64 end = least(experts, begin + ROWS_PER_WORD);                                  \
                for (i64 sample = chunk; sample < least(stop, chunk + CHUNK); sample++) {         \
                    const S *own = symbols + sample * experts;                                    \
                    i64 lane = 0;                                                                 \
                    for (; lane + 16 <= width; lane += 16) ADD_LANES(eight, 8, eight, 8);         \
                    switch (width - lane) {                                                       \
                        case 12: ADD_LANES(eight, 8, four, 4); break;                             \
                        case 8: ADD_LANES(eight, 8, four, 0); break;                              \
                        case 4: ADD_LANES(four, 4, four, 0); break;                               \
                    }                                                                             \
                }                                                                                 \
            }                                                                                     \
    }
LOOK_UP(uint8_t, u1)
LOOK_UP(uint16_t, u2)

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

/* Held in a register: else the compiler reads the factors twice. */
#define MULTIPLY_ROW(r)                                                                           \
    do {                                                                                          \
        vector factors = LOAD(weights + (r) * stride + at);                                       \
        __asm__("" : "+v"(factors));                                                              \
        a##r = ADD_PRODUCTS(a##r, a, factors);                                                    \
        b##r = ADD_PRODUCTS(b##r, b, factors);                                                    \
    } while (0)

static inline void multiply(const int16_t *one, const int16_t *other, const int16_t *weights,
                            i64 stride, i64 size, i64 *first_sums, i64 *second_sums) {
#if defined(ADD_PRODUCTS)
    /* Variables, not an array: that would be stored in every step. */
    vector a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
    for (i64 at = 0; at < size * LANES; at += LANES) {
        vector a = LOAD(one + at), b = LOAD(other + at);
        MULTIPLY_ROW(0);
        MULTIPLY_ROW(1);
        MULTIPLY_ROW(2);
        MULTIPLY_ROW(3);
    }
    vector totals[2 * ROWS] = {a0, a1, a2, a3, b0, b1, b2, b3};
    for (int r = 0; r < ROWS; r++) {
        first_sums[r] += sum_lanes(totals[r]);
        second_sums[r] += sum_lanes(totals[ROWS + r]);
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
