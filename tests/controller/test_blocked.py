import pytest

from reactive_desched.controller.blocked import BlockedFindings, wake_keys
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
from reactive_desched.model.decisions import Defer, Refuse, WakeKey
from reactive_desched.model.findings import Finding
from reactive_desched.state.indexes.owners import OwnerSizeChanged
from reactive_desched.testing.builders import pod

WEB = pod("web", on="n1")


@pytest.mark.parametrize(
    ("change", "news_for"),
    [
        pytest.param(NodeAdded("n2"), {("room",), ("nodes",), ("node", "n2")}, id="a node joined"),
        pytest.param(
            NodeCapacityIncreased("n2"),
            {("room",), ("node", "n2")},
            id="a node was uncordoned or grew",
        ),
        pytest.param(NodeTaintsChanged("n2"), {("room",), ("node", "n2")}, id="taints changed"),
        pytest.param(NodeLabelsChanged("n2"), {("room",), ("node", "n2")}, id="labels changed"),
        pytest.param(
            PodGone(WEB), {("room",), ("pod", "web"), ("node", "n1")}, id="capacity was freed"
        ),
        pytest.param(PodSpecChanged(WEB), {("room",), ("pod", "web")}, id="a pod was resized"),
        pytest.param(PodMetadataChanged(WEB), {("pod", "web")}, id="an annotation changed"),
        pytest.param(PodLabelsChanged(WEB), {("room",), ("pod", "web")}, id="it may repel no more"),
        pytest.param(PodStatusChanged(WEB), {("pod", "web")}, id="a pod became ready"),
        pytest.param(PodBound(WEB), {("pod", "web")}, id="a pod landed"),
        pytest.param(PodTerminating(WEB), set(), id="terminating frees nothing yet"),
        pytest.param(NodeGone("n2"), {("node", "n2")}, id="a node left"),
        pytest.param(NodeCapacityDecreased("n2"), {("node", "n2")}, id="a node was cordoned"),
        pytest.param(PdbChanged("shop", "web"), {("budgets", "shop")}, id="a budget"),
        pytest.param(NamespaceChanged("shop"), {("namespace", "shop")}, id="a namespace"),
        pytest.param(PvcChanged("shop", "data"), {("claim", "shop/data")}, id="a claim"),
        pytest.param(PvChanged("pv-1"), {("volume", "pv-1")}, id="a volume"),
        pytest.param(OwnerSizeChanged("o1"), {("owner", "o1")}, id="an owner's size"),
        pytest.param(PriorityClassChanged("high"), {("priorityclasses",)}, id="a priority class"),
    ],
)
def test_what_a_change_is_news_for(change: Change, news_for: set[WakeKey]) -> None:
    assert set(wake_keys(change)) == news_for


def refusal(*waits_for: WakeKey) -> Refuse:
    return Refuse(Finding(WEB, "Test", "why"), "Gate", "because", waits_for)


def test_only_keys_that_wait_for_the_news_are_woken() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    parking.add("stuck", refusal(("room",), ("pod", "x")), "", "stuck")
    parking.add("budgeted", refusal(("budgets", "shop")), "", "budgeted")

    assert parking.affected_by(NodeAdded("n2")) == ["stuck"]
    assert parking.affected_by(PdbChanged("shop", "web")) == ["budgeted"]
    assert parking.affected_by(PdbChanged("bank", "web")) == []


def test_a_key_that_left_is_woken_by_nothing_and_leaves_nothing_behind() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    verdict = refusal(("room",))
    parking.add("stuck", verdict, "", "stuck")

    assert parking.remove("stuck") == verdict
    assert parking.remove("stuck") is None
    assert parking.affected_by(NodeAdded("n2")) == []
    assert parking._by_wake_key == {}


def test_parking_again_replaces_what_a_key_waits_for() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    parking.add("k", refusal(("room",)), "", "k")
    parking.add("k", refusal(("budgets", "shop")), "", "k")

    assert parking.affected_by(NodeAdded("n2")) == []
    assert parking.count_by_gate() == {"Gate": 1}


def test_a_family_leaves_together() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    parking.add("pod a", refusal(("room",)), "", "node")
    parking.add("pod b", refusal(("room",)), "", "node")
    parking.add("pod c", refusal(("room",)), "", "pod c")

    assert set(parking.remove_group("node")) == {"pod a", "pod b"}
    assert parking.affected_by(NodeAdded("n2")) == ["pod c"]
    assert parking._groups == {}


def test_a_member_that_left_alone_is_not_in_the_family_any_more() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    parking.add("pod a", refusal(("room",)), "", "node")
    parking.remove("pod a")

    assert parking.remove_group("node") == {}


def test_a_deferred_key_is_also_woken_by_news_of_its_pod() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    parking.add("k", Defer(Finding(WEB, "Test", "why"), "EvictionBudget", "spent", 9.0), "", "k")

    assert parking.affected_by(PodGone(WEB)) == ["k"]


def test_those_who_wait_for_one_thing_are_named_without_waking_the_others() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    parking.add("a", refusal(("eviction", "x"), ("room",)), "", "a")
    parking.add("b", refusal(("eviction", "y")), "", "b")

    assert parking.waiting_for(("eviction", "x")) == ["a"]
    assert parking.waiting_for(("eviction", "z")) == []


def test_a_key_that_waits_for_two_things_is_woken_by_either() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    parking.add("a", refusal(("room",), ("pod", "web")), "", "a")

    assert parking.affected_by(NodeAdded("n2")) == ["a"]
    assert parking.affected_by(PodMetadataChanged(WEB)) == ["a"]


def test_what_first_led_to_a_key_and_what_it_waits_with_can_be_asked() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    verdict = refusal(("room",))
    parking.add("a", verdict, "the cause", "node")

    assert (parking.trigger_of("a"), parking.decision_of("a")) == ("the cause", verdict)
    assert (parking.trigger_of("b"), parking.decision_of("b")) == (None, None)
    assert "a" in parking
    assert "node" not in parking
    assert len(parking) == 1


def test_a_parent_that_is_blocked_itself_leaves_with_its_family() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    parking.add("node", refusal(("room",)), "", "node")
    parking.add("pod", refusal(("owner", "o")), "", "node")

    assert set(parking.remove_group("node")) == {"node", "pod"}
    assert len(parking) == 0


def test_parking_again_under_another_parent_leaves_the_first_family() -> None:
    parking: BlockedFindings[str, str] = BlockedFindings()
    parking.add("pod", refusal(("room",)), "", "n1")
    parking.add("pod", refusal(("room",)), "", "n2")

    assert parking.remove_group("n1") == {}
    assert set(parking.remove_group("n2")) == {"pod"}
