"""What a person sees: one-line messages and progress on standard error."""

import sys


def say(message: str) -> None:
    """One line to the person at the terminal, never mixed with a program's output."""
    print(f"hakmem: {message}", file=sys.stderr, flush=True)


def on_terminal() -> bool:
    return sys.stderr.isatty()
