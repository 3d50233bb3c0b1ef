from typing import Any

import pytest

from reactive_desched.fit.upstream import UpstreamNodeFit
from reactive_desched.gate.evictor import (
    EvictorFilters,
    MinReadyNodes,
    NamespaceFilter,
    NodeFitFilter,
)
from reactive_desched.gate.filters import PodFilter, pod_filters
from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import EVERYTHING, LabelSelector, parse_selector
from reactive_desched.model.objects import ClusterObject, Namespace, Pod
from reactive_desched.model.wakes import (
    WakeOn,
    WakeOnCapacity,
    WakeOnNamespace,
    WakeOnNodeAdded,
    WakeOnPod,
    WakeOnPriorityClass,
    WakeOnPvc,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod

WEB = pod("web", on="n1")
FINDING = Finding(WEB, "Test", "why")


def view(*things: ClusterObject, selects: str = "") -> ClusterView:
    state = ClusterState(parse_selector(selects))
    for thing in things:
        state.upsert(thing)
    return ClusterView(state, lambda: 50.0)


def test_fewer_than_two_counting_nodes_wait_for_another() -> None:
    alone = MinReadyNodes(view(node("n1"), node("n2", ready="False")))

    refusal = alone.check(FINDING, 0)

    assert refusal is not None
    assert (refusal.gate, refusal.reason) == ("MinReadyNodes", "TooFewReadyNodes")
    assert refusal.wake_on == (WakeOnNodeAdded(), WakeOnPod(FINDING.pod.uid))
    assert MinReadyNodes(view(node("n1"), node("n2"))).check(FINDING, 0) is None


def test_nodes_the_policy_leaves_out_do_not_make_two() -> None:
    pool = {"pool": "a"}
    seen = view(node("n1", labels=pool), node("n2"), selects="pool=a")

    assert MinReadyNodes(seen).check(FINDING, 0) is not None


@pytest.mark.parametrize(
    ("namespaces", "goes"),
    [
        pytest.param([Namespace("default", labels={"env": "prod"})], True, id="it matches"),
        pytest.param([Namespace("default", labels={"env": "test"})], False, id="other labels"),
        pytest.param([Namespace("bank", labels={"env": "prod"})], False, id="it is not known"),
    ],
)
def test_the_pods_namespace_must_match(
    namespaces: list[Namespace],
    goes: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    gate = NamespaceFilter(LabelSelector({"env": "prod"}), view(*namespaces))

    refusal = gate.check(FINDING, 0)

    assert (refusal is None) == goes
    if refusal is not None:
        assert refusal.gate == "NamespaceLabelSelector"
        assert refusal.wake_on == (WakeOnNamespace("default"), WakeOnPod("web"))


TAINTED = node("n2", "gpu:NoSchedule")


def fit(*things: ClusterObject, asks: bool, needs: bool, selector: str = "") -> str | None:
    seen = view(WEB, *things)
    chosen = parse_selector(selector) if selector else EVERYTHING
    gate = NodeFitFilter(UpstreamNodeFit(seen), chosen, evictor_requires=asks)
    refusal = gate.check(Finding(WEB, "Test", "why", needs_fit=needs), 0)
    if refusal is None:
        return None
    assert isinstance(refusal, Refuse)
    assert refusal.gate == "NodeFit"
    assert refusal.wake_on == (WakeOnCapacity(), WakeOnPod("web"))
    return refusal.reason


@pytest.mark.parametrize(
    ("things", "settings", "reason"),
    [
        pytest.param([node("n1"), TAINTED], {}, None, id="nobody asks"),
        pytest.param(
            [node("n1"), TAINTED], {"asks": True}, "NoOtherNodeFits", id="evictor: no other"
        ),
        pytest.param([node("n1"), node("n2")], {"asks": True}, None, id="evictor: another fits"),
        pytest.param([node("n1"), TAINTED], {"needs": True}, None, id="plugin: its own node will"),
        pytest.param(
            [node("n1", "gpu:NoSchedule"), TAINTED],
            {"needs": True},
            "NoNodeFits",
            id="plugin: none at all",
        ),
        pytest.param(
            [node("n1"), node("n2")],
            {"asks": True, "selector": "pool=a"},
            "NoOtherNodeFits",
            id="evictor: no other node of its selector",
        ),
    ],
)
def test_some_node_must_fit_when_node_fit_is_on(
    things: list[ClusterObject], settings: dict[str, Any], reason: str | None
) -> None:
    assert fit(*things, **({"asks": False, "needs": False} | settings)) == reason


def named(name: str, says: str | None, **more: Any) -> PodFilter:  # any field of a filter
    reason = GateReason(name, f"{name}Reason", "")
    return PodFilter(name, lambda _pod, _view: None if says is None else (reason, says), **more)


def test_the_first_guard_that_says_no_is_the_one_named() -> None:
    gate = EvictorFilters(
        (named("Silent", None), named("First", "no"), named("Second", "never")),
        view(),
        mandatory_no_eviction=False,
    )

    refusal = gate.check(FINDING, 0)

    assert refusal == Refuse(FINDING, "First", "FirstReason", "no", (WakeOnPod("web"),))
    assert [(reason.gate, says) for reason, says in gate.rejections(WEB)] == [
        ("First", "no"),
        ("Second", "never"),
    ]


def test_a_guard_says_what_could_lift_it_and_when_in_monotonic_time() -> None:
    def wakes(about: Pod) -> tuple[WakeOn, ...]:
        return (WakeOnPvc(about.namespace, about.name),)

    gate = EvictorFilters(
        (named("Young", "too young", wakes=wakes, retry_at_s=lambda _: 62.0),),
        view(),
        mandatory_no_eviction=False,
    )

    refusal = gate.check(FINDING, 1000.0)

    assert refusal is not None
    assert refusal.wake_on == (WakeOnPvc("default", "web"),)
    assert refusal.retry_at_s == 1012.0


def test_a_guard_that_should_be_open_already_is_asked_again_at_once_never_in_the_past() -> None:
    gate = EvictorFilters(
        (named("Young", "too young", retry_at_s=lambda _: 30.0),),
        view(),
        mandatory_no_eviction=False,
    )
    refusal = gate.check(FINDING, 1000.0)

    assert refusal is not None
    assert refusal.retry_at_s == 1000.0


def wakes_of(args: dict[str, Any], candidate: Pod) -> tuple[WakeOn, ...]:
    made = pod_filters(DefaultEvictorArgs.model_validate(args))
    refusal = EvictorFilters(made, view(candidate), mandatory_no_eviction=False).check(
        Finding(candidate, "Test", "why"), 0
    )
    assert refusal is not None
    return refusal.wake_on


def test_a_guard_over_claims_waits_for_each_of_the_pods_claims() -> None:
    import msgspec

    claiming = msgspec.structs.replace(WEB, pvc_names=("data", "logs"))
    args = {"podProtections": {"extraEnabled": ("PodsWithPVC",)}}

    assert wakes_of(args, claiming) == (
        WakeOnPod("web"),
        WakeOnPvc("default", "data"),
        WakeOnPvc("default", "logs"),
    )


def test_a_guard_over_priorities_waits_for_priority_classes() -> None:
    args = {"priorityThreshold": {"name": "high"}}

    assert wakes_of(args, pod("web", on="n1", priority=5)) == (
        WakeOnPod("web"),
        WakeOnPriorityClass(),
    )
