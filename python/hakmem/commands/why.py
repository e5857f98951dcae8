"""`hakmem why`: where a process' memory is."""

import json

import click

from hakmem.cli import examples
from hakmem.insight.printing import printing


@click.command(
    epilog=examples("why 4711", "why 4711 --classes --threads", "why heap.hakprof --json")
)
@click.option("--all", "every", is_flag=True, help="Also what else could be done.")
@click.option("--classes", is_flag=True, help="A table by size class, too.")
@click.option("--threads", is_flag=True, help="A table by thread, too.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
@click.argument("target", metavar="PID|FILE")
def why(target: str, every: bool, classes: bool, threads: bool, as_json: bool) -> int:
    """Show where a process' memory is.

    In rows that add up to its RSS: what the program uses and asked for, what size classes add, what
    is free in slabs, in threads' magazines, or kept for reuse, hakmem's own metadata, and what is
    not hakmem's. Ends with the one action most worth taking.

    The process runs on meanwhile. Of a profile in a FILE, only what hakmem held is known.
    """
    from hakmem.insight import why as explaining
    from hakmem.insight import why_view as view
    from hakmem.insight.advice import advise

    seen = explaining.why(target)
    found = advise(seen)
    if as_json:
        click.echo(json.dumps(view.as_json(seen, found), indent=2))
        return 0
    with printing() as console:
        console.soft_wrap = True
        view.print_explanation(console, seen, found, every)
        if classes:
            view.print_classes(console, seen)
        if threads:
            view.print_threads(console, seen)
    return 0
