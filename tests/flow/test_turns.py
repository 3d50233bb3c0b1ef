"""The turn that is said of a pod that waits for rate limits, beside when it is really evicted."""

import random
import re
from collections.abc import Iterable, Mapping, Sequence

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.controller.pending import (
    PendingContext,
    PendingQuery,
    list_pending,
)
from reactive_desched.controller.turn_forecast import findings_with_turns
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.gate.turns import Turn
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Defer
from reactive_desched.model.objects import Pod, StatefulSet
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.policy.settings.limits import WarmUpSettings
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.testing.builders import condition, node, pod, pod_status
from tests.flow.test_brakes import tainted
from tests.support.configurations import UNGUARDED, UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio

LIMITS = {
    "cluster": TokenRate(1 / 2, 10),
    "zone": TokenRate(1 / 3, 7),
    "node": TokenRate(1 / 10, 3),
    "namespace": TokenRate(1 / 5, 5),
    "owner": TokenRate(1 / 10, 2),
    "plugin": TokenRate(1 / 3, 7),
}
IN_ORDER = UNGUARDED.model_copy(
    update={"disabled": tuple(each for each in GuardName if each != GuardName.STATEFUL_SET_ORDER)}
)
PLUGIN = {"plugin": TokenRate(1 / 3, 7)}
UNREADY = pod_status(conditions=[condition("Ready=False")])


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def spread(pods: int, nodes: int, namespaces: str, owners: int = 30) -> list[Pod]:
    """Make pods of random nodes, namespaces and owners, the same ones in each run."""
    draw = random.Random(1)
    found = []
    for number in range(pods):
        namespace, on = draw.choice(namespaces), f"n{draw.randrange(nodes)}"
        owner = f"ReplicaSet/{namespace}-{draw.randrange(owners)}"
        found.append(pod(f"p{number}", on=on, namespace=namespace, owner=owner))
    return found


def of_node(name: str, pods: int) -> list[Pod]:
    """Make pods of one node, each of an owner of its own."""
    return [
        pod(f"{name}-{number}", on=name, namespace=name, owner=f"ReplicaSet/{name}-{number}")
        for number in range(pods)
    ]


class Watched:
    """A controller whose evicted pods are gone at once; `evicted_at` has when each was evicted."""

    def __init__(
        self,
        rates: Mapping[str, TokenRate | None],
        pods: Sequence[Pod],
        sets: Sequence[StatefulSet] = (),
    ) -> None:
        guards = IN_ORDER if sets else UNGUARDED
        self.flow = FakeEdgesController(
            NodeTaintsPlugin(NodeTaintsArgs()), rates=rates, guards=guards
        )
        self._sets = sets
        # what is not Ready may leave though no replacement comes
        self._pods = {each.name: replace(each, status=UNREADY) for each in pods}
        self._nodes = [node(name) for name in sorted({each.node for each in pods})]
        self.evicted_at: dict[str, float] = {}
        self._all_gone = anyio.Event()

    async def run(
        self, looks_s: Iterable[float], warm_up: WarmUpSettings | None = None
    ) -> dict[float, dict[str, Turn]]:
        """Taint all nodes at once; return the turns that are said after so many seconds."""
        said: dict[float, dict[str, Turn]] = {}
        async with self.flow.running() as flow, anyio.create_task_group() as tasks:
            flow.sync_and_resume(*self._sets, *self._nodes, *self._pods.values())
            await anyio.sleep(1)
            limiter = flow.controller.gates.rate_limiter
            if warm_up is not None:
                limiter._warm_up = warm_up
                limiter.begin_warm_up(anyio.current_time())
            tasks.start_soon(self._remove_evicted)
            begin = anyio.current_time()
            flow.deliver(*map(tainted, self._nodes))
            for look_s in looks_s:
                await anyio.sleep_until(begin + look_s)
                found = at_once(findings_with_turns(flow.controller, anyio.current_time()))
                said[look_s] = {
                    each.decision.finding.pod.name: each.turn
                    for each in found
                    if each.turn is not None
                }
            await self._all_gone.wait()
            tasks.cancel_scope.cancel()
        return said

    async def _remove_evicted(self) -> None:
        done = 0
        while True:
            await self.flow.evictor.called.wait()
            await anyio.sleep(0.01)
            for name, at in self.flow.evictor.calls[done:]:
                self.evicted_at[name] = at
                self.flow.delete(self._pods[name])
            done = len(self.flow.evictor.calls)
            if len(self.evicted_at) == len(self._pods):
                self._all_gone.set()

    def errors(self, turns: Mapping[str, Turn]) -> list[float]:
        """Return by how many seconds what was said differs from what came, in order."""
        return sorted(abs(turn.at - self.evicted_at[name]) for name, turn in turns.items())


