"""Settings of the guards: what keeps a pod where it is in reactive mode, whatever the policy."""

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal

from pydantic import Field

from reactive_desched.api.args import NEEDS_RESTART, Count, Seconds, Section
from reactive_desched.model.node_marks import NodeMark, ReasonRules, TaintRule, find_mark
from reactive_desched.model.objects import RESTARTS_ALWAYS, OwnerReference
from reactive_desched.model.usage import LEFT_PODS_KEPT_S

NodeMarkAction = Literal["leave", "drain"]
GangAction = Literal["keep", "together"]
ClaimAction = Literal["keep", "fit"]
OwnerKind = Annotated[str, Field(min_length=1)]


ANY_KIND = "*"


class GuardName(StrEnum):
    """The guards by the names that decisions carry as their gate."""

    SCORED_ELSEWHERE = "ScoredElsewhere"
    STANDING_TIME = "StandingTime"
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
    NEWLY_ENDED_PODS = "NewlyEndedPods"
    DRAINED_NODES = "DrainedNodes"
    ROLLOUTS = "Rollouts"
    UNREADY_WORKLOADS = "UnreadyWorkloads"
    STATEFUL_SET_ORDER = "StatefulSetOrder"
    SINGLE_REPLICAS = "SingleReplicas"


class StandingTimeSettings(Section):
    """The time that a reason to evict must last: what is brief passes.

    A taint that was removed and set again, or whose value or effect changed, begins anew. What
    stood before the controller started counts from when it was first seen, unless the taint has
    a `timeAdded`.
    """

    cordoned_nodes_s: Seconds = Field(
        default=25.0, description="The taint of a cordon, where it counts."
    )
    scaled_down_nodes_s: Seconds = Field(
        default=25.0, description="The taints of `guards.scaledDownNodes`, where they count."
    )
    maintenance_nodes_s: Seconds = Field(
        default=25.0, description="The taints of `guards.maintenanceNodes`, where they count."
    )
    pressure_nodes_s: Seconds = Field(
        default=60.0, description="The taints of `guards.pressureNodes`, where they count."
    )
    unready_nodes_s: Seconds = Field(
        default=60.0, description="The taints of `guards.unreadyNodes`, where they count."
    )
    starting_nodes_s: Seconds = Field(
        default=60.0, description="The taints of `guards.startingNodes`, where they count."
    )
    agent_nodes_s: Seconds = Field(
        default=60.0, description="The taints of `guards.agentNodes`, where they count."
    )
    other_taints_s: Seconds = Field(
        default=25.0,
        description="Every other taint, such as a person's own; longer than an agent of an unknown "
        "name takes to restart. `2s` lets a person's taint act at once, and any other's, too.",
    )
    by_taint: Mapping[str, Seconds] = Field(
        default={},
        description="Standing times of single taints, by key or by a pattern with `*`; they come "
        "before those above, the first that matches.",
    )
    node_labels_s: Seconds = Field(
        default=25.0,
        description="A label that a node lacks, or has with another value, and for which a pod's "
        "node affinity or node selector does not match; and another value of a topology label, for "
        "anti-affinity.",
    )
    system_labels_s: Seconds = Field(
        default=300.0,
        description="A label that a node lacks and that programs set, as node feature discovery, "
        "the kubelet and cloud controllers do: they take it away and set it again; and one by "
        "which an agent says how it is.",
    )
    pod_labels_s: Annotated[Seconds, Field(le=LEFT_PODS_KEPT_S)] = Field(
        default=25.0,
        description="How long a pod must have the labels by which the anti-affinity of another one "
        "forbids it: the role of a leader that gives it up passes. At most 5m.",
    )
    open_nodes_s: Annotated[Seconds, Field(le=LEFT_PODS_KEPT_S)] = Field(
        default=25.0,
        description="How long a node must have been open before a pod leaves its own that fits on "
        "no other: Ready, without a taint or cordon that it had, and with the labels that the pod "
        "asks for. A node that joins and is gone again would leave the pod without any. Pods that "
        "only balance or prefer wait as long as `nodeUse`. At most 5m.",
    )
    closed_nodes_s: Annotated[Seconds, Field(le=1800.0)] = Field(
        default=600.0,
        description="How long after nodes with pods were closed no pod moves that would only be "
        "better off, or balances the cluster: cordoned, marked by what removes or repairs them, or "
        "deleted. Nodes are mostly replaced or restarted one after another, and what is balanced "
        "between two of them is to be balanced anew. It holds while as many as one in twenty "
        "nodes were closed in that time, and for an hour at most since the first of a row; 0s: it "
        "never does. At most 30m.",
    )
    ready_nodes_s: Seconds = Field(
        default=120.0,
        description="How long a node that came back must be Ready before the restarts of its pods "
        "are a reason for RemovePodsHavingTooManyRestarts.",
    )
    pod_states_s: Seconds = Field(
        default=120.0,
        description="How long a pod must be in a state, such as CrashLoopBackOff or "
        "ContainerCreating, or a condition without `minTimeSinceLastTransitionSeconds`, before it "
        "is a reason for PodLifeTime: an old pod whose container or node restarts is in it too.",
    )
    absent_nodes_s: Seconds = Field(
        default=300.0,
        description="How long a node that is not Ready any more, or has lost its topology label, "
        "is waited for: its pods count in its domain for "
        "RemovePodsViolatingTopologySpreadConstraint. The default is as long as Kubernetes waits "
        "before it deletes the node's pods.",
    )
    node_use_s: Annotated[Seconds, Field(le=LEFT_PODS_KEPT_S)] = Field(
        default=60.0,
        description="How long a plugin that balances must find the same, of a node, a workload or "
        "a constraint, before pods move for it: a node that joins, a label, a scale or a rollout "
        "that is undone soon moves none. What it finds when the controller starts counts at once. "
        "So long the pods of a node must request so much, or so little, for LowNodeUtilization or "
        "HighNodeUtilization: a pod of a Job is "
        "often gone by then, or the next one there. So long room must last that a pod left, before "
        "another one moves there that prefers the node, or for balance; and a node that joins "
        "while pods wait for room. "
        "ConsolidateNodes and KeepNodesFree empty no node that a pod left within that time, and "
        "count on no room of such a pod; KeepNodesFree takes a node to be free until others have "
        "used it for so long. "
        "At most 5m.",
    )


