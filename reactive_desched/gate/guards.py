"""The guards of reactive mode: one small function for each reason to leave a pod where it is.

A sweep, which acts every five minutes at most, has none of them. A guard returns None, or what
holds the pod and what may end that: the changes that wake the finding, or the time. To add one,
write its function and its line in `GUARDS`, and its name in `policy/settings/guards.py`.
"""

from collections.abc import Iterator
from typing import Final

from reactive_desched.api.index import Index
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.gate.annotated import carriers
from reactive_desched.gate.guard import Guard, GuardInputs, Hold
from reactive_desched.gate.standing_times import (
    standing_time,
)
from reactive_desched.gate.unfinished_work import WORK_GUARDS
from reactive_desched.gate.workloads import GATHER_S, Workloads, WorkloadState
from reactive_desched.model.decisions import TURN_COMES_S, GateReason, Refuse, WaitEnd
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import OwnerReference, Pod
from reactive_desched.model.opt_outs import (
    DO_NOT_DISRUPT,
    DO_NOT_EVICT,
    SAFE_TO_EVICT,
    EvictWish,
    OptOut,
    evict_wish,
    read_opt_out,
    says_no,
    says_yes,
)
from reactive_desched.model.wakes import (
    WakeOn,
    WakeOnEviction,
    WakeOnNode,
    WakeOnPdb,
    WakeOnPod,
    WakeOnWorkload,
)
from reactive_desched.moves.node_memory import WakeOnAnyNode
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.indexes.pdb import PdbIndex
from reactive_desched.state.indexes.unschedulable_pods import UnschedulablePods
from reactive_desched.text.counts import format_count

SCORE_AGAIN_AFTER_S: Final = 300.0
"""Where the kube-scheduler would send a pod is looked at again after so long, as pods come and go.
"""

DO_NOT_EVICT_ANNOTATION: Final = GateReason(
    GuardName.DO_NOT_EVICT,
    "DoNotEvict",
    "The pod, its workload, its node or its namespace has the annotation "
    "`reactive-desched/do-not-evict`, and no nearer one of pod, workload and namespace says "
    '`"false"`.',
    keeps=True,
)
DO_NOT_EVICT_UNREADABLE: Final = GateReason(
    GuardName.DO_NOT_EVICT,
    "DoNotEvictUnreadable",
    "The annotation `reactive-desched/do-not-evict` of the pod, its workload, node or namespace "
    "has a value that cannot be read; it protects until it is corrected.",
)
NOT_SAFE_TO_EVICT: Final = GateReason(
    GuardName.SAFE_TO_EVICT,
    "NotSafeToEvict",
    "The pod has cluster-autoscaler's annotation `safe-to-evict` with the value `false`.",
    keeps=True,
)
MUST_NOT_BE_DISRUPTED: Final = GateReason(
    GuardName.DO_NOT_DISRUPT,
    "DoNotDisrupt",
    "The pod or its node has Karpenter's annotation `do-not-disrupt`.",
    keeps=True,
)
NOMINATED: Final = GateReason(
    GuardName.NOMINATED_PODS,
    "PodNominated",
    "The kube-scheduler makes room for the pod on a node, and has not bound it yet.",
)
POD_TOO_YOUNG: Final = GateReason(
    GuardName.YOUNG_PODS,
    "PodTooYoung",
    "The pod started less than `guards.minPodAge` ago.",
    "guards.minPodAge",
)
READY_TOO_RECENTLY: Final = GateReason(
    GuardName.NEWLY_READY_PODS,
    "ReadyTooRecently",
    "The pod has been Ready for less than `guards.minReadyTime`.",
    "guards.minReadyTime",
)
ENDED_TOO_RECENTLY: Final = GateReason(
    GuardName.NEWLY_ENDED_PODS,
    "EndedTooRecently",
    "The pod ended less than `guards.minEndedTime` ago.",
    "guards.minEndedTime",
)
ROLLING_OUT: Final = GateReason(
    GuardName.ROLLOUTS,
    "RollingOut",
    "The pod's Deployment or StatefulSet is rolling out, and the pod is Ready, or not for "
    "`guards.unreadyTimeout` yet. It ends with the rollout, or when that is undone.",
    "guards.ignoredBy",
)
TOO_FEW_READY: Final = GateReason(
    GuardName.UNREADY_WORKLOADS,
    "TooFewReadyPods",
    "The pod's workload has fewer Ready pods than it wants, other than those that the controller "
    "evicted itself; for a StatefulSet, those count as well. What is missing for "
    "`guards.unreadyTimeout` holds the pods of a Deployment no longer while fewer than half are "
    "lost, or where a PodDisruptionBudget covers the pod: that decides then; but where no pod was "
    "created for an evicted one, it holds them until the workload is whole.",
    "guards.unreadyTimeout",
)
NOT_ITS_TURN: Final = GateReason(
    GuardName.STATEFUL_SET_ORDER,
    "HigherOrdinalFirst",
    "A pod of the StatefulSet with a higher ordinal has a finding as well, and leaves first.",
    "guards.ignoredBy",
)
ORDINALS_GATHERED: Final = GateReason(
    GuardName.STATEFUL_SET_ORDER,
    "OrdinalsGathered",
    "For a moment the controller finds out which pods of the StatefulSet have to leave, so that "
    "the one with the highest ordinal leaves first.",
    "guards.ignoredBy",
)
SINGLE_REPLICA_MOVING: Final = GateReason(
    GuardName.SINGLE_REPLICAS,
    "SingleReplicaMoving",
    "Another workload of the namespace that wants a single pod was evicted, and is not Ready yet.",
    "guards.ignoredBy",
)