@pytest.mark.parametrize(
    ("rates", "warm_up"),
    [
        pytest.param(PLUGIN, None, id="one limit"),
        pytest.param(LIMITS, None, id="six limits at once"),
        pytest.param(PLUGIN, WarmUpSettings(duration_s=600, from_percent=20), id="a warm-up"),
    ],
)
async def test_what_a_decision_says_as_it_is_made_is_what_each_answer_says_of_it(
    rates: Mapping[str, TokenRate], warm_up: WarmUpSettings | None
) -> None:
    pods = spread(60, 20, "abcde")
    watched = Watched(rates, pods)
    async with watched.flow.running() as flow:
        nodes = [node(name) for name in sorted({each.node for each in pods})]
        flow.sync_and_resume(*nodes, *pods)
        await anyio.sleep(1)
        if warm_up is not None:
            flow.controller.gates.rate_limiter._warm_up = warm_up
            flow.controller.gates.rate_limiter.begin_warm_up(anyio.current_time())
        flow.deliver(*map(tainted, nodes))
        await anyio.sleep(1.5)  # all are judged, and none a second time
        now = anyio.current_time()
        found = at_once(findings_with_turns(flow.controller, now))
        said = {each.decision.finding.pod.name: each for each in found if each.turn is not None}

    assert len(said) > len(pods) / 2
    for each in said.values():
        assert each.turn is not None
        at_first, now_said = each.decision.says(now), each.message(now)
        if limit_in(at_first) == limit_in(now_said):  # of two it may be the one or the other
            assert abs(place_in(at_first) - each.turn.place) <= 1, (at_first, now_said)
        else:
            assert len(rates) > 1


def place_in(message: str) -> int:
    """Return the place that a message of a decision says."""
    found = re.match(r"(\d+)(?:st|nd|rd|th)\b", message)
    assert found is not None, message
    return int(found[1])


def limit_in(message: str) -> str:
    """Return the limit that a message names."""
    return message.split(" in the queue of the ", 1)[1].split(":", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("rates", "pods", "warm_up", "mean_s", "worst_s"),
    [
        pytest.param(PLUGIN, spread(235, 20, "a"), None, 0.1, 0.2, id="one limit"),
        pytest.param(LIMITS, spread(235, 20, "abcde"), None, 8, 30, id="six limits at once"),
        pytest.param(
            LIMITS,
            [*of_node("n0", 100), *spread(60, 8, "xy")],
            None,
            *(5, 30),
            id="a node with far more pods than others",
        ),
        pytest.param(
            LIMITS, spread(120, 8, "x", owners=1), None, 1, 15, id="one owner has all of them"
        ),
        pytest.param(
            {"cluster": TokenRate(2, 5), "node": TokenRate(1, 1)},
            spread(300, 6, "a"),
            None,
            *(1, 10),
            id="fast rates",
        ),
        pytest.param(
            {"cluster": TokenRate(1 / 60, 1)}, spread(20, 3, "a"), None, 0.1, 0.2, id="a slow rate"
        ),
        pytest.param(
            LIMITS,
            spread(235, 20, "abcde"),
            WarmUpSettings(duration_s=300, from_percent=20),
            *(12, 120),
            id="six limits that warm up",
        ),
        pytest.param(
            PLUGIN,
            spread(235, 20, "a"),
            WarmUpSettings(duration_s=300, from_percent=20),
            *(6, 12),
            id="one limit that warms up",
        ),
    ],
)
async def test_a_pod_is_evicted_when_its_turn_was_said_to_be(
    rates: Mapping[str, TokenRate | None],
    pods: Sequence[Pod],
    warm_up: WarmUpSettings | None,
    mean_s: float,
    worst_s: float,
) -> None:
    watched = Watched(rates, pods)

    said = await watched.run((1, 30, 120), warm_up)

    assert set(watched.evicted_at) == {each.name for each in pods}
    for turns in said.values():
        errors = watched.errors(turns)
        assert sum(errors) / len(errors) <= mean_s
        assert errors[-1] <= worst_s


async def test_what_is_recorded_at_the_first_refusal_is_true() -> None:
    watched = Watched(LIMITS, spread(120, 10, "abc"))
    await watched.run(())

    first: dict[str, tuple[float, str]] = {}
    for each in watched.flow.observer.evaluations:
        decision = each.decision
        if isinstance(decision, Defer) and decision.gate == "EvictionRateLimit":
            name = decision.finding.pod.name
            first.setdefault(name, (each.decided_at, decision.says(each.decided_at)))

    assert first
    for name, (at, message) in first.items():
        words = message.split(": about ")[1].split(" at ")[0].split()
        said_s = sum(int(word[:-1]) * {"m": 60, "s": 1}[word[-1]] for word in words)
        assert abs(at + said_s - watched.evicted_at[name]) <= 30, message


