// The chain in C++: with destructors and handlers its functions have a personality and tables of their own.
#include "stack_chain.h"

#include <stdexcept>

namespace
{

struct noted {
    int &count;
    ~noted()
    {
        count++;
    }
};

__attribute__((noinline)) void level(int depth, chain_end *end, void *argument)
{
    NOTE_RETURN(depth);
    int count = 0;
    try {
        noted note{count};
        if (depth + 1 < CHAIN_DEPTH)
            level(depth + 1, end, argument);
        else
            end(argument);
    } catch (const std::runtime_error &) {
        count++;
    }
    __asm__ volatile("" ::"r"(count) : "memory");
}

} // namespace

extern "C" void chain_cpp(chain_end *end, void *argument)
{
    level(0, end, argument);
    NO_TAIL_CALL();
}
