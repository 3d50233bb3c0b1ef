"""From where the volumes of a pod can be reached, as the kube-scheduler's storage filters tell.

Only what the objects say: a claim that is not bound yet is taken to find a volume anywhere, and
disks written into the pod itself, without a claim, are not looked at.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from reactive_desched.model.objects import (
    ZONE_LABEL,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
)

VOLUME_NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
VOLUME_ZONE_CONFLICT: Final = "node(s) had no available volume zone"
PV_NOT_FOUND: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
READ_WRITE_ONCE_POD_CONFLICT: Final = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)
TOO_MANY_VOLUMES: Final = "node(s) exceed max volume count"
CLAIM_LOST: Final = "Lost"

REGION_LABEL: Final = "topology.kubernetes.io/region"
_GA_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE_LABEL,
    "failure-domain.beta.kubernetes.io/region": REGION_LABEL,
}
VOLUME_TOPOLOGY_LABELS: Final = (ZONE_LABEL, REGION_LABEL, *_GA_LABELS)
"""The labels by which volumes and nodes say where they are."""


def pvc_error(pvc: PersistentVolumeClaim | None, name: str) -> str | None:
    """Say why no pod can be scheduled with this claim, or None."""
    if pvc is None:
        return f'persistentvolumeclaim "{name}" not found'
    if pvc.phase == CLAIM_LOST:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
    if pvc.deletion_s is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return None


def topology_requirements(volume: PersistentVolume) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Return the labels that fix a volume's place: as written, as of today, and the values.

    A label with an empty value among its values says nothing.
    """
    for key in VOLUME_TOPOLOGY_LABELS:
        values = frozenset(
            value.strip() for value in volume.topology_labels.get(key, "").split("__")
        )
        if "" not in values:
            yield key, _GA_LABELS.get(key, key), values


def volume_node_conflict(volume: PersistentVolume, node: Node) -> str | None:
    """Say why a volume cannot be reached from a node, or None; no place label, no question."""
    reachable = volume.required_node_affinity
    if reachable is not None and not reachable.matches(node.name, node.labels):
        return VOLUME_NODE_CONFLICT
    if any(key in node.labels for key in VOLUME_TOPOLOGY_LABELS):
        for key, ga_key, values in topology_requirements(volume):
            if _topology_value(node.labels, key, ga_key) not in values:
                return VOLUME_ZONE_CONFLICT
    return None


def _topology_value(labels: Mapping[str, str], key: str, ga_key: str) -> str | None:
    return labels.get(key, labels.get(ga_key))
