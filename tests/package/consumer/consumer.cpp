// Is operator new hakmem's, and do a container and a memory resource of the header work?
#include <cstdio>
#include <hakmem/hakmem.hpp>
#include <memory>
#include <memory_resource>
#include <vector>

static std::size_t live_blocks()
{
    hak_stats stats;
    hak_stats_get(&stats, sizeof stats);
    return stats.live_blocks;
}

int main()
{
    constexpr std::size_t count = 1000;
    std::vector<int, hakmem::allocator<int>> numbers(count, 7);
    std::pmr::vector<int> others(count, 7, hakmem::default_resource());
    std::vector<std::unique_ptr<long>> blocks(count);
    const std::size_t before = live_blocks();
    for (auto &block : blocks)
        block = std::make_unique<long>(7);
    const std::size_t during = live_blocks();
    std::printf("live blocks: %zu, %zu\n", before, during);
    return during >= before + count && numbers[count - 1] == others[0] ? 0 : 1;
}
