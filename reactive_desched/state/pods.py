"""Pods by uid, and what differs when one is seen again."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from msgspec.structs import replace

from reactive_desched.model.changes import (
    Change,
    CompletedPodDeleted,
    PendingPodAdded,
    PendingPodDeleted,
    PodBound,
    PodGone,
    PodLabelsChanged,
    PodMetadataChanged,
    PodSpecChanged,
    PodStatusChanged,
    PodTerminating,
)
from reactive_desched.model.objects import TERMINAL_PHASES, Pod, PodKey
from reactive_desched.primitives.foreign_code import is_fault
from reactive_desched.primitives.uid_parts import UidParts
from reactive_desched.state.departed_pods import DepartedPods
from reactive_desched.state.index_registry import IndexHooks
from reactive_desched.state.nodes import NodeStore
from reactive_desched.state.relabelled_pods import RelabelledPods

MAX_TOMBSTONES = 10_000
"""How many uids of deleted pods are kept, so that a late event cannot bring a pod back."""


class PodStore:
    """All pods by uid; keeps the sums of their nodes.

    Events may repeat, arrive late, or concern another pod of the same name: the uid identifies the
    pod, and the resourceVersion orders its events.
    """

    def __init__(
        self,
        nodes: NodeStore,
        hooks: IndexHooks,
        departed: DepartedPods,
        relabelled: RelabelledPods,
    ) -> None:
        self._nodes = nodes
        self.departed = departed
        self.relabelled = relabelled
        self._hooks = hooks
        self._pods: UidParts[Pod] = UidParts()
        self._part = self._pods.part
        self.get = self._pods.get
        self._tombstones: OrderedDict[PodKey, None] = OrderedDict()  # taken out at its front

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[Pod]:
        return self._pods.values()

    def keys(self) -> list[PodKey]:
        """Return a snapshot of all uids."""
        return list(chain.from_iterable(self._pods.parts))

    def key_batches(self) -> Iterator[list[PodKey]]:
        """Yield snapshots of some uids, together those of all pods."""
        return map(list, self._pods.parts)

    def upsert(self, pod: Pod) -> list[Change]:
        """Store a pod unless it was deleted or a later version is known; return the changes."""
        uid = pod.uid
        pods = self._part(uid)
        old = pods.get(uid)
        if old is None:
            return [] if uid in self._tombstones else self._add(pod)
        if old is pod or 0 < pod.resource_version < old.resource_version:
            return []
        if old.uid is not uid:  # the key of every index: a second text would stay beside it
            pod = replace(pod, uid=old.uid, name=old.name)
        if old.spec is not pod.spec and old.spec == pod.spec:
            pod = replace(pod, spec=old.spec)  # indexes compare by identity
        pods[uid] = pod
        if not _is_same_to_indexes(old, pod):
            pod = pods[uid] = _with_shared_parts(old, pod)
            if not _is_same_to_indexes(old, pod):
                return self._replace(old, pod)
        if pod.node:
            self._nodes.record(pod.node).replace_pod(pod)
        changes: list[Change] = [PodStatusChanged(pod)] if _status_differs(old, pod) else []
        if _metadata_differs(old, pod):
            changes.append(PodMetadataChanged(pod))
        return changes + self._hooks.call(self._hooks.pod_status, old, pod)

    def load(self, pods: Iterable[Pod]) -> None:
        """Store pods as `upsert` does, where nothing reads the changes that follow.

        Each hook is called for all new pods in turn: that takes a quarter less than every hook for
        one pod after the other.
        """
        added: list[Pod] = []
        for pod in pods:
            part = self._part(pod.uid)
            if pod.uid in part:
                self._call_hooks_for(added)
                added.clear()
                self.upsert(pod)
            elif pod.uid not in self._tombstones:
                part[pod.uid] = pod
                if pod.node:
                    self._nodes.record(pod.node).add_pod(pod)
                added.append(pod)
        self._call_hooks_for(added)

    def remove(self, pod: Pod) -> list[Change]:
        """Remove a pod for good: later events of its uid are ignored; return the changes."""
        self._tombstones[pod.uid] = None
        if len(self._tombstones) > MAX_TOMBSTONES:
            self._tombstones.popitem(last=False)
        old = self._part(pod.uid).pop(pod.uid, None)
        if old is None:
            return []
        changes: list[Change] = []
        if old.node:
            self._remove_from_node(old)
            if old.is_active:
                self.departed.add(old)
            changes.append(PodGone(old) if old.is_active else CompletedPodDeleted(old))
        elif old.is_pending:
            changes.append(PendingPodDeleted(old))
        return changes + self._hooks.call(self._hooks.pod, old, None)

    def _add(self, pod: Pod) -> list[Change]:
        self._part(pod.uid)[pod.uid] = pod
        changes: list[Change] = []
        if pod.node:
            self._nodes.record(pod.node).add_pod(pod)
            changes.append(PodBound(pod))
        elif pod.is_pending:
            changes.append(PendingPodAdded(pod))
        return changes + self._hooks.call(self._hooks.pod, None, pod)

    def _replace(self, old: Pod, new: Pod) -> list[Change]:
        if old.node:
            self._nodes.record(old.node).remove_pod(old.uid)
        if new.node:
            self._nodes.record(new.node).add_pod(new)
        if old.node and old.is_active and not new.is_active:
            self.departed.add(old)
        if old.node and old.labels is not new.labels and old.labels != new.labels:
            self.relabelled.add(old)
        if old.node and old.node != new.node:
            self._nodes.remove_if_empty(self._nodes.record(old.node))
        return list(_differences(old, new)) + self._hooks.call(self._hooks.pod, old, new)

    def _remove_from_node(self, pod: Pod) -> None:
        record = self._nodes.record(pod.node)
        record.remove_pod(pod.uid)
        self._nodes.remove_if_empty(record)

    def _call_hooks_for(self, added: Iterable[Pod]) -> None:
        for hook in self._hooks.pod:
            for pod in added:
                try:
                    for _ in hook(None, pod):  # a hook may be a generator
                        pass
                except BaseException as error:
                    if not is_fault(error):
                        raise
                    self._hooks.failed(hook, error, pod)
                    break


def _is_same_to_indexes(old: Pod, new: Pod) -> bool:
    """Say whether a pod differs in nothing that `Index.on_pod` reports; see there.

    Shared parts are compared by identity.
    """
    return (
        old.spec is new.spec
        and old.labels is new.labels
        and old.owners is new.owners
        and old.node == new.node
        and old.deletion_s == new.deletion_s
        and old.resize_delta is new.resize_delta
        and old.pvc_names == new.pvc_names
        and old.made_claims == new.made_claims
        and (
            old.status is new.status
            or (old.status.phase in TERMINAL_PHASES) == (new.status.phase in TERMINAL_PHASES)
        )
    )


def _with_shared_parts(old: Pod, new: Pod) -> Pod:
    """Return a pod with the parts of its earlier version that are equal and not shared.

    They come in another order of JSON, or were too long to be kept. That is no change, neither to
    indexes nor in a recording.
    """
    pairs = ((name, getattr(old, name), getattr(new, name)) for name in _SHARED_PARTS)
    equal = {name: part for name, part, of_new in pairs if part is not of_new and part == of_new}
    return replace(new, **equal) if equal else new


_SHARED_PARTS: Final = ("labels", "owners", "resize_delta")


def _differences(old: Pod, new: Pod) -> Iterator[Change]:
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
    return (
        (old.status is not new.status and old.status != new.status)
        or (
            old.condition_transitions is not new.condition_transitions
            and old.condition_transitions != new.condition_transitions
        )
        or old.made_claims != new.made_claims
    )


def _metadata_differs(old: Pod, new: Pod) -> bool:
    return (
        (old.annotations is not new.annotations and old.annotations != new.annotations)
        or (old.owners is not new.owners and old.owners != new.owners)
        or old.start_delay_s != new.start_delay_s
    )
