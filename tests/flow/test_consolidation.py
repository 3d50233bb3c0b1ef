"""Sets of moves: a node's pods leave together, under its taint, or none of them does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.api.event import ConsolidationBegun, ConsolidationEnded
from reactive_desched.app.consolidation import Consolidation
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.controller.consolidation import (
    PLANNED_FOR_S,
    RETRY_S,
    STUCK_AFTER_S,
    SetTaints,
)
from reactive_desched.errors import RequestRejected
from reactive_desched.gate import move_sets
from reactive_desched.gate.approval import proposal_id
from reactive_desched.gate.move_sets import MoveSets, NoSets
from reactive_desched.model.approvals import ProposalAnswer
from reactive_desched.model.consolidation import (
    EMPTY,
    EMPTYING,
    PLANNED,
    consolidating_taint,
    consolidation_of,
)
from reactive_desched.model.findings import Finding, MoveSet
from reactive_desched.model.modes import ACT, OBSERVE, PROPOSE, Mode
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.objects import HOSTNAME_LABEL, Annotations, Node, Pod
from reactive_desched.model.outcomes import DryRun
from reactive_desched.model.taints import Taint
from reactive_desched.plugins.consolidate_nodes import (
    ConsolidateNodesArgs,
    ConsolidateNodesPlugin,
)
from reactive_desched.plugins.custom_priority import CustomPriorityArgs, CustomPriorityPlugin
from reactive_desched.plugins.keep_nodes_free import KeepNodesFreeArgs, KeepNodesFreePlugin
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.recording.items import Instant, Item, TaintRefused
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.configurations import (
    UNLIMITED_MOVES,
    make_configuration,
    make_profile_of,
)
from tests.support.flow import FakeEdgesController
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio

HELD = Annotations(do_not_evict="true")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def small(name: str, value: str = "", cpu: str = "4") -> Node:
    made = node(name, allocatable={"cpu": cpu, "memory": "8Gi", "pods": "20"})
    return replace(made, taints=(consolidating_taint(value),)) if value else made


def web(name: str, on: str | None, cpu: str = "500m", **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, "memory": "256Mi"}, **more)


class Consolidating(FakeEdgesController):
    """A controller whose taints come back as the watch would bring them."""

    def __init__(self, *plugins: Any, mode: Mode = ACT, **parts: Any) -> None:
        args = ConsolidateNodesArgs.model_validate({"headroom": {}})
        chosen = plugins or (ConsolidateNodesPlugin(args),)
        super().__init__(*chosen, **{"moves": UNLIMITED_MOVES, **parts})
        self.act_as(mode)
        self.writes: list[tuple[str, str | None]] = []
        self.refusal: RequestRejected | None = None
        self.log, self.notes = RecordingLogger(), InputNotes()
        self.consolidation = Consolidation(
            self.pipeline,
            self.intent_store,
            None if parts.get("dry_run") else self._write,
            self.log,
            self.notes,
        )

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Run the controller, and what writes taints, while the block lasts."""
        async with self.running(), anyio.create_task_group() as group:
            group.start_soon(self.consolidation.run)
            await anyio.sleep(10)
            yield
            group.cancel_scope.cancel()

    def node(self, name: str) -> Node:
        info = self.controller.view.node_info(name)
        assert info is not None
        assert info.node is not None
        return info.node

    async def _write(self, node: Node, key: str, taint: Taint | None) -> None:
        assert key == CONSOLIDATING
        self.writes.append((node.name, None if taint is None else taint.value))
        if self.refusal is not None:
            raise self.refusal
        await anyio.lowlevel.checkpoint()
        before = self.node(node.name)
        kept = tuple(each for each in before.taints if each.key != key)
        taints = kept if taint is None else (*kept, taint)
        version = before.resource_version + 1
        self.deliver(replace(before, taints=taints, resource_version=version))

    async def land(self, gone: Pod, on: str) -> Pod:
        """Let an evicted pod end, and its replacement be bound."""
        self.delete(gone)
        other = replace(gone, name=f"{gone.name}x", uid=f"{gone.uid}x", node="")
        self.deliver(other)
        other = replace(other, node=on, resource_version=9)
        self.deliver(other)
        await anyio.sleep(1)
        return other

    def approve(self, name: str) -> None:
        """Approve what is proposed of a pod, as a person would."""
        ids = [
            proposal_id(each.profile, each.decision.finding)
            for each in self.controller.evaluator.queue.pending()
            if each.decision.finding.pod.name == name
        ]
        answer = ProposalAnswer(approves=True, by="ada", reason="", for_s=3600.0)
        self.controller.answer_proposals(ids, answer)
        self.pipeline.worker.wake()

    @property
    def results(self) -> list[str]:
        """Say what became of sets, by the events."""
        return [
            "begun" if isinstance(each, ConsolidationBegun) else each.result
            for each in self.intent_store.events
            if isinstance(each, ConsolidationBegun | ConsolidationEnded)
        ]


