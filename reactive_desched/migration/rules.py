"""Decides when a migration job goes on: one rule for each arrow of its states.

A rule returns the message for the job's status where its arrow is taken, and None where it is not.
"""

from datetime import datetime
from typing import Final

from reactive_desched.migration.job_state import EVICTION, POD_SCHEDULED, JobState, Modes
from reactive_desched.migration.volumes import VolumeReach
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.migration_jobs import (
    PLACEHOLDER_FOR_KIND,
    JobCondition,
    MigrationJob,
    Mode,
    PodReference,
)
from reactive_desched.model.objects import Pod, controller_of
from reactive_desched.model.reservations import Reservation, ReservationPhase

MISSING_GRACE_S: Final = 3.0
"""So long after its creation a job waits for its pod: the watch may show the job first."""

SUCCESSOR_GRACE_S: Final = 30.0
"""So long after its pod is gone a placeholder keeps its place for a StatefulSet's next pod."""

LAG_GRACE_S: Final = 3.0
"""And so long for a ReplicaSet's, which may be seen a moment after the old one is gone."""

PLACE_GRACE_S: Final = 60.0
"""So long a placeholder stays whose node would not take the replacement: a cordon may end."""

NO_PLACE: Final = GateReason(
    "MigrationPlace",
    "NoPlaceKept",
    "No place can be kept for the pod's replacement, which jobs of mode ReservationFirst need.",
    "defaultJobMode",
)
PLACE_DOES_NOT_FIT: Final = GateReason(
    NO_PLACE.gate,
    "PlaceDoesNotFit",
    "The pod's replacement would not be scheduled to the node of its placeholder.",
)
PLACE_PENDING: Final = GateReason(
    NO_PLACE.gate, "PlacePending", "Changed nodes are still being evaluated for node fit."
)

_MAKES_PODS_EARLY: Final = "ReplicaSet"


# --- whatever the job does ---


def person_aborts(state: JobState) -> str | None:
    """Say that a person aborted a job whose pod is not evicted."""
    if state.job.is_to_be_aborted and not state.is_evicting:
        return "a person aborted the job"
    return None


def finding_has_ended(state: JobState) -> str | None:
    """Say that what the job was made for is so no more."""
    return state.lapsed if state.lapsed and not state.is_evicting else None


def time_is_over(state: JobState) -> str | None:
    """Say that the job has not ended within its time to live."""
    if state.now_s < times_out_at(state.job):
        return None
    return f"the job has not ended within its ttl of {state.job.ttl_s:g} s"


# --- while it waits for arbitration ---


def names_no_pod(state: JobState) -> str | None:
    """Say that the job names no pod, or no longer the one that it began with."""
    named = state.job.pod
    if not (named.namespace and named.name):
        return "spec.podRef needs a namespace and a name"
    if not state.job.is_pending and not named.uid:
        return "spec.podRef.uid was removed after the job had begun"
    return None


def mode_is_not_there(state: JobState) -> str | None:
    """Say that the settings have nothing by which the job's mode could be carried out."""
    job, modes = state.job, state.modes
    if modes.can_carry_out(job):
        return None
    remedy = f"write spec.mode: {Mode.EVICT_DIRECTLY}"
    if modes.keeps_place(job):
        remedy += ", or migration.schedulerNames or migration.placeholder in the settings"
    return f"mode {modes.of(job)} is not there: {remedy}"


def options_evict_nothing(state: JobState) -> str | None:
    """Say which of the job's delete options nothing good can come of."""
    job, options = state.job, state.job.delete_options
    if options is None:
        return None
    if options.dry_run:
        return "spec.deleteOptions.dryRun evicts nothing: remove it"
    uid = None if options.preconditions is None else options.preconditions.uid
    if uid and job.pod.uid and uid != job.pod.uid:
        return f"spec.deleteOptions.preconditions.uid is {uid}, of podRef {job.pod.uid}: remove one"
    return None


def pod_does_not_exist(state: JobState) -> str | None:
    """Say that there is no such pod; a watch may show it a moment after its job."""
    if state.pod is not None or state.now_s < state.job.created_s + MISSING_GRACE_S:
        return None
    return f'Pod "{state.job.pod}" does not exist'


