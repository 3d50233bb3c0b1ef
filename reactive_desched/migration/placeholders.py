"""The places that jobs keep: by which object, whether it can be made, and for which pod.

A placeholder's place is promised to one pod, so that no other job counts on that pod; what was
promised is remembered until the pod has a node.
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.migration.actions import (
    Action,
    CreatePlaceholder,
    CreateReservation,
    DeletePlaceholder,
    DeleteReservation,
)
from reactive_desched.migration.job_state import FailedAttempt, JobState
from reactive_desched.migration.rules import awaits_first_attempt
from reactive_desched.model.labels import Requirement
from reactive_desched.model.migration_jobs import MigrationJob
from reactive_desched.model.node_affinity import NodeSelector, NodeSelectorTerm
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.reservations import Reservation
from reactive_desched.model.spread import DEFAULT_SPREAD
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.emptied_nodes import EmptiedNodes
from reactive_desched.state.indexes.job_pods import JobPods

MAX_CLOSED_DOMAINS: Final = 200
"""So many topology domains a placeholder avoids by name; of more it avoids none, and the last look
before the eviction decides."""

MAX_AVOIDED_NODES: Final = 50
"""So many nodes that are emptied a place avoids by name; of more it avoids none, as of domains."""

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
"""The wait after the first failed attempt; it doubles with each, as koordinator's, up to this."""

MAX_MESSAGE: Final = 1000
"""So many characters of an error are kept: a webhook may answer anything."""


class PlaceAttempts:
    """Counts the failed attempts of each job; after a restart the first wait is short again.

    A job is forgotten when its place is made, and with the job: there are as many as there are
    jobs that keep a place.
    """

    def __init__(self) -> None:
        self._failed: Final[dict[str, FailedAttempt]] = {}

    def get(self, job: str) -> FailedAttempt | None:
        """Return the last attempt; None where none failed."""
        return self._failed.get(job)

    def note_failure(self, job: str, message: str, now_s: float) -> None:
        """Record that an attempt failed."""
        before = self._failed.get(job)
        wait_s = FIRST_WAIT_S if before is None else min(2 * before.wait_s, LONGEST_WAIT_S)
        self._failed[job] = FailedAttempt(message[:MAX_MESSAGE], wait_s, now_s + wait_s)

    def forget(self, job: str) -> None:
        """Record that a job's place is made, or that the job needs none any more."""
        self._failed.pop(job, None)


