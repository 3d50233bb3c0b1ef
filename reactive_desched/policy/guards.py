"""Settings of the guards: what keeps a pod where it is in reactive mode, whatever the policy."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from reactive_desched.api.args import Count, Seconds, Section
from reactive_desched.model.node_marks import NODE_MARK_GROUPS, NodeMark
from reactive_desched.model.objects import RESTARTS_ALWAYS, OwnerReference

NodeMarkAction = Literal["leave", "drain"]
OwnerKind = Annotated[str, Field(min_length=1)]


ANY_KIND = "*"


class GuardName(StrEnum):
    """The guards by the names that decisions carry as their gate."""

    DO_NOT_EVICT = "DoNotEvict"
    SAFE_TO_EVICT = "SafeToEvict"
    DO_NOT_DISRUPT = "DoNotDisrupt"
    RESOURCE_CLAIMS = "ResourceClaims"
    UNREPLACED_PODS = "UnreplacedPods"
    JOB_TRIES = "JobTries"
    GANGS = "Gangs"
    NOMINATED_PODS = "NominatedPods"
    YOUNG_PODS = "YoungPods"
    NEWLY_READY_PODS = "NewlyReadyPods"
    DRAINED_NODES = "DrainedNodes"
    ROLLOUTS = "Rollouts"
    UNREADY_WORKLOADS = "UnreadyWorkloads"
    STATEFUL_SET_ORDER = "StatefulSetOrder"
    SINGLE_REPLICAS = "SingleReplicas"


class GuardSettings(Section):
    """What keeps pods where they are in reactive mode; a sweep does as the SIG descheduler."""

    cordoned_nodes: NodeMarkAction = Field(
        default="leave",
        description="Whether the taint of a cordon is a reason to evict: `leave` or `drain`.",
    )
    scaled_down_nodes: NodeMarkAction = Field(
        default="leave",
        description="The same for the taints of cluster-autoscaler and Karpenter on nodes that "
        "they remove; with `leave` no plugin evicts from such a node: they empty it themselves.",
    )
    maintenance_nodes: NodeMarkAction = Field(
        default="leave",
        description="The same for the taints of nodes that are shut down, taken back by the cloud, "
        "or repaired.",
    )
    min_pod_age_s: Seconds = Field(
        default=10.0,
        description="A pod that started less than so long ago is not evicted: the kube-scheduler "
        "has only just placed it, and what it depends on may still be on its way; 0s: any age.",
    )
    min_ready_time_s: Seconds = Field(
        default=5.0,
        description="A pod that is Ready for less than so long is not evicted: what depends on it "
        "has only just found it; 0s: any time.",
    )
    min_job_tries_left: Count = Field(
        default=1,
        description="A pod of a Job is not evicted if the Job has fewer tries left afterwards: 1 "
        "keeps the Job from failing for good, 2 leaves one more to spare, a large number lets only "
        "those pods go whose Job ignores disruptions, and 0 lets every one go.",
    )
    replacing_owners: tuple[OwnerKind, ...] = Field(
        default=(),
        description="Kinds of custom owners that make a new pod for each one that is evicted, also "
        "for one that is run once (`restartPolicy` Never or OnFailure): `Kind`, or `Kind.group` "
        "such as `CloneSet.apps.kruise.io`.",
    )
    non_replacing_owners: tuple[OwnerKind, ...] = Field(
        default=(),
        description="Kinds of custom owners that make none, although their pods run without end; "
        "`*` means every kind that is not part of Kubernetes, but for `replacingOwners`.",
    )
    disabled: tuple[GuardName, ...] = Field(
        default=(), description="Guards that are switched off, by name."
    )
    ignored_by: Mapping[str, tuple[GuardName, ...]] = Field(
        default={},
        description="Guards that do not hold one plugin's findings, by plugin name.",
    )

    def replaces(self, owner: OwnerReference, restart_policy: str) -> bool:
        """Say whether an owner is taken to make a new pod for one that is evicted.

        A pod that is restarted without end serves, and what serves is made again. Any other is run
        once, and of the kinds that do that only Jobs are known to try again.
        """
        names = {owner.kind, f"{owner.kind}.{owner.group}"}
        if not names.isdisjoint(self.replacing_owners):
            return True
        if owner.is_batch_job:
            return True
        is_custom = "." in owner.group and not owner.group.endswith(".k8s.io")
        if not names.isdisjoint(self.non_replacing_owners) or (
            is_custom and ANY_KIND in self.non_replacing_owners
        ):
            return False
        return restart_policy == RESTARTS_ALWAYS

    def action(self, group: str) -> NodeMarkAction:
        """Return what is done about a group of node marks, given by its field's name."""
        actions: Mapping[str, NodeMarkAction] = {
            "cordonedNodes": self.cordoned_nodes,
            "scaledDownNodes": self.scaled_down_nodes,
            "maintenanceNodes": self.maintenance_nodes,
        }
        return actions[group]

    @property
    def left_marks(self) -> Mapping[str, NodeMark]:
        """The taints that are no reason to evict, by key."""
        return {
            key: mark
            for group in NODE_MARK_GROUPS
            if self.action(group.name) == "leave"
            for key, mark in group.marks.items()
        }

    def holds(self, guard: GuardName, plugin: str) -> bool:
        """Say whether a guard is on for the findings of a plugin."""
        return guard not in self.disabled and guard not in self.ignored_by.get(plugin, ())