A, B = web("a", "n1"), web("b", "n1")
C = web("c", "n2", "2", owner=None)  # nothing would make it anew: n2 is not emptied
NODES = small("n1"), small("n2")


async def test_a_place_that_is_kept_for_no_one_ends_and_another_node_is_emptied() -> None:
    """The pods of n1 and n3 fit on n2 alone, which has room for one of them at a time."""
    a, b = web("a", "n1", "1"), web("b", "n3", "1")
    controller = Consolidating()
    nodes = small("n1", cpu="1"), small("n2"), small("n3", cpu="1")
    controller.sync_and_resume(*nodes, a, b, web("kept", "n2", "2500m", owner=None))
    async with controller.following():
        [first] = controller.evicted_names
        controller.delete(a if first == "a" else b)
        await anyio.sleep(60)
        assert controller.evicted_names == [first]
        await anyio.sleep(240)

    assert {*controller.evicted_names} == {"a", "b"}


def by_levels(**more: Any) -> CustomPriorityPlugin:
    levels = [
        {"name": name, "nodeSelector": {"matchLabels": {HOSTNAME_LABEL: name}}}
        for name in ("n1", "n2")
    ]
    given = {"evictionOrder": levels, "mode": "DrainNode", "autoCordon": True, **more}
    return plugin_from_policy(CustomPriorityPlugin, CustomPriorityArgs, **given)


async def test_a_dear_node_that_is_closed_has_its_taint_while_its_pods_leave() -> None:
    controller = Consolidating(by_levels())
    controller.evictor.slow_s = 0.1
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        assert controller.writes == [("n1", EMPTYING)]
        assert sorted(controller.evicted_names) == ["a", "b"]
        await controller.land(A, "n2")
        await controller.land(B, "n2")
        await anyio.sleep(120)

    assert controller.writes == [("n1", EMPTYING), ("n1", EMPTY)]


async def test_a_dear_node_of_which_one_pod_is_kept_gives_none_and_is_not_closed() -> None:
    controller = Consolidating(by_levels(), guards=GuardSettings())
    controller.sync_and_resume(*NODES, A, replace(B, annotations=HELD), C)
    async with controller.following():
        await anyio.sleep(60)

    assert (controller.evicted_names, controller.writes) == ([], [])


async def test_a_set_whose_taint_a_person_takes_off_ends_before_its_next_request() -> None:
    rests = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 600.0})
    controller = Consolidating(max_concurrent=1, moves=rests)
    controller.evictor.slow_s = 1.0
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.running(), anyio.create_task_group() as group:
        group.start_soon(controller.consolidation.run)
        await controller.evictor.called.wait()
        closed = controller.node("n1")
        controller.deliver(replace(closed, taints=(), resource_version=99))
        await anyio.sleep(60)
        assert len(controller.evicted_names) == 1
        group.cancel_scope.cancel()


async def test_a_taint_is_taken_off_where_no_plugin_closes_nodes_any_more() -> None:
    controller = Consolidating(by_levels(autoCordon=False))
    controller.sync_and_resume(small("n1", EMPTYING), small("n2", cpu="1"), A, B, C)
    async with controller.following():
        pass

    assert controller.writes == [("n1", None)]


async def test_the_node_has_its_taint_before_the_first_pod_leaves_and_keeps_it_when_empty() -> None:
    controller = Consolidating()
    controller.evictor.slow_s = 0.1
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        assert controller.writes == [("n1", EMPTYING)]
        assert sorted(controller.evicted_names) == ["a", "b"]
        await controller.land(A, "n2")
        assert controller.results == ["begun"]
        await controller.land(B, "n2")
        await anyio.sleep(120)

    assert controller.writes == [("n1", EMPTYING), ("n1", EMPTY)]
    assert controller.results == ["begun", "empty"]
    assert sorted(controller.evicted_names) == ["a", "b"]  # a second look finds nothing


