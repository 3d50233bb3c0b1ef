"""How long one pod's rules hold the event loop: terms and constraints that match most other pods.

python -m bench.measure.rules [--only "hostname"]

Each story adds pods to the generated cluster, has them evaluated in the worker's time slices, and
removes them, three times. What counts is the longest step, one object taken in or one slice, of the
quietest of the three, by its CPU time: a busy machine also charges that of others.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from bench.generate import cache_folder, ensure
from bench.measure.balance import Descheduler, configuration, load
from reactive_desched.controller.worker import TIME_SLICE_S
from reactive_desched.model.labels import LabelSelector, Requirement
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    ClusterObject,
    Node,
    Pod,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from reactive_desched.model.taints import Taint
from reactive_desched.state.kinds.pod_limits import MAX_BROAD, MAX_TERMS, within_limits

NAMESPACE: Final = "rules-0"
CROWD: Final = {"bench-crowd": "yes"}
"""A label of every pod: a term that requires it is no broad one, and matches as many."""

LONG_MS: Final = 5.0

_TURNS: Final = 3

Rules = Callable[[int], PodSpec]
"""Returns the spec of a pod by its number; no two have terms in common."""


def _broad(number: int, term: int) -> LabelSelector:
    """Match every pod, unlike any other selector."""
    return LabelSelector({}, (Requirement(f"no-{number}-{term}", "DoesNotExist"),))


def _narrow(number: int, term: int) -> LabelSelector:
    return LabelSelector(CROWD, (Requirement(f"no-{number}-{term}", "DoesNotExist"),))


def _unmatched(number: int, term: int) -> LabelSelector:
    """Match no pod, which shows only when all have been looked at."""
    return LabelSelector({}, (Requirement(f"some-{number}-{term}", "Exists"),))


def _new_key(number: int, term: int) -> LabelSelector:
    return LabelSelector({f"new-{number}-{term}": "x"})


Selectors = Callable[[int, int], LabelSelector]


def _terms(
    key: str, number: int, selectors: Selectors, count: int, *, everywhere: bool = True
) -> tuple[PodAffinityTerm, ...]:
    namespaces = LabelSelector() if everywhere else None
    return tuple(
        PodAffinityTerm(key, selectors(number, term), namespace_selector=namespaces)
        for term in range(count)
    )


def _weighted(terms: tuple[PodAffinityTerm, ...]) -> tuple[WeightedPodAffinityTerm, ...]:
    return tuple(WeightedPodAffinityTerm(1 + n, term) for n, term in enumerate(terms))


def _constraints(
    key: str, number: int, selectors: Selectors, count: int, when: str = "DoNotSchedule"
) -> tuple[TopologySpreadConstraint, ...]:
    return tuple(
        TopologySpreadConstraint(
            1 + n, key, label_selector=selectors(number, n), when_unsatisfiable=when
        )
        for n in range(count)
    )


class Story(NamedTuple):
    """Pods to add, and whether all pods of the cluster are in their namespace."""

    name: str
    rules: Rules
    pods: int = 1
    one_namespace: bool = False


def _everything(number: int) -> PodSpec:
    zone, host = ZONE_LABEL, HOSTNAME_LABEL
    return PodSpec(
        anti_affinity=_terms(host, number, _broad, MAX_BROAD),
        pod_affinity=_terms(zone, number + 10_000, _broad, MAX_BROAD),
        preferred_pod_affinity=_weighted(_terms(host, number + 20_000, _broad, MAX_BROAD)),
        preferred_anti_affinity=_weighted(_terms(zone, number + 30_000, _broad, MAX_BROAD)),
        topology_spread_constraints=_constraints(host, number + 40_000, _broad, MAX_BROAD),
    )


def stories() -> Iterator[Story]:
    """Yield what is tried."""
    zone, host = ZONE_LABEL, HOSTNAME_LABEL
    four = MAX_BROAD
    yield Story("a pod without rules", lambda _: PodSpec())
    yield Story(
        "a pod without rules in a namespace of every pod", lambda _: PodSpec(), one_namespace=True
    )
    for where, key in (("zone", zone), ("hostname", host)):
        yield Story(
            f"4 anti-affinity terms over all namespaces, {where}",
            lambda n, key=key: PodSpec(anti_affinity=_terms(key, n, _broad, four)),  # type: ignore[misc]
        )
    yield Story(
        "20 such pods, hostname",
        lambda n: PodSpec(anti_affinity=_terms(host, n, _broad, four)),
        pods=20,
    )
    yield Story(
        "4 affinity terms over all namespaces, zone",
        lambda n: PodSpec(pod_affinity=_terms(zone, n, _broad, four)),
    )
    yield Story(
        "1 affinity term that matches every pod, 3 that match none",
        lambda n: PodSpec(
            pod_affinity=(*_terms(zone, n, _broad, 1), *_terms(zone, n, _unmatched, four - 1))
        ),
    )
    yield Story(
        "4 preferred terms of each kind",
        lambda n: PodSpec(
            preferred_pod_affinity=_weighted(_terms(host, n, _broad, four)),
            preferred_anti_affinity=_weighted(_terms(zone, n + 10_000, _broad, four)),
        ),
    )
    for when in ("DoNotSchedule", "ScheduleAnyway"):
        yield Story(
            f"4 spread constraints over a namespace of every pod, {when}",
            lambda n, when=when: PodSpec(  # type: ignore[misc]
                topology_spread_constraints=_constraints(host, n, _broad, four, when)
            ),
            one_namespace=True,
        )
    yield Story(
        "16 terms of a label that every pod of the namespace has",
        lambda n: PodSpec(
            anti_affinity=_terms(host, n, _narrow, MAX_TERMS, everywhere=False),
            pod_affinity=_terms(zone, n + 10_000, _narrow, MAX_TERMS, everywhere=False),
        ),
        one_namespace=True,
    )
    yield Story(
        "16 terms of labels that no pod has",
        lambda n: PodSpec(anti_affinity=_terms(host, n, _new_key, MAX_TERMS, everywhere=False)),
        one_namespace=True,
    )
    yield Story("every kind of rule at once", _everything)
    yield Story("5 pods with every kind of rule", _everything, pods=5)


class Steps:
    """The CPU time of each step, in milliseconds."""

    def __init__(self) -> None:
        self.took_ms: list[tuple[float, str]] = []

    def time(self, what: str, step: Callable[[], object]) -> None:
        """Do a step and note how long it took."""
        began = time.thread_time_ns()
        step()
        self.took_ms.append(((time.thread_time_ns() - began) / 1e6, what))


def _evaluate_in_slices(descheduler: Descheduler, steps: Steps) -> None:
    done = False

    def one_slice() -> None:
        nonlocal done
        until = time.thread_time() + TIME_SLICE_S
        done = descheduler.evaluate_until(lambda: time.thread_time() >= until)

    while not done:
        steps.time("slice", one_slice)


def measure(story: Story, descheduler: Descheduler, first: int) -> dict[str, Any]:
    """Add the pods, evaluate, have their node tainted, evaluate, remove them; return the holds."""
    state, steps = descheduler.state, Steps()
    nodes = sorted(state.store(Node), key=lambda node: node.name)
    home = nodes[0]
    template = next(pod for pod in state.store(Pod) if pod.node == home.name and pod.is_active)

    def take_in(what: str, change: Callable[[], object]) -> None:
        steps.time(what, lambda: descheduler.apply(change()))  # type: ignore[arg-type]
        _evaluate_in_slices(descheduler, steps)

    pods = [
        replace(
            template,
            uid=f"rules-{number}",
            name=f"rules-{number}",
            namespace=template.namespace if story.one_namespace else NAMESPACE,
            spec=within_limits(story.rules(number)),
            node=home.name,
        )
        for number in range(first, first + story.pods)
    ]
    assert not any(pod.spec.unread for pod in pods), pods[0].spec.unread
    for pod in pods:
        steps.time("a pod comes", lambda pod=pod: descheduler.apply(state.upsert(pod)))  # type: ignore[misc]
    _evaluate_in_slices(descheduler, steps)
    tainted = replace(home, taints=(*home.taints, Taint("bench", "NoSchedule")))
    take_in("taint", lambda: state.upsert(tainted))
    relabelled = replace(home, labels={**home.labels, ZONE_LABEL: "elsewhere"})
    take_in("labels", lambda: state.upsert(relabelled))
    take_in("labels", lambda: state.upsert(home))
    for pod in pods:
        steps.time("a pod goes", lambda pod=pod: descheduler.apply(state.remove(pod)))  # type: ignore[misc]
    _evaluate_in_slices(descheduler, steps)
    worst = sorted(steps.took_ms, reverse=True)[:3]
    return {
        "longest_ms": round(worst[0][0], 2),
        "worst": [f"{took:.1f} ms {what}" for took, what in worst],
        "cpu_ms": round(sum(took for took, _ in steps.took_ms), 1),
        "over_5_ms": sum(took >= LONG_MS for took, _ in steps.took_ms),
    }


def _same(obj: ClusterObject) -> ClusterObject:
    return obj


def _crowded(obj: ClusterObject) -> ClusterObject:
    """Put a pod into the one namespace, with the label of the crowd and a label of its own."""
    if not isinstance(obj, Pod):
        return obj
    labels = {**obj.labels, **CROWD, "statefulset.kubernetes.io/pod-name": obj.name}
    return replace(obj, namespace="crowd", labels=labels)


def main() -> None:
    """Read from the command line how large the cluster is; print the results."""
    parser = argparse.ArgumentParser(prog="bench.measure.rules")
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    found = {}
    for crowded in (False, True):
        chosen = [s for s in stories() if args.only in s.name and s.one_namespace == crowded]
        if not chosen:
            continue
        data = ensure(args.pods, args.nodes, cache_folder())
        state = load(data, _crowded if crowded else _same)
        descheduler = Descheduler(state, configuration(plugins=True))
        gc.collect()
        gc.freeze()
        gc.disable()
        for number, story in enumerate(chosen):
            results = [
                measure(story, descheduler, 300 * number + 100 * turn) for turn in range(_TURNS)
            ]
            found[story.name] = min(results, key=lambda each: each["longest_ms"])
            sys.stderr.write(f"{story.name}: {found[story.name]}\n")
        gc.unfreeze()
        gc.enable()
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
