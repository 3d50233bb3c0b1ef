"""Pods that exclude each other, through the whole pipeline: one goes, and only then all is said."""

from typing import Any

import anyio
import msgspec
import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import ClusterObject, Pod, PodDisruptionBudget
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import Denied, PdbRefused
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.policy.configuration import Configuration
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.testing.anti_affinity import anti_affinity_term, with_anti_affinity
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import make_configuration, make_profile_of
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def web(name: str, priority: int | None = None, **more: Any) -> Pod:  # any part of a pod
    """Build a pod on n1 that must not share its node with another of its kind."""
    made = pod(name, on="n1", labels={"app": "web"}, priority=priority, **more)
    return with_anti_affinity(made, anti_affinity_term("app=web"))


def flow(**settings: Any) -> FakeEdgesController:  # any setting of a flow
    return FakeEdgesController(InterPodAntiAffinityPlugin(InterPodAntiAffinityArgs()), **settings)


LOW, HIGH = web("low", 1), web("high", 2)
NODES = node("n1"), node("n2")


async def test_of_two_that_exclude_each_other_the_less_important_goes_and_the_other_stays() -> None:
    async with flow().running() as running:
        running.sync_and_resume(*NODES, HIGH, LOW)
        await anyio.sleep(1)
        assert running.evicted_names == ["low"]
        assert running.controller.evaluator.queue.blocked_by_gate == {"ConflictPartners": 1}

        running.terminate(LOW)
        await anyio.sleep(600)
        assert running.evicted_names == ["low"]
        running.delete(LOW)
        await anyio.sleep(600)

    assert running.evicted_names == ["low"]
    assert running.controller.evaluator.queue.blocked_by_gate == {}


@pytest.mark.parametrize("first", [LOW, HIGH], ids=["less", "more"])
async def test_the_less_important_goes_whichever_landed_first(first: Pod) -> None:
    [second] = {LOW.name: LOW, HIGH.name: HIGH}.keys() - {first.name}
    async with flow(debounce=DebounceConfig(1, 10)).running() as running:
        running.sync_and_resume(*NODES, first)
        await anyio.sleep(5)
        running.deliver(LOW if second == "low" else HIGH)
        await anyio.sleep(60)

    assert running.evicted_names == ["low"]


async def test_if_one_cannot_be_evicted_the_other_is() -> None:
    async with flow().running() as running:
        running.evictor.script["low"] = [Denied(403, "no")] * 1000
        running.sync_and_resume(*NODES, HIGH, LOW)
        await anyio.sleep(1)

        assert running.evicted_names == ["low", "high"]
        running.terminate(HIGH)
        await anyio.sleep(3600)

    assert running.evicted_names == ["low", "high"]


async def test_one_that_a_budget_keeps_lets_the_other_go() -> None:
    both = PodDisruptionBudget("default", "web", selector=LabelSelector(), disruptions_allowed=2)
    async with flow().running() as running:
        running.evictor.script["low"] = [PdbRefused("needs 1 healthy pod and has 1")]
        running.sync_and_resume(*NODES, HIGH, LOW, both)
        await anyio.sleep(1)

    assert running.evicted_names == ["low", "high"]


async def test_one_that_nothing_may_evict_lets_the_other_go() -> None:
    bare = web("low", 1, owner=None)
    async with flow().running() as running:
        running.sync_and_resume(*NODES, HIGH, bare)
        await anyio.sleep(60)

    assert running.evicted_names == ["high"]


async def test_of_three_two_go_however_slowly() -> None:
    third = web("third", 3)
    async with flow(rates={"cluster": TokenRate(0.1, 1)}).running() as running:
        running.sync_and_resume(*NODES, third, HIGH, LOW)
        await anyio.sleep(1)
        running.terminate(LOW)
        await anyio.sleep(30)
        running.terminate(HIGH)
        await anyio.sleep(600)
        assert running.evicted_names == ["low", "high"]
        running.delete(LOW)
        await anyio.sleep(600)
        running.delete(HIGH)
        await anyio.sleep(600)

    assert running.evicted_names == ["low", "high"]


async def test_a_replacement_that_lands_there_again_is_the_next_to_be_judged() -> None:
    async with flow().running() as running:
        running.sync_and_resume(*NODES, HIGH, LOW)
        await anyio.sleep(1)
        running.delete(LOW)
        running.deliver(web("again", 1))
        await anyio.sleep(60)

    assert running.evicted_names == ["low", "again"]


