"""The wakes that a blocked finding waits for: one type for each kind of change.

A filter that rejects a pod names its wakes, as a kube-scheduler plugin registers cluster events.
Each type lists the changes that fulfil it, and says which wake of the type such a change fulfils.
Equal wakes are one key, so an index finds the findings that a change may unblock in O(1).
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Final, Self

from msgspec import Struct

from reactive_desched.model.changes import (
    Change,
    CompletedPodDeleted,
    DevicesChanged,
    NamespaceChanged,
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeGone,
    NodeLabelsChanged,
    NodeMetadataChanged,
    NodeTaintsChanged,
    NominationEnded,
    PdbChanged,
    PodBound,
    PodGone,
    PodLabelsChanged,
    PodMetadataChanged,
    PodSpecChanged,
    PodStatusChanged,
    PriorityClassChanged,
    PvcChanged,
    PvChanged,
    WorkloadChanged,
)
from reactive_desched.model.objects import PodKey

ChangeTypes = tuple[type[Change], ...]


class WakeOn(Struct, frozen=True, gc=False):
    """Base of all wakes; `fulfilled_by` may be asked about the types in `changes` only."""

    changes: ClassVar[ChangeTypes] = ()
    words: ClassVar[str] = ""
    """What is awaited, for people, with the names of fields in braces."""

    @classmethod
    def fulfilled_by(cls, change: Any) -> Self:  # Any: each type reads the changes that it lists
        """Return the wake of this type that a change fulfils: its fields are those of the change.

        A type whose fields have other names than those of its changes overrides this.
        """
        return cls(*[getattr(change, name) for name in cls.__struct_fields__])

    @property
    def description(self) -> str:
        """Return what is awaited, in words: match on the code of the reason, not on them."""
        return self.words.format_map({name: getattr(self, name) for name in self.__struct_fields__})

    def matches(self, change: Change) -> bool:
        """Say whether a change fulfils this wake."""
        return type(change) in self.changes and self.fulfilled_by(change) == self


class WakeOnPod(WakeOn, frozen=True, gc=False):
    """A pod differs or is gone. That its deletion begins is no wake: it frees nothing yet."""

    changes: ClassVar[ChangeTypes] = (
        PodBound,
        PodLabelsChanged,
        PodSpecChanged,
        PodMetadataChanged,
        PodStatusChanged,
        PodGone,
        CompletedPodDeleted,
    )
    words = "a change of the pod"
    uid: PodKey

    @classmethod
    def fulfilled_by(cls, change: Any) -> Self:  # a PodChange
        """Return the wake of the changed pod."""
        return cls(change.pod.uid)


class WakeOnEviction(WakeOn, frozen=True, gc=False):
    """The eviction of a pod has failed; the outcome fulfils it, no change of the cluster does."""

    words = "the end of an eviction under way"
    uid: PodKey


class WakeOnNode(WakeOn, frozen=True, gc=False):
    """A node differs, or a pod on it is gone."""

    changes: ClassVar[ChangeTypes] = (
        NodeAdded,
        NodeGone,
        NodeTaintsChanged,
        NodeLabelsChanged,
        NodeCapacityIncreased,
        NodeCapacityDecreased,
        NodeMetadataChanged,
        NominationEnded,
        PodGone,
    )
    words = "a change of node {name}"
    name: str

    @classmethod
    def fulfilled_by(cls, change: Any) -> Self:  # a NodeChange or PodGone
        """Return the wake of the changed node."""
        return cls(change.pod.node if isinstance(change, PodGone) else change.node)


class WakeOnNodeAdded(WakeOn, frozen=True, gc=False):
    """One more node is eligible."""

    changes: ClassVar[ChangeTypes] = (NodeAdded,)
    words = "one more eligible node"


class WakeOnCapacity(WakeOn, frozen=True, gc=False):
    """Some node may have room for a pod that fitted no node: it grew, opened, or freed capacity."""

    changes: ClassVar[ChangeTypes] = (
        NodeAdded,
        NodeCapacityIncreased,
        NodeTaintsChanged,
        NodeLabelsChanged,
        PodGone,
        PodSpecChanged,  # it may have shrunk
        PodLabelsChanged,  # its labels may no longer conflict with anti-affinity
    )
    words = "room on a node"


class WakeOnDevices(WakeOn, frozen=True, gc=False):
    """Devices may have become free, or suit a claim that they did not suit."""

    changes: ClassVar[ChangeTypes] = (DevicesChanged,)
    words = "a change of devices or ResourceClaims"


class WakeOnGroupCapacity(WakeOn, frozen=True, gc=False):
    """A node may have room for pods of one unschedulable group; a CapacityHint fulfils it."""

    words = "room on a node"
    group: int


class WakeOnNamespace(WakeOn, frozen=True, gc=False):
    """A namespace or its labels differ."""

    changes: ClassVar[ChangeTypes] = (NamespaceChanged,)
    words = "a change of namespace {namespace}"
    namespace: str


class WakeOnWorkload(WakeOn, frozen=True, gc=False):
    """A controller of pods differs, or more of its pods are Ready or fewer are not."""

    changes: ClassVar[ChangeTypes] = (WorkloadChanged,)
    words = "a change of its workload"
    uid: str

    @classmethod
    def fulfilled_by(cls, change: Any) -> Self:  # a WorkloadChanged: many events have one
        """Return the wake of the changed workload."""
        return cls(change.uid)


class WakeOnPdb(WakeOn, frozen=True, gc=False):
    """A PodDisruptionBudget of a namespace differs."""

    changes: ClassVar[ChangeTypes] = (PdbChanged,)
    words = "a change of a PodDisruptionBudget in namespace {namespace}"
    namespace: str


class WakeOnPvc(WakeOn, frozen=True, gc=False):
    """A PersistentVolumeClaim differs."""

    changes: ClassVar[ChangeTypes] = (PvcChanged,)
    words = "a change of PersistentVolumeClaim {namespace}/{name}"
    namespace: str
    name: str


class WakeOnPv(WakeOn, frozen=True, gc=False):
    """A PersistentVolume differs."""

    changes: ClassVar[ChangeTypes] = (PvChanged,)
    words = "a change of PersistentVolume {name}"
    name: str


class WakeOnPriorityClass(WakeOn, frozen=True, gc=False):
    """A PriorityClass differs."""

    changes: ClassVar[ChangeTypes] = (PriorityClassChanged,)
    words = "a change of a PriorityClass"


def awaited(wakes: Iterable[WakeOn], pod: PodKey) -> tuple[str, ...]:
    """Say what a finding on a pod waits for, in words, each once."""
    return tuple(
        dict.fromkeys(
            _ANOTHER_POD if isinstance(wake, WakeOnPod) and wake.uid != pod else wake.description
            for wake in wakes
        )
    )


_ANOTHER_POD: Final = "a change of another pod"
