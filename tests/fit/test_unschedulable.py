from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from reactive_desched.fit.unschedulable import GROUP_TTL_S, RETRY_AFTER_S
from reactive_desched.model.decisions import CapacityHint
from reactive_desched.model.labels import EVERYTHING, LabelSelector
from reactive_desched.model.objects import (
    CSINode,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES
from reactive_desched.model.wakes import (
    WakeOn,
    WakeOnGroupCapacity,
    WakeOnNode,
    WakeOnPod,
    WakeOnPv,
    WakeOnPvc,
)
from reactive_desched.testing.builders import node, pod

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SMALL = {"cpu": "1", "memory": "1Gi", "pods": "9"}
WITH_WEB = LabelSelector({"app": "web"})
APART = (PodAffinityTerm(HOST, WITH_WEB),)
TOGETHER = (PodAffinityTerm(HOST, LabelSelector({"app": "cache"})),)
EVEN = (TopologySpreadConstraint(1, HOST, label_selector=WITH_WEB),)
FORMER = (PodAffinityTerm(HOST, WITH_WEB, namespace_selector=LabelSelector({"team": "a"})),)
CLAIM = PersistentVolumeClaim("default", "data", volume_name="v1")
VOLUME = PersistentVolume("v1", driver="disks", volume_handle="h1", claim_ref="default/data")


def sized(name: str, cpu: str, on: str, **more: Any) -> Pod:  # anything pod() takes
    return pod(name, on=on, requests={"cpu": cpu}, **more)


def web(name: str, on: str = "n1", **spec: Any) -> Pod:  # any field of a spec
    made = pod(name, on=on, labels={"app": "web"}, requests={"cpu": "800m"})
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **spec))


def gone(thing: Any) -> Callable[[Any], None]:
    return lambda place: place.remove(thing)


def now(*things: Any) -> Callable[[Any], None]:
    return lambda place: place.put(*things)


def leaving(thing: Pod) -> Pod:
    return msgspec.structs.replace(thing, deletion_s=1)


N1, N2, N3 = (node(name, allocatable=SMALL) for name in ("n1", "n2", "n3"))
FULL = sized("full", "900m", "n2")
MOVER = web("mover")
TWIN = msgspec.structs.replace(MOVER, name="twin", uid="twin")
HERMIT = web("hermit", anti_affinity=APART)
REPELLER = web("repeller", on="n2", anti_affinity=APART, requests={})
RIVAL = web("rival", on="n2", requests={})
FOREIGN = pod("foreign", on="n2", namespace="bank", labels={"app": "web"})
MOUNTING = msgspec.structs.replace(web("mounting", requests={}), pvc_names=("data",))
OTHERS = msgspec.structs.replace(pod("others", on="n2"), pvc_names=("more",))


