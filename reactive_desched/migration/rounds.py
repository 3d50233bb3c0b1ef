"""Rounds of migration jobs: they begin, ask for their pods to be evicted, or wait.

A round of arbitration runs for the plugin of the jobs, and what it lets through or rejects is kept
until it is written on the job; at the gate it refuses the pods of jobs that may not begin.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from reactive_desched.gate.filters import Rejection
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.migration.actions import awaits_arbitration, wants_eviction
from reactive_desched.migration.arbitration import Arbitrator, Forbidden, Held, Passed
from reactive_desched.migration.job_queue import JobQueue
from reactive_desched.migration.job_state import Modes, Wait
from reactive_desched.migration.limits import refused, wakes_of
from reactive_desched.migration.rules import PLACE_PENDING
from reactive_desched.migration.settings import eviction_options
from reactive_desched.migration.state_machine import WAIT_WRITTEN_AFTER_S
from reactive_desched.model.changes import Change, MigrationJobChanged
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding, YieldPoint
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE, MigrationJob
from reactive_desched.model.objects import Pod
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.job_pods import JobPods

PLUGIN: Final = "MigrationJobs"
"""The plugin's name in records of jobs that no plugin of the policy had made."""

JOB_DETAIL: Final = "job"
"""The detail of a finding that names its job."""


Finders = Mapping[str, Callable[[Pod], str]]
"""The plugins of the policy, each with what says why it would not have a pod moved now."""


def job_of(finding: Finding, view: ClusterView) -> MigrationJob | None:
    """Return the job that a finding is about; None for another finding."""
    return view.store(MigrationJob).get(_job_name(finding))


def _job_name(finding: Finding) -> str:
    """Return the name of the job that a finding is about; empty for another finding."""
    name = finding.details.get(JOB_DETAIL)
    return name if isinstance(name, str) else ""


