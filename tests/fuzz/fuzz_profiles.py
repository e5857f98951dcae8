"""What reads profiles, on damaged ones: a HakmemError, never a traceback, never a hang.

usage: fuzz_profiles.py [ARGUMENT OF LIBFUZZER...] FOLDER...      fuzz, with atheris
       fuzz_profiles.py --replay FILE|FOLDER...                   read each once; needs no atheris
       fuzz_profiles.py --seed PROFILE OUT                        a small file of the same tables
"""

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

try:
    import atheris
except ImportError:
    atheris = None

SECONDS_PER_INPUT = 20
MAPS_LINES_KEPT = 40


with atheris.instrument_imports(include=["hakmem"]) if atheris else nullcontext():
    from hakmem.errors import HakmemError
    from hakmem.insight import area, mind, numbers, profile, why


def readers(path: Path) -> None:
    """All that a command makes of a file."""
    read = area.load(path)
    for use in (
        lambda: profile.from_area(read, taken_at=0.0),
        lambda: numbers.numbers_of(read, None).shown(),
        lambda: why.explain_profile(read),
        lambda: mind.mind_of(read, is_running=False),
    ):
        try:
            use()
        except HakmemError:
            continue


class Input:
    """A file in memory that is filled anew for each run."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("profile")
        self.path = Path(f"/proc/self/fd/{self.descriptor}")

    def read(self, data: bytes) -> None:
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, data, 0)
        try:
            readers(self.path)
        except HakmemError:
            return


def too_slow(signal_number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"a file was not read within {SECONDS_PER_INPUT} s")


def replay(names: list[str]) -> None:
    paths = [
        path
        for name in map(Path, names)
        for path in (sorted(name.iterdir()) if name.is_dir() else [name])
    ]
    if not paths:
        sys.exit("no inputs")
    signal.signal(signal.SIGALRM, too_slow)
    file = Input()
    for path in paths:
        signal.alarm(SECONDS_PER_INPUT)
        try:
            file.read(path.read_bytes())
        except Exception:
            print(f"BROKEN by {path}", file=sys.stderr)
            raise
    print(f"{len(paths)} inputs")


def compacted(data: bytes) -> bytes:
    """The same tables without their unused rows."""
    magic, header_size, area_size, count, version = area.HEADER.unpack_from(data)
    front, body = bytearray(data[:header_size]), b""
    front += bytes(-len(front) % 8)
    for i in range(count):
        at = area.HEADER.size + i * area.DESCRIPTOR.size
        name, offset, stride, capacity, used, fields, rest = area.DESCRIPTOR.unpack_from(data, at)
        rows = min(used, capacity)
        area.DESCRIPTOR.pack_into(
            front, at, name, len(front) + len(body), stride, rows, rows, fields, rest
        )
        body += data[offset : offset + rows * stride]
        body += bytes(-len(body) % 8)
    area.HEADER.pack_into(front, 0, magic, header_size, len(front) + len(body), count, version)
    lines = data[area_size:].splitlines(keepends=True)
    return bytes(front) + body + b"".join(lines[:MAPS_LINES_KEPT]) + area.TEXT_END.encode()


def main() -> None:
    if sys.argv[1:2] == ["--seed"]:
        Path(sys.argv[3]).write_bytes(compacted(Path(sys.argv[2]).read_bytes()))
    elif sys.argv[1:2] == ["--replay"]:
        replay(sys.argv[2:])
    elif atheris is None:
        sys.exit("there is no atheris: pip install atheris")
    else:
        file = Input()
        atheris.Setup(sys.argv, file.read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