def is_forbidden(state: JobState) -> str | None:
    """Say why arbitration forbids the move, or no place can be kept for the replacement."""
    if state.pod is None:
        return None
    if not (why := state.forbidden or no_place_for(state.job, state.modes, state.pod, state.reach)):
        return None
    forbidden = "is forbidden to migrate because it does not meet the requirements"
    return f'Pod "{state.job.pod}" {forbidden}: {why}'


def arbitration_is_passed(state: JobState) -> str | None:
    """Say that arbitration let the job through: that is written on it, with the uid of its pod."""
    is_written = state.job.has_passed and state.job.pod.uid
    return "" if is_written and state.pod is not None else None


# --- before its pod is evicted ---


def eviction_is_accepted(state: JobState) -> str | None:
    """Say that the API server accepted the eviction of the pod."""
    if not state.is_evicted:
        return None
    why = state.job.cause or state.job.trigger or "a person asked for it"
    node = "" if state.pod is None else f' from node "{state.pod.node}"'
    return f'Pod "{state.job.pod}" evicted{node} by the reason "{why}"'


def pod_left_by_itself(state: JobState) -> str | None:
    """Say that the pod is gone, and this job did not evict it."""
    if state.pod is not None or state.is_evicted:
        return None
    return f'Pod "{state.job.pod}" is gone, and this job did not evict it'


def place_cannot_be_made(state: JobState) -> str | None:
    """Say why the placeholder or the Reservation could not be made so far."""
    if state.kept_by is not None:
        return None
    if state.failed_attempt is not None:
        return state.failed_attempt.message
    keeps_by_placeholder = state.modes.keeps_place(state.job) and not state.reserves
    return state.reach.error or None if keeps_by_placeholder else None


def place_is_made(state: JobState) -> str | None:
    """Say by what a place is kept."""
    match state.kept_by:
        case Reservation() as reservation:
            return f'Reservation "{reservation.name}" keeps a place'
        case Pod() as placeholder:
            return f'placeholder "{placeholder}" keeps a place'
        case _:
            return None


def place_is_given_up(state: JobState) -> str | None:
    """Say that a placeholder, or a Reservation of ours, is gone whose node takes no replacement."""
    status = state.job.status
    if state.kept_by is not None or status.reason != PLACE_DOES_NOT_FIT.code:
        return None
    if state.reserves and not state.job.names_own_reservation:
        return None
    return f"another place than on node {status.node} is looked for: {status.message}"


def place_is_gone(state: JobState) -> str | None:
    """Say that the place is kept no more, before the eviction."""
    if state.kept_by is not None:
        return None
    kept_by = f'Reservation "{state.job.reservation}"' if state.reserves else "the placeholder"
    return f"{kept_by} is gone before the eviction"


def reservation_has_expired(state: JobState) -> str | None:
    """Say that the Reservation is over; the pod that waits may be seen in its place later."""
    kept = _reservation(state)
    if kept is None or not kept.is_expired or _is_in_its_place(state, kept):
        return None
    return f'Reservation "{kept.name}" has expired'


def place_is_taken(state: JobState) -> str | None:
    """Say that another pod took the place of the Reservation."""
    kept = _reservation(state)
    if kept is None or kept.phase is not ReservationPhase.SUCCEEDED:
        return None
    if _is_in_its_place(state, kept):
        return None
    return f'Reservation "{kept.name}" is already bound by another Pod'


def place_has_no_node_yet(state: JobState) -> str | None:
    """Say why no node can take the Reservation or the placeholder so far."""
    match state.kept_by:
        case Reservation() as kept if kept.is_pending and not kept.is_for_pod:
            return kept.unschedulable or None
        case Pod() as placeholder if _is_unschedulable(placeholder):
            return f'no node can take placeholder "{placeholder}" yet: its condition says why'
        case _:
            return None


def _is_unschedulable(placeholder: Pod) -> bool:
    """Say that the kube-scheduler finds no node for a placeholder."""
    return not placeholder.node and any(
        (each.type, each.status, each.reason) == (POD_SCHEDULED, "False", "Unschedulable")
        for each in placeholder.status.conditions
    )


def place_gets_no_node(state: JobState) -> str | None:
    """Say why the Reservation will have no node."""
    kept = _reservation(state)
    if kept is None or kept.is_for_pod or kept.is_pending or kept.is_scheduled:
        return None
    return kept.unschedulable or "it has no node"


