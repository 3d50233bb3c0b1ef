"""What must hold at every eviction request, and of all evictions of a world together."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from reactive_desched.api.event import EVICTION_OUTCOME_TYPES, EVICTION_REQUESTED
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.follower import JournalFollower
from reactive_desched.journal.reading import read_events
from reactive_desched.model.outcomes import EvictionRequest
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.store import Event

if TYPE_CHECKING:
    from tests.safety.world import World

SLACK: Final = 1e-6
ZONE: Final = "topology.kubernetes.io/zone"
REQUEST_S: Final = 90.0
"""So long before a pod leaves its eviction may have been requested."""

READY_TIMEOUT_S: Final = 600.0
"""So long a controller waits for a replacement by default."""

OPT_OUT: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


class Eviction(NamedTuple):
    """A pod that the API server evicted at our request; `at` is seconds of virtual time."""

    at: float
    uid: str
    namespace: str
    name: str
    node: str
    zone: str
    owner: str
    plugin: str
    life: int

    def in_scope(self, scope: str) -> str:
        """Name the member of a scope that the eviction counts for."""
        return "" if scope == "cluster" else str(getattr(self, scope))


class Violation(AssertionError):  # noqa: N818  it is raised as the fact it names
    """A property does not hold."""


class Referee:
    """Sees every eviction request and every eviction; raises Violation.

    A violation in a task of the controller would end the world: it is kept in `violations`, and
    raised at the end.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._follower = JournalFollower(world.directory, 0, lambda *_: None)
        self._open_intents: dict[str, str] = {}
        self.evictions: list[Eviction] = []
        self.under_way: set[str] = set()
        self._became_ready: defaultdict[str, list[float]] = defaultdict(list)
        self._ready: set[str] = set()
        self._replicas: dict[str, int] = {}
        world.store.subscribe(self._observe)
        self.requests = 0
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
        opted_out = request.uid in life.protected
        self._expect(not opted_out, f"{request.name} was requested although it opted out")
        is_second = request.uid in self.under_way
        self._expect(not is_second, f"{request.name} was requested twice at once")
        evicted = any(each.uid == request.uid for each in self.evictions)
        self._expect(not evicted, f"{request.name} was requested again after its eviction")
        self._check_previous_move(request)
        self._read_journal()
        intents = list(self._open_intents.values())
        self._expect(
            intents.count(request.uid) == 1,
            f"{request.name} has {intents.count(request.uid)} open intents on disk, not one",
        )

    def evicted(self, request: EvictionRequest, pod: Obj) -> None:
        """Remember an eviction, with the pod as it was."""
        meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
        stored = self._world.store.get("nodes", "", node)
        labels = {} if stored is None else stored["metadata"].get("labels") or {}
        self._expect(
            all(each.uid != meta["uid"] for each in self.evictions), f"{request.name} left twice"
        )
        owner = self._topmost_owner(pod)
        self._replicas[owner] = self._replicas_of(owner)
        plugin = request.message.partition("/")[2].partition(":")[0]
        life = self._world.life
        self.evictions.append(
            Eviction(
                anyio.current_time(),
                meta["uid"],
                meta["namespace"],
                meta["name"],
                node,
                labels.get(ZONE, ""),
                owner,
                plugin,
                0 if life is None else life.number,
            )
        )

    def _observe(self, event: Event) -> None:
        """Remember when the pods of each owner were created that became Ready."""
        if event.resource != "pods" or event.type == "DELETED":
            return
        meta = event.object["metadata"]
        if meta["uid"] in self._ready or condition_status(event.object, "Ready") != "True":
            return
        self._ready.add(meta["uid"])
        created = parse_time(meta["creationTimestamp"]) - self._world.start_s
        self._became_ready[self._topmost_owner(event.object)].append(created)

    def _check_previous_move(self, request: EvictionRequest) -> None:
        """Expect that the owner's last eviction has its replacement: at most 10 %, here one."""
        pod = self._world.store.get("pods", request.namespace, request.name)
        owner = "" if pod is None else self._topmost_owner(pod)
        last = next((each for each in reversed(self.evictions) if each.owner == owner), None)
        if not owner or last is None or anyio.current_time() - last.at > READY_TIMEOUT_S:
            return
        is_replaced = any(created >= int(last.at) for created in self._became_ready[owner])
        is_scaled_down = self._replicas_of(owner) < self._replicas[owner]
        self._expect(
            is_replaced or is_scaled_down,
            f"{request.name} was requested before the replacement of {last.name} was Ready",
        )

    def _replicas_of(self, owner: str) -> int:
        for resource in ("deployments", "statefulsets"):
            for obj in self._world.store.list(resource):
                if obj["metadata"]["uid"] == owner:
                    return int(obj["spec"]["replicas"])
        return 0

    def check_end(self) -> None:
        """Check what holds of a whole world, once its last life has ended; raises Violation."""
        self._check_rates()
        self._check_windows()
        self._check_journal()
        if self.violations:
            raise Violation("\n".join(self.violations))

    def _check_rates(self) -> None:
        for scope, rate in self._world.config.settings.budgets.by_scope().items():
            if rate is None:
                continue
            for name, evictions in self._by_name(scope):
                for first, last, count, allowed in _above_rate(evictions, rate):
                    if not self._is_excused(first, last):
                        self._violate(
                            f"{count} evictions of {scope} {name} from {first.at:.1f} s to "
                            f"{last.at:.1f} s, where {allowed:.2f} are allowed"
                        )
                        break

    def _check_windows(self) -> None:
        window_s = self._world.config.settings.budgets.window_s
        for scope, limit in self._world.config.policy.limits.by_scope().items():
            if limit is None:
                continue
            for name, evictions in self._by_name(scope):
                for first, last in zip(evictions, evictions[limit:], strict=False):
                    between_s = last.at - first.at
                    if between_s < window_s - SLACK and not self._is_excused(first, last):
                        self._violate(
                            f"{limit + 1} evictions of {scope} {name} within {between_s:.1f} s"
                        )
                        break

    def _is_excused(self, first: Eviction, last: Eviction) -> bool:
        """Say whether a clock that was set forward makes a later process count `first` as older.

        The journal has the time of day only: docs/explain/known-flaws.md says so.
        """
        if first.life == last.life:
            return False
        return any(
            seconds > 0 and first.at - REQUEST_S <= at <= last.at
            for at, seconds in self._world.clock_steps
        )

    def _check_journal(self) -> None:
        outcomes = Counter[str]()
        intents = set[str]()
        for event in read_events(self._world.directory):
            if event.type == EVICTION_REQUESTED:
                intents.add(event.id)
            elif event.type in EVICTION_OUTCOME_TYPES:
                outcomes[event.causationid] += 1
        for intent in intents:
            self._expect(outcomes[intent] == 1, f"{intent} has {outcomes[intent]} outcomes")
        self._expect(outcomes.keys() <= intents, "an outcome has no intent")

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


def _above_rate(
    evictions: list[Eviction], rate: TokenRate
) -> Iterator[tuple[Eviction, Eviction, int, float]]:
    """Yield the stretches in which more was evicted than burst plus rate times time."""
    for start, first in enumerate(evictions):
        for end in range(start + rate.burst, len(evictions)):
            last, count = evictions[end], end - start + 1
            allowed = rate.burst + rate.per_second * (last.at - first.at)
            if count > allowed + SLACK:
                yield first, last, count, allowed
