/* probe_NAME(arguments): a place where a tracer may look in. A nop in the code and a note in the file, or nothing
 * where the library is built without (CMake option HAKMEM_PROBES). */
#ifndef HAK_PROBE_H
#define HAK_PROBE_H

#include "base/base.h"

#ifndef HAK_PROBES
#define HAK_PROBES 0
#endif

#if HAK_PROBES
#include <sys/sdt.h>
#else
#define STAP_PROBE(provider, name)
#define STAP_PROBE1(provider, name, a) (void)(a)
#define STAP_PROBE2(provider, name, a, b) (void)(a), (void)(b)
#endif

#define PROBE0(name, when)                                                                         \
    HAK_INLINE void probe_##name(void)                                                             \
    {                                                                                              \
        STAP_PROBE(hakmem, name);                                                                  \
    }
#define PROBE1(name, a, when)                                                                      \
    HAK_INLINE void probe_##name(size_t a)                                                         \
    {                                                                                              \
        STAP_PROBE1(hakmem, name, a);                                                              \
    }
#define PROBE2(name, a, b, when)                                                                   \
    HAK_INLINE void probe_##name(size_t a, size_t b)                                               \
    {                                                                                              \
        STAP_PROBE2(hakmem, name, a, b);                                                           \
    }
#include "base/probes.def"
#undef PROBE0
#undef PROBE1
#undef PROBE2

#endif