def place_is_on_the_pods_node(state: JobState) -> str | None:
    """Say that the place is where the pod is: nothing would be moved."""
    kept = _reservation(state)
    if kept is None or kept.is_for_pod or state.pod is None or state.pod.node != kept.node:
        return None
    return f"the place is on node {kept.node}, where the pod is" if kept.is_scheduled else None


def place_has_node(state: JobState) -> str | None:
    """Say on which node the place is kept."""
    node = node_of_place(state)
    return f"a place is kept on node {node}" if node else None


def pending_pod_waits(state: JobState) -> str | None:
    """Say why the pod that waits for a node itself has none so far."""
    kept = _reservation(state)
    if kept is None or not kept.is_for_pod or state.pod is None or state.pod.node:
        return None
    return kept.unschedulable or "the pod waits for a node"


def pending_pod_has_node(state: JobState) -> str | None:
    """Say that the pod that waited for a node itself has one: nothing is evicted."""
    kept = _reservation(state)
    if kept is None or not kept.is_for_pod or state.pod is None or not state.pod.node:
        return None
    return f'Assign Pod "{state.job.pod}" to node "{state.pod.node}"'


# --- after its pod is evicted ---


def pod_has_left(state: JobState) -> str | None:
    """Say that the pod is gone, and for the replacement a place is kept."""
    return _evicted(state) if state.pod is None and _has_place(state) else None


def pod_has_left_no_place(state: JobState) -> str | None:
    """Say that the pod is gone, and no place is kept for the replacement."""
    return _evicted(state) if state.pod is None and not _has_place(state) else None


def place_is_given_away(state: JobState) -> str | None:
    """Say that the replacement got the placeholder's place, or will need it no more."""
    if state.reserves:
        return None
    if state.placeholder is not None and (
        awaits_first_attempt(state) or (state.successor is None and may_be_replaced(state))
    ):
        return None
    return _evicted(state)


def nothing_is_bound_yet(state: JobState) -> str | None:
    """Say that no pod has taken the place of the Reservation."""
    return (
        "no pod has taken the place yet"
        if state.reserves and taker_of_place(state) is None
        else None
    )


def replacement_is_elsewhere(state: JobState) -> str | None:
    """Say that the replacement runs outside its Reservation, or never came.

    A Reservation that says some seconds late that it was taken is waited for: koordinator's
    scheduler writes that after the binding. So is one on whose node the replacement is, until that
    is Ready. A place that another pod of the workload may still take, since the replacement has
    that one's, is kept for it.
    """
    kept, pod, other = _reservation(state), state.replacement, state.other_place
    if kept is None or kept.taken_by is not None:
        return None
    if pod is None:
        return f"{_evicted(state)}; no pod replaces it" if state.is_not_replaced else None
    is_on_its_node = pod.node == kept.node and not other
    may_be_late = not pod.status.is_ready if is_on_its_node else not pod.node
    grace_s = SUCCESSOR_GRACE_S if is_on_its_node else LAG_GRACE_S
    if may_be_late or state.now_s < pod.created_s + grace_s:
        return None
    if state.others_come and (is_on_its_node or other):
        return None
    where = f'in Reservation "{other}"' if other else f"on node {pod.node}"
    beside = ", and not in the place" if is_on_its_node else ""
    return f'{_evicted(state)}; Pod "{pod}" replaces it {where}{beside}'


def replacement_is_bound(state: JobState) -> str | None:
    """Say which pod took the place of the Reservation."""
    taker = taker_of_place(state)
    return None if taker is None else f'Pod "{taker}" took the place'


def replacement_is_not_ready(state: JobState) -> str | None:
    """Say that the pod that took the place is not Ready."""
    if state.bound is None or state.bound.status.is_ready:
        return None
    return f'Pod "{state.bound}" is not Ready yet'


def replacement_is_ready(state: JobState) -> str | None:
    """Say that the pod that took the place is Ready; one that is gone again counts as Ready."""
    kept, taker = state.reservation, taker_of_place(state)
    if kept is None or taker is None or replacement_is_not_ready(state) is not None:
        return None
    return f'Bind Pod "{taker}" in Reservation "{kept.name}"'


# --- what rules go by ---