async def test_what_a_guard_keeps_is_found_before_the_first_pod_leaves() -> None:
    held = replace(web("held", "n1", "100m"), annotations=HELD)
    controller = Consolidating(guards=GuardSettings())
    controller.sync_and_resume(*NODES, A, B, held, C)
    async with controller.following():
        await anyio.sleep(900)  # they are old enough then
        assert controller.writes == []
        assert controller.evicted_names == []
        assert controller.blocking() == {
            "a": "SetIncomplete",
            "b": "SetIncomplete",
            "held": "DoNotEvict",
        }
        controller.deliver(replace(held, annotations=Annotations(), resource_version=9))
        await anyio.sleep(15)

    assert controller.writes == [("n1", EMPTYING)]
    assert sorted(controller.evicted_names) == ["a", "b", "held"]


async def test_pods_that_only_wait_for_their_turn_do_not_hold_the_set() -> None:
    rates = {"node": TokenRate(per_second=1 / 60, burst=1)}
    controller = Consolidating(rates=rates)
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        assert controller.writes == [("n1", EMPTYING)]
        assert len(controller.evicted_names) == 1
        await controller.land(A if controller.evicted_names == ["a"] else B, "n2")
        await anyio.sleep(90)

    assert sorted(controller.evicted_names) == ["a", "b"]


async def test_a_pod_behind_a_spent_rate_does_not_keep_the_others_of_its_set() -> None:
    rates = {"namespace": TokenRate(per_second=1 / 600, burst=1)}
    controller = Consolidating(rates=rates)
    waits, other = web("waits", "n3"), web("other", "n3", namespace="shop")
    controller.sync_and_resume(*NODES, small("n3"), A, C, waits, other)
    async with controller.following():
        assert controller.evicted_names == ["a"]
        await controller.land(A, "n2")
        await anyio.sleep(30)
        assert controller.evicted_names == ["a", "other"]
        await controller.land(other, "n2")
        assert controller.node("n3").taints == (consolidating_taint(EMPTYING),)
        await anyio.sleep(600)

    assert controller.evicted_names == ["a", "other", "waits"]


async def test_one_node_is_emptied_after_the_other() -> None:
    controller = Consolidating()
    d = web("d", "n3", "1")
    controller.sync_and_resume(*NODES, small("n3"), A, C, d)
    async with controller.following():
        assert controller.writes == [("n3", PLANNED), ("n1", EMPTYING)]
        assert controller.evicted_names == ["a"]
        await controller.land(A, "n2")
        await anyio.sleep(15)
        assert controller.writes[2:] == [("n1", EMPTY), ("n3", EMPTYING)]
        await controller.land(d, "n2")
        await anyio.sleep(120)

    assert controller.evicted_names == ["a", "d"]
    assert controller.results == ["begun", "empty", "begun", "empty"]


async def test_a_node_that_was_to_be_the_next_and_is_not_loses_the_taint_and_does_not_rest() -> (
    None
):
    rests = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 3000.0})
    controller = Consolidating(moves=rests)
    d = web("d", "n3", "1")
    controller.sync_and_resume(*NODES, small("n3"), A, C, d)
    async with controller.following():
        assert controller.writes == [("n3", PLANNED), ("n1", EMPTYING)]
        controller.deliver(replace(d, owners=(), resource_version=9))
        await controller.land(A, "n2")
        await anyio.sleep(PLANNED_FOR_S + 30)
        assert controller.writes[2:] == [("n1", EMPTY), ("n3", None)]
        controller.deliver(replace(d, resource_version=10))
        await anyio.sleep(30)

    assert controller.writes[4:] == [("n3", EMPTYING)]
    assert controller.results == ["begun", "empty", "begun"]


async def test_a_node_that_was_to_be_the_next_and_is_empty_by_then_is_marked_so() -> None:
    controller = Consolidating()
    d = web("d", "n3", "1")
    controller.sync_and_resume(*NODES, small("n3"), A, C, d)
    async with controller.following():
        controller.delete(d)
        await anyio.sleep(5)

    assert controller.writes == [("n3", PLANNED), ("n1", EMPTYING), ("n3", EMPTY)]
    assert controller.results == ["begun"]


