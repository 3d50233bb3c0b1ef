"""What must hold at every eviction request, and of all evictions of a world together."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from reactive_desched.api.event import (
    DISRUPTION_OBSERVED,
    EVICTION_CORRECTED,
    EVICTION_FOLLOWED_UP,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    EVICTION_SUCCEEDED,
    EVICTION_UNKNOWN,
)
from reactive_desched.eviction.client import EFFECT_TIMEOUT_S
from reactive_desched.gate.in_flight import CACHE_LAG_S
from reactive_desched.journal.events import decode_event, read_events
from reactive_desched.journal.follower import JournalFollower
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.outcomes import EVICTED, EvictionRequest
from reactive_desched.moves.limits import count_of
from reactive_desched.moves.tracker import CREATION_TIMEOUT_S
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.store import Event
from tests.safety.knowledge import features, has_reason, zone_of
from tests.safety.restraint import (
    RULES,
    SLACK,
    Asked,
    StatefulSetOrder,
    Storms,
    futile_moves,
    wrong_decisions,
)
from tests.safety.sets import Sets

if TYPE_CHECKING:
    from tests.safety.world import Life, World

FOLLOWED_S: Final = 150.0
"""So long after `moves.readyTimeout` every move has its end."""


class Eviction(NamedTuple):
    """A pod that the API server evicted at our request; `at` is seconds of virtual time.

    `life` is the number of the process that requested it, at `sent_at`; `template` is the hash of
    the pod's template, and `is_surplus` says whether the owner had more pods than it wanted.
    `unfit_since` is when a node changed last, where all nodes have a taint to leave them for.
    """

    at: float
    uid: str
    namespace: str
    name: str
    node: str
    zone: str
    owner: str
    plugin: str
    life: int
    is_surplus: bool
    template: str
    sent_at: float
    unfit_since: float | None

    def in_scope(self, scope: str) -> str:
        """Name the member of a scope that the eviction counts for: no pod of a story had ended."""
        return "" if scope in ("cluster", "ended") else str(getattr(self, scope))


class Violation(AssertionError):  # noqa: N818  it is raised as the fact it names
    """A property does not hold."""


class Referee:
    """Sees every eviction request and every eviction; raises Violation.

    A violation in a task of the controller would end the world: it is kept in `violations`, and
    raised at the end.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self.followed_before = 0.0
        self._follower = JournalFollower(world.directory, 0, lambda *_: None)
        self._open_intents: dict[str, str] = {}
        self._unknown: set[str] = set()
        self.evictions: list[Eviction] = []
        self.under_way: set[str] = set()
        self._became_ready: defaultdict[str, list[float]] = defaultdict(list)
        self._ready: set[str] = set()
        self._wanted: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        self.sent: dict[str, Eviction] = {}
        self.left: set[str] = set()
        self.ending: set[str] = set()
        self._storms = Storms(world)
        self._order = StatefulSetOrder(world)
        self.sets = Sets(world)
        self._created: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._node_changed_at = 0.0
        self._are_all_unfit = False
        world.store.subscribe(self._observe)
        self.requests = self._checked = 0
        self.violations: list[str] = []

    def requested(self, request: EvictionRequest) -> None:
        """Check an eviction request at the moment it is sent."""
        self.requests += 1
        life = self._world.life
        self._expect(life is not None and not life.has_crashed, "a dead process sent a request")
        if life is None:
            return
        pause = life.controller.readiness.reason
        self._expect(not pause, f"{request.name} was requested while paused: {pause}")
        self._expect(not life.unsynced, f"{request.name} was requested without {life.unsynced}")
        is_second = request.uid in self.under_way
        self._expect(not is_second, f"{request.name} was requested twice at once")
        self._read_journal()
        intents = list(self._open_intents.values())
        self._expect(
            intents.count(request.uid) == 1,
            f"{request.name} has {intents.count(request.uid)} open intents on disk, not one",
        )
        self._check_repetition(request, life)
        if (told := life.told.of("pods").get(request.uid)) is None:
            self._violate(f"{request.name} was requested, which the process does not know")
            return
        place = self.eviction(request, told, life.number)
        asked = Asked(request, place, told, life, self._world, self._world.shown_now())
        for rule in RULES:
            for violation in rule(asked):
                self._violate(f"{request.name} was requested although {violation}")
        for violation in self.sets.at_request(place.plugin, place.node):
            self._violate(f"{request.name} was requested although {violation}")
        self._check_moving(request)
        self.sent[request.uid] = place

    def _check_repetition(self, request: EvictionRequest, life: "Life") -> None:
        """Expect no second request for a pod that left, as far as its process can know."""
        before = next((each for each in self.evictions if each.uid == request.uid), None)
        if before is None:
            return
        is_known = before.life == life.number or anyio.current_time() - before.at < CACHE_LAG_S
        self._expect(not is_known, f"{request.name} was requested again after its eviction")

    def decided(self, evaluation: Evaluation) -> None:
        """Take in a decision of the present process."""
        for violation in self._storms.decided(evaluation):
            self._violate(violation)
        for violation in self._order.decided(evaluation):
            self._violate(violation)
        for violation in wrong_decisions(self._world, evaluation):
            self._violate(violation)
        for violation in self.sets.decided(evaluation):
            self._violate(violation)

    def is_open(self, uid: str) -> bool:
        """Say whether the request for a pod has no outcome on disk yet."""
        return uid in self._open_intents.values()

    def may_be_moving(self, owner: str) -> int:
        """Return how many pods of an owner may count as evicted and not replaced, at most.

        A request that a process left open may have had its effect, as far as the next one can know:
        a pod that is gone counts as evicted, whatever took it.
        """
        self._read_journal()
        perhaps = {*self.left, *self._open_intents.values(), *self._unknown}
        asked = (uid for uid in perhaps if uid in self.sent)
        return sum(self.sent[uid].owner == owner for uid in asked)

    def is_ready_again(self, eviction: Eviction) -> bool:
        """Say whether the owner created a pod since an eviction, and it became Ready."""
        return any(created >= int(eviction.at) for created in self._became_ready[eviction.owner])

    def created_since(self, eviction: Eviction) -> list[str]:
        """Return the pods that the owner made since an eviction, give or take a second."""
        created = self._created[eviction.owner]
        return [uid for uid, at in created.items() if at > eviction.at - 1]

    def wants_only_one(self, owner: str) -> bool:
        """Say whether an owner wants a single pod, and wanted no more for a minute."""
        wanted, since = self._wanted[owner], anyio.current_time() - 60
        recent = [replicas for at, replicas in wanted if at > since]
        return {replicas for _, replicas in wanted[-1 - len(recent) :]} == {1}

    def eviction(self, request: EvictionRequest, pod: Obj, life: int) -> Eviction:
        """Return the eviction of a pod at this moment, by the process that requested it."""
        return self.place_of(pod, request.message.partition("/")[2].partition(":")[0], life)

    def place_of(self, pod: Obj, plugin: str, life: int) -> Eviction:
        """Return what the eviction of a pod would be at this moment."""
        meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
        now = anyio.current_time()
        owner = self._topmost_owner(pod)
        return Eviction(
            now,
            meta["uid"],
            meta["namespace"],
            meta["name"],
            node,
            zone_of(self._world.store.get("nodes", "", node)),
            owner,
            plugin,
            life,
            self._pods_of(owner) > self._wants(owner),
            _template_of(pod),
            sent.sent_at if (sent := self.sent.get(meta["uid"])) is not None else now,
            self._node_changed_at if self._are_all_unfit else None,
        )

    def evicted(self, eviction: Eviction) -> None:
        """Remember an eviction that happened."""
        self._expect(eviction.uid not in self.left, f"{eviction.name} left twice")
        self.evictions.append(eviction)
        self.left.add(eviction.uid)

    def _observe(self, event: Event) -> None:
        """Remember what owners want, and when their pods were created that became Ready."""
        self.sets.observe(event)
        meta = event.object["metadata"]
        if event.resource in ("deployments", "statefulsets"):
            wanted, replicas = self._wanted[meta["uid"]], int(event.object["spec"]["replicas"])
            if not wanted or wanted[-1][1] != replicas:
                wanted.append((anyio_time(), replicas))
        if event.resource == "nodes":
            self._observe_node(event)
        if event.resource != "pods" or event.type == "DELETED":
            return
        if event.previous is None:
            self._created[self._topmost_owner(event.object)][meta["uid"]] = anyio_time()
        if meta["uid"] in self._ready or condition_status(event.object, "Ready") != "True":
            return
        self._ready.add(meta["uid"])
        created = parse_time(meta["creationTimestamp"]) - self._world.start_s
        self._became_ready[self._topmost_owner(event.object)].append(created)

    def _observe_node(self, event: Event) -> None:
        before = None if event.type == "DELETED" else event.previous
        if before is not None and features(before) == features(event.object):
            return
        self._node_changed_at = anyio_time()
        self._are_all_unfit = all(map(has_reason, self._world.store.list("nodes")))

    # --- moves ---

    def _check_moving(self, request: EvictionRequest) -> None:
        """Expect that each scope of the pod has room for one more that is moving."""
        limits = dict(self._world.config.settings.moves.max_moving)
        pod = self._world.store.get("pods", request.namespace, request.name)
        if pod is None or not any(limits.values()):
            return
        place = self.eviction(request, pod, self._world.lives)
        moving = self._moving(request.uid)
        for scope, limit in limits.items():
            name = place.in_scope(scope)
            if limit is None or not (name or scope == "cluster"):
                continue
            allowed = count_of(limit, self._wants(place.owner, 1.0))
            count = sum(
                max(0, unreplaced - sum(each.in_scope(scope) != name for each in of_owner))
                for unreplaced, of_owner in moving
            )
            self._expect(
                count < allowed,
                f"{request.name} was requested while {count} pods of {scope} {name} were moving, "
                f"where {allowed} are allowed",
            )

    def _moving(self, requested: str) -> list[tuple[int, list[Eviction]]]:
        """Return, by owner, how many pods are moving at least, and which they may be.

        They are those evicted and not replaced, and those whose request has no outcome yet. Which
        pod replaces which of its owner's is not told apart.
        """
        groups: defaultdict[str, list[Eviction]] = defaultdict(list)
        for eviction in self.evictions:
            groups[eviction.owner].append(eviction)
        unreplaced = {}
        for owner, evictions in groups.items():
            created = sorted(self._became_ready[owner])
            moving = 0
            for eviction in reversed(evictions):
                if created and created[-1] >= int(eviction.at):
                    created.pop()
                elif not self._is_given_up(eviction):
                    moving += 1
            unreplaced[owner] = moving
            groups[owner] = [each for each in evictions if not self._is_given_up(each)]
        evicted = {each.uid for each in self.evictions}
        for uid in set(self._open_intents.values()) - evicted - {requested}:
            if (sent := self.sent.get(uid)) is not None:
                groups[sent.owner].append(sent)
                unreplaced[sent.owner] = unreplaced.get(sent.owner, 0) + 1
        return [(unreplaced[owner], evictions) for owner, evictions in groups.items()]

    def _is_given_up(self, eviction: Eviction) -> bool:
        """Say whether the controller may wait no longer: in vain, or the owner wants fewer pods."""
        age_s = anyio.current_time() - eviction.at
        if age_s >= self._world.config.settings.moves.ready_timeout_s:
            return True
        wanted = self._wanted[eviction.owner]
        before = [replicas for at, replicas in wanted if at <= eviction.at][-1:]
        since = [replicas for at, replicas in wanted if at > eviction.at]
        wants_fewer = eviction.is_surplus or min(before + since) < before[0]
        return wants_fewer and anyio.current_time() - eviction.at >= CREATION_TIMEOUT_S

    def _wants(self, owner: str, within_s: float = 0.0) -> int:
        """Return how many pods an owner wants, or the most that it wanted in the last seconds."""
        wanted, since = self._wanted[owner], anyio.current_time() - within_s
        recent = [replicas for at, replicas in wanted if at > since]
        return max([*(replicas for _, replicas in wanted[-1 - len(recent) :]), 0])

    def _pods_of(self, owner: str) -> int:
        pods = self._world.store.list("pods")
        return sum(
            self._topmost_owner(pod) == owner and "deletionTimestamp" not in pod["metadata"]
            for pod in pods
        )

    def check(self) -> None:
        """Check what holds at any time; raises Violation."""
        if len(self.evictions) > self._checked:
            self._checked = len(self.evictions)
            self._check_rates()
            self._check_windows()
            for violation in futile_moves(self._world):
                self._violate(violation)
        self.raise_violations()

    def raise_violations(self) -> None:
        """Raise Violation with all that was violated so far, if anything was."""
        if self.violations:
            raise Violation("\n".join(self.violations))

    def check_calm(self) -> None:
        """Check what holds of sets after a long calm."""
        for violation in self.sets.in_calm():
            self._violate(violation)

    def check_end(self) -> None:
        """Check what holds of a whole world, once its last life has ended; raises Violation."""
        self._check_journal()
        self._check_who_ended_pods()
        self._checked = -1
        self.check()

    def _check_rates(self) -> None:
        for scope, rate in self._world.config.settings.budgets.by_scope().items():
            if rate is None:
                continue
            for name, evictions in self._by_name(scope):
                for first, last, count in self._above_rate(evictions, rate):
                    self._violate(
                        f"{count} evictions of {scope} {name} from {first.at:.1f} s to "
                        f"{last.at:.1f} s, where {rate} are allowed"
                    )
                    break

    def _above_rate(
        self, evictions: list[Eviction], rate: TokenRate
    ) -> Iterator[tuple[Eviction, Eviction, int]]:
        """Yield the stretches in which more was evicted than burst plus rate times time."""
        for start, first in enumerate(evictions):
            for end in range(start + rate.burst, len(evictions)):
                last, count = evictions[end], end - start + 1
                allowed = rate.burst + rate.per_second * (last.at - first.at)
                if count > allowed + SLACK:
                    yield first, last, count

    def _check_windows(self) -> None:
        window_s = self._world.config.settings.budgets.window_s
        for scope, limit in self._world.config.policy.limits.by_scope().items():
            if limit is None:
                continue
            for name, evictions in self._by_name(scope):
                for first, last in zip(evictions, evictions[limit:], strict=False):
                    if last.at - first.at < window_s - SLACK:
                        self._violate(
                            f"{limit + 1} evictions of {scope} {name} within "
                            f"{last.at - first.at:.1f} s"
                        )
                        break

    def _check_journal(self) -> None:
        outcomes, followed = Counter[str](), Counter[str]()
        intents, succeeded = set[str](), dict[str, str]()
        for event in read_events(self._world.directory):
            if event.type == EVICTION_REQUESTED:
                intents.add(event.id)
            elif event.type in EVICTION_OUTCOME_TYPES:
                outcomes[event.causationid] += 1
                if event.type == EVICTION_SUCCEEDED:
                    succeeded[event.id] = event.data.who.uid
            elif event.type == EVICTION_FOLLOWED_UP:
                followed[event.causationid] += 1
        for intent in intents:
            self._expect(outcomes[intent] == 1, f"{intent} has {outcomes[intent]} outcomes")
        self._expect(outcomes.keys() <= intents, "an outcome has no intent")
        at = {each.uid: each.at for each in self.evictions}
        for outcome, uid in succeeded.items():
            count, is_over = followed[outcome], at.get(uid, inf) < self.followed_before
            name = self.sent[uid].name if uid in self.sent else uid
            self._expect(count <= 1, f"the eviction of {name} was followed up {count} times")
            self._expect(
                bool(count) or not is_over, f"the eviction of {name} was never followed up"
            )

    def _check_who_ended_pods(self) -> None:
        """Expect that the record calls ours what we evicted, and nothing else.

        A request that evicts later than it can arrive, as where all starves, is any client's.
        """
        disrupted, ours = Counter[str](), self.left | self.ending
        late = {each.uid for each in self.evictions if each.at - each.sent_at > EFFECT_TIMEOUT_S}
        for event in read_events(self._world.directory):
            if event.type == DISRUPTION_OBSERVED:
                disrupted[event.data.who.uid] += 1
            is_outcome = event.type in EVICTION_OUTCOME_TYPES or event.type == EVICTION_CORRECTED
            if is_outcome and event.data.outcome.result == EVICTED:
                text = f"{event.subject} was not evicted at our request, and its record says so"
                self._expect(event.data.who.uid in ours, text)
        for uid, count in disrupted.items():
            name = self.sent[uid].name if uid in self.sent else uid
            self._expect(count == 1, f"{name} was ended by something else {count} times")
            is_ours = uid in self.left - late
            self._expect(not is_ours, f"{name}, which we evicted, counts as disrupted")

    def _by_name(self, scope: str) -> Iterator[tuple[str, list[Eviction]]]:
        groups: defaultdict[str, list[Eviction]] = defaultdict(list)
        for eviction in self.evictions:
            groups[eviction.in_scope(scope)].append(eviction)
        for name, evictions in groups.items():
            if name or scope == "cluster":
                yield name, sorted(evictions, key=lambda eviction: eviction.at)

    def _read_journal(self) -> None:
        with closing(self._follower):
            for record in self._follower.read_new():
                event = decode_event("", record.raw)
                if event is None:
                    continue
                if event.type == EVICTION_REQUESTED:
                    self._open_intents[event.id] = event.data["who"]["uid"]
                elif event.type in EVICTION_OUTCOME_TYPES:
                    self._open_intents.pop(event.causationid, None)
                    if event.type == EVICTION_UNKNOWN:
                        self._unknown.add(event.data["who"]["uid"])

    def _topmost_owner(self, pod: Obj) -> str:
        obj = pod
        while True:
            owners = obj["metadata"].get("ownerReferences") or []
            controller = next((owner for owner in owners if owner.get("controller")), None)
            if controller is None:
                break
            resource = f"{controller['kind'].lower()}s"
            found = self._world.store.get(
                resource, pod["metadata"]["namespace"], controller["name"]
            )
            if found is None:
                return str(controller["uid"])
            obj = found
        return "" if obj is pod else str(obj["metadata"]["uid"])

    def _expect(self, holds: bool, violation: str) -> None:  # noqa: FBT001  as assert takes it
        if not holds:
            self._violate(violation)

    def _violate(self, violation: str) -> None:
        self.violations.append(f"{anyio_time():.3f} s: {violation}")


def anyio_time() -> float:
    """Return the virtual time, 0 after the world's end."""
    try:
        return anyio.current_time()
    except Exception:  # noqa: BLE001  there is no event loop any more
        return 0.0


def _template_of(pod: Obj) -> str:
    labels = pod["metadata"].get("labels") or {}
    return labels.get("pod-template-hash") or labels.get("controller-revision-hash") or ""
