import msgspec
import pytest

from reactive_desched.gate.in_flight import ConflictPartnersLeaving, InFlightEvictions
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod, PodStatus
from reactive_desched.model.outcomes import EVICTED, FAILED, Outcome
from reactive_desched.model.wakes import WakeOnEviction, WakeOnPod
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod

WEB, DB, API = (pod(name, on="n1") for name in ("web", "db", "api"))


class Bench:
    """A gate, and what it knows of the pods."""

    def __init__(self, *pods: Pod) -> None:
        state = ClusterState()
        state.upsert(node("n1"))
        for one in (WEB, *pods):
            state.upsert(one)
        view = ClusterView(state, lambda: 0.0)
        self.ledger = EvictionLedger(view)
        in_flight = InFlightEvictions(self.ledger, lambda: 0.0)
        self.gate = ConflictPartnersLeaving(view, in_flight)

    def evict(self, one: Pod) -> None:
        self.ledger.decide(Finding(one, "Test", "why"), "test", 0.0)

    def refuses(self, *against: str) -> Refuse | None:
        return self.gate.check(Finding(WEB, "Test", "why", conflicts_with=against), 0.0)


@pytest.mark.parametrize(
    "leaving",
    [
        pytest.param([], id="is gone"),
        pytest.param([msgspec.structs.replace(DB, deletion_s=1)], id="is terminating"),
        pytest.param([msgspec.structs.replace(DB, status=PodStatus("Failed"))], id="has ended"),
    ],
)
def test_a_finding_waits_when_the_only_pod_it_is_against(leaving: list[Pod]) -> None:
    assert Bench(*leaving).refuses("db") is not None


def test_a_finding_waits_from_the_others_eviction_on_and_names_what_it_waits_for() -> None:
    bench = Bench(DB)
    assert bench.refuses("db") is None

    bench.evict(DB)
    refusal = bench.refuses("db")
    assert refusal is not None
    assert refusal.gate == "ConflictPartners"
    assert refusal.reason == "ConflictPartnersLeaving"
    assert refusal.wake_on == (WakeOnPod("web"), WakeOnPod("db"), WakeOnEviction("db"))

    bench.ledger.end("db", Outcome(EVICTED), 0.0)
    assert bench.refuses("db") is not None


def test_a_finding_does_not_wait_for_an_eviction_that_failed() -> None:
    bench = Bench(DB)
    bench.evict(DB)
    bench.ledger.end("db", Outcome(FAILED), 0.0)

    assert bench.refuses("db") is None


def test_one_that_stays_is_enough_to_go() -> None:
    bench = Bench(DB, API)
    bench.evict(DB)

    assert bench.refuses("db", "api") is None
    bench.evict(API)
    assert bench.refuses("db", "api") is not None


def test_a_finding_without_conflicts_does_not_wait() -> None:
    assert Bench().refuses() is None
