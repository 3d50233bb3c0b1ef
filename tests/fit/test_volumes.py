"""Whether a pod finds its volumes on the other node: reachable, attachable, and not in use."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.model.objects import (
    ZONE_LABEL,
    ClusterObject,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
)
from reactive_desched.model.volumes import (
    PV_NOT_FOUND,
    READ_WRITE_ONCE_POD_CONFLICT,
    TOO_MANY_VOLUMES,
    VOLUME_NODE_CONFLICT,
    VOLUME_ZONE_CONFLICT,
)
from reactive_desched.testing.builders import node, pod, term
from tests.support.golden import verbatim

KeptOff = Callable[..., str | None]
OLD_ZONE_LABEL = "failure-domain.beta.kubernetes.io/zone"
CLAIMING = replace(pod("mover", on="n1"), pvc_names=("data",))
RIVAL = pod("rival", on="n2")


def claim(name: str = "data", **fields: Any) -> PersistentVolumeClaim:  # any field of a claim
    return PersistentVolumeClaim("default", name, **({"volume_name": f"v-{name}"} | fields))


def volume(name: str = "data", **fields: Any) -> PersistentVolume:  # any field of a volume
    more = {"driver": "disks", "volume_handle": f"h-{name}", "claim_ref": f"default/{name}"}
    return PersistentVolume(f"v-{name}", **(more | fields))


@pytest.mark.parametrize(
    ("things", "why"),
    [
        pytest.param(
            [node("n2")],
            'persistentvolumeclaim "data" not found',
            id="a claim that is not there",
        ),
        pytest.param(
            [node("n2"), claim(deletion_s=1)],
            'persistentvolumeclaim "data" is being deleted',
            id="a claim that is being deleted",
        ),
        pytest.param(
            [node("n2"), claim(phase="Lost"), volume()],
            verbatim('persistentvolumeclaim "data" bound to non-existent persistentvolume'),
            id="a claim that lost its volume",
        ),
        pytest.param([node("n2"), claim(volume_name="")], None, id="a claim not bound yet"),
        pytest.param([node("n2"), claim()], PV_NOT_FOUND, id="a volume that is not there"),
        pytest.param(
            [node("n2"), claim(), volume(required_node_affinity=NodeSelector((term("disk=1"),)))],
            VOLUME_NODE_CONFLICT,
            id="a local volume",
        ),
        pytest.param(
            [node("n2", zone="c"), claim(), volume(topology_labels={ZONE_LABEL: "a__b"})],
            VOLUME_ZONE_CONFLICT,
            id="a volume of other zones",
        ),
        pytest.param(
            [node("n2", zone="b"), claim(), volume(topology_labels={ZONE_LABEL: "a__b"})],
            None,
            id="a volume of two zones",
        ),
        pytest.param(
            [node("n2", zone="b"), claim(), volume(topology_labels={OLD_ZONE_LABEL: "a"})],
            VOLUME_ZONE_CONFLICT,
            id="an old label meets a new one",
        ),
        pytest.param(
            [node("n2", zone="b"), claim(), volume(topology_labels={OLD_ZONE_LABEL: "b"})],
            None,
            id="an old label and a new one agree",
        ),
        pytest.param(
            [node("n2"), claim(), volume(topology_labels={ZONE_LABEL: "a"})],
            None,
            id="a node that does not say where it is",
        ),
        pytest.param(
            [
                node("n2"),
                claim(read_write_once_pod=True),
                volume(),
                replace(RIVAL, pvc_names=("data",)),
            ],
            READ_WRITE_ONCE_POD_CONFLICT,
            id="a claim that serves a single pod serves another",
        ),
        pytest.param(
            [node("n2"), claim(read_write_once_pod=True), volume()],
            None,
            id="or only the pod itself",
        ),
        pytest.param(
            [node("n2"), claim(), volume(), CSINode("n2", attach_limits={"disks": 0})],
            TOO_MANY_VOLUMES,
            id="no volume can be attached",
        ),
        pytest.param(
            [
                *(node("n2"), CSINode("n2", attach_limits={"disks": 1})),
                *(claim(), volume(), claim("more"), volume("more")),
                replace(RIVAL, pvc_names=("more",)),
            ],
            TOO_MANY_VOLUMES,
            id="all that can be are attached",
        ),
        pytest.param(
            [
                *(node("n2"), CSINode("n2", attach_limits={"disks": 0})),
                *(claim(), volume()),
                replace(RIVAL, pvc_names=("data",)),
            ],
            None,
            id="it is attached there already",
        ),
    ],
)
def test_whether_the_other_node_fits(
    kept_off: KeptOff, things: list[ClusterObject], why: str | None
) -> None:
    assert kept_off(CLAIMING, things) == (None if why is None else str(why))


def test_a_volume_that_may_not_be_read_rules_out_no_node(place: Callable[..., Any]) -> None:
    here = place(node("n1"), node("n2"), claim(), CLAIMING)
    assert here.why_not(CLAIMING) == {str(PV_NOT_FOUND): 1}

    here = place(node("n1"), node("n2"), claim(), CLAIMING)
    here.state.set_readable("persistentvolumes", readable=False)
    assert here.why_not(CLAIMING) == {}
