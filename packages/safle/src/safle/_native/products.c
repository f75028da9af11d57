/* Sums of products of integer columns, one triangle of them: gram[i, j] += sum_s x_si x_sj.
 *
 * Layout: columns lie in panels. Of four samples (two, as int16) a column's values are one 32-bit
 * word, and the words of PANEL columns lie side by side; the words of one group of samples are a
 * step. A step multiplies each word of ROWS columns, spread over a vector, by vectors of columns.
 *
 * AVX-512 VNNI multiplies 64 pairs of bytes and adds fours into 32 bits; AVX2 multiplies 32 and adds
 * neighbours into 16 bits, which few-bit codes fill only after many steps (`depth` says how many);
 * as int16 both multiply pairs into 32 bits. A float32 multiply-add of AVX2 has 8 products.
 * Limit: two multiplications a cycle, and with AVX2 as many additions. */
#include "native.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum { PANEL = 48, TILE = 3 * PANEL, MOST_DEPTH = 96 };

/* Words of `per_word` samples into panels (panels, groups, PANEL), groups first to last; what is
 * not there is zero. */
KERNEL(pack)(const int16_t *restrict dense, i64 samples, i64 dim, i64 per_word,
             uint32_t *restrict panels, i64 panel_count, i64 groups, i64 first, i64 last) {
    uint32_t bits = 32 / (uint32_t)per_word, mask = 0xFFFFFFFFu >> (32 - bits);
    for (i64 group = first; group < last; group++)
        for (i64 panel = 0; panel < panel_count; panel++) {
            uint32_t *restrict words = panels + (panel * groups + group) * PANEL;
            i64 left = panel * PANEL, width = most(0, least(PANEL, dim - left));
            memset(words, 0, PANEL * sizeof *words);
            for (i64 k = 0; k < least(per_word, samples - group * per_word); k++) {
                const int16_t *restrict row = dense + (group * per_word + k) * dim + left;
                uint32_t shift = (uint32_t)k * bits;
                for (i64 c = 0; c < width; c++) words[c] |= ((uint32_t)row[c] & mask) << shift;
            }
        }
}

/* tile[r, c] += sum over `depth` steps of the products of words left[r] and right[c], for ROWS rows
 * and COLUMNS columns. */
#if defined(__AVX512VNNI__)
enum { ROWS = 8, LANES = 16, VECTORS = 3, COLUMNS = VECTORS * LANES };

#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define DECLARE(r)                                                                                \
    __m512i a##r = _mm512_setzero_si512(), b##r = _mm512_setzero_si512(), c##r = _mm512_setzero_si512();
#define HOLD(r) __asm__("" : "+v"(a##r), "+v"(b##r), "+v"(c##r));
#define STEP(r, dot)                                                                              \
    spread = _mm512_set1_epi32((int)left[r]);                                                     \
    a##r = dot(a##r, one, spread);                                                                \
    b##r = dot(b##r, two, spread);                                                                \
    c##r = dot(c##r, three, spread);                                                              \
    HOLD(r)
