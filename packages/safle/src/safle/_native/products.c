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

enum { PANEL = 48, TILE = 3 * PANEL, MAX_DEPTH = 96 };

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

/* Sums of one row. */
typedef struct {
    __m512i a, b, c;
} sums;

/* One step of a row: its word, spread, by three vectors of columns. */
static inline sums add_step(sums own, sums columns, uint32_t word, int wide) {
    __m512i spread = _mm512_set1_epi32((int)word);
    own.a = wide ? _mm512_dpwssd_epi32(own.a, columns.a, spread) : _mm512_dpbusd_epi32(own.a, columns.a, spread);
    own.b = wide ? _mm512_dpwssd_epi32(own.b, columns.b, spread) : _mm512_dpbusd_epi32(own.b, columns.b, spread);
    own.c = wide ? _mm512_dpwssd_epi32(own.c, columns.c, spread) : _mm512_dpbusd_epi32(own.c, columns.c, spread);
    /* Keeps the sums in their registers. */
    __asm__("" : "+v"(own.a), "+v"(own.b), "+v"(own.c));
    return own;
}

static inline void add_lanes(i64 *target, __m512i sums) {
    __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(sums));
    __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(sums, 1));
    _mm512_storeu_si512(target, _mm512_add_epi64(_mm512_loadu_si512(target), low));
    _mm512_storeu_si512(target + 8, _mm512_add_epi64(_mm512_loadu_si512(target + 8), high));
}

static inline void multiply(const uint32_t *left, const uint32_t *right, i64 depth, i64 *tile, int wide) {
    __m512i zero = _mm512_setzero_si512();
    sums r0 = {zero, zero, zero}, r1 = r0, r2 = r0, r3 = r0, r4 = r0, r5 = r0, r6 = r0, r7 = r0;
    for (i64 step = 0; step < depth; step++, left += PANEL, right += PANEL) {
        sums columns = {_mm512_loadu_si512(right), _mm512_loadu_si512(right + LANES),
                        _mm512_loadu_si512(right + 2 * LANES)};
        r0 = add_step(r0, columns, left[0], wide);
        r1 = add_step(r1, columns, left[1], wide);
        r2 = add_step(r2, columns, left[2], wide);
        r3 = add_step(r3, columns, left[3], wide);
        r4 = add_step(r4, columns, left[4], wide);
        r5 = add_step(r5, columns, left[5], wide);
        r6 = add_step(r6, columns, left[6], wide);
        r7 = add_step(r7, columns, left[7], wide);
    }
    sums rows[ROWS] = {r0, r1, r2, r3, r4, r5, r6, r7};
    for (int r = 0; r < ROWS; r++) {
        add_lanes(tile + r * TILE, rows[r].a);
        add_lanes(tile + r * TILE + LANES, rows[r].b);
        add_lanes(tile + r * TILE + 2 * LANES, rows[r].c);
    }
}
#elif defined(__AVX2__)
/* Twelve sums, two vectors, the spread word and a product: all sixteen registers. The sums have names,
 * since compilers keep arrays of vectors in memory. */
enum { ROWS = 6, LANES = 8, VECTORS = 2, COLUMNS = VECTORS * LANES };

/* Sums of one row. */
typedef struct {
    __m256i a, b;
} sums;

/* One step of a row: its word, spread, by two vectors of columns. */
static inline sums add_step(sums own, sums columns, uint32_t word, int wide) {
    __m256i spread = _mm256_set1_epi32((int)word);
    if (wide) {
        own.a = _mm256_add_epi32(own.a, _mm256_madd_epi16(columns.a, spread));
        own.b = _mm256_add_epi32(own.b, _mm256_madd_epi16(columns.b, spread));
    } else {
        own.a = _mm256_add_epi16(own.a, _mm256_maddubs_epi16(columns.a, spread));
        own.b = _mm256_add_epi16(own.b, _mm256_maddubs_epi16(columns.b, spread));
    }
    /* Keeps the sums in their registers: without it GCC renames them in every step, and spills. */
    __asm__("" : "+x"(own.a), "+x"(own.b));
    return own;
}

/* Sums of 16 bits as sums of 32. */
static inline __m256i widen(__m256i narrow) { return _mm256_madd_epi16(narrow, _mm256_set1_epi16(1)); }

static inline void add_lanes(i64 *target, __m256i sums) {
    __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(sums));
    __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(sums, 1));
    __m256i *places = (__m256i *)target;
    _mm256_storeu_si256(places, _mm256_add_epi64(_mm256_loadu_si256(places), low));
    _mm256_storeu_si256(places + 1, _mm256_add_epi64(_mm256_loadu_si256(places + 1), high));
}

static inline void multiply(const uint32_t *left, const uint32_t *right, i64 depth, i64 *tile, int wide) {
    __m256i zero = _mm256_setzero_si256();
    sums r0 = {zero, zero}, r1 = r0, r2 = r0, r3 = r0, r4 = r0, r5 = r0;
    for (i64 step = 0; step < depth; step++, left += PANEL, right += PANEL) {
        sums columns = {_mm256_loadu_si256((const __m256i *)right),
                        _mm256_loadu_si256((const __m256i *)(right + LANES))};
        r0 = add_step(r0, columns, left[0], wide);
        r1 = add_step(r1, columns, left[1], wide);
        r2 = add_step(r2, columns, left[2], wide);
        r3 = add_step(r3, columns, left[3], wide);
        r4 = add_step(r4, columns, left[4], wide);
        r5 = add_step(r5, columns, left[5], wide);
    }
    sums rows[ROWS] = {r0, r1, r2, r3, r4, r5};
    for (int r = 0; r < ROWS; r++) {
        add_lanes(tile + r * TILE, wide ? rows[r].a : widen(rows[r].a));
        add_lanes(tile + r * TILE + LANES, wide ? rows[r].b : widen(rows[r].b));
    }
}
#else
/* Loops that a compiler vectorises for any machine. */
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

#define G i4
#include "add_tiles.inc"
#define G i8
#include "add_tiles.inc"
