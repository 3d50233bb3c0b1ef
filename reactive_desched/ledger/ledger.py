"""The ledger of evictions: each once, from its decision until it is over, for all who take part."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from reactive_desched.ledger.eviction import OWNER, Eviction, ScopeKey, new_eviction, past_eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import TURN_COMES_S, Defer, Refuse
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.eviction_options import EVICTION
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.moves import NOT_FOLLOWED, MoveEnd
from reactive_desched.model.objects import Pod, PodKey, controller_of
from reactive_desched.model.outcomes import UNKNOWN, Outcome, recorded_outcome
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex

KEPT_S: Final = 600.0
"""So long an eviction is kept that is over, if its pod leaves and is not seen to be gone: for those
who ask whether a pod is leaving that the watch shows unchanged. After that, and where the pod is
gone, it is kept while a participant asks for it."""

UNSEEN_S: Final = 120.0
"""So long after its decision a pod counts as leaving that the watch shows unchanged, as it does for
ever in a dry run; longer only while its eviction has no outcome."""

MAX_KEPT: Final = 50_000
"""So many evictions that are over are kept; then the oldest is forgotten. At worst a pod has a
second request, which carries its uid."""

_NONE: Final[Mapping[PodKey, Eviction]] = {}


class EvictionLedger:
    """Every eviction by its pod; what counts, reserves or remembers one takes part.

    An eviction is in the ledger from its decision until it is over: at once where the pod stays,
    else when it was followed up. One whose pod leaves is kept for a while beyond that, and while a
    participant asks for it. A pod has one that is not over at most. Iterating gives those that are
    not over, the oldest first.
    """

    indexes = (OwnerIndex,)

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._current: OrderedDict[PodKey, Eviction] = OrderedDict()
        self._over: OrderedDict[PodKey, Eviction] = OrderedDict()
        self._moving = _ByScope()
        self._leaving = _ByScope()
        self._released: list[ScopeKey] = []
        self._participants: tuple[EvictionParticipant, ...] = ()
        self._listen()

    def add_participants(self, *participants: EvictionParticipant) -> None:
        """Let these take part from now on, each after those before it."""
        self._participants = (*self._participants, *participants)
        self._listen()

    def _listen(self) -> None:
        """Keep who overrides what: most evictions concern few of a method's participants."""
        base, all_of_them = EvictionParticipant, self._participants

        def overriding(name: str) -> Iterator[EvictionParticipant]:
            default = getattr(base, name)
            return (each for each in all_of_them if getattr(type(each), name) is not default)

        self._found = tuple(each.found for each in overriding("found"))
        self._blocked = tuple(each.blocked for each in overriding("blocked"))
        self._decided = tuple(each.decided for each in overriding("decided"))
        self._requested = tuple(each.requested for each in overriding("requested"))
        self._ended = tuple(each.ended for each in overriding("ended"))
        self._restored = tuple(each.restored for each in overriding("restored"))
        self._replaced = tuple(each.replaced for each in overriding("replaced"))
        self._followed_up = tuple(each.followed_up for each in overriding("followed_up"))
        self._asks_for = tuple(each.asks_for for each in overriding("asks_for"))

    # --- what is known ---

    def __len__(self) -> int:
        return len(self._current)

    def __iter__(self) -> Iterator[Eviction]:
        return iter(self._current.values())

    def current(self, pod: PodKey) -> Eviction | None:
        """Return the eviction of a pod that is not over."""
        return self._current.get(pod)

    def latest(self, pod: PodKey) -> Eviction | None:
        """Return the last eviction of a pod, also one that is over, while it is kept."""
        return self._current.get(pod) or self._over.get(pod)

    def is_under_way(self, pod: PodKey) -> bool:
        """Say whether an eviction of the pod, or one of an earlier process, has no outcome yet."""
        eviction = self._current.get(pod)
        return eviction is not None and eviction.is_under_way

    def decided_here(self, pod: PodKey) -> Eviction | None:
        """Return the eviction of a pod that this process decided and that has no outcome yet."""
        eviction = self._current.get(pod)
        return None if eviction is None or not _is_decided_here(eviction) else eviction

    def count_decided_here(self) -> int:
        """Count the evictions that this process decided and that have no outcome yet."""
        return sum(map(_is_decided_here, self._current.values()))

    def open(self) -> Iterator[Eviction]:
        """Yield the evictions without an outcome, of earlier processes, too."""
        return (each for each in self._current.values() if each.is_open)

    def moving_in(self, scope: ScopeKey) -> Mapping[PodKey, Eviction]:
        """Return the evictions of a scope that are not over, by their pods."""
        return self._moving.of(scope)

    def turn_within_s(self, scope: ScopeKey) -> float:
        """Return for how long it is likely that what waits for a move of a scope has its turn soon.

        A replacement that is not Ready for long may never be: then it is 0.
        """
        began = (each.origin.began_s for each in self._moving.of(scope).values())
        return max(0.0, max(began, default=-inf) + TURN_COMES_S - self._view.now_s)

    def leaving_in(self, scope: ScopeKey) -> Sequence[Eviction]:
        """Return the evictions of a scope for as long as they are kept, the oldest first."""
        return tuple(self._leaving.of(scope).values())

    def leave(self, scope: ScopeKey, eviction: Eviction) -> None:
        """Leave an eviction out of a scope of `leaving_in`, where it does not matter any more."""
        self._leaving.remove(eviction.pod_uid, (scope,))

    def unseen(self, owner_key: str, controller_uid: str, now: float) -> tuple[PodKey, ...]:
        """Return the pods that leave, and that the cluster state shows as if they did not.

        They are those of one controller; `owner_key` is that of the topmost one.
        """
        found = []
        for eviction in self.leaving_in((OWNER, owner_key)):
            if (pod := self._view.pod(eviction.pod_uid)) is None:
                continue  # it is gone, or the pods are not listed yet
            is_late = eviction.decided_at < now - UNSEEN_S and not eviction.is_under_way
            if is_late or pod.is_terminating or pod.has_ended:
                self.leave((OWNER, owner_key), eviction)
            elif (own := controller_of(pod.owners)) is not None and own.uid == controller_uid:
                found.append(pod.uid)
        return tuple(found)

    # --- before a decision ---

    def find(self, finding: Finding, now: float) -> None:
        """Let the participants see a finding, on which no gate has decided yet."""
        for found in self._found:
            found(finding, now)

    def block(self, decision: Defer | Refuse) -> None:
        """Let the participants see what blocks a pod."""
        for blocked in self._blocked:
            blocked(decision)

    # --- the life of an eviction ---

    def decide(self, finding: Finding, profile: str, now: float) -> Eviction:
        """Begin the eviction that every gate of a profile agreed to.

        One that the API server accepted, and whose pod stayed, is given up before.
        """
        chain = self._view.index(OwnerIndex).chain(finding.pod)
        zone = self._view.zone(finding.pod.node)
        top = self._view.workload(chain[-1].uid) if chain else None
        is_single = top is not None and top.replicas == 1
        if (earlier := self._current.get(finding.pod.uid)) is not None:
            assert not earlier.is_under_way, "a pod has one request at a time"
            self._give_up(earlier, now)
        eviction = new_eviction(
            finding, chain, zone, profile, now, self._view.now_s, is_single=is_single
        )
        self._add(eviction)
        for decided in self._decided:
            decided(eviction)
        return eviction

    def evaluated(self, evaluation: Evaluation) -> Eviction:
        """Note the evaluation that has the decision of an eviction; return that eviction."""
        eviction = self._current[evaluation.finding.pod.uid]
        eviction.evaluated(evaluation)
        return eviction

    def supersede(self) -> None:
        """Note that the configuration changed: what was decided and not requested must not be."""
        for eviction in self._current.values():
            if _is_decided_here(eviction):
                eviction.supersede()

    def request(
        self, pod: PodKey, request_id: str, sent_at: float, evictor: str = EVICTION
    ) -> None:
        """Note the record of a request, which is sent now unless it was cancelled."""
        if (eviction := self.decided_here(pod)) is not None:
            eviction.name_request(request_id, sent_at, evictor)
            for requested in self._requested:
                requested(eviction)

    def end(self, pod: PodKey, outcome: Outcome, now: float) -> None:
        """Note the outcome of a pod's eviction; unless the pod leaves, it is over."""
        if (eviction := self._current.get(pod)) is None or not eviction.is_open:
            return
        eviction.end(outcome, now)
        for ended in self._ended:
            ended(eviction, outcome)
        if eviction.accepted_at is None or not eviction.is_followed:
            self._remove(eviction)
            self._keep(eviction, now)

    def replace(self, eviction: Eviction, pod: Pod) -> None:
        """Let the participants see the replacement, which was bound to a node."""
        for replaced in self._replaced:
            replaced(eviction, pod)

    def follow_up(self, eviction: Eviction, end: MoveEnd, now: float) -> None:
        """Close an eviction: its replacement is Ready, or was given up."""
        eviction.follow_up(now)
        self._remove(eviction)
        self._keep(eviction, now)
        for followed_up in self._followed_up:
            followed_up(eviction, end)

    def forget(self, pod: PodKey) -> None:
        """Forget an eviction that is over and not asked for: its pod is seen to be gone."""
        if (eviction := self.latest(pod)) is None:
            return
        self.leave((OWNER, eviction.origin.owner.key), eviction)
        if pod in self._over and not self._is_asked_for(eviction):
            self._drop(eviction)

    def expire(self, now: float) -> None:
        """Forget the evictions that are over for long, and not asked for."""
        while self._over:
            first = next(iter(self._over.values()))
            if first.kept_until >= now:
                return
            if self._is_asked_for(first):
                first.keep(now + KEPT_S)
                self._over.move_to_end(first.pod_uid)
            else:
                self._drop(first)

    def take_released(self) -> Sequence[ScopeKey]:
        """Return, once, the scopes in which fewer evictions are not over than before."""
        released, self._released = self._released, []
        return released

    @property
    def has_released(self) -> bool:
        """Say whether `take_released` has something to return."""
        return bool(self._released)

    # --- earlier processes ---

    def restore(self, past: Iterable[PastEviction], now: float, wall_now: float) -> None:
        """Take up the evictions of earlier processes, oldest first.

        `now` is monotonic seconds, `wall_now` seconds since the epoch, as the evictions' times are.
        """
        self._restore([past_eviction(each, now, wall_now) for each in past], now)

    def count(self, past: PastEviction, now: float, wall_now: float) -> None:
        """Count an eviction that may be of another leader against limits; nothing follows it."""
        self._restore([past_eviction(past, now, wall_now, is_followed=False)], now)

    def _restore(self, restored: list[Eviction], now: float) -> None:
        given_up = []
        for eviction in restored:
            earlier = self._current.get(eviction.pod_uid)
            if earlier is not None and earlier.is_under_way:
                continue  # it has an outcome yet to come; this one is counted alone
            is_to_follow = eviction.accepted_at is not None and eviction.is_followed
            if eviction.is_open or (is_to_follow and not _was_followed_up(eviction)):
                if earlier is not None:
                    self._remove(earlier)
                    given_up.append(earlier)
                self._add(eviction)
            else:
                self._keep(eviction, now)
        restored.sort(key=lambda each: inf if each.ended_at is None else each.ended_at)
        for eviction in restored:
            for notify in self._restored:
                notify(eviction, now)
        for eviction in given_up:
            self._give_up(eviction, now)

    def inherit(self, pod: PodKey, now: float, wall_now: float) -> None:
        """Note that the request of an earlier process may still evict the pod.

        Also where its record is not among those that were restored.
        """
        if (eviction := self._current.get(pod)) is None or not eviction.is_open:
            self.count(PastEviction("", wall_now, pod, "", "", ""), now, wall_now)
            eviction = self._current[pod]
        eviction.inherit()

    def end_inherited(self, pod: PodKey, outcome: Outcome, now: float, wall_now: float) -> None:
        """Note the outcome of an eviction that an earlier process requested."""
        self.inherit(pod, now, wall_now)
        self.end(pod, outcome, now)

    # --- inside ---

    def _add(self, eviction: Eviction) -> None:
        uid = eviction.pod_uid
        assert uid not in self._current, "a pod has one eviction that is not over"
        if (over := self._over.get(uid)) is not None:
            self._drop(over)
        self._current[uid] = eviction
        self._moving.add(eviction, eviction.moving_in)
        self._leaving.add(eviction, eviction.leaving_in)

    def _give_up(self, eviction: Eviction, now: float) -> None:
        """Close an eviction of a pod that has another one: it has an outcome, and an end."""
        if eviction.is_open:
            outcome = recorded_outcome(UNKNOWN, "")
            eviction.end(outcome, now)
            for ended in self._ended:
                ended(eviction, outcome)
        end = "the pod stayed, and another eviction of it began"
        self.follow_up(eviction, eviction.end_with(NOT_FOLLOWED, end, plugin_in_force=False), now)

    def _remove(self, eviction: Eviction) -> None:
        """Note that an eviction is over: its pod is not moving any more."""
        if self._current.get(eviction.pod_uid) is eviction:
            del self._current[eviction.pod_uid]
            self._moving.remove(eviction.pod_uid, eviction.moving_in)
            self._leaving.remove(eviction.pod_uid, eviction.leaving_in)
            self._released += eviction.moving_in

    def _keep(self, eviction: Eviction, now: float) -> None:
        """Keep an eviction that is over, if its pod leaves; forget those that are over for long."""
        is_gone, uid = eviction.gone_at is not None, eviction.pod_uid
        if not eviction.leaves or uid in self._current:
            return
        if is_gone and not self._is_asked_for(eviction):
            return
        if (before := self._over.get(uid)) is not None:
            self._drop(before)
        eviction.keep(now + KEPT_S)
        self._over[uid] = eviction
        self._leaving.add(eviction, eviction.leaving_in)
        while len(self._over) > MAX_KEPT:
            self._drop(next(iter(self._over.values())))
        self.expire(now)

    def _is_asked_for(self, eviction: Eviction) -> bool:
        return any(asks(eviction) for asks in self._asks_for)

    def _drop(self, over: Eviction) -> None:
        del self._over[over.pod_uid]
        self._leaving.remove(over.pod_uid, over.leaving_in)


class _ByScope:
    """Evictions by their scopes; the sets that become empty are dropped."""

    def __init__(self) -> None:
        self._evictions: dict[ScopeKey, dict[PodKey, Eviction]] = {}

    def of(self, scope: ScopeKey) -> Mapping[PodKey, Eviction]:
        return self._evictions.get(scope, _NONE)

    def add(self, eviction: Eviction, scopes: Iterable[ScopeKey]) -> None:
        for scope in scopes:
            self._evictions.setdefault(scope, {})[eviction.pod_uid] = eviction

    def remove(self, pod: PodKey, scopes: Iterable[ScopeKey]) -> None:
        for scope in scopes:
            evictions = self._evictions.get(scope)
            if evictions is not None and evictions.pop(pod, None) is not None and not evictions:
                del self._evictions[scope]


def _is_decided_here(eviction: Eviction) -> bool:
    return eviction.is_open and eviction.past is None


def _was_followed_up(eviction: Eviction) -> bool:
    return eviction.past is not None and eviction.past.follow_up is not None
