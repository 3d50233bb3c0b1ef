"""The policy changes while anything else happens: nothing is lost, doubled or granted afresh."""

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from reactive_desched.fit.upstream import SCHEDULER, UPSTREAM
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.labels import EVERYTHING, Selector, parse_selector
from reactive_desched.model.objects import Pod
from reactive_desched.plugins.node_affinity import (
    PREFERRED,
    REQUIRED,
    NodeAffinityArgs,
    NodeAffinityPlugin,
)
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import WINDOW_S, AnyPlugin
from reactive_desched.primitives.timers import DebounceConfig
from tests.support.configurations import make_configuration, make_profile_of

Story = list[tuple[Any, ...]]  # verbs of World with their arguments
SLACK = 1e-6
A, B = "a:NoSchedule", "b:NoSchedule"
SCOPES = ("cluster", "node", "namespace")


def taints(**args: Any) -> AnyPlugin:  # fields of the arguments
    return NodeTaintsPlugin(NodeTaintsArgs.model_validate(args))


def affinity(*kinds: Any) -> AnyPlugin:  # the names of both kinds
    return NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=kinds))


def make_plan(
    plugins: tuple[AnyPlugin, ...],
    evictor: dict[str, Any],  # as a policy says it
    selects: Selector,
    rate: TokenRate,
    limit: int,
    pause: DebounceConfig,
    fit: str = SCHEDULER,
) -> Configuration:
    profile = make_profile_of("one", plugins, DefaultEvictorArgs.model_validate(evictor))
    rates, limits = dict.fromkeys(SCOPES, rate), dict.fromkeys(SCOPES, limit)
    return make_configuration((profile,), selects, rates, limits, pause, node_fit=fit)


def some(*choices: Any) -> st.SearchStrategy[Any]:  # choices of any kind
    return st.sampled_from(choices)


plans = st.builds(
    make_plan,
    some(
        (taints(),),
        (taints(excludedTaints=("a",)), affinity(REQUIRED)),
        (affinity(REQUIRED, PREFERRED), taints()),
        (),
    ),
    some({}, {}, {"nodeFit": True}, {"labelSelector": {"matchLabels": {"app": "web"}}}),
    some(EVERYTHING, EVERYTHING, parse_selector("pool=a"), parse_selector("pool=b")),
    some(TokenRate(0.1, 1), TokenRate(0.5, 3), TokenRate(10, 50)),
    some(1, 2, 50),
    some(DebounceConfig(0, 0), DebounceConfig(0.5, 2)),
    some(SCHEDULER, UPSTREAM),
)
names = some("p1", "p2", "p3", "p4", "p5", "p6")
adoptions = st.tuples(st.just("reconfigure"), plans)
steps = st.one_of(
    adoptions,
    adoptions,
    st.tuples(st.just("wait"), some(0, 0.1, 0.3, 2, 6, 40, 310)),
    some(("taint", "n1", A), ("taint", "n1"), ("taint", "n1", A, B), ("taint", "n2", B)),
    st.tuples(st.just("terminate"), names),
    st.tuples(
        st.just("pod"),
        names,
        st.fixed_dictionaries(
            {
                "on": some("n1", "n1", "n2"),
                "labels": some({}, {"app": "web"}),
                "requires": some(None, None, "pool=b"),
            }
        ),
    ),
    some(("lose", "nodes"), ("resume", "nodes"), ("relist", "pods"), ("fail", "", 0.4)),
)
replies = st.lists(
    st.tuples(
        some("accepted", "lost before", "lost after", "budget", "overloaded", "denied"),
        some(0, 0, 0.7, 30),
    ),
    max_size=12,
)
FULL: Story = [("pod", name, {"on": "n1"}) for name in ("p1", "p2", "p3", "p4", "p5")]


def live(world: Any, story: Story, check: Callable[[Any], None]) -> None:  # a World
    async def until_calm() -> None:
        await world.live([*FULL, ("taint", "n1", A)], story)
        check(world)

    anyio.run(
        until_calm, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)}
    )


def times_by_scope(evicted: list[tuple[float, Pod]]) -> Iterator[list[float]]:
    """Group the times of evictions, in order, by the names of each scope."""
    groups: dict[tuple[str, str], list[float]] = {}
    for at, gone in sorted(evicted, key=lambda pair: pair[0]):
        for key in (("cluster", ""), ("node", gone.node), ("namespace", gone.namespace)):
            groups.setdefault(key, []).append(at)
    yield from groups.values()


