"""Builds the events of the journal: what each says, its envelope, and the case it belongs to.

A case is one pod under one plugin, from the finding to its end. Where a finding has a migration job
made, the job's own finding, its eviction and what came of that belong to the same case.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from reactive_desched.api.event import (
    DATA_TYPES,
    DECISION_DEFER,
    DECISION_EVICT,
    DECISION_REFUSE,
    EVICTION_DRY_RUN,
    EVICTION_REFUSED,
    EVICTION_SUCCEEDED,
    EVICTION_UNKNOWN,
    Cause,
    Ending,
    Event,
    FollowUp,
    Owner,
    PolicyFile,
    Replacement,
    Verdict,
    What,
    Who,
    Why,
    dataschema,
)
from reactive_desched.journal.records import AnyEvent
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse
from reactive_desched.model.evaluation import DecisionContext
from reactive_desched.model.eviction_options import BY_EVICTION, EVICTION, EvictionOptions
from reactive_desched.model.evictor_table import EVICTORS, evictor_named
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE
from reactive_desched.model.moves import MoveEnd
from reactive_desched.model.objects import OwnerReference, Pod
from reactive_desched.model.outcomes import DRY_RUN, EVICTED, UNKNOWN, Outcome
from reactive_desched.primitives.bounded_text import shown, truncate
from reactive_desched.telemetry.logs import REDACTED, blank_secrets

_SCHEMAS: Final[Mapping[str, str]] = {type_: dataschema(type_) for type_ in DATA_TYPES}
_ID_CHARACTERS: Final = 26

MAX_PODS: Final = 20_000
"""The cases of so many pods are remembered, in 9 MB; of those of a pod that was forgotten, what
follows begins others, with a finding each."""

_EVICTOR_OF: Final = {each.action: each.name for each in EVICTORS.values()}

_OUTCOME_TYPES: Final[Mapping[str, str]] = {
    EVICTED: EVICTION_SUCCEEDED,
    DRY_RUN: EVICTION_DRY_RUN,
    UNKNOWN: EVICTION_UNKNOWN,
}

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""Larger numbers are written as text: a reader with double precision would round them."""

MAX_POLICY_BYTES: Final = 48 * 1024
"""A longer file of the policy is recorded by its digest: a record has a bound."""

_URL: Final = re.compile(
    r"(?i)\b(https?://)(?:[^\s/@'\"]*@)?([^\s/?#'\",}\]]+)(?:[/?#][^\s'\",}\]]+)?"
)


class Correlation(Struct, frozen=True, gc=False):
    """The attributes that the events of one case share: id, subject and partition key."""

    id: str
    subject: str
    partition_key: str


def build_event(
    source: str,
    type_: str,
    correlation: Correlation,
    time: datetime,
    data: Any,
    *,
    id_: str,
    causation_id: str,
) -> AnyEvent:
    """Return the event; the journal adds its place when it writes it."""
    return Event(
        id=id_,
        source=source,
        specversion="1.0",
        type=type_,
        datacontenttype="application/json",
        dataschema=_SCHEMAS[type_],
        subject=correlation.subject,
        time=time,
        partitionkey=correlation.partition_key,
        correlationid=correlation.id,
        causationid=causation_id,
        traceparent=traceparent_for(correlation.id, id_),
        data=data,
    )


def journal_event(
    source: str, type_: str, last_seq: int, time: datetime, data: Any, id_suffix: str = ""
) -> AnyEvent:
    """Return an event about the journal itself, made when `last_seq` was its last record."""
    epoch, kind = journal_epoch(source), type_.split(".")[-2]
    id_ = ".".join(part for part in (epoch, kind, id_suffix, str(last_seq)) if part)
    correlation, causation_id = Correlation(epoch, "journal", epoch), f"{epoch}.record.{last_seq}"
    return build_event(source, type_, correlation, time, data, id_=id_, causation_id=causation_id)


def digest_id(*parts: str) -> str:
    """Return an id of 26 hexadecimal digits that follows from these parts alone."""
    text = "\n".join(parts).encode(errors="backslashreplace")
    return hashlib.sha256(text).hexdigest()[:_ID_CHARACTERS]


def journal_epoch(source: str) -> str:
    """Return the part of a source that names one journal's life."""
    return source.rpartition("/")[2]


def traceparent_for(correlation_id: str, id_: str) -> str:
    """Return a W3C traceparent: the case is the trace, the event its span.

    Its flag says that none is sampled: each sink of traces chooses its own.
    """
    span = hashlib.sha256(id_.encode()).hexdigest()[:16]
    return f"00-{_trace_id(correlation_id)}-{span}-00"


