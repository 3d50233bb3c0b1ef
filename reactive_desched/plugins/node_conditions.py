"""A pod is on a node with a condition that the policy names, and the node is closed to it."""

from collections.abc import Collection, Iterator
from typing import Final

from pydantic import Field

from reactive_desched.api.named_condition import NamedCondition, NamedConditions
from reactive_desched.api.plugin import PodPlugin, View
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.model.changes import (
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeConditionsChanged,
    NodeTaintsChanged,
    PodBound,
    PodLabelsChanged,
    PodMetadataChanged,
    PodSpecChanged,
    Resynced,
)
from reactive_desched.model.findings import Finding, RequeueAfter
from reactive_desched.model.node_conditions import Condition
from reactive_desched.model.node_drains import drain_leaves
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.scheduling import tolerates_all, tolerates_cordon
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.text.ages import format_age


class NodeConditionsArgs(ScopedArgs):
    """Arguments: the conditions that are a reason, any one of them."""

    conditions: NamedConditions = Field(
        min_length=1, description="The conditions of nodes whose pods are to leave; at least one."
    )


class NodeConditionsPlugin(PodPlugin[NodeConditionsArgs]):
    """Pods of a node that has had one of the named conditions for some time and is closed to them.

    The node-problem-detector and agents of devices and of storage report such conditions. A pod is
    found once the node is cordoned, or has a NoSchedule or NoExecute taint, and the pod does not
    tolerate that: the kube-scheduler does not read conditions, and would put the pod back. Pods of
    DaemonSets and static pods stay.
    """

    name = "RemovePodsViolatingNodeConditions"
    asks_node_fit = False
    reacts_to = (
        Resynced,
        NodeAdded,
        NodeConditionsChanged,
        NodeTaintsChanged,
        NodeCapacityDecreased,
        NodeCapacityIncreased,
        PodBound,
        PodLabelsChanged,
        PodMetadataChanged,
        PodSpecChanged,
    )

    @property
    def sick_conditions(self) -> Collection[Condition]:
        """The named conditions."""
        return [each.condition for each in self.args.conditions]

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding | RequeueAfter]:
        """Flag every pod of a node that is sick for long enough and takes the pod no more."""
        if (node_and_pods := view.pods_of(subject)) is None:
            return
        node, pods = node_and_pods
        waits = self._waits(node, view)
        if not waits:
            return
        condition, wait_s = min(waits, key=lambda wait: wait[1])
        if wait_s:
            yield RequeueAfter(wait_s)
            return
        message = f"{node.name} has had {condition} for {format_age(condition.for_s)} or longer"
        details = {"conditionType": condition.type, "conditionStatus": condition.status}
        for pod in pods:
            if self.args.covers(pod) and not drain_leaves(pod) and is_closed_to(node, pod):
                yield Finding(pod, self.name, message, details=details)

    def describe(self, pod: Pod, view: View) -> str:
        """Say which named condition the node has, and what else must be so for the pod to leave."""
        if (found := view.pod_and_node(pod.uid)) is None:
            return ""
        node = found[1]
        waits = self._waits(node, view)
        if not waits:
            named = ", ".join(map(str, self.args.conditions))
            return f"{node.name} has none of the conditions {named}"
        condition, wait_s = min(waits, key=lambda wait: wait[1])
        if wait_s:
            return f"{node.name} has {condition}, which counts in {format_age(wait_s)}"
        if drain_leaves(pod):
            return f"{node.name} has {condition}; pods of DaemonSets and static pods stay"
        if not is_closed_to(node, pod):
            return f"{node.name} has {condition}, {_OPEN}"
        return "the arguments leave it out"

    def _waits(self, node: Node, view: View) -> list[tuple[NamedCondition, float]]:
        """Return the named conditions that a node has, with how long each must still last."""
        waits = []
        for each in self.args.conditions if node.conditions else ():
            wait_s = view.condition_wait_s(node, each.type, each.status, each.for_s, each.lapse_s)
            if wait_s is not None:
                waits.append((each, wait_s))
        return waits


_OPEN: Final = (
    "but would take the pod again: a cordon or a NoSchedule taint closes it to pods that do not "
    "tolerate that"
)


def is_closed_to(node: Node, pod: Pod) -> bool:
    """Say whether the kube-scheduler would not put a pod on this node again."""
    tolerations = pod.spec.tolerations
    if node.unschedulable and not tolerates_cordon(tolerations):
        return True
    return not tolerates_all(tolerations, node.taints)
