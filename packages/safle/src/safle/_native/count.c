/* Co-occurrence counts of codes, exact for any number of threads.
 *
 * Row (a, v) of the gram is the sum of the one-hot rows of the samples whose expert a has value v.
 * Narrow experts are counted by adding rows of 4-bit counters, wide ones by one increment a pair.
 *
 * Layout: a row of counters holds the one-hot codes of one sample for WIDTH columns, column
 * c < HALF in the low nibble of byte c, column HALF + c in its high nibble: fifteen rows add up
 * before a counter may overflow, then the sums are widened to bytes.
 * Limit: a row of 128 bytes is two cache lines; L1 gives one about every 1.3 ns, L2 half of that. */
#include "native.h"

enum { HALF = 128, WIDTH = 2 * HALF, ROWS_PER_NIBBLE = 15, ROWS_PER_BYTE = 255, TILE = 64 };

#if defined(__AVX512F__)
enum { VECTOR = 64 };
#elif defined(__AVX2__)
enum { VECTOR = 32 };
#else
enum { VECTOR = 16 };
#endif
enum { VECTORS = HALF / VECTOR };
typedef uint8_t bytes __attribute__((vector_size(VECTOR)));
typedef uint8_t loose_bytes __attribute__((vector_size(VECTOR), aligned(1)));

#define S u1
#include "symbols.inc"
#define S u2
#include "symbols.inc"

/* Sort each expert's samples by column: order[e, starts[c] : starts[c + 1]] are the samples in
 * column c of expert e; the last column of an expert ends at the sample count. */
KERNEL(group_samples)(const int32_t *restrict columns, i64 samples, const i64 *restrict offsets,
                      uint32_t *restrict order, i64 *restrict starts, i64 *restrict cursor,
                      i64 first, i64 last) {
    for (i64 expert = first; expert < last; expert++) {
        const int32_t *own = columns + expert * samples;
        i64 origin = offsets[expert], size = offsets[expert + 1] - origin;
        /* Each expert has a stretch of its own in cursor, one longer than its columns. */
        i64 *at = cursor + origin + expert;
        memset(at, 0, (size_t)(size + 1) * sizeof *at);
        for (i64 s = 0; s < samples; s++) at[own[s] - origin + 1]++;
        for (i64 value = 0; value < size; value++) {
            at[value + 1] += at[value];
            starts[origin + value] = at[value];
        }
        for (i64 s = 0; s < samples; s++) order[expert * samples + at[own[s] - origin]++] = (uint32_t)s;
    }
}

static inline i64 end_of(const i64 *starts, const i64 *offsets, i64 expert, i64 column, i64 samples) {
    return column + 1 < offsets[expert + 1] ? starts[column + 1] : samples;
}

static void fill_rows(const int32_t *columns, i64 samples, const i64 *offsets, i64 experts, i64 left,
                      uint8_t *rows) {
    memset(rows, 0, (size_t)(samples * HALF));
    for (i64 expert = 0; expert < experts; expert++) {
        if (offsets[expert + 1] <= left || offsets[expert] >= left + WIDTH) continue;
        for (i64 sample = 0; sample < samples; sample++) {
            i64 column = columns[expert * samples + sample] - left;
            if (0 <= column && column < HALF)
                rows[sample * HALF + column] += 1;
            else if (HALF <= column && column < WIDTH)
                rows[sample * HALF + column - HALF] += 16;
        }
    }
}

/* counts[c] = sum over the members of nibble(rows[s], c), as bytes; at most ROWS_PER_BYTE of them. */
static void sum_rows(const uint8_t *restrict rows, const uint32_t *members, i64 count,
                     uint8_t *restrict counts) {
    bytes even[VECTORS], odd[VECTORS], nibbles[VECTORS];
    memset(even, 0, sizeof even);
    memset(odd, 0, sizeof odd);
    for (i64 at = 0; at < count; at += ROWS_PER_NIBBLE) {
        i64 stop = least(count, at + ROWS_PER_NIBBLE);
        const loose_bytes *row = (const loose_bytes *)(rows + (size_t)members[at] * HALF);
        for (int v = 0; v < VECTORS; v++) nibbles[v] = row[v];
        for (i64 next = at + 1; next < stop; next++) {
            row = (const loose_bytes *)(rows + (size_t)members[next] * HALF);
            for (int v = 0; v < VECTORS; v++) nibbles[v] += row[v];
        }
        for (int v = 0; v < VECTORS; v++) {
            even[v] += nibbles[v] & 15;
            odd[v] += nibbles[v] >> 4;
        }
    }
    memcpy(counts, even, HALF);
    memcpy(counts + HALF, odd, HALF);
}

#define G i4
#include "count.inc"
#define G i8
#include "count.inc"

/* cross[column, label] += 1 for every sample and expert; (codes, classes). */
KERNEL(count_labels)(const int32_t *restrict columns, i64 samples, const i64 *restrict labels,
                     i64 classes, i64 *restrict cross, i64 first, i64 last) {
    for (i64 expert = first; expert < last; expert++)
        for (i64 sample = 0; sample < samples; sample++)
            cross[columns[expert * samples + sample] * classes + labels[sample]]++;
}

/* cross[:, c] += the sum of the rows order[ends[c - 1] : ends[c]] of dense, BLOCK columns a piece. */
enum { BLOCK = 512 };

KERNEL(sum_by_class)(const int16_t *restrict dense, i64 dim, const i64 *order, const i64 *ends,
                     i64 classes, i64 *restrict cross, i64 first, i64 last) {
    i64 sums[BLOCK];
    for (i64 piece = first; piece < last; piece++) {
        i64 left = piece * BLOCK, width = least(dim - left, BLOCK), at = 0;
        for (i64 label = 0; label < classes; label++) {
            if (at == ends[label]) continue;
            memset(sums, 0, sizeof sums);
            for (; at < ends[label]; at++) {
                const int16_t *restrict row = dense + order[at] * dim + left;
                for (i64 k = 0; k < width; k++) sums[k] += row[k];
            }
            for (i64 k = 0; k < width; k++) cross[(left + k) * classes + label] += sums[k];
        }
    }
}