SCORED_ELSEWHERE: Final = GateReason(
    GuardName.SCORED_ELSEWHERE,
    "ScoredElsewhere",
    "The pod would be better off on other nodes, by its preferences, for an even spread or as its "
    "node is used too much, and one of them has room; once it has left, the kube-scheduler's "
    "default scores favour a node that is none of them, such as its own. "
    "Where your scheduler weighs otherwise, write `scheduler.config`, or name the guard in "
    "`guards.disabled`.",
    "guards.disabled",
)


def do_not_evict(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods that ask for it by our annotation, or whose node, workload or namespace does.

    Of the pod, its controllers and its namespace the nearest one with the annotation decides; one
    whose time is over says nothing any more. A node speaks for itself: it holds its pods whatever
    they say.
    """
    pod, node = finding.pod, inputs.node(finding)
    if node is not None:
        where, value, on_node = f"node {node.name}", node.do_not_evict, WakeOnNode(node.name)
        if (hold := _asked(pod, where, value, (on_node,), inputs)) is not None:
            return hold
    wakes: tuple[WakeOn, ...] = ()
    for where, value, wake in _opt_outs(pod, inputs.view):
        wakes = (*wakes, wake)  # a nearer one may say no later
        if says_no(value):
            return None
        if (hold := _asked(pod, where, value, wakes, inputs)) is not None:
            return hold
    return None


def overriding_opt_out(finding: Finding, inputs: GuardInputs) -> str:
    """Say whose annotation releases a pod that a farther one would hold; empty where none does."""
    pod, released_by = finding.pod, ""
    for where, value, wake in _opt_outs(pod, inputs.view):
        if released_by:
            if (hold := _asked(pod, where, value, (wake,), inputs)) is not None:
                return f"{released_by}, which overrides this: {hold.message}"
        elif says_no(value):
            released_by = f"{where} has the annotation {DO_NOT_EVICT}: {value}"
    return ""


_IT_ENDS: Final = "; that ends"


def _asked(
    pod: Pod, where: str, value: str | None, wakes: tuple[WakeOn, ...], inputs: GuardInputs
) -> Hold | None:
    """Hold a pod by the value of our annotation, if it asks for that and its time is not over."""
    if (opt_out := read_opt_out(value, pod.created_s)) is None:
        return None
    message = f"{where} has the annotation {DO_NOT_EVICT}: {value}"
    if opt_out.is_malformed:
        hint = "write true, false, a time such as 2026-12-24T18:00:00Z, or a duration"
        return Hold(DO_NOT_EVICT_UNREADABLE, f"{message}; {hint}", wakes)
    if (wait_s := _left_s(opt_out, inputs)) is None or wait_s > 0:
        return Hold(DO_NOT_EVICT_ANNOTATION, message, wakes, wait_s, ends=_IT_ENDS)
    return None


def _opt_outs(pod: Pod, view: ClusterView) -> Iterator[tuple[str, str | None, WakeOn]]:
    """Yield what may carry our annotation, nearest first, its value, and the wake of its change."""
    for each in carriers(pod, view):
        value = None if each.annotations is None else each.annotations.do_not_evict
        yield each.name, value, each.wake


def safe_to_evict(finding: Finding, _: GuardInputs) -> Hold | None:
    """Hold pods that cluster-autoscaler must not evict, unless they may be descheduled."""
    value = finding.pod.annotations.safe_to_evict
    if not says_no(value) or _may_be_descheduled(finding.pod):
        return None
    return Hold(NOT_SAFE_TO_EVICT, f"the pod has the annotation {SAFE_TO_EVICT}: {value}")


def _may_be_descheduled(pod: Pod) -> bool:
    """Say whether the pod's evict annotation overrides the marks that other programs read."""
    return evict_wish(pod.annotations.evict) is EvictWish.PASSES


def do_not_disrupt(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods that Karpenter must not disrupt, and those on such nodes."""
    pod, node = finding.pod, inputs.node(finding)
    value = pod.annotations.do_not_disrupt
    if value is not None and not _may_be_descheduled(pod):
        opt_out = read_opt_out(value, pod.created_s)
        if opt_out is not None and not opt_out.is_malformed:  # Karpenter reads nothing else either
            wait_s = _left_s(opt_out, inputs)
            if wait_s is None or wait_s > 0:
                message = f"the pod has the annotation {DO_NOT_DISRUPT}: {value}"
                return Hold(MUST_NOT_BE_DISRUPTED, message, (), wait_s, ends=_IT_ENDS)
    if node is not None and says_yes(node.do_not_disrupt):
        message = f"node {node.name} has the annotation {DO_NOT_DISRUPT}: {node.do_not_disrupt}"
        return Hold(MUST_NOT_BE_DISRUPTED, message, (WakeOnNode(node.name),))
    return None


def _left_s(opt_out: OptOut, inputs: GuardInputs) -> float | None:
    """Return for how many seconds an opt-out still holds; None: until it is changed."""
    return None if opt_out.until_s is None else opt_out.until_s - inputs.view.now_s


def nominated_pod(finding: Finding, _: GuardInputs) -> Hold | None:
    """Hold pods that wait for the node on which the kube-scheduler makes room for them."""
    pod = finding.pod
    if pod.node or not (nominated := pod.status.nominated_node):
        return None
    return Hold(NOMINATED, f"the kube-scheduler nominated node {nominated} for the pod")


def young_pod(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods that started a moment ago; a pod that has ended is of any age."""
    pod, minimum_s = finding.pod, inputs.settings.min_pod_age_s
    age_s = inputs.view.now_s - pod.came_s
    if age_s >= minimum_s or pod.has_ended:
        return None
    message = f"the pod started less than guards.minPodAge ago, {minimum_s:g} s"
    return Hold(POD_TOO_YOUNG, message, (), minimum_s - age_s, ends=_IT_ENDS)


def newly_ready_pod(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods that became Ready a moment ago."""
    pod, minimum_s = finding.pod, inputs.settings.min_ready_time_s
    if pod.has_ended or (since_s := pod.ready_since_s) is None:
        return None
    ready_s = inputs.view.now_s - since_s
    if ready_s >= minimum_s:
        return None
    message = f"the pod has been Ready for less than guards.minReadyTime, {minimum_s:g} s"
    return Hold(READY_TOO_RECENTLY, message, (), minimum_s - ready_s, ends=_IT_ENDS)


def newly_ended_pod(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods that ended a moment ago: others have yet to read how, and what they logged."""
    pod, minimum_s = finding.pod, inputs.settings.min_ended_time_s
    if not pod.has_ended:
        return None
    ended_s = inputs.view.now_s - pod.readiness_changed_s
    if ended_s >= minimum_s:
        return None
    message = (
        f"the pod ended less than guards.minEndedTime ago, {minimum_s:g} s: its controller and "
        "what collects logs may not have read it yet"
    )
    return Hold(ENDED_TOO_RECENTLY, message, (), minimum_s - ended_s, ends=_IT_ENDS)


DRAINED_NODE: Final = GateReason(
    GuardName.DRAINED_NODES,
    "NodeDrainedByOthers",
    "The pod's node is being deleted, or a taint on it says that an autoscaler, the cloud or a "
    "maintenance operator empties it.",
)


def drained_node(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods on nodes that others empty, unless the finding is about their very taint."""
    node = inputs.node(finding)
    if node is None:
        return None
    if node.is_terminating:
        message = f"node {node.name} is being deleted"
        return Hold(DRAINED_NODE, message, (WakeOnNode(node.name),))
    for taint in node.taints:
        mark = inputs.settings.left_mark(taint.key)
        if mark is not None and mark.empties and finding.details.get("taintKey") != taint.key:
            message = f"{mark.set_by} empties node {node.name} (taint {taint.key})"
            return Hold(DRAINED_NODE, message, (WakeOnNode(node.name),))
    return None


def rolling_out(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold the pods of a workload that is rolling out: its controller replaces pods already.

    A pod that is not Ready for long holds the rollout up, and may leave.
    """
    if (workload := _running(finding, inputs)) is None or not workload.rollout:
        return None
    if _is_lost(finding.pod, inputs):
        return None
    owner, namespace = workload.owner, finding.pod.namespace
    message = f"{owner.named(namespace)} is rolling out: {workload.rollout}"
    shortfall = inputs.workloads.shortfall(workload, inputs.settings.unready_timeout_s)
    if shortfall.lost:
        undo = f"kubectl rollout undo {owner.kind.lower()} -n {namespace} {owner.name}"
        message += f"; {shortfall.missing}: repair it, or `{undo}` and delete it"
    lost_in_s = _lost_in_s(finding.pod, inputs)
    wait_s = shortfall.wait_s if lost_in_s is None else lost_in_s  # then the message says more
    return Hold(ROLLING_OUT, message, _wakes(workload), wait_s)


def _is_lost(pod: Pod, inputs: GuardInputs) -> bool:
    left_s = _lost_in_s(pod, inputs)
    return left_s is not None and left_s <= 0


def _lost_in_s(pod: Pod, inputs: GuardInputs) -> float | None:
    """Return in how many seconds a pod counts as lost; None for a Ready one, and if none does."""
    since_s, timeout_s = pod.unready_since_s, inputs.settings.unready_timeout_s
    return None if since_s is None or not timeout_s else since_s + timeout_s - inputs.view.now_s


def unready_workload(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold a Ready pod whose workload lacks Ready pods for another reason than our evictions.

    A pod that is not Ready may leave: its workload does not lose a Ready one by that. Of a
    StatefulSet one pod leaves at a time. What has been missing for long holds no others as long as
    fewer than half of the pods are lost; where a PodDisruptionBudget covers the pod, that decides.
    Of a gang only the first pod is asked about: the others leave with it.
    """
    if finding.is_companion:
        return None
    pod = finding.pod
    if (workload := _running(finding, inputs)) is None or not pod.status.is_ready:
        return None
    name = workload.owner.named(pod.namespace)
    own = (pod.uid,) if finding.gang is None else finding.gang.pods  # by now they may leave
    leaving = tuple(uid for uid in workload.leaving if uid not in own)
    moving = workload.moving - (len(workload.leaving) - len(leaving))
    lacking = workload.missing + len(leaving)
    allowed = 0 if workload.is_stateful_set else moving
    wakes = (*_wakes(workload), *map(WakeOnEviction, leaving))
    unsteady, number, settles_s = inputs.workloads.unsteady(workload)
    if lacking <= allowed < lacking + number:
        message = f"{unsteady} of {name} is Ready again after several restarts"
        return Hold(TOO_FEW_READY, message, wakes, settles_s, ends="; it counts as steady")
    if lacking <= allowed:
        return None
    wanted = workload.wanted if workload.wanted is not None else workload.ready + workload.unready
    message = f"{workload.ready} of {wanted} pods of {name} are Ready"
    if leaving:
        message += f", and {format_count(len(leaving), 'eviction', 'is', 'are')} under way"
    timeout_s = inputs.settings.unready_timeout_s
    lost, wait_s, missing, is_there = inputs.workloads.shortfall(workload, timeout_s)
    message += f"; {missing}" if missing else ""
    if lacking - lost <= allowed and not workload.is_stateful_set:
        if 2 * lost < wanted or inputs.view.index(PdbIndex).covering(pod):
            return None
        wakes = (*wakes, WakeOnPdb(pod.namespace))
        message += f", so {lost} of {wanted} count as lost"
    elif wait_s is not None and not workload.is_stateful_set:
        message += f", and counts as lost after {timeout_s:g} s"
        return Hold(TOO_FEW_READY, message, wakes, wait_s)
    message += _remedy(workload.owner, pod.namespace, is_there=is_there) if missing else ""
    if not workload.is_stateful_set:
        # no timeout lets it pass where there is none to wait for
        setting = "" if wait_s is not None else "guards.ignoredBy"
        return Hold(TOO_FEW_READY, message, wakes, wait_s, setting=setting)
    turn_s = inputs.workloads.turn_within_s(workload.key) if lacking <= moving else 0.0
    row = workload.key if turn_s else ""
    return Hold(TOO_FEW_READY, message, wakes, turn_s or None, row, "guards.ignoredBy")


def _remedy(owner: OwnerReference, namespace: str, *, is_there: bool) -> str:
    """Return what a person can do about a pod, or where none is there about those that lack."""
    if is_there:
        return ": repair or delete it, or scale the workload down"
    return (
        f": `kubectl get pods -n {namespace}` shows one that stays Terminating, `kubectl describe "
        f"{owner.kind.lower()} -n {namespace} {owner.name}` why none is created; or scale the "
        "workload down"
    )


def stateful_set_order(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold a pod of a StatefulSet while one of a higher ordinal has to leave, too.

    Not in a set, which leaves as a whole: a set has the higher ordinals of a node first.
    """
    if finding.is_companion or finding.move_set is not None:
        return None
    workload = _running(finding, inputs)
    if workload is None or not workload.is_stateful_set:
        return None
    turn = inputs.workloads.turn_of(finding.pod, workload)
    if turn.wait_s <= 0:
        return None
    wakes = (WakeOnWorkload(workload.controller_uid),)
    row = workload.key if turn.wait_s <= TURN_COMES_S else ""
    name = workload.owner.named(finding.pod.namespace)
    if turn.first is None:
        message = (
            f"for {GATHER_S:g} s the controller finds out which pods of {name} have to "
            "leave: the one with the highest ordinal leaves first"
        )
        return Hold(ORDINALS_GATHERED, message, wakes, turn.wait_s, row)
    message = f"the pod of {name} with ordinal {turn.first} leaves first"
    return Hold(NOT_ITS_TURN, message, wakes, turn.wait_s, row)


def single_replica(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold the only pod of a workload while another such workload of its namespace is moving.

    A pod that is not Ready serves no one, and may leave; one of a gang leaves with the others.
    """
    if finding.is_companion:
        return None
    workload = _running(finding, inputs)
    if workload is None or workload.wanted != 1 or not finding.pod.status.is_ready:
        return None
    if (found := inputs.workloads.single_before(finding.pod, workload)) is None:
        return None
    before, wait_s = found
    owner = before.origin.owner
    message = f"{owner.title}, which wants a single pod as well, was moved and is not Ready yet"
    of_owner = map(WakeOnWorkload, inputs.workloads.controllers_of(owner.uid))
    wakes = (*of_owner, WakeOnEviction(before.pod_uid))
    turn = finding.pod.namespace if inputs.workloads.began_lately(before) else ""
    return Hold(SINGLE_REPLICA_MOVING, message, wakes, wait_s, turn)


def scored_elsewhere(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods that are better off on other nodes while the scheduler would choose none of them.

    Nothing but its scores brings the replacement there: by preferences, for an even spread of
    replicas, by a constraint that is soft for the pod, and from a node that is used too much. Where
    a configuration says what its scores are, no plugin that relieves nodes has to try them out, and
    the pods of one that packs nodes leave only for a scheduler that packs them. The node of a set
    is closed by a taint before its pods leave.
    """
    if finding.targets is None or inputs.node_fit is None:
        return None
    if not (finding.by_score or _is_by_known_scores(finding, inputs.node_fit)):
        return None
    closed = () if finding.move_set is None else (finding.pod.node,)
    fit, pod = inputs.node_fit, finding.pod
    if not (node := fit.scored_elsewhere(pod, finding.targets, without=closed)):
        return None
    message = f"by its default scores the kube-scheduler would choose {node}, and no better node"
    if node == finding.pod.node:
        message = f"by its default scores the kube-scheduler would bring the pod back to {node}"
    return Hold(SCORED_ELSEWHERE, message, (WakeOnAnyNode(),), SCORE_AGAIN_AFTER_S)


def _is_by_known_scores(finding: Finding, fit: SchedulerNodeFit) -> bool:
    """Say whether a plugin relieves a node by a scheduler whose configuration is known."""
    if not finding.relieves_node or finding.move_set is not None:
        return False
    return fit.scheduler_profiles.scores_of(finding.pod.spec.scheduler_name) is not None


def _wakes(workload: WorkloadState) -> tuple[WakeOn, ...]:
    return *map(WakeOnWorkload, workload.controllers), WakeOnWorkload(workload.owner.uid)


def _running(finding: Finding, inputs: GuardInputs) -> WorkloadState | None:
    """Return the workload of a pod that has not ended."""
    return None if finding.pod.has_ended else inputs.workloads.of(finding.pod)


GUARDS: Final = (
    Guard(
        GuardName.SCORED_ELSEWHERE,
        scored_elsewhere,
        "the filters and scores of the kube-scheduler's default plugins, without Services, for "
        "pods of `default-scheduler`",
    ),
    Guard(
        GuardName.STANDING_TIME,
        standing_time,
        "`guards.standingTimes`, and when the controller saw the taint or label change, a pod "
        "leave or a workload scaled, `timeAdded` of a taint that stood before, and when pods "
        "started",
        (OwnerIndex, UnschedulablePods),
    ),
    Guard(
        GuardName.DO_NOT_EVICT,
        do_not_evict,
        f"`{DO_NOT_EVICT}` on the pod, its ReplicaSet, Job, Deployment, StatefulSet or DaemonSet, "
        "or its namespace, the nearest of which decides, or on its node: `true`, a time, a "
        'duration since the pod\'s creation, or `"false"`',
        (OwnerIndex,),
    ),
    Guard(
        GuardName.SAFE_TO_EVICT,
        safe_to_evict,
        f'`{SAFE_TO_EVICT}: "false"` on the pod; the `evict` annotation of the SIG descheduler '
        "overrides it unless it says no",
    ),
    Guard(
        GuardName.DO_NOT_DISRUPT,
        do_not_disrupt,
        f"`{DO_NOT_DISRUPT}` on the pod (`true` or a duration since its creation; the `evict` "
        "annotation overrides it unless it says no) or on its node (`true`)",
    ),
    *WORK_GUARDS,
    Guard(
        GuardName.NOMINATED_PODS,
        nominated_pod,
        "`status.nominatedNodeName` of a pod that is not bound",
    ),
    Guard(
        GuardName.YOUNG_PODS,
        young_pod,
        "`guards.minPodAge` and `status.startTime`, or the time of creation",
    ),
    Guard(
        GuardName.NEWLY_READY_PODS,
        newly_ready_pod,
        "`guards.minReadyTime` and the pod's Ready condition",
    ),
    Guard(
        GuardName.NEWLY_ENDED_PODS,
        newly_ended_pod,
        "`guards.minEndedTime` and the pod's Ready condition, which changes when it ends",
    ),
    Guard(
        GuardName.DRAINED_NODES,
        drained_node,
        "the taints of `guards.scaledDownNodes` and `guards.maintenanceNodes`, or "
        "`metadata.deletionTimestamp` of the node",
    ),
    Guard(
        GuardName.ROLLOUTS,
        rolling_out,
        "Deployment and StatefulSet, as `kubectl rollout status` reads them",
        Workloads.indexes,
    ),
    Guard(
        GuardName.UNREADY_WORKLOADS,
        unready_workload,
        "`spec.replicas` of the Deployment or StatefulSet, else the pods of the same controller; "
        "`guards.unreadyTimeout`, which is Kubernetes' `progressDeadlineSeconds` by default",
        (*Workloads.indexes, PdbIndex),
    ),
    Guard(
        GuardName.STATEFUL_SET_ORDER,
        stateful_set_order,
        "the ordinals of a StatefulSet's pods, in the order in which it would replace them",
    ),
    Guard(
        GuardName.SINGLE_REPLICAS,
        single_replica,
        "`spec.replicas: 1` of the Deployment or StatefulSet",
    ),
)
"""Every guard, in the order in which they are asked."""


_ASKED_ONCE: Final = frozenset(
    {
        GuardName.RESOURCE_CLAIMS,
        GuardName.STATEFUL_SET_ORDER,
        GuardName.SINGLE_REPLICAS,
        GuardName.SCORED_ELSEWHERE,
    }
)
"""The guards that are about which of several pods is let go, or whose answer was reserved since."""


class Guards:
    """Asks every guard that the settings leave on for the finding's plugin."""

    name = "Guards"

    def __init__(
        self,
        view: ClusterView,
        settings: GuardSettings,
        workloads: Workloads,
        balancing: frozenset[str] = frozenset(),
        node_fit: SchedulerNodeFit | None = None,
    ) -> None:
        self._view = view
        self._workloads = workloads
        self._node_fit = node_fit
        self.reconfigure(settings, balancing)

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that the guards read."""
        return tuple(kind for guard in GUARDS for kind in guard.indexes)

    def reconfigure(self, settings: GuardSettings, balancing: frozenset[str]) -> None:
        """Apply other settings; `balancing` names the plugins that balance the cluster."""
        self._inputs = GuardInputs(self._view, settings, self._workloads, balancing, self._node_fit)
        self._by_plugin: dict[str, tuple[Guard, ...]] = {}

    def check(self, finding: Finding, now: float) -> Refuse | None:
        """Refuse with the first guard that holds the pod; `now` is monotonic seconds."""
        return next(self.refusals(finding, now), None)

    def refusals(self, finding: Finding, now: float) -> Iterator[Refuse]:
        """Yield the refusal of each guard that holds the pod, in their order."""
        for guard in self._active(finding.plugin):
            if (hold := guard.check(finding, self._inputs)) is not None:
                until = None if hold.wait_s is None else now + hold.wait_s
                wakes = (WakeOnPod(finding.pod.uid), *hold.wakes)
                end = None
                if until is not None and hold.ends:
                    end = WaitEnd(hold.ends, until)
                refusal = hold.reason.refuse(
                    finding,
                    hold.message,
                    wakes,
                    until,
                    scope_exhausted=hold.scope_exhausted,
                    setting=hold.setting,
                    turn=hold.turn,
                )
                yield refusal.ending(end)

    def held_since(self, finding: Finding, _: float) -> str:
        """Say what holds the pod of a finding that all guards let go before; empty for nothing."""
        for guard in self._active(finding.plugin):
            if guard.name not in _ASKED_ONCE:
                hold = guard.check(finding, self._inputs)
                if hold is not None:
                    return hold.message
        return ""

    def remark(self, finding: Finding) -> str:
        """Say which annotation lets a pod go that another one would keep; empty where none does."""
        if not self._inputs.settings.holds(GuardName.DO_NOT_EVICT, finding.plugin):
            return ""
        return overriding_opt_out(finding, self._inputs)

    def _active(self, plugin: str) -> tuple[Guard, ...]:
        active = self._by_plugin.get(plugin)
        if active is None:
            settings = self._inputs.settings
            active = tuple(each for each in GUARDS if settings.holds(each.name, plugin))
            self._by_plugin[plugin] = active
        return active