class JobPlaces:
    """The places of all jobs; it remembers of a job at most one promise and one failed attempt."""

    def __init__(
        self, view: ClusterView, node_fit: SchedulerNodeFit, wall_clock: Callable[[], float]
    ) -> None:
        self._view: Final = view
        self._node_fit: Final = node_fit
        self._wall_clock: Final = wall_clock
        self._attempts: Final = PlaceAttempts()
        self._promised: Final[dict[PodKey, str]] = {}  # the job whose place a pod gets
        self._promised_by: Final[dict[str, PodKey]] = {}  # and the pod, by the job
        self._given_up: Final[set[str]] = set()

    def placeholder_of(self, job: MigrationJob) -> Pod | None:
        """Return the placeholder that keeps a job's place."""
        return self._view.index(JobPods).placeholder_of(job)

    def reservation_of(self, job: MigrationJob) -> Reservation | None:
        """Return the Reservation of a job: the one that it names, or that is named after it."""
        return self._view.store(Reservation).get(job.reservation or job.uid)

    def keeping_reservation(self, job: MigrationJob) -> Reservation | None:
        """Return the Reservation of a job while it keeps the job's place."""
        kept = self.reservation_of(job)
        return kept if kept is not None and kept.keeps_room and not kept.is_terminating else None

    def taker_of(self, kept: Reservation | None) -> Pod | None:
        """Return the pod that took the place of a Reservation, where it is still there."""
        return None if kept is None else self._view.index(JobPods).taker_of(kept)

    def taken_place(self, pod: Pod | None) -> str:
        """Name the Reservation whose place a pod has; empty where it has none."""
        if pod is None:
            return ""
        places = ((each.name, each.taken_by) for each in self._view.store(Reservation))
        return next((name for name, taker in places if taker and taker.uid == pod.uid), "")

    def successor_of(self, job: MigrationJob, placeholder: Pod | None) -> Pod | None:
        """Return the pod that is to take the place of a placeholder: no other job's successor."""
        given_to = self._promised_by.get(job.name)
        found = None if given_to is None else self._view.pod(given_to)
        if placeholder is None or (found is not None and not _leaves(found)):
            return found
        return self._view.index(JobPods).successor_for(job, placeholder, self._promised)

    def orphans(self) -> Iterator[Pod]:
        """Return the placeholders whose job is gone."""
        return self._view.index(JobPods).orphans()

    def is_given_up(self, job: str) -> bool:
        """Say whether a job's place is being deleted, for another one is to be found."""
        return job in self._given_up

    # --- what is to be done for a place ---

    def prepare(self, action: Action | None, state: JobState) -> Action | None:
        """Return a step as it is to be carried out, and remember what it promises.

        None stands for a placeholder that waits, for changed nodes are still being evaluated.
        """
        name = state.job.name
        self._given_up.discard(name)
        if isinstance(action, DeletePlaceholder) and action.successor is not None:
            self._promise(name, action.successor)
        elif state.successor is not None and state.is_evicting and awaits_first_attempt(state):
            self._promise(name, state.successor)
        elif isinstance(action, DeletePlaceholder | DeleteReservation) and not (
            state.is_evicting or state.job.has_ended
        ):
            self._given_up.add(name)
        match action:
            case CreatePlaceholder():
                return self._in_open_domains(replace(action, avoided=self._emptied_nodes()))
            case CreateReservation():
                return replace(action, avoided=self._emptied_nodes())
            case _:
                return action

    def _emptied_nodes(self) -> tuple[str, ...]:
        """Name the nodes that are being deleted or emptied, where a scheduler would bind pods."""
        names = self._view.index(EmptiedNodes).names
        return tuple(sorted(names)) if len(names) <= MAX_AVOIDED_NODES else ()

    def _in_open_domains(self, action: CreatePlaceholder) -> CreatePlaceholder | None:
        """Return the step with the domains left out that are closed to the replacement.

        The kube-scheduler would not see that: a placeholder has none of the pod's labels.
        """
        if not self._node_fit.sync():
            return None
        closed = self._node_fit.closed_domains(action.pod)
        selectors = (
            NodeSelector((NodeSelectorTerm((Requirement(key, "NotIn", tuple(sorted(values))),)),))
            for key, values in closed.items()
            if len(values) <= MAX_CLOSED_DOMAINS
        )
        return replace(
            action,
            selectors=(*action.selectors, *selectors),
            spread_keys=self._default_spread_keys(action.pod),
        )

    def _default_spread_keys(self, pod: Pod) -> tuple[str, ...]:
        """Return the labels by which the kube-scheduler spreads pods by default, as nodes have.

        A constraint that is written by a label that no node has would turn off the others.
        """
        info = self._view.node_info(pod.node)
        labels = {} if info is None or info.node is None else info.node.labels
        return tuple(key for key in DEFAULT_SPREAD if key in labels)

    def failed_attempt(self, job: str) -> FailedAttempt | None:
        """Return the last attempt to keep a job's place; None where none failed."""
        return self._attempts.get(job)

    def end_attempt(self, job: str, error: str) -> None:
        """Record that a job's place was made, or why it could not be."""
        if error:
            self._attempts.note_failure(job, error, self._wall_clock())
        else:
            self._attempts.forget(job)

    def forget(self, job: str) -> None:
        """Record that a job has ended, or is gone."""
        self._attempts.forget(job)
        self._given_up.discard(job)
        self._break_promises(job)

    def _promise(self, job: str, pod: Pod) -> None:
        self._break_promises(job)
        self._promised[pod.uid] = job
        self._promised_by[job] = pod.uid

    def _break_promises(self, job: str) -> None:
        if (pod := self._promised_by.pop(job, None)) is not None:
            self._promised.pop(pod, None)


def _leaves(pod: Pod) -> bool:
    return pod.is_terminating or pod.has_ended
