/* What all kernels share: types, names by instruction level, packed triangles.
 *
 * Every source is compiled once for each level (portable, avx2, avx512) and each function carries
 * its level in its name; safle/_native/__init__.py chooses one when it loads the library. Kernels
 * take plain arrays that Python has checked, allocate nothing that outlives a call, and start no
 * thread: a call works on the pieces `first` to `last` of its job, and Python shares pieces out. */
#ifndef SAFLE_NATIVE_H
#define SAFLE_NATIVE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#ifndef LEVEL
#define LEVEL portable
#endif
#define PASTE(a, b) a##_##b
#define JOIN(a, b) PASTE(a, b)
/* KERNEL(sum) is sum_avx2; KERNEL_OF(sum, i4) is sum_i4_avx2. */
#define KERNEL(name) EXPORT void JOIN(name, LEVEL)
#define KERNEL_OF(name, type) EXPORT void JOIN(JOIN(name, type), LEVEL)

/* A type is called what NumPy calls it, kind and bytes, in the kernels' names too. A template, an
 * `.inc`, is included once for each type, and undefines the letters that it takes. */
typedef uint8_t u1;
typedef uint16_t u2;
typedef int32_t i4;
typedef int64_t i8;
typedef float f4;
typedef double f8;
typedef int64_t i64;

static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 most(i64 a, i64 b) { return a > b ? a : b; }

/* Entry (i, j), i <= j, of a packed upper triangle of dimension d lies at start(i, d) + j. */
static inline i64 start(i64 row, i64 dim) { return row * dim - row * (row + 1) / 2; }

/* An integer as a double, rounded once, in steps that AVX2 has for vectors too. */
static inline double real_of_i8(int64_t value) {
    double high = (double)(int32_t)((uint64_t)value >> 32) * 4294967296.0;
    return high + ((double)(int32_t)((uint32_t)value ^ 0x80000000u) + 2147483648.0);
}
static inline double real_of_i4(int32_t value) { return (double)value; }

static inline i64 place(i64 row, i64 column, i64 dim) {
    return start(least(row, column), dim) + most(row, column);
}

#endif
