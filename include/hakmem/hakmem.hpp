// hakmem for C++17: a standard allocator and a std::pmr memory resource.
//
//     std::vector<int, hakmem::allocator<int>> numbers;
//     std::pmr::vector<int> others{hakmem::default_resource()};
//
// Both take their memory from hakmem by name, also in a program whose malloc is another one, and
// hand each block back with its size and alignment: blocks of up to 1 KiB without a call in most cases
// (inline.h).
// Both are stateless: any allocator or resource frees what any other has allocated, from any
// thread. When memory runs out, the new-handler is called as operator new does, then std::bad_alloc
// is thrown.
#ifndef HAKMEM_HAKMEM_HPP
#define HAKMEM_HAKMEM_HPP

#include <hakmem/inline.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory_resource>
#include <new>
#include <type_traits>

namespace hakmem
{

namespace detail
{

// hak_malloc aligns to 16 from 16 bytes up and to 8 below.
constexpr bool naturally_aligned(std::size_t bytes, std::size_t alignment) noexcept
{
    return alignment <= 8 || (alignment <= 16 && bytes >= 16);
}

inline void *try_allocate(std::size_t bytes, std::size_t alignment) noexcept
{
    return naturally_aligned(bytes, alignment) ? hak_malloc_inline(bytes)
                                               : hak_aligned_alloc(alignment, bytes);
}

// Programs built without exceptions end here, as they do in operator new.
template <class Exception> [[noreturn]] inline void fail()
{
#if defined(__cpp_exceptions)
    throw Exception();
#else
    std::abort();
#endif
}

// Kept out of allocate, so that the usual case stays small enough to be inlined.
[[nodiscard]] inline void *allocate_with_handler(std::size_t bytes, std::size_t alignment)
{
    for (;;) {
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) {
            fail<std::bad_alloc>();
        }
        handler();
        if (void *const block = try_allocate(bytes, alignment)) {
            return block;
        }
    }
}

[[nodiscard]] inline void *allocate(std::size_t bytes, std::size_t alignment)
{
    void *const block = try_allocate(bytes, alignment);
    return block != nullptr ? block : allocate_with_handler(bytes, alignment);
}

inline void deallocate(void *block, std::size_t bytes, std::size_t alignment) noexcept
{
    if (naturally_aligned(bytes, alignment)) {
        hak_free_sized_inline(block, bytes);
    } else {
        hak_free_aligned_sized(block, alignment, bytes);
    }
}

} // namespace detail

// Allocator for the standard containers. Over-aligned types get their alignment.
template <class T> class allocator
{
  public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_move_assignment = std::true_type;
    using is_always_equal = std::true_type;

    constexpr allocator() noexcept = default;

    template <class Other> constexpr allocator(const allocator<Other> &) noexcept {}

    // Room for `count` objects of type T; std::bad_array_new_length if that is more than can exist.
    [[nodiscard]] T *allocate(std::size_t count)
    {
        if (count > max_count) {
            detail::fail<std::bad_array_new_length>();
        }
        return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T)));
    }

    // `count` is the one that was passed to allocate.
    void deallocate(T *objects, std::size_t count) noexcept
    {
        detail::deallocate(objects, count * sizeof(T), alignof(T));
    }

  private:
    static constexpr std::size_t max_count =
        static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(T);
};

template <class T, class U>
constexpr bool operator==(const allocator<T> &, const allocator<U> &) noexcept
{
    return true;
}

template <class T, class U>
constexpr bool operator!=(const allocator<T> &, const allocator<U> &) noexcept
{
    return false;
}

// Memory resource for std::pmr containers. All objects of this class are equal.
class resource final : public std::pmr::memory_resource
{
  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        return detail::allocate(bytes, alignment);
    }

    void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override
    {
        detail::deallocate(block, bytes, alignment);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
#if defined(__cpp_rtti)
        return dynamic_cast<const resource *>(&other) != nullptr;
#else
        return this == &other;
#endif
    }
};

// The process's one resource. It is never destroyed, so containers of static lifetime may use it.
inline resource *default_resource() noexcept
{
    alignas(resource) static unsigned char storage[sizeof(resource)];
    static resource *const only = ::new (static_cast<void *>(storage)) resource;
    return only;
}

} // namespace hakmem

#endif
