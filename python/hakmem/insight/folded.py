"""Text formats of call stacks: collapsed ones, and speedscope's JSON."""

import json
from collections.abc import Sequence

from hakmem import __version__
from hakmem.insight.profile import Profile
from hakmem.insight.symbols import Frame
from hakmem.insight.views import Stack, View, ranked

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def folded_name(name: str) -> str:
    """A name in a line whose frames are divided by semicolons and whose end is a number."""
    return name.replace(";", ":").replace("\n", " ")


def collapsed(stacks: Sequence[Stack], view: View) -> str:
    """`outer;inner bytes`, the largest first."""
    return "".join(
        f"{';'.join(map(folded_name, stack.names))} {stack.bytes(view)}\n"
        for stack in ranked(stacks, view)
    )


def speedscope(profile: Profile, stacks: Sequence[Stack], view: View) -> str:
    """A file for speedscope.app: one sample per call stack, as heavy as its bytes."""
    index: dict[tuple[str, str], int] = {}
    frames: list[dict[str, str | int]] = []
    samples: list[list[int]] = []
    weights: list[int] = []
    for stack in ranked(stacks, view):
        samples.append([_index_of(frame, index, frames) for frame in reversed(stack.frames)])
        weights.append(stack.bytes(view))
    name = f"{profile.command} [{profile.pid}], {view.noun}"
    one = {
        "type": "sampled",
        "name": name,
        "unit": "bytes",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    document = {
        "$schema": SPEEDSCOPE_SCHEMA,
        "shared": {"frames": frames},
        "profiles": [one],
        "name": name,
        "activeProfileIndex": 0,
        "exporter": f"hakmem@{__version__}",
    }
    return json.dumps(document)


def _index_of(
    frame: Frame, index: dict[tuple[str, str], int], frames: list[dict[str, str | int]]
) -> int:
    key = (frame.function, frame.module)
    if key not in index:
        index[key] = len(frames)
        entry: dict[str, str | int] = {"name": frame.function}
        if frame.file:
            entry |= {"file": frame.file, "line": frame.line}
        frames.append(entry)
    return index[key]
