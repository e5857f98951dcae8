"""When a report says that its call stacks are too short, and how to get longer ones."""

import re
from dataclasses import replace

from synthetic_profile import INTERVAL, Simulation

from hakmem.insight.profile import Profile
from hakmem.insight.views import LIVE, TOTAL, View, hint, stacks_of


def said(made: Simulation, view: View = LIVE, **settings: int) -> str:
    profile: Profile = replace(made.profile(), settings=settings)
    return hint(profile, stacks_of(profile, made.symbols), view)


def said_of(profile: Profile) -> str:
    usual = {"profile_interval": INTERVAL, "profile_rate": 500}
    profile = replace(profile, settings=usual)
    return hint(profile, (), LIVE)


def within(seconds: float, profile: Profile) -> Profile:
    """All of it in that time, with samples that are far apart now."""
    began = profile.now_ms - round(1000 * seconds)
    return replace(profile, shown_ms=began, interval=1 << 30, known_live=1 << 30)


def program(*stacks: tuple[str, ...]) -> Simulation:
    made = Simulation()
    for stack in stacks:
        made.allocate(made.site(*stack), 16 << 20, 100)
    return made


WHOLE = ("main", "serve", "remember")


def test_callers_alone_are_too_little() -> None:
    text = said(program(("remember",), ("keep",), WHOLE))
    assert text.startswith("67 % of it")
    assert "HAKMEM_PROFILE_UNWIND=1" in text


def test_wrappers_alone_are_too_little() -> None:
    assert said(program(("RM_Alloc", "zmalloc"), ("RM_Alloc", "xmalloc")))


def test_whole_stacks_need_no_hint() -> None:
    assert said(program(WHOLE, ("main", "keep"), ("start",))) == ""


def test_nothing_better_is_to_be_had_than_unwinding() -> None:
    assert said(program(("remember",)), profile_unwind=1) == ""


def test_what_counts_is_what_is_shown() -> None:
    made = program(WHOLE)
    made.allocate(made.site("soon_gone"), 16 << 20, 1000, life=0.001)
    assert said(made, LIVE) == ""
    assert said(made, TOTAL)


def test_nothing_live_needs_no_hint() -> None:
    made = Simulation()
    made.allocate(made.site("soon_gone"), 16 << 20, 1000, span=(0, 900), life=0.001)
    assert said(made) == ""


def test_samples_too_far_apart_are_said_to_be() -> None:
    made = program(WHOLE)
    text = said_of(within(0.001, made.profile()))
    assert text.startswith("1.00 GiB are live, and samples 1.00 GiB apart")
    assert "HAKMEM_PROFILE_RATE=50000 " in text


def test_of_large_blocks_no_more_samples_are_asked_for_than_there_are_blocks() -> None:
    made = program(WHOLE)
    made.allocate(made.site("frames"), 64 << 20, 1000)
    assert re.search(r"HAKMEM_PROFILE_RATE=110\d ", said_of(within(2, made.profile())))


def test_samples_as_close_as_usual_are_enough() -> None:
    made = program(WHOLE)
    assert said_of(replace(made.profile(), known_live=1 << 30)) == ""
    assert said_of(replace(made.profile(), interval=1 << 30, known_live=1 << 20)) == ""


def test_large_blocks_do_not_look_like_samples_far_apart() -> None:
    made = Simulation()
    made.allocate(made.site(*WHOLE), 100, 64 << 20)
    profile = replace(made.profile(), known_live=1 << 30)
    assert profile.spacing == profile.interval


def test_a_call_stack_of_large_and_small_blocks_does_not_look_like_samples_far_apart() -> None:
    made = Simulation()
    site = made.site("resize")
    made.allocate(site, 20 << 20, 1)
    made.allocate(site, 600, 4_000)
    profile = replace(made.profile(), known_live=22 << 20)
    assert profile.spacing == profile.interval
    assert said_of(profile) == ""
    assert profile.live.high < 28 << 20


def test_samples_that_were_far_apart_are_remembered() -> None:
    made = program(WHOLE)
    page = {"samples": 100, "intervals": 100 << 30}
    far = replace(made.profile(), page=page, known_live=1 << 30)
    assert far.interval < far.spacing == 1 << 30
    assert "samples 1.00 GiB apart" in said_of(far)
