"""The jobs of the demonstration: real programs, and input made for them."""

import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from hakmem.errors import HakmemError

SEED = 20240229
RECORDS = 30_000
REPETITIONS = 2
TEMPLATE_TYPES = 5
HEADERS = (
    *("algorithm", "functional", "map", "numeric", "regex", "set", "string"),
    *("tuple", "unordered_map", "variant", "vector"),
)


@dataclass(frozen=True)
class Job:
    """A command whose cost is measured and whose output must not depend on the allocator."""

    name: str
    title: str
    command: list[str]
    output: Path
    environment: dict[str, str] = field(default_factory=dict)


def prepare(folder: Path) -> list[Job]:
    return [json_job(folder), compiler_job(folder)]


def json_job(folder: Path) -> Job:
    document = folder / "document.json"
    _write_document(document)
    script = Path(__file__).parent / "json_round_trip.py"
    # The interpreter itself, not the private environment's link to it.
    python = os.path.realpath(sys.executable)
    return Job(
        name="python-json",
        title=f"Python, {document.stat().st_size >> 20} MiB of JSON",
        command=[python, "-S", str(script), str(document), str(REPETITIONS)],
        output=folder / "stdout",
        # Python's own small-object allocator would hide malloc from most of the work.
        environment={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"},
    )


def _write_document(path: Path) -> None:
    import json

    source = random.Random(SEED)
    letters = "abcdefghijklmnop"
    words = ["".join(source.choices(letters, k=source.randint(3, 14))) for _ in range(900)]
    records = [
        {
            "id": number,
            "name": " ".join(source.choices(words, k=3)),
            "tags": source.choices(words, k=source.randint(1, 8)),
            "position": [source.uniform(-180, 180), source.uniform(-90, 90)],
            "owner": {"name": source.choice(words), "active": source.random() < 0.5, "score": None},
            "history": [
                {"at": source.randrange(10**9), "note": " ".join(source.choices(words, k=4))}
                for _ in range(source.randint(0, 5))
            ],
        }
        for number in range(RECORDS)
    ]
    path.write_text(json.dumps(records), encoding="utf-8")


def compiler_job(folder: Path) -> Job:
    source = folder / "templates.cpp"
    source.write_text(template_source(TEMPLATE_TYPES), encoding="utf-8")
    preprocessed = folder / "templates.ii"
    driver = shutil.which("g++")
    if driver is None:
        raise HakmemError("the demonstration needs g++")
    _checked([driver, "-std=c++17", "-E", "-P", str(source), "-o", str(preprocessed)])
    compiler = _checked([driver, "-print-prog-name=cc1plus"]).strip()
    output = folder / "templates.s"
    # The compiler proper: measured alone, without driver, assembler and linker around it.
    return Job(
        name="g++-templates",
        title="g++ -O1, templates",
        command=[
            *(compiler, "-quiet", "-fpreprocessed", "-std=c++17", "-O1"),
            *(str(preprocessed), "-o", str(output)),
        ],
        output=output,
    )


def _checked(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise HakmemError(f"{command[0]} failed:\n{result.stderr.rstrip()}")
    return result.stdout


def template_source(types: int) -> str:
    """Containers, algorithms and closures instantiated anew for each of many types."""
    lines = [f"#include <{header}>" for header in HEADERS]
    lines += [_template_unit(number) for number in range(types)]
    calls = " + ".join(f"work_{number}(argc)" for number in range(types))
    lines.append(f"int main(int argc, char **) {{ return static_cast<int>({calls}); }}")
    return "\n".join(lines) + "\n"


def _template_unit(n: int) -> str:
    return f"""
struct item_{n} {{
    int key[{n + 1}];
    std::string name;
    bool operator<(const item_{n} &other) const {{ return name < other.name; }}
}};
template <int Depth> struct nest_{n} {{
    std::map<std::string, std::vector<nest_{n}<Depth - 1>>> inner;
    std::size_t size() const {{
        return std::accumulate(inner.begin(), inner.end(), std::size_t{{0}},
            [](std::size_t sum, const auto &entry) {{
                for (const auto &part : entry.second) sum += part.size();
                return sum;
            }});
    }}
}};
template <> struct nest_{n}<0> {{
    std::tuple<item_{n}, long> leaf;
    std::size_t size() const {{ return std::get<0>(leaf).name.size(); }}
}};
std::size_t work_{n}(int seed) {{
    std::vector<item_{n}> items(static_cast<std::size_t>(seed));
    std::sort(items.begin(), items.end());
    std::stable_sort(items.begin(), items.end(),
        [](const auto &a, const auto &b) {{ return a.key[0] > b.key[0]; }});
    std::unordered_map<std::string, std::set<item_{n}>> groups;
    for (auto &item : items) groups[item.name].insert(item);
    std::variant<item_{n}, std::string, std::vector<int>> choice = items.front();
    std::function<std::size_t(const std::string &)> match = [&](const std::string &text) {{
        return static_cast<std::size_t>(std::regex_match(text, std::regex(items.front().name)));
    }};
    nest_{n}<6> tree;
    return tree.size() + groups.size() + match("x") + choice.index();
}}"""
