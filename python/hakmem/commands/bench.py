"""`hakmem bench`: the benchmark suite under every allocator, or two states of hakmem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hakmem.clone import RELEASE, Clone, require_clone
from hakmem.commands.options import file_path, method_options, output_options
from hakmem.errors import HakmemError
from hakmem.terminal import say
from hakmem.written import STDOUT, try_file

if TYPE_CHECKING:
    from hakmem.commands.output import Targets
    from hakmem.lab.execute import Executor
    from hakmem.lab.layers import LayerProfile
    from hakmem.lab.model import Arm, Case, Results

# Of the measuring itself: with building, a last look at memory over time and drawing, quick stays
# within 5 minutes and the whole suite within 60.
QUICK_BUDGET_S = 230.0
FULL_BUDGET_S = 50 * 60.0
BASE = "glibc"
EXAMPLES = """\b
Examples:
  ./hakmem bench --setup-peers
  ./hakmem bench --quick
  ./hakmem bench --only larson --arms glibc,hakmem,mimalloc3 --rounds 10
  ./hakmem bench --quick --a HEAD~1 --b .
  ./hakmem bench --quick --a . --b profile:lean
  ./hakmem bench --quick --precise --against bench/baseline.json
  ./hakmem bench --goals --json run.json
  ./hakmem bench --goals --only larson
  ./hakmem bench --from run.json --markdown docs/measurements.md"""


@dataclass(frozen=True)
class Choice:
    """What the options say."""

    clone: Clone
    quick: bool
    only: str | None
    rounds: int | None
    budget: float | None
    seed: int
    arms: str | None
    library: Path | None
    a: str | None
    b: str | None
    precise: bool
    programs: bool | None
    goals: bool

    @property
    def measures_something(self) -> bool:
        """Whether more is asked for than the peers."""
        settings = (self.only, self.rounds, self.arms, self.a, self.b)
        is_set = any(setting is not None for setting in settings)
        return is_set or self.quick or self.precise or self.goals


@dataclass(frozen=True)
class Earlier:
    """The baseline of --against, as it was before anything was written."""

    file: Path
    figures: dict[str, Any]


@click.command(epilog=EXAMPLES)
@click.option("--quick", is_flag=True, help="A shorter suite, within 5 minutes.")
@click.option("--only", metavar="REGEX", help="Only benchmarks with such a name.")
@click.option(
    "--programs/--no-programs", default=None, help="Real programs too; not in --quick by itself."
)
@click.option(
    "--setup-peers",
    is_flag=True,
    help="Install the other allocators and the programs first; alone, only that.",
)
@click.option("--precise", is_flag=True, help="Count instructions and cache misses too (slow).")
@click.option("--a", metavar="WHAT", help="A/B of hakmem: revision, ., library, profile, k:v,...")
@click.option("--b", metavar="WHAT", help="Compared with --a; the working tree if left out.")
@click.option(
    "--against",
    type=file_path(exists=True),
    metavar="FILE",
    help="Fail if worse than this baseline.",
)
@click.option("--save-baseline", type=file_path(), metavar="FILE", help="For later --against.")
@click.option("--goals", is_flag=True, help="Is it ahead? Holds the run against bench/goals.toml.")
@click.option(
    "--from",
    "saved",
    type=file_path(exists=True),
    metavar="FILE",
    help="Instead of measuring: show the figures that --json saved.",
)
@click.option("--layers", metavar="CASE", help="Instead: where one benchmark's time goes.")
@method_options
@output_options
@click.pass_obj
def bench(
    clone: Clone | None,
    setup_peers: bool,
    goals: bool,
    saved: Path | None,
    layers: str | None,
    against: Path | None,
    save_baseline: Path | None,
    json_file: Path | None,
    html: Path | None,
    markdown: Path | None,
    png: Path | None,
    quick: bool,
    only: str | None,
    programs: bool | None,
    precise: bool,
    a: str | None,
    b: str | None,
    rounds: int | None,
    budget: float | None,
    seed: int,
    arms: str | None,
    library: Path | None,
) -> int:
    """Compare allocators, or two states of hakmem, on the benchmark suite.

    Every benchmark runs under every allocator, in random order and interleaved, in rounds; the
    ratios within a round are what counts. Without --rounds, a benchmark that is clear gets no more
    of them, and the others get what time there is. Without --quick it takes up to an hour.

    --a and --b take a git revision (built on the side), '.' for the working tree, the path of a
    library (or several, as in LD_PRELOAD), profile:NAME, or settings as key:value,...

    --goals counts instructions, cache misses, page faults and live bytes too where a goal asks for
    them, which takes some minutes more, and adds a table: what must hold, what was measured, and
    which benchmark or allocator decides. With --from it judges a saved run.

    The exit status is 1 if --against finds a regression that is certain.
    """
    from hakmem.commands.output import Targets, command_line
    from hakmem.lab.execute import cache_folder

    is_ab = a is not None or b is not None
    if is_ab and (arms is not None or library):
        raise click.UsageError("--a and --b compare hakmem with itself, without --arms, --library")
    home = require_clone(clone)
    targets = Targets(
        json_file, html, png, None if saved else cache_folder(home) / "results", markdown
    )
    targets.check([file for file in (saved, against) if file], save_baseline)
    if save_baseline:
        _check_baseline(save_baseline)
    if is_ab and goals:
        raise click.UsageError("--goals is about other allocators, without --a and --b")
    choice = Choice(
        home, quick, only, rounds, budget, seed, arms, library, a, b, precise, programs, goals
    )
    if saved:
        if layers is not None or setup_peers or replace(choice, goals=False).measures_something:
            raise click.UsageError("--from shows what was measured: without options to measure by")
        earlier = _earlier(against)
        return _conclude(*_load(saved), targets, earlier, save_baseline, home if goals else None)
    if setup_peers:
        _set_up_peers(home)
        more = (layers, against, save_baseline)
        if more == (None, None, None) and not choice.measures_something:
            return 0
    if layers is not None:
        return _layers(choice, layers, targets, command_line())
    # Before half an hour is spent: is it a baseline?
    earlier = _earlier(against)
    results, subject, base = _measure(choice, command_line())
    goals_of = home if goals else None
    return _conclude(results, subject, base, targets, earlier, save_baseline, goals_of)


def _check_baseline(file: Path) -> None:
    if file == STDOUT:
        raise click.UsageError("--save-baseline -: that is for later; name a file")
    try_file(file)


def _earlier(against: Path | None) -> Earlier | None:
    if against is None:
        return None
    from hakmem.lab import baseline

    return Earlier(against, baseline.load(against))


def _load(saved: Path) -> tuple[Results, str, str]:
    """A saved run, the arm of interest, and the one it is held against."""
    from hakmem.lab.model import Results
    from hakmem.lab.story import Story

    results = Results.load(saved)
    if not results.rows:
        raise HakmemError(f"{saved} holds no figures of benchmarks")
    story = Story(results)
    return results, story.subject, story.base


def _set_up_peers(clone: Clone) -> None:
    """What cannot be had is named and left out: never an error."""
    from hakmem.lab.peers import setup
    from hakmem.lab.workloads import install_programs

    for state in setup(clone, say):
        version = f" {state.version}" if state.version else ""
        said = f"not ready: {state.reason}" if state.reason else "ready"
        click.echo(f"{state.name}{version}: {said}")
    for line in install_programs(say):
        click.echo(f"not installed: {line}")


def _cases(choice: Choice) -> list[Case]:
    from hakmem.build import build
    from hakmem.lab.model import matching
    from hakmem.lab.suite import BUILD_TARGET, load

    build(choice.clone, RELEASE, BUILD_TARGET)
    cases = load(choice.clone, choice.quick)
    if not choice.quick if choice.programs is None else choice.programs:
        from hakmem.lab.workloads import missing, workloads

        for program in missing(choice.quick):
            say(f"left out: {program}")
        cases += workloads(choice.clone, choice.quick)
    return matching(cases, choice.only) if choice.only else cases


def _arms(choice: Choice) -> tuple[list[Arm], str, str]:
    """The arms, the one of interest, and the one it is held against."""
    from hakmem.lab import ab
    from hakmem.lab.arms import SUBJECT, chosen_arms, hakmem_arm, say_what_is_missing
    from hakmem.lab.peers import available

    if choice.a is not None or choice.b is not None:
        sides = [
            ab.side("a", ab.WORKING_TREE if choice.a is None else choice.a, choice.clone),
            ab.side("b", ab.WORKING_TREE if choice.b is None else choice.b, choice.clone),
        ]
        return sides, sides[1].name, sides[0].name
    ready = available(choice.clone)
    if choice.arms is None:
        say_what_is_missing(ready, choice.clone)
    hakmem = hakmem_arm(choice.library, choice.clone)
    arms = chosen_arms(choice.arms, ready, hakmem, choice.clone)
    names = [arm.name for arm in arms]
    subject = SUBJECT if SUBJECT in names else names[-1]
    base = BASE if BASE in names and subject != BASE else next(n for n in names if n != subject)
    return arms, subject, base


def _measure(choice: Choice, command: str) -> tuple[Results, str, str]:
    from hakmem.lab.execute import Executor, cache_folder, ensure_launcher, failures_folder
    from hakmem.lab.schedule import Plan
    from hakmem.lab.session import Question, measure

    cases = _cases(choice)
    arms, subject, base = _arms(choice)
    usual = QUICK_BUDGET_S if choice.quick else FULL_BUDGET_S
    budget = choice.budget or (float("inf") if choice.rounds else usual)
    plan = Plan(budget, choice.rounds, seed=choice.seed)
    cache = cache_folder(choice.clone)
    executor = Executor(ensure_launcher(cache), failures_folder(cache))
    question = Question(cases, arms, subject, plan, precise=choice.precise)
    if choice.goals:
        from hakmem.lab.goals import goals_file, read
        from hakmem.lab.steady import live_arm

        wanted, live = read(goals_file(choice.clone)), live_arm(choice.clone)
        question = replace(question, goals=wanted, live=live)
    return measure(question, executor, command), subject, base


def _conclude(
    results: Results,
    subject: str,
    base: str,
    targets: Targets,
    earlier: Earlier | None,
    save_baseline: Path | None,
    goals_of: Clone | None,
) -> int:
    from hakmem.commands.output import finish

    if goals_of is not None:
        _judge(results, subject, goals_of)
    finish(results, subject, base, targets, "bench")
    if save_baseline:
        from hakmem.lab import baseline

        baseline.write(results, save_baseline, subject, base)
        say(f"baseline: {save_baseline}")
    if earlier is None:
        return 0
    return _regressions(results, earlier, subject, to_stderr=targets.take_stdout)


def _judge(results: Results, subject: str, clone: Clone) -> None:
    """Puts into the results what they say of each goal."""
    from hakmem.lab.goals import goals_file, read, whole_suite
    from hakmem.lab.judge import judge

    found = judge(results, read(goals_file(clone)), subject, whole_suite(clone))
    results.sections["goals"] = [one.as_json() for one in found]


def _regressions(results: Results, earlier: Earlier, subject: str, to_stderr: bool) -> int:
    """Says what got worse since the baseline; 1 if there is no doubt about any of it."""
    from hakmem.lab import baseline

    findings = baseline.compare(earlier.figures, results, subject)
    worse = baseline.regressions(findings)
    for finding in worse:
        click.echo(baseline.describe(finding), err=to_stderr)
    count = f"{len(worse)} of {len(findings)} figures are worse than in {earlier.file}"
    click.echo(count, err=to_stderr)
    return int(any(finding.level is baseline.Level.CERTAIN for finding in worse))


def _layers(choice: Choice, name: str, targets: Targets, command: str) -> int:
    """The layer profile of one benchmark, under hakmem and glibc or under what --arms names."""
    from rich.console import Console

    from hakmem.lab.execute import Executor, cache_folder, ensure_launcher
    from hakmem.lab.host import describe_host
    from hakmem.lab.layercounts import require_countable
    from hakmem.lab.layers import layer_table
    from hakmem.lab.model import Results
    from hakmem.lab.session import now

    case = next((case for case in _cases(choice) if case.name == name), None)
    if case is None:
        raise HakmemError(f"--layers {name}: no benchmark of that name")
    arms, subject, base = _arms(choice)
    executor: Executor | None = None
    notes: list[str] = []
    try:
        require_countable(case)
        executor = Executor(ensure_launcher(cache_folder(choice.clone)))
    except HakmemError as error:
        notes = [f"Instructions are not counted by layer: {error}."]
    profiles = []
    for arm in arms:
        if choice.arms is not None or arm.name in (subject, base):
            profiles.append(_layer_profile(case, arm, executor, notes))
            Console(stderr=targets.take_stdout).print(layer_table(profiles[-1]))
    sections = {"layers": [profile.as_json() for profile in profiles]}
    targets.write(Results(describe_host(), now(), command, sections=sections), "layers")
    return 0


def _layer_profile(
    case: Case, arm: Arm, executor: Executor | None, notes: list[str]
) -> LayerProfile:
    """With instructions, if there is what counts them."""
    import os
    import tempfile

    from hakmem.lab.execute import environment_for
    from hakmem.lab.layercounts import count_layers
    from hakmem.lab.layers import profile_layers

    with tempfile.TemporaryDirectory(prefix="hakmem-layers-") as place:
        folder = Path(place)
        return profile_layers(
            list(case.command),
            environment_for(case, arm, os.environ),
            arm.preload,
            name=arm.name,
            folder=folder,
            prepare=partial(case.prepare, folder) if case.prepare else None,
            count=partial(count_layers, case, arm, executor) if executor else None,
            notes=notes,
        )
