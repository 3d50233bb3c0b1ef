"""What every plugin together costs: one change, a refresh of measured use, a sweep, their memory.

The generated cluster is balanced by the plugins' rules, so that nothing is evicted while their
upkeep is measured. It is read from its files into a cluster state; no server is involved. What the
plugins cost is the difference to the same profiles with no plugin in them.
"""

import argparse
import gc
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

import msgspec

from bench.generate import Dataset, cache_folder, ensure
from bench.measure import poll
from bench.measure.machine import Stopwatch
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.instances import plugin_instances
from reactive_desched.controller.work_queue import PodBackoff
from reactive_desched.gate.eviction_controls import ChangeFollowers, EvictionControls
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Evict
from reactive_desched.model.objects import ClusterObject, Node, Pod
from reactive_desched.model.taints import Taint
from reactive_desched.model.usage import NODE_METRIC, NodeMetric, NodeUsage
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.sweep.cycle import Cycle

Results = dict[str, object]
Args = Mapping[str, Mapping[str, object]]  # of plugins, by name

KUBERNETES_METRICS: Final = "KubernetesMetrics"
_NOW_S: Final = 1_790_000_000.0
_CHANGES, _NODES, _RUNS = 3_000, 300, 3
_USAGE: Final = "LowNodeLoad"
"""Runs in a profile of its own, beside a LowNodeUtilization that reads measured use."""
_PLANS: Final = "ConsolidateNodes"
"""Makes a plan of all nodes, which waits for more than one change: it is not a cost of one."""
_NUMBERS: Final = count()
_ROOMY: Final = {"cpu": 1, "memory": 1}
_ARGS: Final[Args] = {
    "CustomPriority": {
        "evictionOrder": [
            {"name": name, "nodeSelector": {"matchLabels": {"example.com/price": name}}}
            for name in ("high", "low")
        ]
    },
    "RemovePodsViolatingNodeAffinity": {
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]
    },
    "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 100},
    "PodLifeTime": {"maxPodLifeTimeSeconds": 2**31},
    "RemovePodsViolatingNodeConditions": {"conditions": [{"type": "KernelDeadlock"}]},
    "RemovePodsViolatingTopologySpreadConstraint": {
        "constraints": ["DoNotSchedule", "ScheduleAnyway"]
    },
    "LowNodeUtilization": {
        "thresholds": {"cpu": 5, "memory": 1},
        "targetThresholds": {"cpu": 95, "memory": 95},
    },
    "HighNodeUtilization": {"thresholds": _ROOMY},
}
_BY_USE: Final[Args] = {
    "LowNodeUtilization": {
        "thresholds": {"cpu": 20, "memory": 20},
        "targetThresholds": {"cpu": 80, "memory": 80},
        "metricsUtilization": {"source": KUBERNETES_METRICS},
    },
    "LowNodeLoad": {
        "lowThresholds": {"cpu": 20, "memory": 20},
        "highThresholds": {"cpu": 80, "memory": 80},
    },
}
"""Arguments by which the generated cluster, and use between 35 and 65 per cent, are as wanted."""


def configuration(*, plugins: bool) -> Configuration:
    """Return two profiles: every plugin of the SIG descheduler, and those that read measured use.

    Without plugins both are empty. Nothing is debounced.
    """
    by_request = [name for name in plugin_registry() if name not in (_USAGE, _PLANS)]
    profiles = [
        _profile("requests", by_request if plugins else (), _ARGS),
        _profile("usage", _BY_USE if plugins else (), _BY_USE),
    ]
    policy = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "metricsProviders": [{"source": KUBERNETES_METRICS}],
        "profiles": profiles,
    }
    settings = {
        "apiVersion": "reactive-desched/v1alpha1",
        "kind": "ReactiveSettings",
        "debounce": {"quiet": "0s", "maxWait": "0s"},
    }
    texts = [SourceText(json.dumps(each), "bench") for each in (policy, settings)]
    return load_sources(texts, plugin_registry())


def _profile(name: str, names: Collection[str], args: Args) -> object:
    registry, points = plugin_registry(), dict[str, dict[str, list[str]]]()
    for plugin in names:
        for point in registry[plugin].points:
            points.setdefault(point, {"enabled": []})["enabled"].append(plugin)
    configured = [{"name": each, "args": args[each]} for each in names if each in args]
    return {"name": name, "pluginConfig": configured, "plugins": points}