#define STEP_WIDE(r) STEP(r, _mm512_dpwssd_epi32)
#define STEP_NARROW(r) STEP(r, _mm512_dpbusd_epi32)
#define ADD(r)                                                                                    \
    add_lanes(tile + r * TILE, a##r);                                                             \
    add_lanes(tile + r * TILE + LANES, b##r);                                                     \
    add_lanes(tile + r * TILE + 2 * LANES, c##r);

static inline void add_lanes(i64 *target, __m512i sums) {
    __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(sums));
    __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(sums, 1));
    _mm512_storeu_si512(target, _mm512_add_epi64(_mm512_loadu_si512(target), low));
    _mm512_storeu_si512(target + 8, _mm512_add_epi64(_mm512_loadu_si512(target + 8), high));
}

static inline void multiply(const uint32_t *left, const uint32_t *right, i64 depth, i64 *tile, int wide) {
    __m512i spread;
    EACH_ROW(DECLARE)
    for (i64 step = 0; step < depth; step++, left += PANEL, right += PANEL) {
        __m512i one = _mm512_loadu_si512(right), two = _mm512_loadu_si512(right + LANES);
        __m512i three = _mm512_loadu_si512(right + 2 * LANES);
        if (wide) {
            EACH_ROW(STEP_WIDE)
        } else {
            EACH_ROW(STEP_NARROW)
        }
    }
    EACH_ROW(ADD)
}
#elif defined(__AVX2__)
/* Twelve sums, two vectors, the spread word and a product: all sixteen registers. The sums have names,
 * since compilers keep arrays of vectors in memory. */
enum { ROWS = 6, LANES = 8, VECTORS = 2, COLUMNS = VECTORS * LANES };

/* Keeps a row's sums in their registers: without it GCC renames them in every step, and spills. */
#define HOLD(r) __asm__("" : "+x"(a##r), "+x"(b##r));
#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
#define DECLARE(r) __m256i a##r = _mm256_setzero_si256(), b##r = _mm256_setzero_si256();
#define STEP_WIDE(r)                                                                              \
    spread = _mm256_set1_epi32((int)left[r]);                                                     \
    a##r = _mm256_add_epi32(a##r, _mm256_madd_epi16(one, spread));                                \
    b##r = _mm256_add_epi32(b##r, _mm256_madd_epi16(other, spread));                              \
    HOLD(r)
#define STEP_NARROW(r)                                                                            \
    spread = _mm256_set1_epi32((int)left[r]);                                                     \
    a##r = _mm256_add_epi16(a##r, _mm256_maddubs_epi16(one, spread));                             \
    b##r = _mm256_add_epi16(b##r, _mm256_maddubs_epi16(other, spread));                           \
    HOLD(r)
#define WIDEN(r)                                                                                  \
    a##r = _mm256_madd_epi16(a##r, _mm256_set1_epi16(1));                                         \
    b##r = _mm256_madd_epi16(b##r, _mm256_set1_epi16(1));
#define ADD(r)                                                                                    \
    add_lanes(tile + r * TILE, a##r);                                                             \
    add_lanes(tile + r * TILE + LANES, b##r);

static inline void add_lanes(i64 *target, __m256i sums) {
    __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(sums));
    __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(sums, 1));
    __m256i *places = (__m256i *)target;
    _mm256_storeu_si256(places, _mm256_add_epi64(_mm256_loadu_si256(places), low));
    _mm256_storeu_si256(places + 1, _mm256_add_epi64(_mm256_loadu_si256(places + 1), high));
}

static inline void multiply(const uint32_t *left, const uint32_t *right, i64 depth, i64 *tile, int wide) {
    __m256i spread;
    EACH_ROW(DECLARE)
    for (i64 step = 0; step < depth; step++, left += PANEL, right += PANEL) {
        __m256i one = _mm256_loadu_si256((const __m256i *)right);
        __m256i other = _mm256_loadu_si256((const __m256i *)(right + LANES));
        if (wide) {
            EACH_ROW(STEP_WIDE)
        } else {
            EACH_ROW(STEP_NARROW)
        }
    }
    if (!wide) {
        EACH_ROW(WIDEN)
    }
    EACH_ROW(ADD)
}
#else
/* Loops that a compiler vectorises with whatever the machine has. */
enum { ROWS = 4, COLUMNS = 16 };

static inline void multiply(const uint32_t *left, const uint32_t *right, i64 depth, i64 *tile, int wide) {
    int32_t totals[ROWS][COLUMNS] = {{0}};
    for (i64 step = 0; step < depth; step++, left += PANEL, right += PANEL) {
        int16_t own[4][ROWS], others[4][COLUMNS];
        int parts = wide ? 2 : 4, bits = 32 / parts;
        for (int p = 0; p < parts; p++) {
            for (int r = 0; r < ROWS; r++)
                own[p][r] = wide ? (int16_t)(left[r] >> (bits * p)) : (int16_t)((left[r] >> (bits * p)) & 255);
            for (int c = 0; c < COLUMNS; c++)
                others[p][c] = wide ? (int16_t)(right[c] >> (bits * p)) : (int16_t)((right[c] >> (bits * p)) & 255);
        }
        for (int p = 0; p < parts; p++)
            for (int r = 0; r < ROWS; r++)
                for (int c = 0; c < COLUMNS; c++) totals[r][c] += own[p][r] * others[p][c];
    }
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) tile[r * TILE + c] += totals[r][c];
}
#endif

static inline const uint32_t *step_at(const uint32_t *panels, i64 groups, i64 group, i64 column) {
    return panels + (column / PANEL * groups + group) * PANEL + column % PANEL;
}

static inline void fill_tile(const uint32_t *panels, i64 groups, int wide, i64 top, i64 left, i64 depth,
                             i64 *tile) {
    memset(tile, 0, TILE * TILE * sizeof *tile);
    for (i64 first = 0; first < groups; first += depth) {
        i64 size = least(depth, groups - first);
        for (i64 column = 0; column < TILE; column += COLUMNS)
            for (i64 row = 0; row < TILE; row += ROWS) {
                if (top == left && row >= column + COLUMNS) break;
                multiply(step_at(panels, groups, first, top + row), step_at(panels, groups, first, left + column),
                         size, tile + row * TILE + column, wide);
            }
    }
}

/* Add the products of pairs of tiles to a packed triangle. pairs is (pairs, 3): upper tile, left
 * tile, and how many steps may be added before a sum could leave its 16 or 32 bits; `tile` has
 * TILE * TILE entries. */
#define ADD_TILES(T, t)                                                                           \
    KERNEL_OF(add_tiles, t)(const uint32_t *panels, i64 groups, i64 wide, const i64 *pairs,       \
                            T *restrict gram, i64 dim, i64 *restrict tile, i64 first, i64 last) { \
        for (i64 index = first; index < last; index++) {                                          \
            i64 top = pairs[3 * index] * TILE, left = pairs[3 * index + 1] * TILE;                \
            i64 depth = least(pairs[3 * index + 2], MOST_DEPTH);                                  \
            if (wide)                                                                             \
                fill_tile(panels, groups, 1, top, left, depth, tile);                             \
            else                                                                                  \
                fill_tile(panels, groups, 0, top, left, depth, tile);                             \
            for (i64 row = 0; row < least(TILE, dim - top); row++) {                              \
                i64 skipped = most(0, top + row - left), width = least(TILE, dim - left);         \
                T *restrict target = gram + start(top + row, dim) + left;                         \
                for (i64 k = skipped; k < width; k++) target[k] += (T)tile[row * TILE + k];       \
            }                                                                                     \
        }                                                                                         \
    }
ADD_TILES(int32_t, i4)
ADD_TILES(int64_t, i8)
