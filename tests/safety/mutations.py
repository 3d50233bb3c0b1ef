"""Mutations: each switches off a guard, limit, brake, memory or rule of a restart.

A referee is worth what it finds. `python -m tests.safety --mutation NAME` plays stories with the
program so changed until the referee objects, and `--mutations` lists the names. Leader election
and pods nominated for a node have no part in stories; they have their own tests.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple
from unittest.mock import PropertyMock, patch

import anyio
import anyio.lowlevel
import msgspec

from reactive_desched.app import start_up
from reactive_desched.app.rooms import Rooms
from reactive_desched.brakes.brakes import Brakes
from reactive_desched.brakes.health import HealthBrake
from reactive_desched.brakes.pause import ManualPause
from reactive_desched.brakes.pending import PendingBrake
from reactive_desched.brakes.storm import StormBrake
from reactive_desched.brakes.zones import ZoneBrake
from reactive_desched.controller import outdated_decisions
from reactive_desched.controller.consolidation import SetTaints
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.outdated_decisions import DecisionChecks
from reactive_desched.controller.pauses import SuspendDetector
from reactive_desched.controller.sync import ResourceEventHandler
from reactive_desched.draining import node_emptying
from reactive_desched.eviction import executor as executor_module
from reactive_desched.eviction.executor import EvictionExecutor
from reactive_desched.eviction.recovery import InheritedEvictions
from reactive_desched.fit.tried_moves import TriedMoves
from reactive_desched.gate import guards
from reactive_desched.gate import policy_limits as policy_limits_module
from reactive_desched.gate.evictor import NodeFitFilter
from reactive_desched.gate.gate import Gate
from reactive_desched.gate.in_flight import InFlightEvictions
from reactive_desched.gate.move_sets import MOVE_SET_GATE, TURNS, MoveSets
from reactive_desched.gate.policy_limits import PolicyLimits
from reactive_desched.gate.rate_limits import EvictionRateLimiter
from reactive_desched.gate.schedules import EvictionSchedules
from reactive_desched.journal import history as history_module
from reactive_desched.journal.clocks import Moment
from reactive_desched.ledger import ledger as ledger_module
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.evaluation import EvictionResult
from reactive_desched.model.outcomes import POD_EVICTED
from reactive_desched.model.read_back import outcome_from_lookup
from reactive_desched.moves.limits import MovingLimits
from reactive_desched.moves.memory import MoveMemory
from reactive_desched.moves.node_memory import NodeMemory
from reactive_desched.moves.tracker import MoveTracker
from reactive_desched.policy.settings.guards import GuardName

SCOPES: Final = ("cluster", "zone", "node", "plugin", "namespace", "owner")
MOVING_SCOPES: Final = ("owner", "namespace", "node", "zone", "cluster")
LIMIT_SCOPES: Final = ("cluster", "node", "namespace")
NOT_IN_STORIES: Final = {GuardName.NOMINATED_PODS}


class Patch(NamedTuple):
    """An attribute of the program, and what takes its place."""

    target: Any
    name: str
    replacement: Any


def _nothing(*_: Any, **__: Any) -> None:
    pass


async def _does_nothing(*_: Any) -> None:
    await anyio.lowlevel.checkpoint()


def _no_items(*_: Any, **__: Any) -> Iterator[Any]:
    yield from ()


def _off(target: Any, *names: str) -> list[Patch]:
    return [Patch(target, name, _nothing) for name in names]


def _guard(guard: GuardName) -> list[Patch]:
    changed = tuple(
        msgspec.structs.replace(each, check=_nothing) if each.name == guard else each
        for each in guards.GUARDS
    )
    return [Patch(guards, "GUARDS", changed)]


def _without_rate(scope: str) -> list[Patch]:
    take = EvictionRateLimiter._take_limits

    def take_limits(self: Any, limits: Any) -> None:
        take(self, limits)
        self._limited = [each for each in self._limited if each.name != scope]

    return [Patch(EvictionRateLimiter, "_take_limits", take_limits)]


def _without_limit(scope: str) -> list[Patch]:
    limits_set = policy_limits_module._limits_set

    def without(limits: Mapping[str, int | None]) -> dict[str, int]:
        return {name: limit for name, limit in limits_set(limits).items() if name != scope}

    return [Patch(policy_limits_module, "_limits_set", without)]


def _without_moving_limit(scope: str) -> list[Patch]:
    reconfigure = MovingLimits.reconfigure

    def without(self: Any, settings: Any) -> None:
        reconfigure(self, settings)
        self.limits.pop(scope, None)

    return [Patch(MovingLimits, "reconfigure", without)]


def _sent_before_written() -> list[Patch]:
    async def execute(self: Any, intent: Any, owner: Any) -> EvictionResult:
        sent_at, request = self._clock(), self._request(intent, "")
        outcome = await executor_module._outcome(self._evictor, request, intent, owner)
        intent_id = await self._recorder.record_intent(intent)
        await self._recorder.record_outcome(intent_id, outcome)
        return EvictionResult(intent, outcome, sent_at, intent_id, request.sent)

    return [Patch(EvictionExecutor, "execute", execute)]


def _terminating_is_evicted() -> list[Patch]:
    read = outcome_from_lookup

    def outcome(request: Any, lookup: Any, effect_timeout_s: float) -> Any:
        found = read(request, lookup, effect_timeout_s)
        is_ours = getattr(lookup, "uid", "") == request.uid and lookup.terminating
        return POD_EVICTED.outcome() if is_ours else found

    return [Patch(executor_module, "outcome_from_lookup", outcome)]


def _not_judged_again() -> list[Patch]:
    return [Patch(DecisionChecks, "_still_found", lambda _self, _eviction, finding, *_: finding)]


def _not_told_of_brakes() -> list[Patch]:
    return [Patch(Brakes, "reason_to_keep", lambda *_: "")]


def _no_inherited() -> list[Patch]:
    async def none(*_: Any) -> InheritedEvictions:
        return InheritedEvictions({}, ())

    return [Patch(start_up, "read_open_intents", none)]


def _without_clocks(**left_out: Any) -> list[Patch]:
    age_s = Moment.age_s

    def without(self: Moment, now: Moment) -> float:
        return age_s(msgspec.structs.replace(self, **left_out), now)

    return [Patch(Moment, "age_s", without)]


def _forgotten_evictions() -> list[Patch]:
    is_evicting = InFlightEvictions._is_evicting

    def of_this_process(self: Any, eviction: Eviction) -> bool:
        return is_evicting(self, eviction) and (eviction.is_under_way or not eviction.is_restored)

    return [Patch(InFlightEvictions, "_is_evicting", of_this_process)]


def _kept_pods_of_sets() -> list[Patch]:
    """Let a set begin though a gate keeps one of its pods."""
    ask = Gate._first_of_set

    def first_of_set(self: Any, sets: MoveSets, finding: Any, now: float) -> Any:
        kept = ask(self, sets, finding, now)
        if kept is not None and kept.gate not in (MOVE_SET_GATE, *TURNS):
            sets.check(finding, now, waits=False)
        return kept

    return [
        Patch(Gate, "_first_of_set", first_of_set),
        Patch(Gate, "_keeping", _nothing),
        Patch(node_emptying, "waits_or_leaves", lambda _: True),
    ]


def _places_of_sets() -> list[Patch]:
    """Take every node for a place."""
    return [
        Patch(TriedMoves, "fitting", lambda _self, _pod, among: among),
        *_off(NodeFitFilter, "check"),
    ]


def _property(target: Any, name: str, value: Any) -> list[Patch]:
    return [Patch(target, name, PropertyMock(return_value=value))]


MUTATIONS: Final[Mapping[str, Callable[[], list[Patch]]]] = {
    **{f"guard {each}": partial(_guard, each) for each in GuardName if each not in NOT_IN_STORIES},
    **{f"rate per {scope}": partial(_without_rate, scope) for scope in SCOPES},
    "rates over restarts": lambda: _off(EvictionRateLimiter, "restored"),
    "uptime": partial(_without_clocks, uptime=None, server_time=None),
    "server time": partial(_without_clocks, server_time=None),
    "clock of creations": lambda: [Patch(history_module, "SERVER_TIME_ERROR_S", -7200.0)],
    "warm-up": lambda: _off(EvictionRateLimiter, "begin_warm_up"),
    **{f"limit per {scope}": partial(_without_limit, scope) for scope in LIMIT_SCOPES},
    "limits over restarts": lambda: _off(PolicyLimits, "restored"),
    "schedules": lambda: _off(EvictionSchedules, "check"),
    "schedules over restarts": lambda: _off(EvictionSchedules, "restored"),
    **{f"moving per {scope}": partial(_without_moving_limit, scope) for scope in MOVING_SCOPES},
    "moves over restarts": lambda: [Patch(ledger_module, "_was_followed_up", lambda _: True)],
    "follow-up": lambda: [Patch(MoveTracker, "take_ended", lambda _: ())],
    "cool-down": lambda: _off(MoveMemory, "_check_cooldown"),
    "futile owners": lambda: _off(MoveMemory, "_check_streak"),
    "memory over restarts": lambda: _off(MoveMemory, "restored"),
    "cool-down of nodes": lambda: _off(NodeMemory, "_check_arrival"),
    "storm brake": lambda: [Patch(StormBrake, "count", _no_items)],
    "pending brake": lambda: [Patch(PendingBrake, "_threshold", lambda *_: inf)],
    "zone brake": lambda: _off(ZoneBrake, "_disrupted_zone"),
    "own moves": lambda: _off(HealthBrake, "followed_up"),
    "no node Ready": lambda: _property(ZoneBrake, "stop_reason", ""),
    "pause by command": lambda: [Patch(ManualPause, "pause", _no_items)],
    "pause by file": lambda: _off(ManualPause, "set_file"),
    "brakes over restarts": lambda: _off(Brakes, "restore"),
    "brakes before sending": _not_told_of_brakes,
    "suspend": lambda: [Patch(SuspendDetector, "check", lambda _: 0.0)],
    "lost watches": lambda: _off(ResourceEventHandler, "mark_stale"),
    "cancelling": lambda: _off(Controller, "cancelled"),
    "outdated decisions": lambda: _off(DecisionChecks, "outdated"),
    "findings before sending": _not_judged_again,
    "age of decisions": lambda: [Patch(outdated_decisions, "DECISION_TTL_S", inf)],
    "intent before request": _sent_before_written,
    "who ended a terminating pod": _terminating_is_evicted,
    "in flight": lambda: _off(InFlightEvictions, "check"),
    "evicted over restarts": _forgotten_evictions,
    "inherited requests": lambda: _off(EvictionLedger, "inherit"),
    "open intents": _no_inherited,
    "marks of sets": lambda: [
        Patch(MoveSets, "_has_begun", lambda *_: True),
        Patch(MoveSets, "lapsed", lambda *_: ""),
    ],
    "pods of sets that are kept": _kept_pods_of_sets,
    "places of sets": _places_of_sets,
    "end of emptied nodes": lambda: [Patch(SetTaints, "_follow", lambda *_, **__: None)],
    "end of rooms": lambda: [Patch(Rooms, "_end", _does_nothing)],
}
"""What each name switches off, as patches of the program."""


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Have one rule of the program switched off; raises KeyError for an unknown name."""
    with ExitStack() as stack:
        for target, attribute, replacement in MUTATIONS[name]():
            stack.enter_context(patch.object(target, attribute, replacement))
        yield


