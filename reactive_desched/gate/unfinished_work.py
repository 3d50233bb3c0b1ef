"""The guards of work that an eviction would end: Jobs, pods made once, gangs, claimed devices.

Their pods are not replaced, or not by one that goes on where the evicted one was. A pod whose
owner asks for it by the SIG descheduler's annotation `evict` is let go all the same, as is one
that has ended: its eviction clears it away.
"""

from typing import Final

from reactive_desched.fit.unschedulable import RETRY_AFTER_S
from reactive_desched.gate.guard import Guard, GuardInputs, Hold
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.eviction_options import BY_EVICTION
from reactive_desched.model.evictor_table import evictor_named
from reactive_desched.model.findings import Finding
from reactive_desched.model.job_evictions import tries_left_without
from reactive_desched.model.job_tries import JobTries
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.objects import Job, OwnerReference, Pod, controller_of
from reactive_desched.model.opt_outs import EVICT, EvictWish, evict_wish, is_set
from reactive_desched.model.rights import LIST_WATCH, Right
from reactive_desched.model.wakes import WakeOnEviction, WakeOnPod, WakeOnWorkload
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.state.indexes.gangs import Gangs, WakeOnGang
from reactive_desched.state.indexes.terminating_pods import TerminatingPods
from reactive_desched.state.kinds.device_taint_rule import DEVICE_TAINT_RULE
from reactive_desched.state.resources import DEVICE_RESOURCES, JOBS, WATCHED_KINDS
from reactive_desched.text.ages import format_age

_LET_GO: Final = f'the annotation {EVICT}: "true" on the pod lets it go'

_TO_READ: Final = Right("batch", JOBS, LIST_WATCH)

MAX_AWAITED: Final = 10
"""The end of so many other pods of a Job or gang wakes one that is held; each looks at all."""

CLAIMS_DEVICES: Final = GateReason(
    GuardName.RESOURCE_CLAIMS,
    "ClaimsDevices",
    "The pod has ResourceClaims; whether another node has such devices is not known.",
    "guards.resourceClaims",
    keeps=True,
)
NO_NODE_FOR_CLAIMS: Final = GateReason(
    GuardName.RESOURCE_CLAIMS,
    "NoNodeForClaims",
    "The pod has ResourceClaims, and no other node fits it with devices for them.",
    "guards.disabled",
)
NOTHING_REPLACES_POD: Final = GateReason(
    GuardName.UNREPLACED_PODS,
    "NothingReplacesPod",
    "The pod has no controller, so nothing would make it again.",
    "guards.disabled",
    keeps=True,
)
OWNER_MAKES_NO_POD: Final = GateReason(
    GuardName.UNREPLACED_PODS,
    "OwnerMakesNoPod",
    "The pod is run once (its `restartPolicy` is Never or OnFailure) by an owner that is no Job, "
    "as pipelines and workflows do, or `guards.nonReplacingOwners` names its owner: its work would "
    "be lost.",
    "guards.replacingOwners",
    keeps=True,
)
JOB_NOT_KNOWN: Final = GateReason(
    GuardName.JOB_TRIES,
    "JobNotKnown",
    "The pod belongs to a Job that was not read, so what an eviction costs it is not known.",
    "guards.disabled",
)
LAST_JOB_TRY: Final = GateReason(
    GuardName.JOB_TRIES,
    "LastJobTry",
    "The eviction counts as a failure, after which the pod's Job, or its index, has fewer tries "
    "left than `guards.minJobTriesLeft`; with none left it fails for good.",
    "guards.minJobTriesLeft",
)
TRY_FOR_BALANCE: Final = GateReason(
    GuardName.JOB_TRIES,
    "JobTryForBalance",
    "The eviction costs the pod's Job one of its tries, and its plugin balances the cluster: the "
    "pod is not wrong where it is, and would begin its work anew.",
    "guards.ignoredBy",
    keeps=True,
)
JOB_MAKES_NO_POD: Final = GateReason(
    GuardName.JOB_TRIES,
    "JobMakesNoPod",
    "The pod's Job makes no new pod now: it is suspended, one of its pods has succeeded and it has "
    "no `completions`, or another controller manages it.",
    "guards.disabled",
)
JOB_DEADLINE_NEAR: Final = GateReason(
    GuardName.JOB_TRIES,
    "JobDeadlineNear",
    "The `activeDeadlineSeconds` of the pod's Job leave a new pod less time than this one has run.",
    "guards.disabled",
)
ONE_OF_GANG: Final = GateReason(
    GuardName.GANGS,
    "OneOfGang",
    "The pod belongs to a group of pods that run together or not at all, and others of it run. "
    "With `guards.gangs: together` all of them leave, or none, but not to balance the cluster.",
    "guards.gangs",
    keeps=True,
)


