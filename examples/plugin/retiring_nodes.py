"""A pod sits on a node that carries a label which says that the node retires."""

from collections.abc import Iterator

from pydantic import Field, field_validator

from reactive_desched.api.args import FieldError, raise_field_errors
from reactive_desched.api.plugin import PodPlugin, View
from reactive_desched.api.scope import NamespacedArgs
from reactive_desched.model.changes import NodeAdded, NodeLabelsChanged, PodBound, Resynced
from reactive_desched.model.findings import Finding
from reactive_desched.model.subjects import NodeOrPod


class RetiringNodesArgs(NamespacedArgs):
    """The label of a node that retires."""

    label: str = Field(default="example.org/retire", description="The key of the label.")

    @field_validator("label")
    @classmethod
    def _check_label(cls, label: str) -> str:
        if not label:
            raise_field_errors([FieldError("must not be empty", "leave it out for the default")])
        return label


class RetiringNodesPlugin(PodPlugin[RetiringNodesArgs]):
    """Pods on nodes that carry the label, whatever its value."""

    name = "RemovePodsFromRetiringNodes"
    reacts_to = (Resynced, NodeAdded, NodeLabelsChanged, PodBound)

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding]:
        """Flag the pods of a node with the label."""
        if (node_and_pods := view.pods_of(subject)) is None:
            return
        node, pods = node_and_pods
        if self.args.label not in node.labels:
            return
        for pod in pods:
            if self.args.covers(pod):
                yield Finding(pod, self.name, f"node {node.name} is labelled {self.args.label}")
