"""A balance plugin in a sweep and in `plan`: it goes on by the decision on each finding."""

from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.fit.upstream import SCHEDULER, UPSTREAM
from reactive_desched.model.decisions import Evict
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.plan.sweep_run import run_sweeps
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import Policy
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.sweep.cycle import Cycle
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import make_policy, make_profile_of
from tests.support.moving import Moving, MovingArgs
from tests.support.owner_limit import OwnerLimit, OwnerLimitArgs

NODES: list[ClusterObject] = [node("n1"), node("n2"), node("n3")]


def crowd(count: int, on: str = "n1", **more: Any) -> list[Pod]:  # any part of a pod
    return [pod(f"{on}-{number}", on=on, **more) for number in range(count)]


def policy(limits: Mapping[str, int | None] | None = None, **evictor: Any) -> Policy:
    args = DefaultEvictorArgs.model_validate(evictor)
    plugin = OwnerLimit(OwnerLimitArgs())
    return make_policy((make_profile_of("p", (plugin,), args),), limits=limits)


def state_of(objects: Iterable[ClusterObject]) -> ClusterState:
    state = ClusterState()
    for obj in objects:
        state.upsert(obj)
    return state


def decisions(
    policy: Policy,
    objects: Iterable[ClusterObject],
    failing: tuple[str, ...] = (),
    node_fit: str = UPSTREAM,
) -> Iterator[str]:
    """Run a cycle in which the evictions of some pods fail."""
    state = state_of(objects)
    view = ClusterView(state, lambda: 0.0)
    fit = SchedulerNodeFit(view, lambda: 0.0) if node_fit == SCHEDULER else None
    cycle = Cycle(policy, state, view, fit)
    for decided in cycle.run():
        name = decided.finding.pod.name
        yield f"{type(decided.decision).__name__} {name}"
        if isinstance(decided.decision, Evict) and name not in failing:
            cycle.confirm(decided)


def planned(
    policy: Policy, objects: Iterable[ClusterObject], node_fit: str = UPSTREAM
) -> list[str]:
    """Run what `plan` runs on such a cluster."""
    snapshot = SimpleNamespace(build_state=lambda _: state_of(objects))
    result = run_sweeps(policy, cast("Snapshot", snapshot), 0.0, node_fit)
    return [f"{each.action} {each.pod.name}" for each in result.decisions]


def test_a_plan_stops_when_the_numbers_say_so() -> None:
    objects: list[ClusterObject] = [*NODES, *crowd(5)]

    assert list(decisions(policy(), objects)) == ["Evict n1-0", "Evict n1-1"]
    assert planned(policy(), objects) == ["Evict n1-0", "Evict n1-1"]


def test_a_plan_ends_when_the_limit_of_the_cluster_is_exhausted() -> None:
    objects: list[ClusterObject] = [*NODES, *crowd(9)]
    limited = policy({"cluster": 1})

    assert list(decisions(limited, objects)) == ["Evict n1-0", "Refuse n1-1"]
    assert planned(limited, objects) == ["Evict n1-0", "Refuse n1-1"]


def test_a_plan_continues_at_the_next_node_when_the_limit_of_one_is_exhausted() -> None:
    objects: list[ClusterObject] = [*NODES, node("n4"), *crowd(5), *crowd(5, on="n2")]

    assert list(decisions(policy({"node": 1}), objects)) == [
        "Evict n1-0",
        "Refuse n1-1",
        "Evict n2-0",
    ]


def test_a_plan_takes_another_pod_when_an_eviction_failed() -> None:
    found = list(decisions(policy(), [*NODES, *crowd(5)], failing=("n1-0",)))

    assert found == ["Evict n1-0", "Evict n1-1", "Evict n1-2"]


def test_pods_that_the_evictor_protects_are_not_counted() -> None:
    objects: list[ClusterObject] = [
        *NODES,
        *crowd(1),
        *crowd(3, on="n2", priority=2_000_000_000),
    ]

    assert list(decisions(policy(), objects)) == []


def test_protection_follows_what_the_sweep_has_evicted_so_far() -> None:
    objects: list[ClusterObject] = [*NODES, node("n4"), *crowd(4)]

    assert list(decisions(policy(minReplicas=4), objects)) == [
        "Evict n1-0",
        "Refuse n1-1",
        "Refuse n1-2",
        "Refuse n1-3",
    ]


def test_a_plan_asks_where_a_pod_fits() -> None:
    full = [node("n2", "gpu:NoSchedule"), node("n3", unschedulable=True)]

    assert list(decisions(policy(), [node("n1"), *full, *crowd(3)])) == []
    assert list(decisions(policy(), [node("n1"), node("n2"), full[1], *crowd(3)])) == ["Evict n1-0"]


def test_the_schedulers_mode_of_node_fit_counts_only_the_targets_of_a_move() -> None:
    slots = {"cpu": "8", "memory": "8Gi", "pods": "2"}
    objects: list[ClusterObject] = [
        node("n1"),
        node("n2", allocatable=slots),
        node("n3"),
        *crowd(4, requests={"cpu": "1"}),
    ]
    args = DefaultEvictorArgs(node_fit=True)
    moving = make_policy((make_profile_of("p", (Moving(MovingArgs()),), args),))
    two = ["Evict n1-0", "Evict n1-1", "Refuse n1-2", "Refuse n1-3"]

    assert list(decisions(moving, objects, node_fit=SCHEDULER)) == two
    assert planned(moving, objects, SCHEDULER) == two
    assert list(decisions(moving, objects)) == [f"Evict n1-{number}" for number in range(4)]
    assert planned(moving, objects) == [f"Evict n1-{number}" for number in range(4)]


def test_a_plugin_that_filters_pods_itself_is_still_refused_what_is_reserved_by_then() -> None:
    slots = {"cpu": "8", "memory": "8Gi", "pods": "1"}
    objects: list[ClusterObject] = [node("n1"), node("n2", allocatable=slots), *crowd(4)]
    args = DefaultEvictorArgs(node_fit=True)
    evening_out = make_policy((make_profile_of("p", (DuplicatesPlugin(DuplicatesArgs()),), args),))

    assert list(decisions(evening_out, objects)) == ["Evict n1-3", "Evict n1-2"]
    assert list(decisions(evening_out, objects, node_fit=SCHEDULER)) == [
        "Evict n1-3",
        "Refuse n1-2",
        "Refuse n1-1",
    ]
