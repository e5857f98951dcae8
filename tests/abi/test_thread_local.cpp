// C++ thread_local objects whose destructors allocate, free, and bring further ones to life.
#include "abi_check.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace
{

constexpr int threads_at_once = 8;
constexpr int rounds = 50;
std::atomic<int> destroyed{0};

// Created by another thread_local's destructor, so it is destroyed while the thread ends.
struct late_object {
    std::vector<std::string> lines;
    ~late_object()
    {
        std::map<int, std::string> copies;
        for (size_t i = 0; i < lines.size(); i++) {
            copies[static_cast<int>(i)] = lines[i] + " and more than fits the small buffer";
        }
        CHECK(copies.size() == lines.size());
        destroyed++;
    }
};

late_object &late()
{
    thread_local late_object object;
    return object;
}

struct early_object {
    std::unique_ptr<std::vector<int>> numbers = std::make_unique<std::vector<int>>(5000, 3);
    ~early_object()
    {
        CHECK(numbers->back() == 3);
        numbers.reset();
        for (int i = 0; i < 200; i++) {
            late().lines.emplace_back(static_cast<size_t>(i * 40), 'x');
        }
        destroyed++;
    }
};

early_object &early()
{
    thread_local early_object object;
    return object;
}

void thread_main(std::vector<std::string> *shared_by_one)
{
    early().numbers->push_back(3);
    shared_by_one->emplace_back(100000, 'y');
}

} // namespace

int main()
{
    require_hakmem();
    for (int round = 0; round < rounds; round++) {
        std::vector<std::vector<std::string>> results(threads_at_once);
        std::vector<std::thread> threads;
        for (auto &result : results) {
            threads.emplace_back(thread_main, &result);
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        for (const auto &result : results) {
            CHECK(result.front().size() == 100000);
        }
    }
    CHECK(destroyed == 2 * threads_at_once * rounds);
    puts("thread_local: ok");
    return 0;
}
