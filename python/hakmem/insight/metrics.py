"""OpenMetrics of processes on hakmem, by the official client's collectors, texts and server."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from hakmem.errors import HakmemError
from hakmem.insight.look import Seen
from hakmem.insight.metric_table import (
    CLASS_METRICS,
    COUNTER,
    THREAD_METRICS,
    ClassMetric,
    Metric,
    ThreadMetric,
    unit_of,
)
from hakmem.insight.numbers import Numbers
from hakmem.terminal import in_one_line

PREFIX = "hakmem_"
PROCESS_LABELS = ("pid", "comm")
CLASS_LABELS = (*PROCESS_LABELS, "class")
THREAD_LABELS = (*PROCESS_LABELS, "heap", "thread", "thread_name")

# Looks at processes, anew for each scrape.
Look = Callable[[], Seen]
AnyMetric = Metric | ClassMetric | ThreadMetric


class Processes(Collector):
    """Families of metrics, made when asked for."""

    def __init__(self, look: Look) -> None:
        self.look = look

    def describe(self) -> Iterable[Family]:
        """Nothing beforehand: which counters there are depends on the processes."""
        return []

    def collect(self) -> Iterator[Family]:
        seen = self.look()
        yield _up(seen)
        yield _info(seen.numbers)
        yield from _families(seen.numbers)


def refuse_twins(seen: list[Numbers]) -> None:
    """Of two with the same labels nobody could tell which figures are whose."""
    for n in seen:
        if sum(_process(other) == _process(n) for other in seen) > 1:
            raise HakmemError(
                f"two of these are process {n.pid} ({in_one_line(n.command)}), whose metrics could "
                "not be told apart: name one of them"
            )


def _up(seen: Seen) -> Family:
    up = GaugeMetricFamily(PREFIX + "up", "whether the process could be read", labels=["pid"])
    for n in seen.numbers:
        up.add_metric([str(n.pid)], 1)
    for pid in seen.unread:
        up.add_metric([str(pid)], 0)
    return up


def _info(seen: list[Numbers]) -> Family:
    info = InfoMetricFamily("hakmem", "the library's version", labels=PROCESS_LABELS)
    for n in seen:
        info.add_metric(_process(n), {"version": n.version})
    return info


def _families(seen: list[Numbers]) -> Iterator[Family]:
    families: dict[str, Any] = {}

    def add(metric: AnyMetric, names: tuple[str, ...], labels: list[str], value: int) -> None:
        if metric.name not in families:
            families[metric.name] = _family(metric, names)
        families[metric.name].add_metric(labels, value)

    for n in seen:
        for metric, value in n.shown():
            add(metric, PROCESS_LABELS, _process(n), value)
        for c in n.classes:
            # A process uses a fraction of the classes; the others would be zeros for ever.
            for class_metric in CLASS_METRICS if c.slab_bytes else ():
                labels = [*_process(n), str(c.size)]
                add(class_metric, CLASS_LABELS, labels, class_metric.value(c))
        for t in n.threads:
            for thread_metric in THREAD_METRICS:
                labels = [*_process(n), str(t.heap), str(t.tid), t.name]
                add(thread_metric, THREAD_LABELS, labels, thread_metric.value(t))
    yield from families.values()


def _process(n: Numbers) -> list[str]:
    return [str(n.pid), n.command]


def _family(metric: AnyMetric, labels: tuple[str, ...]) -> Family:
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    return kind(PREFIX + metric.name, metric.text, labels=labels, unit=unit_of(metric.name))


def registry(look: Look) -> CollectorRegistry:
    made = CollectorRegistry(auto_describe=False)
    made.register(Processes(look))
    return made


def exposition(look: Look, accept: str) -> str:
    """In the format that a client with this Accept header gets."""
    encode, _ = choose_encoder(accept)
    return encode(registry(look)).decode()


OPENMETRICS = "application/openmetrics-text; version=1.0.0"
# The older format, which node_exporter's textfile collector reads.
PROMETHEUS = "text/plain; version=0.0.4"
