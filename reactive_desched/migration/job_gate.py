"""A profile's findings become migration jobs: the gate whose last word is a job, no eviction.

A dry run makes no job: there `JobRules` are part of the gate that evicts.
"""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Final

from reactive_desched.api.index import Index
from reactive_desched.gate.gate import GateFilter, LastingFilter, explanations, held_since
from reactive_desched.gate.policy_limits import PolicyLimits
from reactive_desched.gate.rate_limits import EvictionRateLimiter
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.migration.admission import JobAdmission
from reactive_desched.migration.in_progress import SCOPES_OF_JOBS
from reactive_desched.migration.limits import refused, wakes_of
from reactive_desched.migration.object_limiters import ObjectLimiters
from reactive_desched.model.changes import MigrationJobEnded
from reactive_desched.model.decisions import Decision, Defer, GateReason, Refuse, WaitEnd
from reactive_desched.model.findings import Finding
from reactive_desched.model.wakes import ChangeTypes, WakeOn, WakeOnPod
from reactive_desched.text.counts import format_count

JOB_GATE: Final = "MigrationJob"
MOVED_BY_JOB: Final = GateReason(
    JOB_GATE,
    "MovedByMigrationJob",
    "A PodMigrationJob moves the pod, or is being made: the finding waits for its end.",
    "evictions.evictor",
)
JOB_FAILED: Final = GateReason(
    JOB_GATE,
    "MigrationJobFailed",
    "A PodMigrationJob of the pod has failed, or could not be made; the next one waits.",
)

RATE_TOO_SLOW: Final = GateReason(
    JOB_GATE,
    "RateTooSlowForJob",
    "A rate of `budgets` lets the pod go so late that its PodMigrationJob might time out before.",
    "budgets",
)

SHARE_OF_TTL: Final = 0.5
"""A job is made when its eviction is due within this share of its time to live; the pod has the
rest to end."""


class WakeOnJob(WakeOn, frozen=True, gc=False):
    """A migration job ends."""

    changes: ClassVar[ChangeTypes] = (MigrationJobEnded,)
    words = "the end of PodMigrationJob {name}"
    name: str


class JobRules:
    """Refuses a pod of which no job is made now: there is one, one has failed, or a limit forbids.

    No more jobs are made than the policy's `maxNoOfPodsToEvict…` let evict, none while `schedules`
    let none go, and none that would time out before `rates` let its pod go.
    """

    name = JOB_GATE

    def __init__(
        self,
        schedules: GateFilter,
        rates: EvictionRateLimiter,
        limits: PolicyLimits,
        object_limiters: ObjectLimiters,
        admission: JobAdmission,
        job_ttl_s: float,
    ) -> None:
        self._schedules: Final = schedules
        self._rates: Final = rates
        self._limits: Final = limits
        self._object_limiters: Final = object_limiters
        self._admission: Final = admission
        self._job_ttl_s: Final = job_ttl_s

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Refuse or defer a pod of which no job is made now."""
        pod, admission = finding.pod, self._admission
        if (job := admission.open_job_of(pod)) is not None:
            return moved(finding, job)
        if wait_s := admission.seconds_to_next(pod):
            end = WaitEnd("; the next may be made", now + wait_s)
            message = "the last PodMigrationJob of the pod failed"
            return JOB_FAILED.defer(finding, message, now + wait_s, end=end)
        if (rejection := admission.rejects(pod)) is not None:
            return refused(finding, rejection, wakes_of(pod))
        for check in (
            self._object_limiters.lacks_token,
            self._schedules.check,
            self._comes_too_late,
        ):
            if (decision := check(finding, now)) is not None:
                return decision
        to_come = partial(admission.evictions_to_come, pod)
        return self._limits.lacks_room(finding, now, to_come, wakes_of(pod))

    def _comes_too_late(self, finding: Finding, now: float) -> Defer | None:
        """Defer a pod whose eviction the rates let happen only after its job had timed out.

        The evictions of open jobs come before it, as far as they are known to take the same tokens.
        """
        ttl_s = self._job_ttl_s
        if not ttl_s or (empty := self._rates.peek(finding, now)) is None:
            return None
        ahead = 0
        if empty.scope in SCOPES_OF_JOBS:
            ahead = self._admission.evictions_to_come(finding.pod, empty.scope)
        due = empty.available_at + ahead / empty.rate.per_second
        until = due - ttl_s * SHARE_OF_TTL
        if until <= now:
            return None
        before = format_count(ahead, "eviction")
        place = f"{empty.turn.where}, after {before} of jobs"
        message = f"a job made now would end before its turn: {place}"
        setting, end = f"budgets.{empty.scope}", WaitEnd("; one may be made", until)
        return RATE_TOO_SLOW.defer(finding, message, until, setting=setting, end=end)


class JobGate:
    """The gates of one profile, cheap and final ones first; what passes them all makes a job.

    `rules` are asked last. Budgets and rates are asked when the job's pod is to be evicted, and the
    `lasting` gates of the profile once more.
    """

    def __init__(
        self,
        filters: tuple[GateFilter, ...],
        rules: tuple[GateFilter, ...],
        ledger: EvictionLedger,
        admission: JobAdmission,
        lasting: tuple[LastingFilter, ...] = (),
    ) -> None:
        self.filters: Final = (*filters, *rules)
        self._lasting: Final = lasting
        self._ledger: Final = ledger
        self._admission: Final = admission

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that the filters read."""
        return tuple(kind for step in self.filters for kind in getattr(step, "indexes", ()))

    def decide(self, finding: Finding, now: float) -> Decision:
        """Return the first gate's refusal or deferral; without one, have a job made.

        Of a pod that has a job no gate is asked: that it is terminating now is the job's doing.
        """
        self._ledger.find(finding, now)
        if (job := self._admission.open_job_of(finding.pod)) is not None:
            return moved(finding, job)
        for gate_filter in self.filters:
            if (decision := gate_filter.check(finding, now)) is not None:
                return decision
        order = self._admission.order(finding.pod, finding.plugin, finding.message)
        return moved(finding, order)

    def held_since(self, finding: Finding, now: float) -> str:
        """Say why no job would be made any more of a pod that has one; empty where one would."""
        return held_since(self._lasting, finding, now)

    def explain(self, finding: Finding, now: float) -> Iterator[tuple[str, Defer | Refuse | None]]:
        """Yield each gate's name, in their order, with its refusal or deferral, or None."""
        for name, explain in explanations(self.filters):
            yield name, explain(finding, now)


def moved(finding: Finding, job: str) -> Refuse:
    """Refuse a pod that a job moves."""
    wakes = WakeOnPod(finding.pod.uid), WakeOnJob(job)
    message = f"PodMigrationJob {job} moves it"
    return MOVED_BY_JOB.refuse(finding, message, wakes, pod_leaves=True)
