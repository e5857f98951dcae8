"""The command line: options, help, and which exit status a failure has."""

import copy
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import ClassVar

import click

from hakmem import __version__
from hakmem.clone import RELEASE, Clone, find_clone, profile_folder, require_clone
from hakmem.commands.options import file_path
from hakmem.errors import OWN_FAILURE, HakmemError
from hakmem.terminal import prepare_streams, say
from hakmem.written import STDOUT

USAGE_ERROR = 2
INTERRUPTED = 130
MEASURING = ("bench", "compare", "tune")
# They start a program of the user's, whose exit statuses a failure of their own must not look like.
WRAPPERS = ("run", "compare", "tune")
WITH_ALL_PACKAGES = "pip install 'hakmem[lab,insight]'"


# Of them nothing is shown where there is no clone, nor these words of what hakmem is for.
IN_CLONES_ONLY = ("setup", "build", "test", "bench")
FOR_CLONES_ONLY = "build it, test it, "
IN_CLONE = "./hakmem"


def examples(*lines: str) -> str:
    """An epilog that click leaves as it is, line by line."""
    return "\b\nExamples:\n" + "\n".join(f"  {IN_CLONE} {line}" for line in lines)


def program_name() -> str:
    """As the command line was called: in a clone, or as it is installed."""
    context = click.get_current_context(silent=True)
    return (context and context.find_root().info_name) or "hakmem"


