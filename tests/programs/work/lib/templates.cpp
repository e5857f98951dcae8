// A template-heavy program: its compilation, not its run, is what exercises the allocator.
#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

template <std::size_t N> struct fibonacci {
    static constexpr unsigned long value = fibonacci<N - 1>::value + fibonacci<N - 2>::value;
};
template <> struct fibonacci<1> {
    static constexpr unsigned long value = 1;
};
template <> struct fibonacci<0> {
    static constexpr unsigned long value = 0;
};

template <typename... Ts> struct type_list {
    static constexpr std::size_t size = sizeof...(Ts);
};

template <std::size_t I> struct tag {
    std::array<char, I + 1> bytes{};
    std::map<std::string, std::vector<std::array<int, I % 7 + 1>>> index;
};

template <std::size_t... Is> auto make_tags(std::index_sequence<Is...>)
{
    return std::make_tuple(std::make_unique<tag<Is>>()...);
}

template <typename Tuple, std::size_t... Is>
std::size_t total_size(const Tuple &tags, std::index_sequence<Is...>)
{
    return (std::get<Is>(tags)->bytes.size() + ...);
}

template <typename... Ts> auto compose(Ts... functions)
{
    return [=](auto value) {
        ((value = functions(value)), ...);
        return value;
    };
}

template <std::size_t N> constexpr std::array<unsigned, N> sieve()
{
    std::array<unsigned, N> marks{};
    for (std::size_t i = 2; i < N; ++i) {
        for (std::size_t j = i * 2; marks[i] == 0 && j < N; j += i) {
            marks[j] = 1;
        }
    }
    return marks;
}

using value = std::variant<int, double, std::string, std::vector<int>>;

static std::string show(const value &v)
{
    return std::visit(
        [](const auto &x) -> std::string {
            using type = std::decay_t<decltype(x)>;
            std::ostringstream out;
            if constexpr (std::is_same_v<type, std::vector<int>>) {
                out << std::accumulate(x.begin(), x.end(), 0);
            } else {
                out << x;
            }
            return out.str();
        },
        v);
}

int main()
{
    constexpr auto marks = sieve<500>();
    auto tags = make_tags(std::make_index_sequence<40>{});
    std::cout << fibonacci<80>::value << ' ' << type_list<int, char, std::string>::size << '\n'
              << total_size(tags, std::make_index_sequence<40>{}) << '\n'
              << std::count(marks.begin(), marks.end(), 0U) << '\n';
    for (const value &v :
         {value{1}, value{2.5}, value{std::string("three")}, value{std::vector<int>{1, 2, 3}}}) {
        std::cout << show(v) << '\n';
    }
    auto chain = compose([](int x) { return x + 1; }, [](int x) { return x * 3; });
    std::unordered_map<std::string, std::set<int>> groups;
    for (int i = 0; i < 1000; ++i) {
        groups["g" + std::to_string(i % 17)].insert(chain(i));
    }
    std::regex number("([0-9]+)-([a-z]*)");
    std::smatch match;
    std::string text = "order 66-abc";
    if (std::regex_search(text, match, number)) {
        std::cout << match[1] << ' ' << match[2] << ' ' << groups["g5"].size() << '\n';
    }
}
