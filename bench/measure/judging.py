"""What judging costs: one changed node or pod for each plugin, and everything at once."""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from bench.measure.live import RunningController
from bench.measure.loop import watch_loop_turns
from bench.measure.machine import Stopwatch
from bench.measure.numbers import Quantiles
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeChange,
    NodeLabelsChanged,
    NodeTaintsChanged,
    PodBound,
    PodChange,
    PodLabelsChanged,
    PodStatusChanged,
)
from reactive_desched.model.objects import HOSTNAME_LABEL
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.state.cluster import ClusterView
from reactive_desched.testing.scenario import build_view

_SAMPLES = 300
_RUNS = 3
_NODE_CHANGES: tuple[type[NodeChange], ...] = (
    NodeTaintsChanged,
    NodeLabelsChanged,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeAdded,
)
_POD_CHANGES: tuple[type[PodChange], ...] = (PodStatusChanged, PodLabelsChanged, PodBound)


def one_change(live: RunningController, plugins: Iterable[AnyPlugin]) -> dict[str, Quantiles]:
    """Return the microseconds to judge all that one change touches, by plugin and kind of change.

    Cold is the first look at a node or pod, as after a real change; warm is a look repeated at
    once. A plugin that reacts to no change of the kind has no number.
    """
    view = live.controller.view
    return {
        f"{plugin.name} ({changes[0].kind})": _time_changes(live, plugin, changes)
        for plugin in plugins
        for changes in (list(_node_changes(plugin, view)), list(_pod_changes(plugin, view)))
        if changes
    }


def _node_changes(plugin: AnyPlugin, view: ClusterView) -> Iterator[Change]:
    if kind := next((kind for kind in _NODE_CHANGES if kind in plugin.reacts_to), None):
        names = _sampled(sorted(node.name for node in view.nodes()))
        if kind is NodeLabelsChanged:
            yield from (NodeLabelsChanged(name, frozenset({HOSTNAME_LABEL})) for name in names)
        else:
            yield from map(kind, names)


def _pod_changes(plugin: AnyPlugin, view: ClusterView) -> Iterator[Change]:
    if kind := next((kind for kind in _POD_CHANGES if kind in plugin.reacts_to), None):
        pods = (view.pod_and_node(key) for key in _sampled(sorted(view.pods())))
        yield from (kind(bound[0]) for bound in pods if bound is not None)


def _sampled(keys: Sequence[str]) -> list[str]:
    return random.Random(3).sample(keys, min(_SAMPLES, len(keys)))  # noqa: S311  # a fair choice


def _time_changes(live: RunningController, plugin: AnyPlugin, changes: list[Change]) -> Quantiles:
    cold, warm, subjects = [], [], 0
    for change in changes:
        us, judged = _time_change(live, plugin, change)
        cold.append(us)
        warm.append(min(_time_change(live, plugin, change)[0] for _ in range(_RUNS)))
        subjects += judged
    return {
        "subjects": round(subjects / len(changes), 1),
        "us": round(median(cold), 1),
        "warm_us": round(median(warm), 1),
    }


def _time_change(live: RunningController, plugin: AnyPlugin, change: Change) -> tuple[float, int]:
    view, begun, judged = build_view(live.controller.state), time.perf_counter_ns(), 0
    for subject in plugin.subjects(change, view):
        judged += 1
        for _ in plugin.evaluate(subject, view):
            pass
    return (time.perf_counter_ns() - begun) / 1e3, judged


async def full_pass(live: RunningController) -> Quantiles:
    """Judge every subject of every plugin on the state in memory, as polling does each cycle."""
    runs = []
    with watch_loop_turns() as loop_turns:
        for _ in range(_RUNS):
            watch = Stopwatch()
            now = time.monotonic()
            live.controller.evaluator.resync(now)
            live.pipeline.worker.wake()
            await live.wait_until_idle()
            runs.append(watch.cpu_s)
    longest_ms = round(loop_turns.longest_ns / 1e6, 2)
    return {"cpu_s": round(median(runs), 4), "longest_hold_ms": longest_ms}
