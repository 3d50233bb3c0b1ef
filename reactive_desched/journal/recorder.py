"""Records findings, decisions, intents and outcomes in the journal for the controller."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched._version import __version__
from reactive_desched.api.event import (
    BRAKE_ENGAGED,
    BRAKE_RELEASED,
    DISRUPTION_OBSERVED,
    EVICTION_CORRECTED,
    EVICTION_FOLLOWED_UP,
    EVICTION_REQUESTED,
    FINDING_MADE,
    FUTILE_CLEARED,
    JOURNAL_LOST,
    MIGRATION_CARRIED_OUT,
    MODE_DRY_RUN,
    MODE_LIVE,
    BrakeEngaged,
    BrakeReleased,
    DecisionMade,
    DisruptionObserved,
    EventData,
    EvictionCorrected,
    EvictionEnded,
    EvictionFollowedUp,
    EvictionRequested,
    FindingMade,
    FutileCleared,
    JournalLost,
    MigrationCarriedOut,
    ObjectReference,
    PolicyFile,
    PolicyLoaded,
    PolicyRejected,
    type_of,
)
from reactive_desched.journal.clocks import (
    ReadServerTime,
    ReadUptime,
    no_server_time,
    no_uptime,
)
from reactive_desched.journal.cluster import UNKNOWN_CLUSTER, ClusterIdentity
from reactive_desched.journal.event_builder import (
    Case,
    Correlation,
    OpenCases,
    action_payload,
    build_event,
    decision_payload,
    digest_id,
    follow_up_payload,
    journal_epoch,
    journal_event,
    outcome_event_type,
    outcome_payload,
    partition_key,
    pod_subject,
    trigger_id,
    trigger_payload,
    who_payload,
    why_payload,
)
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.recovery import OpenIntent
from reactive_desched.model.brakes import BrakeNotice
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Decision, Evict
from reactive_desched.model.disruptions import EndedPod
from reactive_desched.model.evaluation import DecisionContext, Intent
from reactive_desched.model.migration_jobs import KIND, MigrationStep
from reactive_desched.model.moves import FutileClearing, MoveEnd
from reactive_desched.model.outcomes import (
    EVICTED,
    POD_GONE,
    POD_LEAVES,
    POD_STILL_RUNNING,
    UNKNOWN,
    Outcome,
)
from reactive_desched.policy.settings.recording import DisruptionSettings
from reactive_desched.primitives.bounded_text import shown, truncate
from reactive_desched.primitives.loop_clock import loop_clock
from reactive_desched.primitives.token_bucket import TokenBucket, TokenRate

MAX_FOLLOWED = 20_000
"""So many evictions can be followed up at once; of further ones the oldest gets no record."""

MAX_UNCERTAIN = 10_000
"""So many outcomes can be corrected; of further ones the oldest stays as it is."""

MAX_JOBS = 10_000
"""Of so many migration jobs the case is remembered; further steps of another begin one."""

MAX_PROBLEMS, MAX_PROBLEM_CHARS = 20, 1000
"""An event about a refused policy names so many problems at most, each with so many characters."""

MAX_RECORDED_TEXTS = 1000
"""So many texts of policies are remembered as recorded; then each is recorded once more."""

MAX_BY_CHARS = 200
"""The longest name of a person."""


_CORRECTABLE = (POD_GONE.code, POD_STILL_RUNNING.code)
"""The reasons of outcomes that the end of the pod may correct."""


class _Recent(Struct, frozen=True, gc=False):
    """The finding recorded last, and what its events share."""

    context: DecisionContext
    pod_data: dict[str, Any]
    correlation: Correlation


class JournalRecorder:
    """Makes events of what happens and has the journal write them.

    Ids follow from what they are about and from the journal's own past, so that the same life
    gives the same ids. `decision_rate` bounds how many decisions other than evictions are written,
    `disruptions` says which ends of pods by others are, and how many. `clock` is the time of day,
    `now` monotonic seconds, those of the event loop by default, `uptime` that of the machine,
    `server_time` the API server's.
    """

    def __init__(  # noqa: PLR0913 -- its journal, its limits, and one clock for each field
        self,
        journal: Journal,
        clock: Callable[[], datetime],
        *,
        decision_rate: TokenRate,
        now: Callable[[], float] | None = None,
        disruptions: Callable[[], DisruptionSettings] = DisruptionSettings,
        dry_run: bool = False,
        cluster: ClusterIdentity = UNKNOWN_CLUSTER,
        uptime: ReadUptime = no_uptime,
        server_time: ReadServerTime = no_server_time,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._uptime = uptime
        self._server_time = server_time
        self._mode = MODE_DRY_RUN if dry_run else MODE_LIVE
        self._cluster = cluster
        self._recorded_texts: set[str] = set()
        self._decision_bucket: TokenBucket | None = None
        self._decision_rate = decision_rate
        self._disruptions = disruptions
        self._disruption_bucket: TokenBucket | None = None
        self._cases = OpenCases()
        self._start_seq = str(journal.tail.last_seq)
        self._id_counter = 0
        self._policy_revision = ""
        self._now = now or loop_clock()
        self._recent: _Recent | None = None
        self._started_at: dict[str, float] = {}
        self._outcomes: OrderedDict[str, AnyEvent] = OrderedDict()
        self._uncertain: OrderedDict[str, AnyEvent] = OrderedDict()
        self._job_cases: OrderedDict[str, str] = OrderedDict()

    @property
    def fault(self) -> str:
        """Return why nothing can be recorded now; empty when records can be written."""
        return self._journal.reason

    @property
    def started_behind(self) -> int:
        """Return the sequence of the last record of earlier processes."""
        return int(self._start_seq)

    # --- policies and the journal itself ---

    def policy_loaded(self, source: str, revision: str, files: Sequence[PolicyFile] = ()) -> None:
        """Write down that a policy came into force; what follows was decided by it.

        The text of a file is written once.
        """
        self._policy_revision = revision
        self._recent = None
        data = PolicyLoaded(
            cluster=self._cluster.name,
            cluster_uid=self._cluster.uid,
            context=self._cluster.context,
            files=tuple(map(self._new_text, files)),
            mode=self._mode,  # type: ignore[arg-type]  # one of the two
            revision=revision,
            source=source,
            version=__version__,
        )
        self.record(data, "policy", version=revision, cause="policy files")

    def _new_text(self, file: PolicyFile) -> PolicyFile:
        """Return the file, without its text where a record of this process has it."""
        if file.sha256 in self._recorded_texts:
            return replace(file, text="")
        if len(self._recorded_texts) >= MAX_RECORDED_TEXTS:
            self._recorded_texts.clear()
        self._recorded_texts.add(file.sha256)
        return file

    def policy_rejected(self, source: str, problems: tuple[str, ...]) -> None:
        """Write down that changed files were refused."""
        truncated = tuple(truncate(each, MAX_PROBLEM_CHARS) for each in problems[:MAX_PROBLEMS])
        data = PolicyRejected(kept=self._policy_revision, problems=truncated, source=source)
        self.record(data, "policy", version=self._policy_revision, cause="policy files")

    def record_brake(self, notice: BrakeNotice) -> None:
        """Write down that a brake engaged, or that it was released."""
        message, by = shown(notice.message, MAX_PROBLEM_CHARS), shown(notice.by, MAX_BY_CHARS)
        common: dict[str, Any] = {  # the fields that both types have
            "brake": notice.brake,
            "by": by,
            "message": message,
            "mode": self._mode,
            "scope": notice.scope,
        }
        until = None if notice.until_s is None else datetime.fromtimestamp(notice.until_s, UTC)
        data = BrakeEngaged(until=until, **common) if notice.engaged else BrakeReleased(**common)
        type_ = BRAKE_ENGAGED if notice.engaged else BRAKE_RELEASED
        self._id_counter += 1
        epoch = journal_epoch(self._journal.source)
        brake = f"{epoch}.brake.{self._start_seq}"
        event = build_event(
            self._journal.source,
            type_,
            Correlation(f"{epoch}.brake.{notice.brake}", "brakes", epoch),
            self._clock(),
            data,
            id_=f"{brake}.{self._id_counter}",
            causation_id=notice.scope,
        )
        self._journal.append_nowait(event)

    async def record_loss(self, sink: str, first: int, last: int) -> None:
        """Write down, durably, that records are removed which a sink has not read."""
        data = JournalLost(first=first, last=last, sink=sink)
        event = journal_event(
            self._journal.source, JOURNAL_LOST, last, self._clock(), data, id_suffix=sink
        )
        await self._journal.append_until_durable(event)

    async def record_futile_cleared(self, clearing: FutileClearing) -> None:
        """Write down, durably, that a person has moves forgotten.

        Raises JournalUnavailable, at once, while the journal cannot write.
        """
        self._id_counter += 1
        data = FutileCleared(
            by=clearing.by,
            cleared=clearing.cleared,
            message=clearing.message,
            owner=clearing.owner,
            owner_uid=clearing.owner_uid,
        )
        suffix = f"{self._start_seq}.{self._id_counter}"
        event = journal_event(
            self._journal.source,
            FUTILE_CLEARED,
            self._journal.tail.last_seq,
            self._clock(),
            data,
            id_suffix=suffix,
        )
        await self._journal.append(event)

    def record(self, data: EventData, subject: str, *, version: str = "", cause: str = "") -> None:
        """Write down what happened, of any type; the caller does not wait for the disk.

        `subject` names the component that it is about, such as leader, `version` the state in which
        that is, and `cause` what led to it. An event with a pod is about that pod: it joins the
        case of the pod, if one is open.
        """
        self._id_counter += 1
        source = self._journal.source
        epoch = journal_epoch(source)
        id_ = f"{epoch}.{subject}.{self._start_seq}.{self._id_counter}"
        if (pod := data.pod) is None:
            correlation = Correlation(f"{epoch}.{subject}.{version}", subject, epoch)
        else:
            case = self._cases.latest_of(pod.uid)
            key = pod.owners[-1].uid if pod.owners else pod.uid
            correlation = Correlation(case.id if case else id_, f"{pod.namespace}/{pod.name}", key)
        event = build_event(
            source, type_of(data), correlation, self._clock(), data, id_=id_, causation_id=cause
        )
        self._journal.append_nowait(event)

    async def written(self) -> None:
        """Return once what was recorded so far is on disk, as `Journal.written`."""
        await self._journal.written()

    # --- pods ---

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Record a changed decision, and its finding before the first decision on it.

        The caller does not wait for the disk; an intent recorded later stands behind it. Above
        the rate limit, decisions other than evictions are only counted.
        """
        if not isinstance(decision, Evict) and not self._take_decision_token():
            self._journal.drop()
            return
        case = self._cases.find(context) or self._open_case(context)
        case.begin_decision()
        clocks = ClockPair(self._now(), self._clock().timestamp())
        type_, payload = decision_payload(decision, clocks)
        about = self._about(context, case)
        data = DecisionMade(decision=payload, **about.pod_data)
        event = self._pod_event(
            type_, about, data, id_=case.decision_id, causation_id=case.finding_id
        )
        self._journal.append_nowait(event)

    async def record_intent(self, intent: Intent) -> str:
        """Return the intent's id once it is on disk; only then may the pod be evicted.

        Raises JournalError when it cannot be written: at once while the journal cannot write.
        """
        context = intent.context
        case = self._cases.find(context) or self._open_case(context)
        case.begin_attempt()
        what, about = action_payload(intent.options), self._about(context, case)
        pod = context.finding.pod
        data = EvictionRequested(
            **{
                **about.pod_data,
                "attempt": case.attempts,
                "phase": pod.status.phase if pod.has_ended else "",
                "server_time": self._server_time(),
                "uptime": self._uptime(),
                "what": what,
            }
        )
        event = self._pod_event(
            EVICTION_REQUESTED, about, data, id_=case.request_id, causation_id=case.decision_id
        )
        await self._journal.append_whole(event)
        self._started_at[event.id] = self._now()
        return event.id

    def case_of(self, intent_id: str) -> str:
        """Return the case of an intent that has no outcome yet."""
        open_intent = self._journal.open_intent(intent_id)
        assert open_intent is not None, "an intent is open until its outcome"
        return open_intent.event.correlationid

    async def record_outcome(self, intent_id: str, outcome: Outcome) -> None:
        """Return when the intent's outcome is on disk, however long the disk takes."""
        open_intent = self._journal.open_intent(intent_id)
        assert open_intent is not None, "an intent ends exactly once"
        request = open_intent.event.data
        began_at = self._started_at.pop(intent_id, None)
        took_ms = None if began_at is None else round((self._now() - began_at) * 1000)
        event = self._outcome_event(open_intent, outcome, took_ms)
        await self._journal.append_until_durable(event)
        if outcome.result in (EVICTED, UNKNOWN):
            self.follow(intent_id, event)
        if outcome.reason in _CORRECTABLE:
            self.remember_uncertain(intent_id, event)
        if outcome.result in POD_LEAVES:
            self._cases.close(request.who.uid, request.why.profile, request.why.plugin)

    def follow(self, intent_id: str, outcome: AnyEvent) -> None:
        """Remember the outcome of an eviction that is followed up later, also of the last run's."""
        self._outcomes[intent_id] = outcome
        if len(self._outcomes) > MAX_FOLLOWED:
            self._outcomes.popitem(last=False)

    def remember_uncertain(self, intent_id: str, outcome: AnyEvent) -> None:
        """Remember an outcome that the end of its pod may correct, also of the last run's."""
        self._uncertain[intent_id] = outcome
        if len(self._uncertain) > MAX_UNCERTAIN:
            self._uncertain.popitem(last=False)

    def record_correction(self, intent_id: str, outcome: Outcome) -> None:
        """Record what an outcome turned out to be, behind it; the caller does not wait."""
        if (event := self._uncertain.pop(intent_id, None)) is None:
            return
        ended: EvictionEnded = event.data
        data = EvictionCorrected(
            attempt=ended.attempt,
            corrects=event.id,
            mode=ended.mode,
            outcome=outcome_payload(outcome, None),
            server_time=self._server_time(),
            trigger=ended.trigger,
            uptime=self._uptime(),
            what=ended.what,
            who=ended.who,
            why=ended.why,
        )
        self._append_behind(event, EVICTION_CORRECTED, data)
        if ended.outcome.result not in POD_LEAVES:  # else it is followed already
            self.follow(intent_id, event)
            self._cases.close(ended.who.uid, ended.why.profile, ended.why.plugin)

    def record_disruption(self, ended: EndedPod) -> None:
        """Record that something else ends a pod, where the settings ask for it.

        It joins the case of the pod, if one is open. Above the rate limit it is only counted.
        """
        pod = ended.pod
        case = self._cases.latest_of(pod.uid)
        self._cases.close_all(pod.uid)
        settings = self._disruptions()
        if not _is_asked_for(ended, settings.record):
            return
        if not self._take_disruption_token(settings):
            self._journal.drop_disruption()
            return
        id_ = f"{pod.uid}.disruption"
        since_s = ended.since_s
        data = DisruptionObserved(
            cause=shown(ended.cause, MAX_BY_CHARS),
            message=shown(ended.message),
            server_time=self._server_time(),
            since=None if since_s is None else datetime.fromtimestamp(since_s, UTC),
            uptime=self._uptime(),
            who=who_payload(pod, ended.owners, ended.zone),
        )
        key = ended.owners[-1].uid if ended.owners else pod.uid
        event = build_event(
            self._journal.source,
            DISRUPTION_OBSERVED,
            Correlation(id_ if case is None else case.id, pod_subject(pod), key),
            self._clock(),
            data,
            id_=id_,
            causation_id=f"pod {pod_subject(pod)}/{pod.resource_version}",
        )
        self._journal.append_nowait(event)

    def record_migration_step(self, step: MigrationStep) -> None:
        """Record what was done for a migration job; the caller does not wait.

        It joins the case of the finding that had the job made, or of the job's own.
        """
        self._id_counter += 1
        pod, about = step.pod, step.object
        epoch = journal_epoch(self._journal.source)
        data = MigrationCarriedOut(
            action=step.action,
            job=step.job,
            message=shown(step.message),
            object=ObjectReference(
                api_version=about.api_version,
                kind=about.kind,
                name=about.name,
                namespace=about.namespace,
                uid=about.uid,
            ),
            job_reason=shown(step.reason, MAX_BY_CHARS),
            result=step.result,
            server_time=self._server_time(),
            uptime=self._uptime(),
            who=who_payload(pod, step.owners, step.zone),
        )
        event = build_event(
            self._journal.source,
            MIGRATION_CARRIED_OUT,
            Correlation(
                self._case_of_job(step),
                pod_subject(pod),
                step.owners[-1].uid if step.owners else pod.uid,
            ),
            self._clock(),
            data,
            id_=f"{epoch}.migration.{self._start_seq}.{self._id_counter}",
            causation_id=f"{KIND} {step.job}",
        )
        self._journal.append_nowait(event)

    def _case_of_job(self, step: MigrationStep) -> str:
        """Return the case of a job: the first that its pod had, also when that is closed."""
        uid = step.pod.uid
        job = step.job or uid  # a placeholder that its job left behind stands for itself
        if (known := self._job_cases.pop(job, None)) is None:
            case = self._cases.latest_of(uid, step.trigger) or self._cases.latest_of(uid)
            known = f"{uid}.migration" if case is None else case.id
        self._job_cases[job] = known
        if len(self._job_cases) > MAX_JOBS:
            self._job_cases.popitem(last=False)
        return known

    def record_follow_up(self, intent_id: str, end: MoveEnd) -> None:
        """Record how the move of an evicted pod ended; the caller does not wait."""
        if (event := self._outcomes.pop(intent_id, None)) is None:
            return
        ended: EvictionEnded = event.data
        self._cases.close_all(ended.who.uid)
        data = EvictionFollowedUp(
            attempt=ended.attempt,
            follow_up=follow_up_payload(end),
            mode=ended.mode,
            server_time=self._server_time(),
            trigger=ended.trigger,
            uptime=self._uptime(),
            what=ended.what,
            who=ended.who,
            why=ended.why,
        )
        self._append_behind(event, EVICTION_FOLLOWED_UP, data)

    def _append_behind(
        self, outcome: AnyEvent, type_: str, data: EvictionCorrected | EvictionFollowedUp
    ) -> None:
        """Append an event about an outcome: it has its case, and its id with another name in it."""
        self._journal.append_nowait(
            build_event(
                self._journal.source,
                type_,
                Correlation(outcome.correlationid, outcome.subject, outcome.partitionkey),
                self._clock(),
                data,
                id_=outcome.id.replace(".outcome.", f".{type_.removeprefix('eviction.')}."),
                causation_id=outcome.id,
            )
        )

    def open_intents(self) -> tuple[OpenIntent, ...]:
        """Return the intents without outcome: at start, those that a crash cut short."""
        return self._journal.open_intents

    def _take_decision_token(self) -> bool:
        now = self._now()
        if self._decision_bucket is None:
            self._decision_bucket = TokenBucket(self._decision_rate, now)
        return self._decision_bucket.try_acquire(now)

    def _take_disruption_token(self, settings: DisruptionSettings) -> bool:
        now, rate = self._now(), TokenRate(settings.per_second, settings.burst)
        if self._disruption_bucket is None:
            self._disruption_bucket = TokenBucket(rate, now)
        elif self._disruption_bucket.rate != rate:
            self._disruption_bucket.adjust(rate, now)
        return self._disruption_bucket.try_acquire(now)

    def _open_case(self, context: DecisionContext) -> Case:
        """Begin a case, and write down the finding it begins with."""
        self._id_counter += 1
        pod, number = context.finding.pod, f"{self._start_seq}.{self._id_counter}"
        names = (pod.uid, context.profile, context.finding.plugin, self._policy_revision)
        cause = trigger_id(context)
        id_ = digest_id(self._journal.source, *names, cause, number)
        case = self._cases.open(context, id_)
        about = self._about(context, case)
        data = FindingMade(**about.pod_data)
        event = self._pod_event(FINDING_MADE, about, data, id_=case.finding_id, causation_id=cause)
        self._journal.append_nowait(event)
        return case

    def _about(self, context: DecisionContext, case: Case) -> "_Recent":
        """Return what the events on a finding share; they follow upon one another."""
        recent = self._recent
        if recent is None or recent.context is not context or recent.correlation.id != case.id:
            pod_data = {
                "mode": MODE_DRY_RUN if context.is_observed else self._mode,
                "trigger": trigger_payload(context),
                "what": action_payload(),
                "who": who_payload(context.finding.pod, context.owners, context.zone),
                "why": why_payload(context, self._policy_revision),
            }
            subject, key = pod_subject(context.finding.pod), partition_key(context)
            correlation = Correlation(case.id, subject, key)
            recent = self._recent = _Recent(context, pod_data, correlation)
        return recent

    def _pod_event(
        self,
        type_: str,
        about: "_Recent",
        data: Any,
        *,
        id_: str,
        causation_id: str,
    ) -> AnyEvent:
        return build_event(
            self._journal.source,
            type_,
            about.correlation,
            self._clock(),
            data,
            id_=id_,
            causation_id=causation_id,
        )

    def _outcome_event(
        self, open_intent: OpenIntent, outcome: Outcome, took_ms: int | None
    ) -> AnyEvent:
        event, request = open_intent.event, open_intent.event.data
        data = EvictionEnded(
            attempt=request.attempt,
            mode=request.mode,
            outcome=outcome_payload(outcome, took_ms),
            server_time=self._server_time(),
            trigger=request.trigger,
            uptime=self._uptime(),
            what=request.what,
            who=request.who,
            why=request.why,
        )
        return build_event(
            self._journal.source,
            outcome_event_type(outcome),
            Correlation(event.correlationid, event.subject, event.partitionkey),
            self._clock(),
            data,
            id_=event.id.replace(".requested.", ".outcome."),
            causation_id=event.id,
        )


def _is_asked_for(ended: EndedPod, record: str) -> bool:
    """Say whether the settings have the end of a pod recorded."""
    match record:
        case "none":
            return False
        case "marked":
            return ended.is_marked
        case "unexplained":
            return ended.is_marked or not ended.is_explained
        case _:
            return True
