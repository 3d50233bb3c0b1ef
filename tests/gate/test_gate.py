import pytest

from reactive_desched.gate.gate import Gate, GateFilter
from reactive_desched.gate.policy_limits import PolicyLimits
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import Defer, Evict, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import (
    CANCELLED,
    CONFLICT,
    DENIED,
    DRY_RUN,
    EVICTED,
    FAILED,
    NOT_FOUND,
    PDB_REFUSED,
    TOO_MANY_REQUESTS,
    Outcome,
)
from reactive_desched.testing.builders import pod
from tests.support.evictions import decide, gate_of
from tests.support.limits import make_rate_limiter

WEB = Finding(pod("web", on="n1"), "Test", "why")
DB = Finding(pod("db", on="n1"), "Test", "why")
ONE = {"cluster": TokenRate(0.001, 1)}


class Fixed:
    """A step that always says the same, and remembers whom it was asked about."""

    def __init__(self, name: str, says: str | None = None) -> None:
        self.name = name
        self.says = says
        self.asked: list[str] = []

    def check(self, finding: Finding, _: float) -> Refuse | None:
        self.asked.append(finding.pod.name)
        return Refuse(finding, self.name, self.says, "why") if self.says is not None else None


class Memory(EvictionParticipant):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def decided(self, eviction: Eviction) -> None:
        self.told.append(("begin", eviction.origin.pod_name))

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        self.told.append(("gone" if eviction.leaves else "stays", eviction.origin.pod_name))


def gate(
    *steps: GateFilter,
    rates: dict[str, TokenRate | None] | None = None,
    limits: dict[str, int | None] | None = None,
    memories: tuple[Memory, ...] = (),
) -> Gate:
    counting = PolicyLimits(limits or {}), make_rate_limiter(rates or {})
    return gate_of(*steps, *counting, memories=memories)


def test_the_first_refusal_is_the_decision_and_no_later_filter_is_asked() -> None:
    steps = Fixed("A"), Fixed("B", "No"), Fixed("C", "Never")
    memory = Memory()

    assert gate(*steps, memories=(memory,)).decide(WEB, 0) == Refuse(WEB, "B", "No", "why")
    assert [step.asked for step in steps] == [["web"], ["web"], []]
    assert memory.told == []


def test_when_no_filter_refuses_the_pod_is_evicted_and_every_tracker_counts_it() -> None:
    first, second = Memory(), Memory()

    assert gate(Fixed("A"), memories=(first, second)).decide(WEB, 0) == Evict(WEB)
    assert first.told == second.told == [("begin", "web")]


def test_what_a_step_refuses_costs_no_token_and_no_place_in_the_window() -> None:
    budgets, windows = make_rate_limiter(ONE), PolicyLimits({"cluster": 1})
    gate_of(Fixed("A", "no"), windows, budgets).decide(WEB, 0)

    assert gate_of(windows, budgets).decide(DB, 0) == Evict(DB)


def test_what_the_window_defers_costs_no_token() -> None:
    budgets, windows = make_rate_limiter(ONE), PolicyLimits({"node": 1})
    shared = gate_of(windows, budgets)
    decide(windows, Finding(pod("other", on="n1"), "Test", "why"))

    assert isinstance(shared.decide(WEB, 0), Defer)
    elsewhere = Finding(pod("x", on="n2"), "Test", "why")
    assert shared.decide(elsewhere, 0) == Evict(elsewhere)


def test_a_spent_budget_defers_and_names_its_scope() -> None:
    one = gate(rates={"node": TokenRate(0.1, 1)})
    one.decide(WEB, 0)

    deferred = one.decide(DB, 0)

    assert isinstance(deferred, Defer)
    assert (deferred.gate, deferred.reason) == ("EvictionRateLimit", "EvictionRateLimited")
    assert (deferred.retry_at_s, deferred.scope_exhausted) == (10.0, "node")
    assert "node n1" in deferred.message


def test_a_spent_budget_takes_no_place_in_the_window_and_reserves_in_no_tracker() -> None:
    memory = Memory()
    windows = PolicyLimits({"cluster": 2})
    one = gate_of(windows, make_rate_limiter(ONE), memories=(memory,))
    one.decide(WEB, 0)
    one.decide(DB, 0)

    assert memory.told == [("begin", "web")]
    assert windows.check(DB, 0) is None


@pytest.mark.parametrize(
    ("result", "left", "costs"),
    [
        pytest.param(EVICTED, True, True, id="evicted"),
        pytest.param(DRY_RUN, True, True, id="a dry run, which costs what it would"),
        pytest.param(NOT_FOUND, True, False, id="gone by itself"),
        pytest.param(PDB_REFUSED, False, False, id="refused by a budget"),
        pytest.param(TOO_MANY_REQUESTS, False, False, id="overload"),
        pytest.param(CONFLICT, False, False, id="replaced"),
        pytest.param(DENIED, False, False, id="denied"),
        pytest.param(FAILED, False, False, id="failed"),
        pytest.param(CANCELLED, False, False, id="cancelled"),
    ],
)
def test_only_what_happened_costs_and_only_pods_that_left_are_remembered(
    result: str,
    left: bool,  # noqa: FBT001 -- what a row expects
    costs: bool,  # noqa: FBT001 -- as above
) -> None:
    memory = Memory()
    paced = gate(rates=dict(ONE), memories=(memory,))
    limited = gate(limits={"cluster": 1})
    for one in (paced, limited):
        one.decide(WEB, 0)
        assert isinstance(one.decide(DB, 0), Defer)
        one._ledger.end("web", Outcome(result), 1)

    assert memory.told == [("begin", "web"), ("gone" if left else "stays", "web")]
    assert isinstance(paced.decide(DB, 1), Defer) == costs
    assert isinstance(limited.decide(DB, 1), Defer) == costs
