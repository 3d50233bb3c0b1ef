"""A pod is on a node that is to be emptied."""

from collections.abc import Iterator

from reactive_desched.api.plugin import PodPlugin, View
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.model.changes import (
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeMetadataChanged,
    PodBound,
    PodLabelsChanged,
    PodMetadataChanged,
    Resynced,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.node_drains import (
    DRAIN,
    drain_leaves,
    drain_message,
    is_being_drained,
    is_to_be_drained,
)
from reactive_desched.model.objects import Pod
from reactive_desched.model.subjects import NodeOrPod


class DrainNodesArgs(ScopedArgs):
    """Arguments: the pods that leave; the others stay, and keep the node from being empty."""


class DrainNodesPlugin(PodPlugin[DrainNodesArgs]):
    """Pods of a cordoned node with the annotation `reactive-desched/drain`.

    The annotation says who wants the node emptied, and why; `reactive-desched drain` sets it and
    cordons the node. Without the cordon no pod is found: it would be put back, and a person who
    uncordons the node wants it used. Pods of DaemonSets and static pods stay, as with
    `kubectl drain --ignore-daemonsets`. What a person asks for counts at once; gates, disruption
    budgets and limits hold these pods as any other.
    """

    name = "DrainNodes"
    asks_node_fit = False
    reacts_to = (
        Resynced,
        NodeAdded,
        NodeMetadataChanged,
        NodeCapacityDecreased,
        NodeCapacityIncreased,
        PodBound,
        PodLabelsChanged,
        PodMetadataChanged,
    )

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding]:
        """Flag every pod that the arguments take and a drain does not leave."""
        if (node_and_pods := view.pods_of(subject)) is None:
            return
        node, pods = node_and_pods
        if not is_being_drained(node):
            return
        message, details = drain_message(node), {"drain": node.drain or ""}
        for pod in pods:
            if self.args.covers(pod) and not drain_leaves(pod):
                yield Finding(pod, self.name, message, details=details)

    def describe(self, pod: Pod, view: View) -> str:
        """Say whether the node is to be drained, and what keeps this pod there."""
        if (found := view.pod_and_node(pod.uid)) is None:
            return ""
        node = found[1]
        if not is_to_be_drained(node):
            return f"{node.name} is not to be drained: it has no annotation {DRAIN}"
        if not node.unschedulable:
            return f"{node.name} has the annotation {DRAIN}, but is not cordoned"
        if drain_leaves(pod):
            return "a drain leaves pods of DaemonSets and static pods"
        return "the arguments leave it out"
