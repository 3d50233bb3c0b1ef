"""Lists the findings that wait, since when, until when and for what: `reactive-desched pending`."""

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import islice
from math import inf
from typing import Final

from msgspec import Struct

from reactive_desched.controller.work_queue import FlappingObject
from reactive_desched.errors import ConfigError
from reactive_desched.gate.turns import Turn
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.evaluation import Trigger
from reactive_desched.model.modes import ACT, Mode
from reactive_desched.model.wakes import WakeOn, awaited
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.long_answers import emptied, lazily_sorted
from reactive_desched.primitives.timers import earliest

MAX_LISTED: Final = 500
"""Findings listed in one answer, those that wait longest first; the others are only counted."""


PODS_PER_SLICE: Final = 64
"""So many findings are counted or listed before the event loop may have its turn."""


class PodProgress(StrEnum):
    """Names what becomes of a pod that is drained, or that an evaluation found, in order."""

    WAITS = "waits"
    EVICTING = "evicting"
    LEAVES = "leaves"
    STAYS = "stays"
    DRY_RUN = "dry_run"
    LEFT_OUT = "left_out"
    NOT_FOUND = "not_found"
    ENDED = "ended"


class PendingFinding(Struct, frozen=True, gc=False):
    """A finding that a gate blocks; `since` and `until` are monotonic seconds.

    `until` is when it is evaluated again at the latest, or when what blocks it ends; where it
    `is_least` something holds all evictions, and it is not before then. `turn` is that of one that
    waits for a rate limit. `mode` says what is done with it once no gate blocks it.
    """

    profile: str
    decision: Defer | Refuse
    waits_for: tuple[WakeOn, ...]
    since: float
    until: float | None
    trigger: Trigger
    turn: Turn | None = None
    is_least: bool = False
    mode: Mode = ACT

    def message(self, now: float) -> str:
        """Say why it waits, and of one in a queue its place and when its turn is, as of now."""
        return self.decision.says(now) if self.turn is None else self.turn.message(now)

    @property
    def pod_state(self) -> PodProgress:
        """The state of its pod: it leaves all the same, stays for good, or waits."""
        if self.decision.pod_leaves:
            return PodProgress.LEAVES
        return PodProgress.STAYS if self.decision.keeps else PodProgress.WAITS

    @property
    def setting(self) -> str:
        """The setting that would let it pass; empty where none would."""
        return self.decision.setting if self.turn is None else f"budgets.{self.turn.scope}"


