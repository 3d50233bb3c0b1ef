"""Exposes evictions and sweeps under the SIG descheduler's metric names, for its dashboards.

`descheduler_pods_evicted` is the only metric of koordinator's descheduler as well, for its.

The text is written here and not by the client library: thousands of series are a matter of
milliseconds this way, and it cannot say `descheduler_pods_evicted`, a counter without `_total`.

An eviction that another program carries out counts as `background` when the request is taken on,
and as `success` or `error` when it has ended.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from reactive_desched._version import __version__
from reactive_desched.model.changes import (
    Change,
    CompletedPodDeleted,
    PendingPodDeleted,
    PodGone,
    PodMetadataChanged,
)
from reactive_desched.model.objects import FAILED, Pod, PodKey
from reactive_desched.telemetry.metrics import ExposedMetric, Histogram

SUCCESS, ERROR, BACKGROUND = "success", "error", "background"
TOTAL_REACHED = "maximum number of evicted pods per a descheduling cycle reached"
NODE_REACHED = "maximum number of evicted pods per node reached"
NAMESPACE_REACHED = "maximum number of evicted pods per namespace reached"
"""The values of `result`."""

MAX_SERIES: Final = 5_000
"""So many combinations of labels are kept."""

KEPT_S: Final = 3600.0
"""One that was counted within this time stays: a query over an hour would lose it."""

OTHER: Final = "(other)"
"""The namespace and node of what is counted together for want of room; no object has this name."""

MAX_OTHER: Final = 500
"""So many combinations of the other labels there are for that; beyond it the strategy is `OTHER`,
too."""

LINES_AT_ONCE: Final = 100
"""So many lines are rendered at once: a few tenths of a millisecond."""

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


_LABELS: Final = ("namespace", "node", "profile", "result", "strategy")
_STRATEGY_LABELS: Final = ("profile", "strategy")
_VERSIONS: Final = {
    "AppVersion": __version__,
    "DeschedulerVersion": f"reactive-desched-{__version__}",
}


class _Series:
    """A number, when it was last counted, and its labels as they are written."""

    __slots__ = ("counted_at", "labels", "value")

    def __init__(self, key: LabelValues) -> None:
        self.labels = _labels(dict(zip(_LABELS, key, strict=True)))
        self.value = 0
        self.counted_at = 0.0


class UpstreamMetrics:
    """Counts evictions and times sweeps; all of it belongs to the event loop's thread.

    With `old_names` each family is served a second time, under the name that it had in earlier
    releases of the SIG descheduler. `clock` gives monotonic seconds.
    """

    def __init__(
        self, *, old_names: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._old_names = old_names
        self._clock = clock
        self._evicted: OrderedDict[LabelValues, _Series] = OrderedDict()
        self._other: dict[LabelValues, _Series] = {}
        self._loops = Histogram(LOOP_BUCKETS_S)
        self._strategies: dict[tuple[str, str], Histogram] = {}

    def count_eviction(self, profile: str, strategy: str, pod: Pod, result: str) -> None:
        """Count an eviction of this pod that ended so, or that a limit stopped.

        `strategy` is the plugin that found the pod, or what had the migration job made. At the
        bound the series that was counted longest ago goes, unless that is a short time ago: then
        the eviction counts for the namespace and node `OTHER`.
        """
        key = (pod.namespace, pod.node, profile, result, strategy[:MAX_STRATEGY])
        now = self._clock()
        series = self._evicted.pop(key, None)
        if series is None and len(self._evicted) >= MAX_SERIES and not self._drop_oldest(now):
            series = self._series_of_others(profile, result, key[-1])
        else:
            series = self._evicted[key] = series or _Series(key)
        series.value += 1
        series.counted_at = now

    def _drop_oldest(self, now: float) -> bool:
        oldest = next(iter(self._evicted.values()))
        if now - oldest.counted_at < KEPT_S:
            return False
        self._evicted.popitem(last=False)
        return True

    def _series_of_others(self, profile: str, result: str, strategy: str) -> _Series:
        key = (OTHER, OTHER, profile, result, strategy)
        if key not in self._other and len(self._other) >= MAX_OTHER:
            key = (OTHER, OTHER, profile, result, OTHER)
        if (series := self._other.get(key)) is None:
            series = self._other[key] = _Series(key)
        return series

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
        """Return every family as Prometheus reads it."""
        return "".join(self.parts(openmetrics=openmetrics))

    def exposed(self) -> Iterator[ExposedMetric]:
        """Yield every family under its name of today, as it is at this moment."""
        counts = {
            key: float(series.value)
            for key, series in (*self._evicted.items(), *self._other.items())
        }
        strategies: dict[LabelValues, Histogram] = {
            key: timing.copy() for key, timing in self._strategies.items()
        }
        yield ExposedMetric(*EVICTED_FAMILIES[0], _LABELS, counts)
        yield ExposedMetric(*LOOP_FAMILIES[0], (), {(): self._loops.copy()})
        yield ExposedMetric(*STRATEGY_FAMILIES[0], _STRATEGY_LABELS, strategies)
        yield ExposedMetric(*BUILD_FAMILY, tuple(_VERSIONS), {tuple(_VERSIONS.values()): 1.0})

    def parts(self, *, openmetrics: bool = False) -> Iterator[str]:
        """Return the same in parts of at most LINES_AT_ONCE lines, all of this moment.

        OpenMetrics has no counter without `_total` beside one with it, so there both are of
        unknown type; the numbers are the same.
        """
        counts = [
            (series.labels, series.value)
            for series in (*self._evicted.values(), *self._other.values())
        ]
        strategies = {key: timing.copy() for key, timing in self._strategies.items()}
        lines = self._lines(counts, self._loops.copy(), strategies, openmetrics=openmetrics)
        return _in_parts(lines)

    def _lines(
        self,
        counts: Sequence[tuple[str, int]],
        loops: Histogram,
        strategies: Mapping[tuple[str, str], Histogram],
        *,
        openmetrics: bool,
    ) -> Iterator[str]:
        for family in self._served(EVICTED_FAMILIES):
            is_unknown = openmetrics and self._old_names
            yield from _head(family._replace(kind="unknown") if is_unknown else family, openmetrics)
            for labels, count in counts:
                yield f"{family.name}{labels} {count}"
        for family in self._served(LOOP_FAMILIES):
            yield from _head(family, openmetrics)
            yield from _buckets(family.name, {}, loops, openmetrics=openmetrics)
        for family in self._served(STRATEGY_FAMILIES):
            yield from _head(family, openmetrics)
            for (profile, plugin), timing in strategies.items():
                about = dict(zip(_STRATEGY_LABELS, (profile, plugin), strict=True))
                yield from _buckets(family.name, about, timing, openmetrics=openmetrics)
        yield from _head(BUILD_FAMILY, openmetrics)
        yield f"{BUILD_FAMILY.name}{_labels(_VERSIONS)} 1"

    def _served(self, families: Sequence[MetricFamily]) -> Sequence[MetricFamily]:
        """Return a family under its name, and under its old one where that is asked for."""
        return families if self._old_names else families[:1]


def _head(family: MetricFamily, openmetrics: bool) -> Iterable[str]:  # noqa: FBT001 -- a format
    """Write a family's first lines; in OpenMetrics a counter's family has no `_total`."""
    is_counter = openmetrics and family.kind == "counter"
    name = family.name.removesuffix("_total") if is_counter else family.name
    return f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"


def _in_parts(lines: Iterator[str]) -> Iterator[str]:
    while part := list(islice(lines, LINES_AT_ONCE)):
        yield "\n".join((*part, ""))


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


EXPIRES_S: Final = 600.0
"""An eviction that has not ended after so long counts as an error."""

MAX_FOLLOWED: Final = 10_000
"""So many are followed; then the oldest is forgotten."""


class CountedEnd(NamedTuple):
    """The end of an eviction in the background, and the labels that it is counted by."""

    profile: str
    strategy: str
    pod: Pod
    result: str


class _Followed(NamedTuple):
    profile: str
    strategy: str
    pod: Pod
    began_at: float


class BackgroundEvictions:
    """The evictions that another program carries out; times are seconds of one clock."""

    def __init__(self) -> None:
        self._followed: OrderedDict[PodKey, _Followed] = OrderedDict()

    def __len__(self) -> int:
        return len(self._followed)

    def begin(self, profile: str, strategy: str, pod: Pod, now: float) -> bool:
        """Follow an eviction that was taken on; say whether it counts.

        A pod that is asked for again while it is followed, or that has ended, does not.
        """
        if pod.has_ended or pod.uid in self._followed:
            return False
        self._followed[pod.uid] = _Followed(profile, strategy, pod, now)
        if len(self._followed) > MAX_FOLLOWED:
            self._followed.popitem(last=False)
        return True

    def apply_changes(self, changes: Iterable[Change], now: float) -> Iterator[CountedEnd]:
        """Yield the evictions that end by these changes, or have lasted too long."""
        for change in changes:
            match change:
                case PodMetadataChanged(pod=pod):
                    self._look_at(pod)
                case PodGone(pod=pod) | CompletedPodDeleted(pod=pod) | PendingPodDeleted(pod=pod):
                    if (ended := self._followed.pop(pod.uid, None)) is not None:
                        result = ERROR if pod.status.phase == FAILED else SUCCESS
                        yield CountedEnd(*ended[:3], result)
        yield from self.expire(now)

    def expire(self, now: float) -> Iterator[CountedEnd]:
        """Yield the evictions that have lasted too long."""
        while self._followed:
            uid, oldest = next(iter(self._followed.items()))
            if now - oldest.began_at <= EXPIRES_S:
                return
            del self._followed[uid]
            yield CountedEnd(*oldest[:3], ERROR)

    def _look_at(self, pod: Pod) -> None:
        """Forget a pod that asks for no such eviction any more, or whose program has given up."""
        if (followed := self._followed.get(pod.uid)) is None:
            return
        before, after = followed.pod.annotations, pod.annotations
        was_in_progress = before.eviction_in_progress is not None
        is_in_progress = after.eviction_in_progress is not None
        if after.request_evict_only is None or (was_in_progress and not is_in_progress):
            del self._followed[pod.uid]
        else:
            self._followed[pod.uid] = followed._replace(pod=pod)
