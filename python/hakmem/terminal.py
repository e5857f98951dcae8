"""What a person sees: one-line messages and progress on standard error."""

import io
import sys


def legible(name: str) -> str:
    """The name of a file as text, also where its bytes are no UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def accept_all_characters() -> None:
    """What standard output's encoding lacks becomes an escape, as it does on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(message: str) -> None:
    """One line to the person at the terminal, never mixed with a program's output."""
    print(f"hakmem: {message}", file=sys.stderr, flush=True)


def on_terminal() -> bool:
    return sys.stderr.isatty()
