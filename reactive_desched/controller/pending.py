"""What waits, on what, since when and until when: the answer behind `reactive-desched pending`."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from heapq import nsmallest
from typing import Final

from msgspec import Struct

from reactive_desched.controller.flapping import FlappingObject
from reactive_desched.errors import ConfigError
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.triggers import Trigger
from reactive_desched.model.wakes import WakeOn
from reactive_desched.primitives.hints import quote

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
    """One finding that waits, as `/debug/pending` lists it."""

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
            _time_of_day(finding.since + wall_offset),
            tuple(dict.fromkeys(wake.description for wake in finding.waits_for)),
            str(finding.trigger),
            None if finding.until is None else _time_of_day(finding.until + wall_offset),
        )


def _time_of_day(seconds: float) -> datetime:
    return datetime.fromtimestamp(round(seconds, 3), UTC)