@lru_cache(maxsize=1024)
def _trace_id(correlation_id: str) -> str:
    """Return the id of a case's trace; a case has several events within milliseconds."""
    return hashlib.sha256(correlation_id.encode()).hexdigest()[:32]


def finding_event_id(case: str) -> str:
    """Return the id of the event that a case begins with."""
    return f"{case}.finding"


class Case:
    """One story: its id, and how many decisions and eviction requests it had so far."""

    __slots__ = ("attempts", "decisions", "id", "is_observed", "plugin", "profile")

    def __init__(self, id_: str, context: DecisionContext) -> None:
        self.id = id_
        self.profile = context.profile
        self.plugin = context.finding.plugin
        self.is_observed = context.is_observed
        self.decisions = 0
        self.attempts = 0

    def begin_decision(self) -> None:
        """Count a decision; `decision_id` is that of its event from now on."""
        self.decisions += 1

    def begin_attempt(self) -> None:
        """Count an eviction request; `request_id` is that of its event from now on."""
        self.attempts += 1

    @property
    def finding_id(self) -> str:
        """The id of the event it begins with."""
        return finding_event_id(self.id)

    @property
    def decision_id(self) -> str:
        """The id of its latest decision's event; before any, of its finding's."""
        return f"{self.id}.decision.{self.decisions}" if self.decisions else self.finding_id

    @property
    def request_id(self) -> str:
        """The id of its latest eviction request's event."""
        return f"{self.id}.requested.{self.attempts}"


class OpenCases:
    """The open cases by pod; of MAX_PODS pods the one not looked at for longest is forgotten.

    Nearly every pod has one case, or one for each of a few plugins: a tuple, oldest first.
    """

    def __init__(self) -> None:
        self._by_pod: OrderedDict[str, tuple[Case, ...]] = OrderedDict()  # last looked at, last

    def __len__(self) -> int:
        return sum(map(len, self._by_pod.values()))

    def find(self, context: DecisionContext) -> Case | None:
        """Return the case this belongs to, if it is open.

        What is carried out belongs to no case of what was observed, nor the reverse.
        """
        uid = context.finding.pod.uid
        case = self._find(uid, context.profile, context.finding.plugin)
        if case is None:
            return None
        if case.is_observed != context.is_observed:
            self._keep(uid, lambda each: each is not case)
            return None
        self._by_pod.move_to_end(uid)
        return case

    def latest_of(self, uid: str, plugin: str = "") -> Case | None:
        """Return the case of a pod that was opened last, of a plugin where one is named."""
        cases = reversed(self._by_pod.get(uid, ()))
        return next((case for case in cases if plugin in ("", case.plugin)), None)

    def open(self, context: DecisionContext, id_: str) -> Case:
        """Open a case."""
        uid = context.finding.pod.uid
        case = Case(id_, context)
        self._by_pod[uid] = (*self._by_pod.pop(uid, ()), case)
        if len(self._by_pod) > MAX_PODS:
            self._by_pod.popitem(last=False)
        return case

    def close(self, uid: str, profile: str, plugin: str) -> None:
        """The pod has left: what is found later is another case."""
        closed = self._find(uid, profile, plugin)
        self._keep(uid, lambda case: case is not closed)
        if profile == MIGRATION_PROFILE:
            self._keep(uid, lambda case: case.plugin != plugin)

    def close_all(self, uid: str) -> None:
        """The pod is gone: every plugin's case of it ends."""
        self._by_pod.pop(uid, None)

    def _find(self, uid: str, profile: str, plugin: str) -> Case | None:
        """Return an open case; that of a job is the one of the plugin that had it made."""
        if profile == MIGRATION_PROFILE:
            return self.latest_of(uid, plugin)
        for case in self._by_pod.get(uid, ()):
            if case.plugin == plugin and case.profile == profile:
                return case
        return None

    def _keep(self, uid: str, is_kept: Callable[[Case], bool]) -> None:
        if (cases := self._by_pod.get(uid)) is None:
            return
        if kept := tuple(filter(is_kept, cases)):
            self._by_pod[uid] = kept
        else:
            del self._by_pod[uid]


def _safe_json_value(value: int | str) -> int | str:
    """Return a value that every JSON reader reads alike: RFC 8785, section 3.2.2.3."""
    if isinstance(value, str):
        return shown(value)
    return value if abs(value) <= MAX_SAFE_INTEGER else str(value)


