// Loaded by programs without C++ of their own, and by such with operators of their own. Its constructor waits for a thread that
// takes memory by a nothrow new, while the dynamic linker has its lock.
#include <algorithm>
#include <new>
#include <thread>
#include <vector>

namespace
{

int calls = 0;

void give_up()
{
    calls++;
    std::set_new_handler(nullptr);
}

struct on_load {
    on_load()
    {
        std::thread([] {
            std::vector<int> numbers(100);
            std::stable_sort(numbers.begin(), numbers.end());
        }).join();
    }
} loaded;

} // namespace

extern "C" int catches_bad_alloc(size_t size)
{
    try {
        std::vector<char> bytes(size);
        __asm__ volatile("" : : "r"(bytes.data()) : "memory"); // else clang does without the block
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

extern "C" int calls_of_handler(size_t size)
{
    calls = 0;
    std::set_new_handler(give_up);
    void *p = ::operator new(size, std::nothrow);
    ::operator delete(p);
    return p == nullptr ? calls : -1;
}
