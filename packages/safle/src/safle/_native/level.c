/* Which instruction level this processor, and its operating system, can run: 0 portable, 1 AVX2,
 * 2 AVX-512 with VNNI. By cpuid itself: __builtin_cpu_supports needs a run-time library of the
 * compiler's, which not every compiler links into a shared library. */
#include "native.h"

#if defined(__x86_64__)
#include <cpuid.h>

static int all_of(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

EXPORT int JOIN(processor_level, LEVEL)(void) {
    enum { FMA = 1u << 12, SAVED_STATE = 1u << 27, AVX2 = 1u << 5, VNNI = 1u << 11 };
    const uint32_t f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    uint32_t a, b, c, d, saved, unused;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all_of(c, FMA | SAVED_STATE)) return 0;
    /* Which registers the operating system saves: bits 1 and 2 those of AVX, 5 to 7 of AVX-512. */
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(unused) : "c"(0));
    if (!all_of(saved, 0x6) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !all_of(b, AVX2)) return 0;
    return all_of(saved, 0xE6) && all_of(b, f_dq_bw_vl) && all_of(c, VNNI) ? 2 : 1;
}
#else
EXPORT int JOIN(processor_level, LEVEL)(void) { return 0; }
#endif

/* Of which sources this library was made: _native/__init__.py compares it with those beside it. */
#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST 0
#endif
EXPORT uint64_t JOIN(source_digest, LEVEL)(void) { return SOURCE_DIGEST; }
