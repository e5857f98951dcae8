"""`hakmem compare`: the user's own command under every allocator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hakmem.clone import Clone
from hakmem.commands.command_case import case_options, command_case, show_failures
from hakmem.commands.options import method_options, output_options
from hakmem.errors import HakmemError
from hakmem.terminal import say

if TYPE_CHECKING:
    from hakmem.commands.output import Targets
    from hakmem.lab.model import Case, Results

DEFAULT_BUDGET_S = 120.0
# Whatever they take, unless the user sets a limit: fewer seldom tell anything.
LEAST_ROUNDS = 6
BASE = "glibc"
EXAMPLES = """\b
Examples:
  ./hakmem compare -- python3 -c 'print(len(str(3 ** 200000)))'
  ./hakmem compare --rounds 20 --arms glibc,hakmem,jemalloc -- sqlite3 :memory: '.read job.sql'
  ./hakmem compare --driver 'redis-benchmark -p 7777 -n 200000 -q' --ready 7777 \\
                   -- redis-server --port 7777 --save ''"""


@click.command(context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    default=("time_s",),
    show_default=True,
    help="Go on until this is clear; may be given several times.",
)
@case_options
@method_options
@output_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def compare(
    clone: Clone | None,
    driver: str | None,
    ready: str | None,
    metrics: tuple[str, ...],
    timeout: float,
    rounds: int | None,
    budget: float | None,
    seed: int,
    arms: str | None,
    library: Path | None,
    json_file: Path | None,
    html: Path | None,
    markdown: Path | None,
    png: Path | None,
    command: tuple[str, ...],
) -> int:
    """Say which allocator suits CMD best, and how sure that is.

    CMD runs under glibc, hakmem and every peer that is ready (see bench --setup-peers), in random
    order and interleaved, once each per round. What it prints is hidden, and shown if it fails. It
    is started many times: it should do the same each time, and leave nothing behind that changes
    the next run. If standard input is a file, every run reads it from its beginning.

    With --driver, CMD is a server; only the server gets the allocator, what is timed is the driver
    and what is counted is the server. Without --ready the port is taken from CMD's --port.

    Without --budget and --rounds it takes two minutes, or as long as six rounds need.

    The exit status is 0 whenever a comparison could be made, even if CMD failed under one of them;
    125 if none could, 126 if CMD cannot be run, 127 if it is not there.
    """
    from hakmem.commands.output import Targets, command_line
    from hakmem.lab.arms import (
        SUBJECT,
        chosen_arms,
        forced_glibc,
        hakmem_arm,
        say_what_is_missing,
    )
    from hakmem.lab.execute import Executor, cache_folder, ensure_launcher, failures_folder
    from hakmem.lab.peers import available
    from hakmem.lab.schedule import Plan
    from hakmem.lab.session import Question, measure
    from hakmem.launch import find_program

    _check_metrics(metrics)
    cache = cache_folder(clone)
    targets = Targets(json_file, html, png, cache / "results", markdown)
    targets.check()
    launcher = ensure_launcher(cache)
    case = command_case(command, timeout, driver, ready, launcher)
    glibc, *peers = available(clone)
    if arms is None:
        say_what_is_missing(peers, clone)
    glibc = forced_glibc(glibc, find_program(command[0], os.environ))
    if glibc.preload:
        say(f"{command[0]} is linked with another malloc; the arm {glibc.name} forces glibc's")
    chosen = chosen_arms(arms, [glibc, *peers], hakmem_arm(library, clone), clone)
    names = [arm.name for arm in chosen]
    subject = SUBJECT if SUBJECT in names else names[-1]
    limit = budget or (float("inf") if rounds else DEFAULT_BUDGET_S)
    least = 0 if budget or rounds else LEAST_ROUNDS
    plan = Plan(limit, rounds, least, seed=seed, warm_every_arm=True)
    question = Question([case], chosen, subject, plan, metrics)
    failures = failures_folder(cache)
    results = measure(question, Executor(launcher, failures), command_line())
    return _conclude(results, case, subject, targets, failures)


def _check_metrics(metrics: Sequence[str]) -> None:
    from hakmem.lab.model import OF_EVERY_RUN

    for name in metrics:
        if name not in OF_EVERY_RUN:
            raise HakmemError(
                f"--metric {name}: a command's run has none; there are {', '.join(OF_EVERY_RUN)}"
            )


def _conclude(results: Results, case: Case, subject: str, targets: Targets, failures: Path) -> int:
    from hakmem.commands.output import finish

    compared = {row.allocator for row in results.rows if row.metric == "time_s" and row.values}
    show_failures(results, failures)
    if case.name in results.sections["method"]["left_out"]:
        raise HakmemError(f"nothing to compare: a round of {case.name} takes longer than --budget")
    if len(compared) < 2:
        raise HakmemError(f"nothing to compare: {case.name} did not work under two allocators")
    base = (
        BASE
        if BASE in compared and subject != BASE
        else next(name for name in results.allocator_names() if name != subject)
    )
    finish(results, subject, base, targets, "compare")
    return 0
