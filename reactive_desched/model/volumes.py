"""Decides which nodes reach a pod's volumes, as the kube-scheduler's storage filters do.

Only objects count: an unbound PersistentVolumeClaim is taken to find a volume anywhere, and disks
in the pod's spec without a claim are ignored.
"""

from collections.abc import Iterator
from typing import Final

from reactive_desched.model.objects import (
    ZONE_LABEL,
    PersistentVolume,
    PersistentVolumeClaim,
)
from reactive_desched.model.scheduling import FitReason

VOLUME_NODE_CONFLICT: Final = FitReason(
    "VolumeNodeAffinityConflict", "node(s) didn't match PersistentVolume's node affinity"
)
VOLUME_ZONE_CONFLICT: Final = FitReason(
    "VolumeZoneConflict", "node(s) had no available volume zone"
)
PV_NOT_FOUND: Final = FitReason(
    "PvNotFound", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)
READ_WRITE_ONCE_POD_CONFLICT: Final = FitReason(
    "ReadWriteOncePodConflict",
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
)
TOO_MANY_VOLUMES: Final = FitReason("TooManyVolumes", "node(s) exceed max volume count")
PVC_NOT_FOUND: Final = FitReason("PvcNotFound", 'persistentvolumeclaim "{}" not found')
PVC_LOST: Final = FitReason(
    "PvcLost", 'persistentvolumeclaim "{}" bound to non-existent persistentvolume'
)
PVC_TERMINATING: Final = FitReason("PvcTerminating", 'persistentvolumeclaim "{}" is being deleted')
CLAIM_LOST: Final = "Lost"

REGION_LABEL: Final = "topology.kubernetes.io/region"
_GA_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE_LABEL,
    "failure-domain.beta.kubernetes.io/region": REGION_LABEL,
}
VOLUME_TOPOLOGY_LABELS: Final = (ZONE_LABEL, REGION_LABEL, *_GA_LABELS)
"""The topology labels of volumes and nodes."""


def pvc_error(pvc: PersistentVolumeClaim | None, name: str) -> FitReason | None:
    """Return why no pod that uses this PersistentVolumeClaim can be scheduled, or None."""
    if pvc is None:
        return PVC_NOT_FOUND.about(name)
    if pvc.phase == CLAIM_LOST:
        return PVC_LOST.about(name)
    if pvc.deletion_s is not None:
        return PVC_TERMINATING.about(name)
    return None


def topology_requirements(volume: PersistentVolume) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield a volume's topology labels: the key as written, its GA key, and the values.

    A label with an empty value among its values is ignored.
    """
    for key in VOLUME_TOPOLOGY_LABELS:
        values = frozenset(
            value.strip() for value in volume.topology_labels.get(key, "").split("__")
        )
        if "" not in values:
            yield key, _GA_LABELS.get(key, key), values
