"""Typed facts from the state, in the past tense: they say where to look, not what is wrong."""

from typing import ClassVar, Final

from msgspec import Struct

from reactive_desched.model.objects import Pod


class Change(Struct, frozen=True, gc=False):
    """Base of all changes.

    A class that gets another name keeps its old one as `published_as`: events carry it.
    """

    published_as: ClassVar[str] = ""

    @property
    def kind(self) -> str:
        """The change's name, for records and metrics."""
        return self.published_as or type(self).__name__

    @property
    def object_name(self) -> str:
        """The object that the change is about, for records; empty where it is no single one."""
        return ""


class Resynced(Change, frozen=True, gc=False):
    """Anything may differ: start-up, a new policy, or a new list of everything."""


class EvaluationAsked(Change, frozen=True, gc=False):
    """A person asks for an evaluation of what `scope` names; `by` is who."""

    scope: str
    by: str

    @property
    def object_name(self) -> str:
        """The scope, and who asked."""
        return f"{self.scope} by {self.by}"


class ProposalAnswered(Change, frozen=True, gc=False):
    """A person approves a proposal, or rejects it; `by` is who."""

    proposal: str
    by: str

    @property
    def object_name(self) -> str:
        """The proposal, and who answered it."""
        return f"{self.proposal} by {self.by}"


class PodChange(Change, frozen=True, gc=False):
    """Something about one pod changed; `pod` is the pod as it is now, or was last."""

    pod: Pod

    @property
    def object_name(self) -> str:
        """The pod."""
        return f"pod {self.pod}"


class PodBound(PodChange, frozen=True, gc=False):
    """The pod appeared on its node."""


class PodLabelsChanged(PodChange, frozen=True, gc=False):
    """The pod's labels differ."""


class PodSpecChanged(PodChange, frozen=True, gc=False):
    """Tolerations were added or the pod was resized."""


class PodMetadataChanged(PodChange, frozen=True, gc=False):
    """Annotations, owners or start time differ: what the evictor's filters read."""


class PodStatusChanged(PodChange, frozen=True, gc=False):
    """Phase, conditions or container states differ; ending is PodGone."""


class PodTerminating(PodChange, frozen=True, gc=False):
    """Deletion of the pod has begun; it still holds its node's capacity."""


class PodGone(PodChange, frozen=True, gc=False):
    """The pod was deleted or has ended; its node's capacity is free again."""


class CompletedPodDeleted(PodChange, frozen=True, gc=False):
    """A pod that had ended was deleted; it held no capacity."""


class PendingPodAdded(PodChange, frozen=True, gc=False):
    """The pod appeared and is bound to no node yet."""


class PendingPodDeleted(PodChange, frozen=True, gc=False):
    """A pod was deleted that was bound to no node."""


class PodEvictabilityChanged(PodChange, frozen=True, gc=False):
    """The pod passes the filters of a profile's evictor now, or no longer.

    Only the plugins of that profile receive it, for pods that one of them asked about.
    """


class NodeChange(Change, frozen=True, gc=False):
    """Something about one node changed."""

    node: str

    @property
    def object_name(self) -> str:
        """The node."""
        return f"node {self.node}"


class NodeAdded(NodeChange, frozen=True, gc=False):
    """A node was added, became ready, or matches the policy's node selector now."""


class NodeGone(NodeChange, frozen=True, gc=False):
    """A node was deleted, became not ready, or matches the policy's node selector no longer."""


class NodeTaintsChanged(NodeChange, frozen=True, gc=False):
    """The node's taints differ."""


class NodeConditionsChanged(NodeChange, frozen=True, gc=False):
    """A condition of the node other than Ready appeared, disappeared or has another status."""


class NodeLabelsChanged(NodeChange, frozen=True, gc=False):
    """The node's labels differ; `keys` names those added, removed or altered."""

    keys: frozenset[str] = frozenset()


class NodeCapacityIncreased(NodeChange, frozen=True, gc=False):
    """The node was uncordoned or its allocatable grew."""


class NodeCapacityDecreased(NodeChange, frozen=True, gc=False):
    """The node was cordoned or its allocatable shrank."""


