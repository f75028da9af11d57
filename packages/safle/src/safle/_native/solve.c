/* The solver's kernels: tiles of the reduced gram, row sums, products in one order. */
#include "native.h"

/* tile[r, c] = T[top + r, left + c] where top + r >= left + c, columns first to last, column order.
 *
 * T = Q' S^-1 C S^-1 Q, where Q merges the constant direction that all experts share and keeps the
 * contrasts inside each expert, by a Householder reflection per expert. The margins of the gram are
 * known, so an entry needs only four of its entries: with f the expert's first row,
 * kappa = s / (1 - s), s = 1 / sqrt(V),
 *     T_ij = C_ij + kappa_a (C_fj - s_a c_j) + kappa_b (C_if' + kappa_a (C_ff' - s_a c_f'))
 *          - kappa_b s_b (c_i + kappa_a (c_f - s_a n)).
 * `terms` has experts + 1 entries: what depends on column j through its expert only. */
#define FILL_TILE(G, g, T, t)                                                                     \
    KERNEL_OF(fill_tile_##g, t)(const G *gram, i64 dim, const double *totals, double n,           \
                                const i64 *rows, const i64 *experts, const i64 *leads,            \
                                const double *kappas, i64 expert_count, const double *scales,     \
                                i64 top, i64 left, T *tile, i64 height, double *terms, i64 first, \
                                i64 last) {                                                       \
        for (i64 index = first; index < last; index++) {                                          \
            i64 i = left + index, row = rows[i], lead = row;                                      \
            double kappa = 0.0;                                                                   \
            T *restrict output = tile + index * height;                                           \
            memset(terms, 0, (size_t)(expert_count + 1) * sizeof *terms);                         \
            if (experts[i] < expert_count) {                                                      \
                kappa = kappas[experts[i]], lead = leads[experts[i]];                             \
                double shrink = kappa / (1.0 + kappa);                                            \
                double outer = totals[row] + kappa * (totals[lead] - shrink * n);                 \
                for (i64 e = 0; e < expert_count; e++) {                                          \
                    i64 other = leads[e];                                                         \
                    if (other < lead) continue;                                                   \
                    /* Inside an expert only the diagonal is not zero, and row is not its first. */ \
                    double inner = other > row ? (double)gram[start(row, dim) + other] : 0.0;     \
                    inner += kappa * ((double)gram[start(lead, dim) + other] - shrink * totals[other]); \
                    terms[e] = kappas[e] * (inner - kappas[e] / (1.0 + kappas[e]) * outer);       \
                }                                                                                 \
            }                                                                                     \
            const G *direct = gram + start(row, dim), *through = gram + start(lead, dim);         \
            double shrink = kappa / (1.0 + kappa);                                                \
            for (i64 r = most(0, i - top); r < height; r++) {                                     \
                i64 column = rows[top + r];                                                       \
                double value = ((double)direct[column] * scales[row] + kappa * (double)through[column]) \
                               * scales[column];                                                  \
                output[r] = (T)(value - kappa * shrink * totals[column] + terms[experts[top + r]]); \
            }                                                                                     \
        }                                                                                         \
    }
FILL_TILE(int32_t, i4, float, f4)
FILL_TILE(int32_t, i4, double, f8)
FILL_TILE(int64_t, i8, float, f4)
FILL_TILE(int64_t, i8, double, f8)

/* sums[i] = sum_j |matrix[i, j]| of a packed gram. */
#define ABSOLUTE_ROW_SUMS(G, g)                                                                   \
    KERNEL_OF(absolute_row_sums, g)(const G *restrict gram, i64 dim, double *restrict sums) {     \
        memset(sums, 0, (size_t)dim * sizeof *sums);                                              \
        for (i64 row = 0; row < dim; row++) {                                                     \
            const G *restrict entries = gram + start(row, dim);                                   \
            double total = 0.0;                                                                   \
            for (i64 j = row; j < dim; j++) {                                                     \
                double size = fabs((double)entries[j]);                                           \
                total += size;                                                                    \
                sums[j] += size;                                                                  \
            }                                                                                     \
            /* The diagonal was added to its own row already. */                                  \
            sums[row] += total - fabs((double)entries[row]);                                      \
        }                                                                                         \
    }
ABSOLUTE_ROW_SUMS(int32_t, i4)
ABSOLUTE_ROW_SUMS(int64_t, i8)

/* result = left @ right, every entry summed in one order, rows first to last: the same bits on any
 * machine. */
KERNEL(multiply_in_order)(const double *restrict left, const double *restrict right, i64 inner,
                          i64 width, double *restrict result, i64 first, i64 last) {
    for (i64 i = first; i < last; i++) {
        double *restrict row = result + i * width;
        memset(row, 0, (size_t)width * sizeof *row);
        for (i64 j = 0; j < inner; j++) {
            double factor = left[i * inner + j];
            for (i64 k = 0; k < width; k++) row[k] += factor * right[j * width + k];
        }
    }
}

/* Invert a positive definite matrix in place, by the same steps on any machine; `failed` becomes 1,
 * and the matrix nothing of use, if pivot k is not above smallest[k]. */
KERNEL(invert_in_order)(double *restrict matrix, i64 size, const double *smallest, i64 *failed) {
    for (i64 k = 0; k < size; k++) {
        double *restrict own = matrix + k * size;
        if (!(own[k] > smallest[k])) {
            *failed = 1;
            return;
        }
        double inverse = 1.0 / own[k];
        own[k] = 1.0;
        for (i64 j = 0; j < size; j++) own[j] *= inverse;
        for (i64 i = 0; i < size; i++) {
            if (i == k) continue;
            double *restrict row = matrix + i * size, factor = row[k];
            row[k] = 0.0;
            for (i64 j = 0; j < size; j++) row[j] -= factor * own[j];
        }
    }
}

/* matrix = U' U: its upper triangle becomes U; `failed` becomes 1 if it is not positive definite. */
KERNEL(factor_in_order)(double *matrix, i64 size, i64 *failed) {
    for (i64 i = 0; i < size; i++) {
        double *restrict row = matrix + i * size;
        for (i64 k = 0; k < i; k++) {
            const double *above = matrix + k * size;
            double factor = above[i];
            for (i64 j = i; j < size; j++) row[j] -= factor * above[j];
        }
        if (!(row[i] > 0)) {
            *failed = 1;
            return;
        }
        double pivot = sqrt(row[i]);
        for (i64 j = i; j < size; j++) row[j] /= pivot;
    }
}