def resource_claims(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods for whose claims no other node is known to have devices."""
    pod, fit = finding.pod, inputs.node_fit
    if not pod.has_resource_claims or _may_go(pod):
        return None
    if why := _devices_not_known(pod, inputs):
        return Hold(CLAIMS_DEVICES, f"the pod has ResourceClaims, and {why}; {_LET_GO}")
    if fit is None or fit.find_other_node(pod, EVERYTHING) is not None:
        return None
    found = fit.diagnose_other_nodes(pod, EVERYTHING)
    message = f"the pod has ResourceClaims, and {found.message}; {_LET_GO}"
    return Hold(NO_NODE_FOR_CLAIMS, message, found.wake_on, RETRY_AFTER_S)


def _devices_not_known(pod: Pod, inputs: GuardInputs) -> str:
    """Say why it is not known whether another node has the devices; empty where it is."""
    if inputs.settings.resource_claims != "fit":
        return "the devices of other nodes are not known: see guards.resourceClaims"
    for resource in sorted(DEVICE_RESOURCES - {DEVICE_TAINT_RULE.resource}):  # few servers have it
        if not inputs.view.is_readable(resource):
            right = Right(WATCHED_KINDS[resource].group, resource, LIST_WATCH)
            return f"{resource} were not read, which takes {right.rule}"
    if not inputs.node_fit or not inputs.node_fit.scheduler_profiles.judges_devices(pod.spec):
        return "its scheduler's profile has no filter DynamicResources"
    return ""


def unreplaced_pod(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods that nothing is known to make again; one that another program moves is not lost."""
    pod = finding.pod
    if _may_go(pod) or is_set(pod.annotations.request_evict_only):
        return None
    if any(map(inputs.settings.trusts, pod.owners)):
        return None
    if (owner := controller_of(pod.owners)) is None:
        return Hold(NOTHING_REPLACES_POD, f"the pod has no controller to make it again; {_LET_GO}")
    policy = pod.spec.restart_policy
    if inputs.settings.replaces(owner, policy):
        return None
    message = (
        f"the pod has restartPolicy {policy}, and {owner.named(pod.namespace)} is not known to "
        f"make a new one; a kind that does belongs into guards.replacingOwners, and {_LET_GO}"
    )
    return Hold(OWNER_MAKES_NO_POD, message)


def job_tries(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold a pod of a Job that would fail for good, or not get its work done, without it."""
    pod = finding.pod
    owner = controller_of(pod.owners)
    if owner is None or not owner.is_batch_job or _may_go(pod):
        return None
    job = inputs.view.store(Job).get(owner.uid)
    wake = WakeOnWorkload(owner.uid)
    if job is None or job.tries is None:
        return Hold(JOB_NOT_KNOWN, _why_not_known(pod, owner, inputs), (wake,))
    tries, name = job.tries, owner.named(pod.namespace)
    if tries.is_over:
        return None
    if tries.makes_no_pod:
        message = f"{name} makes no new pod: {tries.makes_no_pod}; {_LET_GO}"
        return Hold(JOB_MAKES_NO_POD, message, (wake,))
    if near := _nearness_of_deadline(pod, tries, inputs.view.now_s):
        return Hold(JOB_DEADLINE_NEAR, f"{name} {near}; {_LET_GO}", (wake,))
    return _too_few_tries(finding, owner, tries, inputs)


def _nearness_of_deadline(pod: Pod, tries: JobTries, now_s: float) -> str:
    """Say when a Job ends where the pod has run longer than a new one could; else nothing."""
    if tries.deadline_s is None or pod.started_s is None:
        return ""
    ran_s, left_s = now_s - pod.started_s, max(0.0, tries.deadline_s - now_s)
    if left_s >= ran_s:
        return ""
    ran, left = format_age(ran_s), format_age(left_s)
    return f"ends in {left} by its activeDeadlineSeconds, and the pod has run for {ran}"


def _too_few_tries(
    finding: Finding, owner: OwnerReference, tries: JobTries, inputs: GuardInputs
) -> Hold | None:
    """Hold a pod if the Job has too few tries left without it.

    Pods that terminate count as failures: whether the status has them already is not known.
    """
    pod = finding.pod
    unseen = [uid for uid in inputs.workloads.in_flight(pod) if uid != pod.uid]
    terminating = [
        other.uid
        for other in inputs.view.index(TerminatingPods).pods_of(pod.namespace)
        if other.uid != pod.uid and controller_of(other.owners) == owner
    ]
    is_deleted = evictor_named((finding.options or BY_EVICTION).evictor).is_deletion
    left = tries_left_without(tries, pod, len(unseen) + len(terminating), is_deleted=is_deleted)
    if left is None or not (wanted := inputs.settings.min_job_tries_left):
        return None
    name, reason = owner.named(pod.namespace), LAST_JOB_TRY
    if left.tries >= wanted:
        if finding.plugin not in inputs.balancing:
            return None
        reason, effect = TRY_FOR_BALANCE, f"would lose a try to {finding.plugin}, which balances"
    elif left.tries:
        effect = f"would have {left.tries} more tries only"
    else:
        effect = "would fail for good"
    message = (
        f"{name} {effect}: {left.why}; a podFailurePolicy that ignores DisruptionTarget makes "
        f"evictions count for nothing, and {_LET_GO}"
    )
    wakes = (
        WakeOnWorkload(owner.uid),
        *map(WakeOnEviction, unseen[:MAX_AWAITED]),
        *map(WakeOnPod, terminating[:MAX_AWAITED]),
    )
    return Hold(reason, message, wakes)


def _why_not_known(pod: Pod, owner: OwnerReference, inputs: GuardInputs) -> str:
    name = f"{owner.named(pod.namespace)} of the pod"
    if not inputs.view.is_readable(JOBS):
        return f"{name} was not read, which takes {_TO_READ.rule}; {_LET_GO}"
    return f"{name} is not known, so neither is whether it would fail for good; {_LET_GO}"


def gang(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold a pod of a gang of which others run: they would wait for it, or start again."""
    pod = finding.pod
    gangs = inputs.view.index(Gangs)
    if finding.gang is not None or (group := gangs.of(pod)) is None or _may_go(pod):
        return None
    if not (others := gangs.others(group, pod)):
        return None
    leaves = inputs.workloads.leaves
    if gangs.spares(group, pod, leaves):
        return None
    leaving = [uid for uid in gangs.pods_of(group) if uid != pod.uid and leaves(uid)]
    if finding.plugin in inputs.balancing:
        whole = f"{finding.plugin} balances, so they are not moved together"
    else:
        whole = "`guards.gangs: together` moves all of them together, where it may"
    message = (
        f"the pod is one of {others + 1} running pods of {group.title}, which run "
        f"together; {whole}, and {_LET_GO} alone"
    )
    return Hold(
        ONE_OF_GANG, message, (WakeOnGang(group), *map(WakeOnEviction, leaving[:MAX_AWAITED]))
    )


def _may_go(pod: Pod) -> bool:
    """Say whether a pod loses nothing, as it has ended, or its owner wants it evicted."""
    return pod.has_ended or evict_wish(pod.annotations.evict) is EvictWish.PASSES


WORK_GUARDS: Final = (
    Guard(
        GuardName.RESOURCE_CLAIMS,
        resource_claims,
        "`spec.resourceClaims` of the pod, or the claim that the kube-scheduler made for its "
        f'extended resources; `{EVICT}: "true"` overrides it, as it does the next three',
    ),
    Guard(
        GuardName.UNREPLACED_PODS,
        unreplaced_pod,
        "the pod's controller, its `restartPolicy`, `guards.replacingOwners` and "
        "`guards.nonReplacingOwners`; not of pods with `request-evict-only`, which another program "
        "moves",
    ),
    Guard(
        GuardName.JOB_TRIES,
        job_tries,
        "the Job's `backoffLimit`, `backoffLimitPerIndex`, `podFailurePolicy`, `completions`, "
        "`suspend`, `activeDeadlineSeconds`, `managedBy` and status",
        (TerminatingPods,),
    ),
    Guard(
        GuardName.GANGS,
        gang,
        "`spec.schedulingGroup`, `spec.workloadRef`, or [a label or annotation of these]"
        "(#pods-that-run-together)",
        (Gangs,),
    ),
)
"""These guards, in the order in which they are asked."""