class JobRounds(EvictionParticipant):
    """Finds the pods that jobs want evicted; `queue` has the jobs whose results are to be written.

    `follow` is called for each job that appears or differs, and for those whose pod does. Per job
    it remembers why a round rejected it, and what the gates let it wait for.
    """

    name = "MigrationArbitration"

    def __init__(
        self,
        view: ClusterView,
        settings: MigrationJobSettings,
        modes: Modes,
        arbitrator: Arbitrator,
        queue: JobQueue,
        wall_clock: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._view: Final = view
        self._settings: Final = settings
        self._modes: Final = modes
        self._arbitrator: Final = arbitrator
        self._queue: Final = queue
        self._wall_clock: Final = wall_clock
        self._clock: Final = clock
        self._rejections: Final[dict[str, tuple[Rejection, bool]]] = {}
        self._waits: Final[dict[str, Wait]] = {}
        self._to_evict: Final[dict[str, None]] = {}
        self._lapsed: Final[dict[str, str]] = {}

    # --- the jobs that there are ---

    def follow(self, job: MigrationJob, *, is_evicted: bool) -> None:
        """Record a job as it is now; `is_evicted` says that the eviction of its pod was accepted.

        The arbitrator follows it before.
        """
        name = job.name
        self._to_evict.pop(name, None)
        if not awaits_arbitration(job):
            self._rejections.pop(name, None)
        if wants_eviction(job, self._modes) and not is_evicted:
            self._to_evict[name] = None

    def forget(self, name: str) -> None:
        """Record that a job is gone."""
        self._to_evict.pop(name, None)
        self._waits.pop(name, None)
        self._rejections.pop(name, None)
        self._lapsed.pop(name, None)

    def lapsed(self, name: str) -> str:
        """Return why the pod of a job need not leave any more; empty where it has to."""
        return self._lapsed.get(name, "")

    def forbidden(self, name: str) -> str:
        """Return why a round forbade for good to move the pod of a job; empty where none did."""
        rejection, is_final = self._rejections.get(name, (None, False))
        return rejection[1] if is_final and rejection is not None else ""

    def wait_of(self, name: str) -> Wait | None:
        """Return for what a job waits; None where it does not."""
        return self._waits.get(name) if self._may_wait(name) else None

    def _may_wait(self, name: str) -> bool:
        return self._arbitrator.waits(name) or name in self._to_evict

    # --- rounds: for the plugin of the jobs ---

    def is_concerned_by(self, change: Change) -> bool:
        """Say whether a change may let a job begin, or its pod be evicted.

        That another job ended wakes the findings on those that wait.
        """
        return not isinstance(change, MigrationJobChanged) or self._may_wait(change.name)

    def findings(self, plugins: Finders) -> Iterator[Finding | YieldPoint]:
        """Run a round of arbitration, and yield the pods that are to be evicted or must wait.

        First come those of jobs that run: the gates alone let them wait. A job of ours ends here
        whose plugin finds its pod no more. The finding of a job that
        one of `plugins` had made is that plugin's: its rates count, and what is remembered of its
        moves.
        """
        for name in tuple(self._to_evict):
            job = self._view.store(MigrationJob).get(name)
            if job is None or (pod := self._view.index(JobPods).pod_of(job)) is None:
                continue
            if lapsed := _why_lapsed(job, pod, plugins):
                self._lapsed[name] = f"{lapsed}: {job.cause}"
                self._queue.add(name)
            else:
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
                    self._queue.add(job.name)
                    yield self._finding(job, pod, plugins)

    def is_still_found(self, finding: Finding, plugins: Finders) -> bool:
        """Say whether what a job of ours was made for is so still."""
        job = job_of(finding, self._view)
        return job is None or not _why_lapsed(job, finding.pod, plugins)

    def _finding(self, job: MigrationJob, pod: Pod, plugins: Collection[str]) -> Finding:
        why = f" ({job.trigger}: {job.cause})" if job.trigger else ""
        message = f"PodMigrationJob {job.name} asks for it{why}"
        details: Mapping[str, int | str] = {JOB_DETAIL: job.name}
        plugin = job.trigger if job.trigger in plugins else PLUGIN
        options = eviction_options(job, pod, self._settings)
        return Finding(pod, plugin, message, details=details, options=options)

    def _let_begin(self, name: str) -> None:
        self._rejections.pop(name, None)
        self._waits.pop(name, None)
        self._queue.add(name)

    # --- what the gates say of the pods ---

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse the pod of a job that arbitration does not let begin."""
        if (found := self._rejections.get(_job_name(finding))) is None:
            return None
        rejection, is_final = found
        pod = finding.pod
        return refused(finding, rejection, (WakeOnPod(pod.uid),) if is_final else wakes_of(pod))

    def blocked(self, decision: Defer | Refuse) -> None:
        """Record for what the pod of a job waits."""
        if not (name := _job_name(decision.finding)):
            return
        before = self._waits.get(name)
        if before is not None and decision.reason == PLACE_PENDING.code:
            return  # that passes at once, and says nothing of the place
        if before is None or before.reason != decision.reason:
            now_s = self._wall_clock()
            message = decision.record(ClockPair(self._clock(), now_s))
            self._waits[name] = Wait(decision.reason, message, now_s)
            self._queue.add_after(name, WAIT_WRITTEN_AFTER_S)

    def decided(self, eviction: Eviction) -> None:
        """Record that the pod of a job waits no more."""
        if (pod := eviction.pod) is not None and eviction.profile == MIGRATION_PROFILE:
            for job in self._view.index(JobPods).jobs_of(pod):
                self._waits.pop(job.name, None)


def _why_lapsed(job: MigrationJob, pod: Pod, plugins: Finders) -> str:
    """Say why the plugin that had a job made would not have it made now; empty where it would."""
    why_kept = plugins.get(job.trigger)
    return why_kept(pod) if why_kept is not None and job.is_made_for(pod.uid) else ""