FOUND_BY: Final[Mapping[str, int]] = {
    "guard StandingTime": 2,
    "guard DoNotEvict": 5,
    "guard SafeToEvict": 22,
    "guard DoNotDisrupt": 7,
    "guard Gangs": 54,
    "guard YoungPods": 8,
    "guard NewlyReadyPods": 5,
    "guard DrainedNodes": 3,
    "guard Rollouts": 132,
    "guard UnreadyWorkloads": 11,
    "guard StatefulSetOrder": 63,
    "guard SingleReplicas": 15,
    "rate per cluster": 6,
    "rate per zone": 4,
    "rate per node": 53,
    "rate per plugin": 2,
    "rate per namespace": 5,
    "rate per owner": 26,
    "rates over restarts": 2,
    "uptime": 2,
    "server time": 22,
    "warm-up": 127,
    "limits over restarts": 20,
    "moving per namespace": 13,
    "moves over restarts": 2,
    "zone brake": 17,
    "pause by command": 1,
    "brakes over restarts": 1,
    "brakes before sending": 9,
    "lost watches": 6,
    "cancelling": 2,
    "outdated decisions": 3,
    "age of decisions": 7,
    "intent before request": 0,
    "inherited requests": 3,
    "open intents": 2,
    "findings before sending": 9,
    "marks of sets": 10,
    "pods of sets that are kept": 41,
    "end of emptied nodes": 10,
}
"""A seed whose story shows that a rule is switched off."""
