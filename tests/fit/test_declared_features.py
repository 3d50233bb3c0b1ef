"""Features that a pod needs and that nodes declare, as the kube-scheduler's filter reads them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.scheduling import (
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_HOST_NETWORK,
)
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.node import NODE
from reactive_desched.state.kinds.pod import POD
from reactive_desched.testing.builders import node, pod, with_spec
from tests.support.golden import verbatim

PlaceMaker = Callable[..., Any]
RESTART_ALL = {"restartPolicyRules": [{"action": "RestartAllContainers"}]}
MOVER = with_spec(pod("mover", on="n1"), required_features=(RESTART_ALL_CONTAINERS,))


def read(**spec: Any) -> Pod:
    codec = ResourceCodec(POD, InternTables())
    written = {"metadata": {"name": "p", "uid": "p", "namespace": "shop"}, "spec": spec}
    return codec.decode_object(json.dumps(written).encode())


def declaring(name: str, *features: str, version: int = 0) -> Node:
    return replace(node(name, version=version), declared_features=features)


def test_a_place_that_was_found_is_lost_when_its_node_declares_the_feature_no_more(
    place: PlaceMaker,
) -> None:
    have = declaring("n2", RESTART_ALL_CONTAINERS), declaring("n3", RESTART_ALL_CONTAINERS)
    here = place(node("n1"), *have, MOVER)
    found = here.let_go(MOVER)
    assert not here.fit.lost_place(MOVER)

    here.put(declaring(found, version=1))

    assert here.fit.lost_place(MOVER)


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        pytest.param({"containers": [RESTART_ALL]}, (RESTART_ALL_CONTAINERS,), id="a container"),
        pytest.param(
            {"containers": [{}], "initContainers": [RESTART_ALL]},
            (RESTART_ALL_CONTAINERS,),
            id="an init container",
        ),
        pytest.param(
            {"containers": [{"restartPolicyRules": [{"action": "Restart"}]}]}, (), id="a rule"
        ),
        pytest.param({"containers": [{"restartPolicyRules": None}]}, (), id="no rule"),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False},
            (USER_NAMESPACES_HOST_NETWORK,),
            id="own users in the network of the node",
        ),
        pytest.param({"hostNetwork": True}, (), id="the network of the node"),
        pytest.param({"hostUsers": False}, (), id="own users"),
        pytest.param({"hostNetwork": True, "hostUsers": True}, (), id="the users of the node"),
    ],
)
def test_what_a_pod_needs_follows_from_its_spec(
    spec: dict[str, Any], features: tuple[str, ...]
) -> None:
    assert read(**spec).spec.required_features == features


def test_specs_that_need_different_features_are_not_shared() -> None:
    tables = InternTables()
    codec = ResourceCodec(POD, tables)

    def spec_of(name: str, **spec: Any) -> Any:
        written = {"metadata": {"name": name, "uid": name, "namespace": "shop"}, "spec": spec}
        return codec.decode_object(json.dumps(written).encode()).spec

    needs = {
        spec_of("a", containers=[{}]).required_features,
        spec_of("b", containers=[RESTART_ALL]).required_features,
        spec_of("c", containers=[{}], hostNetwork=True, hostUsers=False).required_features,
    }
    assert needs == {(), (RESTART_ALL_CONTAINERS,), (USER_NAMESPACES_HOST_NETWORK,)}


def test_whether_a_pod_preempts_is_read_and_such_specs_are_not_shared() -> None:
    tables = InternTables()
    codec = ResourceCodec(POD, tables)

    def never_preempts(name: str, **spec: Any) -> bool:
        written = {"metadata": {"name": name, "uid": name, "namespace": "shop"}, "spec": spec}
        return bool(codec.decode_object(json.dumps(written).encode()).spec.never_preempts)

    assert not never_preempts("a")
    assert never_preempts("b", preemptionPolicy="Never")
    assert not never_preempts("c", preemptionPolicy="PreemptLowerPriority")
    assert never_preempts("d", preemptionPolicy="Never")


def test_what_a_node_declares_is_read() -> None:
    written = {"metadata": {"name": "n1"}, "status": {"declaredFeatures": ["A", "B"]}}

    read_node = ResourceCodec(NODE, InternTables()).decode_object(json.dumps(written).encode())

    assert read_node.declared_features == ("A", "B")


def test_a_node_takes_a_pod_whose_features_it_declares(place: PlaceMaker) -> None:
    here = place(
        node("n1"),
        declaring("n2", "Other", RESTART_ALL_CONTAINERS),
        declaring("n3", "Other"),
        node("n4"),
        MOVER,
    )

    assert here.fitting(MOVER) == {"n2"}
    here.remove(declaring("n2"))
    assert here.why_not(MOVER) == {verbatim("node(s) didn't match Pod's required features"): 2}


def test_where_no_node_declares_any_feature_none_has_it(place: PlaceMaker) -> None:
    here = place(node("n1"), node("n2"), MOVER)

    assert here.fitting(MOVER) == set()
    assert here.why_not(MOVER) == {verbatim("node(s) didn't match Pod's required features"): 1}


def test_a_pod_that_needs_none_fits_everywhere(place: PlaceMaker) -> None:
    plain = pod("plain", on="n1")

    assert place(node("n1"), declaring("n2", "Other"), node("n3"), plain).fitting(plain) == {
        "n2",
        "n3",
    }


def test_a_pod_that_waits_is_woken_by_a_node_that_declares_more(place: PlaceMaker) -> None:
    here = place(node("n1"), declaring("n2", "Other"), MOVER)
    wakes = here.park(MOVER)

    here.put(declaring("n2", "Other", RESTART_ALL_CONTAINERS, version=2))

    assert here.fit.find_other_node(MOVER, EVERYTHING) == "n2"
    assert {hint.wake for hint in here.fit.take_capacity_hints()} & wakes