def assert_never_faster(times: list[float], plans: list[Configuration]) -> None:
    """Check every stretch against the most that any of the plans allows."""
    rates = [
        rate
        for plan in plans
        for rate in plan.settings.budgets.by_scope().values()
        if rate is not None
    ]
    burst, pace = max(r.burst for r in rates), max(r.per_second for r in rates)
    limit = max(
        limit
        for plan in plans
        for limit in plan.policy.limits.by_scope().values()
        if limit is not None
    )
    for start, earlier in enumerate(times):
        for count, later in enumerate(times[start:], 1):
            assert count <= burst + pace * (later - earlier) + SLACK, times
    for earlier, later in zip(times, times[limit:], strict=False):
        assert later - earlier >= WINDOW_S - SLACK, times


def assert_all_is_well(world: Any) -> None:  # a World
    assert world.known() == world.truth
    assert world.disk.outcomes.keys() == world.disk.intents.keys()
    assert world.under_way == set()
    assert world.allowed_afresh() == set()
    assert world.waiting() == world.flagged_afresh()
    assert world.core.view.eligible_node_count == world._fresh().view.eligible_node_count


@given(plan=plans, story=st.lists(steps, min_size=3, max_size=25), replies=replies)
def test_after_any_reloads_all_is_as_if_the_last_policy_had_been_there_from_the_start(
    make_world: Any,  # the class World
    plan: Configuration,
    story: Story,
    replies: list[tuple[str, float]],
) -> None:
    in_force = [plan, *(step[1] for step in story if step[0] == "reconfigure")]

    def check(world: Any) -> None:  # a World
        assert_all_is_well(world)
        for times in times_by_scope(world.evicted):
            assert_never_faster(times, in_force)

    live(make_world(plan, replies), story, check)


tight = st.builds(
    lambda rate, limit: make_plan((taints(),), {}, EVERYTHING, rate, limit, DebounceConfig(0, 0)),
    some(TokenRate(0.1, 1), TokenRate(0.1, 2), TokenRate(0.5, 3)),
    some(1, 2, 3),
)


@given(
    plans=st.lists(tight, min_size=2, max_size=8),
    waits=st.lists(some(0, 0.1, 0.3, 2, 9, 40, 200), min_size=8, max_size=8),
    replies=replies,
)
def test_no_number_of_reloads_grants_more_than_the_most_generous_policy(
    make_world: Any,  # the class World
    plans: list[Configuration],
    waits: list[float],
    replies: list[tuple[str, float]],
) -> None:
    def check(world: Any) -> None:  # a World
        assert_all_is_well(world)
        for times in times_by_scope(world.evicted):
            assert_never_faster(times, plans)

    steps = zip(waits, plans[1:], strict=False)
    story = [step for wait, plan in steps for step in (("wait", wait), ("reconfigure", plan))]
    live(make_world(plans[0], replies), story, check)


@pytest.mark.parametrize("wait_s", [0.0, 0.2, 1.0, 5.0])
@pytest.mark.parametrize("reply", ["accepted", "lost before", "lost after", "denied"])
def test_a_request_under_way_at_a_reload_ends_and_no_pod_is_asked_for_twice(
    make_world: Any,  # the class World
    reply: str,
    wait_s: float,
) -> None:
    plan = make_plan((taints(),), {}, EVERYTHING, TokenRate(10, 50), 50, DebounceConfig(0, 0))
    story = [("wait", 0.1 + wait_s), ("reconfigure", plan), ("wait", 60)]

    def check(world: Any) -> None:  # a World
        assert_all_is_well(world)
        assert sorted(gone.name for _, gone in world.evicted) == ["p1", "p2", "p3", "p4", "p5"]

    live(make_world(plan, [(reply, 3.0)] * 5), story, check)


def test_a_pod_that_was_evicted_a_moment_ago_and_still_looks_untouched_is_left_alone(
    make_world: Any,  # the class World
) -> None:
    plan = make_plan((taints(),), {}, EVERYTHING, TokenRate(10, 50), 50, DebounceConfig(0, 0))
    moments = [("wait", 0.05), ("reconfigure", plan)]  # the watch tells after 0.2 s

    def check(world: Any) -> None:  # a World
        assert_all_is_well(world)
        assert len(world.evicted) == 5

    live(make_world(plan, []), moments * 4, check)
