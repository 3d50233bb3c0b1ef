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

NOT_REACHABLE: Final = "node(s) didn't match PersistentVolume's node affinity"
NO_ZONE: Final = "node(s) had no available volume zone"
NO_VOLUME: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IN_USE: Final = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)
TOO_MANY_VOLUMES: Final = "node(s) exceed max volume count"
LOST: Final = "Lost"

REGION_LABEL: Final = "topology.kubernetes.io/region"
_TODAYS_NAME: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE_LABEL,
    "failure-domain.beta.kubernetes.io/region": REGION_LABEL,
}
PLACE_LABELS: Final = (ZONE_LABEL, REGION_LABEL, *_TODAYS_NAME)
"""The labels by which volumes and nodes say where they are."""


def unusable(claim: PersistentVolumeClaim | None, name: str) -> str | None:
    """Say why no pod can be scheduled with this claim, or None."""
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if claim.phase == LOST:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
    if claim.deletion_s is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return None


def placed_in(volume: PersistentVolume) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Return the labels that fix a volume's place: as written, as of today, and the values.

    A label with an empty value among its values says nothing.
    """
    for key in PLACE_LABELS:
        values = frozenset(value.strip() for value in volume.places.get(key, "").split("__"))
        if "" not in values:
            yield key, _TODAYS_NAME.get(key, key), values


def out_of_reach(volume: PersistentVolume, node: Node) -> str | None:
    """Say why a volume cannot be reached from a node, or None; no place label, no question."""
    reachable = volume.reachable_from
    if reachable is not None and not reachable.matches(node.name, node.labels):
        return NOT_REACHABLE
    if any(key in node.labels for key in PLACE_LABELS):
        for key, todays, values in placed_in(volume):
            if _value(node.labels, key, todays) not in values:
                return NO_ZONE
    return None


def _value(labels: Mapping[str, str], key: str, todays: str) -> str | None:
    return labels.get(key, labels.get(todays))
