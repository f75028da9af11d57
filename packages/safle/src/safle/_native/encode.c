/* Features -> codes.
 *
 * encode_rows: digits are kept function-major (function l of feature f at l * feature_dim + f), so
 * that the comparisons of a row are contiguous. Limit: one byte-sized gather a digit, about one a
 * cycle. encode_units: a unit is a sum of a few rows of sixteen samples, one addition from L1 or L2
 * each; sixteen units by sixteen samples are transposed and stored. Limit: one addition a cycle.
 * Everything rounds as IEEE says, in float64, also for float32 features: no contraction. */
#include "native.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum { LEVEL_OF = 0, EQUALS = 1, EXCEEDS = 2, MAX_DENSE = 32767, LANES = 16, ROWS_A_PIECE = 64, USUAL_TERMS = 16 };

/* Scale a row so that its length is at most `longest`, in integers. */
static void shorten(int16_t *row, i64 dim, i64 longest) {
    i64 power = 0;
    for (i64 f = 0; f < dim; f++) power += (i64)row[f] * row[f];
    /* Below 2^52, the float's root is a whole number only if the true one is. */
    i64 length = (i64)ceil(sqrt((double)power));
    if (length <= longest) return;
    for (i64 f = 0; f < dim; f++) {
        i64 share = (row[f] < 0 ? -(i64)row[f] : row[f]) * longest / length;
        row[f] = (int16_t)(row[f] < 0 ? -share : share);
    }
}

#define T f4
#include "features.inc"
#define T f8
#include "features.inc"
#define T f4
#define S u1
#include "encode_rows.inc"
#define T f4
#define S u2
#include "encode_rows.inc"
#define T f8
#define S u1
#include "encode_rows.inc"
#define T f8
#define S u2
#include "encode_rows.inc"

typedef int16_t halves __attribute__((vector_size(32)));
typedef int16_t loose_halves __attribute__((vector_size(32), aligned(2)));

/* The code of one unit for sixteen samples: 16-bit sums where they cannot overflow, else 32-bit. */
static inline void unit_narrow(halves *code, const int16_t *table, const uint32_t *rows, i64 terms, i64 shift,
                                 i64 largest) {
    halves total = (halves){0} + (int16_t)((1 << shift) >> 1), limit = (halves){0} + (int16_t)largest;
    for (i64 t = 0; t < terms; t++) total += *(const loose_halves *)(table + rows[t]);
    total >>= (int16_t)shift;
    total &= total > 0;
    halves above = total > limit;
    *code = (total & ~above) | (limit & above);
}

static inline void unit_wide(halves *code, const int16_t *table, const uint32_t *rows, i64 terms, i64 shift,
                               i64 largest) {
    int32_t totals[LANES];
    for (int k = 0; k < LANES; k++) totals[k] = (1 << shift) >> 1;
    for (i64 t = 0; t < terms; t++)
        for (int k = 0; k < LANES; k++) totals[k] += table[rows[t] + k];
    for (int k = 0; k < LANES; k++) {
        i64 value = totals[k] >> shift;
        (*code)[k] = (int16_t)(value < 0 ? 0 : value > largest ? largest : value);
    }
}

/* Sixteen vectors of sixteen lanes, rows and columns exchanged, then row k to target + k * stride. */
static inline void store_transposed(const halves *units, int16_t *target, i64 stride) {
#if defined(__AVX2__)
    __m256i a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = (__m256i)units[i];
    for (int i = 0; i < 8; i++) {
        b[2 * i] = _mm256_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm256_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = _mm256_unpacklo_epi32(b[i + j], b[i + j + 2]);
            a[i + 2 * j + 1] = _mm256_unpackhi_epi32(b[i + j], b[i + j + 2]);
        }
    for (int i = 0; i < 16; i += 8)
        for (int j = 0; j < 4; j++) {
            b[i + 2 * j] = _mm256_unpacklo_epi64(a[i + j], a[i + j + 4]);
            b[i + 2 * j + 1] = _mm256_unpackhi_epi64(a[i + j], a[i + j + 4]);
        }
    for (int k = 0; k < 8; k++) {
        _mm256_storeu_si256((__m256i *)(target + k * stride), _mm256_permute2x128_si256(b[k], b[k + 8], 0x20));
        _mm256_storeu_si256((__m256i *)(target + (k + 8) * stride), _mm256_permute2x128_si256(b[k], b[k + 8], 0x31));
    }
#else
    for (int k = 0; k < LANES; k++)
        for (int u = 0; u < LANES; u++) target[k * stride + u] = units[u][k];
#endif
}

