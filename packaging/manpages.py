"""Writes the manual pages: of the commands from their help, of the settings from their table.

usage: manpages.py FOLDER
"""

import argparse
from pathlib import Path

import click
from click_man.core import write_man_pages
from tables import HOW_TO_SET, Setting, settings

from hakmem import __version__
from hakmem.cli import cli
from hakmem.clone import Clone

SETTINGS_HEAD = r"""
.TH HAKMEM 7 "" "{version}" "hakmem"
.SH NAME
hakmem \- settings of the hakmem memory allocator
.SH SYNOPSIS
.B HAKMEM_CONF=\fIkey\fP:\fIvalue\fP,... \fIcommand\fP
.br
.B HAKMEM_\fIKEY\fP=\fIvalue\fP \fIcommand\fP
.SH DESCRIPTION
{how_to_set}
.SH SETTINGS
"""
SETTINGS_FOOT = r""".SH SEE ALSO
.BR hakmem (1),
.BR hakmem-run (1),
.BR malloc (3)
"""


def roff(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-").replace("\n.", "\n\\&.")


def settings_page(rows: list[Setting]) -> str:
    head = SETTINGS_HEAD.lstrip().format(version=__version__, how_to_set=roff(HOW_TO_SET))
    items = [
        f'.TP\n.BR {row.name} " (default {roff(row.default)})"\n{roff(row.about)}\n' for row in rows
    ]
    return head + "".join(items) + SETTINGS_FOOT


def with_all_commands() -> click.Group:
    """The commands that are loaded only when called count as well."""
    context = click.Context(cli, info_name="hakmem", obj=Clone(Path()))
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        cli.add_command(command, name)
    return cli


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folders = {section: folder / f"man{section}" for section in (1, 7)}
    for made in folders.values():
        made.mkdir(parents=True, exist_ok=True)
    write_man_pages("hakmem", with_all_commands(), version=__version__, target_dir=str(folders[1]))
    (folders[7] / "hakmem.7").write_text(settings_page(settings()), encoding="utf-8")


if __name__ == "__main__":
    main()
