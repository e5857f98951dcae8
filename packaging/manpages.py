"""Writes the manual pages: of the commands from their help, of the settings from their table.

usage: manpages.py [--gzip] FOLDER

Those of the commands only where their packages and click-man are there.
"""

import argparse
import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

from roff import roff
from tables import HOW_TO_SET, Option, options

from hakmem import __version__

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


def settings_page(rows: Sequence[Option]) -> str:
    head = SETTINGS_HEAD.lstrip().format(version=__version__, how_to_set=roff(HOW_TO_SET))
    items = [
        f'.TP\n.BR {row.name} " ({roff(default_and_bounds(row))})"\n{roff(row.about)}\n'
        for row in rows
    ]
    return head + "".join(items) + SETTINGS_FOOT


def default_and_bounds(row: Option) -> str:
    return ", ".join(filter(None, (f"default {row.default}", row.bounds)))


def write_settings(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hakmem.7").write_text(settings_page(options()), encoding="utf-8")


def write_commands(folder: Path) -> None:
    try:
        from command_pages import write_command_pages

        write_command_pages(folder)
    except ModuleNotFoundError as error:
        print(f"no manual pages of the commands: there is no {error.name}", file=sys.stderr)


def compress(page: Path) -> None:
    """The same pages are the same bytes, whenever that is done."""
    page.with_name(f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    page.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gzip", action="store_true", help="as Debian has them")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    write_settings(arguments.folder / "man7")
    write_commands(arguments.folder / "man1")
    for page in arguments.folder.glob("man*/*.[17]") if arguments.gzip else ():
        compress(page)


if __name__ == "__main__":
    main()
