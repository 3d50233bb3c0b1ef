"""Holds the controller's journal against the API server's audit log: two books, one truth."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from reactive_desched.api.event import DRY_RUN, EVICTION_REQUESTED, OUTCOMES, Who
from reactive_desched.journal.reading import read
from reactive_desched.model.outcomes import (
    BUDGET_REFUSED,
    DENIED,
    EVICTED,
    FAILED,
    GONE,
    OVERLOADED,
    REPLACED,
    UNKNOWN,
)
from tests.support.audit_log import HTTP_FORBIDDEN, AuditedRequest, AuditLog

_RESULTS = {200: EVICTED, 201: EVICTED, 404: GONE, 409: REPLACED, 500: FAILED, 503: OVERLOADED}
_HTTP_TOO_MANY = 429


@dataclass(frozen=True, order=True)
class Eviction:
    """One request to evict a pod and how it ended, in the journal's words."""

    namespace: str
    pod: str
    uid: str | None
    result: str


@dataclass(frozen=True)
class Referee:
    """What one user did since a moment, as the server saw it and as the journal tells it."""

    audit: AuditLog
    user: str
    since: int

    def audited(self) -> list[Eviction]:
        """Return the evictions the server answered, oldest first."""
        return [_as_eviction(each) for each in self.audit.evictions(self.user, self.since)]

    def evicted(self) -> list[Eviction]:
        """Return the evictions the server agreed to, oldest first."""
        return [each for each in self.audited() if each.result == EVICTED]

    def asked_at(self, uid: str) -> datetime | None:
        """Return when the server had answered the first eviction request for a pod."""
        requests = self.audit.evictions(self.user, self.since)
        moments = (datetime.fromisoformat(each.at) for each in requests if each.uid == uid)
        return next(moments, None)

    def never_allowed(self) -> set[tuple[str, str]]:
        """Return the verbs and resources that were asked for, and refused each time for rights.

        A server that is just starting refuses what it allows a moment later: that is no missing
        right.
        """
        asked = self.audit.requests(self.user, self.since)
        allowed = {(each.verb, each.resource) for each in asked if each.code != HTTP_FORBIDDEN}
        return {(each.verb, each.resource) for each in asked} - allowed


def journalled(folder: Path) -> list[Eviction]:
    """Return the evictions that were tried and have ended, in the order they ended."""
    return [
        _of(event.data.who, event.data.outcome.result)
        for event in read(folder)
        if event.type in OUTCOMES and event.data.mode != DRY_RUN
    ]


def _of(who: Who, result: str) -> Eviction:
    return Eviction(who.namespace, who.name, who.uid, result)


def disagreements(audited: list[Eviction], told: list[Eviction]) -> list[Eviction]:
    """Return the evictions that only one of the two books has.

    One whose answer was lost is `unknown` in ours, and may or may not stand in the server's.
    """
    ours = Counter(each for each in told if each.result == EVICTED)
    theirs = Counter(audited)
    unsure = Counter(replace(each, result=EVICTED) for each in told if each.result == UNKNOWN)
    return [*(ours - theirs).elements(), *(theirs - ours - unsure).elements()]


def rehearsed(folder: Path) -> set[str]:
    """Return the uids of the pods that a dry run would have asked to evict."""
    requests = (event.data for event in read(folder) if event.type == EVICTION_REQUESTED)
    return {data.who.uid for data in requests if data.mode == DRY_RUN}


def intents_without_exactly_one_outcome(folder: Path) -> list[str]:
    """Return the ids that break the journal's promise: every intent ends, and ends once."""
    events = list(read(folder))
    begun = [event.id for event in events if event.type == EVICTION_REQUESTED]
    ends = Counter(event.causationid for event in events if event.type in OUTCOMES)
    return [key for key in {*begun, *ends} if begun.count(key) != 1 or ends[key] != 1]


def _as_eviction(request: AuditedRequest) -> Eviction:
    if request.code == _HTTP_TOO_MANY:
        budget = "disruption budget" in request.message
        result = BUDGET_REFUSED if budget else OVERLOADED
    else:
        result = _RESULTS.get(request.code, DENIED)
    return Eviction(request.namespace, request.name, request.uid, result)
