from typing import Any

import msgspec
import pytest

from reactive_desched.gate import disruption as disruption_module
from reactive_desched.gate.disruption import ASSUME_TTL_S, RECHECK_AFTER_S, PdbFilter
from reactive_desched.model.changes import NodeAdded, PdbChanged
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import ClusterObject, PodDisruptionBudget, PodStatus
from reactive_desched.model.wakes import WakeOnPdb, WakeOnPod
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import pod
from tests.support.evictions import decide, finish
from tests.support.golden import Golden

A, B, C = (pod(name, on="n1", labels={"app": "web"}) for name in "abc")


def budget(allowed: int, name: str = "web", **fields: Any) -> PodDisruptionBudget:  # any field
    return PodDisruptionBudget(
        fields.pop("namespace", "default"),
        name,
        uid=f"pdb-{name}",
        selector=fields.pop("selector", LabelSelector({"app": "web"})),
        disruptions_allowed=allowed,
        **fields,
    )


class Cluster:
    """A state, a gate over it, and the gate's clock."""

    def __init__(self, *things: ClusterObject) -> None:
        self.now = 0.0
        self.state = ClusterState()
        self.gate = PdbFilter(ClusterView(self.state, lambda: 0), lambda: self.now)
        self.change(A, B, C, *things)

    def change(self, *things: ClusterObject) -> None:
        for thing in things:
            self.gate.apply_changes(self.state.upsert(thing), 0.0)

    def says(self, about: Any) -> Refuse | None:
        return self.gate.check(Finding(about, "Test", "why"), 1000)


def test_a_ready_pod_whose_one_budget_is_spent_waits_for_the_budget_or_a_minute() -> None:
    refusal = Cluster(budget(0)).says(A)

    assert refusal == Refuse(
        Finding(A, "Test", "why"),
        "DisruptionBudget",
        "DisruptionBudget",
        "PodDisruptionBudget web allows 0 disruptions now",
        (WakeOnPdb("default"), WakeOnPod("a")),
        1000 + RECHECK_AFTER_S,
    )


@pytest.mark.parametrize(
    "things",
    [
        pytest.param([], id="no budget"),
        pytest.param([budget(1)], id="room in it"),
        pytest.param([budget(0, namespace="bank")], id="of another namespace"),
        pytest.param([budget(0, selector=LabelSelector({"app": "db"}))], id="over other pods"),
    ],
)
def test_everything_else_is_left_to_the_server(things: list[ClusterObject]) -> None:
    assert Cluster(*things).says(A) is None


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_a_pod_under_two_budgets_waits_for_them_unless_the_server_asks_none(phase: str) -> None:
    about = msgspec.structs.replace(A, status=PodStatus(phase))
    cluster = Cluster(about, budget(5), budget(5, "all", selector=LabelSelector()))

    refusal = cluster.says(about)
    if phase == "Pending":
        assert refusal is None
        return
    assert refusal is not None
    assert refusal.reason == "SeveralDisruptionBudgets"
    assert refusal.message.startswith("PodDisruptionBudgets all, web cover the pod")
    assert refusal.wake_on == (WakeOnPdb("default"), WakeOnPod("a"))
    for change in cluster.state.remove(budget(5, "all")):
        cluster.gate.apply_changes([change], 0.0)
    assert cluster.says(about) is None


def test_a_pod_that_is_not_ready_is_left_to_the_server() -> None:
    starting = msgspec.structs.replace(A, status=PodStatus("Running"))

    assert Cluster(starting, budget(0)).says(starting) is None


def test_evictions_under_way_are_booked_on_the_budget(golden: Golden) -> None:
    cluster = Cluster(budget(2))
    decide(cluster.gate, A)
    assert cluster.says(B) is None
    decide(cluster.gate, B)

    refusal = cluster.says(C)

    assert refusal is not None
    assert refusal.reason == "DisruptionBudget"
    assert refusal.message == golden()
    assert list(cluster.gate._assumed) == ["default/web"]


def test_a_pods_own_booking_does_not_stand_in_its_way() -> None:
    cluster = Cluster(budget(1))
    decide(cluster.gate, A)

    assert cluster.says(A) is None
    assert cluster.says(B) is not None


def test_the_booking_of_an_eviction_that_did_not_happen_is_dropped_and_no_other() -> None:
    cluster = Cluster(budget(2))
    decide(cluster.gate, A)
    decide(cluster.gate, B)
    finish(cluster.gate, A.uid, evicted=False)

    assert cluster.says(C) is None
    decide(cluster.gate, C)
    assert cluster.says(A) is not None
    for one in (B, C):
        finish(cluster.gate, one.uid, evicted=False)
    assert list(cluster.gate._assumed) == []


def test_the_booking_of_one_that_happened_stays_until_the_budgets_status_shows_it() -> None:
    cluster = Cluster(budget(1))
    decide(cluster.gate, A)
    finish(cluster.gate, A.uid, evicted=True)
    assert cluster.says(B) is not None

    cluster.gate.apply_changes([NodeAdded("n2"), PdbChanged("default", "other")], 0.0)
    assert cluster.says(B) is not None
    cluster.change(budget(1))
    assert cluster.says(B) is None


def test_the_message_says_of_a_budget_that_never_allows_one_what_to_change() -> None:
    refusal = Cluster(budget(0, never_allows=True)).says(A)

    assert refusal is not None
    assert "minAvailable" in refusal.message


def test_an_assumed_disruption_ends_by_itself_when_the_budget_does_not_change() -> None:
    cluster = Cluster(budget(1))
    decide(cluster.gate, A)
    cluster.now = ASSUME_TTL_S - 0.1
    assert cluster.says(B) is not None

    cluster.now = ASSUME_TTL_S + 0.1
    assert cluster.says(B) is None


def test_an_eviction_is_booked_on_every_budget_over_the_pod() -> None:
    everyone = budget(1, "all", selector=LabelSelector())
    cluster = Cluster(budget(1), everyone)
    other = pod("other", on="n1")
    cluster.change(other)
    decide(cluster.gate, A)

    assert sorted(cluster.gate._assumed) == ["default/all", "default/web"]
    assert cluster.says(other) is not None


def test_the_oldest_booking_is_dropped_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disruption_module, "MAX_ASSUMED_PDBS", 2)
    cluster = Cluster(*(budget(1, name, selector=LabelSelector({"app": name})) for name in "xyz"))
    for name in "xyz":
        decide(cluster.gate, pod(name, on="n1", labels={"app": name}))

    assert list(cluster.gate._assumed) == ["default/y", "default/z"]