class TurnRow(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A place in the queue of a rate limit: that of `place` of the `of` pods that wait for it.

    `at` is when its turn is, if the limits alone decide; with `isLeast` something else holds
    evictions besides, and it is then at the earliest.
    """

    scope: str
    name: str
    place: int
    of: int
    at: datetime
    seconds: float
    per_minute: float
    is_least: bool = False


class PendingRow(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One finding that waits, as `/debug/pending` lists it; another `setting` would let it pass.

    `until` is when it is evaluated again at the latest, or when what blocks it ends; with `isLeast`
    something holds all evictions, and it is not before then. `keeps` says that no eviction is
    waited for: the pod stays until a person changes something. `mode` is left out where it is act.
    """

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
    turn: TurnRow | None = None
    keeps: bool = False
    is_least: bool = False
    mode: str = ACT


class PendingReason(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The findings that one gate blocks for one reason, and an example.

    The example is that of `nextTurn` in the queue of a rate limit, else that of `nextUntil`, else
    the longest waiting; `since` is when the longest wait began. They have the same `setting` that
    would let them pass.
    `nextUntil` is when the first of them is evaluated again at the latest, or when what blocks it
    ends; of those in the queue of a rate limit `nextTurn` is when the first of them is expected to
    leave, and `lastTurn` the last. With `isLeast` these times are the earliest. With `keeps` no
    eviction is waited for, and with `leaves` the pods leave already. They have the same `mode`,
    which is left out where it is act.
    """

    gate: str
    reason: str
    findings: int
    since: datetime
    example: str
    message: str
    setting: str = ""
    next_until: datetime | None = None
    next_turn: datetime | None = None
    last_turn: datetime | None = None
    is_least: bool = False
    keeps: bool = False
    leaves: bool = False
    mode: str = ACT


class PendingSummary(Struct, frozen=True, rename="camel"):
    """Findings that wait, by gate, reason and setting: the most frequent come first.

    Those that keep pods come last. Of `total` findings `kept` are of pods that stay for good, and
    `leaving` of pods that leave already; the others wait. `bySetting` counts those that wait by the
    setting that would let them pass, most first.
    """

    subjects: int
    flapping: tuple[FlappingObject, ...]
    total: int
    kept: int
    leaving: int
    by_setting: Mapping[str, int]
    reasons: tuple[PendingReason, ...]


class PendingList(PendingSummary, frozen=True, rename="camel"):
    """Findings that wait: a summary, counts by gate, and those that have waited longest.

    It is as of `time`. `pause` is why nothing at all is evaluated then, and `hold` why no pod is
    evicted, as a brake may be; both are empty when the controller works. `subjects` is how many
    subjects wait for quiet (debounce) or for their turn. What depends on one of `flapping` waits
    longer.
    """

    pause: str
    hold: str
    by_gate: Mapping[str, int]
    findings: tuple[PendingRow, ...]
    time: datetime


class PendingQuery(Struct, frozen=True):
    """Selects findings that wait; an empty text takes all."""

    namespace: str = ""
    pod: str = ""
    plugin: str = ""
    gate: str = ""
    reason: str = ""
    all: str = ""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "PendingQuery":
        """Read the query of a request; raises ConfigError for a name that it does not know."""
        if unknown := sorted(set(query) - set(cls.__struct_fields__)):
            known = ", ".join(cls.__struct_fields__)
            raise ConfigError(f"{quote(unknown[0])} is not a filter; there are {known}")
        found = cls(**query)
        if found.all not in ("", "true", "false"):
            raise ConfigError(f"all={quote(found.all)}: write true to have every finding listed")
        return found

    @property
    def limit(self) -> int | None:
        """Return how many findings are listed; None for all of them."""
        return None if self.all == "true" else MAX_LISTED

    def matches(self, finding: PendingFinding) -> bool:
        """Say whether a finding is to be listed."""
        decision, pod = finding.decision, finding.decision.finding.pod
        values = pod.namespace, pod.name, decision.finding.plugin, decision.gate, decision.reason
        wanted = self.namespace, self.pod, self.plugin, self.gate, self.reason
        return all(not want or want == value for want, value in zip(wanted, values, strict=True))


class PendingContext(Struct, frozen=True):
    """The subjects that wait, the objects that flap, and why nothing is evicted."""

    subjects: int = 0
    flapping: tuple[FlappingObject, ...] = ()
    pause: str = ""
    hold: str = ""


def list_pending(
    findings: Sequence[PendingFinding],
    query: PendingQuery,
    waiting: PendingContext,
    moment: ClockPair,
) -> Generator[None, None, PendingList]:
    """Return what waits, longest first, in steps."""
    counted = _Counted(moment)
    matching: list[tuple[float, int, PendingFinding]] = []
    for number, finding in enumerate(findings):
        if query.matches(finding):
            matching.append((finding.since, number, finding))
            counted.add(finding)
        if number % PODS_PER_SLICE == 0:
            yield
    rows: list[PendingRow] = []
    for number, (_, _, finding) in enumerate(islice(lazily_sorted(matching), query.limit)):
        rows.append(_row(finding, moment))
        if number % PODS_PER_SLICE == 0:
            yield
    yield from emptied(matching)
    return PendingList(
        waiting.subjects,
        waiting.flapping,
        *counted.result(),
        waiting.pause,
        waiting.hold,
        counted.by_gate,
        tuple(rows),
        moment.time(moment.now),
    )


def summarize_pending(
    findings: Sequence[PendingFinding], waiting: PendingContext, moment: ClockPair
) -> Generator[None, None, PendingSummary]:
    """Return the counts of what waits, in steps."""
    counted = _Counted(moment)
    for number, finding in enumerate(findings):
        counted.add(finding)
        if number % PODS_PER_SLICE == 0:
            yield
    return PendingSummary(waiting.subjects, waiting.flapping, *counted.result())


_GroupKey = tuple[str, str, str, bool, bool, str]


class _Group:
    """The findings of one gate, reason, setting and mode."""

    __slots__ = ("count", "example", "first_turn", "last_turn", "next_until", "since")

    def __init__(self, example: PendingFinding) -> None:
        self.count = 0
        self.example = example
        self.since = example.since
        self.next_until: float | None = None
        self.first_turn: float | None = None
        self.last_turn: float | None = None

    def add(self, finding: PendingFinding) -> None:
        self.count += 1
        if _example_order(finding) < _example_order(self.example):
            self.example = finding
        self.since = min(self.since, finding.since)
        self.next_until = earliest(self.next_until, finding.until)
        if (turn := finding.turn) is not None:
            self.first_turn = earliest(self.first_turn, turn.at)
            self.last_turn = turn.at if self.last_turn is None else max(self.last_turn, turn.at)


def _example_order(finding: PendingFinding) -> tuple[float, float, float]:
    """Order findings by how well one stands for its group: the next, then the longest waiting."""
    turn = inf if finding.turn is None else finding.turn.at
    return turn, inf if finding.until is None else finding.until, finding.since


class _Counted:
    """Findings, counted one by one."""

    def __init__(self, moment: ClockPair) -> None:
        self._moment = moment
        self._groups: dict[_GroupKey, _Group] = {}
        self.by_gate: dict[str, int] = {}

    def add(self, finding: PendingFinding) -> None:
        decision = finding.decision
        self.by_gate[decision.gate] = self.by_gate.get(decision.gate, 0) + 1
        kept, leaves = decision.keeps, decision.pod_leaves
        key = (decision.gate, decision.reason, finding.setting, kept, leaves, finding.mode)
        if (group := self._groups.get(key)) is None:
            group = self._groups[key] = _Group(finding)
        group.add(finding)

    def result(self) -> tuple[int, int, int, dict[str, int], tuple[PendingReason, ...]]:
        """Return the counts and the groups, as a summary has them."""
        kept = leaving = total = 0
        by_setting: dict[str, int] = {}
        for (_, _, setting, keeps, leaves, _), group in self._groups.items():
            total += group.count
            if keeps:
                kept += group.count
            elif leaves:
                leaving += group.count
            elif setting:
                by_setting[setting] = by_setting.get(setting, 0) + group.count
        ordered = sorted(
            self._groups.items(), key=lambda each: (each[0][3], each[0][4], -each[1].count)
        )
        reasons = tuple(self._reason(*each) for each in ordered)
        most_first = dict(sorted(by_setting.items(), key=lambda each: -each[1]))
        return total, kept, leaving, most_first, reasons

    def _reason(self, key: _GroupKey, group: _Group) -> PendingReason:
        gate, reason, setting, keeps, leaves, mode = key
        moment, example = self._moment, group.example
        return PendingReason(
            gate,
            reason,
            group.count,
            moment.time(group.since),
            str(example.decision.finding.pod),
            example.message(moment.now),
            setting,
            None if group.next_until is None else moment.time(group.next_until),
            None if group.first_turn is None else moment.time(group.first_turn),
            None if group.last_turn is None else moment.time(group.last_turn),
            example.is_least if example.turn is None else example.turn.is_least,
            keeps,
            leaves,
            mode,
        )


def _row(finding: PendingFinding, moment: ClockPair) -> PendingRow:
    decision, pod = finding.decision, finding.decision.finding.pod
    return PendingRow(
        pod.namespace,
        pod.name,
        pod.node,
        finding.profile,
        decision.finding.plugin,
        decision.finding.message,
        decision.gate,
        decision.reason,
        finding.message(moment.now),
        moment.time(finding.since),
        awaited(finding.waits_for, pod.uid),
        str(finding.trigger),
        finding.setting,
        None if finding.until is None else moment.time(finding.until),
        None if finding.turn is None else turn_row(finding.turn, moment),
        decision.keeps,
        finding.is_least,
        finding.mode,
    )


def turn_row(turn: Turn, moment: ClockPair) -> TurnRow:
    """Return a turn as answers have it."""
    return TurnRow(
        turn.scope,
        turn.name,
        turn.place,
        turn.of,
        moment.time(turn.at),
        round(max(0.0, turn.at - moment.now), 3),
        turn.rate.per_second * 60,
        turn.is_least,
    )
