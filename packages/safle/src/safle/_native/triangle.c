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
#define TAKE(T, t, S, s)                                                                          \
    KERNEL_OF(take_##t, s)(const S *restrict source, i64 source_dim, const i64 *keep, i64 dim,    \
                           T *restrict target, i64 first, i64 last) {                             \
        for (i64 row = first; row < last; row++) {                                                \
            const S *from = source + start(keep[row], source_dim);                                \
            T *to = target + start(row, dim);                                                     \
            for (i64 column = row; column < dim; column++) to[column] = (T)from[keep[column]];    \
        }                                                                                         \
    }
TAKE(int32_t, i4, int32_t, i4)
TAKE(int32_t, i4, int64_t, i8)
TAKE(int64_t, i8, int32_t, i4)
TAKE(int64_t, i8, int64_t, i8)

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
 * to sums[s]; right is (width, dim), sums (shares, width, dim). Four rows at once: what is read and written beside the entries serves
 * eight multiplications. Blocks of columns keep the sums in L2. */
enum { COLUMN_BLOCK = 1024, LANES = 8 };

#define MULTIPLY(S, s, R, r, A, AS)                                                               \
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
    }                                                                                             \
    static void NAMED3(share_##s, r, LEVEL)(const S *packed, i64 dim, const R *right, i64 width,  \
                                            A *sums, i64 share, i64 shares) {                     \
        for (i64 first = 0; first < dim; first += COLUMN_BLOCK) {                                 \
            i64 last = least(first + COLUMN_BLOCK, dim);                                          \
            for (i64 row = 4 * share; row < last; row += 4 * shares) {                            \
                i64 low = row < first ? first : least(row + 4, last);                             \
                for (i64 k = 0; k < width; k++) {                                                 \
                    const R *other = right + k * dim;                                             \
                    A *own = sums + k * dim;                                                      \
                    if (row >= first)                                                             \
                        for (i64 near = row; near < low; near++)                                  \
                            NAMED3(near_##s, r, LEVEL)(packed, dim, near, low, other, own);       \
                    if (low < last)                                                               \
                        NAMED3(four_##s, r, LEVEL)                                                \
                    (packed + start(row, dim) + low, packed + start(row + 1, dim) + low,          \
                     packed + start(row + 2, dim) + low, packed + start(row + 3, dim) + low,      \
                     last - low, other + row, other + low, own + low, own + row);                 \
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
MULTIPLY(float, f4, double, f8, double, (double))
MULTIPLY(int32_t, i4, double, f8, double, real_of_i4)
MULTIPLY(int64_t, i8, double, f8, double, real_of_i8)
/* Modulo 2^64: unsigned, so that nothing is undefined. */
MULTIPLY(int32_t, i4, int32_t, i4, uint64_t, (uint64_t))
MULTIPLY(int64_t, i8, int32_t, i4, uint64_t, (uint64_t))
