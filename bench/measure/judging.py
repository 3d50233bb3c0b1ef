"""What judging costs: one changed node per plugin, and everything at once as polling does."""

import random
import time
from collections.abc import Iterable

from bench.measure.live import Live
from bench.measure.machine import Stopwatch
from bench.measure.numbers import Numbers, middle_value
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeChange,
    NodeLabelsChanged,
    NodeRelaxed,
    NodeTaintsChanged,
    NodeTightened,
)
from reactive_desched.react.instances import AnyPlugin

_NODES = 300
_RUNS = 3
_NODE_CHANGES: tuple[type[NodeChange], ...] = (
    NodeTaintsChanged,
    NodeLabelsChanged,
    NodeTightened,
    NodeRelaxed,
    NodeAdded,
)


def one_node(live: Live, plugins: Iterable[AnyPlugin]) -> dict[str, Numbers]:
    """Return, for each plugin, the microseconds to judge all that one node's change touches.

    Cold is the first look at a node, as after a real change; warm is a look repeated at once.
    """
    names = sorted(node.name for node in live.core.view.nodes())
    chosen = random.Random(3).sample(names, min(_NODES, len(names)))  # noqa: S311  # a fair choice
    return {plugin.name: _judged(live, plugin, chosen) for plugin in plugins}


def _judged(live: Live, plugin: AnyPlugin, nodes: list[str]) -> Numbers:
    kind = next((kind for kind in _NODE_CHANGES if kind in plugin.reacts_to), None)
    if kind is None:
        return {"subjects": 0, "us": 0.0}
    cold, warm, subjects = [], [], 0
    for node in nodes:
        us, judged = _once(live, plugin, kind(node))
        cold.append(us)
        warm.append(min(_once(live, plugin, kind(node))[0] for _ in range(_RUNS)))
        subjects += judged
    return {
        "subjects": round(subjects / len(nodes), 1),
        "us": round(middle_value(cold), 1),
        "warm_us": round(middle_value(warm), 1),
    }


def _once(live: Live, plugin: AnyPlugin, change: Change) -> tuple[float, int]:
    view, begun, judged = live.core.view, time.perf_counter_ns(), 0
    for subject in plugin.subjects(change, view):
        judged += 1
        for _ in plugin.judge(subject, view):
            pass
    return (time.perf_counter_ns() - begun) / 1e3, judged


async def full_pass(live: Live) -> Numbers:
    """Judge every subject of every plugin on the picture in memory, as polling does each cycle."""
    runs = []
    for _ in range(_RUNS):
        watch = Stopwatch()
        now = time.monotonic()
        live.core.engine.resync(now)
        live.core.stage.poke(now)
        await live.settled()
        runs.append(watch.cpu_s)
    return {"cpu_s": round(middle_value(runs), 4)}
