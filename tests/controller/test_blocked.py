import pytest

from reactive_desched.controller.blocked import BlockedFindings
from reactive_desched.model.changes import (
    Change,
    NamespaceChanged,
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeGone,
    NodeLabelsChanged,
    NodeTaintsChanged,
    PdbChanged,
    PodBound,
    PodGone,
    PodLabelsChanged,
    PodMetadataChanged,
    PodSpecChanged,
    PodStatusChanged,
    PodTerminating,
    PriorityClassChanged,
    PvcChanged,
    PvChanged,
)
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.wakes import (
    WakeOn,
    WakeOnCapacity,
    WakeOnEviction,
    WakeOnNamespace,
    WakeOnNode,
    WakeOnNodeAdded,
    WakeOnPdb,
    WakeOnPod,
    WakeOnPriorityClass,
    WakeOnPv,
    WakeOnPvc,
)
from reactive_desched.moves.node_memory import WakeOnAnyNode
from reactive_desched.primitives.long_answers import PORTION
from reactive_desched.state.indexes.owners import OwnerSizeChanged, WakeOnOwner
from reactive_desched.testing.builders import pod

WEB = pod("web", on="n1")
WAKE_TYPES = WakeOn.__subclasses__()
OTHERS = (WakeOnPod("x"), WakeOnNode("x"), WakeOnPdb("x"), WakeOnOwner("x"), WakeOnPvc("x", "x"))


@pytest.mark.parametrize(
    ("change", "fulfilled"),
    [
        pytest.param(
            NodeAdded("n2"),
            {WakeOnAnyNode(), WakeOnCapacity(), WakeOnNodeAdded(), WakeOnNode("n2")},
            id="a node joined",
        ),
        pytest.param(
            NodeCapacityIncreased("n2"),
            {WakeOnAnyNode(), WakeOnCapacity(), WakeOnNode("n2")},
            id="a node was uncordoned or grew",
        ),
        pytest.param(
            NodeTaintsChanged("n2"),
            {WakeOnAnyNode(), WakeOnCapacity(), WakeOnNode("n2")},
            id="taints changed",
        ),
        pytest.param(
            NodeLabelsChanged("n2"),
            {WakeOnAnyNode(), WakeOnCapacity(), WakeOnNode("n2")},
            id="labels changed",
        ),
        pytest.param(
            PodGone(WEB),
            {WakeOnCapacity(), WakeOnPod("web"), WakeOnNode("n1")},
            id="capacity was freed",
        ),
        pytest.param(
            PodSpecChanged(WEB), {WakeOnCapacity(), WakeOnPod("web")}, id="a pod was resized"
        ),
        pytest.param(PodMetadataChanged(WEB), {WakeOnPod("web")}, id="an annotation changed"),
        pytest.param(
            PodLabelsChanged(WEB), {WakeOnCapacity(), WakeOnPod("web")}, id="it may repel no more"
        ),
        pytest.param(PodStatusChanged(WEB), {WakeOnPod("web")}, id="a pod became ready"),
        pytest.param(PodBound(WEB), {WakeOnPod("web")}, id="a pod landed"),
        pytest.param(PodTerminating(WEB), set(), id="terminating frees nothing yet"),
        pytest.param(NodeGone("n2"), {WakeOnAnyNode(), WakeOnNode("n2")}, id="a node left"),
        pytest.param(NodeCapacityDecreased("n2"), {WakeOnNode("n2")}, id="a node was cordoned"),
        pytest.param(PdbChanged("shop", "web"), {WakeOnPdb("shop")}, id="a budget"),
        pytest.param(NamespaceChanged("shop"), {WakeOnNamespace("shop")}, id="a namespace"),
        pytest.param(PvcChanged("shop", "data"), {WakeOnPvc("shop", "data")}, id="a claim"),
        pytest.param(PvChanged("pv-1"), {WakeOnPv("pv-1")}, id="a volume"),
        pytest.param(OwnerSizeChanged("o1"), {WakeOnOwner("o1")}, id="an owner's size"),
        pytest.param(PriorityClassChanged("high"), {WakeOnPriorityClass()}, id="a priority class"),
    ],
)
def test_a_change_fulfils_these_wakes_and_no_others(change: Change, fulfilled: set[WakeOn]) -> None:
    wakes = {kind.fulfilled_by(change) for kind in WAKE_TYPES if type(change) in kind.changes}

    assert wakes == fulfilled
    assert all(wake.matches(change) for wake in fulfilled)
    assert not any(wake.matches(change) for wake in OTHERS)


def blocked_by(*wakes: WakeOn) -> Refuse:
    return Refuse(Finding(WEB, "Test", "why"), "Gate", "Because", "a message", wakes)


def test_a_change_unblocks_only_the_findings_that_wait_for_it() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    blocked.add("stuck", blocked_by(WakeOnCapacity(), WakeOnPod("x")), 0.0, "", ())
    blocked.add("budgeted", blocked_by(WakeOnPdb("shop")), 0.0, "", ())

    assert blocked.affected_by(NodeAdded("n2")) == ["stuck"]
    assert blocked.affected_by(PdbChanged("shop", "web")) == ["budgeted"]
    assert blocked.affected_by(PdbChanged("bank", "web")) == []