async def test_no_taint_is_written_before_all_sets_of_the_plan_were_decided_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first pod would leave before the nodes are closed that come after its own."""
    controller, seen = Consolidating(), list[set[str]]()
    d = web("d", "n3", "1")
    taints = SetTaints(controller.controller)
    decide = MoveSets.check

    def look_after(*args: Any, **kwargs: Any) -> Any:
        decision = decide(*args, **kwargs)
        writes = taints.look((), frozenset(), anyio.current_time)
        seen.append({each.node.name for each in writes if each is not None})
        return decision

    monkeypatch.setattr(MoveSets, "check", look_after)
    controller.sync_and_resume(*NODES, small("n3"), A, C, d)
    async with controller.following():
        assert controller.writes == [("n3", PLANNED), ("n1", EMPTYING)]

    assert set().union(*seen) == set()


async def test_of_the_nodes_that_follow_a_limited_number_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(move_sets, "MAX_PLANNED", 2)
    controller = Consolidating()
    more = [web(f"p{number}", f"m{number}") for number in range(4)]
    names = map(small, ("n1", "n2", *(f"m{number}" for number in range(4))))
    controller.sync_and_resume(*names, A, C, *more)
    async with controller.following():
        await anyio.sleep(30)

    assert [value for _, value in controller.writes].count(PLANNED) == 2


async def test_what_an_earlier_process_planned_ends_where_no_set_goes_on() -> None:
    controller = Consolidating()
    kept = web("kept", "n1", owner=None)  # n1 is not emptied any more
    controller.sync_and_resume(small("n1", PLANNED), NODES[1], kept, C)
    async with controller.following():
        await anyio.sleep(PLANNED_FOR_S + 10)

    assert controller.writes == [("n1", None)]


async def test_a_node_that_took_a_pod_of_a_set_is_not_the_next_to_be_emptied() -> None:
    controller = Consolidating(
        moves=MoveSettings(max_moving=UNLIMITED_MOVES.max_moving, cooldown_s=0)
    )
    d = web("d", "n3", "600m")
    controller.sync_and_resume(*NODES, small("n3"), A, C, d)
    async with controller.following():
        assert controller.evicted_names == ["a"]
        await controller.land(A, "n3")  # as a scheduler may, though the plan has n2
        await anyio.sleep(80)
        assert controller.writes == [("n3", PLANNED), ("n1", EMPTYING), ("n1", EMPTY)]
        assert list(controller.controller.gates.memory.rows(anyio.current_time())) == []
        await anyio.sleep(30)
        assert controller.writes[3:] == [("n3", EMPTYING)]

    assert sorted(controller.evicted_names[1:]) == ["ax", "d"]


async def test_nodes_that_are_empty_already_have_the_taint_before_a_set_begins() -> None:
    controller = Consolidating()
    controller.sync_and_resume(*NODES, small("n0"), A, B, C)
    async with controller.following():
        assert controller.writes == [("n0", EMPTY), ("n1", EMPTYING)]
        controller.deliver(web("late", "n0"))
        await anyio.sleep(2)

    assert controller.writes[2:] == [("n0", None)]


async def test_a_dry_run_writes_no_taint_and_shows_the_whole_set() -> None:
    controller = Consolidating(dry_run=True)
    controller.evictor.script |= {"a": [DryRun()], "b": [DryRun()]}
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        await anyio.sleep(1)

    assert controller.writes == []
    assert sorted(controller.evicted_names) == ["a", "b"]


async def test_a_taint_that_is_refused_for_another_reason_names_no_right() -> None:
    controller = Consolidating()
    controller.refusal = RequestRejected("422", retryable=False)
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        await anyio.sleep(5)

    [line, *_] = controller.log.values_of("the taint of a node cannot be written")
    assert line["remedy"] is None


async def test_a_taint_that_is_refused_once_is_written_seconds_later() -> None:
    controller = Consolidating()
    controller.refusal = RequestRejected("503", retryable=True)
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        refused = len(controller.writes)
        controller.refusal = None
        await anyio.sleep(RETRY_S / 2)
        assert len(controller.writes) > refused
        assert consolidation_of(controller.node("n1")) is not None


async def test_without_the_right_nothing_leaves_and_a_line_names_the_remedy() -> None:
    controller, noted = Consolidating(), list[Item]()
    controller.refusal = RequestRejected("403", retryable=False, is_denied=True)
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        with controller.notes.taken_by(lambda make: noted.append(make(Instant(1, 1)))):
            await anyio.sleep(2.5 * RETRY_S)

    assert controller.evicted_names == []
    assert 2 <= len(controller.writes) <= 8, "it is tried again, less and less often"
    assert TaintRefused(Instant(1, 1), "n1", EMPTYING) in noted
    [line, *_] = controller.log.values_of("the taint of a node cannot be written")
    assert "deploy/drain/rbac.yaml" in line["remedy"]
    assert controller.results == []


async def test_a_set_without_places_is_given_up_and_its_node_rests() -> None:
    moves = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 1000.0})
    controller = Consolidating(rates={"node": TokenRate(per_second=1 / 600, burst=1)}, moves=moves)
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        assert controller.evicted_names == ["a"]
        await controller.land(A, "n2")
        full = web("full", "n2", "1500m", owner=None)
        controller.deliver(full)
        await anyio.sleep(180)
        assert controller.writes == [("n1", EMPTYING), ("n1", None)]
        assert controller.results == ["begun", "given_up"]
        controller.delete(full)
        await anyio.sleep(700)
        assert controller.blocking() == {"b": "NodeRests"}
        await anyio.sleep(220)

    assert controller.writes[2:] == [("n1", EMPTYING)]
    assert sorted(controller.evicted_names) == ["a", "b"]


async def test_a_set_of_which_no_pod_leaves_ends_whatever_it_waits_for() -> None:
    controller = Consolidating(guards=GuardSettings())
    held = replace(web("held", "n1"), annotations=HELD)
    controller.sync_and_resume(small("n1", EMPTYING), NODES[1], held, C)
    async with controller.following():
        await anyio.sleep(STUCK_AFTER_S - 60)
        assert controller.writes == []
        await anyio.sleep(120)

    assert controller.writes == [("n1", None)]
    assert controller.evicted_names == []


async def test_a_set_that_an_earlier_process_began_goes_on() -> None:
    controller = Consolidating()
    controller.sync_and_resume(small("n1"), small("n2", EMPTYING), A, B, web("c", "n2", "2"))
    async with controller.following():
        assert controller.evicted_names == ["c"]

    assert controller.writes == []


async def test_a_pod_that_comes_to_an_empty_node_takes_its_taint_off() -> None:
    controller = Consolidating()
    controller.sync_and_resume(small("n1", EMPTY), NODES[1], C)
    async with controller.following():
        controller.deliver(web("late", "n1"))
        await anyio.sleep(2)

    assert controller.writes == [("n1", None)]
    assert controller.results == ["used_again"]


@pytest.mark.parametrize("mode", [PROPOSE, OBSERVE])
async def test_a_plugin_that_does_not_act_writes_no_taint_and_takes_those_of_others_off(
    mode: Mode,
) -> None:
    controller = Consolidating(mode=mode)
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        await anyio.sleep(60)
        decided = dict(controller.blocking())

    assert controller.writes == []
    assert controller.evicted_names == []
    if mode is PROPOSE:
        assert decided == {"a": "NotApproved", "b": "NotApproved"}
    else:
        assert sorted(each.pod.name for each in controller.intent_store.intents) == ["a", "b"]


async def test_a_proposed_set_begins_once_all_its_pods_are_approved() -> None:
    controller = Consolidating(mode=PROPOSE)
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        controller.approve("a")
        await anyio.sleep(20)
        assert controller.writes == []
        controller.approve("b")
        await anyio.sleep(20)

    assert controller.writes == [("n1", EMPTYING)]
    assert sorted(controller.evicted_names) == ["a", "b"]


async def test_migration_jobs_do_not_move_sets() -> None:
    finding = Finding(A, "ConsolidateNodes", "", move_set=MoveSet("n1", (A.uid,)))

    refused = NoSets().check(finding, 0.0)

    assert refused is not None
    assert refused.keeps
    assert NoSets().check(replace(finding, move_set=None), 0.0) is None


@pytest.mark.parametrize("value", [EMPTY, EMPTYING, PLANNED])
async def test_without_the_plugin_no_taint_is_left(value: str) -> None:
    controller = Consolidating()
    controller.sync_and_resume(small("n1", value), NODES[1], C)
    async with controller.following():
        before = len(controller.writes)
        controller.reconfigure(make_configuration((make_profile_of("test", ()),)))
        await anyio.sleep(RETRY_S + 2)

    assert controller.writes[before:] == [("n1", None)]


def keeping(nodes: int = 1) -> KeepNodesFreePlugin:
    return KeepNodesFreePlugin(KeepNodesFreeArgs(nodes=nodes))


async def test_a_node_is_emptied_and_kept_free_and_another_one_once_it_is_used() -> None:
    controller = Consolidating(keeping())
    pods = [web("a", "n1"), web("b", "n2"), web("c", "n2"), web("d", "n3", "2")]
    controller.sync_and_resume(*map(small, ("n1", "n2", "n3")), *pods)

    async with controller.following():
        assert controller.writes == [("n1", EMPTYING)]
        assert controller.evicted_names == ["a"]
        await controller.land(pods[0], "n3")
        await anyio.sleep(200)
        assert controller.writes == [("n1", EMPTYING), ("n1", EMPTY)]

        controller.deliver(web("large", "n1", "4"))
        await anyio.sleep(200)

        assert controller.writes[2:4] == [("n1", None), ("n2", EMPTYING)]


@pytest.mark.parametrize("mode", [ACT, PROPOSE, OBSERVE])
async def test_free_nodes_are_closed_where_the_plugin_acts(mode: Mode) -> None:
    controller = Consolidating(keeping(2), mode=mode)
    controller.sync_and_resume(*map(small, ("n1", "n2", "n3", "n4")), web("a", "n4"))

    async with controller.following():
        await anyio.sleep(60)

    closed = [("n1", EMPTY), ("n2", EMPTY)]
    assert controller.writes == (closed if mode == ACT else [])


def with_plugins(*plugins: Any) -> Any:  # a configuration
    return make_configuration((make_profile_of("test", plugins),))


async def test_a_free_node_is_opened_again_where_fewer_are_wanted() -> None:
    controller = Consolidating(keeping(2))
    controller.sync_and_resume(*map(small, ("n1", "n2", "n3", "n4")), web("a", "n4"))

    async with controller.following():
        await anyio.sleep(5)
        assert controller.writes == [("n1", EMPTY), ("n2", EMPTY)]
        controller.reconfigure(with_plugins(keeping(1)))
        await anyio.sleep(60)

    assert controller.writes[2:] == [("n2", None)]


async def test_a_free_node_stays_closed_where_another_plugin_empties_nodes() -> None:
    consolidates = ConsolidateNodesPlugin(ConsolidateNodesArgs.model_validate({"headroom": {}}))
    controller = Consolidating(keeping(2), consolidates)
    nodes = (small("n1", EMPTY), small("n2", EMPTY), small("n3", EMPTY), small("n4"))
    controller.sync_and_resume(*nodes, web("a", "n4"))

    async with controller.following():
        await anyio.sleep(60)

    assert controller.writes == []


async def test_no_free_node_is_opened_while_a_set_is_under_way() -> None:
    """The pods of the set would go there."""
    controller = Consolidating(keeping(1))
    nodes = (small("n1", EMPTY), small("n2", EMPTY), small("n3", EMPTYING), small("n4"))
    controller.sync_and_resume(*nodes, replace(web("a", "n3"), annotations=HELD), web("b", "n4"))

    async with controller.following():
        await anyio.sleep(40)
        assert controller.writes == []
        await anyio.sleep(120)  # the set is given up: nothing finds its pods

    assert controller.writes == [("n3", None), ("n2", None)]


async def test_a_set_stops_where_one_of_its_pods_is_kept_since_and_goes_on_without_that() -> None:
    """Else those that come before it would move in vain."""
    one = MoveSettings(max_moving=UNLIMITED_MOVES.max_moving.model_copy(update={"cluster": 1}))
    controller = Consolidating(moves=one, guards=GuardSettings.model_validate({"minPodAge": "0s"}))
    pods = [web(name, "n1", "100m") for name in ("a", "b", "c", "d")]
    controller.sync_and_resume(*NODES, *pods, C)
    async with controller.following():
        await anyio.sleep(30)
        assert controller.evicted_names == ["a"]
        held = replace(pods[3], annotations=HELD, resource_version=9)
        controller.deliver(held)
        await anyio.sleep(5)
        await controller.land(pods[0], "n2")
        await anyio.sleep(60)
        assert controller.evicted_names == ["a"]
        assert controller.blocking()["b"] == "SetStopped"
        controller.deliver(replace(held, annotations=Annotations(), resource_version=10))
        await anyio.sleep(60)
        assert controller.evicted_names == ["a", "b"]
