/* Instead of level.c: a processor that has AVX-512. */
__attribute__((visibility("default"))) int processor_level(void);
#if LEVEL_IS_LOWEST
int processor_level(void) { return 2; }
#endif
