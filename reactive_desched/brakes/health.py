"""Holds evictions while the service suffers, by the answers to the checks in the settings.

Each check is a brake of its own, `health/` and its name. It asks nothing itself: answers come in by
`take`, as they would from a recording, and count from then on. Who asks says that an answer is
unknown once it is too old. A check by our own moves needs no answer: it counts those that end.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Final

from reactive_desched.brakes.judged_moves import CountedMove, JudgedMoves
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.brakes import CLUSTER, BrakeLifted, BrakeNotice, BrakeState, WakeOnBrake
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.health import HELD_KEYS, HealthAnswer, Symptom
from reactive_desched.model.moves import FAILED_RESULTS, NOT_REPLACED, MoveEnd
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.policy.settings.health import HealthCheckSettings
from reactive_desched.primitives.timers import earliest
from reactive_desched.text.ages import format_age
from reactive_desched.text.causes import NO_ANSWER_YET

SERVICE_SUFFERS: Final = GateReason(
    "HealthBrake",
    "ServiceSuffers",
    "A health check says that the service suffers: what it holds waits until the service is well.",
    "brakes.health",
)
HEALTH_UNKNOWN: Final = GateReason(
    "HealthBrake",
    "ServiceHealthUnknown",
    "A health check has no answer, and `onUnknown: hold` lets nothing be evicted without one.",
    "brakes.health",
)

FIRST_ANSWER_S: Final = 10.0
"""That a check was never answered is not recorded for so long after a start; it holds meanwhile."""

_NAMED: Final = 3
_EVERYTHING: Final = ""
"""The key of what holds the whole cluster."""


class _Held:
    """A scope that a check holds, or may hold soon; times are monotonic seconds."""

    __slots__ = ("due_at", "first", "is_engaged", "latest", "since", "well_since")

    def __init__(self, text: str, since: float, due_at: float) -> None:
        self.first = self.latest = text
        self.since, self.due_at = since, due_at
        self.is_engaged = False
        self.well_since: float | None = None


class HealthCheck:
    """One check: what it was answered, and what it holds for that; times are monotonic seconds."""

    def __init__(self, settings: HealthCheckSettings, now: float) -> None:
        self.settings = settings
        self._moves = None if settings.moves is None else JudgedMoves(settings.moves)
        self.answer = HealthAnswer(settings.name, problem="" if self._moves else NO_ANSWER_YET)
        self._unknown_since = now
        self._keys: dict[str, _Held] = {}
        self._holding: dict[str, None] = {}
        self._recorded: dict[str, None] = {}

    # --- what comes in ---

    def reconfigure(self, settings: HealthCheckSettings) -> None:
        """Apply other settings to the same question."""
        if settings.held_by_label != self.settings.held_by_label:
            self._keys.clear()
        self.settings = settings

    def take(self, answer: HealthAnswer, now: float) -> None:
        """Let an answer count from now on.

        What suffers by the first answer after none counts at once: since when is not known.
        """
        was_unknown, self.answer = bool(self.answer.problem), answer
        if answer.problem:
            if not was_unknown:
                self._unknown_since = now
            return
        found = self._by_key(answer)
        due_at = now if was_unknown else now + self.settings.for_s
        for key, text in found.items():
            held = self._keys.get(key)
            if held is None:
                self._keys[key] = _Held(text, now, due_at)
            else:
                held.latest, held.well_since = text, None
        for key in [key for key in self._keys if key not in found]:
            held = self._keys[key]
            if not held.is_engaged:
                del self._keys[key]
            elif held.well_since is None:
                held.well_since = now

    def count_move(self, of: Eviction, move: CountedMove, now: float) -> bool:
        """Count a move, by which the service may suffer from then on; say whether it does.

        While something is held nothing moves that could show that the service is well again. So it
        counts as well at once, and what is held is released `releaseAfter` later.
        """
        if self._moves is None:
            return False
        settings = self.settings
        key = _key_of(settings.holds, of.origin.owner.namespace, of.profile, of.origin.plugin)
        text = self._moves.count(key, move)
        if not text or now >= move.at + settings.release_after_s:
            return False
        if key not in self._keys and len(self._keys) >= HELD_KEYS:
            key = _EVERYTHING
        held = self._keys.setdefault(key, _Held(text, move.at, move.at))
        held.latest, held.well_since = text, move.at
        return True

    def _by_key(self, answer: HealthAnswer) -> Mapping[str, str]:
        """Return the symptoms of each key as a text; of too many keys there is one for all."""
        label = self.settings.held_by_label
        found: dict[str, list[Symptom]] = {}
        for each in answer.symptoms:
            found.setdefault(each.labels.get(label, _EVERYTHING), []).append(each)
        if label and (len(found) > HELD_KEYS or answer.more):
            count = len(answer.symptoms) + answer.more
            return {_EVERYTHING: f"{count:,} samples, more than are held by {label}"}
        texts = {key: _say(each, answer.more) for key, each in found.items()}
        if label and _EVERYTHING in texts:
            texts[_EVERYTHING] += f", which has no label {label}"
        return texts

    # --- what it does ---

    def update(self, now: float) -> Iterator[tuple[BrakeNotice | None, Change | None]]:
        """Yield what engaged and what was released, for records, and the wakes of what waited."""
        settings, is_unknown = self.settings, bool(self.answer.problem)
        for key, held in list(self._keys.items()):
            if is_unknown and settings.on_unknown == "hold":
                continue  # it stays as it is
            well_since = held.well_since
            is_well = well_since is not None and now >= well_since + settings.release_after_s
            if is_unknown or (held.is_engaged and is_well):
                del self._keys[key]
            elif now >= held.due_at:
                held.is_engaged = True
        holding = dict.fromkeys(key for key, held in self._keys.items() if held.is_engaged)
        if self._holds_unknown:
            holding[_EVERYTHING] = None
        for key in self._holding.keys() - holding.keys():
            yield None, BrakeLifted(settings.brake, self._scope(key))
        self._holding = holding
        is_recorded_now = not self._is_first or now >= self._unknown_since + FIRST_ANSWER_S
        for key in holding.keys() - self._recorded.keys() if is_recorded_now else ():
            yield self._notice(key, engaged=True, message=self._message(key)), None
            self._recorded[key] = None
        for key in self._recorded.keys() - holding.keys():
            yield self._notice(key, engaged=False, message=self._release_message()), None
            del self._recorded[key]

    def switched_off(self) -> Iterator[tuple[BrakeNotice | None, Change | None]]:
        """Yield the release of all that is held: the check is none any more."""
        for key in self._holding:
            yield None, BrakeLifted(self.settings.brake, self._scope(key))
        for key in self._recorded:
            message = "the check was changed or taken away"
            yield self._notice(key, engaged=False, message=message), None

    def next_due(self) -> float | None:
        """Return when time alone engages or releases something; None where it does not."""
        if self.answer.problem:
            is_awaited = self._is_first and self._holding.keys() - self._recorded.keys()
            return self._unknown_since + FIRST_ANSWER_S if is_awaited else None
        return earliest(*(self._changes_at(each) for each in self._keys.values()))

    def reason_to_hold(self, namespace: str, profile: str, plugin: str) -> tuple[str, str] | None:
        """Return the key under which something is held, and why; None where nothing is."""
        keys = self._holding
        if not keys:
            return None
        if _EVERYTHING in keys:
            return _EVERYTHING, self._message(_EVERYTHING)
        key = _key_of(self.settings.holds, namespace, profile, plugin)
        return (key, self._message(key)) if key in keys else None

    def wake_of(self, key: str) -> WakeOnBrake:
        """Return what something waits for that is held under a key."""
        return WakeOnBrake(self.settings.brake, self._scope(key))

    @property
    def is_unknown(self) -> bool:
        """Say whether there is no answer."""
        return bool(self.answer.problem)

    @property
    def message(self) -> str:
        """Say what is held, and why, as of the last answer; empty where nothing is."""
        if not self._holding:
            return ""
        if self._holds_unknown:
            return self._message(_EVERYTHING)
        keys = [self._keys[key] for key in self._holding]
        return f"the service suffers: {_first_of([each.latest for each in keys])}"

    def state(self, now: float, wall_now: float) -> BrakeState | None:
        """Return what is held now, since when, and what ends it; None where nothing is."""
        if not self._holding:
            return None
        scope = CLUSTER
        if _EVERYTHING not in self._holding:
            scope = _first_of([self._scope(key) for key in sorted(self._holding)])
        begins = [self._keys[key].since for key in self._holding if key in self._keys]
        since = min(begins, default=inf)
        if self._holds_unknown:
            since = min(since, self._unknown_since)
            release, until = "by itself, once it is answered that the service is well", None
        else:
            after = format_age(self.settings.release_after_s)
            release, until = f"by itself, once it is well for {after}", self._all_well_at()
            if self._moves is not None:
                release = f"by itself {after} after the last of these moves; then moves are judged"
                release += " anew"
        wall_offset_s = wall_now - now
        until_s = None if until is None else until + wall_offset_s
        return BrakeState(
            self.settings.brake,
            scope,
            self.message,
            since + wall_offset_s,
            release,
            until_s,
            is_least=True,
        )

    # --- inside ---

    @property
    def _holds_unknown(self) -> bool:
        return bool(self.answer.problem) and self.settings.on_unknown == "hold"

    @property
    def _is_first(self) -> bool:
        """Say whether it was never answered."""
        return self.answer.problem == NO_ANSWER_YET

    def _changes_at(self, held: _Held) -> float | None:
        if not held.is_engaged:
            return held.due_at
        return None if held.well_since is None else held.well_since + self.settings.release_after_s

    def _all_well_at(self) -> float | None:
        """Return when all that is held is released if nothing suffers any more."""
        ends = [self._changes_at(self._keys[key]) for key in self._holding]
        known = [each for each in ends if each is not None]
        return max(known) if len(known) == len(ends) else None

    def _scope(self, key: str) -> str:
        return f"{self.settings.holds} {key}" if key else CLUSTER

    def _message(self, key: str) -> str:
        """Say why something is held under a key, in words that stay true."""
        held = self._keys.get(key)
        if held is None or (key == _EVERYTHING and self._holds_unknown):
            return f"whether the service suffers is not known: {self.answer.problem}"
        message = f"the service suffers: {held.first}"
        if self._moves is None:
            return message
        after = format_age(self.settings.release_after_s)
        return f"{message}; it ends by itself {after} after that, and moves are judged anew"

    def _release_message(self) -> str:
        if self.answer.problem:
            return f"there is no answer, which is ignored: {self.answer.problem}"
        return "the service is well" if self._moves is None else "its time is over"

    def _notice(self, key: str, *, engaged: bool, message: str) -> BrakeNotice:
        return BrakeNotice(self.settings.brake, self._scope(key), engaged, message)


class HealthBrake(EvictionParticipant):
    """The checks of the settings, none before `reconfigure`; times are monotonic seconds.

    `has_changed` says that a move made the service suffer since the last `update`.
    """

    name = SERVICE_SUFFERS.gate

    def __init__(self) -> None:
        self.checks: dict[str, HealthCheck] = {}
        self.has_changed = False
        self._gone: list[tuple[BrakeNotice | None, Change | None]] = []

    def reconfigure(self, settings: Iterable[HealthCheckSettings], now: float) -> None:
        """Apply other checks; one that asks the same keeps its answer, and what it holds."""
        before, self.checks = self.checks, {}
        for each in settings:
            known = before.get(each.name)
            if known is not None and known.settings.asks == each.asks:
                known.reconfigure(each)
                self.checks[each.name] = before.pop(each.name)
            else:
                self.checks[each.name] = HealthCheck(each, now)
        self._gone.extend(leaving for each in before.values() for leaving in each.switched_off())

    def take(self, answer: HealthAnswer, now: float) -> None:
        """Let an answer count from now on; one to a check that is no more changes nothing."""
        if (check := self.checks.get(answer.check)) is not None:
            check.take(answer, now)

    @property
    def answers(self) -> tuple[HealthAnswer, ...]:
        """Return the answer to each check that asks a server."""
        asked = (each for each in self.checks.values() if each.settings.asks_a_server)
        return tuple(each.answer for each in asked)

    def answer_to(self, name: str) -> HealthAnswer:
        """Return the answer to a check that counts now."""
        check = self.checks.get(name)
        return HealthAnswer(name, problem=NO_ANSWER_YET) if check is None else check.answer

    def followed_up(self, eviction: Eviction, end: MoveEnd) -> None:
        """Count a move that has ended; a pod that was to have no replacement shows nothing."""
        is_lost = end.result == NOT_REPLACED and not end.is_expected
        if end.ready_s is not None or end.result in FAILED_RESULTS or is_lost:
            at = eviction.followed_up_at
            assert at is not None
            self._count(eviction, CountedMove(at, end.ready_s), at)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Count a move that ended in an earlier process; what it held goes on until its time."""
        end = None if eviction.past is None else eviction.past.follow_up
        if end is not None and (end.ready_s is not None or end.result in FAILED_RESULTS):
            at = min(now, eviction.decided_at + end.ended_s - eviction.decided_s)
            self._count(eviction, CountedMove(at, end.ready_s), now)

    def _count(self, of: Eviction, move: CountedMove, now: float) -> None:
        for check in self.checks.values():
            self.has_changed |= check.count_move(of, move, now)

    def filter_of(self, profile: str) -> "HealthFilter":
        """Return the gate's step for the findings of a profile."""
        return HealthFilter(self, profile)

    def update(self, now: float) -> Iterator[tuple[BrakeNotice | None, Change | None]]:
        """Yield what engaged and what was released, for records, and the wakes of what waited."""
        self.has_changed = False
        gone, self._gone = self._gone, []
        yield from gone
        for each in self.checks.values():
            yield from each.update(now)

    def next_due(self) -> float | None:
        """Return when time alone engages or releases something; None where it does not."""
        return earliest(*(each.next_due() for each in self.checks.values()))

    def held_by(self, finding: Finding, profile: str) -> tuple[HealthCheck, str, str] | None:
        """Return the first check that holds a finding, under which key, and why."""
        for check in self.checks.values():
            held = check.reason_to_hold(finding.pod.namespace, profile, finding.plugin)
            if held is not None:
                return check, *held
        return None

    def reason_to_keep(self, finding: Finding, profile: str) -> str:
        """Return why a decided eviction must not be sent after all; empty where it may be."""
        held = self.held_by(finding, profile)
        return "" if held is None else _of_check(held[0], held[2])

    def messages(self) -> dict[str, str]:
        """Return why each check holds evictions, by its brake's name; empty where it does not."""
        return {each.settings.brake: each.message for each in self.checks.values()}


