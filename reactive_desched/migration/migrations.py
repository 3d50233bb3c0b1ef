"""Every migration job from the watch to the API server's copy: it is followed until it is gone.

Changes and the outcomes of evictions come in; the queue has the jobs of which something may have to
be written, and `action_of` says what. Which jobs begin is decided in `rounds`, which ones may be
made in `admission`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.gate.gate import GateFilter
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.migration.actions import (
    Action,
    next_action,
    next_change_at,
)
from reactive_desched.migration.admission import JobAdmission, NewJob, PendingJobs
from reactive_desched.migration.arbitration import Arbitrator
from reactive_desched.migration.cleanup import NO_JOB, JobCleanup
from reactive_desched.migration.job_queue import JobQueue
from reactive_desched.migration.job_state import EVICTION, JobState, Modes
from reactive_desched.migration.object_limiters import JobEvictionRate, ObjectLimiters
from reactive_desched.migration.placeholders import JobPlaces
from reactive_desched.migration.rounds import JobRounds, job_of
from reactive_desched.migration.settings import arbitration_settings
from reactive_desched.migration.state_machine import COMPLETE
from reactive_desched.migration.volumes import ANYWHERE, reach_of
from reactive_desched.migration.workload_sizes import INDEXES, workload_size
from reactive_desched.model.changes import Change, MigrationJobChanged
from reactive_desched.model.findings import Finding
from reactive_desched.model.migration_jobs import (
    MIGRATION_PROFILE,
    JobStatus,
    MigrationJob,
    Phase,
    PodReference,
)
from reactive_desched.model.moves import MoveEnd, replacing_owner
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.emptied_nodes import EmptiedNodes
from reactive_desched.state.indexes.job_pods import JobPods
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.telemetry.metrics import Metric, counter, gauge

SYNC_AGAIN_S: Final = 0.01
"""When node fit is asked again that still evaluates changed nodes."""

JOBS: Final = gauge("migration_jobs", "Migration jobs by phase.", "phase")
ENDED_JOBS: Final = counter(
    "migration_jobs_ended", "Migration jobs that ended, by phase and reason.", "phase", "reason"
)


class Migrations(EvictionParticipant):
    """Follows every job; times are seconds since the epoch.

    `changed` is notified when something may have to be written. Whether the eviction of a job's pod
    was accepted it finds in the ledger, which keeps it until the pod's jobs have ended.
    """

    indexes = (*INDEXES, EmptiedNodes)
    reacts_to = (MigrationJobChanged,)

    def __init__(
        self,
        view: ClusterView,
        settings: MigrationJobSettings,
        ledger: EvictionLedger,
        node_fit: SchedulerNodeFit,
        wall_clock: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._ledger: Final = ledger
        self.changed: Final = Wakeup()
        self.queue: Final = JobQueue(wall_clock, self.changed)
        self.pending_jobs: Final = PendingJobs(wall_clock)
        self.places: Final = JobPlaces(view, node_fit, wall_clock)
        self._cleanup: Final = JobCleanup(self.places, self.queue)
        self._view: Final = view
        self._settings: Final = settings
        self.modes: Final = Modes(
            settings.default_job_mode,
            settings.placeholder is not None,
            frozenset(settings.scheduler_names),
        )
        self._wall_clock: Final = wall_clock
        self._arbitrator: Final = Arbitrator(
            arbitration_settings(settings),
            view,
            lambda job: view.index(JobPods).pod_of(job),
            lambda pod: workload_size(pod, view),
        )
        self.admission: Final = JobAdmission(
            view, self.modes, self._arbitrator, self.pending_jobs, self.changed
        )
        self.rounds: Final = JobRounds(
            view, settings, self.modes, self._arbitrator, self.queue, wall_clock, clock
        )
        self.object_limiters: Final = ObjectLimiters(
            settings.object_limiters,
            settings.max_migrating_per_workload,
            lambda pod: workload_size(pod, view),
            lambda pod: _replacing_uid(pod, view),
            lambda finding: _is_unlimited(finding, view),
        )
        self._eviction_rate: Final = JobEvictionRate(
            TokenRate(settings.evict_qps, settings.evict_burst)
        )
        self._has_jobs = False
        self._endings: Counter[tuple[str, ...]] = Counter()

    # --- what is known ---

    @property
    def jobs(self) -> Iterable[MigrationJob]:
        """Every job that there is now, with what was decided and not written yet."""
        return map(self._with_admission, tuple(self._view.store(MigrationJob)))

    @property
    def limits(self) -> tuple[GateFilter, ...]:
        """The limits on evictions by jobs, which count from the decision on."""
        return self.object_limiters, self._eviction_rate

    @property
    def participants(self) -> tuple[EvictionParticipant, ...]:
        """Return who takes part in evictions for the sake of jobs."""
        return self.object_limiters, self._eviction_rate, self.rounds, self

    @property
    def settings(self) -> MigrationJobSettings:
        """The settings in force."""
        return self._settings

    def get(self, name: str) -> MigrationJob | None:
        """Return a job."""
        return self._view.store(MigrationJob).get(name)

    def pod_of(self, job: MigrationJob) -> Pod | None:
        """Return the pod that a job names."""
        return self._view.index(JobPods).pod_of(job)

    def jobs_of(self, pod: Pod) -> tuple[MigrationJob, ...]:
        """Return the jobs that name a pod, ended ones included."""
        return tuple(self._view.index(JobPods).jobs_of(pod))

    def collect(self) -> Iterator[Metric]:
        """Yield how many jobs there are by phase, and how many ended by reason."""
        phases = Counter(job.phase or Phase.PENDING for job in self._view.store(MigrationJob))
        yield JOBS.by_label({phase.value: phases[phase] for phase in Phase if phase})
        yield ENDED_JOBS.by_labels(self._endings)

    def _count(self, job: MigrationJob) -> None:
        """Count a job in arbitration, and whether the limits on evictions count its pod."""
        uid = job.pod.uid
        is_evicted = self._is_evicted(uid) or self._is_decided(uid)
        is_evicted = is_evicted or job.status.condition(EVICTION) is not None
        self._arbitrator.follow(job, is_evicted=is_evicted)

    def end_order(self, order: NewJob, *, made: bool) -> None:
        """Record that a job was made, or could not be."""
        self.pending_jobs.end(order, made=made)
        if (job := self.get(order.name)) is None:
            self._arbitrator.forget(order.name)
        else:
            self._count(job)

    # --- what comes in ---

    def apply_changes(self, changes: Iterable[Change], now: float) -> bool:
        """Apply the jobs that differ, or whose pods do."""
        del now
        for change in changes:
            if type(change) is MigrationJobChanged:
                self._follow(change.name)
        return False

    def decided(self, eviction: Eviction) -> None:
        """Record that the eviction of a job's pod was decided."""
        if (pod := eviction.pod) is not None and eviction.profile == MIGRATION_PROFILE:
            for job in self._view.index(JobPods).jobs_of(pod):
                self._count(job)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Record the outcome of the eviction of a job's pod."""
        del outcome
        is_of_job = eviction.is_restored or eviction.profile == MIGRATION_PROFILE
        if (pod := eviction.pod) is None:
            self.follow_all()
            return
        for job in self._view.index(JobPods).jobs_of(pod) if is_of_job else ():
            if eviction.leaves:
                self._follow(job.name)
            else:
                self._count(job)
                self.queue.add(job.name)

    def replaced(self, eviction: Eviction, pod: Pod) -> None:
        """Look at the jobs of an evicted pod: the replacement may run outside the place kept."""
        del pod
        self._look_at_jobs(eviction)

    def followed_up(self, eviction: Eviction, end: MoveEnd) -> None:
        """Look at the jobs of an evicted pod: none may replace it any more."""
        del end
        self._look_at_jobs(eviction)

    def _others_come(self, eviction: Eviction) -> bool:
        """Say whether replacements of other pods of a controller are awaited."""
        uid = eviction.controller_uid
        return bool(uid) and any(
            each.controller_uid == uid and each is not eviction and each.scheduled_at is None
            for each in self._ledger
        )

    def _look_at_jobs(self, eviction: Eviction) -> None:
        for job in self._jobs_naming(eviction):
            self.queue.add(job.name)

    def asks_for(self, eviction: Eviction) -> bool:
        """Say whether a job waits for its pod to leave: one whose pod is gone has succeeded."""
        if eviction.has_no_open_job or not _may_be_of_job(eviction):
            return False
        return not self._has_jobs or self._has_open_job(eviction)

    def _has_open_job(self, eviction: Eviction) -> bool:
        """Say whether a job that names the pod of an eviction has not ended."""
        uids = "", eviction.pod_uid
        return any(not job.has_ended and job.pod.uid in uids for job in self._jobs_naming(eviction))

    def _jobs_naming(self, eviction: Eviction) -> Iterator[MigrationJob]:
        """Yield the jobs that name the pod of an eviction, or one that was called so."""
        origin = eviction.origin
        if not origin.pod_name:  # the record of the request was not read
            return iter(self._view.store(MigrationJob))
        name = PodReference(origin.owner.namespace, origin.pod_name)
        return self._view.index(JobPods).jobs_naming(name)

    def _is_evicted(self, uid: PodKey) -> bool:
        """Say whether the eviction of a job's pod was accepted."""
        eviction = self._ledger.latest(uid)
        return (
            eviction is not None
            and eviction.leaves
            and _may_be_of_job(eviction)
            and not eviction.has_no_open_job
        )

    def _is_decided(self, uid: PodKey) -> bool:
        """Say whether an eviction of a pod by a job, or of an earlier process, is under way."""
        eviction = self._ledger.current(uid)
        return (
            eviction is not None
            and eviction.is_under_way
            and (eviction.is_restored or eviction.profile == MIGRATION_PROFILE)
        )

    def follow_all(self) -> None:
        """Look at every job: the cluster is known now."""
        self._has_jobs = True
        for job in sorted(self._view.store(MigrationJob), key=lambda job: job.created_s):
            self._follow(job.name)
        self._cleanup.look_for_orphans()

    def _forget_evicted(self, ended: MigrationJob) -> None:
        """Forget the eviction of an ended job's pod, unless another job waits for what becomes."""
        eviction = self._ledger.latest(ended.pod.uid)
        if eviction is not None and not self._has_open_job(eviction):
            eviction.end_jobs()

    def _follow(self, name: str) -> None:
        job = self.get(name)
        if job is None:
            self._arbitrator.forget(name)
            self._cleanup.look_for_orphans()
            self.rounds.forget(name)
            self.queue.remove(name)
            self._cleanup.forget(name)
            self.places.forget(name)
            return
        self._count(job)
        self.rounds.follow(job, is_evicted=self._is_evicted(job.pod.uid))
        if job.has_ended:
            self.places.forget(name)
            self._forget_evicted(job)
            self._cleanup.note_ended(name)
            if job.phase is not Phase.SUCCEEDED and self.pod_of(job) is not None:
                self.pending_jobs.postpone(job.pod.uid)
        self.queue.add(name)

    # --- what is to be written ---

    @property
    def is_due(self) -> bool:
        """Say whether a job is to be made, or something may have to be written of one."""
        return len(self.pending_jobs) > 0 or self.queue.is_due

    def action_of(self, name: str) -> Action | None:
        """Return what is to be written of a job, and look at it again when its time comes."""
        if name == NO_JOB:
            return self._cleanup.orphan_action()
        if (job := self.get(name)) is None:
            return None
        now_s = self._wall_clock()
        state = self._job_state(job, now_s)
        self.queue.add_at(name, next_change_at(state))
        action = next_action(state)
        prepared = self.places.prepare(action, state)
        if prepared is None and action is not None:
            self.queue.add_after(name, SYNC_AGAIN_S)
        return prepared

    def end_attempt(self, name: str, error: str = "") -> None:
        """Record that a job's placeholder or Reservation was made, or why it could not be."""
        self.places.end_attempt(name, error)
        if error:
            self.queue.add(name)

    def count_end(self, status: JobStatus) -> None:
        """Count a job that this process ended."""
        self._endings[status.phase.value, status.reason or COMPLETE] += 1

    def _job_state(self, job: MigrationJob, now_s: float) -> JobState:
        pod, places = self.pod_of(job), self.places
        placeholder, kept = places.placeholder_of(job), places.reservation_of(job)
        eviction = None if kept is None else self._ledger.latest(job.pod.uid)
        replacement = None if eviction is None else eviction.replacement
        return JobState(
            job,
            self.modes,
            now_s,
            pod,
            placeholder,
            kept,
            places.taker_of(kept),
            successor=places.successor_of(job, placeholder),
            replacement=replacement,
            other_place=places.taken_place(replacement),
            others_come=eviction is not None and self._others_come(eviction),
            is_not_replaced=eviction is not None and eviction.is_not_replaced,
            failed_attempt=places.failed_attempt(job.name),
            is_requested=self._is_decided(job.pod.uid),
            is_evicted=self._is_evicted(job.pod.uid),
            forbidden=self.rounds.forbidden(job.name),
            lapsed=self.rounds.lapsed(job.name),
            wait=self.rounds.wait_of(job.name),
            may_begin=self._arbitrator.has_admitted(job.name),
            is_surplus=self._cleanup.is_surplus(job.name),
            reach=ANYWHERE if pod is None else reach_of(pod, self._view),
        )

    def _with_admission(self, job: MigrationJob) -> MigrationJob:
        return replace(job, has_passed=True) if self._arbitrator.has_admitted(job.name) else job


def _replacing_uid(pod: Pod, view: ClusterView) -> str:
    owner = replacing_owner(view.index(OwnerIndex).chain(pod))
    return "" if owner is None else owner.uid


def _may_be_of_job(eviction: Eviction) -> bool:
    """Say whether a job may have asked for an eviction; of an earlier process's it is not known."""
    if eviction.is_restored:
        return not eviction.is_foreign
    return eviction.profile == MIGRATION_PROFILE


def _is_unlimited(finding: Finding, view: ClusterView) -> bool:
    job = job_of(finding, view)
    return job is not None and job.is_unlimited
