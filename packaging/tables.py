"""The tables of settings and counters, as the manual pages and the documentation site show them."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "python"))

from hakmem.insight.metric_table import counter_texts  # noqa: E402
from hakmem.insight.option_table import Option, options  # noqa: E402

__all__ = ["HOW_TO_SET", "ROOT", "Option", "counters", "options"]

HOW_TO_SET = """\
The library reads its settings from the environment when it is loaded, never in programs that run
with another user's rights. A variable of a setting's own counts more than HAKMEM_CONF. Sizes take
K, M and G, times ms and s. What is not known is ignored with a warning."""


def counters() -> dict[str, str]:
    return counter_texts()
