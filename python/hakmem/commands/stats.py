"""`hakmem stats`: the figures of running processes and of profiles."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import click

from hakmem.cli import examples
from hakmem.commands.options import Seconds, file_path
from hakmem.insight import text
from hakmem.insight.attaching import area_of
from hakmem.insight.look import Seen, Targets, listed
from hakmem.insight.mind import mind_json, mind_of, mind_text
from hakmem.insight.numbers import Numbers
from hakmem.insight.printing import printed
from hakmem.pids import pid_of
from hakmem.terminal import say
from hakmem.written import write_file

PROMETHEUS_SUFFIX = ".prom"


@click.command(
    epilog=examples(
        "stats",
        "stats 4711",
        "stats 4711 --json",
        "stats 4711 --decisions",
        "stats --all --output /var/lib/node_exporter/hakmem.prom --interval 15",
        "stats --all --listen 9177",
    )
)
@click.option("--all", "every", is_flag=True, help="All processes of yours that run on hakmem.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--decisions", is_flag=True, help="What the mind decided instead, and why.")
@click.option("--openmetrics", is_flag=True, help="As OpenMetrics text.")
@click.option(
    "--output",
    type=file_path(),
    metavar="FILE",
    help="Into this file, which is replaced at once; FILE.prom: for node_exporter; - prints it.",
)
@click.option("--interval", type=Seconds(0.01), metavar="SECONDS", help="Again and again.")
@click.option(
    "--listen", metavar="[ADDR:]PORT", help="Serve /metrics over HTTP, to this machine only."
)
@click.option("--allow-remote", is_flag=True, help="--listen: to other machines too.")
@click.argument("targets", nargs=-1, metavar="[PID|FILE]...")
def stats(
    every: bool,
    as_json: bool,
    decisions: bool,
    openmetrics: bool,
    output: Path | None,
    interval: float | None,
    listen: str | None,
    allow_remote: bool,
    targets: tuple[str, ...],
) -> int:
    """Show what hakmem knows of a running process, or of a profile in a file.

    The process is not stopped and does not notice. Without PID or FILE: lists your processes that
    run on hakmem. Of several that are named those that can be read are shown; the status is 1 if
    one cannot.
    """
    # First of all: it may be something else that was meant as an address.
    address = _address(listen, allow_remote) if listen is not None else None
    _refuse_contradictions(every, as_json, openmetrics, output, interval, listen, targets)
    if decisions and (every or openmetrics or output or interval or listen or len(targets) != 1):
        raise click.UsageError("--decisions takes one PID or FILE, and --json")
    if allow_remote and listen is None:
        raise click.UsageError("--allow-remote belongs to --listen")
    if decisions:
        return _decisions(targets[0], as_json)
    if not targets and not every:
        return _list(as_json)
    chosen = Targets(targets, every)
    if address is not None:
        return _serve(chosen, address)
    as_metrics = openmetrics or _is_prometheus(output)
    render = _renderer(as_json, as_metrics, output, single=len(targets) == 1)
    seen = chosen.first_look()
    status = int(not every and bool(seen.failed))
    while seen.numbers or every:
        _emit(render(seen), output)
        if interval is None:
            return status
        time.sleep(interval)
        seen = chosen.look()
    if as_metrics:
        # Whoever reads the file later is not to take what has ended for running.
        _emit(render(seen), output)
    say("ended")
    return status


def _refuse_contradictions(
    every: bool,
    as_json: bool,
    openmetrics: bool,
    output: Path | None,
    interval: float | None,
    listen: str | None,
    targets: tuple[str, ...],
) -> None:
    if every and targets:
        raise click.UsageError("--all, or PIDs: not both")
    if as_json and openmetrics:
        raise click.UsageError("--json or --openmetrics: not both")
    if as_json and _is_prometheus(output):
        raise click.UsageError(
            f"--json and --output {output}: what ends in {PROMETHEUS_SUFFIX} holds metrics; name "
            "another file"
        )
    if listen is not None and (as_json or output or interval):
        raise click.UsageError("--listen answers by itself, without --json, --output, --interval")
    wanting = openmetrics or output or interval or listen is not None
    if wanting and not every and not targets:
        raise click.UsageError("of which process? Name a PID, or add --all")


def _list(as_json: bool) -> int:
    rows = listed()
    if as_json:
        click.echo(json.dumps(text.listed_json(rows), indent=2))
        return 0
    if not rows:
        say("no process of yours runs on hakmem; start one with: hakmem run -- COMMAND")
        return 0
    click.echo(printed(text.processes_table(rows)), nl=False)
    for row in rows:
        if row.problem:
            say(row.problem)
    return 0


def _decisions(target: str, as_json: bool) -> int:
    mind = mind_of(area_of(target), is_running=pid_of(target) is not None)
    if as_json:
        click.echo(json.dumps(mind_json(mind), indent=2))
    else:
        click.echo(printed(mind_text(mind)), nl=False)
    return 0


def _address(listen: str, remote: bool) -> tuple[str, int]:
    from hakmem.insight.serve import address_of

    return address_of(listen, remote)


def _serve(chosen: Targets, address: tuple[str, int]) -> int:
    from hakmem.insight.metrics import refuse_twins
    from hakmem.insight.serve import serve

    refuse_twins(chosen.first_look().numbers)
    serve(chosen.look, address)
    return 0


Render = Callable[[Seen], str]


def _is_prometheus(output: Path | None) -> bool:
    return output is not None and output.suffix == PROMETHEUS_SUFFIX


def _renderer(as_json: bool, as_metrics: bool, output: Path | None, single: bool) -> Render:
    if as_json:
        return lambda seen: _json(seen.numbers, single)
    if as_metrics:
        return lambda seen: _metrics(seen, _is_prometheus(output))
    return lambda seen: _text(seen.numbers, output is None)


def _json(seen: list[Numbers], single: bool) -> str:
    objects = [text.as_json(numbers) for numbers in seen]
    return json.dumps(objects[0] if single else objects, indent=2) + "\n"


def _metrics(seen: Seen, prometheus: bool) -> str:
    from hakmem.insight.metrics import OPENMETRICS, PROMETHEUS, exposition, refuse_twins

    refuse_twins(seen.numbers)
    return exposition(lambda: seen, PROMETHEUS if prometheus else OPENMETRICS)


def _text(seen: list[Numbers], to_terminal: bool) -> str:
    return printed(*(text.report(numbers) for numbers in seen), to_terminal=to_terminal)


def _emit(rendered: str, output: Path | None) -> None:
    if output is None:
        click.echo(rendered, nl=False)
        return
    # A reader sees the old file or the new one, and may be another user.
    write_file(output, rendered)