class Descheduler:
    """The way of a change from the cluster state to decisions, without a loop around it."""

    def __init__(self, state: ClusterState, config: Configuration) -> None:
        self.state = state
        view = ClusterView(state, _wall_clock)
        gates = EvictionControls(view, time.monotonic, config, EvictionLedger(view))
        self._followers = ChangeFollowers(gates.followers)
        instances = plugin_instances(config, state, gates, _wall_clock)
        backoff = PodBackoff(config.settings.evictions.retry)
        self._evaluator = Evaluator(instances, backoff, gates.node_fit)
        self._evaluator.resync(time.monotonic())
        self.evicted = 0
        self.evaluate()

    def apply(self, changes: Sequence[Change]) -> None:
        """Keep indexes and views, and enqueue subjects."""
        if changes:
            self._followers.apply(changes, time.monotonic())
            self._evaluator.apply_changes(changes, time.monotonic())

    def evaluate(self) -> None:
        """Judge what is enqueued."""
        self.evaluate_until(_never)

    def evaluate_until(self, should_yield: Callable[[], bool]) -> bool:
        """Judge what is enqueued until it should yield; say whether nothing is left."""
        now = time.monotonic()
        for evaluation in self._evaluator.process_due(now, should_yield):
            self.evicted += isinstance(evaluation.decision, Evict)
        due = self._evaluator.next_due(now)
        return due is None or due > now


def _wall_clock() -> float:
    return _NOW_S


def _never() -> bool:
    return False


def _same(obj: ClusterObject) -> ClusterObject:
    return obj


def load(data: Dataset, altered: Callable[[ClusterObject], ClusterObject] = _same) -> ClusterState:
    """Read nodes and pods, and measure every node at about half of its capacity."""
    state, tables = ClusterState(), InternTables()
    for resource in ("nodes", "pods"):
        codec, items = ResourceCodec(WATCHED_KINDS[resource], tables), data.items(resource)
        for number in range(len(items)):
            state.upsert(altered(codec.decode_object(items.item(number))))
    for sample in samples(state, _rng(1)):
        state.upsert(sample)
    return state