def no_place_for(job: MigrationJob, modes: Modes, pod: Pod, reach: VolumeReach) -> str:
    """Say why no place can be kept for a pod's replacement; empty where one can, or need not."""
    if not modes.keeps_place(job) or job.reservation:
        return ""
    if controller_of(pod.owners) is None and pod.node:
        return "it has no controller, so that no pod would take the place that is kept"
    if modes.reserves(job, pod):
        return ""
    if not modes.has_placeholders:
        return f"scheduler {pod.spec.scheduler_name} is none of migration.schedulerNames"
    return reach.error


def node_of_place(state: JobState) -> str:
    """Return the node on which the place is kept; empty while it has none."""
    match state.kept_by:
        case Reservation() as kept:
            return kept.node if kept.is_scheduled and not kept.is_for_pod else ""
        case Pod() as placeholder:
            return placeholder.node
        case _:
            return ""


def taker_of_place(state: JobState) -> PodReference | None:
    """Return the pod that took the place of the Reservation."""
    kept = state.reservation
    return None if kept is None or not state.reserves else kept.taken_by


def replacement_of(state: JobState) -> PodReference | None:
    """Return the pod that got the placeholder's place, or runs beside the Reservation."""
    pod = state.successor or state.replacement
    return None if pod is None else PodReference.to(pod)


def place_fits_no_more(state: JobState) -> bool:
    """Say whether the job has waited long, and still does, for the node of its place to fit."""
    wait, code = state.wait, PLACE_DOES_NOT_FIT.code
    if wait is None or (wait.reason, state.job.status.reason) != (code, code):
        return False
    return state.now_s >= wait.since_s + PLACE_GRACE_S and not state.is_requested


def times_out_at(job: MigrationJob) -> float:
    """Return when the job fails at the latest, in seconds since the epoch."""
    return job.created_s + job.ttl_s if job.ttl_s else float("inf")


def awaits_first_attempt(state: JobState) -> bool:
    """Say whether the kube-scheduler is about to try to place the successor for the first time.

    While the placeholder is there, that attempt fails, and with it the kube-scheduler takes back a
    nomination that was written meanwhile. A scheduler that is behind, or reports nothing, is
    awaited for some seconds only.
    """
    pod = state.successor
    if pod is None or pod.node or pod.status.nominated_node or was_tried(pod):
        return False
    return state.now_s < pod.created_s + LAG_GRACE_S


def was_tried(pod: Pod) -> bool:
    """Say whether a scheduler has reported of a pod, as after an attempt that failed."""
    return any(each.type == POD_SCHEDULED for each in pod.status.conditions)


def may_be_replaced(state: JobState) -> bool:
    """Say whether a successor may still come that takes the place of the placeholder.

    A ReplicaSet makes it when its pod begins to terminate: where none waits some seconds after that
    is gone, it has another node. A StatefulSet makes it afterwards.
    """
    evicted = state.job.status.condition(EVICTION)
    if state.pod is not None or evicted is None or evicted.status != "True":
        return True
    placeholder = state.placeholder
    kind = "" if placeholder is None else placeholder.labels.get(PLACEHOLDER_FOR_KIND, "")
    grace_s = LAG_GRACE_S if kind in ("", _MAKES_PODS_EARLY) else SUCCESSOR_GRACE_S
    return state.now_s < seconds_of(evicted) + grace_s


def seconds_of(written: JobCondition) -> float:
    """Return since when a condition is as it is, in seconds since the epoch; 0 where unknown."""
    at = written.last_transition_time
    return datetime.fromisoformat(at).timestamp() if at else 0.0


def _reservation(state: JobState) -> Reservation | None:
    kept = state.kept_by
    return kept if isinstance(kept, Reservation) else None


def _is_in_its_place(state: JobState, kept: Reservation) -> bool:
    """Say whether the pod that waits for a node itself was bound into the place."""
    pod, taker = state.pod, kept.taken_by
    is_taker = taker is not None and pod is not None and taker.uid == pod.uid
    return kept.is_for_pod and is_taker


def _has_place(state: JobState) -> bool:
    return state.reserves or state.placeholder is not None


def _evicted(state: JobState) -> str:
    node = state.job.status.node
    done = f'Pod "{state.job.pod}" has been evicted'
    if not node:
        return done
    successor = state.successor
    if successor is None:
        return f"{done}, and a place was kept on node {node}"
    if not successor.node:
        return f'{done}, and the place on node {node} is meant for Pod "{successor}"'
    took = "took the place on" if successor.node == node else f"is on node {successor.node}, not on"
    return f'{done}, and Pod "{successor}" {took} node {node}'