_STANDING_TIMES: Final = StandingTimeSettings.model_construct()


class GuardSettings(Section):
    """Guards keep pods where they are in reactive mode; a sweep does as the SIG descheduler."""

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
    pressure_nodes: NodeMarkAction = Field(
        default="leave",
        description="The same for the taints of memory, disk and pid pressure: the kubelet evicts "
        "by rank, and the taint goes once it has relieved the node.",
    )
    unready_nodes: NodeMarkAction = Field(
        default="leave",
        description="The same for the taints of nodes that are not ready, unreachable, without "
        "network or not initialized; the node lifecycle and cloud controllers take them off.",
    )
    starting_nodes: NodeMarkAction = Field(
        default="leave",
        description="The same for start-up and readiness taints, as of cluster-autoscaler, "
        "Karpenter, the node readiness controller and Gardener.",
    )
    agent_nodes: NodeMarkAction = Field(
        default="leave",
        description="The same for the taints of network, storage and device agents that are not "
        "ready: they keep new pods away while the agent restarts.",
    )
    standing_times: StandingTimeSettings = Field(
        default=_STANDING_TIMES,
        description="How long what was found must stand before it is a reason to evict.",
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
    min_ended_time_s: Seconds = Field(
        default=60.0,
        description="A pod that ended less than so long ago is not evicted: its controller reads "
        "how it ended, and what collects logs reads these; 0s: any time.",
    )
    unready_timeout_s: Seconds = Field(
        default=600.0,
        description="A pod that is not Ready for this long counts as lost: it holds the other pods "
        "of its workload no longer, as long as fewer than half of them are lost or a "
        "PodDisruptionBudget decides; 0s: it holds them until it is Ready or gone. Those of a "
        "StatefulSet it holds in any case.",
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
    gangs: GangAction = Field(
        default="keep",
        description="What becomes of pods that run together or not at all: `keep` leaves each of "
        "them, and `together` lets all pods of a gang leave where one of them has to and all gates "
        "let all of them go, one gang at a time; plugins that balance the cluster move none.",
    )
    resource_claims: Annotated[ClaimAction, NEEDS_RESTART] = Field(
        default="keep",
        description="What becomes of pods with ResourceClaims: `keep` leaves them where they are, "
        "and `fit` lets those leave for which another node has free devices that suit, as the "
        "kube-scheduler chooses them. It takes the rights of `deploy/devices`, and the package of "
        "the extra `devices` for classes and claims with CEL expressions.",
    )
    disabled: tuple[GuardName, ...] = Field(
        default=(), description="Guards that are switched off, by name."
    )
    ignored_by: Mapping[str, tuple[GuardName, ...]] = Field(
        default={},
        description="Guards that do not hold one plugin's findings, by plugin name.",
    )

    def trusts(self, owner: OwnerReference) -> bool:
        """Say whether an owner is of a kind that is named as one that replaces its pods."""
        names = {owner.kind, f"{owner.kind}.{owner.group}"}
        return not names.isdisjoint(self.replacing_owners)

    def replaces(self, owner: OwnerReference, restart_policy: str) -> bool:
        """Say whether an owner is taken to make a new pod for one that is evicted.

        A pod that is restarted without end serves, and what serves is made again. Any other is run
        once, and of the kinds that do that only Jobs are known to try again.
        """
        names = {owner.kind, f"{owner.kind}.{owner.group}"}
        if self.trusts(owner) or owner.is_batch_job:
            return True
        is_custom = "." in owner.group and not owner.group.endswith(".k8s.io")
        if not names.isdisjoint(self.non_replacing_owners) or (
            is_custom and ANY_KIND in self.non_replacing_owners
        ):
            return False
        return restart_policy == RESTARTS_ALWAYS

    def action(self, group: str) -> NodeMarkAction:
        """Return what is done about a group of node marks, given by its field's name."""
        action: NodeMarkAction = getattr(self, _FIELDS[group])
        return action

    def left_mark(self, key: str) -> NodeMark | None:
        """Return what is known of a taint's key that is no reason to evict; None of any other."""
        if (found := find_mark(key)) is None or self.action(found[0].name) == "drain":
            return None
        return found[1]

    def taint_rule(self, key: str) -> TaintRule:
        """Say whether taints of this key are a reason to evict, and after which time."""
        times, found = self.standing_times, find_mark(key)
        counts = found is None or self.action(found[0].name) == "drain"
        for pattern, standing_s in times.by_taint.items():
            if fnmatchcase(key, pattern):
                return TaintRule(counts, standing_s)
        field = "other_taints" if found is None else _FIELDS[found[0].name]
        standing_s = getattr(times, f"{field}_s")
        return TaintRule(counts, standing_s)

    @property
    def reason_rules(self) -> ReasonRules:
        """Return what of a node is a reason to evict, and after which time."""
        if GuardName.STANDING_TIME in self.disabled:
            return ReasonRules(lambda key: TaintRule(self.left_mark(key) is None))
        times = self.standing_times
        return ReasonRules(
            self.taint_rule,
            times.node_labels_s,
            times.system_labels_s,
            times.ready_nodes_s,
            times.absent_nodes_s,
            times.node_use_s,
            times.pod_states_s,
            times.pod_labels_s,
        )

    def holds(self, guard: GuardName, plugin: str) -> bool:
        """Say whether a guard is on for the findings of a plugin."""
        return guard not in self.disabled and guard not in self.ignored_by.get(plugin, ())


_FIELDS: Final = {
    "cordonedNodes": "cordoned_nodes",
    "scaledDownNodes": "scaled_down_nodes",
    "maintenanceNodes": "maintenance_nodes",
    "pressureNodes": "pressure_nodes",
    "unreadyNodes": "unready_nodes",
    "startingNodes": "starting_nodes",
    "agentNodes": "agent_nodes",
}
"""The fields of the groups of node marks, here and in the standing times."""
