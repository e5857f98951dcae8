"""Names of call stacks; `top` and `why` go without where nothing is there to read them with."""

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr

from hakmem.insight.area import Area

SHOWN_FRAMES = 3
CALLED_BY = " < "
# Names a call stack (return addresses, innermost first).
Naming = Callable[[Sequence[int]], str]


def naming_of(area: Area, shown: int = SHOWN_FRAMES) -> Naming:
    """The first functions that are no wrappers of malloc; addresses where nothing can be read."""
    try:
        from hakmem.insight.plumbing import telling
        from hakmem.insight.profile import modules_of
        from hakmem.insight.symbols import Symbols
    except ImportError:
        return lambda stack: _addresses(stack[:shown])
    symbols = Symbols(modules_of(area.maps_text, area.build_ids, area.seen_as))

    def name(stack: Sequence[int]) -> str:
        # What it has to say of files would tear the picture.
        with redirect_stderr(io.StringIO()):
            frames = [frame for address in stack for frame in symbols.frames(address)]
        if not any(frame.named for frame in frames) and not any(map(symbols.module_at, stack)):
            return _addresses(stack[:shown])
        return CALLED_BY.join(frame.function for frame in telling(frames)[:shown])

    return name


def _addresses(stack: Sequence[int]) -> str:
    return CALLED_BY.join(map(hex, stack))
