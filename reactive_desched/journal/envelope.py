"""Gives every event its envelope: the attributes that all events have, and the case it belongs to.

A case is one pod under one plugin, from the finding to its end. Where a finding has a migration job
made, the job's own finding, its eviction and what came of that belong to the same case.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from reactive_desched.api.event import DATA_TYPES, Event, dataschema
from reactive_desched.journal.records import AnyEvent
from reactive_desched.model.evaluation import DecisionContext
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE

_SCHEMAS: Final[Mapping[str, str]] = {type_: dataschema(type_) for type_ in DATA_TYPES}
_ID_CHARACTERS: Final = 26


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
    """Return a W3C traceparent: the case is the trace, the event its span; none is sampled."""
    span = hashlib.sha256(id_.encode()).hexdigest()[:16]
    return f"00-{_trace_id(correlation_id)}-{span}-00"


@lru_cache(maxsize=1024)
def _trace_id(correlation_id: str) -> str:
    """Return the id of a case's trace; a case has several events within milliseconds."""
    return hashlib.sha256(correlation_id.encode()).hexdigest()[:32]


MAX_PODS: Final = 20_000
"""The cases of so many pods are remembered, in 9 MB; of those of a pod that was forgotten, what
follows begins others, with a finding each."""


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
        return f"{self.id}.finding"

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