@pytest.mark.parametrize(
    ("things", "mover", "change", "is_told"),
    [
        pytest.param([N2, FULL], MOVER, gone(FULL), True, id="a pod that filled a node is gone"),
        pytest.param(
            [N2, sized("a", "500m", "n2"), FULL],
            MOVER,
            gone(FULL),
            False,
            id="one is gone, and there is still too little room",
        ),
        pytest.param(
            [node("n2", "a:NoSchedule", allocatable=SMALL), FULL],
            MOVER,
            gone(FULL),
            False,
            id="one is gone from a node that is closed to it",
        ),
        pytest.param([N2, FULL], MOVER, now(leaving(FULL)), False, id="its deletion has begun"),
        pytest.param(
            [N2, FULL],
            MOVER,
            now(
                msgspec.structs.replace(
                    FULL, status=msgspec.structs.replace(FULL.status, phase="Failed")
                )
            ),
            True,
            id="it has failed",
        ),
        pytest.param(
            [N2, FULL], MOVER, now(sized("full", "100m", "n2")), True, id="it was resized"
        ),
        pytest.param([], MOVER, now(N2), True, id="a node was added"),
        pytest.param(
            [node("n2", unschedulable=True)], MOVER, now(node("n2")), True, id="uncordoned"
        ),
        pytest.param([node("n2", "a:NoSchedule")], MOVER, now(node("n2")), True, id="untainted"),
        pytest.param([node("n2", ready="False")], MOVER, now(node("n2")), True, id="ready again"),
        pytest.param([N2, FULL], MOVER, now(node("n2")), True, id="a node grew"),
        pytest.param(
            [N2],
            web("picky", node_selector={"disk": "ssd"}),
            now(node("n2", labels={"disk": "ssd"})),
            True,
            id="a node got the label it wants",
        ),
        pytest.param(
            [N2],
            web("picky", node_selector={"disk": "ssd"}),
            now(node("n2", labels={"disk": "tape"})),
            False,
            id="a node got another label",
        ),
        pytest.param([N2, REPELLER], HERMIT, gone(REPELLER), True, id="whom it avoids is gone"),
        pytest.param(
            [N2, REPELLER, sized("small", "10m", "n2")],
            HERMIT,
            gone(sized("small", "10m", "n2")),
            False,
            id="a pod that it avoids left another node",
        ),
        pytest.param(
            [N2, REPELLER], MOVER, gone(REPELLER), True, id="who does not want it near is gone"
        ),
        pytest.param(
            [N2, RIVAL],
            HERMIT,
            now(msgspec.structs.replace(RIVAL, labels={"app": "db"}, resource_version=1)),
            True,
            id="whom it avoids is called otherwise",
        ),
        pytest.param(
            [N2, FOREIGN, Namespace("bank", labels={"team": "a"})],
            web("hermit", anti_affinity=FORMER),
            now(Namespace("bank", resource_version=1)),
            True,
            id="the namespace of whom it avoids is called otherwise",
        ),
        pytest.param(
            [N2, pod("c", on="n1", labels={"app": "cache"})],
            web("friend", pod_affinity=TOGETHER),
            now(pod("cache", on="n2", labels={"app": "cache"})),
            True,
            id="whom it wants near has come",
        ),
        pytest.param(
            [N2, web("a", on="n2", requests={})],
            web("even", topology_spread_constraints=EVEN),
            now(web("b", on="n1", requests={})),
            True,
            id="another one came where there are fewest",
        ),
        pytest.param(
            [N2, web("a", on="n2", requests={})],
            web("even", topology_spread_constraints=EVEN),
            now(leaving(web("a", on="n2", requests={}))),
            True,
            id="one leaves where there are most",
        ),
        pytest.param(
            [
                N2,
                node("n3", labels={HOST: "h3"}, allocatable=SMALL),
                web("a", on="n2", requests={}),
                web("b", on="n3", requests={}),
                FULL,
                sized("full3", "900m", "n3"),
            ],
            web("even", topology_spread_constraints=EVEN, requests={}),
            now(node("n1", labels={HOST: "n2"}, allocatable=SMALL)),
            True,
            id="the emptiest domain is none any more",
        ),
        pytest.param(
            [
                N2,
                CLAIM,
                VOLUME,
                CSINode("n2", attach_limits={"disks": 1}),
                OTHERS,
                PersistentVolumeClaim("default", "more", volume_name="v2"),
                PersistentVolume(
                    "v2", driver="disks", volume_handle="h2", claim_ref="default/more"
                ),
            ],
            MOUNTING,
            gone(OTHERS),
            True,
            id="a volume was detached",
        ),
        pytest.param(
            [N2, CLAIM, VOLUME, CSINode("n2", attach_limits={"disks": 0})],
            MOUNTING,
            now(CSINode("n2", attach_limits={"disks": 1}, resource_version=1)),
            True,
            id="a driver can attach more",
        ),
        pytest.param(
            [
                node("n2", labels={ZONE: "b"}),
                CLAIM,
                msgspec.structs.replace(VOLUME, topology_labels={ZONE: "a"}),
            ],
            MOUNTING,
            now(node("n2", labels={ZONE: "a"})),
            True,
            id="the node is where the volume is",
        ),
    ],
)
def test_a_waiting_pod_gets_a_hint_of_what_could_help(
    place: Callable[..., Any],
    things: list[Any],
    mover: Pod,
    change: Callable[[Any], None],
    is_told: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    here = place(N1, *things, mover)
    waits_for = here.park(mover)

    change(here)

    assert {room.wake for room in here.fit.take_capacity_hints()} & waits_for == (
        {wake for wake in waits_for if isinstance(wake, WakeOnGroupCapacity)} if is_told else set()
    )
    if is_told:
        assert here.fit.find_other_node(mover, EVERYTHING) == "n2"


def test_as_many_are_woken_as_there_is_room_for_and_none_from_that_node(
    place: Callable[..., Any],
) -> None:
    here = place(N1, N2, FULL, MOVER, TWIN)
    (wake,) = here.park(MOVER) & here.park(TWIN)

    here.put(node("n3", allocatable={"cpu": "2", "memory": "1Gi", "pods": "9"}))

    assert here.fit.take_capacity_hints() == [CapacityHint(wake, 2, "n3")]
    assert here.fit.take_capacity_hints() == []


def test_pods_with_rules_about_others_are_each_searched_for(place: Callable[..., Any]) -> None:
    here = place(N1, N2, RIVAL, HERMIT)
    (wake,) = (wake for wake in here.park(HERMIT) if isinstance(wake, WakeOnGroupCapacity))

    here.put(N3)

    assert here.fit.take_capacity_hints()[0] == CapacityHint(wake)


def test_pods_that_ask_for_the_same_wait_for_the_same(place: Callable[..., Any]) -> None:
    here = place(N1, N2, FULL)

    same = here.park(MOVER) & here.park(TWIN)
    other = here.park(web("third", requests={"cpu": 900}))

    assert {type(wake) for wake in same} == {WakeOnGroupCapacity}
    assert not same & other


def test_a_pod_that_finds_a_node_wakes_the_next_of_its_group(place: Callable[..., Any]) -> None:
    here = place(N1, N2, FULL)
    waits_for = here.park(MOVER)
    here.remove(FULL)
    here.fit.take_capacity_hints()

    here.fit.find_other_node(TWIN, EVERYTHING)

    (news,) = here.fit.take_capacity_hints()
    assert news.wake in waits_for
    assert news.slots == 1


def test_a_waiting_pod_is_evaluated_again_in_the_end(place: Callable[..., Any]) -> None:
    here = place(N1, N2, FULL)
    here.now = 1000.0
    here.fit.find_other_node(MOVER, EVERYTHING)

    assert here.fit.diagnose_other_nodes(MOVER, EVERYTHING).until == 1000.0 + RETRY_AFTER_S


def test_a_group_without_pods_is_forgotten(place: Callable[..., Any]) -> None:
    here = place(N1, N2, FULL)
    before = here.park(MOVER)

    here.now = GROUP_TTL_S
    here.park(web("other", requests={"cpu": 950}))
    here.remove(FULL)

    assert not before & {room.wake for room in here.fit.take_capacity_hints()}


@pytest.mark.parametrize(
    ("things", "keys"),
    [
        pytest.param([], {WakeOnPvc("default", "data")}, id="its claim"),
        pytest.param(
            [CLAIM], {WakeOnPvc("default", "data"), WakeOnPv("v1")}, id="its claim and volume"
        ),
        pytest.param(
            [
                msgspec.structs.replace(CLAIM, read_write_once_pod=True),
                VOLUME,
                msgspec.structs.replace(OTHERS, pvc_names=("data",)),
            ],
            {WakeOnPvc("default", "data"), WakeOnPv("v1"), WakeOnPod("others")},
            id="who else holds a claim for one pod",
        ),
    ],
)
def test_a_pod_with_claims_waits_for_their_volumes(
    place: Callable[..., Any], things: list[Any], keys: set[WakeOn]
) -> None:
    here = place(N1, N2, *things, MOUNTING)

    (room,) = here.park(MOUNTING) - keys - {WakeOnPod("mounting")}

    assert isinstance(room, WakeOnGroupCapacity)
    assert keys < here.park(MOUNTING)


def test_a_search_of_any_node_waits_for_the_pods_own_too(place: Callable[..., Any]) -> None:
    here = place(node("n1", unschedulable=True), MOVER)
    assert here.fit.find_any_node(MOVER) is None

    found = here.fit.diagnose_any_node(MOVER)

    assert WakeOnNode("n1") in found.wake_on
    assert found.message == f"no node fits the pod: {found.diagnosis}"


def test_a_reload_forgets_waiting_pods(place: Callable[..., Any]) -> None:
    here = place(N1, N2, FULL)
    here.park(MOVER)

    here.fit.reconfigure(DEFAULT_PROFILES)
    here.remove(FULL)

    assert here.fit.take_capacity_hints() == ()


def test_room_on_any_node_wakes_all_pods_with_targets(place: Callable[..., Any]) -> None:
    """One of them may have other targets than the first."""
    here = place(node("n1"), node("n2", allocatable={"cpu": "0", "pods": "9"}), MOVER)
    assert here.fit.find_other_node(MOVER, EVERYTHING, frozenset({"n2"})) is None
    here.fit.diagnose_other_nodes(MOVER, EVERYTHING, frozenset({"n2"}))
    here.fit.take_capacity_hints()

    here.put(node("n3", allocatable={"cpu": "1", "pods": "1"}))

    assert [hint.slots for hint in here.fit.take_capacity_hints()] == [None]
