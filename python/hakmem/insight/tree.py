"""Call stacks put together from the program's entry on, as a flame graph shows them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hakmem.insight.plumbing import is_plumbing
from hakmem.insight.symbols import Frame

ROOT_NAME = "all"
# Of the whole: what is narrower in every view cannot be seen, and is its caller's.
NARROWEST = 0.0005


@dataclass
class Node:
    """A function under its callers; one value per view."""

    name: str
    module: str
    kind: str
    values: list[float]
    samples: int = 0
    children: dict[tuple[str, str], "Node"] = field(default_factory=dict)

    def child(self, frame: Frame) -> "Node":
        key = (frame.function, frame.module)
        if key not in self.children:
            kind = "library" if is_plumbing(frame) or ".so" in frame.module else "program"
            self.children[key] = Node(frame.function, frame.module, kind, [0.0] * len(self.values))
        return self.children[key]

    def add(self, values: Sequence[float], samples: int) -> None:
        self.values = [old + new for old, new in zip(self.values, values, strict=True)]
        self.samples += samples


Entry = tuple[Sequence[Frame], Sequence[float], int]


def grow(entries: Iterable[Entry], views: int) -> Node:
    """Of (frames, innermost first; a value per view; samples)."""
    root = Node(ROOT_NAME, "", "root", [0.0] * views)
    for frames, values, samples in entries:
        node = root
        node.add(values, samples)
        for frame in reversed(frames):
            node = node.child(frame)
            node.add(values, samples)
    return root


def as_columns(root: Node) -> dict[str, list[object]]:
    """Parallel lists, a node each; `parent` is a place in them, -1 the root's."""
    least = [NARROWEST * value for value in root.values]
    columns: dict[str, list[object]] = {
        name: [] for name in ("name", "module", "kind", "parent", "samples", "values")
    }
    waiting = [(root, -1)]
    while waiting:
        node, parent = waiting.pop()
        place = len(columns["name"])
        for name in ("name", "module", "kind", "samples"):
            columns[name].append(getattr(node, name))
        columns["parent"].append(parent)
        columns["values"].append([round(value, 1) for value in node.values])
        waiting += [
            (child, place)
            for child in node.children.values()
            if any(v > 0 and v >= w for v, w in zip(child.values, least, strict=True))
        ]
    return columns
