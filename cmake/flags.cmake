# Flavours, and the flags that go with each. A preset sets HAK_BUILD_FLAVOUR.
set(HAK_BUILD_FLAVOUR release CACHE STRING "release, debug, asan, tsan, ubsan, secure, fuzz or coverage")
set_property(CACHE HAK_BUILD_FLAVOUR PROPERTY STRINGS
    release debug asan tsan ubsan secure fuzz coverage)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_EXTENSIONS OFF)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

set(HAK_WARNINGS -Wall -Wextra -Wshadow -Wvla) # errors in all presets: a compiler to come may know others
set(HAK_WARNINGS_C ${HAK_WARNINGS} -Wconversion -Wstrict-prototypes -Wmissing-prototypes)
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    list(APPEND HAK_WARNINGS_C -Wno-enum-float-conversion) # constants of a table are exact as double
endif()

set(HAK_SANITIZER_asan -fsanitize=address -fno-omit-frame-pointer)
set(HAK_SANITIZER_tsan -fsanitize=thread)
set(HAK_SANITIZER_ubsan -fsanitize=undefined -fno-sanitize-recover=undefined)
# clang's: the counters of libFuzzer and AFL++, whose entry only the targets of tests/fuzz have.
# NULL + 0, which it would complain of, is an address in every compiler (and in the C standard to come).
set(HAK_SANITIZER_fuzz -fsanitize=fuzzer-no-link,address,undefined
    -fno-sanitize=pointer-overflow -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
set(HAK_SANITIZER ${HAK_SANITIZER_${HAK_BUILD_FLAVOUR}})

# A sanitizer owns malloc: there the library is linked and used by its own names.
if(HAK_BUILD_FLAVOUR MATCHES "^(asan|tsan|fuzz)$")
    set(HAK_INTERPOSE 0)
else()
    set(HAK_INTERPOSE 1)
endif()
if(HAK_BUILD_FLAVOUR STREQUAL debug)
    set(HAK_CHECKED 1)
else()
    set(HAK_CHECKED 0)
endif()

if(HAK_BUILD_FLAVOUR STREQUAL secure)
    set(HAK_SECURE 1)
else()
    set(HAK_SECURE 0)
endif()

include(CheckSymbolExists)
check_symbol_exists(__GLIBC__ features.h HAK_GLIBC) # else musl
check_symbol_exists(mallinfo2 malloc.h HAK_HAS_MALLINFO2)
if(HAK_GLIBC AND NOT HAK_HAS_MALLINFO2)
    unset(HAK_HAS_MALLINFO2 CACHE)
    message(FATAL_ERROR "hakmem: this GNU C library has no mallinfo2, which came with 2.33: hakmem needs that version or a newer one")
endif()

option(HAKMEM_PROBES "Probes for bpftrace, perf and others on slow paths (needs <sys/sdt.h>)" ON)
if(HAKMEM_PROBES)
    include(CheckIncludeFile)
    check_include_file(sys/sdt.h HAK_HAS_SDT)
    if(NOT HAK_HAS_SDT)
        unset(HAK_HAS_SDT CACHE) # looked for again once it has been installed
        message(FATAL_ERROR "hakmem: <sys/sdt.h> is missing, which the probes are made with. Install "
            "systemtap-sdt-dev (Debian, Ubuntu) or systemtap-sdt-devel, or build without probes: "
            "-DHAKMEM_PROBES=OFF")
    endif()
    set(HAK_PROBES 1)
else()
    set(HAK_PROBES 0)
endif()

# Without it include/hakmem/inline.h is served by calls.
option(HAKMEM_INSIGHT "Samples and figures for others; OFF to measure what they cost" ON)
if(HAKMEM_INSIGHT)
    set(HAK_INSIGHT 1)
else()
    set(HAK_INSIGHT 0)
endif()

set(HAK_FRAME_POINTERS -fno-omit-frame-pointer -momit-leaf-frame-pointer)

# Of the library alone: counters, shared by threads, that are written when a process ends. Every function is there
# once, so that a branch is counted once wherever it is used.
set(HAK_COUNTERS_coverage --coverage -fprofile-update=atomic "-DHAK_INLINE=static inline")
set(HAK_COUNTERS ${HAK_COUNTERS_${HAK_BUILD_FLAVOUR}})
if(HAK_COUNTERS)
    set(HAK_COUNTERS_LINK --coverage LINKER:--wrap=abort LINKER:--wrap=sigaction)
endif()

function(hak_library_flags target)
    target_compile_definitions(${target} PRIVATE HAK_INTERPOSE=${HAK_INTERPOSE}
                                                 HAK_CHECKED=${HAK_CHECKED}
                                                 HAK_SECURE=${HAK_SECURE}
                                                 HAK_PROBES=${HAK_PROBES}
                                                 HAK_INSIGHT=${HAK_INSIGHT})
    # Frame pointers in all that calls: by them src/profile leaves the library's frames, without touching its
    # unwind tables. The fast paths call nothing and have none.
    target_compile_options(${target} PRIVATE ${HAK_FRAME_POINTERS})
    # -fno-builtin: the compiler must not take our malloc for the one it knows about.
    # -fexceptions: the new-handler may throw through operator new.
    target_compile_options(${target} PRIVATE ${HAK_WARNINGS_C} ${HAK_SANITIZER} ${HAK_COUNTERS}
        -fvisibility=hidden -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc
        -fno-builtin-free -fno-semantic-interposition -fexceptions -fcf-protection=none
        -fno-stack-protector -ftls-model=initial-exec -ffunction-sections -fdata-sections)
endfunction()

function(hak_shared_library_flags target)
    # nodelete: threads hold the library's code in their exit hooks; dlclose must not unmap it.
    target_link_options(${target} PRIVATE ${HAK_SANITIZER} LINKER:-z,nodelete,-z,now,-z,relro
        LINKER:--as-needed LINKER:-O1 LINKER:--gc-sections LINKER:--hash-style=gnu
        LINKER:-T,${PROJECT_SOURCE_DIR}/cmake/layout.ld)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/layout.ld)
endfunction()
