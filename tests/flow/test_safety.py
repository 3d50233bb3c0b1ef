"""Anything may happen, in any order: what must hold at every call, and what must not get lost."""

from collections.abc import Iterator, Mapping
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from reactive_desched.assembly import Plan, ProfilePlan
from reactive_desched.gate.budgets import Rate
from reactive_desched.gate.windows import WINDOW_S
from reactive_desched.model.labels import EVERYTHING, LabelSelector, Selector, parse_selector
from reactive_desched.model.objects import (
    Namespace,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodStatus,
    PriorityClass,
)
from reactive_desched.plugins.node_affinity import (
    PREFERRED,
    REQUIRED,
    NodeAffinity,
    NodeAffinityArgs,
)
from reactive_desched.plugins.node_taints import NodeTaints, NodeTaintsArgs
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.react.debounce import Pause
from reactive_desched.state.cluster import RESOURCES
from reactive_desched.testing.builders import READY

Story = list[tuple[Any, ...]]  # a verb of World with its arguments
SLACK = 1e-6

# A tiny world, so that things collide often.
names = st.sampled_from(["p1", "p2", "p3", "p4", "p5", "p6"])
node_names = st.sampled_from(["n1", "n2", "n3"])
apps = st.sampled_from([{}, {"app": "web"}])
nodes = st.fixed_dictionaries(
    {},
    optional={
        "taints": st.sampled_from([(), ("a:NoSchedule",), ("b:NoSchedule",)]),
        "labels": st.fixed_dictionaries(
            {"pool": st.sampled_from("aab")}, optional={"disk": st.sampled_from(["ssd", "hdd"])}
        ),
        "ready": st.sampled_from(["True", "True", "False"]),
        "unschedulable": st.booleans(),
        "room": st.sampled_from([{"cpu": "4", "pods": "10"}, {"cpu": "1", "pods": "2"}]),
    },
)
pods = st.fixed_dictionaries(
    {"on": node_names},
    optional={
        "labels": apps,
        "tolerates": st.sampled_from([(), ("a",), ("b",)]),
        "requires": st.sampled_from([None, "disk=ssd", "pool"]),
        "prefers": st.sampled_from([{}, {"disk=ssd": 5}]),
        "requests": st.sampled_from([{}, {"cpu": "1"}]),
        "owner": st.sampled_from(["ReplicaSet/web", "ReplicaSet/web", None]),
        "status": st.sampled_from([READY, PodStatus("Running"), PodStatus("Failed")]),
        "priority": st.sampled_from([None, 100]),
        "evict": st.sampled_from([None, None, "true"]),
    },
)
things = st.one_of(
    st.builds(
        lambda name, labels, allowed: PodDisruptionBudget(
            "default", name, name, selector=LabelSelector(labels), disruptions_allowed=allowed
        ),
        st.sampled_from("ab"),
        apps,
        st.integers(0, 2),
    ),
    st.builds(lambda labels: Namespace("default", "ns", labels=labels), apps),
    st.builds(lambda value: PriorityClass("high", "pc", value=value), st.sampled_from([50, 500])),
    st.builds(
        lambda kind: PersistentVolumeClaim("default", "data", "pvc", storage_class=kind),
        st.sampled_from(["fast", "slow"]),
    ),
)
steps = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([0, 0.3, 2, 6, 40, 310])),
    st.tuples(st.just("node"), node_names, nodes),
    st.tuples(st.just("pod"), names, pods),
    st.tuples(st.just("drop"), st.just("nodes"), node_names),
    st.tuples(st.just("drop"), st.just("pods"), names),
    st.sampled_from(
        [
            ("drop", "poddisruptionbudgets", "default/a"),
            ("drop", "namespaces", "default"),
            ("drop", "priorityclasses", "high"),
            ("drop", "persistentvolumeclaims", "default/data"),
        ]
    ),
    st.tuples(st.just("terminate"), names),
    st.tuples(st.just("thing"), things),
    st.tuples(st.sampled_from(["lose", "resume", "relist"]), st.sampled_from(RESOURCES)),
    st.tuples(st.just("hold"), st.sampled_from(["stopping", None, None])),
    st.tuples(st.just("fail"), st.sampled_from(["", "", "full"]), st.sampled_from([0, 0, 0.4, 3])),
    st.tuples(st.just("hide"), st.integers(0, 3)),
)
replies = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("accepted", "lost before", "lost after", "budget"),
                *("overloaded", "denied", "failed", "replaced"),
            ]
        ),
        st.sampled_from([0, 0, 0.7, 30]),
    ),
    max_size=12,
)
evictors = st.sampled_from(
    [
        {},
        {"nodeFit": True},
        {"nodeFit": True, "nodeSelector": "pool=b"},
        {"minReplicas": 2},
        {"minPodAge": "5m"},
        {"labelSelector": {"matchLabels": {"app": "web"}}},
        {"ignorePodsWithoutPDB": True},
        {"namespaceLabelSelector": {"matchLabels": {"app": "web"}}},
        {"priorityThreshold": {"name": "high"}},
    ]
).map(DefaultEvictorArgs.model_validate)
rates = st.sampled_from([None, None, Rate(0.1, 1), Rate(0.5, 2)])
limits = st.sampled_from([None, None, None, 1, 2])


