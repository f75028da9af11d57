/* Symmetric integer matrices as packed upper triangles: added, cut out, multiplied.
 *
 * Limit: memory. Each entry is read once and, where it is added to, written once. */
#include "native.h"

#define T i4
#define S i4
#include "add_runs.inc"
#define T i4
#define S i8
#include "add_runs.inc"
#define T i8
#define S i4
#include "add_runs.inc"
#define T i8
#define S i8
#include "add_runs.inc"

#define G i4
#include "triangle.inc"
#define G i8
#include "triangle.inc"

/* sums += matrix @ right; share s of the rows, every shares-th group of four from group s on, goes
 * to sums[s]; right is (width, dim), sums (shares, width, dim). Four rows at once: what is read and
 * written beside the entries serves eight multiplications. A block of columns stays in L1. */
enum { COLUMN_BLOCK = 512, LANES = 8 };

typedef double reals __attribute__((vector_size(32)));
typedef double loose_reals __attribute__((vector_size(32), aligned(8)));

/* What `four` in multiply.inc does, of aligned doubles. */
static void four_reals(const reals *a, const reals *b, const reals *c, const reals *d, i64 size, const double *left,
                       const double *others, double *images, double *own) {
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

#define R f8
#define A double
#define WIDEN 1
#define S f4
#define AS (double)
#include "multiply.inc"
#define S i4
#define AS real_of_i4
#include "multiply.inc"
#define S i8
#define AS real_of_i8
#include "multiply.inc"
#undef R
#undef A
#undef WIDEN

/* Modulo 2^64: unsigned, so that nothing is undefined. */
#define R i4
#define A uint64_t
#define WIDEN 0
#define S i4
#define AS (uint64_t)
#include "multiply.inc"
#define S i8
#define AS (uint64_t)
#include "multiply.inc"
