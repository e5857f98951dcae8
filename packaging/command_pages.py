"""The manual pages of the commands, from their help: needs click-man and what they import."""

from collections.abc import Iterator
from pathlib import Path

import click
from click_man.core import write_man_pages
from roff import roff

from hakmem import __version__
from hakmem.cli import IN_CLONE, cli
from hakmem.clone import Clone

EXAMPLES_HEAD = "\b\nExamples:\n"
FOOT = """\
.SH EXAMPLES
.nf
{examples}
.fi
.SH SEE ALSO
.BR hakmem (7)
"""


def write_command_pages(folder: Path) -> None:
    pages = dict(commands())
    for command in pages.values():
        # click-man would cut it off as for one line on a terminal.
        command.short_help = first_sentence(command.help or "")
    folder.mkdir(parents=True, exist_ok=True)
    write_man_pages("hakmem", cli, version=__version__, target_dir=str(folder))
    for name, command in pages.items():
        with (folder / f"{name}.1").open("a", encoding="utf-8") as page:
            page.write(FOOT.format(examples=examples(command)))


def commands() -> Iterator[tuple[str, click.Command]]:
    """By the names of their pages; those that are loaded only when called count as well."""
    yield "hakmem", cli
    context = click.Context(cli, info_name="hakmem", obj=Clone(Path()))
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        cli.add_command(command, name)
        yield f"hakmem-{name}", command


def first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return roff(paragraph.partition(". ")[0].removesuffix("."))


def examples(command: click.Command) -> str:
    assert command.epilog is not None
    lines = command.epilog.removeprefix(EXAMPLES_HEAD).replace(f"{IN_CLONE} ", "hakmem ")
    return roff(lines)
