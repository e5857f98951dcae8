"""Writes the manual pages: of the commands from their help, of the settings from the library.

usage: manpages.py --library LIBRARY FOLDER
"""

import argparse
import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

from hakmem import __version__
from hakmem.cli import cli
from hakmem.insight.library_settings import Setting, ask

SETTINGS_HEAD = r"""
.TH HAKMEM 7 "" "{version}" "hakmem"
.SH NAME
hakmem \- settings of the hakmem memory allocator
.SH SYNOPSIS
.B HAKMEM_CONF=\fIkey\fP:\fIvalue\fP,... \fIcommand\fP
.br
.B HAKMEM_\fIKEY\fP=\fIvalue\fP \fIcommand\fP
.SH DESCRIPTION
The library reads its settings from the environment when it is loaded, never in programs that run
with another user's rights. Sizes take K, M and G, times ms and s. What is not known is ignored with
a warning.
.SH SETTINGS
"""
SETTINGS_FOOT = r""".SH SEE ALSO
.BR hakmem (1),
.BR hakmem-run (1),
.BR malloc (3)
"""


def roff(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-").replace("\n.", "\n\\&.")


def settings_page(settings: tuple[Setting, ...]) -> str:
    head = SETTINGS_HEAD.lstrip().format(version=__version__)
    rows = [
        f'.TP\n.BR {row.name} " (default {roff(str(row.value)) or "none"})"\n{roff(row.text)}\n'
        for row in settings
    ]
    return head + "".join(rows) + SETTINGS_FOOT


def with_all_commands() -> click.Group:
    """The commands that are loaded only when called count as well."""
    context = click.Context(cli, info_name="hakmem")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        cli.add_command(command, name)
    return cli


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    folders = {section: arguments.folder / f"man{section}" for section in (1, 7)}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    write_man_pages("hakmem", with_all_commands(), version=__version__, target_dir=str(folders[1]))
    settings = ask(arguments.library, {}).settings
    (folders[7] / "hakmem.7").write_text(settings_page(settings), encoding="utf-8")


if __name__ == "__main__":
    main()
