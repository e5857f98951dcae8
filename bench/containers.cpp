// containers: the standard library's containers, as C++ programs use them.
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common.h"

namespace
{

constexpr unsigned warm_rounds = 2;
constexpr unsigned items = 2000;

void expect(std::uint64_t found, std::uint64_t expected)
{
    if (found != expected) {
        die("a container's content was changed by somebody else");
    }
}

std::string name_of(std::uint64_t key)
{
    // From 5 to 30 characters: some fit into the string object itself, others do not.
    return "key-" + std::string(key % 17, static_cast<char>('a' + key % 26)) +
           std::to_string(key % 1000000007);
}

// An index by name: nodes of a tree, each with a string and a vector that grew.
std::uint64_t index_by_name(std::uint64_t &random)
{
    std::map<std::string, std::vector<std::uint32_t>> index;
    std::uint64_t expected = 0;
    for (unsigned i = 0; i < items; i++) {
        std::uint64_t bits = next_random(&random);
        index[name_of(bits % items)].push_back(static_cast<std::uint32_t>(bits));
        expected += static_cast<std::uint32_t>(bits);
    }
    std::uint64_t found = 0;
    for (const auto &entry : index) {
        for (std::uint32_t value : entry.second) {
            found += value;
        }
    }
    expect(found, expected);
    return items;
}

struct Record {
    std::uint64_t key;
    std::string text;
    std::unique_ptr<Record> next;
};

// Records by number, half of them removed and others put in.
std::uint64_t records_by_number(std::uint64_t &random)
{
    std::unordered_map<std::uint64_t, std::unique_ptr<Record>> records;
    std::uint64_t expected = 0;
    for (std::uint64_t key = 0; key < items; key++) {
        auto next = std::make_unique<Record>(Record{key, {}, nullptr});
        records[key] =
            std::make_unique<Record>(Record{key, name_of(next_random(&random)), std::move(next)});
    }
    for (std::uint64_t key = 0; key < items; key += 2) {
        records.erase(key);
        records[key + items] = std::make_unique<Record>(Record{key + items, name_of(key), nullptr});
    }
    for (std::uint64_t key = 0; key < items; key++) {
        expected += key % 2 == 0 ? key + items : key;
    }
    std::uint64_t found = 0;
    for (const auto &entry : records) {
        expect(entry.second->key, entry.first);
        found += entry.second->key;
    }
    expect(found, expected);
    return items + items / 2;
}

// A queue of messages, as long as it is deep.
std::uint64_t queue_of_messages(std::uint64_t &random)
{
    std::deque<std::string> queue;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    for (unsigned i = 0; i < items; i++) {
        queue.push_back(name_of(next_random(&random)) + std::string(i % 200, '.'));
        sent += queue.back().size();
        if (queue.size() > 64) {
            received += queue.front().size();
            queue.pop_front();
        }
    }
    for (const std::string &message : queue) {
        received += message.size();
    }
    expect(received, sent);
    return items;
}

std::uint64_t run_rounds(std::uint64_t rounds, std::uint64_t &random)
{
    std::uint64_t operations = 0;
    for (std::uint64_t i = 0; i < rounds; i++) {
        operations += index_by_name(random);
        operations += records_by_number(random);
        operations += queue_of_messages(random);
    }
    return operations;
}

} // namespace

int main(int argc, char **argv)
{
    parameter parameters[] = {
        {"ROUNDS", "of filling and emptying every container", 1, 100000000, nullptr, 0, 0},
        {"SEED", "of keys and texts", 0, UINT32_MAX, nullptr, 1, 1},
    };
    parse_arguments("The standard library's containers, as C++ programs use them.", parameters, 2,
                    argc, argv);
    std::uint64_t random = seeded(parameters[1].value, 0);
    run_rounds(warm_rounds, random);
    std::uint64_t start = now_ns();
    std::uint64_t operations = run_rounds(parameters[0].value, random);
    report(operations, now_ns() - start);
    return 0;
}