def test_a_finding_that_was_taken_out_leaves_nothing_behind() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    decision = blocked_by(WakeOnCapacity())
    blocked.add("stuck", decision, 0.0, "", ("group",))

    removed = blocked.remove("stuck")
    assert removed is not None
    assert removed.decision == decision
    assert blocked.remove("stuck") is None
    assert blocked.affected_by(NodeAdded("n2")) == []
    assert len(blocked._by_wake) == len(blocked._by_group) == 0


def test_a_second_decision_replaces_the_wakes_of_the_first() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    blocked.add("k", blocked_by(WakeOnCapacity()), 0.0, "", ())
    blocked.add("k", blocked_by(WakeOnPdb("shop")), 0.0, "", ())

    assert blocked.affected_by(NodeAdded("n2")) == []
    assert blocked.count_by_gate() == {"Gate": 1}
    blocked.remove("k")
    assert blocked.count_by_gate() == {}


def test_a_finding_that_is_taken_out_during_a_look_at_all_is_not_shown() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    for key in ("a", "b", "c"):
        blocked.add(key, blocked_by(WakeOnCapacity()), 0.0, "", ())

    shown = []
    for key, _ in blocked.snapshot():
        shown.append(key)
        blocked.remove("b")
        blocked.add("d", blocked_by(WakeOnCapacity()), 0.0, "", ())

    assert shown == ["a", "c"]


def taken(blocked: BlockedFindings[str, str, str], group: str) -> list[list[str]]:
    """Take out a group; return the portions."""
    return [list(portion) for portion in blocked.remove_group(group)]


def test_many_findings_of_a_group_are_taken_out_in_portions() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    names = [f"p{number}" for number in range(2 * PORTION + 1)]
    for name in names:
        blocked.add(name, blocked_by(WakeOnCapacity()), 0.0, "", ("n1",))

    left = [(len(portion), len(blocked)) for portion in blocked.remove_group("n1")]

    assert left == [(PORTION, PORTION + 1), (PORTION, 1), (1, 0)]


def test_the_findings_of_a_group_are_taken_out_together() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    for name, group in (("a", "n1"), ("b", "n1"), ("c", "n2")):
        blocked.add(name, blocked_by(WakeOnCapacity()), 0.0, "", (f"pod {name}", group))
    blocked.remove("a")

    assert taken(blocked, "n1") == [["b"]]
    assert taken(blocked, "pod b") == []
    assert blocked.affected_by(NodeAdded("n2")) == ["c"]
    assert taken(blocked, "pod c") == [["c"]]
    assert len(blocked._by_group) == 0


def test_a_deferred_finding_is_also_woken_by_changes_of_its_pod() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    blocked.add("k", Defer(Finding(WEB, "Test", "why"), "Gate", "Spent", "spent", 9.0), 0.0, "", ())

    assert blocked.affected_by(PodGone(WEB)) == ["k"]


def test_the_findings_that_wait_for_one_wake_can_be_listed() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    blocked.add("a", blocked_by(WakeOnEviction("x"), WakeOnCapacity()), 0.0, "", ())
    blocked.add("b", blocked_by(WakeOnEviction("y")), 0.0, "", ())
    blocked.add("c", blocked_by(WakeOnEviction("x")), 0.0, "", ())

    assert blocked.waiting_for(WakeOnEviction("x")) == ["a", "c"]
    assert blocked.waiting_for(WakeOnEviction("z")) == []


def test_a_finding_with_two_wakes_is_woken_by_either() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    blocked.add("a", blocked_by(WakeOnCapacity(), WakeOnPod("web")), 0.0, "", ())

    assert blocked.affected_by(NodeAdded("n2")) == ["a"]
    assert blocked.affected_by(PodMetadataChanged(WEB)) == ["a"]


def test_a_group_has_the_trigger_of_the_findings_that_are_evaluated_with_it() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    decision = blocked_by(WakeOnCapacity())
    blocked.add("a", decision, 0.0, "the cause", ("pod", "node"))

    assert blocked.trigger_of("pod") == "the cause"
    assert blocked.trigger_of("node") is None
    assert blocked.trigger_of("other") is None
    assert (blocked.decision_of("a"), blocked.decision_of("b")) == (decision, None)
    assert "a" in blocked
    assert "node" not in blocked
    assert len(blocked) == 1


def test_a_finding_that_changes_its_group_leaves_the_first_one() -> None:
    blocked: BlockedFindings[str, str, str] = BlockedFindings()
    blocked.add("pod", blocked_by(WakeOnCapacity()), 0.0, "", ("n1",))
    blocked.add("pod", blocked_by(WakeOnCapacity()), 0.0, "", ("n2",))

    assert taken(blocked, "n1") == []
    assert taken(blocked, "n2") == [["pod"]]
