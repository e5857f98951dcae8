// Every operator new and delete, plain, array, sized, aligned and nothrow.
#include "abi_check.h"

#include <new>
#include <stdexcept>
#include <vector>

namespace
{

const size_t sizes[] = {1, 8, 16, 24, 100, 1000, 5000, 50000, 64 * KIB + 1, 300 * KIB, 5 * MIB};

void *checked(void *block, size_t size, size_t alignment)
{
    CHECK_AT(opaque(block) != nullptr, size);
    CHECK_AT(is_aligned(block, alignment), alignment);
    CHECK_AT(malloc_usable_size(block) >= size, size);
    fill_pattern(block, size, 4);
    CHECK_AT(has_pattern(block, size, size, 4), size);
    return block;
}

void test_plain(size_t size)
{
    const size_t alignment = natural_alignment(size);
    ::operator delete(checked(::operator new(size), size, alignment));
    ::operator delete(checked(::operator new(size), size, alignment), size);
    ::operator delete(checked(::operator new(size), size, alignment), std::nothrow);
    ::operator delete[](checked(::operator new[](size), size, alignment));
    ::operator delete[](checked(::operator new[](size), size, alignment), size);
    ::operator delete[](checked(::operator new[](size), size, alignment), std::nothrow);
    ::operator delete(checked(::operator new(size, std::nothrow), size, alignment));
    ::operator delete(checked(::operator new(size, std::nothrow), size, alignment), std::nothrow);
    ::operator delete[](checked(::operator new[](size, std::nothrow), size, alignment));
    ::operator delete[](checked(::operator new[](size, std::nothrow), size, alignment),
                        std::nothrow);
}

void test_aligned(size_t size, size_t bytes)
{
    const std::align_val_t alignment{bytes};
    const std::nothrow_t &quiet = std::nothrow;
    ::operator delete(checked(::operator new(size, alignment), size, bytes), alignment);
    ::operator delete(checked(::operator new(size, alignment), size, bytes), size, alignment);
    ::operator delete(checked(::operator new(size, alignment), size, bytes), alignment, quiet);
    ::operator delete[](checked(::operator new[](size, alignment), size, bytes), alignment);
    ::operator delete[](checked(::operator new[](size, alignment), size, bytes), size, alignment);
    ::operator delete[](checked(::operator new[](size, alignment), size, bytes), alignment, quiet);
    ::operator delete(checked(::operator new(size, alignment, quiet), size, bytes), alignment);
    ::operator delete(checked(::operator new(size, alignment, quiet), size, bytes), alignment,
                      quiet);
    ::operator delete[](checked(::operator new[](size, alignment, quiet), size, bytes), alignment);
    ::operator delete[](checked(::operator new[](size, alignment, quiet), size, bytes), alignment,
                        quiet);
}

void test_null()
{
    const auto nothing = [] { return opaque(nullptr); };
    const std::align_val_t alignment{64};
    ::operator delete(nothing());
    ::operator delete (nothing(), size_t{8});
    ::operator delete(nothing(), std::nothrow);
    ::operator delete(nothing(), alignment);
    ::operator delete (nothing(), size_t{8}, alignment);
    ::operator delete(nothing(), alignment, std::nothrow);
    ::operator delete[](nothing());
    ::operator delete[](nothing(), size_t{8});
    ::operator delete[](nothing(), std::nothrow);
    ::operator delete[](nothing(), alignment);
    ::operator delete[](nothing(), size_t{8}, alignment);
    ::operator delete[](nothing(), alignment, std::nothrow);
}

void test_size_zero()
{
    std::vector<void *> blocks;
    for (int i = 0; i < 100; i++) {
        blocks.push_back(checked(::operator new(opaque_size(0)), 0, 8));
        blocks.push_back(checked(::operator new[](opaque_size(0), std::nothrow), 0, 8));
        blocks.push_back(checked(::operator new (opaque_size(0), std::align_val_t{8}), 0, 8));
    }
    for (size_t i = 0; i < blocks.size(); i++) {
        for (size_t j = 0; j < i; j++) {
            CHECK(blocks[i] != blocks[j]);
        }
    }
    for (void *block : blocks) {
        ::operator delete(block);
    }
}

struct alignas(256) over_aligned {
    unsigned char bytes[300];
};

struct throws_when_built {
    explicit throws_when_built(int value) : padding{value}
    {
        throw std::runtime_error("no");
    }
    int padding[200];
};

// The language's own use: sizes, alignment and the delete of a failed constructor are the
// compiler's.
void test_expressions()
{
    for (int i = 0; i < 1000; i++) {
        auto *one = new over_aligned;
        auto *many = new over_aligned[3];
        CHECK(is_aligned(one, 256) && is_aligned(many, 256));
        fill_pattern(one, sizeof(*one), 1);
        fill_pattern(many, 3 * sizeof(*many), 2);
        CHECK(has_pattern(one, sizeof(*one), sizeof(*one), 1));
        delete one;
        delete[] many;
        bool caught = false;
        try {
            delete new throws_when_built(i);
        } catch (const std::runtime_error &) {
            caught = true;
        }
        CHECK(caught);
        delete[] new std::vector<int>[ 5 ];
    }
}

} // namespace

int main()
{
    require_hakmem();
    for (size_t size : sizes) {
        test_plain(size);
        for (size_t alignment = 8; alignment <= 4 * MIB; alignment *= 8) {
            test_aligned(size, alignment);
        }
    }
    test_null();
    test_size_zero();
    test_expressions();
    puts("new and delete: ok");
    return 0;
}
