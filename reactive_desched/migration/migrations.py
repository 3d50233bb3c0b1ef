"""All migration jobs: which may begin, what each waits for, and what to write next.

Between the cluster state and the API server's copy of the jobs: changes come in, a plugin takes the
pods that are to be evicted, and its queue has the jobs of which something may have to be written.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.gate.filters import Rejection
from reactive_desched.gate.gate import GateFilter
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.migration.actions import (
    Action,
    DeletePlaceholder,
    awaits_arbitration,
    next_action,
    next_change_at,
    wants_eviction,
)
from reactive_desched.migration.arbitration import Arbitrator, Forbidden, Held, Passed
from reactive_desched.migration.eviction_rate import JobEvictionRate
from reactive_desched.migration.job_queue import JobQueue
from reactive_desched.migration.job_state import EVICTION, JobState, Modes, Wait
from reactive_desched.migration.object_limiters import ObjectLimiters
from reactive_desched.migration.pending_jobs import NewJob, PendingJobs
from reactive_desched.migration.placeholders import JobPlaces
from reactive_desched.migration.rules import NO_PLACE, PLACE_PENDING, no_place_for
from reactive_desched.migration.settings import arbitration_settings, eviction_options
from reactive_desched.migration.state_machine import COMPLETE, WAIT_WRITTEN_AFTER_S
from reactive_desched.migration.volumes import ANYWHERE, reach_of
from reactive_desched.migration.wakes import WakeOnAnyJob
from reactive_desched.migration.workload_sizes import INDEXES, workload_size
from reactive_desched.model.changes import Change, MigrationJobChanged
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding, YieldPoint
from reactive_desched.model.migration_jobs import (
    MIGRATION_PROFILE,
    JobOfPod,
    JobStatus,
    MigrationJob,
    Phase,
    PodReference,
)
from reactive_desched.model.moves import replacing_owner
from reactive_desched.model.objects import Pod, PodKey, controller_of
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.wakes import WakeOn, WakeOnPod, WakeOnWorkload
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.indexes.emptied_nodes import EmptiedNodes
from reactive_desched.state.indexes.job_pods import JobPods
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.view import ClusterView
from reactive_desched.telemetry.metrics import Metric, counter, gauge

MAX_REMEMBERED: Final = 10_000
"""So many pods that were evicted are remembered; then the oldest is forgotten."""

NO_JOB: Final = ""
"""The name under which the placeholders are due whose job is gone."""

ORPHAN_GRACE_S: Final = 60.0
"""So long the garbage collector has to delete the placeholder of a job that is gone."""

ORPHAN_AGAIN_S: Final = 5.0
"""When the next one is looked at, or the same one is tried again."""

MAX_ENDED: Final = 1_000
"""So many jobs that ended are kept; of more, those that ended first are deleted."""

SYNC_AGAIN_S: Final = 0.01
"""When node fit is asked again that still evaluates changed nodes."""

JOBS: Final = gauge("migration_jobs", "Migration jobs by phase.", "phase")
ENDED_JOBS: Final = counter(
    "migration_jobs_ended", "Migration jobs that ended, by phase and reason.", "phase", "reason"
)

PLUGIN: Final = "MigrationJobs"
"""The plugin's name in records of jobs that no plugin of the policy had made."""

JOB_DETAIL: Final = "job"
"""The detail of a finding that names its job."""


