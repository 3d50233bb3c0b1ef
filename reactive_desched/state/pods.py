"""Pods by uid, by name and by owner, and what differs when one is seen again."""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from reactive_desched.model.changes import (
    Change,
    CompletedPodDeleted,
    OwnerSizeChanged,
    PodBound,
    PodGone,
    PodLabelsChanged,
    PodMetadataChanged,
    PodSpecChanged,
    PodStatusChanged,
    PodTerminating,
)
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.state.indexes.preferred_affinity import PreferredAffinityIndex
from reactive_desched.state.indexes.pvc_users import PvcUsers
from reactive_desched.state.nodes import NodeStore

MAX_TOMBSTONES = 10_000
"""How many uids of deleted pods are kept, so that a late event cannot bring one back."""


class PodStore:
    """All pods and the indexes over them.

    Deliveries may repeat, arrive late, or arrive for another pod of the same name: the uid
    decides who is meant and the resource version which news is newer.
    """

    def __init__(self, nodes: NodeStore, preferred_affinity: PreferredAffinityIndex) -> None:
        self._nodes = nodes
        self._preferred_affinity = preferred_affinity
        self._pods: dict[PodKey, Pod] = {}
        self._by_name: dict[str, dict[str, Pod]] = {}
        self._by_owner: dict[str, dict[PodKey, None]] = {}
        self._tombstones: dict[PodKey, None] = {}
        self._terminating: dict[str, dict[PodKey, Pod]] = {}
        self.pvc_users = PvcUsers()

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._pods.values())

    def get(self, uid: PodKey) -> Pod | None:
        """Return the pod with this uid."""
        return self._pods.get(uid)

    def by_name(self, namespace: str, name: str) -> Pod | None:
        """Return the newest pod that bears this name."""
        return self._by_name.get(namespace, {}).get(name)

    def in_namespace(self, namespace: str) -> Iterable[Pod]:
        """Return the pods of a namespace."""
        return self._by_name.get(namespace, {}).values()

    def terminating(self, namespace: str) -> Collection[Pod]:
        """Return the active pods of a namespace whose deletion has begun."""
        return self._terminating.get(namespace, {}).values()

    def owned_by(self, owner_uid: str) -> Collection[PodKey]:
        """Return the uids of the pods that name this owner."""
        return self._by_owner.get(owner_uid, {})

    def keys(self) -> list[PodKey]:
        """Return a snapshot of all uids."""
        return list(self._pods)

    def upsert(self, pod: Pod) -> list[Change]:
        """Take in a pod as it is now and say what differs."""
        old = self._pods.get(pod.uid)
        if old is None:
            return [] if pod.uid in self._tombstones else self._add_new(pod)
        if 0 < pod.resource_version < old.resource_version:
            return []
        if old.spec is not pod.spec and old.spec == pod.spec:
            pod = msgspec.structs.replace(pod, spec=old.spec)  # preferences know it by identity
        self._store(pod)
        if old.node and (old.node != pod.node or _affinity_differs(old, pod)):
            self._unindex(old)
        self._index(pod)
        changes = list(_differences(old, pod))
        if old.owners is not pod.owners and old.owners != pod.owners:
            changes += self._update_owners(old, pod)
        return changes

    def remove(self, uid: PodKey) -> list[Change]:
        """Forget a pod for good: its uid is not taken in again."""
        self._tombstones[uid] = None
        if len(self._tombstones) > MAX_TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]
        pod = self._pods.pop(uid, None)
        if pod is None:
            return []
        self._remove_name(pod)
        if pod.is_terminating:
            self._remove_terminating(pod)
        if pod.node:
            self._unindex(pod)
        sizes = [
            change for owner in pod.owners for change in self._remove_from_owner(owner.uid, uid)
        ]
        if not pod.node:
            return list(sizes)
        return [PodGone(pod) if pod.is_active else CompletedPodDeleted(pod), *sizes]

    def _add_new(self, pod: Pod) -> list[Change]:
        self._store(pod)
        self._index(pod)
        sizes = [
            change for owner in pod.owners for change in self._add_to_owner(owner.uid, pod.uid)
        ]
        return [PodBound(pod), *sizes] if pod.node else list(sizes)

    def _store(self, pod: Pod) -> None:
        self._pods[pod.uid] = pod
        names = self._by_name.setdefault(pod.namespace, {})
        current = names.get(pod.name)
        if (
            current is None
            or current.uid == pod.uid
            or pod.resource_version >= current.resource_version
        ):
            names[pod.name] = pod

    def _remove_name(self, pod: Pod) -> None:
        """Free the name, unless another pod bears it by now."""
        names = self._by_name.get(pod.namespace, {})
        current = names.get(pod.name)
        if current is not None and current.uid == pod.uid:
            del names[pod.name]
            if not names:
                del self._by_name[pod.namespace]

    def _index(self, pod: Pod) -> None:
        if pod.node and self._nodes.get_or_create(pod.node).add_pod(pod):
            self._nodes.mark_dirty(pod.node)
        if pod.pvc_names:
            self.pvc_users.add_pod(pod)
        if pod.is_terminating and pod.is_active:
            self._terminating.setdefault(pod.namespace, {})[pod.uid] = pod
        elif pod.is_terminating:
            self._remove_terminating(pod)
        self._preferred_affinity.add_pod(pod)

    def _remove_terminating(self, pod: Pod) -> None:
        in_namespace = self._terminating.get(pod.namespace, {})
        in_namespace.pop(pod.uid, None)
        if not in_namespace:
            self._terminating.pop(pod.namespace, None)

    def _unindex(self, pod: Pod) -> None:
        node_info = self._nodes.get_or_create(pod.node)
        if node_info.remove_pod(pod.uid):
            self._nodes.mark_dirty(pod.node)
        if pod.pvc_names:
            self.pvc_users.remove_pod(pod)
        self._nodes.remove_if_empty(node_info)
        self._preferred_affinity.remove_pod(pod)

    def _add_to_owner(self, owner: str, uid: PodKey) -> Iterator[Change]:
        self._by_owner.setdefault(owner, {})[uid] = None
        yield OwnerSizeChanged(owner)

    def _remove_from_owner(self, owner: str, uid: PodKey) -> Iterator[Change]:
        pods = self._by_owner.get(owner)
        if pods is None or pods.pop(uid, uid) is not None:
            return
        if not pods:
            del self._by_owner[owner]
        yield OwnerSizeChanged(owner)

    def _update_owners(self, old: Pod, new: Pod) -> list[Change]:
        before, after = {o.uid for o in old.owners}, {o.uid for o in new.owners}
        changes = [
            c for owner in sorted(before - after) for c in self._remove_from_owner(owner, new.uid)
        ]
        return changes + [
            c for owner in sorted(after - before) for c in self._add_to_owner(owner, new.uid)
        ]


