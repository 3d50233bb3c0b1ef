"""Finds the nodes that a pod's volumes rule out: out of reach, or with no volume left to attach.

Volumes of the evicted pod are attached to its own node already, so they do not count against it.
"""

from collections.abc import Collection, Iterator, Sequence

from reactive_desched.fit.attached_volumes import AttachedVolumes
from reactive_desched.fit.node_sets import NodeSets
from reactive_desched.model.objects import CSINode, PersistentVolume, PersistentVolumeClaim, Pod
from reactive_desched.model.scheduler_profile import (
    FILTERS,
    VOLUME_BINDING,
    VOLUME_RESTRICTIONS,
    VOLUME_ZONE,
)
from reactive_desched.model.scheduling import FitReason
from reactive_desched.model.volumes import (
    PV_NOT_FOUND,
    READ_WRITE_ONCE_POD_CONFLICT,
    VOLUME_NODE_CONFLICT,
    VOLUME_TOPOLOGY_LABELS,
    VOLUME_ZONE_CONFLICT,
    pvc_error,
    topology_requirements,
)
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.pvc_users import PvcUsers
from reactive_desched.state.resources import PVS


class VolumeFilter:
    """The kube-scheduler's volume filters."""

    def __init__(self, nodes: NodeSets, view: ClusterView) -> None:
        self._nodes = nodes
        self._view = view
        self.attached = AttachedVolumes(nodes, view, self.volumes_of)

    def prefilter(self, pod: Pod, filters: Collection[str] = FILTERS) -> FitReason | None:
        """Return why every node rejects the pod for its PersistentVolumeClaims, or None."""
        unbound, restricted = VOLUME_BINDING in filters, VOLUME_RESTRICTIONS in filters
        for name in pod.pvc_names:
            claim = self._view.store(PersistentVolumeClaim).get(f"{pod.namespace}/{name}")
            if unbound and (why := pvc_error(claim, name)) is not None:
                return why
            is_exclusive = restricted and claim is not None and claim.read_write_once_pod
            if is_exclusive and any(self.other_users(pod, name)):
                return READ_WRITE_ONCE_POD_CONFLICT
        return None

    def other_users(self, pod: Pod, claim: str) -> Iterator[Pod]:
        """Return the other pods that use a claim."""
        users = self._view.index(PvcUsers).users_of(f"{pod.namespace}/{claim}")
        return (user for user in users if user.uid != pod.uid)

    def rejections(
        self, pod: Pod, filters: Collection[str] = FILTERS
    ) -> Iterator[tuple[FitReason, int]]:
        """Return the slots from which a volume of the pod cannot be reached."""
        for volume in self.volumes_of(pod):
            if volume is None:
                if VOLUME_BINDING in filters and self._view.is_readable(PVS):
                    yield PV_NOT_FOUND, self._nodes.existing
                continue
            existing = self._nodes.existing
            if VOLUME_BINDING in filters and volume.required_node_affinity is not None:
                near = self._nodes.labels.matching_node_selector(
                    volume.required_node_affinity, existing
                )
                yield VOLUME_NODE_CONFLICT, existing & ~near
            if VOLUME_ZONE in filters:
                yield VOLUME_ZONE_CONFLICT, self._outside_topology(volume)

    def volumes_of(self, pod: Pod) -> Iterator[PersistentVolume | None]:
        """Return the volumes that a pod's claims are bound to; None for one that is not known."""
        for name in pod.pvc_names:
            claim = self._view.store(PersistentVolumeClaim).get(f"{pod.namespace}/{name}")
            if claim is not None and claim.volume_name:
                yield self._view.store(PersistentVolume).get(claim.volume_name)

    def excludes(self, pod: Pod, others: Sequence[Pod]) -> bool:
        """Say whether one of the others uses a ReadWriteOncePod claim of the pod, too."""
        for name in pod.pvc_names:
            claim = self._view.store(PersistentVolumeClaim).get(f"{pod.namespace}/{name}")
            if claim is not None and claim.read_write_once_pod:
                users = (each for each in others if each.namespace == pod.namespace)
                if any(name in user.pvc_names for user in users):
                    return True
        return False

    def over_attach_limit(self, pod: Pod, among: int) -> int:
        """Return in which of the slots a pod's volumes are too many for their drivers."""
        if not (pod.pvc_names and self._limits_attached):
            return 0
        return self.attached.over_limit(self.attached.by_driver([pod]), among)

    def exceeds_attach_limit(self, pod: Pod, slot: int, others: Sequence[Pod]) -> bool:
        """Say so of one slot, where others come there first."""
        if not (pod.pvc_names and self._limits_attached):
            return False
        wanted, coming = self.attached.by_driver([pod]), self.attached.by_driver(others)
        return self.attached.exceeds(wanted, slot, coming)

    def follow(self) -> Iterator[None]:
        """Read what nodes have attached, where it may be asked for, in steps."""
        if self._limits_attached:
            yield from self.attached.follow()

    @property
    def _limits_attached(self) -> bool:
        """Say whether any node may have a limit."""
        return bool(self._view.store(CSINode))

    def _outside_topology(self, volume: PersistentVolume) -> int:
        """Return the slots with topology labels other than the volume's."""
        labels, near, somewhere = self._nodes.labels, self._nodes.existing, 0
        for key, todays, values in topology_requirements(volume):
            here = labels.with_label_in(key, values)
            if todays != key:
                here |= labels.with_label_in(todays, values) & ~labels.with_label(key)
            near &= here
        if near == self._nodes.existing:
            return 0
        for key in VOLUME_TOPOLOGY_LABELS:
            somewhere |= labels.with_label(key)
        return somewhere & ~near
