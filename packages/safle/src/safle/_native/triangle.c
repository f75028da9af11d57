/* Symmetric integer matrices as packed upper triangles: added, cut out, multiplied.
 *
 * Limit: memory. Each entry is read once and, where it is added to, written once. */
#include "native.h"

/* target[positions_i, positions_j] += sign * source[i, j], rows first to last, whole runs of
 * neighbouring columns at a time: run r ends before column run_ends[r], run_of is a row's first. */
#define ADD_RUNS(T, t, S, s)                                                                      \
    KERNEL_OF(add_runs_##t, s)(T *restrict target, i64 target_dim, const S *restrict source,      \
                               i64 dim, const i64 *positions, const i64 *run_of,                  \
                               const i64 *run_ends, i64 runs, i64 sign, i64 first, i64 last) {    \
        for (i64 row = first; row < last; row++) {                                                \
            i64 base = start(positions[row], target_dim), column = row;                           \
            for (i64 run = run_of[row]; run < runs; run++) {                                      \
                i64 size = run_ends[run] - column;                                                \
                T *restrict to = target + base + positions[column];                               \
                const S *restrict from = source + start(row, dim) + column;                       \
                if (sign > 0)                                                                     \
                    for (i64 k = 0; k < size; k++) to[k] += (T)from[k];                           \
                else                                                                              \
                    for (i64 k = 0; k < size; k++) to[k] -= (T)from[k];                           \
                column = run_ends[run];                                                           \
            }                                                                                     \
        }                                                                                         \
    }
ADD_RUNS(int32_t, i4, int32_t, i4)
ADD_RUNS(int32_t, i4, int64_t, i8)
ADD_RUNS(int64_t, i8, int32_t, i4)
ADD_RUNS(int64_t, i8, int64_t, i8)

/* target[i, j] = source[keep_i, keep_j] for ascending keep, rows first to last. */
#define TAKE(T, t)                                                                                \
    KERNEL_OF(take, t)(const T *restrict source, i64 source_dim, const i64 *keep, i64 dim,        \
                       T *restrict target, i64 first, i64 last) {                                 \
        for (i64 row = first; row < last; row++) {                                                \
            const T *from = source + start(keep[row], source_dim);                                \
            T *to = target + start(row, dim);                                                     \
            for (i64 column = row; column < dim; column++) to[column] = from[keep[column]];       \
        }                                                                                         \
    }
TAKE(int32_t, i4)
TAKE(int64_t, i8)

/* columns[row, k] = matrix[row, chosen_k], rows first to last; (dim, chosen) of int64. */
#define GATHER_COLUMNS(S, s)                                                                      \
    KERNEL_OF(gather_columns, s)(const S *restrict packed, i64 dim, const i64 *chosen, i64 count, \
                                 i64 *restrict columns, i64 first, i64 last) {                    \
        for (i64 row = first; row < last; row++)                                                  \
            for (i64 k = 0; k < count; k++)                                                       \
                columns[row * count + k] = packed[place(row, chosen[k], dim)];                    \
    }
GATHER_COLUMNS(int32_t, i4)
GATHER_COLUMNS(int64_t, i8)

/* sums += matrix @ right; share s of the rows, every shares-th group of four from group s on, goes
 * to sums[s]; right is (width, dim), sums (shares, width, dim). Four rows at once: what is read and
 * written beside the entries serves eight multiplications. A block of columns stays in L1. */
enum { COLUMN_BLOCK = 512, LANES = 8 };

#define FOUR(S, s, R, r, A, AS)                                                               \
    static void NAMED3(four_##s, r, LEVEL)(const S *restrict a, const S *restrict b,              \
                                           const S *restrict c, const S *restrict d, i64 size,    \
                                           const R *restrict left, const R *restrict others,      \
                                           A *restrict images, A *restrict own) {                 \
        A la = (A)left[0], lb = (A)left[1], lc = (A)left[2], ld = (A)left[3];                     \
        A ta[LANES] = {0}, tb[LANES] = {0}, tc[LANES] = {0}, td[LANES] = {0};                     \
        i64 j = 0;                                                                                \
        for (; j + LANES <= size; j += LANES)                                                     \
            for (int k = 0; k < LANES; k++) {                                                     \
                A other = (A)others[j + k], pa = AS(a[j + k]), pb = AS(b[j + k]),                 \
                  pc = AS(c[j + k]), pd = AS(d[j + k]);                                           \
                ta[k] += pa * other;                                                              \
                tb[k] += pb * other;                                                              \
                tc[k] += pc * other;                                                              \
                td[k] += pd * other;                                                              \
                images[j + k] += (pa * la + pb * lb) + (pc * lc + pd * ld);                       \
            }                                                                                     \
        for (; j < size; j++) {                                                                   \
            A other = (A)others[j], pa = AS(a[j]), pb = AS(b[j]), pc = AS(c[j]), pd = AS(d[j]);   \
            ta[0] += pa * other;                                                                  \
            tb[0] += pb * other;                                                                  \
            tc[0] += pc * other;                                                                  \
            td[0] += pd * other;                                                                  \
            images[j] += (pa * la + pb * lb) + (pc * lc + pd * ld);                               \
        }                                                                                         \
        for (int k = 0; k < LANES; k++) {                                                         \
            own[0] += ta[k];                                                                      \
            own[1] += tb[k];                                                                      \
            own[2] += tc[k];                                                                      \
            own[3] += td[k];                                                                      \
        }                                                                                         \
    }
