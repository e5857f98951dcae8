"""`hakmem tune`: the settings that suit a command best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hakmem.clone import Clone, profile_folder
from hakmem.commands.command_case import case_options, command_case, show_failure
from hakmem.commands.options import (
    Duration,
    check_outputs,
    file_path,
    library_option,
    seed_option,
)
from hakmem.errors import OWN_FAILURE, HakmemError
from hakmem.terminal import say
from hakmem.written import STDOUT, try_file, write_file

if TYPE_CHECKING:
    from hakmem.lab.model import Arm, Case, Sample
    from hakmem.tune.session import Run, Search

DEFAULT_BUDGET_S = 600.0
FEWEST_RUNS = 3
INTERRUPTED = 130
PICTURES = (".png", ".svg", ".pdf")
EXAMPLES = """\b
Examples:
  ./hakmem tune -- python3 script.py
  ./hakmem tune --budget 30m --goal time:0.7,memory:0.3 --output job.env -- ./job
  ./hakmem tune --only 'retain|big' --arm big=retain:1G,huge_min:4M --arm mine.env -- ./job
  ./hakmem run --profile ./job.env -- ./job"""


@click.command(context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@click.option(
    "--goal",
    "goal_text",
    default="time",
    show_default=True,
    metavar="GOAL",
    help="time, cpu, memory (peak RSS), mean_memory, or weights: time:0.7,memory:0.3.",
)
@click.option(
    "--arm",
    "added",
    multiple=True,
    metavar="ARM",
    help="Try this too: NAME=k:v,k:v, or k:v,k:v, or a profile. Several times for several.",
)
@click.option("--only", metavar="REGEX", help="Only arms with such a name, and the default.")
@click.option(
    "--budget",
    type=Duration(),
    metavar="TIME",
    help="Such as 90s or 10m; 10 minutes without --runs.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=FEWEST_RUNS),
    metavar="N",
    help="At most so many runs of CMD, a first one to warm up among them.",
)
@click.option(
    "--output",
    type=file_path(),
    default="tuned.env",
    show_default=True,
    metavar="NAME.env",
    help="The profile to write.",
)
@click.option(
    "--json", "json_file", type=file_path(), metavar="FILE", help="All figures; - prints them."
)
@click.option("--plot", type=file_path(), metavar="FILE.png", help="A picture of the arms.")
@case_options
@seed_option
@library_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def tune(
    clone: Clone | None,
    goal_text: str,
    added: tuple[str, ...],
    only: str | None,
    budget: float | None,
    runs: int | None,
    output: Path,
    json_file: Path | None,
    plot: Path | None,
    driver: str | None,
    ready: str | None,
    timeout: float,
    seed: int,
    library: Path | None,
    command: tuple[str, ...],
) -> int:
    """Find the settings of hakmem that suit CMD best, and write them as a profile.

    Settings and profiles run against each other in pairs, one directly after the other; which two
    is chosen so that the best is found in few runs. Each gets a rating. It ends when nothing is
    likely to be better than the leader, when --budget or --runs is spent, or with Ctrl-C, with what
    is known by then. If no arm is proven to be better than the default, the profile sets nothing.

    CMD is started many times: it should do the same each time, and leave nothing behind that
    changes the next run. What it prints is hidden. With --driver, CMD is a server.

    The exit status is 0, or 130 after Ctrl-C or SIGTERM, whatever was found; 125 if nothing could
    be, 126 if CMD cannot be run, 127 if it is not there.
    """
    from hakmem.build import ensure_library
    from hakmem.commands.output import command_line
    from hakmem.lab.execute import Executor, cache_folder, ensure_launcher, failures_folder
    from hakmem.tune.arms import arms_to_try
    from hakmem.tune.goal import parse_goal
    from hakmem.tune.runner import CommandRunner
    from hakmem.tune.screen import watching
    from hakmem.tune.session import Limits, Search

    _check_outputs(output, json_file, plot)
    goal = parse_goal(goal_text)
    if driver and "mean_memory" in goal.weights:
        raise HakmemError(f"--goal {goal}: the mean memory of a server is not looked at")
    cache = cache_folder(clone)
    launcher = ensure_launcher(cache)
    case = command_case(command, timeout, driver, ready, launcher)
    preload = library or ensure_library(clone)
    arms = arms_to_try(preload, profile_folder(clone), added, only)
    failures = failures_folder(cache)
    run = _telling(CommandRunner(case, Executor(launcher, failures)), case, failures)
    limits = Limits(budget or (float("inf") if runs else DEFAULT_BUDGET_S), runs)
    with watching() as observer:
        search = Search(arms, run, goal, limits, seed, observer)
        search.tune()
    return _conclude(search, command_line(), output, json_file, plot)


def _check_outputs(output: Path, json_file: Path | None, plot: Path | None) -> None:
    """Before minutes are spent."""
    if output.suffix != ".env":
        raise HakmemError(f"--output {output}: a profile's name ends in .env")
    if plot is not None and plot.suffix not in PICTURES:
        raise HakmemError(f"--plot {plot}: a picture's name ends in {', '.join(PICTURES)}")
    check_outputs(output=output, json=json_file, plot=plot)
    for path in (output, json_file, plot):
        if path is not None:
            try_file(path)


def _telling(run: Run, case: Case, failures: Path) -> Run:
    """Shows what the command said where it failed."""

    def run_and_tell(arm: Arm) -> Sample:
        sample = run(arm)
        if sample.failed:
            show_failure(case.name, arm.name, sample.failed, failures)
        return sample

    return run_and_tell


def _conclude(
    search: Search, command: str, output: Path, json_file: Path | None, plot: Path | None
) -> int:
    from hakmem.lab.terminal import print_words, result_console
    from hakmem.tune import report
    from hakmem.tune.session import Ending

    interrupted = search.ending is Ending.INTERRUPTED
    if not search.duels:
        say(f"no two arms were compared: {search.ending}")
        return INTERRUPTED if interrupted else OWN_FAILURE
    try:
        _write_files(search, command, output, json_file, plot)
    finally:
        if json_file != STDOUT:
            result_console().print(report.table(search))
            print_words(report.conclusion(search))
    return INTERRUPTED if interrupted else 0


def _write_files(
    search: Search, command: str, output: Path, json_file: Path | None, plot: Path | None
) -> None:
    from hakmem.lab.host import describe_host
    from hakmem.lab.session import now
    from hakmem.tune import report
    from hakmem.tune.profile import write_profile

    host, when = describe_host(), now()
    write_profile(search, output, command, when, host)
    say(f"profile: {output}")
    if json_file is not None:
        form = {"host": host, "when": when, "command": command, **report.as_json(search)}
        text = json.dumps(form, indent=1)
        if json_file == STDOUT:
            click.echo(text)
        else:
            write_file(json_file, text + "\n")
            say(f"figures: {json_file}")
    if plot is not None:
        report.plot(search, plot)
        say(f"picture: {plot}")