class NodeMetadataChanged(NodeChange, frozen=True, gc=False):
    """Annotations of the node that guards and drains read differ, or its deletion has begun."""


class NominationEnded(NodeChange, frozen=True, gc=False):
    """A pod that was nominated for the node is gone, or is bound or nominated elsewhere."""


class NamespaceChanged(Change, frozen=True, gc=False):
    """A namespace was added or deleted, or its labels or annotations differ."""

    namespace: str

    @property
    def object_name(self) -> str:
        """The namespace."""
        return self.namespace


class PdbChanged(Change, frozen=True, gc=False):
    """A PodDisruptionBudget was added or deleted, or its selector or allowed disruptions differ."""

    namespace: str
    name: str

    @property
    def object_name(self) -> str:
        """The PodDisruptionBudget."""
        return f"{self.namespace}/{self.name}"


class PvcChanged(Change, frozen=True, gc=False):
    """A PersistentVolumeClaim was added or deleted, or differs."""

    namespace: str
    name: str

    @property
    def object_name(self) -> str:
        """The PersistentVolumeClaim."""
        return f"{self.namespace}/{self.name}"


class PvChanged(Change, frozen=True, gc=False):
    """A PersistentVolume was added or deleted, or differs."""

    name: str

    @property
    def object_name(self) -> str:
        """The PersistentVolume."""
        return self.name


class CSINodeChanged(Change, frozen=True, gc=False):
    """A CSINode was added or deleted, or its attach limits differ."""

    node: str

    @property
    def object_name(self) -> str:
        """The node."""
        return f"node {self.node}"


class DevicesChanged(Change, frozen=True, gc=False):
    """Devices may be free that were not, or may suit that did not.

    A ResourceSlice, DeviceClass, DeviceTaintRule or ResourceClaim was added, deleted or differs;
    that devices are allocated to a claim is no such change.
    """


class WorkloadChanged(Change, frozen=True, gc=False):
    """A controller of pods, given by uid, differs, or more of its pods are Ready or fewer are not.

    It differs in its size, its rollout or its annotations.
    """

    uid: str


class MigrationJobChanged(Change, frozen=True, gc=False):
    """A PodMigrationJob was added or deleted, or it or its pod differs."""

    name: str

    @property
    def object_name(self) -> str:
        """The PodMigrationJob."""
        return self.name


class MigrationJobEnded(Change, frozen=True, gc=False):
    """A PodMigrationJob ended, was deleted or could not be made, or its pod is gone.

    It counts no more against the limits on jobs, or against fewer of them.
    """

    name: str

    @property
    def object_name(self) -> str:
        """The PodMigrationJob."""
        return self.name


class PriorityClassChanged(Change, frozen=True, gc=False):
    """A PriorityClass was added or deleted, or its value differs."""

    name: str

    @property
    def object_name(self) -> str:
        """The PriorityClass."""
        return self.name


class PodsChange(Change, frozen=True, gc=False):
    """Base of what an index announces about several pods, given by uid."""

    pods: tuple[str, ...]


class TimePassed(Change, frozen=True, gc=False):
    """A plugin asked to look again after a time, and it has passed."""


class IndexFailed(Change, frozen=True, gc=False):
    """An index of plugins raised an exception: what they would find by it may be wrong."""

    index: str

    @property
    def object_name(self) -> str:
        """The index."""
        return f"index {self.index}"


PLACE_CHANGES: Final = (
    NodeAdded,
    NodeGone,
    NodeTaintsChanged,
    NodeLabelsChanged,
    NodeCapacityIncreased,
    NodeCapacityDecreased,
    NodeMetadataChanged,
    NominationEnded,
    PendingPodAdded,
    PodGone,
    PodTerminating,
    NamespaceChanged,
    PvcChanged,
    PvChanged,
    CSINodeChanged,
    DevicesChanged,
)
"""What may change which nodes have a place for a pod, beside what changes of pods that stay."""

MOVE_CHANGES: Final = (
    *PLACE_CHANGES,
    PodBound,
    PodLabelsChanged,
    PodMetadataChanged,
    PodSpecChanged,
    PodStatusChanged,
    PodEvictabilityChanged,
)
"""What may change which pods can move, and where to."""
