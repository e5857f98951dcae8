"""Two profiles side by side: matched by names, and only what is sure is said to be."""

from dataclasses import replace

import pytest
from synthetic_profile import Simulation

from hakmem.insight.compare import Change, Side, changes, diff_page, folded, headline
from hakmem.insight.views import LIVE, PEAK, sites_interval, stacks_of

Program = dict[str, int]


def side(seed: int, program: Program, first: str = "") -> Side:
    """Blocks of 4 KiB by function; with `first`, everything lies at another address."""
    made = Simulation(seed)
    if first:
        made.site(first, "elsewhere")
    for name, count in program.items():
        made.allocate(made.site("main", name), 4096, count)
    profile = made.profile()
    return Side(profile, stacks_of(profile, made.symbols))


OLD = {"same": 50_000, "grown": 10_000, "shrunk": 40_000, "gone": 20_000}
NEW = {"same": 50_000, "grown": 60_000, "shrunk": 4_000, "new": 30_000}


@pytest.fixture(scope="module")
def found() -> dict[str, Change]:
    all_of_them = changes(side(1, OLD), side(2, NEW, "moved"), LIVE)
    assert [abs(c.bytes) for c in all_of_them] == sorted(
        (abs(c.bytes) for c in all_of_them), reverse=True
    )
    return {change.culprit.function: change for change in all_of_them}


def test_stacks_match_by_name(found: dict[str, Change]) -> None:
    assert set(found) == set(OLD) | set(NEW)
    assert found["gone"].after.value == 0 == found["new"].before.value


def test_what_is_sure(found: dict[str, Change]) -> None:
    assert {name for name, change in found.items() if change.is_sure} == {
        "grown",
        "shrunk",
        "gone",
        "new",
    }
    assert found["grown"].bytes > 0 > found["shrunk"].bytes
    # 50,000 blocks more of 4 KiB.
    assert found["grown"].bytes == pytest.approx(50_000 * 4096, rel=0.3)


def test_same_program_has_not_changed() -> None:
    """Two 95 % intervals of the same miss each other in less than one of a hundred cases."""
    sure = [
        change.is_sure
        for seed in range(100)
        for change in changes(side(seed, OLD), side(seed + 1000, OLD), LIVE)
    ]
    assert sum(sure) <= 0.02 * len(sure)


def test_folded_has_both_columns(found: dict[str, Change]) -> None:
    lines = folded(list(found.values())).splitlines()
    rows = {line.split()[0]: tuple(map(int, line.split()[1:])) for line in lines}
    assert len(rows) == len(found)
    assert rows["main;new"] == (0, round(found["new"].after.value))
    assert rows["main;gone"] == (round(found["gone"].before.value), 0)


def test_page(found: dict[str, Change]) -> None:
    old, new = side(1, OLD), side(2, NEW)
    text = diff_page(old, new, LIVE, changes(old, new, LIVE))
    for name in found:
        assert f'data-by="{name}"' in text
    assert '"change":[1,0]' in text


def test_headline_says_only_what_is_sure() -> None:
    assert "no call stack" in headline(changes(side(1, OLD), side(2, OLD), LIVE), LIVE)
    assert "grown, up" in headline(
        changes(side(1, OLD), side(2, OLD | {"grown": 90_000}), LIVE), LIVE
    )


def test_stacks_that_few_samples_tell_of_have_not_changed() -> None:
    """Three hundred of 200 KiB each: of most of them one side or both have no sample."""
    small = {f"f{number}": 50 for number in range(300)}
    sure = [
        change.is_sure
        for seed in range(5)
        for change in changes(side(seed, small), side(seed + 100, small), LIVE)
    ]
    assert len(sure) > 500
    assert sum(sure) <= 0.01 * len(sure)


def test_what_was_not_live_at_the_peak_may_have_been_too_small_to_be_seen() -> None:
    made = side(1, {"once": 1000})
    (site,) = made.profile.sites
    unseen = replace(site, peak_bytes=0, peak_objects=0.0, peak_samples=0)
    assert sites_interval(made.profile, [site], PEAK).low > 0
    there = sites_interval(made.profile, [unseen], PEAK)
    assert (there.value, there.low) == (0, 0)
    assert there.high > made.profile.spacing
