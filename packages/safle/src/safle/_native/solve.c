/* The solver's kernels: tiles of the reduced gram, row sums, products in one order. */
#include "native.h"

#define G i4
#define T f4
#include "fill_tile.inc"
#define G i4
#define T f8
#include "fill_tile.inc"
#define G i8
#define T f4
#include "fill_tile.inc"
#define G i8
#define T f8
#include "fill_tile.inc"

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
