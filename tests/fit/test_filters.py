"""Which of the nodes is chosen, what of its own a pod does not trip over, and why none will do."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.labels import EVERYTHING, LabelSelector, parse_selector
from reactive_desched.model.objects import (
    ZONE_LABEL,
    ClusterObject,
    CSINode,
    HostPort,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    TopologySpreadConstraint,
)
from reactive_desched.testing.anti_affinity import anti_affinity_term, with_anti_affinity
from reactive_desched.testing.builders import node, pod, with_spec
from tests.support.all_nodes import fitting_nodes
from tests.support.golden import Golden, verbatim

WEB = {"app": "web"}
MOVER = pod("mover", on="n1", labels=WEB, requests={"cpu": "1"})
EVEN = TopologySpreadConstraint(1, ZONE_LABEL, label_selector=LabelSelector(WEB))


@pytest.mark.parametrize(
    ("candidate", "things"),
    [
        pytest.param(MOVER, [], id="its requests"),
        pytest.param(with_spec(MOVER, host_ports=(HostPort(80),)), [], id="its host ports"),
        pytest.param(
            with_anti_affinity(MOVER, anti_affinity_term("app=web")), [], id="its own anti-affinity"
        ),
        pytest.param(
            with_spec(MOVER, topology_spread_constraints=(EVEN,)),
            [node("n2", zone="b")],
            id="its part in the spread",
        ),
        pytest.param(
            replace(MOVER, pvc_names=("data",)),
            [
                PersistentVolumeClaim("default", "data", volume_name="v", read_write_once_pod=True),
                PersistentVolume("v", driver="disks", volume_handle="h", claim_ref="default/data"),
                CSINode("n1", attach_limits={"disks": 1}),
            ],
            id="its volumes",
        ),
        pytest.param(
            replace(MOVER, resize_delta={"cpu": 500}), [], id="what a resize makes it hold"
        ),
    ],
)
def test_what_it_takes_up_itself_keeps_it_off_no_node(
    place: Callable[..., Any], candidate: Pod, things: list[ClusterObject]
) -> None:
    room = {"cpu": "1500m" if candidate.resize_delta else "1", "pods": "1"}
    here = place(node("n1", zone="a", allocatable=room), *things, candidate)

    assert "n1" in fitting_nodes(here.fit, candidate)


def test_elsewhere_is_a_ready_node_of_the_selection_and_never_its_own(
    place: Callable[..., Any],
) -> None:
    nodes = node("n1"), node("n2", ready="False"), node("n3"), node("n4", labels={"pool": "b"})
    here = place(*nodes, MOVER)

    assert here.fit.find_other_node(MOVER, parse_selector("pool=b")) == "n4"
    assert here.fit.find_other_node(MOVER, parse_selector("pool=c")) is None
    assert here.fit.find_other_node(MOVER, parse_selector("!pool")) == "n3"


def test_targets_are_names_whichever_nodes_come_and_go(place: Callable[..., Any]) -> None:
    targets = frozenset({"n2", "n3"})
    here = place(node("n1"), node("n2"), MOVER)
    assert here.fit.find_other_node(MOVER, EVERYTHING, targets) == "n2"

    here.remove(node("n2"))
    here.put(node("n9"))
    assert here.fit.find_other_node(MOVER, EVERYTHING, targets) is None
    assert here.fit.find_node_among(MOVER, targets) is None

    here.put(node("n3"))
    assert here.fit.find_other_node(MOVER, EVERYTHING, targets) == "n3"
    assert here.fit.find_other_node(MOVER, EVERYTHING, frozenset({"n1"})) is None


def test_anywhere_is_its_own_node_if_no_other_will_do(place: Callable[..., Any]) -> None:
    here = place(node("n1"), node("n2", "a:NoSchedule"), node("n3", ready="False"), MOVER)
    assert here.fit.find_any_node(MOVER) == "n1"

    here.put(node("n2"))
    assert here.fit.find_any_node(MOVER) == "n2"

    here.put(node("n2", "a:NoSchedule"), node("n1", unschedulable=True))
    assert here.fit.find_any_node(MOVER) is None


def test_of_the_nodes_that_fit_the_one_with_most_room_is_named(place: Callable[..., Any]) -> None:
    nodes = node("n1"), node("n2"), node("n3"), node("n4")
    here = place(*nodes, MOVER, pod("a", on="n2", requests={"cpu": "1"}), pod("b", on="n4"))

    assert here.fit.find_other_node(MOVER, EVERYTHING) == "n3"


def test_why_not_counts_each_node_once_but_for_several_shortages(
    place: Callable[..., Any],
    golden: Golden,
) -> None:
    nodes = [
        node("n1"),
        node("n2", "a:NoSchedule", unschedulable=True),
        node("n3", allocatable={"cpu": "0", "pods": "0"}),
        node("n4", allocatable={"cpu": "0", "pods": "9"}),
    ]
    here = place(*nodes, MOVER)
    here.fit.find_other_node(MOVER, EVERYTHING)

    found = here.fit.diagnose_other_nodes(MOVER, EVERYTHING)

    assert str(found.diagnosis) == verbatim(
        "0/3 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, 2 Insufficient cpu"
    )
    assert found.message == golden(diagnosis=found.diagnosis)


@pytest.mark.parametrize(
    "candidate",
    [
        pytest.param(MOVER, id="its requests"),
        pytest.param(with_spec(MOVER, host_ports=(HostPort(80),)), id="its host ports"),
        pytest.param(
            with_anti_affinity(MOVER, anti_affinity_term("app=web")), id="its anti-affinity"
        ),
    ],
)
def test_a_pod_fits_in_the_place_of_its_placeholder_until_the_node_changes(
    place: Callable[..., Any], candidate: Pod
) -> None:
    room = {"cpu": "1", "pods": "1"}
    kept = replace(candidate, name="kept", uid="kept", node="n2", labels={"kept": "yes"})
    here = place(node("n1"), node("n2", zone="a", allocatable=room), candidate, kept)

    assert here.fit.diagnose_kept_place(candidate, kept) == ""
    here.put(node("n2", "gpu:NoSchedule", zone="a", allocatable=room))
    assert "untolerated" in here.fit.diagnose_kept_place(candidate, kept)
    here.remove(node("n2"))
    assert here.fit.diagnose_kept_place(candidate, kept) == "node n2 is gone"


def test_what_another_pod_takes_beside_the_placeholder_counts(place: Callable[..., Any]) -> None:
    kept = replace(MOVER, name="kept", uid="kept", node="n2", labels={})
    here = place(node("n1"), node("n2", allocatable={"cpu": "1", "pods": "9"}), MOVER, kept)
    here.put(pod("other", on="n2", requests={"cpu": "500m"}))

    assert "Insufficient cpu" in here.fit.diagnose_kept_place(MOVER, kept)


def test_domains_are_closed_to_a_pod_by_its_spread_and_by_the_anti_affinity_of_others(
    place: Callable[..., Any],
) -> None:
    spread = with_spec(MOVER, topology_spread_constraints=(EVEN,))
    loner = with_anti_affinity(pod("loner", on="n3"), anti_affinity_term("app=web"))
    here = place(
        node("n1", zone="a"),
        *(node("n2", zone="b"), node("n3", zone="a"), node("n4", zone="c")),
        *(spread, pod("web-2", on="n2", labels=WEB), pod("web-4", on="n4", labels=WEB)),
        loner,
    )

    assert here.fit.closed_domains(spread) == {
        ZONE_LABEL: frozenset({"b", "c"}),
        "kubernetes.io/hostname": frozenset({"n3"}),
    }
    assert here.fit.closed_domains(pod("other", on="n1")) == {}
