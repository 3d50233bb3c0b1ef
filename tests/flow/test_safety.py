"""Anything may happen, in any order: what must hold at every call, and what must not get lost."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.labels import LabelSelector, parse_selector
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
    NodeAffinityArgs,
    NodeAffinityPlugin,
)
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import WINDOW_S
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.testing.builders import READY
from tests.support.configurations import make_configuration, make_profile_of

Story = list[tuple[Any, ...]]  # verbs of World with their arguments
Steps = st.SearchStrategy[tuple[Any, ...]]
SCOPES = ("cluster", "zone", "node", "namespace", "owner")
SLACK = 1e-6
EXAMPLES = settings().max_examples  # tens of thousands find what is rare
WEB = {"app": "web"}
A = "a:NoSchedule"

# --- what may happen: a tiny world, so that things collide often ---

names = st.sampled_from(["p1", "p2", "p3", "p4", "p5", "p6"])
waits: Steps = st.tuples(st.just("wait"), st.sampled_from([0, 0.3, 2, 6, 40, 310]))
taints: Steps = st.sampled_from(
    [("taint", "n1", A), ("taint", "n1"), ("taint", "n1", "b:NoSchedule"), ("taint", "n2", A)]
)
departures: Steps = st.tuples(st.just("terminate"), names) | st.tuples(
    st.just("drop"), st.just("pods"), names
)


def pods(**fields: st.SearchStrategy[Any]) -> Steps:
    """Make or change a pod, mostly on n1."""
    on = st.sampled_from(["n1", "n1", "n2"])
    return st.tuples(st.just("pod"), names, st.fixed_dictionaries({"on": on, **fields}))


def nodes(*names: str, **fields: st.SearchStrategy[Any]) -> Steps:
    return st.tuples(st.just("node"), st.sampled_from(names), st.fixed_dictionaries(fields))


def some(*choices: Any) -> st.SearchStrategy[Any]:  # choices of any kind
    return st.sampled_from(choices)


def things(*choices: Any) -> Steps:  # cluster objects
    return st.tuples(st.just("thing"), some(*choices))


def stories(*steps: Steps, most: int = 25) -> st.SearchStrategy[Story]:
    return st.lists(st.one_of(*steps), min_size=3, max_size=most)


replies = st.lists(
    st.tuples(
        some("accepted", "lost before", "lost after", "budget")
        | some("accepted", "overloaded", "denied", "failed", "replaced"),
        some(0, 0, 0.7, 30),
    ),
    max_size=12,
)


def budget(allowed: int, labels: Mapping[str, str] = WEB, name: str = "a") -> PodDisruptionBudget:
    selector = LabelSelector(dict(labels))
    return PodDisruptionBudget("default", name, name, 0, selector, allowed)


BOTH = (
    NodeTaintsPlugin(NodeTaintsArgs()),
    NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(REQUIRED, PREFERRED))),
)


def plan(
    first: Mapping[str, Any], second: Mapping[str, Any] | None = None, **more: Any
) -> Configuration:
    """Make a plan of two profiles, alike unless told; `more` as make_configuration takes it."""
    one, two = map(DefaultEvictorArgs.model_validate, (first, second or first))
    return make_configuration(
        (make_profile_of("one", BOTH, one), make_profile_of("two", BOTH[:1], two)), **more
    )


# --- what must hold in the end; what must hold at every call is in World ---


def by_scope(evicted: list[tuple[float, Pod]], scope: str) -> Iterator[list[float]]:
    """Group the times of evictions, in order, by the names of a scope."""
    groups: dict[str, list[float]] = {}
    for at, gone in sorted(evicted, key=lambda pair: pair[0]):
        name = {
            "cluster": "",
            "zone": "a" if gone.node in ("n1", "n2") else "b",
            "node": gone.node,
            "namespace": gone.namespace,
            "owner": str(gone.owners[0]) if gone.owners else gone.name,
        }[scope]
        groups.setdefault(name, []).append(at)
    yield from groups.values()


def is_within_rate(times: list[float], rate: TokenRate) -> bool:
    return all(
        end - start + 1 <= rate.burst + rate.per_second * (later - earlier) + SLACK
        for start, earlier in enumerate(times)
        for end, later in enumerate(times[start:], start)
    )


def is_within_limit(times: list[float], limit: int) -> bool:
    pairs = zip(times, times[limit:], strict=False)
    return all(later - earlier >= WINDOW_S - SLACK for earlier, later in pairs)


def assert_all_is_well(world: Any) -> None:  # a World
    assert world.known() == world.truth
    assert world.disk.outcomes.keys() == world.disk.intents.keys()
    assert world.under_way == set()
    for scope in SCOPES:
        for times in by_scope(world.evicted, scope):
            rate = world.plan.settings.budgets.by_scope()[scope]
            limit = world.plan.policy.limits.by_scope().get(scope)
            assert rate is None or is_within_rate(times, rate), (scope, times)
            assert limit is None or is_within_limit(times, limit), (scope, times)
    assert world.allowed_afresh() == set()
    assert world.waiting() == world.flagged_afresh()


def live(world: Any, start: Story, story: Story) -> None:  # makes a World
    async def until_calm() -> None:
        made = world()
        await made.live(start, story)
        assert_all_is_well(made)

    anyio.run(
        until_calm, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)}
    )


FULL: Story = [("pod", name, {"on": "n1"}) for name in ("p1", "p2", "p3", "p4", "p5")]

# --- pace ---

rates = st.fixed_dictionaries(
    {scope: some(None, TokenRate(0.1, 1), TokenRate(0.5, 2)) for scope in SCOPES}
)
limits = st.fixed_dictionaries(
    {scope: some(None, None, 1, 2) for scope in ("cluster", "node", "namespace")}
)
slow: Steps = st.tuples(st.just("fail"), st.just(""), some(0, 0.4, 3))


@given(
    plan=st.builds(
        lambda rates, limits, at_once: plan({}, rates=rates, limits=limits, max_concurrent=at_once),
        rates,
        limits,
        some(1, 50),
    ),
    story=stories(waits, taints, taints, pods(), slow, departures),
    replies=replies,
)
def test_evictions_keep_to_every_rate_and_limit_in_any_stretch(
    make_world: Any,  # the class World
    plan: Configuration,
    story: Story,
    replies: list[tuple[str, float]],
) -> None:
    live(lambda: make_world(plan, replies), FULL, story)


# --- trouble ---

TROUBLES: list[tuple[Story, Story]] = [
    *(([("lose", kind)], [("resume", kind)]) for kind in ("nodes", "pods", "namespaces")),
    *(([("lose", kind)], [("relist", kind)]) for kind in ("nodes", "pods")),
    ([("hold", "stopping")], [("hold", None)]),
    ([("fail", "full", 0.4)], [("fail", "", 0.4)]),
    ([("hide", 3)], []),
    ([("relist", "pods")], []),
    ([], []),
    ([], []),
]
short_waits: Steps = st.tuples(st.just("wait"), some(0, 0.1, 0.3, 0.5, 2, 6))
scenes = st.builds(
    lambda taint, first, trouble, more, last: [taint, first, *trouble[0], *more, last, *trouble[1]],
    taints,
    short_waits,
    some(*TROUBLES),
    st.lists(taints | pods(requires=some(None, "pool=b")) | departures, max_size=2),
    short_waits,
)


@given(
    plan=st.builds(
        lambda at_once, pause: plan({}, max_concurrent=at_once, debounce=pause),
        some(1, 50),
        some(DebounceConfig(0, 0), DebounceConfig(0.5, 2)),
    ),
    slow_s=some(0, 0.4),
    scenes=st.lists(scenes, min_size=1, max_size=6),
    replies=replies,
)
def test_no_eviction_is_requested_in_any_trouble_and_all_are_requested_later(
    make_world: Any,  # the class World
    plan: Configuration,
    slow_s: float,
    scenes: list[Story],
    replies: list[tuple[str, float]],
) -> None:
    story = [step for scene in scenes for step in scene]
    live(lambda: make_world(plan, replies), [*FULL, ("fail", "", slow_s)], story)


# --- what stands in the way ---

FIT: dict[str, Any] = {"nodeFit": True}
PVC: dict[str, Any] = {
    "extraEnabled": ("PodsWithPVC",),
    "config": {"PodsWithPVC": {"protectedStorageClasses": ({"name": "fast"},)}},
}
OTHERS = ("n2", "n3")
pools = some({"pool": "a"}, {"pool": "b"})
taken = nodes(*OTHERS, taints=some((), (A,)), labels=pools)
cordoned = nodes(*OTHERS, unschedulable=st.booleans())
broken = nodes(*OTHERS, ready=some("True", "False"), labels=pools)
small = nodes(*OTHERS, allocatable=some({"cpu": "4", "pods": "9"}, {"cpu": "1", "pods": "9"}))
SIBLINGS = [("pod", name, {"on": "n2"}) for name in ("p4", "p5", "p6")]
CROWD = [("pod", f"p-{name}", {"on": name, "requests": {"cpu": "4"}}) for name in OTHERS]
THIN = [("pod", f"p-{name}", {"on": name}) for name in OTHERS]


def all_others(**fields: Any) -> Story:  # as node() takes them
    return [("node", name, fields) for name in OTHERS]


def a_pod(**fields: st.SearchStrategy[Any]) -> Steps:
    """Make or change p1, which sits on the tainted node."""
    on = st.fixed_dictionaries({"on": st.just("n1"), **fields})
    return st.tuples(st.just("pod"), st.just("p1"), on)


def drop(resource: str, *keys: str) -> Steps:
    return st.tuples(st.just("drop"), st.just(resource), some(*keys))


def claims() -> Iterator[PersistentVolumeClaim]:
    for kind in ("fast", "slow"):
        yield PersistentVolumeClaim("default", "data", "pvc", storage_class=kind)


class Obstacle(NamedTuple):
    """What stops evictions from n1 at first, and the steps that may clear the way."""

    plan: Configuration
    first: Story
    then: list[Steps]


OBSTACLES: dict[str, Obstacle] = {
    "a single node": Obstacle(plan({}), all_others(ready="False"), [broken, drop("nodes", "n3")]),
    "taints elsewhere": Obstacle(plan(FIT), all_others(taints=(A,)), [taken]),
    "cordons elsewhere": Obstacle(plan(FIT), all_others(unschedulable=True), [cordoned]),
    "little room elsewhere": Obstacle(
        plan(FIT),
        [*CROWD, ("pod", "p1", {"on": "n1", "requests": {"cpu": "3"}})],
        [some(*CROWD, *THIN), drop("pods", "p-n2", "p-n3"), small],
    ),
    "taints beyond the policy": Obstacle(
        plan(FIT, node_selector=parse_selector("kubernetes.io/hostname in (n1,n2)")),
        all_others(taints=(A,)),
        [taken, cordoned],
    ),
    "taints by selector": Obstacle(
        plan(FIT | {"nodeSelector": "pool=b"}), all_others(taints=(A,)), [taken, broken]
    ),
    "few replicas": Obstacle(
        plan({"minReplicas": 4}), [], [some(*SIBLINGS), drop("pods", "p1", "p4", "p5", "p6")]
    ),
    "its age": Obstacle(plan({"minPodAge": "5m"}), [], [a_pod(), drop("pods", "p1"), waits]),
    "its labels": Obstacle(
        plan({"labelSelector": {"matchLabels": WEB}}), [], [a_pod(labels=some({}, WEB)), taints]
    ),
    "nobody who owns it": Obstacle(
        plan({}),
        [("drop", "pods", "p1"), ("pod", "p1", {"on": "n1", "owner": None})],
        [a_pod(owner=some(None, "Job/a"), evict=some(None, "")), taints],
    ),
    "no budget": Obstacle(
        plan({"ignorePodsWithoutPDB": True}),
        [],
        [things(budget(1), budget(1, {})), drop("poddisruptionbudgets", "default/a")],
    ),
    "a spent budget": Obstacle(
        plan({}),
        [("thing", budget(0, {}))],
        [
            things(
                *(budget(n, labels) for n in (0, 1) for labels in ({}, WEB)), budget(0, {}, "b")
            ),
            drop("poddisruptionbudgets", "default/a", "default/b"),
            a_pod(labels=some({}, WEB), status=some(READY, PodStatus("Running"))),
        ],
    ),
    "its namespace": Obstacle(
        plan({"namespaceLabelSelector": {"matchLabels": WEB}}),
        [],
        [
            things(Namespace("default", "ns"), Namespace("default", "ns", labels=WEB)),
            drop("namespaces", "default"),
        ],
    ),
    "its priority": Obstacle(
        plan({"priorityThreshold": {"name": "high"}}),
        [("pod", "p1", {"on": "n1", "priority": 100})],
        [
            things(*(PriorityClass("high", "pc", value=value) for value in (50, 500))),
            drop("priorityclasses", "high"),
            a_pod(priority=some(None, 100, 100)),
        ],
    ),
    "its claim": Obstacle(
        plan({"podProtections": PVC}),
        [],
        [things(*claims()), drop("persistentvolumeclaims", "default/data")],
    ),
    "nothing better": Obstacle(
        plan({"labelSelector": {"matchLabels": WEB}}),
        [("taint", "n1"), ("pod", "p1", {"on": "n1", "labels": WEB, "prefers": {"disk=ssd": 5}})],
        [
            nodes("n1", "n2", labels=some({}, {"disk": "ssd"}, {"disk": "hdd"})),
            a_pod(requires=some(None, "disk"), prefers=some({}, {"disk=ssd": 5}), labels=some(WEB)),
        ],
    ),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
@settings(deadline=None, max_examples=EXAMPLES // 2)
@given(data=st.data())
def test_every_pod_that_may_leave_in_the_end_has_left(
    make_world: Any,  # the class World
    obstacle: str,
    data: st.DataObject,
) -> None:
    plan, first, then = OBSTACLES[obstacle]
    story = data.draw(stories(waits, *then, most=8))
    live(lambda: make_world(plan, []), [*FULL[:3], ("taint", "n1", A), *first], story)