class HealthFilter:
    """A gate filter: refuses what a check holds of one profile's findings."""

    name = SERVICE_SUFFERS.gate

    def __init__(self, brake: HealthBrake, profile: str) -> None:
        self._brake = brake
        self._profile = profile

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse a finding that some check holds."""
        if (found := self._brake.held_by(finding, self._profile)) is None:
            return None
        check, key, message = found
        reason = HEALTH_UNKNOWN if check.is_unknown else SERVICE_SUFFERS
        wakes = (check.wake_of(key), WakeOnPod(finding.pod.uid))
        spent = CLUSTER if not key else "namespace" if check.settings.holds == "namespace" else ""
        return reason.refuse(finding, _of_check(check, message), wakes, scope_exhausted=spent)


def _key_of(holds: str, namespace: str, profile: str, plugin: str) -> str:
    """Return the name under which something is held."""
    names = {"namespace": namespace, "profile": profile, "plugin": plugin}
    return names.get(holds, _EVERYTHING)


def _of_check(check: HealthCheck, message: str) -> str:
    return f"health check {check.settings.name}: {message}"


def _say(symptoms: list[Symptom], more: int) -> str:
    count = len(symptoms) + more
    return _first_of([str(each) for each in symptoms], count)


def _first_of(texts: list[str], count: int = 0) -> str:
    """Return the first few texts, and how many more there are."""
    named, count = texts[:_NAMED], count or len(texts)
    rest = f" and {count - len(named):,} more" if count > len(named) else ""
    return f"{', '.join(named)}{rest}"