FOUR(float, f4, double, f8, double, (double))
FOUR(int32_t, i4, double, f8, double, real_of_i4)
FOUR(int64_t, i8, double, f8, double, real_of_i8)
FOUR(int32_t, i4, int32_t, i4, uint64_t, (uint64_t))
FOUR(int64_t, i8, int32_t, i4, uint64_t, (uint64_t))

typedef double reals __attribute__((vector_size(32)));
typedef double loose_reals __attribute__((vector_size(32), aligned(8)));

/* The same of aligned doubles. */
static void NAMED2(four_reals, LEVEL)(const reals *a, const reals *b, const reals *c, const reals *d, i64 size,
                                      const double *left, const double *others, double *images, double *own) {
    reals la = (reals){0} + left[0], lb = (reals){0} + left[1], lc = (reals){0} + left[2], ld = (reals){0} + left[3];
    reals ta = {0}, tb = {0}, tc = {0}, td = {0};
    i64 v = 0;
    for (; 4 * v + 4 <= size; v++) {
        reals other = *(const loose_reals *)(others + 4 * v), pa = a[v], pb = b[v], pc = c[v], pd = d[v];
        ta += pa * other;
        tb += pb * other;
        tc += pc * other;
        td += pd * other;
        *(loose_reals *)(images + 4 * v) += (pa * la + pb * lb) + (pc * lc + pd * ld);
    }
    for (i64 j = 4 * v; j < size; j++) {
        int k = (int)(j - 4 * v);
        ta[k] += a[v][k] * others[j];
        tb[k] += b[v][k] * others[j];
        tc[k] += c[v][k] * others[j];
        td[k] += d[v][k] * others[j];
        images[j] += (a[v][k] * la[0] + b[v][k] * lb[0]) + (c[v][k] * lc[0] + d[v][k] * ld[0]);
    }
    own[0] += (ta[0] + ta[1]) + (ta[2] + ta[3]);
    own[1] += (tb[0] + tb[1]) + (tb[2] + tb[3]);
    own[2] += (tc[0] + tc[1]) + (tc[2] + tc[3]);
    own[3] += (td[0] + td[1]) + (td[2] + td[3]);
}

/* WIDEN: for several columns, four rows' entries become doubles once for all of them. Integers stay as
 * they are: products of 32 bits are cheaper than of 64. */
#define MULTIPLY(S, s, R, r, A, AS, WIDEN)                                                        \
    static void NAMED3(near_##s, r, LEVEL)(const S *packed, i64 dim, i64 row, i64 last,           \
                                           const R *restrict right, A *restrict sums) {           \
        const S *entries = packed + start(row, dim);                                              \
        A left = (A)right[row], total = AS(entries[row]) * left;                                  \
        for (i64 j = row + 1; j < last; j++) {                                                    \
            total += AS(entries[j]) * (A)right[j];                                                \
            sums[j] += AS(entries[j]) * left;                                                     \
        }                                                                                         \
        sums[row] += total;                                                                       \
    }                                                                                             \
    static void NAMED3(share_##s, r, LEVEL)(const S *packed, i64 dim, const R *right, i64 width,  \
                                            A *sums, i64 share, i64 shares) {                     \
        reals wide[4][COLUMN_BLOCK / 4];                                                          \
        for (i64 first = 0; first < dim; first += COLUMN_BLOCK) {                                 \
            i64 last = least(first + COLUMN_BLOCK, dim);                                          \
            for (i64 row = 4 * share; row < last; row += 4 * shares) {                            \
                i64 low = row < first ? first : least(row + 4, last), size = last - low;          \
                const S *entries[4];                                                              \
                for (int i = 0; i < 4; i++) entries[i] = packed + start(row + i, dim) + low;      \
                if (WIDEN && width > 1)                                                           \
                    for (int i = 0; i < 4; i++)                                                   \
                        for (i64 j = 0; j < size; j++) ((double *)wide[i])[j] = (double)AS(entries[i][j]); \
                for (i64 k = 0; k < width; k++) {                                                 \
                    const R *other = right + k * dim;                                             \
                    A *own = sums + k * dim;                                                      \
                    if (row >= first)                                                             \
                        for (i64 near = row; near < low; near++)                                  \
                            NAMED3(near_##s, r, LEVEL)(packed, dim, near, low, other, own);       \
                    if (size > 0 && WIDEN && width > 1)                                           \
                        NAMED2(four_reals, LEVEL)(wide[0], wide[1], wide[2], wide[3], size,       \
                                                  (const double *)other + row, (const double *)other + low, \
                                                  (double *)own + low, (double *)own + row);      \
                    else if (size > 0)                                                            \
                        NAMED3(four_##s, r, LEVEL)(entries[0], entries[1], entries[2], entries[3], size, \
                                                   other + row, other + low, own + low, own + row); \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
    KERNEL_OF(multiply_##r, s)(const S *packed, i64 dim, const R *right, i64 width, A *sums,      \
                               i64 shares, i64 first, i64 last) {                                 \
        for (i64 share = first; share < last; share++)                                            \
            NAMED3(share_##s, r, LEVEL)                                                           \
        (packed, dim, right, width, sums + share * width * dim, share, shares);                   \
    }
MULTIPLY(float, f4, double, f8, double, (double), 1)
MULTIPLY(int32_t, i4, double, f8, double, real_of_i4, 1)
MULTIPLY(int64_t, i8, double, f8, double, real_of_i8, 1)
/* Modulo 2^64: unsigned, so that nothing is undefined. */
MULTIPLY(int32_t, i4, int32_t, i4, uint64_t, (uint64_t), 0)
MULTIPLY(int64_t, i8, int32_t, i4, uint64_t, (uint64_t), 0)