def samples(state: ClusterState, rng: random.Random) -> Iterator[NodeUsage]:
    """Yield the use of each node and its pods, as metrics-server and koordinator's agent give it.

    A node uses 35 to 65 per cent, its pods equal shares of that.
    """
    for info in list(state.node_infos()):
        if info.node is None:
            continue
        use = {
            resource: int(info.node.allocatable[resource] * rng.uniform(0.35, 0.65))
            for resource in ("cpu", "memory")
        }
        count = len(info.active)
        share = {resource: amount // max(1, count) for resource, amount in use.items()}
        pods = {str(pod): share for pod in info.active.values()}
        by_pods = {resource: amount * count for resource, amount in share.items()}
        yield NodeUsage(KUBERNETES_METRICS, info.name, use, _NOW_S, pods)
        yield NodeMetric(
            NODE_METRIC, info.name, use, _NOW_S, pods, uid=info.name, pods_usage=by_pods
        )


# --- the measurements: CPU microseconds of one change, seconds of a pass ---


def one_change(descheduler: Descheduler, change: Callable[[], int]) -> dict[str, float]:
    """Return what one of a round of changes costs, to the enqueued subject and to the decision."""
    applied, judged = [], []
    for _ in range(_RUNS):
        watch = Stopwatch()
        changes = change()
        applied.append(watch.cpu_s / changes * 1e6)
        descheduler.evaluate()
        judged.append(watch.cpu_s / changes * 1e6)
    return {"apply_us": round(min(applied), 2), "with_evaluation_us": round(min(judged), 2)}


class Changes:
    """Rounds of changes to a descheduler's cluster, after each of which it is as it was before."""

    def __init__(self, descheduler: Descheduler) -> None:
        self._to = descheduler
        self._state = descheduler.state
        rng = _rng(2)
        bound = sorted((pod for pod in self._state.store(Pod) if pod.node), key=_uid)
        self._pods: list[Pod] = rng.sample(bound, min(_CHANGES, len(bound)))
        nodes = sorted(self._state.store(Node), key=_uid)
        self._nodes: list[Node] = rng.sample(nodes, min(_NODES, len(nodes)))

    def pods(self) -> int:
        """Delete pods, and bind others of their templates in their place."""
        for index, pod in enumerate(self._pods):
            self._to.apply(self._state.remove(pod))
            self._pods[index] = msgspec.structs.replace(pod, uid=f"bench-{next(_NUMBERS)}")
            self._to.apply(self._state.upsert(self._pods[index]))
        return 2 * len(self._pods)

    def taints(self) -> int:
        """Add a taint that no plugin minds to nodes, and take it off again."""
        soft = Taint("bench", "PreferNoSchedule")
        return self._nodes_with(lambda node: {"taints": (*node.taints, soft)})

    def labels(self) -> int:
        """Add a label that no pod asks for to nodes, and take it off again."""
        return self._nodes_with(lambda node: {"labels": {**node.labels, "bench": "x"}})

    def _nodes_with(self, change: Callable[[Node], dict[str, object]]) -> int:
        for node in self._nodes:
            self._to.apply(self._state.upsert(msgspec.structs.replace(node, **change(node))))
            self._to.apply(self._state.upsert(node))
        return 2 * len(self._nodes)


def _rng(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  # the same changes in every run


def _uid(obj: Pod | Node) -> str:
    return obj.uid


def usage_refresh(descheduler: Descheduler) -> dict[str, Results]:
    """Return what new samples of every node cost, by source, and one of them at most."""
    found: dict[str, Results] = {}
    for source in (KUBERNETES_METRICS, NODE_METRIC):
        totals, steps_ns = [], [0]
        for turn in range(_RUNS):
            rng = _rng(10 + turn)
            fresh = [each for each in samples(descheduler.state, rng) if each.source == source]
            watch = Stopwatch()
            for sample in fresh:
                descheduler.apply(descheduler.state.upsert(sample))
            descheduler.evaluate()
            totals.append(watch.cpu_s)
        for sample in fresh:
            begun_ns = time.process_time_ns()
            descheduler.apply(descheduler.state.upsert(sample))
            steps_ns.append(time.process_time_ns() - begun_ns)
        found[source] = {
            "cpu_ms": round(min(totals) * 1e3, 2),
            "longest_step_ms": round(max(steps_ns) / 1e6, 3),
        }
    return found


def full_sweep(state: ClusterState, config: Configuration) -> Results:
    """Run one cycle by upstream's rules, its indexes built anew."""
    state.keep_indexes([])
    watch = Stopwatch()
    cycle = Cycle(config.policy, state, ClusterView(state, _wall_clock))
    evicted = sum(isinstance(each.decision, Evict) for each in cycle.run())
    return {"cpu_s": round(watch.cpu_s, 3), "evicted": evicted}


def memory_per_pod(state: ClusterState, config: Configuration) -> float:
    """Return the bytes per pod that the descheduler allocates beside the cluster state."""
    state.keep_indexes([])
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    descheduler = Descheduler(state, config)
    gc.collect()
    added = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del descheduler
    return added / len(state.store(Pod))


def naive_pass(data: Dataset) -> Results:
    """Parse every object and judge it, as a descheduler that polls does in each cycle."""
    cycle, watch = poll.PollingCycle(), Stopwatch()
    for resource, take in (("nodes", cycle.add_node), ("pods", cycle.judge_pod)):
        items = data.items(resource)
        for number in range(len(items)):
            take(json.loads(items.item(number)))
    cycle.judge_aggregates()
    return {"cpu_s": round(watch.cpu_s, 3), "pods": cycle.pods}


def measure(data: Dataset) -> Results:
    """Measure all of it; the collector is off, as in a running controller most of the time."""
    state = load(data)
    gc.collect()
    gc.freeze()
    gc.disable()
    costs: dict[str, dict[str, dict[str, float]]] = {}
    results: Results = {"pods": len(state.store(Pod)), "costs": costs}
    evicted = 0
    for name, plugins in (("none", False), ("all", True)):
        descheduler = Descheduler(state, configuration(plugins=plugins))
        changes = Changes(descheduler)
        costs[name] = {
            each.__name__: one_change(descheduler, each)
            for each in (changes.pods, changes.taints, changes.labels)
        }
        if plugins:
            results["usage"] = usage_refresh(descheduler)
        evicted += descheduler.evicted
    results["sweep"] = full_sweep(state, configuration(plugins=True))
    memory = {each: memory_per_pod(state, configuration(plugins=each)) for each in (False, True)}
    results["bytes_per_pod"] = round(memory[True] - memory[False], 1)
    results["naive"] = naive_pass(data)
    results["evicted"] = evicted
    return results


def main() -> None:
    """Read from the command line how large the cluster is; print the results."""
    parser = argparse.ArgumentParser(prog="bench.measure.balance")
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    args = parser.parse_args()
    results = measure(ensure(args.pods, args.nodes, cache_folder()))
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
