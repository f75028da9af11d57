/* Which instruction level this processor, and its operating system, can run: 0 portable, 1 AVX2,
 * 2 AVX-512 with VNNI. */
#include "native.h"



#if !defined(__AVX2__)
EXPORT int processor_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni"))
        return 2;
    return 1;
#else
    return 0;
#endif
}
#endif