async def test_places_are_those_in_which_pods_leave() -> None:
    watched = Watched(PLUGIN, spread(50, 5, "a"))

    [turns] = (await watched.run((1,))).values()

    by_place = sorted(turns, key=lambda name: turns[name].place)
    assert [turns[name].place for name in by_place] == list(range(1, len(turns) + 1))
    assert {turns[name].of for name in by_place} == {len(turns)}
    assert by_place == sorted(turns, key=watched.evicted_at.__getitem__)


async def test_no_pod_is_overtaken_for_long_by_those_that_came_later() -> None:
    early, late = of_node("n0", 40), spread(60, 5, "xy")
    watched = Watched(LIMITS, [*early, *late])

    await watched.run(())

    order = [watched.evicted_at[each.name] for each in early]
    assert order == sorted(order)
    assert order[-1] <= 400  # at the node's six a minute


async def test_those_who_came_first_with_many_pods_hold_up_other_namespaces_no_longer() -> None:
    rates = {"cluster": TokenRate(1 / 2, 10), "namespace": TokenRate(1 / 5, 5)}
    flow = FakeEdgesController(
        NodeTaintsPlugin(NodeTaintsArgs()), rates=rates, moves=UNLIMITED_MOVES
    )
    many = [
        pod(f"t{n}", on="n1", namespace=f"t{n % 4}", owner=f"ReplicaSet/{n}") for n in range(800)
    ]
    few = [pod(f"s{n}", on="n1", namespace="shop", owner=f"ReplicaSet/s{n}") for n in range(10)]
    async with flow.running():
        flow.sync_and_resume(tainted(node("n1")), node("n2"), *many)
        await anyio.sleep(60)
        flow.deliver(*few)
        await anyio.sleep(7 * 60)

        evicted = flow.evicted_names
        assert {each.name for each in few} <= set(evicted)
        assert len(evicted) < len(many) / 2


async def test_limits_that_are_not_full_do_not_hold_up_pods_of_other_nodes() -> None:
    watched = Watched(LIMITS, [*of_node("n0", 60), *of_node("n1", 5)])

    await watched.run(())

    others = [at for name, at in watched.evicted_at.items() if name.startswith("n1")]
    assert max(others) <= 40


@pytest.mark.parametrize("hold", ["a person", "a watch"])
async def test_while_something_holds_everything_a_turn_is_a_time_at_the_earliest(hold: str) -> None:
    flow = FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), rates=PLUGIN)
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), *of_node("n1", 20))
        await anyio.sleep(1)
        flow.deliver(tainted(node("n1")))
        await anyio.sleep(1)
        if hold == "a person":
            flow.controller.pauses.pause("ann", "", None)
        else:
            flow.readiness.pause_sync("a watch is down")
        await anyio.sleep(600)
        now = anyio.current_time()
        found = at_once(findings_with_turns(flow.controller, now))
        listed = at_once(list_pending(found, PendingQuery(), PendingContext(), ClockPair(now, now)))

    turns = [row.turn for row in listed.findings if row.turn is not None]
    assert turns
    assert all(turn.is_least and turn.seconds >= 0 for turn in turns)
    assert all(": at least " in row.message for row in listed.findings if row.turn is not None)


async def test_findings_of_one_limit_are_one_group_that_says_when_the_last_leaves() -> None:
    flow = FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), rates=PLUGIN)
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), *of_node("n1", 27))
        await anyio.sleep(1)
        flow.deliver(tainted(node("n1")))
        await anyio.sleep(1)
        listed = await flow.pipeline.description.pending(PendingQuery())

    [group] = [each for each in listed.reasons if each.gate == "EvictionRateLimit"]
    assert (group.findings, group.setting) == (20, "budgets.plugin")
    assert group.last_turn is not None
    assert group.next_turn is not None
    assert 55 <= (group.last_turn - group.next_turn).total_seconds() <= 59
    assert listed.by_setting == {"budgets.plugin": 20}
    assert (listed.total, listed.kept) == (20, 0)


async def test_pods_of_a_stateful_set_keep_the_place_at_which_they_came() -> None:
    sets = [StatefulSet("default", name, f"owner-{name}", replicas=3) for name in ("db", "mq")]
    members = [
        pod(f"{each.name}-{ordinal}", on="n1", owner=f"StatefulSet/{each.name}")
        for each in sets
        for ordinal in range(3)
    ]
    watched = Watched(PLUGIN, [*members, *of_node("n2", 120)], sets)
    await watched.run([])

    left = sorted(watched.evicted_at, key=watched.evicted_at.__getitem__)
    places = {name: left.index(name) for name in left if not name.startswith("n2")}
    for name in ("db", "mq"):
        assert places[f"{name}-2"] < places[f"{name}-1"] < places[f"{name}-0"]
    assert max(places.values()) < len(left) // 2
