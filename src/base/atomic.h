/* C11 atomics with the memory order in the name. The reason for an order stands where it is used. */
#ifndef HAK_ATOMIC_H
#define HAK_ATOMIC_H

#include <stdatomic.h>

#define load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define exchange_relaxed(p, v) atomic_exchange_explicit((p), (v), memory_order_relaxed)
#define exchange_acquire(p, v) atomic_exchange_explicit((p), (v), memory_order_acquire)
#define exchange_release(p, v) atomic_exchange_explicit((p), (v), memory_order_release)
#define exchange_acq_rel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define sub_relaxed(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define or_relaxed(p, v) atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define or_release(p, v) atomic_fetch_or_explicit((p), (v), memory_order_release)
#define and_relaxed(p, v) atomic_fetch_and_explicit((p), (v), memory_order_relaxed)
#define and_acquire(p, v) atomic_fetch_and_explicit((p), (v), memory_order_acquire)
#define cas_acquire(p, expected, v)                                                                \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acquire,            \
                                            memory_order_relaxed)
#define cas_release(p, expected, v)                                                                \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_release,            \
                                            memory_order_relaxed)
#define cas_acq_rel(p, expected, v)                                                                \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acq_rel,            \
                                            memory_order_acquire)
#define cas_weak_relaxed(p, expected, v)                                                           \
    atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_relaxed,              \
                                          memory_order_relaxed)
#define cas_weak_release(p, expected, v)                                                           \
    atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_release,              \
                                          memory_order_relaxed)
#define cas_weak_acq_rel(p, expected, v)                                                           \
    atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_acq_rel,              \
                                          memory_order_relaxed)
#define cas_weak_acquire(p, expected, v)                                                           \
    atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_acquire,              \
                                          memory_order_relaxed)
#define cas_relaxed(p, expected, v)                                                                \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_relaxed,            \
                                            memory_order_relaxed)

/* Of fields that are not _Atomic, because the one thread that writes them reads them as any other. */
#define plain_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define plain_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define plain_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

#endif
