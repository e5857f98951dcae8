"""The sentences at the end, from made-up results."""

import math

import pytest

from hakmem.lab import tables, words
from hakmem.lab.model import Arm, Case, Results, Sample, rows_of
from hakmem.lab.statistics import Comparison, Verdict
from hakmem.lab.story import Story

LEVEL = "is not distinguishable from glibc in time"
NOISE = [1.0, 1.004, 0.997, 1.002, 0.998, 1.001, 0.999, 1.003]
Costs = dict[str, tuple[float, ...] | None]


def results(benchmarks: dict[str, Costs]) -> Results:
    """From benchmark -> allocator -> (time, memory, faults, if there are any); None is a crash."""
    found = Results({}, "", "")
    for name, costs in benchmarks.items():
        case = Case(name, (), 1, "run", "", "", ("true",), 1.0)
        for allocator, cost in costs.items():
            samples = [
                Sample(failed="killed")
                if cost is None
                else Sample(
                    time_s=cost[0] * noise,
                    peak_rss_kib=1000 * cost[1],
                    page_faults=round(1000 * sum(cost[2:])),
                )
                for noise in (NOISE if allocator == "hakmem" else reversed(NOISE))
            ]
            found.rows += rows_of(case, Arm(allocator, "1", None), samples)
    return found


def test_one_command() -> None:
    made = results(
        {"cmd": {"glibc": (1, 1), "hakmem": (0.92, 0.88), "jemalloc": (0.92, 1), "fast": (0.8, 1)}}
    )
    said = words.conclusion(made, "hakmem")
    assert said[0].startswith("hakmem is 8") and "% less memory." in said[0]
    assert "faster than glibc and uses 12 % less memory" in said[0]
    assert said[1].startswith("fast is 13") and said[1].endswith("faster than hakmem.")
    assert said[2] == "jemalloc is not distinguishable from hakmem in time."
    assert said[3] == "jemalloc (14 %) and fast (14 %) use more memory than hakmem."


def test_one_command_and_its_faults() -> None:
    costs: Costs = {"glibc": (1, 1, 2), "hakmem": (1, 1, 1), "few": (1, 1, 0.5), "many": (1, 1, 3)}
    said = words.conclusion(results({"cmd": costs}), "hakmem")
    assert "hakmem causes 50 % fewer page faults than glibc." in said
    assert "few causes 50 % fewer page faults than hakmem." in said
    assert "many (3.0 times) causes more page faults than hakmem." in said


def test_a_suite_names_losses_before_gains() -> None:
    made = results(
        {
            "good": {"glibc": (1, 1), "hakmem": (0.5, 1), "slow": (2, 2)},
            "bad": {"glibc": (1, 1), "hakmem": (1.3, 1), "slow": (2, 2)},
            "crash": {"glibc": (1, 1), "hakmem": (0.9, 1), "slow": None},
        }
    )
    said = words.conclusion(made, "hakmem")
    text = "\n".join(said)
    assert said[0].startswith("Over 3 benchmarks (geometric mean), hakmem is ")
    assert said[1] == "slow failed: crash (killed)."
    assert "worse than glibc on 1 of 3 benchmarks: bad (30 %)" in text
    assert "clearly better than hakmem on 1 of 3 benchmarks: bad (1.30 times glibc's)" in text
    assert text.index("bad (30 %)") < text.index("slower than hakmem")
    assert "In memory, no other allocator is clearly better than hakmem anywhere." in said


def test_failure_of_the_subject_is_the_headline() -> None:
    made = results({"cmd": {"glibc": (1, 1), "hakmem": None}})
    said = words.headline(made, "hakmem")
    assert said == "hakmem and glibc could not be compared: hakmem: killed."


def test_who_failed_is_not_called_better_nor_worse() -> None:
    costs: Costs = {"glibc": (1, 1, 1), "hakmem": (1, 1, 1), "fast": (0.5, 0.5, 0.5)}
    for made in (results({"cmd": costs}), results({"cmd": costs, "other": costs})):
        for row in made.rows:
            if row.allocator == "fast":
                row.failed = "1 of 8 runs: killed"
        said = words.conclusion(made, "hakmem")
        assert [line for line in said if "fast" in line] == [said[1]]
        assert said[1].startswith("fast failed: ")
        assert tables.best_of(made, "cmd", "page_faults") is None
        assert Story(made)._against_best("time_s", "cmd")[0].endswith("glibc")
        note = words.headline(made, "fast")
        assert note.startswith("fast and glibc could not be compared")


def test_without_glibc_the_first_other_is_the_base() -> None:
    made = results({"cmd": {"before": (1, 1), "after": (1.1, 1)}})
    assert "slower than before" in words.headline(made, "after")


def compared(ratio: float, low: float, high: float, metric: str = "time_s") -> Comparison:
    sides = Verdict.WORSE if low > 1 else Verdict.BETTER if high < 1 else Verdict.CANNOT_TELL
    return Comparison(metric, ratio, low, high, 8, sides, low > 0.99 and high < 1.01)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (compared(0.92, 0.90, 0.94), "is 8 % (6-10) faster than glibc"),
        (compared(1.08, 1.06, 1.11), "is 8 % (6-11) slower than glibc"),
        (compared(1.025, 1.02, 1.031), "is 2.5 % (2-3.1) slower than glibc"),
        (compared(0.4, 0.38, 0.42), "is 2.5 times as fast as glibc (2.4-2.6)"),
        (compared(2.9, 2.7, 3.1), "takes 2.9 times as long as glibc (2.7-3.1)"),
        (compared(1.0, 0.999, 1.001), "equals glibc in time (within 1 %)"),
        (compared(1.0, 0.97, 1.04), "is not distinguishable from glibc in time (-3.0 % to +4.0 %)"),
        (
            Comparison("time_s", 0.38, 0.37, 0.38, 2),
            "may differ from glibc in time (-63.0 % to -62.0 %), too few rounds to tell",
        ),
        (compared(0.88, 0.87, 0.89, "peak_rss_kib"), "uses 12 % (11-13) less memory than glibc"),
        (compared(1.05, 1.05, 1.05, "peak_rss_kib"), "uses 5 % more memory than glibc"),
        (compared(3.0, 2.9, 3.1, "peak_rss_kib"), "uses 3.0 times as much memory as glibc"),
        (compared(0.3, 0.2, 0.4, "page_faults"), "causes 70 % fewer page faults than glibc"),
        (compared(0.9, 0.8, 0.95, "p50_ns"), "has 10 % (5-20) less p50_ns than glibc"),
        (compared(0.9, 0.8, 0.95, "ops_per_s"), "is 10 % (5-20) faster than glibc"),
        (compared(1.1, math.nan, math.nan), f"{LEVEL} (a single round)"),
        (Comparison("time_s", failed="killed"), "cannot be compared with glibc: killed"),
    ],
)
def test_a_comparison_in_words(found: Comparison, said: str) -> None:
    assert words.predicate(found, "glibc") == said


def test_many_names_are_cut_short() -> None:
    assert words.enumerate_names(["a"]) == "a"
    assert words.enumerate_names(["a", "b", "c"]) == "a, b and c"
    assert words.enumerate_names(list("abcdefg")) == "a, b, c, d and 3 more"
