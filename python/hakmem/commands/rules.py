"""`hakmem rules`: what the mind has learnt, to be looked at, merged, and begun with next time."""

import json
from pathlib import Path

import click

from hakmem.cli import examples, program_name
from hakmem.commands.options import check_outputs, file_path
from hakmem.errors import HakmemError
from hakmem.insight.mind import why_nothing
from hakmem.insight.printing import printed
from hakmem.insight.rules import Known, fitting, learnt_by, merged, rules_table, rules_text
from hakmem.terminal import say
from hakmem.written import STDOUT, write_file


@click.command(
    epilog=examples(
        "rules 4711",
        "rules 4711 --output sites.rules",
        "run --conf rules:sites.rules -- ./job",
        "rules monday.rules tuesday.rules profile.4711 --output sites.rules",
    )
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option(
    "--output",
    type=file_path(),
    metavar="FILE",
    help="Into a file for the setting 'rules'; - prints it.",
)
@click.argument("sources", nargs=-1, required=True, metavar="PID|FILE...")
def rules(as_json: bool, output: Path | None, sources: tuple[str, ...]) -> int:
    """Show how long freed memory is kept, as learnt, or write it to a file.

    Of a running process, of a profile, or of a file written before; of several, what all of them
    together know. A run of the same program with the setting rules:FILE begins with that and need
    not learn it anew.
    """
    check_outputs(as_json, output=output)
    found = [learnt_by(source) for source in sources]
    known = merged(rules for rules, _ in found)
    if not known:
        why = why_nothing(any(learns for _, learns in found))
        raise HakmemError(f"nothing learnt yet in {', '.join(sources)}: {why}")
    if output is not None:
        _write(output, known)
    if as_json:
        click.echo(json.dumps([vars(one) for one in known], indent=2))
    elif output is None:
        click.echo(printed(rules_table(known)), nl=False)
    return 0


def _write(path: Path, known: list[Known]) -> None:
    kept = fitting(known)
    if len(kept) < len(known):
        say(f"left out: the {len(known) - len(kept)} with the least evidence; a file holds 32 KiB")
    write_file(path, rules_text(kept))
    if path != STDOUT:
        say(
            f"written: {path}; begin a run with it: {program_name()} run --conf rules:{path} -- CMD"
        )
