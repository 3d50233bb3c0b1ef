"""Holds the controller's journal against the API server's audit log."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from reactive_desched.api.event import EVICTION_OUTCOME_TYPES, EVICTION_REQUESTED, MODE_DRY_RUN, Who
from reactive_desched.journal.events import read_events
from reactive_desched.model.evictors.eviction import CASE_ANNOTATION
from reactive_desched.model.outcomes import (
    CANCELLED,
    CONFLICT,
    DENIED,
    EVICTED,
    FAILED,
    NOT_FOUND,
    PDB_REFUSED,
    TOO_MANY_REQUESTS,
    UNKNOWN,
)
from tests.support.audit_log import HTTP_FORBIDDEN, AuditedRequest, AuditLog

_RESULTS = {
    200: EVICTED,
    201: EVICTED,
    404: NOT_FOUND,
    409: CONFLICT,
    500: FAILED,
    503: TOO_MANY_REQUESTS,
}
_HTTP_TOO_MANY = 429
_REPLICASET_CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"


@dataclass(frozen=True, order=True)
class AuditedEviction:
    """One request to evict a pod and how it ended, in the journal's words."""

    namespace: str
    pod: str
    uid: str | None
    result: str


@dataclass(frozen=True)
class AuditCrosscheck:
    """What one user did since a moment, as the server saw it and as the journal tells it."""

    audit: AuditLog
    user: str
    since: int

    def audited(self) -> list[AuditedEviction]:
        """Return the evictions the server answered, oldest first."""
        return [_as_eviction(each) for each in self._evictions()]

    def evicted(self) -> list[AuditedEviction]:
        """Return the evictions the server agreed to, oldest first."""
        return [each for each in self.audited() if each.result == EVICTED]

    def first_answered_at(self, uid: str) -> datetime | None:
        """Return when the server had answered the first eviction request for a pod."""
        requests = self.audit.evictions(self.user, self.since)
        moments = (datetime.fromisoformat(each.at) for each in requests if each.uid == uid)
        return next(moments, None)

    def deleted_as_surplus(self, namespace: str) -> set[str]:
        """Return the names of the pods that the ReplicaSet controller deleted in a namespace.

        It creates a pod again when the answer to its request was lost, and deletes the pod that
        is one too many: any of its pods, one that is due for eviction before others.
        """
        asked = self.audit.requests(_REPLICASET_CONTROLLER, self.since)
        deletions = (each for each in asked if (each.verb, each.resource) == ("delete", "pods"))
        return {each.name for each in deletions if each.namespace == namespace}

    def evicted_at(self) -> dict[str, float]:
        """Return when the server agreed to evict each pod, by uid, in seconds since the epoch.

        Fails where it agreed twice.
        """
        agreed = [each for each in self._evictions() if _as_eviction(each).result == EVICTED]
        uids = [str(each.uid) for each in agreed]
        assert len(uids) == len({*uids}), f"evicted twice: {Counter(uids) - Counter({*uids})}"
        return dict(zip(uids, (_time_of(each) for each in agreed), strict=True))

    def asked_at(self, uid: str) -> list[float]:
        """Return when the server had answered each eviction request for a pod, oldest first."""
        return sorted(_time_of(each) for each in self._evictions() if each.uid == uid)

    def cases(self) -> dict[str, str]:
        """Return the pod's uid of each case that an eviction request names."""
        return {each.annotations[CASE_ANNOTATION]: str(each.uid) for each in self._evictions()}

    def _evictions(self) -> list[AuditedRequest]:
        return self.audit.evictions(self.user, self.since)

    def always_forbidden(self, ready_since: int) -> set[tuple[str, str]]:
        """Return the verbs and resources that were asked for, and refused each time for rights.

        A server that is just starting refuses what it allows a moment later, or allowed the same
        user before: that is no missing right. So only what was asked since it was last ready
        counts, from this byte of the log on.
        """
        ever = self.audit.requests(self.user)
        allowed = {(each.verb, each.resource) for each in ever if each.code != HTTP_FORBIDDEN}
        asked = self.audit.requests(self.user, max(self.since, ready_since))
        return {(each.verb, each.resource) for each in asked} - allowed


def journalled_evictions(folder: Path) -> list[AuditedEviction]:
    """Return the evictions that were requested and have ended, in the order they ended.

    One that was cancelled was not: its journal was slow for a moment, as on a busy machine.
    """
    return [
        _eviction(event.data.who, event.data.outcome.result)
        for event in read_events(folder)
        if event.type in EVICTION_OUTCOME_TYPES
        and event.data.mode != MODE_DRY_RUN
        and event.data.outcome.result != CANCELLED
    ]


def journalled_cases(folder: Path) -> dict[str, str]:
    """Return the pod's uid of each case with an eviction that was requested."""
    return {
        event.correlationid: event.data.who.uid
        for event in read_events(folder)
        if event.type == EVICTION_REQUESTED
    }


def _eviction(who: Who, result: str) -> AuditedEviction:
    return AuditedEviction(who.namespace, who.name, who.uid, result)


def disagreements(
    audited: list[AuditedEviction], journalled: list[AuditedEviction]
) -> list[AuditedEviction]:
    """Return the evictions that only one of the two books has.

    One whose answer was lost is UNKNOWN in ours, and may or may not stand in the server's.
    """
    in_journal = Counter(each for each in journalled if each.result == EVICTED)
    theirs = Counter(audited)
    unsure = Counter(replace(each, result=EVICTED) for each in journalled if each.result == UNKNOWN)
    return [*(in_journal - theirs).elements(), *(theirs - in_journal - unsure).elements()]


def dry_run_uids(folder: Path) -> set[str]:
    """Return the uids of the pods that a dry run would have asked to evict."""
    requests = (event.data for event in read_events(folder) if event.type == EVICTION_REQUESTED)
    return {data.who.uid for data in requests if data.mode == MODE_DRY_RUN}


def unpaired_intents(folder: Path) -> list[str]:
    """Return the ids that break the journal's promise: every intent ends, and ends once."""
    events = list(read_events(folder))
    begun = [event.id for event in events if event.type == EVICTION_REQUESTED]
    ends = Counter(event.causationid for event in events if event.type in EVICTION_OUTCOME_TYPES)
    return [key for key in {*begun, *ends} if begun.count(key) != 1 or ends[key] != 1]


def above_rate(times: Iterable[float], per_minute: float, burst: int) -> list[str]:
    """Return the windows with more evictions than a rate gives; `times` are in seconds.

    A window may have one more, as the server's times are not quite the controller's.
    """
    in_order = sorted(times)
    return [
        f"{count} within {later - earlier:.1f} s"
        for start, earlier in enumerate(in_order)
        for count, later in enumerate(in_order[start:], 1)
        if count > burst + per_minute / 60 * (later - earlier) + 1
    ]


def most_within(times: Iterable[float], window_s: float) -> int:
    """Return the most of these times, in seconds, that a window of this length holds."""
    in_order = sorted(times)
    return max(
        (sum(start <= at <= start + window_s for at in in_order) for start in in_order), default=0
    )


def _time_of(request: AuditedRequest) -> float:
    return datetime.fromisoformat(request.at).timestamp()


def _as_eviction(request: AuditedRequest) -> AuditedEviction:
    if request.code == _HTTP_TOO_MANY:
        budget = "disruption budget" in request.message
        result = PDB_REFUSED if budget else TOO_MANY_REQUESTS
    else:
        result = _RESULTS.get(request.code, DENIED)
    return AuditedEviction(request.namespace, request.name, request.uid, result)
