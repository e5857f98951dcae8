// hakmem for C++17: a standard allocator, std::pmr memory resources, and heaps that end with their blocks.
//
//     std::vector<int, hakmem::allocator<int>> numbers;
//     std::pmr::vector<int> others{hakmem::default_resource()};
//
//     hakmem::heap_resource request;                       // all it allocates ends with it,
//     std::pmr::unordered_map<int, int> table{&request};   // whatever has been deallocated
//
// The first two take their memory from hakmem by name, also in a program whose malloc is another one, and
// hand each block back with its size and alignment: blocks of up to 1 KiB without a call in most cases
// (inline.h).
// They are stateless: any of them frees what any other has allocated, from any thread. When memory runs
// out, all call the new-handler as operator new does, then std::bad_alloc is thrown.
#ifndef HAKMEM_HAKMEM_HPP
#define HAKMEM_HAKMEM_HPP

#include <hakmem/inline.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

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

// Kept out of allocate, so that the usual case stays small enough to be inlined. `try_again` returns a null pointer
// where there is still no memory.
template <class Try> [[nodiscard]] auto with_handler(Try try_again)
{
    for (;;) {
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) {
            fail<std::bad_alloc>();
        }
        handler();
        if (auto *const had = try_again()) {
            return had;
        }
    }
}

[[nodiscard]] inline void *allocate(std::size_t bytes, std::size_t alignment)
{
    if (void *const block = try_allocate(bytes, alignment)) {
        return block;
    }
    return with_handler([=] { return try_allocate(bytes, alignment); });
}

inline void *try_allocate_in(hak_heap *heap, std::size_t bytes, std::size_t alignment) noexcept
{
    return naturally_aligned(bytes, alignment) ? hak_heap_malloc(heap, bytes)
                                               : hak_heap_aligned_alloc(heap, alignment, bytes);
}

[[nodiscard]] inline void *allocate_in(hak_heap *heap, std::size_t bytes, std::size_t alignment)
{
    if (void *const block = try_allocate_in(heap, bytes, alignment)) {
        return block;
    }
    return with_handler([=] { return try_allocate_in(heap, bytes, alignment); });
}

[[nodiscard]] inline hak_heap *new_heap()
{
    if (hak_heap *const heap = hak_heap_new()) {
        return heap;
    }
    return with_handler([] { return hak_heap_new(); });
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

// Memory resource for std::pmr containers. All objects of this class are equal (without RTTI each only to itself).
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

// A heap of the program's own (hakmem.h), which ends with all its blocks where the object ends.
class heap
{
  public:
    heap() : heap_(detail::new_heap()) {}

    heap(heap &&other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}

    heap &operator=(heap &&other) noexcept
    {
        std::swap(heap_, other.heap_);
        return *this;
    }

    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;

    ~heap()
    {
        hak_heap_destroy(heap_);
    }

    // For the functions of hakmem.h. A null pointer after it has been moved from or released.
    [[nodiscard]] hak_heap *get() const noexcept
    {
        return heap_;
    }

    // The caller ends it from now on.
    [[nodiscard]] hak_heap *release() noexcept
    {
        return std::exchange(heap_, nullptr);
    }

  private:
    hak_heap *heap_;
};

// Memory resource for std::pmr containers, of a heap of its own. All its blocks end with it, also those that no container
// has given back. Any thread may use it.
class heap_resource final : public std::pmr::memory_resource
{
  public:
    heap_resource() = default;
    heap_resource(const heap_resource &) = delete;
    heap_resource &operator=(const heap_resource &) = delete;

    [[nodiscard]] hak_heap *get() const noexcept
    {
        return heap_.get();
    }

    // Ends all its blocks, and begins anew.
    void clear()
    {
        heap_ = heap();
    }

  private:
    heap heap_;

    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        return detail::allocate_in(heap_.get(), bytes, alignment);
    }

    void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override
    {
        hak_free_aligned_sized(block, detail::naturally_aligned(bytes, alignment) ? 1 : alignment,
                               bytes);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        return this == &other;
    }
};

} // namespace hakmem

#endif
