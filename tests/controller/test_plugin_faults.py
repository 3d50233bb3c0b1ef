"""A fault of a plugin stays its own: the others go on, and what it failed on is tried again."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.api import BalancePlugin, DeschedulePlugin, PluginArgs, PodPlugin, View
from reactive_desched.api.balance_plugin import Plan
from reactive_desched.api.plugin import Opinions
from reactive_desched.controller import evaluator
from reactive_desched.controller.evaluator import ENDLESS_AFTER_S
from reactive_desched.controller.plugin_faults import (
    MAX_IN_A_ROW,
    MAX_LONG_IN_A_ROW,
    MAX_RETRY_S,
    SLOW_CALL_S,
    SLOW_CALLS,
)
from reactive_desched.errors import PluginHung
from reactive_desched.model.changes import Change, NodeTaintsChanged, PodBound, Resynced
from reactive_desched.model.checked_opinions import MAX_DETAILS, checked_opinion
from reactive_desched.model.eviction_options import DeleteOptions, EvictionOptions
from reactive_desched.model.findings import (
    AllNodesBut,
    Finding,
    GangMove,
    MoveSet,
    RequeueAfter,
    RoomFor,
    YieldPoint,
)
from reactive_desched.model.gangs import Gang
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.primitives.bounded_text import MAX_TEXT_CHARS
from reactive_desched.primitives.foreign_code import interrupts_received
from reactive_desched.primitives.hung_calls import hung_calls_ended
from reactive_desched.testing.builders import pod
from tests.support.golden import Golden

MakeBench = Callable[..., Any]  # the class Bench of conftest.py
A = pod("a", on="n1")
N1, N2 = NodeSubject("n1"), NodeSubject("n2")
BROKEN = ZeroDivisionError("division by zero")


def faults(bench: Any) -> list[tuple[str, str, bool]]:
    """Return, once, what plugins failed on, why, and whether they are off."""
    return [(each.subject, each.cause, each.is_off) for each in bench.evaluator.faults.take_new()]


def test_a_subject_on_which_a_plugin_fails_holds_up_no_other(make_bench: MakeBench) -> None:
    bench = make_bench(plugins=2).start()
    bench.plugins[0].fails_on[N1] = BROKEN
    bench.see(NodeTaintsChanged("n1"), NodeTaintsChanged("n2"), now=1)

    assert [plugin.judged for plugin in bench.plugins] == [[N1, N2], [N1, N2]]
    assert faults(bench) == [("node n1", "ZeroDivisionError: division by zero", False)]
    assert faults(bench) == []


def test_what_a_plugin_failed_on_is_tried_again_with_a_growing_wait_that_has_a_bound(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start()
    bench.plugin.fails_on[N1] = BROKEN
    bench.see(NodeTaintsChanged("n1"), now=1)
    bench.looked()

    due, waits = 1.0, []
    for _ in range(9):
        next_due = bench.evaluator.next_due(due)
        waits.append(next_due - due)
        due = next_due
        bench.work(due)

    assert waits == [5, 10, 20, 40, 80, 160, MAX_RETRY_S, MAX_RETRY_S, MAX_RETRY_S]
    assert bench.looked() == [N1] * 9
    assert not any(is_off for _, _, is_off in faults(bench))


def test_a_plugin_that_had_to_be_interrupted_thrice_is_off(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    pods = [pod(f"p{number}", on="n1") for number in range(MAX_LONG_IN_A_ROW + 1)]
    bench.plugin.fails_on = {PodSubject(each.uid): PluginHung("8 s") for each in pods}
    bench.see(*map(PodBound, pods), now=1)

    assert [is_off for _, _, is_off in faults(bench)] == [False, False, True]


def test_changes_do_not_shorten_the_wait(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.fails_on[N1] = BROKEN
    for now in (1, 2, 3):
        bench.see(NodeTaintsChanged("n1"), now=now)

    assert bench.looked() == [N1]
    bench.plugin.fails_on.clear()
    bench.work(6)
    assert bench.looked() == [N1]
    assert bench.evaluator.faults.standing() == []
    bench.see(NodeTaintsChanged("n1"), now=7)
    assert bench.looked() == [N1]


def test_a_plugin_that_fails_again_and_again_is_off_until_it_is_made_anew(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(plugins=2).start()
    pods = [pod(f"p{number}", on="n1") for number in range(MAX_IN_A_ROW + 5)]
    bench.plugins[0].fails_on = {PodSubject(each.uid): BROKEN for each in pods}
    bench.see(*map(PodBound, pods), now=1)

    assert len(bench.plugins[0].judged) == MAX_IN_A_ROW
    assert [is_off for _, _, is_off in faults(bench)][-2:] == [False, True]
    [standing] = bench.evaluator.faults.standing()
    assert (standing.plugin, standing.is_off) == ("Wrong", True)
    assert "mend it and restart" in standing.message
    bench.see(NodeTaintsChanged("n1"), now=1000)
    assert bench.plugins[0].judged[MAX_IN_A_ROW:] == []
    assert bench.plugins[1].judged[-1] == N1

    bench.plugins[0].judged.clear()
    bench.evaluator.reconfigure(bench.instances, bench, 2000)
    bench.work(2000)
    assert bench.plugins[0].judged == [N1, N2]
    assert bench.evaluator.faults.standing() == []


def test_blocked_findings_of_a_plugin_that_is_off_wait_no_longer(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a")
    bench.see(NodeTaintsChanged("n1"), now=1)
    assert [each.decision.finding.pod.name for each in bench.evaluator.queue.pending()] == ["a"]

    bench.plugin.fails_to_name = BROKEN
    for now in range(2, 2 + MAX_IN_A_ROW):
        bench.see(NodeTaintsChanged(f"other-{now}"), now=now)

    assert faults(bench)[-1][2]
    assert list(bench.evaluator.queue.pending()) == []


def test_what_a_plugin_that_is_off_was_about_to_find_is_not_decided_on(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a", "b")
    bench.evaluator.apply_changes([NodeTaintsChanged("n1")], 1)
    decided = list(bench.evaluator.process_due(1, lambda: True))
    assert [each.finding.pod.name for each in decided] == ["a"]
    assert bench.evaluator.is_judging((bench.instance, N1))

    bench.plugin.fails_to_name = BROKEN
    for now in range(2, 2 + MAX_IN_A_ROW):
        bench.evaluator.apply_changes([NodeTaintsChanged(f"other-{now}")], now)

    assert faults(bench)[-1][2]
    assert not bench.evaluator.is_evaluating
    assert list(bench.evaluator.process_due(1 + MAX_IN_A_ROW, lambda: False)) == []


def test_a_plugin_that_cannot_say_what_a_change_concerns_looks_at_everything_later(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(plugins=2).start()
    bench.plugins[0].fails_to_name = BROKEN
    bench.see(NodeTaintsChanged("n1"), now=1)
    assert [plugin.judged for plugin in bench.plugins] == [[], [N1]]
    assert [what for what, _, _ in faults(bench)] == ["a change of node n1"]

    bench.plugins[0].fails_to_name = None
    bench.work(6)
    assert bench.plugins[0].judged == [N1, N2]
    assert bench.evaluator.faults.standing() == []


def test_a_plugin_that_fails_to_name_a_later_portion_looks_at_everything_later(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start()

    def portions() -> Iterator[list[NodeSubject]]:
        yield [N2]
        raise BROKEN

    bench.plugin.portions = portions()
    bench.see(NodeTaintsChanged("n1"), now=1)
    assert bench.looked() == [N2]
    assert [what for what, _, _ in faults(bench)] == ["a change of node n1"]

    bench.plugin.portions = None
    bench.work(6)
    assert bench.looked() == [N1, N2]


def test_a_plugin_that_is_off_is_asked_for_no_further_portion(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    portions = bench.plugin.portions = iter([[N1], [N2]])
    bench.evaluator.apply_changes([NodeTaintsChanged("n1")], 1)
    bench.plugin.portions, bench.plugin.fails_to_name = None, BROKEN
    for now in range(MAX_IN_A_ROW):
        bench.evaluator.apply_changes([NodeTaintsChanged(f"other-{now}")], now)

    bench.work(MAX_IN_A_ROW)

    assert faults(bench)[-1][2]
    assert (bench.looked(), list(portions)) == ([], [[N2]])


def test_a_plugin_that_cannot_name_its_subjects_does_not_end_the_resync_of_others(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(plugins=2)
    bench.plugins[0].fails_to_name = BROKEN
    bench.evaluator.resync(7)
    bench.work(7)

    assert [plugin.judged for plugin in bench.plugins] == [[], [N1, N2]]
    bench.plugins[0].fails_to_name = None
    bench.work(12)
    assert bench.plugins[0].judged == [N1, N2]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(asyncio.CancelledError(), id="a cancellation"),
        pytest.param(SystemExit(1), id="an exit"),
        pytest.param(MemoryError(), id="no memory"),
        pytest.param(RecursionError("too deep"), id="a recursion"),
        pytest.param(BaseException("odd"), id="an exception of no kind"),
        pytest.param(BaseExceptionGroup("odd", [SystemExit(2)]), id="a group"),
    ],
)
def test_whatever_a_plugin_raises_is_its_fault(make_bench: MakeBench, error: BaseException) -> None:
    bench = make_bench(plugins=2).start()
    bench.plugins[0].fails_on[N1] = error
    bench.see(NodeTaintsChanged("n1"), now=1)
    bench.plugins[0].fails_to_name = error
    bench.see(NodeTaintsChanged("n2"), now=2)

    assert bench.plugins[1].judged == [N1, N2]
    found = faults(bench)
    assert [subject for subject, _, _ in found] == ["node n1", "a change of node n2"]
    assert all(cause.startswith(type(error).__name__) for _, cause, _ in found)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_a_plugin_that_raises_what_ends_others_ends_nothing_where_signals_are_received(
    make_bench: MakeBench, error: BaseException
) -> None:
    bench = make_bench(plugins=2).start()
    bench.plugins[0].fails_on[N1] = error
    with interrupts_received():
        bench.see(NodeTaintsChanged("n1"), now=1)

    assert bench.plugins[1].judged == [N1]
    [(_, cause, _)] = faults(bench)
    assert cause == type(error).__name__


def test_a_signal_is_no_fault_of_a_plugin(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.fails_on[N1] = KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        bench.see(NodeTaintsChanged("n1"), now=1)


class InterruptedByAPerson(dict[Any, BaseException]):
    """Receives SIGINT where a plugin looks whether it is to fail."""

    def __contains__(self, _: object) -> bool:
        signal.raise_signal(signal.SIGINT)
        return False


def test_in_a_command_a_plugins_interrupt_is_its_fault_and_that_of_a_person_ends_the_command(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(plugins=2).start()
    bench.plugins[0].fails_on[N1] = KeyboardInterrupt()
    with hung_calls_ended():
        bench.see(NodeTaintsChanged("n1"), now=1)
        assert [cause for _, cause, _ in faults(bench)] == ["KeyboardInterrupt"]

        bench.plugins[1].fails_on = InterruptedByAPerson()
        with pytest.raises(KeyboardInterrupt):
            bench.see(NodeTaintsChanged("n2"), now=2)
    assert faults(bench) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_an_exception_says_is_no_command_to_a_terminal(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.fails_on[N1] = ValueError("\x1b]0;x\x07\x9b2J")
    bench.see(NodeTaintsChanged("n1"), now=1)

    [fault] = bench.evaluator.faults.take_new()
    assert fault.cause.isprintable()
    assert all(line.isprintable() for line in fault.traceback.splitlines())


class Endless(PodPlugin[PluginArgs]):
    """Answers without an end: `judge` with a wait, `evaluate`, if `plans`, with yield points."""

    name = "Endless"
    reacts_to = (Resynced, NodeTaintsChanged)
    plans = False

    def judge(self, subject: object, view: View) -> Iterator[Finding | RequeueAfter]:
        del subject, view
        return repeat(RequeueAfter(5))

    def evaluate(self, subject: Any, view: View) -> Opinions:
        if not self.plans:
            yield from super().evaluate(subject, view)
        while True:
            yield YieldPoint()


class EndlessPlan(Endless):
    plans = True


def work_on(bench: Any, now: float) -> None:
    """Work for a moment, in which a plugin answers a hundred times."""
    turns = iter(range(100))
    list(bench.evaluator.process_due(now, lambda: next(turns, None) is None))


@pytest.mark.parametrize("plugin", [Endless, EndlessPlan])
def test_answers_without_an_end_are_a_fault_and_hold_up_other_plugins_for_a_while(
    make_bench: MakeBench, plugin: type[Endless]
) -> None:
    bench = make_bench(plugins=2)
    endless = replace(bench.instances[0], plugin=plugin(PluginArgs()))
    bench.evaluator.reconfigure([endless, bench.instances[1]], bench, 0)
    bench.evaluator.resync(0)
    now = 0.0
    while not bench.evaluator.faults.new and now < 2 * ENDLESS_AFTER_S:
        work_on(bench, now)
        now += 0.1

    assert {cause.partition(":")[0] for _, cause, _ in faults(bench)} == {"EvaluationEndless"}
    for _ in range(MAX_IN_A_ROW * 200):
        work_on(bench, now)
        now += 0.1
    assert set(bench.plugins[1].judged) >= {N1, N2}


def test_answers_without_an_end_are_a_fault_where_no_time_passes_too(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator, "MAX_ANSWERS", 1000)
    bench = make_bench()
    endless = replace(bench.instances[0], plugin=EndlessPlan(PluginArgs()))
    bench.evaluator.reconfigure([endless], bench, 0)
    bench.evaluator.resync(0)
    list(bench.evaluator.process_due(0.0, lambda: False))

    assert {cause.partition(":")[0] for _, cause, _ in faults(bench)} == {"EvaluationEndless"}


def test_a_fault_of_a_gate_ends_the_process(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.verdicts["a"] = lambda *_: 1 / 0

    with pytest.raises(ZeroDivisionError):
        bench.see(NodeTaintsChanged("n1"), now=1)


def test_a_traceback_is_there_once_for_each_line_that_raises(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.fails_on = {N1: ZeroDivisionError("one"), N2: ZeroDivisionError("two")}
    bench.see(NodeTaintsChanged("n1"), NodeTaintsChanged("n2"), now=1)

    first, second = bench.evaluator.faults.take_new()
    assert "in judge" in first.traceback
    assert second.traceback == ""


def test_faults_are_counted_by_plugin(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.fails_on[N1] = BROKEN
    bench.see(NodeTaintsChanged("n1"), now=1)

    samples = {metric.family.name: metric.samples for metric in bench.evaluator.collect()}
    assert samples["plugin_errors"] == {("Wrong",): 1}
    assert samples["plugin_off"] == {}


@pytest.mark.parametrize(
    "opinion",
    [
        pytest.param("evict it", id="a text"),
        pytest.param(None, id="nothing"),
        pytest.param(Finding(A, "Wrong", 7), id="a message that is no text"),  # type: ignore[arg-type]
        pytest.param(
            Finding(A, "Wrong", "wrong", details={"share": 0.5}),  # type: ignore[dict-item]
            id="a fraction among the details",
        ),
        pytest.param(Finding("a", "Wrong", "wrong"), id="no pod"),  # type: ignore[arg-type]
        pytest.param(
            Finding(A, "Wrong", "wrong", targets=["n2"]),  # type: ignore[arg-type]
            id="a list of targets",
        ),
        pytest.param(
            Finding(A, "Wrong", "wrong", counts_from_s="now"),  # type: ignore[arg-type]
            id="a text for a time",
        ),
        pytest.param(RequeueAfter("soon"), id="a text for a wait"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_finding_is_a_fault(opinion: object) -> None:
    with pytest.raises(TypeError):
        checked_opinion(opinion, "Wrong")


class Unsure:
    """Neither true nor false."""

    def __bool__(self) -> bool:
        raise ZeroDivisionError


SEEN: Any = pod("seen", on="n1")
SET = MoveSet("n1", ("seen",))
NAN, TOO_LONG = float("nan"), 10**40


@pytest.mark.parametrize(
    "fields",
    [
        {"needs_fit": Unsure()},
        {"relieves_node": Unsure()},
        {"is_trial": Unsure()},
        {"by_score": "yes"},
        {"conflicts_with": ([],)},
        {"conflicts_with": (1, None)},
        {"targets": AllNodesBut(None)},  # type: ignore[arg-type]
        {"node_limit": TOO_LONG},
        {"place_rank": TOO_LONG},
        {"counts_from_s": NAN},
        {"counts_from_s": -float("inf")},
        {"counts_from_s": TOO_LONG},
        {"details": {"figure": TOO_LONG}},
        {"details": {7: "figure"}},
        {"move_set": "n1"},
        {"move_set": MoveSet("n1", ())},
        {"move_set": MoveSet("n1", ("another",))},
        {"move_set": MoveSet("n1", None)},  # type: ignore[arg-type]
        {"move_set": MoveSet("n1", ("seen", []))},  # type: ignore[arg-type]
        {"move_set": replace(SET, node=[])},
        {"move_set": replace(SET, empty=None)},
        {"move_set": replace(SET, rooms=[])},
        {"move_set": replace(SET, rooms=("n1",))},
        {"move_set": replace(SET, rooms=(RoomFor("p", []),))},  # type: ignore[arg-type]
        {"move_set": replace(SET, gang="g")},
        {"gang": "g"},
        {"gang": GangMove(Gang("shop", "volcano", "g"), ("seen",))},
        {"options": EvictionOptions(evictor=7)},  # type: ignore[arg-type]
        {"options": EvictionOptions(delete="now")},  # type: ignore[arg-type]
        {"options": EvictionOptions(delete=DeleteOptions(TOO_LONG))},
        {"pod": replace(SEEN, uid=[])},
        {"plugin": "RemovePodsViolatingNodeTaints"},
    ],
    ids=lambda fields: f"{next(iter(fields))} {type(next(iter(fields.values()))).__name__}",
)
def test_whatever_gates_would_fail_on_is_a_fault_of_the_plugin_that_found_it(
    make_bench: MakeBench, fields: dict[str, Any]
) -> None:
    found = replace(Finding(SEEN, "Wrong", "wrong"), **fields)
    bench = with_plugin(make_bench, Finds(found))
    bench.evaluator.resync(0)
    bench.work(0)

    [(subject, cause, _)] = faults(bench)
    assert subject == "node n1"
    assert cause.partition(":")[0] in {"TypeError", "ValueError"}
    assert bench.evaluations == []


class Finds(PodPlugin[PluginArgs]):
    """Finds what it was made with, on the first node."""

    name = "Wrong"
    reacts_to = (Resynced,)

    def __init__(self, *opinions: Any) -> None:
        super().__init__(PluginArgs())
        self.opinions = opinions

    def judge(self, subject: object, view: View) -> Iterator[Any]:
        yield from self.opinions if subject == N1 else ()


def test_a_pod_that_a_plugin_makes_up_is_not_evicted(make_bench: MakeBench) -> None:
    bench = with_plugin(make_bench, Finds(Finding(pod("made-up", on="n1"), "Wrong", "wrong")))
    bench.evaluator.resync(0)
    bench.work(0)

    assert bench.evaluations == []


def test_a_pod_that_a_plugin_has_kept_is_decided_on_as_it_is_now(make_bench: MakeBench) -> None:
    kept = replace(A, labels={"kept": "yes"})
    bench = with_plugin(make_bench, Finds(Finding(kept, "Wrong", "wrong")))
    bench.evaluator.resync(0)
    bench.work(0)

    assert [each.finding.pod for each in bench.evaluations] == [bench.instance.view.pod(A.uid)]


@pytest.mark.parametrize("delay_s", [-1, float("nan"), float("inf"), 10**400])
def test_a_wait_that_is_none_is_a_fault(delay_s: float) -> None:
    with pytest.raises(ValueError, match="no time to wait"):
        checked_opinion(RequeueAfter(delay_s), "Wrong")


def test_a_finding_has_texts_of_a_length_and_a_bounded_number_of_details() -> None:
    details = {f"figure{number}": number for number in range(10_000)}
    checked = checked_opinion(Finding(A, "Wrong", "x" * 1_000_000, details=details), "Wrong")

    assert isinstance(checked, Finding)
    assert len(checked.message) < 2 * MAX_TEXT_CHARS
    assert len(checked.details) == MAX_DETAILS


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\x1b[31m\n", "\ud800", "\u202e"])
def test_texts_among_the_figures_are_of_a_length_and_no_commands(text: str) -> None:
    found = Finding(A, "Wrong", "wrong", details={f"figure{text}": text})
    checked = checked_opinion(found, "Wrong")

    assert isinstance(checked, Finding)
    [(name, figure)] = checked.details.items()
    assert isinstance(figure, str)
    assert max(len(name), len(figure)) < 2 * MAX_TEXT_CHARS
    assert (name + figure).isprintable()


class NodePlan(BalancePlugin[NodeSubject, PluginArgs]):
    """Plans for whole nodes, and takes no other subject."""

    name = "NodePlan"
    reacts_to = (Resynced, NodeTaintsChanged)

    def __init__(self) -> None:
        super().__init__(PluginArgs())
        self.planned: list[object] = []

    def subjects(self, change: Change, view: View) -> Iterator[NodeSubject]:
        for each in view.nodes():
            yield NodeSubject(each.name)

    def balance(self, subject: NodeSubject, view: View) -> Plan:
        self.planned.append(subject)
        found = view.pods_of(subject)
        for each in () if found is None else tuple(found[1]):
            yield Finding(each, self.name, "wrong")


class PodJudge(DeschedulePlugin[PodSubject, PluginArgs]):
    """Judges single pods, each again after a while, and takes no other subject."""

    name = "PodJudge"
    reacts_to = (Resynced,)

    def __init__(self) -> None:
        super().__init__(PluginArgs())
        self.planned: list[object] = []

    def subjects(self, change: Change, view: View) -> Iterator[PodSubject]:
        yield PodSubject(A.uid)

    def judge(self, subject: PodSubject, view: View) -> Iterator[Finding | RequeueAfter]:
        self.planned.append(subject)
        yield RequeueAfter(10)


def with_plugin(make_bench: MakeBench, plugin: AnyPlugin) -> Any:
    bench = make_bench()
    bench.instances = [replace(bench.instance, plugin=plugin)]
    bench.evaluator.reconfigure(bench.instances, bench, 0)
    return bench


def test_a_plan_for_nodes_gets_a_node_again_after_a_blocked_finding(
    make_bench: MakeBench,
) -> None:
    plan = NodePlan()
    bench = with_plugin(make_bench, plan)
    bench.gate.defer("a", until=5)
    bench.gate.defer("b", until=9)
    bench.evaluator.resync(0)
    bench.work(0)
    plan.planned.clear()

    bench.gate.verdicts.clear()
    bench.work(5)

    assert plan.planned == [N1]
    assert [each.subject for each in bench.evaluations[-2:]] == [N1, N1]


def test_a_plugin_for_pods_gets_a_pod_again_after_a_wait(make_bench: MakeBench) -> None:
    judge = PodJudge()
    bench = with_plugin(make_bench, judge)
    bench.evaluator.resync(0)
    bench.work(0)
    bench.work(10)

    assert judge.planned == [PodSubject(A.uid)] * 2


class Unnamed:
    """A subject that cannot be printed."""

    def __repr__(self) -> str:
        raise LookupError("no name")


def test_a_subject_that_cannot_be_printed_is_named_by_its_fault(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.plugin.subjects = lambda *_: [Unnamed()]
    bench.evaluator.resync(0)
    bench.work(0)

    [(subject, _, _)] = faults(bench)
    assert subject == "the plugin failed: LookupError: no name"


def slow(bench: Any) -> list[tuple[str, str, int]]:
    """Return, once, the slow plugins that were reported, and on what."""
    taken = bench.evaluator.slow_plugins.take_new()
    return [(each.plugin, each.subject, each.calls) for each in taken]


def test_a_call_that_holds_the_event_loop_is_reported_and_counted(
    make_bench: MakeBench, golden: Golden
) -> None:
    bench = make_bench(plugins=2).start()
    bench.plugins[0].takes_s = SLOW_CALL_S + 0.01
    bench.see(NodeTaintsChanged("n1"), now=1)

    [report] = bench.evaluator.slow_plugins.take_new()
    assert (report.plugin, report.subject) == ("Wrong", "a change of node n1")
    assert report.message == golden()
    [family] = [each for each in bench.evaluator.collect() if each.family is SLOW_CALLS]
    assert family.samples == {("Wrong",): 2}


def test_a_plugin_that_is_slow_all_the_time_is_reported_once_a_minute(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start()
    bench.plugin.takes_s = 1.0
    bench.see(NodeTaintsChanged("n1"), now=1)
    assert slow(bench) == [("Wrong", "a change of node n1", 1)]

    bench.plugin.takes_s = 2.0
    for now in range(2, 30):
        bench.see(NodeTaintsChanged("n2"), now=now)
    assert [subject for _, subject, _ in slow(bench)] == ["a change of node n2"]


def test_the_first_look_at_everything_is_timed(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.plugin.takes_s = 1.0
    bench.evaluator.resync(0)
    bench.work(0)

    assert slow(bench) == [("Wrong", "all its subjects", 1)]


def test_a_quick_plugin_is_not_reported(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.takes_s = SLOW_CALL_S / 2
    for now in range(1, 100):
        bench.see(NodeTaintsChanged("n1"), now=now)

    assert slow(bench) == []