class Commands(click.Group):
    """Also finds the commands whose packages only they need; those are loaded when called."""

    separate: ClassVar = {
        "bench": "hakmem.commands.bench",
        "compare": "hakmem.commands.compare",
        "doctor": "hakmem.commands.doctor",
        "stats": "hakmem.commands.stats",
        "top": "hakmem.commands.top",
        "diff": "hakmem.commands.diff",
        "report": "hakmem.commands.report",
        "rules": "hakmem.commands.rules",
        "tune": "hakmem.commands.tune",
        "why": "hakmem.commands.why",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = sorted([*super().list_commands(ctx), *self.separate])
        return names if ctx.obj else [name for name in names if name not in IN_CLONES_ONLY]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in IN_CLONES_ONLY and not ctx.obj:
            return _refused(cmd_name)
        command = super().get_command(ctx, cmd_name)
        if cmd_name in self.separate:
            command = getattr(importlib.import_module(self.separate[cmd_name]), cmd_name)
            assert isinstance(command, click.Command)
        return command and self._as_called(command, ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        called = copy.copy(self)
        if self.help and not ctx.obj:
            called.help = self.help.replace(FOR_CLONES_ONLY, "")
        click.Command.format_help_text(called, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        click.Command.format_epilog(self._as_called(self, ctx), ctx, formatter)

    @staticmethod
    def _as_called(command: click.Command, ctx: click.Context) -> click.Command:
        """With the examples as they are to be typed here."""
        name = ctx.find_root().info_name or "hakmem"
        called = copy.copy(command)
        called.epilog = command.epilog and command.epilog.replace(f"{IN_CLONE} ", f"{name} ")
        return called

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """One that is not there may be like any that is, loaded or not."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(
                error.command_name, possibilities=self.list_commands(ctx), ctx=ctx
            ) from None


def _refused(name: str) -> click.Command:
    """Whatever is asked of it, help too: that would be of what cannot be done here."""
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(
        name, anything, callback=lambda: require_clone(None), add_help_option=False
    )


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("run -- python3 -c 'print(\"hello\")'", "run", "stats"),
)
@click.version_option(__version__, prog_name="hakmem")
def cli() -> None:
    """hakmem, a drop-in malloc for Linux: build it, test it, run programs on it, see what they
    hold."""


@cli.command(
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "run -- python3 script.py",
        "run --profile lean --stats -- gcc -c file.c",
        "run --conf retain:64M,huge_pages:0 -- redis-server",
        "run --report heap.html -- python3 script.py",
        "run --quick",
    ),
)
@click.option("--profile", metavar="NAME", help="Settings of profiles/NAME.env, or of FILE.env.")
@click.option("--conf", metavar="K:V,...", help="Settings; they win over all others.")
@click.option("--stats", is_flag=True, help="Print hakmem's counters when the program ends.")
@click.option(
    "--report",
    metavar="FILE",
    type=file_path(),
    help="When CMD ends, write a page about its heap: what it held, and where that came from.",
)
@click.option(
    "--library",
    metavar="PATH",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="Preload this library instead of building the clone's.",
)
@click.option("--quick", is_flag=True, help="Demonstration: one round instead of three.")
@click.option("--json", "as_json", is_flag=True, help="Demonstration: print results as JSON.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD [ARG...]]")
@click.pass_obj
def run(
    clone: Clone | None,
    profile: str | None,
    conf: str | None,
    stats: bool,
    report: Path | None,
    library: Path | None,
    quick: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run a program on hakmem, or a demonstration.

    The library is built first if it is missing or out of date. Without CMD, a demonstration:
    Python on a large JSON document and g++ on a file full of templates, under glibc and hakmem in
    turn, with time, memory and page faults side by side.

    Settings come from --conf, else from HAKMEM_ variables in the environment, else from the
    profile. The exit status is CMD's own, with --report 128+N if signal N ended it; 125 if hakmem
    failed, 126 if CMD cannot be run, 127 if it is not found.
    """
    from hakmem.build import ensure_library
    from hakmem.launch import become, checked_library, with_preload
    from hakmem.settings import load_profile, merged_environment

    if command and (quick or as_json):
        raise click.UsageError("--quick and --json belong to the demonstration, without CMD")
    if report and not command:
        raise click.UsageError("--report needs a CMD to report on")
    if report == STDOUT:
        raise click.UsageError("--report -: standard output is CMD's own; name a file")
    values = {} if profile is None else load_profile(profile_folder(clone), profile)
    environment = merged_environment(os.environ, values, conf)
    if stats:
        environment["HAKMEM_STATS"] = "1"
    preload = checked_library(library) if library else ensure_library(clone)
    if command:
        if report:
            from hakmem.insight.recorder import record

            return record(command, with_preload(environment, preload), report)
        become(command, with_preload(environment, preload))
    from hakmem.demo import demonstrate

    name = library.name if library else "hakmem"
    return demonstrate(preload, name, environment, quick, as_json)


@cli.command(epilog=examples("build", "build --preset debug"))
@click.option("--preset", default=RELEASE, show_default=True, help="A preset of CMakePresets.json.")
@click.pass_obj
def build(clone: Clone | None, preset: str) -> int:
    """Build the library and its tests."""
    from hakmem.build import build as build_preset

    build_preset(require_clone(clone), preset)
    return 0


@cli.command(epilog=examples("setup", "setup --all"))
@click.option("--all", "everything", is_flag=True, help="Also what only `test --all` uses.")
@click.option("--json", "as_json", is_flag=True, help="Print the tools found as JSON.")
@click.pass_obj
def setup(clone: Clone | None, everything: bool, as_json: bool) -> int:
    """Install the tools and list them.

    That is: all that building and testing need. The installing itself was done by the time this
    list is printed; nothing is installed twice.
    """
    from hakmem import toolbox

    require_clone(clone)
    if as_json:
        click.echo(json.dumps(toolbox.as_json(), indent=2))
        return 0
    tools = toolbox.tools()
    width = max(len(tool.name) for tool in tools) + 2
    for tool in tools:
        click.echo(f"{tool.name:<{width}}{tool.version or 'not installed':<16}for {tool.use}")
    if not everything:
        click.echo("What is for `test --all` comes with ./hakmem setup --all")
    return 0


@cli.command(epilog=examples("test", "test --preset asan -R fork", "test --all --budget 60"))
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Long tests too, with their programs; what runs for hours comes last.",
)
@click.option("--preset", help="Only this preset of CMakePresets.json.")
@click.option("-L", "--label", metavar="REGEX", help="Only CTest tests with such a label.")
@click.option("-R", "--regex", metavar="REGEX", help="Only CTest tests with such a name.")
@click.option("--budget", type=float, metavar="MINUTES", help="Begin no preset after this long.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@click.pass_obj
def test(
    clone: Clone | None,
    everything: bool,
    preset: str | None,
    label: str | None,
    regex: str | None,
    budget: float | None,
    as_json: bool,
) -> int:
    """Build hakmem and run its tests.

    First the release build, then those with sanitizers and the debug build.

    Ends with one line of counts over all presets, and fails if a test failed or none ran. Without
    --all it takes at most about 15 minutes on two processors; what then found no time is named.
    """
    from hakmem.suite import Selection, run_suite

    selection = Selection(everything, preset, label, regex, budget)
    return run_suite(require_clone(clone), selection, as_json)


def _end_as_by_keyboard(told: list[int]) -> None:
    """By which signal, if it is one of these: nothing half written is to stay behind."""

    def end(number: int, _frame: object) -> None:
        told.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # else it is to go on: nohup
            signal.signal(number, end)


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    wraps = bool(words) and words[0] in WRAPPERS
    try:
        return _status_of(words, wraps)
    except Exception:
        if not wraps:
            raise
        # Of itself Python would end with 1, as the program may.
        traceback.print_exc()
        return OWN_FAILURE


def _status_of(words: list[str], wraps: bool) -> int:
    failed = OWN_FAILURE if wraps else 1
    measures = bool(words) and words[0] in MEASURING
    told: list[int] = []
    if measures or not wraps:
        _end_as_by_keyboard(told)
    prepare_streams()
    clone = find_clone()
    name = "./hakmem" if clone else "hakmem"
    try:
        try:
            status = cli.main(words, prog_name=name, standalone_mode=False, obj=clone)
        finally:
            sys.stdout.flush()
        return int(status or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE_ERROR
    except click.ClickException as error:
        error.show()
        return OWN_FAILURE if wraps else USAGE_ERROR
    except HakmemError as error:
        say(str(error))
        return error.status or failed
    except ModuleNotFoundError as error:
        if clone is not None:
            raise
        say(f"this needs the Python package '{error.name}': {WITH_ALL_PACKAGES}")
        return failed
    except BrokenPipeError:
        # Nobody reads on: nothing to say.
        return failed
    except OSError as error:
        say(str(error))
        return failed
    except (KeyboardInterrupt, click.Abort):
        if measures:
            say(f"{words[0]}: interrupted; nothing was kept")
        elif told:
            signal.signal(told[0], signal.SIG_DFL)
            os.kill(os.getpid(), told[0])
        return INTERRUPTED
