"""A subject with thousands of findings is evaluated in slices, on a clock that the gate moves."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.api import BalancePlugin, PluginArgs, View
from reactive_desched.api.balance_plugin import Plan
from reactive_desched.controller.evaluator import (
    ENDLESS_AFTER_S,
    EVALUATION_PAUSE_S,
    POD_GONE,
    Evaluator,
)
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.controller.work_queue import PodBackoff
from reactive_desched.controller.worker import TIME_SLICE_S, Worker
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.changes import Change, NodeTaintsChanged, Resynced
from reactive_desched.model.decisions import Decision, Evict, Refuse
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.findings import Finding, YieldPoint
from reactive_desched.model.objects import Pod
from reactive_desched.model.observer import Observer
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.primitives.long_answers import PORTION
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.cluster import ClusterState
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import build_view

MANY = 10_000
DECISION_S = 20e-6
LOOP_HELD_AT_MOST_S = 2e-3
PODS = {f"p{number}": pod(f"p{number}", on="n1") for number in range(MANY)}


class Crowd(BalancePlugin[str, PluginArgs]):
    """One subject, of which it proposes every pod that it saw at the start of the plan."""

    name = "Crowd"
    reacts_to = (Resynced, NodeTaintsChanged)

    def __init__(self) -> None:
        super().__init__(PluginArgs())
        self.received: dict[str, Decision] = {}
        self.plans = 0

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        return ("all",)

    def balance(self, subject: str, view: View) -> Plan:
        self.plans += 1
        _, pods = view.pods_of(NodeSubject("n1")) or (None, ())
        for found in list(pods):
            self.received[found.name] = yield Finding(found, self.name, "too many")


class Bench:
    """An evaluator over many pods whose gate takes its time; it stands in for a controller."""

    def __init__(
        self,
        pods: int = MANY,
        plugin: Crowd | None = None,
        wall_clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.state = ClusterState()
        self.state.upsert(node("n1"))
        for found in list(PODS.values())[:pods]:
            self.state.upsert(found)
        self.plugin = plugin or Crowd()
        self.worked_s = 0.0
        self.decided: list[Pod] = []
        view = build_view(self.state, wall_clock=wall_clock)
        self.instance = PluginInstance("p", self.plugin, self, view, DebounceConfig(0, 0))
        self.capacity = SchedulerNodeFit(view, lambda: 0)
        self.evaluator = Evaluator([self.instance], PodBackoff(RetrySettings()), self.capacity)
        self.evaluator.resync(0)
        self.clocks = TurnClocks(self.clock, self.clock)

    @property
    def steps(self) -> int:
        return self.evaluator.steps

    def clock(self) -> float:
        return anyio.current_time() + self.worked_s

    # --- the gate ---

    def decide(self, finding: Finding, _: float) -> Decision:
        self.worked_s += DECISION_S
        self.decided.append(finding.pod)
        return Evict(finding)

    def held_since(self, finding: Finding, _: float) -> str:
        raise NotImplementedError

    # --- what a worker uses of a controller ---

    def next_due(self, now: float) -> float | None:
        return self.evaluator.next_due(now)

    def work(self, should_yield: object) -> Iterator[Evaluation]:
        now = self.clocks.monotonic()
        for _ in self.evaluator.process_due(now, should_yield):  # type: ignore[arg-type]  # a callable
            yield from ()

    # --- slices by hand ---

    def slice(self, decisions: int, now: float = 0.0) -> list[str]:
        """Work until so many findings were decided; return their pods."""
        before = len(self.decided)
        due = self.evaluator.next_due(now)
        assert due is not None
        assert due <= now
        for _ in self.evaluator.process_due(now, lambda: len(self.decided) - before >= decisions):
            pass
        return [found.name for found in self.decided[before:]]


def names(first: int, last: int) -> list[str]:
    return [f"p{number}" for number in range(first, last)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})]
)
async def test_ten_thousand_findings_of_one_subject_leave_turns_to_other_tasks() -> None:
    bench = Bench()
    worker = Worker(bench, bench, Wakeup(), Observer(), bench.clock)  # type: ignore[arg-type]  # what a worker uses of them
    turns: list[float] = []
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        while len(bench.decided) < MANY:
            turns.append(bench.worked_s)
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    assert [found.name for found in bench.decided] == names(0, MANY)
    assert bench.plugin.plans == 1
    assert bench.worked_s == pytest.approx(MANY * DECISION_S)
    # Trio runs the tasks of a turn in random order, so the worker may have had two turns in a row.
    held_at_most_s = max(after - before for before, after in pairwise(turns)) / 2
    assert held_at_most_s <= TIME_SLICE_S + DECISION_S <= LOOP_HELD_AT_MOST_S


class Searching(Crowd):
    """Looks at one pod after the other, and finds something about the last one alone."""

    def balance(self, subject: str, view: View) -> Plan:
        self.plans += 1
        _, pods = view.pods_of(NodeSubject("n1")) or (None, ())
        looked_at: list[Pod] = []
        for found in list(pods):
            looked_at.append(found)
            yield YieldPoint()
        yield Finding(looked_at[-1], self.name, "the last")


def test_a_plan_is_interrupted_at_a_yield_point_and_continues_after_it() -> None:
    bench = Bench(pods=5, plugin=Searching())
    turns = 0
    while not bench.decided:
        assert bench.evaluator.next_due(0) == 0
        for _ in bench.evaluator.process_due(0, lambda: True):
            pass
        turns += 1

    assert (turns, bench.plugin.plans) == (6, 1)


class Dated(Bench):
    """Its gate notes since when each finding has been found; the plan looks at three pods first."""

    def __init__(self) -> None:
        self.now = 0.0
        self.since: list[float] = []
        super().__init__(pods=3, plugin=Searching(), wall_clock=lambda: 1_000 + self.now)

    def decide(self, finding: Finding, _: float) -> Decision:
        self.since.append(finding.found_since_s)
        return super().decide(finding, _)

    def evaluate(self, began: float, slice_s: float) -> None:
        """Evaluate all that is due in slices that each end at the first yield point."""
        self.now = began
        while (due := self.evaluator.next_due(self.now)) is not None and due <= self.now:
            for _ in self.evaluator.process_due(self.now, lambda: True):
                pass
            self.now += slice_s


def test_what_a_plan_finds_is_as_old_as_its_beginning_however_far_a_slice_came() -> None:
    bench = Dated()
    bench.evaluate(0, slice_s=0.003)
    for began, slice_s in ((50, 0.003), (100, 0.5)):
        bench.evaluator.apply_changes([NodeTaintsChanged("n1")], began)
        bench.evaluate(began, slice_s)

    assert bench.since == [0, 1_050, 1_100], "what is found at the start may have been so for long"


class Blocking(Bench):
    """Its gate blocks every finding."""

    def decide(self, finding: Finding, _: float) -> Decision:
        self.decided.append(finding.pod)
        return Refuse(finding, "Test", "TestRefusal", "not now")

    def blocked(self) -> int:
        return sum(self.evaluator.queue.blocked_by_gate.values())

    def turn(self) -> int:
        """Work until it may be interrupted; return how many findings were taken out."""
        before, decided = self.blocked(), len(self.decided)
        for _ in self.evaluator.process_due(0, lambda: True):
            pass
        return before - self.blocked() + len(self.decided) - decided


def test_what_was_found_before_is_taken_out_and_dropped_in_portions() -> None:
    many = 5 * PORTION
    bench = Blocking(pods=many)
    bench.slice(many)
    bench.evaluator.resync(0)
    taken, idle = [bench.turn()], 0
    while len(bench.decided) < 2 * many:
        taken.append(bench.turn())
    while bench.evaluator.is_evaluating:
        assert bench.evaluator.next_due(0) == 0
        bench.turn()
        idle += 1

    assert max(taken) <= 2 * PORTION
    assert sum(taken) == many
    assert bench.decided[many:] == bench.decided[:many]
    assert idle >= many / PORTION


def test_a_plan_continues_where_it_stopped() -> None:
    bench = Bench()

    assert bench.slice(3) == names(0, 3)
    assert bench.slice(3) == names(3, 6)
    assert bench.plugin.plans == 1


def test_a_pod_that_left_between_two_slices_is_not_decided() -> None:
    bench = Bench(pods=5)
    bench.slice(2)
    bench.state.remove(PODS["p3"])

    assert bench.slice(9) == ["p2", "p4"]
    received = bench.plugin.received["p3"]
    assert isinstance(received, Refuse)
    assert (received.reason, received.pod_leaves) == (POD_GONE.code, True)


def test_a_pod_whose_node_is_not_eligible_any_more_is_not_decided_and_stays() -> None:
    bench = Bench(pods=5)
    bench.slice(2)
    bench.state.upsert(node("n1", ready="False"))

    assert bench.slice(9) == []
    assert not bench.plugin.received["p3"].pod_leaves


def test_the_gate_sees_each_pod_as_it_is_by_then() -> None:
    bench = Bench(pods=5)
    bench.slice(2)
    leaving = replace(PODS["p3"], deletion_s=1)
    bench.state.upsert(leaving)
    bench.slice(9)

    assert bench.decided[3] is leaving


def test_a_subject_that_changed_meanwhile_is_planned_again_afterwards() -> None:
    bench = Bench(pods=3)
    bench.slice(1)
    bench.evaluator.apply_changes([NodeTaintsChanged("n1")], 0)

    assert bench.slice(2) == ["p1", "p2"]
    assert bench.slice(3) == ["p0", "p1", "p2"]
    assert bench.plugin.plans == 2


def test_a_plan_that_paused_for_long_is_made_anew() -> None:
    bench = Bench(pods=3)
    bench.slice(1)
    bench.slice(1, now=EVALUATION_PAUSE_S)
    assert bench.plugin.plans == 1

    assert bench.slice(3, now=2 * EVALUATION_PAUSE_S + 1) == ["p0", "p1", "p2"]
    assert bench.plugin.plans == 2


def test_a_plan_that_takes_long_without_a_pause_comes_to_its_end() -> None:
    bench = Bench(pods=300)
    found = [name for second in range(300) for name in bench.slice(1, now=float(second))]

    assert found == names(0, 300)
    assert bench.plugin.plans == 1
    assert len(found) > ENDLESS_AFTER_S
    assert not bench.evaluator.faults.new


def test_a_reload_drops_the_plan_under_way() -> None:
    bench = Bench(pods=3)
    bench.slice(1)
    other = Bench(pods=3)
    bench.evaluator.reconfigure([other.instance], bench.capacity, 0)
    for _ in bench.evaluator.process_due(0, lambda: False):
        pass

    assert [found.name for found in bench.decided] == ["p0"]
    assert [found.name for found in other.decided] == ["p0", "p1", "p2"]
