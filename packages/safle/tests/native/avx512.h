/* The intrinsics of AVX-512 that products.c uses, in plain C, as Intel's guide defines them: the
 * path is compiled and run on machines without AVX-512. For tests alone. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __asm__(...) /* Holding a vector in its register needs the register. */

typedef union {
    int8_t i1[64];
    uint8_t u1[64];
    int16_t i2[32];
    int32_t i4[16];
    int64_t i8[8];
} __m512i;
typedef union {
    int32_t i4[8];
} __m256i;

static inline __m512i _mm512_setzero_si512(void) { return (__m512i){.i8 = {0}}; }

static inline __m512i _mm512_set1_epi32(int value) {
    __m512i made;
    for (int k = 0; k < 16; k++) made.i4[k] = value;
    return made;
}

static inline __m512i _mm512_loadu_si512(const void *from) {
    __m512i made;
    memcpy(&made, from, sizeof made);
    return made;
}

static inline void _mm512_storeu_si512(void *to, __m512i value) { memcpy(to, &value, sizeof value); }

/* sum[k] += four products of an unsigned byte of a and a signed byte of b. */
static inline __m512i _mm512_dpbusd_epi32(__m512i sum, __m512i a, __m512i b) {
    for (int k = 0; k < 64; k++) sum.i4[k / 4] += (int32_t)a.u1[k] * b.i1[k];
    return sum;
}

/* sum[k] += two products of signed 16-bit integers. */
static inline __m512i _mm512_dpwssd_epi32(__m512i sum, __m512i a, __m512i b) {
    for (int k = 0; k < 32; k++) sum.i4[k / 2] += (int32_t)a.i2[k] * b.i2[k];
    return sum;
}

static inline __m256i _mm512_castsi512_si256(__m512i value) {
    __m256i made;
    memcpy(&made, &value, sizeof made);
    return made;
}

static inline __m256i _mm512_extracti64x4_epi64(__m512i value, int half) {
    __m256i made;
    memcpy(&made, value.i4 + 8 * half, sizeof made);
    return made;
}

static inline __m512i _mm512_cvtepi32_epi64(__m256i value) {
    __m512i made;
    for (int k = 0; k < 8; k++) made.i8[k] = value.i4[k];
    return made;
}

static inline __m512i _mm512_add_epi64(__m512i a, __m512i b) {
    for (int k = 0; k < 8; k++) a.i8[k] += b.i8[k];
    return a;
}