def _without_path(url: re.Match[str]) -> str:
    address = f"{url[1]}{url[2]}"
    return url[0] if address == url[0] else f"{address}/{REDACTED}"


def policy_file_payload(
    name: str, sha256: str, text: str, *, size: int = 0, path: str = ""
) -> PolicyFile:
    """Return a file of the policy; URLs are cut after the host, as the rest may be secret."""
    kept = without_secrets(text)
    if len(kept.encode(errors="replace")) > MAX_POLICY_BYTES:
        kept = ""
    return PolicyFile(name=truncate(name), path=truncate(path), sha256=sha256, size=size, text=kept)


def without_secrets(text: str) -> str:
    """Return the text of a file of the policy as a record holds it."""
    return blank_secrets(_URL.sub(_without_path, text))


def who_payload(pod: Pod, owners: Iterable[OwnerReference], zone: str) -> Who:
    """Return a pod with its owners and zone."""
    return Who(
        name=pod.name,
        namespace=pod.namespace,
        node=pod.node,
        owners=tuple(
            [Owner(api_version=o.api_version, kind=o.kind, name=o.name, uid=o.uid) for o in owners]
        ),
        template_hash=pod.template_hash,
        uid=pod.uid,
        zone=zone,
    )


def why_payload(context: DecisionContext, revision: str) -> Why:
    """Return the plugin, its message and its numbers."""
    finding = context.finding
    numbers = {name: _safe_json_value(value) for name, value in finding.details.items()}
    return Why(
        message=shown(finding.message),
        numbers=numbers,
        plugin=finding.plugin,
        policy_revision=revision,
        profile=context.profile,
    )


def trigger_payload(context: DecisionContext) -> Cause:
    """Return the change that led to the judgement."""
    trigger = context.trigger
    return Cause(
        change=trigger.change, object=trigger.object_name, resource_version=trigger.resource_version
    )


def trigger_id(context: DecisionContext) -> str:
    """Return an id of that change; "start" when there is none."""
    trigger = context.trigger
    return "/".join([part for part in (str(trigger), trigger.resource_version) if part]) or "start"


def action_payload(options: EvictionOptions = BY_EVICTION) -> What:
    """Return the action."""
    action = evictor_named(options.evictor).action
    return What(action=action, grace_period_seconds=options.grace_period_s)


def evictor_of(what: What) -> str:
    """Return the evictor of a recorded action; one that a later version wrote is an eviction."""
    return _EVICTOR_OF.get(what.action, EVICTION)


def partition_key(context: DecisionContext) -> str:
    """Return the key within which events are ordered: the topmost owner's uid, or the pod's."""
    return context.owners[-1].uid if context.owners else context.finding.pod.uid


def pod_subject(pod: Pod) -> str:
    """Return NAMESPACE/NAME of the pod."""
    return f"{pod.namespace}/{pod.name}"


def decision_payload(decision: Decision, clocks: ClockPair) -> tuple[str, Verdict]:
    """Return the type of a decision's event, and its payload."""
    match decision:
        case Evict():
            return DECISION_EVICT, Verdict(verdict="evict")
        case Defer():
            return DECISION_DEFER, _blocked("defer", decision, clocks)
        case Refuse():
            return DECISION_REFUSE, _blocked("refuse", decision, clocks)


def _blocked(verdict: str, decision: Defer | Refuse, clocks: ClockPair) -> Verdict:
    message = shown(decision.record(clocks))
    return Verdict(verdict=verdict, gate=decision.gate, message=message, reason=decision.reason)


def outcome_payload(outcome: Outcome, took_ms: int | None) -> Ending:
    """Return the outcome of an eviction; `took_ms` is None when the start is not known."""
    message = shown(outcome.message)
    return Ending(result=outcome.result, message=message, reason=outcome.reason, took_ms=took_ms)


def follow_up_payload(end: MoveEnd) -> FollowUp:
    """Return the data of the record that follows up an eviction."""
    replacement = (
        Replacement(name=end.replacement, node=end.node, uid=end.replacement_uid)
        if end.replacement_uid
        else None
    )
    return FollowUp(
        result=end.result,
        finding_holds=end.finding_holds,
        message=shown(end.message),
        ready_ms=_milliseconds(end.ready_s),
        replacement=replacement,
        scheduled_ms=_milliseconds(end.scheduled_s),
    )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def outcome_event_type(outcome: Outcome) -> str:
    """Return the type of the event with this outcome."""
    return _OUTCOME_TYPES.get(outcome.result, EVICTION_REFUSED)
