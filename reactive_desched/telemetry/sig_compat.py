"""Exposes evictions and sweeps under the SIG descheduler's metric names, for its dashboards.

`descheduler_pods_evicted` is the only metric of koordinator's descheduler as well, for its.

The text is written here and not by the client library: thousands of series are a matter of
milliseconds this way, and it cannot say `descheduler_pods_evicted`, a counter without `_total`.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from reactive_desched._version import __version__
from reactive_desched.model.objects import Pod
from reactive_desched.telemetry.metrics import Histogram

SUCCESS, ERROR, BACKGROUND = "success", "error", "background"
TOTAL_REACHED = "maximum number of evicted pods per a descheduling cycle reached"
NODE_REACHED = "maximum number of evicted pods per node reached"
NAMESPACE_REACHED = "maximum number of evicted pods per namespace reached"
"""The values of `result`."""

MAX_SERIES = 10_000
"""So many combinations of labels are kept; one more, and the one counted longest ago goes."""

MAX_STRATEGY: Final = 253
"""So many characters of `strategy` are kept: migration jobs may name anything there."""

LOOP_BUCKETS_S = (
    *(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0),
    *(250.0, 500.0),
)
STRATEGY_BUCKETS_S = LOOP_BUCKETS_S[:-2]


class MetricFamily(NamedTuple):
    """A metric: its name, what kind it is, and what it counts."""

    name: str
    kind: str
    help: str


_EVICTED_HELP = "Evictions asked for, by how they ended; limits that were reached count too."
_LOOP_HELP = "One sweep; in a controller that reacts, judging until nothing is due."
_STRATEGY_HELP = "One plugin's part of a sweep."
_OLD_NAME_HELP = "The same under its old name. "

EVICTED_FAMILIES = (
    MetricFamily("descheduler_pods_evicted_total", "counter", _EVICTED_HELP),
    MetricFamily("descheduler_pods_evicted", "counter", _OLD_NAME_HELP + _EVICTED_HELP),
)
LOOP_FAMILIES = (
    MetricFamily("descheduler_loop_duration_seconds", "histogram", _LOOP_HELP),
    MetricFamily(
        "descheduler_descheduler_loop_duration_seconds", "histogram", _OLD_NAME_HELP + _LOOP_HELP
    ),
)
STRATEGY_FAMILIES = (
    MetricFamily("descheduler_strategy_duration_seconds", "histogram", _STRATEGY_HELP),
    MetricFamily(
        "descheduler_descheduler_strategy_duration_seconds",
        "histogram",
        _OLD_NAME_HELP + _STRATEGY_HELP,
    ),
)
BUILD_FAMILY = MetricFamily("descheduler_build_info", "gauge", "Always 1; the versions are ours.")
FAMILIES = (*EVICTED_FAMILIES, *LOOP_FAMILIES, *STRATEGY_FAMILIES, BUILD_FAMILY)

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

LabelValues = tuple[str, ...]


class _Series:
    """A number and its labels as they are written."""

    __slots__ = ("labels", "value")

    def __init__(self, labels: str) -> None:
        self.labels = labels
        self.value = 0


class UpstreamMetrics:
    """Counts evictions and times sweeps; all of it belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._evicted: OrderedDict[LabelValues, _Series] = OrderedDict()
        self._loops = Histogram(LOOP_BUCKETS_S)
        self._strategies: dict[tuple[str, str], Histogram] = {}

    def count_eviction(self, profile: str, strategy: str, pod: Pod, result: str) -> None:
        """Count an eviction of this pod that ended so, or that a limit stopped.

        `strategy` is the plugin that found the pod, or what had the migration job made.
        """
        key = (pod.namespace, pod.node, profile, result, strategy[:MAX_STRATEGY])
        count = self._evicted.pop(key, None)
        if count is None:
            names = ("namespace", "node", "profile", "result", "strategy")
            count = _Series(_labels(dict(zip(names, key, strict=True))))
            if len(self._evicted) >= MAX_SERIES:
                self._evicted.popitem(last=False)
        count.value += 1
        self._evicted[key] = count

    def observe_cycle(self, seconds: float) -> None:
        """Time one sweep, or one stretch of judging until nothing was due."""
        self._loops.observe(seconds)

    def observe_plugin(self, profile: str, plugin: str, seconds: float) -> None:
        """Time one plugin's part of a sweep; there are as many series as the policies name."""
        timing = self._strategies.get((profile, plugin))
        if timing is None:
            timing = self._strategies[profile, plugin] = Histogram(STRATEGY_BUCKETS_S)
        timing.observe(seconds)

    def render(self, *, openmetrics: bool = False) -> str:
        """Return every family as Prometheus reads it.

        OpenMetrics has no counter without `_total` beside one with it, so there both are of
        unknown type; the numbers are the same.
        """
        return "\n".join((*self._lines(openmetrics=openmetrics), ""))

    def _lines(self, *, openmetrics: bool) -> Iterator[str]:
        for family in EVICTED_FAMILIES:
            yield from _head(family._replace(kind="unknown") if openmetrics else family)
            for count in self._evicted.values():
                yield f"{family.name}{count.labels} {count.value}"
        for family in LOOP_FAMILIES:
            yield from _head(family)
            yield from _buckets(family.name, {}, self._loops, openmetrics=openmetrics)
        for family in STRATEGY_FAMILIES:
            yield from _head(family)
            for (profile, plugin), timing in self._strategies.items():
                labels = {"profile": profile, "strategy": plugin}
                yield from _buckets(family.name, labels, timing, openmetrics=openmetrics)
        yield from _head(BUILD_FAMILY)
        ours = f"reactive-desched-{__version__}"
        version = {"AppVersion": __version__, "DeschedulerVersion": ours}
        yield f"{BUILD_FAMILY.name}{_labels(version)} 1"


def _head(family: MetricFamily) -> Iterable[str]:
    return f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"


def _buckets(
    name: str, labels: Mapping[str, str], timing: Histogram, *, openmetrics: bool
) -> Iterator[str]:
    """Write a histogram; Go writes whole bounds as `1`, OpenMetrics wants `1.0`."""
    for bound, number in timing.cumulative():
        le = bound if openmetrics else bound.removesuffix(".0")
        yield f"{name}_bucket{_labels({**labels, 'le': le})} {number:.0f}"
    yield f"{name}_sum{_labels(labels)} {timing.total_s!r}"
    yield f"{name}_count{_labels(labels)} {sum(timing.counts)}"


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""
