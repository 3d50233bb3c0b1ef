"""The usual kind of plugin: one that judges pods by the node they are on."""

from collections.abc import Iterable
from typing import Final

from reactive_desched.api.plugin import ArgsT, DeschedulePlugin, View
from reactive_desched.model.changes import (
    Change,
    CompletedPodDeleted,
    NodeAdded,
    NodeChange,
    PodBound,
    PodChange,
    PodGone,
    PodLabelsChanged,
    PodMetadataChanged,
    PodsChange,
    PodStatusChanged,
    Resynced,
)
from reactive_desched.model.subjects import NodeOrPod, NodeSubject, PodSubject

POD_CHANGES_IN_ANY_PHASE: Final = (
    Resynced,
    NodeAdded,
    PodBound,
    PodStatusChanged,
    PodGone,
    CompletedPodDeleted,
    PodLabelsChanged,
    PodMetadataChanged,
)
"""What matters to a plugin that judges pods by their own status and age, completed ones as well."""


class PodPlugin(DeschedulePlugin[NodeOrPod, ArgsT]):
    """Judges the pods of a changed node, or the changed pods; every node after other changes."""

    splits_nodes = True

    def subjects(self, change: Change, view: View) -> Iterable[NodeOrPod]:
        """Name the node or the pods the change is about."""
        match change:
            case NodeChange(node=node):
                return (NodeSubject(node),)
            case PodChange(pod=pod):
                return (PodSubject(pod.key),)
            case PodsChange(pods=pods):
                return map(PodSubject, pods)
            case _:
                return map(NodeSubject, view.node_names())
