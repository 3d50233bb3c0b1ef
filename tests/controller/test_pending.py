from typing import Any

import pytest
from msgspec.json import decode, encode
from msgspec.structs import replace

from reactive_desched.controller.pending import (
    MAX_LISTED,
    PODS_PER_SLICE,
    PendingContext,
    PendingFinding,
    PendingList,
    PendingQuery,
    list_pending,
)
from reactive_desched.errors import ConfigError
from reactive_desched.gate.filters import DAEMON_SET_POD
from reactive_desched.gate.turns import Turn
from reactive_desched.model.changes import NodeTaintsChanged
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Defer
from reactive_desched.model.evaluation import Trigger
from reactive_desched.model.findings import Finding
from reactive_desched.model.wakes import WakeOnCapacity, WakeOnPdb, WakeOnPod
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.builders import pod
from tests.support.counted_steps import counted
from tests.support.golden import Golden

WALL_AHEAD = 1_000_000.0


def pending(bench: Any, now: float, **query: str) -> PendingList:
    findings = list(bench.evaluator.queue.pending())
    waiting, moment = PendingContext(len(bench.evaluator.queue)), ClockPair(now, now + WALL_AHEAD)
    return at_once(list_pending(findings, PendingQuery.parse(query), waiting, moment))


def test_a_blocked_finding_is_listed_with_what_it_waits_for_and_since_when(
    make_bench: Any,
    golden: Golden,
) -> None:
    bench = make_bench().start("a", "b")
    bench.gate.refuse("a", WakeOnPdb("default"), WakeOnPod("a"), until=60)
    bench.gate.defer("b", 30)
    bench.see(NodeTaintsChanged("n1"), now=10)

    listed = pending(bench, 12)

    assert listed.total == 2
    assert listed.by_gate == {"Gate": 1, "Pace": 1}
    first = listed.findings[0]
    assert (first.namespace, first.pod, first.node, first.plugin) == ("default", "a", "n1", "Wrong")
    assert (first.gate, first.reason, first.message) == ("Gate", "No", "a message")
    assert first.waits_for == (
        golden(),
        "a change of the pod",
    )
    assert first.trigger == "NodeTaintsChanged node n1"
    assert first.until is not None
    assert first.since.timestamp() == 10 + WALL_AHEAD
    assert first.until.timestamp() == 60 + WALL_AHEAD


def test_the_wait_begins_anew_only_with_another_reason(make_bench: Any) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", WakeOnCapacity())
    bench.see(NodeTaintsChanged("n1"), now=10)
    bench.see(NodeTaintsChanged("n2"), now=20)
    assert pending(bench, 20).findings[0].since.timestamp() == 10 + WALL_AHEAD

    bench.gate.refuse("a", WakeOnCapacity(), reason="Other")
    bench.see(NodeTaintsChanged("n2"), now=30)
    assert pending(bench, 30).findings[0].since.timestamp() == 30 + WALL_AHEAD


def test_an_evicted_or_healthy_pod_is_pending_no_longer(make_bench: Any) -> None:
    bench = make_bench().start("a", "b")
    bench.gate.refuse("a", WakeOnCapacity())
    bench.gate.refuse("b", WakeOnCapacity())
    bench.see(NodeTaintsChanged("n1"), now=10)
    del bench.gate.verdicts["a"]
    bench.plugin.wrong.discard("b")
    bench.see(NodeTaintsChanged("n1"), now=20)

    assert set(bench.evicted) == {"a"}
    assert pending(bench, 20).findings == ()


def finding(name: str, since: float) -> PendingFinding:
    decision = Defer(Finding(pod(name, on="n1"), "Wrong", "why"), "Pace", "Later", "wait", 9.0)
    return PendingFinding("default", decision, (), since, 9.0, Trigger())


def test_the_longest_waiting_are_listed_and_all_are_counted() -> None:
    many = [finding(f"p{number}", -number) for number in range(MAX_LISTED + 5)]

    listed = at_once(list_pending(many, PendingQuery(), PendingContext(), ClockPair(0, 0)))

    assert (listed.total, len(listed.findings)) == (MAX_LISTED + 5, MAX_LISTED)
    assert [row.pod for row in listed.findings[:2]] == ["p504", "p503"]


