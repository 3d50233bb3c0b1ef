"""What waits, on what, since when and until when: the answer behind `reactive-desched pending`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nsmallest
from typing import Final

from msgspec import Struct

from reactive_desched.controller.flapping import FlappingObject
from reactive_desched.errors import ConfigError
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.triggers import Trigger
from reactive_desched.model.wakes import WakeOn, awaited
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.moments import utc_time

MAX_LISTED: Final = 500
"""Findings listed in one answer, those that wait longest first; the others are only counted."""


class PendingFinding(Struct, frozen=True, gc=False):
    """A finding that a gate blocks; `since` and `until` are monotonic seconds."""

    profile: str
    decision: Defer | Refuse
    waits_for: tuple[WakeOn, ...]
    since: float
    until: float | None
    trigger: Trigger


class PendingRow(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One finding that waits, as `/debug/pending` lists it; another `setting` would let it pass."""

    namespace: str
    pod: str
    node: str
    profile: str
    plugin: str
    finding: str
    gate: str
    reason: str
    message: str
    since: datetime
    waits_for: tuple[str, ...]
    trigger: str
    setting: str = ""
    until: datetime | None = None


class PendingList(Struct, frozen=True, rename="camel"):
    """What waits: `total` findings, counted by gate, and the longest waiting of them.

    `pause` is why nothing at all is evaluated now; empty when the controller works. `subjects` is
    how many subjects wait for quiet (debounce) or for their turn. What depends on one of
    `flapping` waits longer.
    """

    pause: str
    subjects: int
    flapping: tuple[FlappingObject, ...]
    total: int
    by_gate: Mapping[str, int]
    findings: tuple[PendingRow, ...]


class PendingReason(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The findings that one gate blocks for one reason, and an example: the longest waiting.

    `nextUntil` is when the first of them is evaluated again at the latest, `setting` the name of
    the setting that blocks the example.
    """

    gate: str
    reason: str
    findings: int
    since: datetime
    example: str
    message: str
    setting: str = ""
    next_until: datetime | None = None


class PendingSummary(Struct, frozen=True, rename="camel"):
    """What waits, counted by gate and reason, the longest waiting first; see PendingList."""

    subjects: int
    flapping: tuple[FlappingObject, ...]
    total: int
    reasons: tuple[PendingReason, ...]


class PendingQuery(Struct, frozen=True):
    """Which findings to list; an empty text takes all."""

    namespace: str = ""
    pod: str = ""
    plugin: str = ""
    gate: str = ""
    reason: str = ""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "PendingQuery":
        """Read the query of a request; raises ConfigError for a name that it does not know."""
        if unknown := sorted(set(query) - set(cls.__struct_fields__)):
            known = ", ".join(cls.__struct_fields__)
            raise ConfigError(f"{quote(unknown[0])} is not a filter; there are {known}")
        return cls(**query)

    def matches(self, finding: PendingFinding) -> bool:
        """Say whether a finding is to be listed."""
        decision, pod = finding.decision, finding.decision.finding.pod
        values = pod.namespace, pod.name, decision.finding.plugin, decision.gate, decision.reason
        wanted = self.namespace, self.pod, self.plugin, self.gate, self.reason
        return all(not want or want == value for want, value in zip(wanted, values, strict=True))


def list_pending(
    findings: Iterable[PendingFinding],
    query: PendingQuery,
    *,
    pause: str,
    subjects: int,
    flapping: tuple[FlappingObject, ...],
    now: float,
    wall_now: float,
) -> PendingList:
    """Return the findings that match, longest waiting first.

    `now` is monotonic seconds and `wall_now` the time of day at the same moment.
    """
    matching = [finding for finding in findings if query.matches(finding)]
    by_gate: dict[str, int] = {}
    for finding in matching:
        by_gate[finding.decision.gate] = by_gate.get(finding.decision.gate, 0) + 1
    longest = nsmallest(MAX_LISTED, matching, key=lambda finding: finding.since)
    rows = tuple(_rows(longest, wall_now - now))
    return PendingList(pause, subjects, flapping, len(matching), by_gate, rows)


def summarize_pending(
    findings: Iterable[PendingFinding],
    *,
    subjects: int,
    flapping: tuple[FlappingObject, ...],
    wall_offset: float,
) -> PendingSummary:
    """Count what waits; `wall_offset` is the time of day less the monotonic clock, in seconds."""
    by_reason: dict[tuple[str, str], list[PendingFinding]] = {}
    for finding in findings:
        decision = finding.decision
        by_reason.setdefault((decision.gate, decision.reason), []).append(finding)
    reasons = [_pending_reason(each, wall_offset) for each in by_reason.values()]
    reasons.sort(key=lambda each: each.since)
    total = sum(each.findings for each in reasons)
    return PendingSummary(subjects, flapping, total, tuple(reasons))


def _pending_reason(findings: Sequence[PendingFinding], wall_offset: float) -> PendingReason:
    longest = min(findings, key=lambda finding: finding.since)
    times = [finding.until for finding in findings if finding.until is not None]
    decision = longest.decision
    return PendingReason(
        decision.gate,
        decision.reason,
        len(findings),
        utc_time(longest.since + wall_offset),
        str(decision.finding.pod),
        decision.message,
        decision.setting,
        utc_time(min(times) + wall_offset) if times else None,
    )


def _rows(findings: Iterable[PendingFinding], wall_offset: float) -> Iterator[PendingRow]:
    for finding in findings:
        decision, pod = finding.decision, finding.decision.finding.pod
        yield PendingRow(
            pod.namespace,
            pod.name,
            pod.node,
            finding.profile,
            decision.finding.plugin,
            decision.finding.message,
            decision.gate,
            decision.reason,
            decision.message,
            utc_time(finding.since + wall_offset),
            awaited(finding.waits_for, pod.uid),
            str(finding.trigger),
            decision.setting,
            None if finding.until is None else utc_time(finding.until + wall_offset),
        )