def _differences(old: Pod, new: Pod) -> Iterator[Change]:
    """Compare two records of one pod; shared parts are compared by identity first."""
    if old.node != new.node and new.node:
        yield PodBound(new)
    if _status_differs(old, new):
        yield PodGone(new) if old.is_active and not new.is_active else PodStatusChanged(new)
    if old.labels is not new.labels and old.labels != new.labels:
        yield PodLabelsChanged(new)
    if old.spec is not new.spec or old.resize_delta != new.resize_delta:
        yield PodSpecChanged(new)
    if old.deletion_s is None and new.deletion_s is not None:
        yield PodTerminating(new)
    if _metadata_differs(old, new):
        yield PodMetadataChanged(new)


def _status_differs(old: Pod, new: Pod) -> bool:
    return (old.status is not new.status and old.status != new.status) or (
        old.condition_transitions is not new.condition_transitions
        and old.condition_transitions != new.condition_transitions
    )


def _affinity_differs(old: Pod, new: Pod) -> bool:
    return old.spec.node_affinity is not new.spec.node_affinity


def _metadata_differs(old: Pod, new: Pod) -> bool:
    return (
        (old.annotations is not new.annotations and old.annotations != new.annotations)
        or (old.owners is not new.owners and old.owners != new.owners)
        or old.started_s != new.started_s
    )