async def test_a_conflict_that_time_resolves_before_it_is_judged_evicts_no_pod() -> None:
    async with flow(debounce=DebounceConfig(1, 10)).running() as running:
        running.sync_and_resume(*NODES, HIGH)
        await anyio.sleep(5)
        running.deliver(LOW)
        await anyio.sleep(0.5)
        running.delete(LOW)
        await anyio.sleep(60)

    assert running.evicted_names == []


# --- whatever happens: every eviction leaves one, and in the end none has to go ---

PLUGIN = InterPodAntiAffinityPlugin(InterPodAntiAffinityArgs())
BY_POOL = anti_affinity_term("app=web", "pool")


def plan(pause: DebounceConfig, rate: TokenRate | None) -> Configuration:
    return make_configuration(
        (make_profile_of("one", (PLUGIN,)),),
        rates={"cluster": rate},
        debounce=pause,
    )


class PartnerCheck(Observer):
    """Checks that one of the pods that an evicted pod excludes stays."""

    def __init__(self, world: Any, watcher: Observer) -> None:  # an Excluding
        self.world = world
        self.watcher = watcher

    def on_decision(self, evaluation: Evaluation) -> None:
        self.watcher.on_decision(evaluation)
        if isinstance(evaluation.decision, Evict):
            assert any(map(self.world.stays, evaluation.finding.conflicts_with))


def made_of(world: Any) -> Any:  # the class World
    """Make the class of worlds in which all pods exclude each other, by node or by pool."""

    class Excluding(world):  # type: ignore[misc]  # the class is only known when the tests run
        def put(self, thing: ClusterObject) -> None:
            if isinstance(thing, Pod):
                thing = with_anti_affinity(
                    thing, BY_POOL if thing.name > "p3" else anti_affinity_term("app=web")
                )
                thing = msgspec.structs.replace(thing, labels={"app": "web"})
            super().put(thing)

        def observer(self) -> Observer:
            return PartnerCheck(self, super().observer())

        def stays(self, uid: str) -> bool:
            other = self.core.view.pod(uid)
            return (
                other is not None
                and not other.is_terminating
                and not self.core.gates.in_flight.is_evicting(uid)
            )

    return Excluding


names = st.sampled_from(["p1", "p2", "p3", "p4", "p5"])
landings = st.tuples(
    st.just("pod"),
    names,
    st.fixed_dictionaries(
        {"on": st.sampled_from(["n1", "n1", "n2", "n3"]), "priority": st.sampled_from([None, 1, 2])}
    ),
)
steps = st.one_of(
    landings,
    landings,
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.1, 0.3, 2.0, 6.0, 40.0])),
    st.tuples(st.just("drop"), st.just("pods"), names),
    st.tuples(st.just("terminate"), names),
    st.tuples(
        st.just("node"),
        st.sampled_from(["n1", "n2", "n3"]),
        st.fixed_dictionaries(
            {
                "labels": st.sampled_from([{"pool": "a"}, {"pool": "b"}, {}]),
                "ready": st.sampled_from(["True", "True", "False"]),
            }
        ),
    ),
)
replies = st.lists(
    st.tuples(
        st.sampled_from(
            ["accepted", "lost before", "lost after", "overloaded", "denied", "failed"]
        ),
        st.sampled_from([0.0, 0.7, 30.0]),
    ),
    max_size=8,
)


@given(
    plan=st.builds(
        plan,
        st.sampled_from([DebounceConfig(0, 0), DebounceConfig(0.5, 2)]),
        st.sampled_from([None, None, TokenRate(0.1, 1)]),
    ),
    story=st.lists(steps, min_size=3, max_size=20),
    replies=replies,
)
def test_every_eviction_leaves_one_and_in_the_end_none_has_to_go(
    make_world: Any,  # the class World
    plan: Configuration,
    story: list[tuple[Any, ...]],
    replies: list[tuple[str, float]],
) -> None:
    async def until_calm() -> None:
        world = made_of(make_world)(plan, replies)
        await world.live([], story)

        assert world.known() == world.truth
        assert world.disk.outcomes.keys() == world.disk.intents.keys()
        assert world.allowed_afresh() == set()
        assert world.waiting() == world.flagged_afresh()

    clock = trio.testing.MockClock(autojump_threshold=0)
    anyio.run(until_calm, backend="trio", backend_options={"clock": clock})