def test_the_example_of_a_queue_is_the_pod_whose_turn_is_next() -> None:
    def queued(name: str, since: float, at: float) -> PendingFinding:
        turn = Turn("node", "n1", TokenRate(0.1, 1), 1, 3, at)
        return replace(finding(name, since), turn=turn)

    found = [queued("first", 0, 90), queued("next", 5, 30), queued("last", 6, 120)]

    [row] = at_once(list_pending(found, PendingQuery(), PendingContext(), ClockPair(0, 0))).reasons

    assert row.example == "default/next"
    assert row.next_turn is not None
    assert (row.next_turn.timestamp(), row.since.timestamp()) == (30, 0)
    assert row.message.startswith(found[1].message(0))


def test_the_example_of_a_group_without_a_queue_is_the_one_that_may_go_next() -> None:
    """Two named budgets are one reason: what is said beside the time is of the budget meant."""
    found = [replace(finding("later", 0), until=90.0), replace(finding("next", 5), until=30.0)]

    [row] = at_once(list_pending(found, PendingQuery(), PendingContext(), ClockPair(0, 0))).reasons

    assert row.example == "default/next"
    assert row.next_until is not None
    assert (row.next_until.timestamp(), row.since.timestamp()) == (30, 0)


@pytest.mark.parametrize("query", [{"pod": "a"}, {"plugin": "Wrong", "pod": "a"}, {"gate": "Gate"}])
def test_filters_narrow_the_list(make_bench: Any, query: dict[str, str]) -> None:
    bench = make_bench().start("a", "b")
    bench.gate.refuse("a", WakeOnCapacity())
    bench.gate.defer("b", 30)
    bench.see(NodeTaintsChanged("n1"), now=10)

    assert [row.pod for row in pending(bench, 10, **query).findings] == ["a"]


def test_an_unknown_filter_is_an_error_that_names_the_others() -> None:
    with pytest.raises(ConfigError, match=r"pdo.*namespace, pod, plugin, gate, reason"):
        PendingQuery.parse({"pdo": "x"})


@pytest.mark.parametrize("every", ["", "true"])
def test_ten_thousand_findings_are_listed_in_slices(every: str) -> None:
    many = [finding(f"p{number}", -number) for number in range(10_000)]

    steps, listed = counted(
        list_pending(many, PendingQuery(all=every), PendingContext(), ClockPair(0, 0))
    )

    assert steps > 10_000 / PODS_PER_SLICE
    assert len(listed.findings) == (10_000 if every else MAX_LISTED)
    assert [(each.findings, each.example) for each in listed.reasons] == [(10_000, "default/p9999")]
    assert len(decode(encode(listed))["findings"]) == len(listed.findings)


def test_what_keeps_a_pod_for_good_comes_last_and_does_not_wait(make_bench: Any) -> None:
    bench = make_bench().start("a", "b", "c")
    bench.gate.defer("a", 30)
    bench.see(NodeTaintsChanged("n1"), now=10)
    found = [
        each for each in bench.evaluator.queue.pending() if each.decision.finding.pod.name == "a"
    ]
    kept = [
        PendingFinding(
            "default",
            DAEMON_SET_POD.refuse(Finding(pod(name, on="n1"), "Wrong", "why"), "of a DaemonSet"),
            (),
            since=0.0,
            until=None,
            trigger=Trigger(),
        )
        for name in ("d", "e", "f")
    ]

    listed = at_once(
        list_pending([*kept, *found], PendingQuery(), PendingContext(), ClockPair(0, 0))
    )

    assert (listed.total, listed.kept) == (4, 3)
    assert [each.findings for each in listed.reasons] == [1, 3]
    assert [each.keeps for each in listed.reasons] == [False, True]


def test_a_query_for_all_is_true_or_false() -> None:
    with pytest.raises(ConfigError, match="write true"):
        PendingQuery.parse({"all": "yes"})