/* dense[:, dim + 1 + j] = min(largest, max(0, sum_t +-dense[:, f(j, t)]) / 2^shift), rounded.
 *
 * rows is (units rounded up to LANES, terms): where a term's row begins in the table of the features
 * of sixteen samples, their negatives and a zero. Pieces are sixteen samples; `table` has
 * (2 dim + 1) * LANES entries. */
KERNEL(encode_units)(int16_t *restrict dense, i64 samples, i64 width, i64 dim, i64 units,
                     const uint32_t *restrict rows, i64 terms, i64 shift, i64 largest,
                     int16_t *restrict table, i64 first, i64 last) {
    for (i64 piece = first; piece < last; piece++) {
        i64 origin = piece * LANES, count = least(LANES, samples - origin), reach = 0;
        memset(table, 0, (size_t)((2 * dim + 1) * LANES) * sizeof *table);
        for (i64 lane = 0; lane < count; lane++)
            for (i64 f = 0; f < dim; f++) {
                int16_t value = dense[(origin + lane) * width + f];
                table[f * LANES + lane] = value;
                table[(dim + f) * LANES + lane] = (int16_t)-value;
                reach = most(reach, value < 0 ? -(i64)value : value);
            }
        int wide = reach * terms + ((1 << shift) >> 1) > MAX_DENSE || shift >= 15;
        for (i64 unit = 0; unit < units; unit += LANES) {
            halves codes[LANES];
            int16_t *target = dense + origin * width + dim + 1 + unit, few[LANES * LANES];
            for (i64 k = 0; k < LANES; k++) {
                const uint32_t *own = rows + (unit + k) * terms;
                if (wide)
                    unit_wide(codes + k, table, own, terms, shift, largest);
                else if (terms == USUAL_TERMS) /* A loop of known length, unrolled. */
                    unit_narrow(codes + k, table, own, USUAL_TERMS, shift, largest);
                else
                    unit_narrow(codes + k, table, own, terms, shift, largest);
            }
            if (count == LANES && unit + LANES <= units) {
                store_transposed(codes, target, width);
                continue;
            }
            /* The last units of a row, and the last samples, must not spill into others. */
            store_transposed(codes, few, LANES);
            for (i64 lane = 0; lane < count; lane++)
                memcpy(target + lane * width, few + lane * LANES,
                       (size_t)least(LANES, units - unit) * sizeof *few);
        }
    }
}

/* The last columns of dense: min(largest, max(0, (factor * z_i * z_j + offset) / 2^shift)), rounded
 * down. Limit: two loads of a coordinate for each of them. The sum is less than 2^31. */
KERNEL(multiply_pairs)(const int16_t *restrict coordinates, i64 k, const int32_t *restrict pairs,
                       const int32_t *restrict factors, const int32_t *restrict offsets, i64 units, i64 shift,
                       i64 largest, int16_t *restrict dense, i64 width, i64 first, i64 last) {
    int32_t limit = (int32_t)largest;
    for (i64 sample = first; sample < last; sample++) {
        const int16_t *restrict z = coordinates + sample * k;
        int16_t *restrict codes = dense + (sample + 1) * width - units;
        for (i64 u = 0; u < units; u++) {
            int32_t sum = (int32_t)z[pairs[2 * u]] * z[pairs[2 * u + 1]] * factors[u] + offsets[u];
            sum >>= shift;
            codes[u] = (int16_t)(sum < 0 ? 0 : sum > limit ? limit : sum);
        }
    }
}
