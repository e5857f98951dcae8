"""What a person sees: one-line messages and progress on standard error; the standard streams."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import IO, TYPE_CHECKING, Any, TextIO

from hakmem.errors import HakmemError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

NAME_LENGTH = 60
STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}


def legible(name: str) -> str:
    """The name of a file as text in one line, also where its bytes are no UTF-8."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def in_one_line(text: str) -> str:
    """A process may call itself anything, and a terminal obeys what it is sent."""
    seen = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return " ".join(seen.split())


def shortened(text: str) -> str:
    """For a line that is to be read, whatever somebody typed."""
    return text if len(text) <= NAME_LENGTH else f"{text[: NAME_LENGTH - 3]}..."


class _Errors(io.FileIO):
    """Standard error: what cannot be said changes nothing of what a command does."""

    def write(self, data: ReadableBuffer, /) -> int:
        with contextlib.suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


class _Output(io.FileIO):
    """Standard output: what cannot be written is an error like any other, and only once."""

    refused = False

    def write(self, data: ReadableBuffer, /) -> int:
        if self.refused:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self.refused = True
            if isinstance(error, BrokenPipeError):
                raise
            raise HakmemError(f"cannot write standard output: {error.strerror}") from None


def prepare_streams() -> None:
    """Before anything else is opened, which would get the number of a stream that is closed."""
    for name, mode in STREAMS.items():
        if getattr(sys, name) is None:
            setattr(sys, name, _closed_output() if name == "stdout" else _nothing(mode))
    for name, kind in (("stdout", _Output), ("stderr", _Errors)):
        stream = getattr(sys, name)
        # Not those of a test, say.
        if stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _stream(stream, kind))


def _nothing(mode: str) -> IO[Any]:
    return open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123


def _closed_output() -> TextIO:
    """It refuses what is written, for nobody would learn that it went nowhere."""
    raw = _Output(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), "wb")
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")


def _stream(standard: TextIO, kind: type[io.FileIO]) -> TextIO:
    """The same with another way to write; what its encoding lacks becomes an escape."""
    raw = kind(standard.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=standard.encoding,
        errors="backslashreplace",
        line_buffering=standard is sys.stderr or raw.isatty(),
    )


def say(message: str) -> None:
    """One line to the person at the terminal, never mixed with a program's output."""
    # Words of others come along in it; the output of a compiler has lines.
    shown = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in message)
    print(f"hakmem: {shown}", file=sys.stderr, flush=True)


def on_terminal() -> bool:
    return sys.stderr.isatty()
