"""The settings of proposals: whose annotations answer them."""

from typing import Literal

from pydantic import Field

from reactive_desched.api.args import Section

AnnotatedKind = Literal["pod", "workload", "namespace"]


class ProposalSettings(Section):
    """The answers to what plugins propose (`mode: propose`)."""

    annotations_of: tuple[AnnotatedKind, ...] = Field(
        default=(),
        description="Whose annotation `reactive-desched/proposals` answers proposals of its pods: "
        "`pod`, `workload` (Deployments, ReplicaSets, StatefulSets, Jobs), `namespace`. Who may "
        "annotate such an object can then approve evictions of its pods; by default none is asked.",
    )