class Migrations(EvictionParticipant):
    """Follows every job; times are seconds since the epoch.

    `changed` is notified when something may have to be written. It remembers per job what a round
    decided until that is written, and the pods whose eviction was accepted until their jobs end.
    """

    name = "MigrationArbitration"
    indexes = (*INDEXES, EmptiedNodes)

    def __init__(
        self,
        view: ClusterView,
        settings: MigrationJobSettings,
        ledger: EvictionLedger,
        node_fit: SchedulerNodeFit,
        wall_clock: Callable[[], float],
    ) -> None:
        self._ledger: Final = ledger
        self.changed: Final = Wakeup()
        self.queue: Final = JobQueue(wall_clock, self.changed)
        self.pending_jobs: Final = PendingJobs(wall_clock)
        self.places: Final = JobPlaces(view, node_fit, wall_clock)
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
        self.object_limiters: Final = ObjectLimiters(
            settings.object_limiters,
            settings.max_migrating_per_workload,
            lambda pod: workload_size(pod, view),
            lambda pod: _replacing_uid(pod, view),
            self._is_unlimited,
        )
        self._eviction_rate: Final = JobEvictionRate(
            TokenRate(settings.evict_qps, settings.evict_burst)
        )
        self._rejections: Final[dict[str, tuple[Rejection, bool]]] = {}
        self._waits: Final[dict[str, Wait]] = {}
        self._evicted: Final[OrderedDict[PodKey, None]] = OrderedDict()
        self._to_evict: Final[dict[str, None]] = {}
        self._ended: Final[dict[str, None]] = {}  # those to keep, the first to go first
        self._surplus: Final[set[str]] = set()
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
        return self.object_limiters, self._eviction_rate, self

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

    def job_of(self, finding: Finding) -> MigrationJob | None:
        """Return the job that a finding is about; None for another finding."""
        name = finding.details.get(JOB_DETAIL)
        return self.get(name) if isinstance(name, str) else None

    def jobs_of(self, pod: Pod) -> tuple[MigrationJob, ...]:
        """Return the jobs that name a pod, ended ones included."""
        return tuple(self._view.index(JobPods).jobs_of(pod))

    def collect(self) -> Iterator[Metric]:
        """Yield how many jobs there are by phase, and how many ended by reason."""
        phases = Counter(job.phase or Phase.PENDING for job in self._view.store(MigrationJob))
        yield JOBS.by_label({phase.value: phases[phase] for phase in Phase if phase})
        yield ENDED_JOBS.by_labels(self._endings)

    # --- which jobs may be made ---

    def open_job_of(self, pod: Pod) -> str | None:
        """Name a job of the pod, or of an earlier pod of its name, that has not ended."""
        if (order := self.pending_jobs.of(pod)) is not None:
            return order.name
        jobs = self._view.index(JobPods).jobs_of(pod)
        return next((job.name for job in jobs if not job.has_ended), None)

    def rejects(self, pod: Pod) -> Rejection | None:
        """Return why no job of a pod may be made: every job that has not ended counts."""
        if nowhere := no_place_for(_job_on(pod), self.modes, pod, reach_of(pod, self._view)):
            return NO_PLACE, nowhere
        return self._arbitrator.rejects(pod)

    def evictions_to_come(self, pod: Pod, scope: str) -> int:
        """Count the other pods of the pod's "cluster", "namespace" or "node" that jobs will evict.

        An eviction that was decided is not to come any more.
        """
        return self._arbitrator.evictions_to_come(pod, scope)

    def _count(self, job: MigrationJob) -> None:
        """Count a job in arbitration, and whether the limits on evictions count its pod."""
        uid = job.pod.uid
        is_evicted = uid in self._evicted or self._is_decided(uid)
        is_evicted = is_evicted or job.status.condition(EVICTION) is not None
        self._arbitrator.follow(job, is_evicted=is_evicted)

    def order(self, pod: Pod, trigger: str, cause: str) -> str:
        """Order a job, and return its name; it counts against the limits from now on."""
        order = self.pending_jobs.add(pod, trigger, cause)
        self._arbitrator.expect(_ordered_job(order))
        self.changed.notify()
        return order.name

    def end_order(self, order: NewJob, *, made: bool) -> None:
        """Record that a job was made, or could not be."""
        self.pending_jobs.end(order, made=made)
        if (job := self.get(order.name)) is None:
            self._arbitrator.forget(order.name)
        else:
            self._count(job)

    # --- what comes in ---

    def apply_changes(self, changes: Iterable[Change]) -> None:
        """Apply the jobs that differ, or whose pods do."""
        for change in changes:
            if type(change) is MigrationJobChanged:
                self._follow(change.name)

    def decided(self, eviction: Eviction) -> None:
        """Record that the eviction of a job's pod was decided."""
        if (pod := eviction.pod) is not None and eviction.profile == MIGRATION_PROFILE:
            for job in self._view.index(JobPods).jobs_of(pod):
                self._count(job)
                self._waits.pop(job.name, None)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Record the outcome of the eviction of a job's pod."""
        del outcome
        is_of_job = eviction.is_restored or eviction.profile == MIGRATION_PROFILE
        if is_of_job and eviction.leaves:
            self._note_evicted(eviction.pod_uid)
        if (pod := eviction.pod) is None:
            self.follow_all()
            return
        for job in self._view.index(JobPods).jobs_of(pod) if is_of_job else ():
            if eviction.leaves:
                self._follow(job.name)
            else:
                self._count(job)
                self.queue.add(job.name)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Remember an eviction of an earlier process: a job whose pod is gone has succeeded."""
        del now
        if eviction.leaves and eviction.is_followed:
            self._note_evicted(eviction.pod_uid)

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
        for job in sorted(self._view.store(MigrationJob), key=lambda job: job.created_s):
            self._follow(job.name)
        self._look_for_orphans()

    def _look_for_orphans(self) -> None:
        """Queue placeholders without a job for deletion, unless the garbage collector does it."""
        if any(self.places.orphans()):
            self.queue.add_after(NO_JOB, ORPHAN_GRACE_S)

    def _note_evicted(self, uid: PodKey) -> None:
        if len(self._evicted) >= MAX_REMEMBERED:
            self._evicted.popitem(last=False)
        self._evicted[uid] = None

    def _forget_evicted(self, ended: MigrationJob) -> None:
        """Forget the eviction of an ended job's pod, unless another job waits for what becomes."""
        named = self._view.index(JobPods).jobs_naming(ended.pod)
        if all(job.has_ended or job.pod.uid not in ("", ended.pod.uid) for job in named):
            self._evicted.pop(ended.pod.uid, None)

    def _follow(self, name: str) -> None:
        job = self.get(name)
        self._to_evict.pop(name, None)
        if job is None:
            self._arbitrator.forget(name)
            self._look_for_orphans()
            self._waits.pop(name, None)
            self._rejections.pop(name, None)
            self.queue.remove(name)
            self._ended.pop(name, None)
            self._surplus.discard(name)
            self.places.forget(name)
            return
        self._count(job)
        if not awaits_arbitration(job):
            self._rejections.pop(name, None)
        if wants_eviction(job, self.modes) and job.pod.uid not in self._evicted:
            self._to_evict[name] = None
        if job.has_ended:
            self.places.forget(name)
            self._forget_evicted(job)
            self._note_ended(name)
            if job.phase is not Phase.SUCCEEDED and self.pod_of(job) is not None:
                self.pending_jobs.postpone(job.pod.uid)
        self.queue.add(name)

    def _note_ended(self, name: str) -> None:
        """Queue the job that ended first for deletion, where too many ended jobs are kept."""
        if name in self._surplus:
            return
        self._ended.setdefault(name)
        if len(self._ended) > MAX_ENDED:
            first = next(iter(self._ended))
            del self._ended[first]
            self._surplus.add(first)
            self.queue.add(first)

    # --- what is to be evicted: for the plugin and its gate ---

    def concerns_round(self, change: Change) -> bool:
        """Say whether a change may let a job begin, or its pod be evicted.

        That another job ended wakes the findings on those that wait.
        """
        if not isinstance(change, MigrationJobChanged):
            return True
        return self._may_wait(change.name)

    def findings(self, plugins: Collection[str]) -> Iterator[Finding | YieldPoint]:
        """Run a round of arbitration, and yield the pods that are to be evicted or must wait.

        First come those of jobs that run: the gates alone let them wait. The finding of a job that
        one of `plugins` had made is that plugin's: its rates count, and what is remembered of its
        moves.
        """
        for name in tuple(self._to_evict):
            job = self.get(name)
            if job is not None and (pod := self.pod_of(job)) is not None:
                yield self._finding(job, pod, plugins)
        for result in self._arbitrator.run_round():
            match result:
                case YieldPoint():
                    yield result
                case Passed(job, pod) if pod is not None:
                    self._let_begin(job.name)
                case Held(job, pod, rejection):
                    self._rejections[job.name] = rejection, False
                    yield self._finding(job, pod, plugins)
                case Forbidden(job, pod, rejection):
                    self._rejections[job.name] = rejection, True
                    self.queue.add(job.name)
                    yield self._finding(job, pod, plugins)

    def _finding(self, job: MigrationJob, pod: Pod, plugins: Collection[str]) -> Finding:
        why = f" ({job.trigger}: {job.cause})" if job.trigger else ""
        message = f"PodMigrationJob {job.name} asks for it{why}"
        details: Mapping[str, int | str] = {JOB_DETAIL: job.name}
        plugin = job.trigger if job.trigger in plugins else PLUGIN
        options = eviction_options(job, pod, self._settings)
        return Finding(pod, plugin, message, details=details, options=options)

    def _is_unlimited(self, finding: Finding) -> bool:
        job = self.job_of(finding)
        return job is not None and job.is_unlimited

    def _let_begin(self, name: str) -> None:
        self._rejections.pop(name, None)
        self._waits.pop(name, None)
        self.queue.add(name)

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse the pod of a job that arbitration does not let begin."""
        job = finding.details.get(JOB_DETAIL)
        found = self._rejections.get(job) if isinstance(job, str) else None
        if found is None:
            return None
        (reason, message), is_final = found
        pod = finding.pod
        wakes = (WakeOnPod(pod.uid),) if is_final else self.wakes_of(pod)
        setting = f"migration.{reason.setting}" if reason.setting else ""
        return reason.refuse(finding, message, wakes, setting=setting)

    def blocked(self, decision: Defer | Refuse) -> None:
        """Record for what the pod of a job waits."""
        name = decision.finding.details.get(JOB_DETAIL)
        if not isinstance(name, str):
            return
        before = self._waits.get(name)
        if before is not None and decision.reason == PLACE_PENDING.code:
            return  # that passes at once, and says nothing of the place
        if before is None or before.reason != decision.reason:
            now_s = self._wall_clock()
            self._waits[name] = Wait(decision.reason, decision.message, now_s)
            self.queue.add_after(name, WAIT_WRITTEN_AFTER_S)

    def wakes_of(self, pod: Pod) -> tuple[WakeOn, ...]:
        """Return what may end a wait for the limits on jobs."""
        controller = controller_of(pod.owners)
        workload = () if controller is None else (WakeOnWorkload(controller.uid),)
        return WakeOnPod(pod.uid), WakeOnAnyJob(), *workload

    # --- what is to be written ---

    @property
    def is_due(self) -> bool:
        """Say whether a job is to be made, or something may have to be written of one."""
        return len(self.pending_jobs) > 0 or self.queue.is_due

    def action_of(self, name: str) -> Action | None:
        """Return what is to be written of a job, and look at it again when its time comes."""
        if name == NO_JOB:
            return self._orphan_action()
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

    def _orphan_action(self) -> Action | None:
        """Return the deletion of a placeholder whose job is gone, one at a time."""
        orphan = next(self.places.orphans(), None)
        if orphan is None:
            return None
        self.queue.add_after(NO_JOB, ORPHAN_AGAIN_S)
        return DeletePlaceholder(MigrationJob(name=NO_JOB, uid="", pod=_reference(orphan)), orphan)

    def end_attempt(self, name: str, error: str = "") -> None:
        """Record that a job's placeholder or Reservation was made, or why it could not be."""
        self.places.end_attempt(name, error)
        if error:
            self.queue.add(name)

    def count_end(self, status: JobStatus) -> None:
        """Count a job that this process ended."""
        self._endings[status.phase.value, status.reason or COMPLETE] += 1

    def _job_state(self, job: MigrationJob, now_s: float) -> JobState:
        rejection, is_final = self._rejections.get(job.name, (None, False))
        pod, places = self.pod_of(job), self.places
        placeholder, kept = places.placeholder_of(job), places.reservation_of(job)
        return JobState(
            job,
            self.modes,
            now_s,
            pod,
            placeholder,
            kept,
            places.taker_of(kept),
            successor=places.successor_of(job, placeholder),
            failed_attempt=places.failed_attempt(job.name),
            is_requested=self._is_decided(job.pod.uid),
            is_evicted=job.pod.uid in self._evicted,
            forbidden=rejection[1] if is_final and rejection is not None else "",
            wait=self._waits.get(job.name) if self._may_wait(job.name) else None,
            may_begin=self._arbitrator.has_admitted(job.name),
            is_surplus=job.name in self._surplus,
            reach=ANYWHERE if pod is None else reach_of(pod, self._view),
        )

    def _may_wait(self, name: str) -> bool:
        return self._arbitrator.waits(name) or name in self._to_evict

    def _with_admission(self, job: MigrationJob) -> MigrationJob:
        return replace(job, has_passed=True) if self._arbitrator.has_admitted(job.name) else job


def _replacing_uid(pod: Pod, view: ClusterView) -> str:
    owner = replacing_owner(view.index(OwnerIndex).chain(pod))
    return "" if owner is None else owner.uid


def _ordered_job(order: NewJob) -> JobOfPod:
    """Return what an order counts for among the jobs."""
    return JobOfPod(_job_on(order.pod, order.name), order.pod)


def _job_on(pod: Pod, name: str = "") -> MigrationJob:
    """Return a job as it would be made for a pod."""
    return MigrationJob(name=name, uid=name, pod=_reference(pod))


def _reference(pod: Pod) -> PodReference:
    return PodReference(pod.namespace, pod.name, pod.uid)
