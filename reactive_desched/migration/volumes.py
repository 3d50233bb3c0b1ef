"""From which nodes a pod's volumes can be reached: a placeholder mounts none, but has to be there.

The replacement uses the same PersistentVolumeClaims, which are bound by now. A placeholder that
had them would have the volumes attached to its node while the pod still writes to them.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.model.labels import Requirement
from reactive_desched.model.node_affinity import NodeSelector, NodeSelectorTerm
from reactive_desched.model.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    controller_of,
)
from reactive_desched.model.volumes import pvc_error, topology_requirements
from reactive_desched.state.cluster import ClusterView

_MAKES_PODS_LATE: Final = "StatefulSet"


class VolumeReach(Struct, frozen=True, gc=False):
    """The labels that a placeholder's node must have for its volumes: each of `selectors`.

    `error` says why no placeholder can stand in for the pod; empty where one can. The claims that
    are `exclusive` are for one pod at a time.
    """

    selectors: tuple[NodeSelector, ...] = ()
    error: str = ""
    exclusive: tuple[str, ...] = ()


ANYWHERE: Final = VolumeReach()
"""What a pod without a PersistentVolumeClaim needs."""


def reach_of(pod: Pod, view: ClusterView) -> VolumeReach:
    """Return what the volumes of a pod ask of a node."""
    if not pod.pvc_names:
        return ANYWHERE
    selectors: list[NodeSelector] = []
    exclusive: list[str] = []
    for name in pod.pvc_names:
        claim = view.store(PersistentVolumeClaim).get(f"{pod.namespace}/{name}")
        if (reason := pvc_error(claim, name)) is not None:
            return VolumeReach(error=reason.message)
        assert claim is not None, "a claim that is not there is an error"
        if not claim.volume_name:
            return VolumeReach(error=f'persistentvolumeclaim "{name}" is not bound')
        if claim.read_write_once_pod:
            exclusive.append(name)
        if (volume := view.store(PersistentVolume).get(claim.volume_name)) is None:
            return VolumeReach(error=f'persistentvolume "{claim.volume_name}" cannot be read')
        selectors += _selectors(volume)
    error = ""
    if exclusive and not _comes_late(pod):
        words = "is ReadWriteOncePod: no replacement has a node before the pod is gone"
        error = f'persistentvolumeclaim "{exclusive[0]}" {words}'
    return VolumeReach(tuple(dict.fromkeys(selectors)), error, tuple(exclusive))


def _comes_late(pod: Pod) -> bool:
    """Say whether the pod's controller makes the next pod when this one is gone."""
    controller = controller_of(pod.owners)
    return controller is not None and controller.kind == _MAKES_PODS_LATE


def _selectors(volume: PersistentVolume) -> Iterator[NodeSelector]:
    if volume.required_node_affinity is not None:
        yield volume.required_node_affinity
    for _, key, values in topology_requirements(volume):
        within = Requirement(key, "In", tuple(sorted(values)))
        yield NodeSelector((NodeSelectorTerm((within,)),))
