"""Instructions and simulated cache misses of each layer, per operation: beside the sampled time
what no busy machine can disturb.

As in precise.py a benchmark is run twice, and what the longer run had more is divided by what it
did more.
"""

import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from hakmem.errors import HakmemError
from hakmem.lab.execute import Executor
from hakmem.lab.layermap import Locator
from hakmem.lab.model import Arm, Case
from hakmem.lab.precise import can_be_precise, event_names, own_costs, run_counted
from hakmem.lab.sampling import Frame, Stack

# Code in sections that valgrind does not know, as tcmalloc's is.
NO_FILE = "???"
# Positions are addresses in the object's file, written out.
BY_ADDRESS = ("--dump-instr=yes", "--dump-line=no", "--compress-pos=no")


@dataclass(frozen=True)
class LayerCount:
    """Per operation."""

    instructions: float
    d1_misses: float


def require_countable(case: Case) -> None:
    """Ends if a benchmark's instructions cannot be counted by layer."""
    if case.threads > 1:
        raise HakmemError("it has several threads, which take turns under valgrind")
    if not can_be_precise(case):
        raise HakmemError("the suite has no two lengths of it to be counted")
    if shutil.which("valgrind") is None:
        raise HakmemError("valgrind is not installed (apt install valgrind)")


def count_layers(
    case: Case, arm: Arm, executor: Executor, locator: Locator
) -> Mapping[str, LayerCount]:
    """By the layer's key; the kernel's are not counted."""
    runs = [run_counted(case, words, arm, executor, BY_ADDRESS) for words in case.precise]
    (few, few_text), (many, many_text) = runs
    if many <= few:
        raise HakmemError("under callgrind: both runs had the same number of operations")
    before, after = sums_by_layer(few_text, locator), sums_by_layer(many_text, locator)
    return {
        key: LayerCount(
            _per_op(after[key].instructions - before[key].instructions, many - few),
            _per_op(after[key].d1_misses - before[key].d1_misses, many - few),
        )
        for key in after
    }


def _per_op(difference: int, ops: int) -> float:
    """Of what is rare the shorter run may have had more, by chance."""
    return max(0, difference) / ops


@dataclass
class Sums:
    instructions: int = 0
    d1_misses: int = 0

    def add(self, other: "Sums") -> None:
        self.instructions += other.instructions
        self.d1_misses += other.d1_misses


def sums_by_layer(profile: str, locator: Locator) -> Mapping[str, Sums]:
    """What a callgrind file, with positions BY_ADDRESS, says of each layer."""
    at: defaultdict[Frame, Sums] = defaultdict(Sums)
    names = event_names(profile)
    for file, position, counts in own_costs(profile):
        events = dict(zip(names, counts, strict=False))
        misses = events.get("D1mr", 0) + events.get("D1mw", 0)
        at[Frame("", file, int(position, 16))].add(Sums(events.get("Ir", 0), misses))
    found: defaultdict[str, Sums] = defaultdict(Sums)
    for frame in [frame for frame in at if frame.file == NO_FILE]:
        found[locator.of_no_file].add(at.pop(frame))
    places = locator.place_all([Stack((), frame) for frame in at])
    for (key, _), sums in zip(places, at.values(), strict=True):
        found[key].add(sums)
    return found