def make_plan(
    evictors: tuple[DefaultEvictorArgs, DefaultEvictorArgs],
    selects: Selector,
    rates: Mapping[str, Rate | None],
    limits: Mapping[str, int | None],
    pause: Pause,
    at_once: int,
) -> Plan:
    taints = NodeTaints(NodeTaintsArgs())
    affinity = NodeAffinity(NodeAffinityArgs(node_affinity_type=(REQUIRED, PREFERRED)))
    profiles = (
        ProfilePlan("one", (taints, affinity), evictors[0]),
        ProfilePlan("two", (taints,), evictors[1]),
    )
    return Plan(profiles, selects, rates, limits, lambda _: pause, at_once=at_once)


plans = st.builds(
    make_plan,
    st.tuples(evictors, evictors),
    st.sampled_from([EVERYTHING, EVERYTHING, parse_selector("pool=a")]),
    st.fixed_dictionaries({"cluster": rates, "node": rates, "namespace": rates}),
    st.fixed_dictionaries({"cluster": limits, "node": limits, "namespace": limits}),
    st.sampled_from([Pause(0, 0), Pause(0.5, 2)]),
    st.sampled_from([1, 50]),
)
placings = st.dictionaries(names, node_names, max_size=6)


def by_scope(evicted: list[tuple[float, Pod]], scope: str) -> Iterator[list[float]]:
    """Group the times of evictions, in order, by the names of a scope."""
    groups: dict[str, list[float]] = {}
    for at, gone in sorted(evicted, key=lambda pair: pair[0]):
        name = {"cluster": "", "node": gone.node, "namespace": gone.namespace}[scope]
        groups.setdefault(name, []).append(at)
    yield from groups.values()


def is_within_rate(times: list[float], rate: Rate) -> bool:
    return all(
        end - start + 1 <= rate.burst + rate.per_second * (later - earlier) + SLACK
        for start, earlier in enumerate(times)
        for end, later in enumerate(times[start:], start)
    )


def is_within_limit(times: list[float], limit: int) -> bool:
    pairs = zip(times, times[limit:], strict=False)
    return all(later - earlier >= WINDOW_S - SLACK for earlier, later in pairs)


def assert_all_is_well(world: Any) -> None:  # a World
    plan = world.plan
    assert world.known() == world.truth
    assert world.disk.outcomes.keys() == world.disk.intents.keys()
    assert world.under_way == set()
    for scope in ("cluster", "node", "namespace"):
        for times in by_scope(world.evicted, scope):
            rate, limit = plan.rates[scope], plan.limits[scope]
            assert rate is None or is_within_rate(times, rate), (scope, times)
            assert limit is None or is_within_limit(times, limit), (scope, times)
    assert world.allowed_afresh() == set()
    assert world.waiting() == world.flagged_afresh()


@settings(deadline=None)
@given(plan=plans, placed=placings, story=st.lists(steps, min_size=5, max_size=40), replies=replies)
def test_every_call_is_allowed_and_nothing_that_should_move_is_forgotten(
    make_world: Any,  # the class World
    plan: Plan,
    placed: dict[str, str],
    story: Story,
    replies: list[tuple[str, float]],
) -> None:
    async def live() -> None:
        world = make_world(plan, replies)
        await world.live(placed, story)
        assert_all_is_well(world)

    anyio.run(live, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)})
