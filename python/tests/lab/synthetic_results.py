"""Results as a measurement would leave them, made up from a seed; for what only shows results."""

import random
from typing import Any, Literal

from hakmem.lab.model import Arm, Case, Results, Sample, rows_of

FACTORS = {
    "glibc": (1.0, 1.0),
    "hakmem": (0.72, 0.97),
    "jemalloc": (0.9, 1.1),
    "mimalloc2": (0.76, 1.07),
    "mimalloc3": (0.78, 1.02),
    "snmalloc": (0.8, 1.15),
    "rpmalloc": (0.82, 1.3),
    "tcmalloc": (0.79, 1.2),
    "jemalloc-debian": (0.93, 1.12),
    "mimalloc-debian": (0.8, 1.1),
}
BENCHMARKS = (
    "random_mixed_256", "random_mixed_4096", "random_mixed_65536", "tiny_hot", "larson_8_128_t1",
    "larson_8_128_t4", "larson_8_1024_t4", "json", "mir", "server", "producer_consumer",
    "false_sharing_active", "short_threads", "realloc_growth", "phase_change", "tail_latency",
)  # fmt: skip
PROGRAMS = ("redis", "sqlite", "python_json", "g++", "lua")
PARAGRAPH = (
    "Blocks of {name} come and go in the order that a long-running program makes of them: most of "
    "them die young, some stay for the whole run."
)


def arms(names: list[str] | None = None) -> list[Arm]:
    kinds = {"glibc": "glibc", "hakmem": "hakmem"}
    chosen = names or list(FACTORS)
    return [Arm(name, "1.2.3", None, kind=kinds.get(name, "peer")) for name in chosen]  # type: ignore[arg-type]


def suite_results(seed: int = 7, rounds: int = 7, broken: bool = True) -> Results:
    """A whole suite; with `broken`, one allocator fails on one benchmark and one run in another."""
    numbers = random.Random(seed)
    results = _empty("hakmem bench --quick")
    for name in (*BENCHMARKS, *PROGRAMS):
        group: Literal["program", "benchmark"] = "program" if name in PROGRAMS else "benchmark"
        _measure(results, _case(name, group), arms(), numbers, rounds)
    if broken:
        _break(results, "larson_8_128_t4", "rpmalloc", "killed by signal 11 (segmentation fault)")
    results.sections["method"] = {
        "seed": 1, "elapsed_s": 281.4, "budget_s": 290.0, "left_out": ["vm"],
        "rounds": {name: rounds for name in (*BENCHMARKS, *PROGRAMS)},
    }  # fmt: skip
    return results


def command_results(seed: int = 3, rounds: int = 9) -> Results:
    """One command of the user's own, with memory over time and a layer profile."""
    numbers = random.Random(seed)
    results = _empty("hakmem compare -- ./my-server --selftest")
    _measure(results, _case("./my-server --selftest", "command"), arms(), numbers, rounds)
    results.sections["rss_over_time"] = {"./my-server --selftest": _timelines(numbers)}
    results.sections["layers"] = [layer_entry("hakmem", 1.0), layer_entry("glibc", 1.4)]
    return results


def layer_entry(allocator: str, seconds: float) -> dict[str, Any]:
    shares = {"program": 0.55, "faults": 0.1, "memory_calls": 0.03, "kernel": 0.02}
    divided = {"entry": 0.12, "magazine": 0.05, "refill": 0.07, "remote": 0.02, "pool": 0.03}
    shares |= {**divided, "purge": 0.01} if allocator == "hakmem" else {"allocator": 0.3}
    return {
        "command": ["./my-server", "--selftest"],
        "allocator": allocator,
        "samples": 4021,
        "cpu_s": seconds,
        "layers": [
            {"key": key, "label": key, "share": share, "low": share * 0.9, "high": share * 1.1,
             "seconds": share * seconds, "ns_per_op": None}
            for key, share in shares.items()
        ],
        "functions": [["entry", "hak_malloc", 0.08], ["refill", "slab_take", 0.03]],
        "plain": {"wall_s": seconds, "user_s": 0.8 * seconds, "sys_s": 0.2 * seconds,
                  "page_faults": 52000, "ops": None, "counters": {"refill": 311, "flush": 290}},
        "fault_cost": {"page_ns": 812.0, "huge_page_ns": 98000.0},
        "notes": [],
        "fault_seconds": 0.042,
    }  # fmt: skip


def _empty(command: str) -> Results:
    host = {
        "system": "Debian GNU/Linux 12 (bookworm)", "release": "6.18.0", "machine": "x86_64",
        "processor": "AMD EPYC", "processors": 2, "memory_kib": 25165824, "virtual": True,
        "huge_pages": "madvise", "libc": "glibc 2.36", "load_average": 0.4,
    }  # fmt: skip
    return Results(host, "2026-11-21T13:30:00+00:00", command)


def _case(name: str, group: Literal["benchmark", "program", "command"]) -> Case:
    paragraph = PARAGRAPH.format(name=name)
    return Case(
        name, ("1000", "2000"), 4 if name.endswith("t4") else 1, "pair", paragraph,
        f"Not {name} over hours.", (name,), 60.0, group=group,
    )  # fmt: skip


def _measure(
    results: Results, case: Case, allocators: list[Arm], numbers: random.Random, rounds: int
) -> None:
    results.describe_case(case)
    size, length = numbers.uniform(4_000, 400_000), numbers.uniform(0.15, 0.35)
    weather = [numbers.lognormvariate(0, 0.05) for _ in range(rounds)]
    for arm in allocators:
        results.describe_arm(arm)
        time, memory = FACTORS[arm.name]
        own = numbers.lognormvariate(0, 0.0 if arm.name == "glibc" else 0.25)
        spread = numbers.choice((0.005, 0.01, 0.04))
        samples = [
            Sample(
                time_s=length * time * own * bad * numbers.lognormvariate(0, spread),
                user_s=0.8 * length * time * own,
                sys_s=0.1 * length,
                peak_rss_kib=size * memory * own**0.4 * numbers.lognormvariate(0, 0.004),
                page_faults=int(size * memory / 4),
                ops=1_000_000,
            )
            for bad in weather
        ]
        results.rows += rows_of(case, arm, samples)


def _break(results: Results, benchmark: str, allocator: str, why: str) -> None:
    kept = [r for r in results.rows if (r.benchmark, r.allocator) != (benchmark, allocator)]
    arm = Arm(allocator, "1.2.3", None)
    results.rows = kept + rows_of(_case(benchmark, "benchmark"), arm, [Sample(failed=why)])


def _timelines(numbers: random.Random) -> dict[str, Any]:
    lines = {}
    for name, (time, memory) in FACTORS.items():
        end = 4 * time
        t = [end * n / 200 for n in range(201)]
        rss = [memory * 200_000 * min(1.0, 2 * n / 200) * (0.4 if n > 150 and memory < 1.05 else 1)
               for n in range(201)]  # fmt: skip
        lines[name] = {"t_s": t, "rss_kib": [value * numbers.uniform(0.98, 1.0) for value in rss]}
    return lines
