"""Begins and ends evictions for tests of who takes part in them, as the ledger does."""

from collections.abc import Iterable, MutableMapping
from math import inf
from weakref import WeakKeyDictionary

from reactive_desched.gate.gate import Gate, GateFilter
from reactive_desched.gate.rate_limits import BucketEmpty, EvictionRateLimiter
from reactive_desched.ledger.eviction import Eviction, new_eviction, past_eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.outcomes import EVICTED, FAILED, Outcome
from reactive_desched.state.cluster import ClusterState, ClusterView
from tests.support.limits import name_scopes

_begun: MutableMapping[EvictionParticipant, dict[PodKey, Eviction]] = WeakKeyDictionary()


def make_ledger(*participants: EvictionParticipant, at_s: float = 0.0) -> EvictionLedger:
    """Build a ledger over an empty cluster, at a time of day."""
    ledger = EvictionLedger(ClusterView(ClusterState(), lambda: at_s))
    ledger.add_participants(*participants)
    return ledger


def gate_of(*filters: GateFilter, memories: Iterable[EvictionParticipant] = ()) -> Gate:
    """Build a gate of these filters, whose ledger they and `memories` take part in."""
    counting = (each for each in filters if isinstance(each, EvictionParticipant))
    return Gate(filters, make_ledger(*counting, *memories), "test")


def decide(
    participant: EvictionParticipant,
    what: Finding | Pod,
    now: float = 0.0,
    *,
    at_s: float = 0.0,
    profile: str = "",
) -> Eviction:
    """Let one participant know of an eviction that was decided; `at_s` is the time of day."""
    finding = what if isinstance(what, Finding) else Finding(what, "Test", "why")
    eviction = new_eviction(finding, finding.pod.owners, "", profile, now, at_s)
    eviction.scopes = name_scopes(finding)
    _begun.setdefault(participant, {})[eviction.pod_uid] = eviction
    participant.decided(eviction)
    return eviction


def finish(
    participant: EvictionParticipant, pod: PodKey, now: float = 0.0, *, evicted: bool = True
) -> None:
    """Let a participant know of the outcome of an eviction that it knows of."""
    eviction, outcome = _begun[participant].pop(pod), Outcome(EVICTED if evicted else FAILED)
    eviction.end(outcome, now)
    participant.ended(eviction, outcome)


def restore(
    participant: EvictionParticipant, past: Iterable[PastEviction], now: float, wall_now: float
) -> None:
    """Let a participant know of evictions of earlier processes."""
    evictions = [past_eviction(each, now, wall_now) for each in past]
    evictions.sort(key=lambda each: inf if each.ended_at is None else each.ended_at)
    for eviction in evictions:
        _begun.setdefault(participant, {})[eviction.pod_uid] = eviction
        participant.restored(eviction, now)


def under_way(participant: EvictionParticipant) -> list[Eviction]:
    """Return the evictions that a participant knows of and that have no outcome."""
    return [each for each in _begun.get(participant, {}).values() if each.is_open]


def take(limiter: EvictionRateLimiter, what: Finding, now: float) -> BucketEmpty | None:
    """Ask for tokens, and take them where there are some in every scope."""
    if (empty := limiter.enter(what, now)) is None:
        decide(limiter, what, now)
    return empty
