"""The figures of a report on a period, in the order in which they are shown."""

from typing import Generic, TypeVar

from msgspec import Struct

from reactive_desched.audit.report.counting import OpenRequest

_Row = TypeVar("_Row")


class Rows(Struct, Generic[_Row], frozen=True, rename="camel"):
    """The first rows of a table, and how many others there are.

    `others_count` sums the count by which the rows are sorted over the others. `pooled` is counted
    together of all names beyond the bound of names, and is not among the others.
    """

    rows: tuple[_Row, ...]
    others: int = 0
    others_count: int = 0
    pooled: _Row | None = None


class GroupRow(Struct, frozen=True, rename="camel"):
    """One plugin, namespace or workload; `last` is the last eviction, empty without any."""

    name: str
    findings: int
    evicted: int
    dry_run: int
    unknown: int
    not_evicted: int
    helped: int
    futile: int
    not_judged: int
    last: str


class HourCount(Struct, frozen=True, rename="camel"):
    """The evictions from a time on, until the next; of the day's hours it is an hour."""

    start: str
    evicted: int
    dry_run: int


class ReasonRow(Struct, frozen=True, rename="camel"):
    """A code with its count: of decisions, or of outcomes."""

    kind: str
    owner: str
    reason: str
    count: int
    setting: str


class LimitRow(Struct, frozen=True, rename="camel"):
    """The findings that one limit deferred or refused; waits are those of pods evicted later."""

    gate: str
    decisions: int
    findings: int
    evicted: int
    median_wait_ms: int | None
    longest_wait_ms: int | None


class BrakeRow(Struct, frozen=True, rename="camel"):
    """A brake; `engagedMs` counts only the times that ended in the period."""

    brake: str
    scope: str
    times: int
    engaged_ms: int
    is_engaged: bool
    by: str
    message: str


class CauseRow(Struct, frozen=True, rename="camel"):
    """A cause, other than the controller, that ended pods, and their number."""

    cause: str
    count: int


class ReadyTimes(Struct, frozen=True, rename="camel"):
    """Milliseconds from the accepted evictions until the replacements were Ready."""

    count: int
    median_ms: int | None
    p90_ms: int | None
    longest_ms: int | None
    by_bound: tuple[tuple[int | None, int], ...]


class MoveCounts(Struct, frozen=True, rename="camel"):
    """The ends of followed moves; `unfollowed` evictions of the period have no such record."""

    results: dict[str, int]
    helped: int
    futile: int
    not_judged: int
    unfollowed: int


class OpenRequests(Struct, frozen=True, rename="camel"):
    """Evictions that were requested in the period and have no outcome in it; the last of them."""

    count: int
    listed: tuple[OpenRequest, ...]


class PolicyRow(Struct, frozen=True, rename="camel"):
    """A policy that came into force."""

    time: str
    revision: str
    mode: str
    source: str
    version: str


class RecordFacts(Struct, frozen=True, rename="camel"):
    """The gaps and faults of the record of a period.

    `aboutPods` are those of the counted that are about a pod, which a choice of pods chooses among.
    `missing` counts the sequences between the first and the last record of the period that are
    damaged or gone, `damagedLines` those of the whole journal, `unreadable` those that went while
    the report was made.
    """

    counted: int
    about_pods: int
    first_sequence: int | None
    last_sequence: int | None
    missing: int
    damaged_lines: int
    unreadable: int
    journal_begins: str
    journal_begins_at: int | None
    journal_ends: str
    unrecorded_decisions: int
    unrecorded_disruptions: int
    corrected: int
    disk_faults: int
    disk_fault_ms: int
    epochs: int
    lost: tuple[tuple[int, int], ...]
    is_at_most: bool


class Totals(Struct, frozen=True, rename="camel"):
    """The sums of the period."""

    findings: int
    decisions: dict[str, int]
    requested: int
    results: dict[str, int]
    evicted: int
    dry_run: int
    unknown: int
    not_evicted: int

    @property
    def is_dry_run(self) -> bool:
        """Say whether pods were evicted in dry runs alone."""
        return bool(self.dry_run) and not self.evicted

    @property
    def moved(self) -> int:
        """Return how many pods were evicted, or would have been."""
        return self.dry_run if self.is_dry_run else self.evicted

    @property
    def blocked(self) -> int:
        """Return how many decisions were not to evict."""
        return self.decisions["defer"] + self.decisions["refuse"]


class PeriodReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything `audit report` shows; times are UTC."""

    cluster: str
    source: str
    since: str
    until: str
    selection: dict[str, list[str]]
    version: str
    totals: Totals
    bar_hours: int
    over_time: tuple[HourCount, ...]
    hours_of_day: tuple[HourCount, ...]
    plugins: Rows[GroupRow]
    namespaces: Rows[GroupRow]
    workloads: Rows[GroupRow]
    ready: ReadyTimes
    moves: MoveCounts
    refusals: Rows[ReasonRow]
    outcomes: Rows[ReasonRow]
    limits: tuple[LimitRow, ...]
    brakes: Rows[BrakeRow]
    disruptions: Rows[CauseRow]
    open_requests: OpenRequests
    policies_loaded: int
    policies: tuple[PolicyRow, ...]
    record: RecordFacts
