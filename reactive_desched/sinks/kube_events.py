"""Says in Kubernetes Events what became of evictions and of the policy, for readers of kubectl."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from anyio.lowlevel import checkpoint

from reactive_desched.api import event as events
from reactive_desched.api.event import (
    DRY_RUN,
    DecisionMade,
    EvictionEnded,
    PodData,
    PolicyLoaded,
    PolicyRejected,
    Who,
)
from reactive_desched.gate.windows import Windows
from reactive_desched.journal.events import event as read
from reactive_desched.journal.records import Entry, mark
from reactive_desched.model.kube_events import CONTROLLER, Event, Regarding
from reactive_desched.model.outcomes import (
    BUDGET_REFUSED,
    DENIED,
    EVICTED,
    FAILED,
    OVERLOADED,
    UNKNOWN,
)
from reactive_desched.policy.load import Configuration

DESCHEDULED, EVICTION_FAILED, POD_EVICTED = "Descheduled", "EvictionFailed", "PodEvicted"
RELOAD, RELOADED, REJECTED = "ReloadPolicy", "PolicyReloaded", "PolicyRejected"

TOO_OLD_S: Final = 600.0
"""What happened longer ago is no news any more, after an outage or a restart."""
PORTION: Final = 50
"""So many records are read in one go, so that the loop is not held for long."""
NAMED_PODS, NAMED_WITHIN_S, REMEMBERED = 10, 600.0, 4096

_NOT_EVICTED: Final = frozenset({BUDGET_REFUSED, OVERLOADED, DENIED, FAILED})
_WORTH_READING: Final = frozenset(
    {
        *(events.EVICTION_SUCCEEDED, events.EVICTION_REFUSED, events.EVICTION_UNKNOWN),
        *(events.DECISION_DEFER, events.DECISION_REFUSE),
        *(events.POLICY_LOADED, events.POLICY_REJECTED),
    }
)


class Announcer:
    """A sink that makes Events of what is worth one, as the policy and settings in force say.

    An eviction has one beside its pod and one beside the pod's topmost owner. One that failed, or
    that a limit of the policy stopped, has one beside the pod if the policy sets
    `evictionFailureEventNotification`. A policy that came into force or was refused since this was
    made has one beside `own_pod`, if that is known. `wall` is the time of day in seconds.

    It takes everything at once, for better or worse: whoever needs all of it reads the journal.
    """

    name = "kubernetes-events"
    from_start = False

    def __init__(
        self,
        record: Callable[[Event], None],
        in_force: Callable[[], Configuration],
        own_pod: Regarding | None,
        wall: Callable[[], float],
    ) -> None:
        self._record = record
        self._in_force = in_force
        self._own_pod = own_pod
        self._wall = wall
        self._begun_at = wall()
        self._revision = in_force().policy.revision
        self._owners = _Owners()

    async def deliver(self, entries: Sequence[Entry]) -> int:
        """Have what is worth it recorded, and return how many records were looked at."""
        await checkpoint()
        portion = entries[:PORTION]
        for entry in portion:
            self._read(entry)
        return len(portion)

    async def close(self) -> None:
        """Nothing is held here."""

    def _read(self, entry: Entry) -> None:
        head = mark(entry.raw)
        if head is None or head.type not in _WORTH_READING:
            return
        event = read(head.type, entry.raw)
        if event is not None and self._wall() - event.time.timestamp() <= TOO_OLD_S:
            self._tell(event.data, event.time)

    def _tell(self, data: object, time: datetime) -> None:
        match data:
            case EvictionEnded() | DecisionMade() | PolicyLoaded() if data.mode == DRY_RUN:
                pass
            case EvictionEnded():
                self._ended(data)
            case DecisionMade():
                if data.decision.gate == Windows.name:
                    self._failed(data, data.decision.reason)
            case PolicyLoaded() if time.timestamp() >= self._begun_at:
                self._loaded(data)
            case PolicyRejected() if time.timestamp() >= self._begun_at:
                self._rejected(data)

    def _ended(self, data: EvictionEnded) -> None:
        """Say that a pod was evicted, or why not; one that was gone anyway is no news."""
        result = data.outcome.result
        if result in (EVICTED, UNKNOWN):
            self._left(data, is_certain=result == EVICTED)
        elif result in _NOT_EVICTED:
            self._failed(data, data.outcome.detail or result)

    def _left(self, data: EvictionEnded, *, is_certain: bool) -> None:
        """Tell it beside the pod, and beside its owner as long as that one has few."""
        doubt = "" if is_certain else " left; whether by this eviction is not known"
        note = f"{_eviction(data.who)}{doubt}: {_why(data)}"
        self._say(Event(_regarding(data.who), data.why.plugin, DESCHEDULED, note))
        if data.who.owners:
            owner, note = _topmost(data.who), _for_owner(data, is_certain=is_certain)
            if self._owners.has_many(owner, self._wall()):
                note = f"more pods evicted by {CONTROLLER}: each has an Event of its own"
            self._say(Event(owner, POD_EVICTED, DESCHEDULED, note))

    def _failed(self, data: PodData, detail: str) -> None:
        if not self._in_force().policy.eviction_failure_event_notification:
            return
        note = f"{_eviction(data.who)} failed: {detail} ({_why(data)})"
        about = _regarding(data.who)
        self._say(Event(about, EVICTION_FAILED, DESCHEDULED, note, is_warning=True))

    def _loaded(self, data: PolicyLoaded) -> None:
        """Say that another policy is in force; the one we began with is no news."""
        before, self._revision = self._revision, data.revision
        if self._own_pod is not None and data.revision != before:
            note = f"revision {data.revision} of {data.source} is in force, after revision {before}"
            self._say(Event(self._own_pod, RELOADED, RELOAD, note))

    def _rejected(self, data: PolicyRejected) -> None:
        """Say that a policy was refused."""
        if self._own_pod is not None:
            first = f": {data.problems[0]}" if data.problems else ""
            note = f"kept revision {data.kept}: file rejected{first}"
            self._say(Event(self._own_pod, REJECTED, RELOAD, note, is_warning=True))

    def _say(self, event: Event) -> None:
        if self._in_force().settings.events.kubernetes:
            self._record(event)


class _Owners:
    """Which owners had so many pods evicted lately that the next ones go unnamed beside them.

    4,096 are remembered; at the bound the one not seen for longest is forgotten.
    """

    def __init__(self) -> None:
        self._seen: dict[Regarding, tuple[float, int]] = {}  # since when, and how many

    def has_many(self, owner: Regarding, now: float) -> bool:
        """Count one more, and say whether there were ten within ten minutes before it."""
        since, count = self._seen.pop(owner, (now, 0))
        if not 0 <= now - since < NAMED_WITHIN_S:
            since, count = now, 0
        if len(self._seen) >= REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[owner] = since, count + 1
        return count >= NAMED_PODS


def own_pod(environ: Mapping[str, str]) -> Regarding | None:
    """Find out which pod we are, from what the Deployment tells us; None when it does not."""
    name, namespace = environ.get("POD_NAME"), environ.get("POD_NAMESPACE")
    if not name or not namespace:
        return None
    return Regarding("Pod", namespace, name, environ.get("POD_UID", ""))


def _eviction(pod: Who) -> str:
    return f"pod eviction from {pod.node} node by {CONTROLLER}"


def _for_owner(data: EvictionEnded, *, is_certain: bool) -> str:
    pod = data.who
    if is_certain:
        return f"pod {pod.name} evicted from {pod.node} node by {CONTROLLER}: {_why(data)}"
    said = f"pod {pod.name} left {pod.node} node; whether by the eviction of {CONTROLLER}"
    return f"{said} is not known: {_why(data)}"


def _why(data: PodData) -> str:
    return f"{data.why.plugin} of profile {data.why.profile}: {data.why.reason}"


def _regarding(pod: Who) -> Regarding:
    return Regarding("Pod", pod.namespace, pod.name, pod.uid)


def _topmost(pod: Who) -> Regarding:
    owner = pod.owners[-1]
    return Regarding(owner.kind, pod.namespace, owner.name, owner.uid, owner.api_version)
