"""Writes Kubernetes Events about evictions and about the policy, for `kubectl describe`."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from reactive_desched.api import event as events
from reactive_desched.api.event import (
    MODE_DRY_RUN,
    BrakeEngaged,
    BrakeReleased,
    ConsolidationEnded,
    DecisionMade,
    EvictionCorrected,
    EvictionEnded,
    LeaderChanged,
    NodeDrained,
    PodData,
    PolicyLoaded,
    PolicyRejected,
    Who,
)
from reactive_desched.journal.events import decode_event as read
from reactive_desched.journal.records import JournalRecord, parse_header
from reactive_desched.model.approvals import NOT_APPROVED_CODE
from reactive_desched.model.decisions import LIMIT_REASON_CODES
from reactive_desched.model.kube_events import CONTROLLER, KubeEvent, Regarding
from reactive_desched.model.outcomes import (
    DENIED,
    EVICTED,
    FAILED,
    PDB_REFUSED,
    TOO_MANY_REQUESTS,
    UNKNOWN,
)
from reactive_desched.policy.configuration import Configuration

DESCHEDULED, EVICTION_FAILED, POD_EVICTED = "Descheduled", "EvictionFailed", "PodEvicted"
RELOAD, RELOADED, REJECTED = "ReloadPolicy", "PolicyReloaded", "PolicyRejected"
PROPOSE, PROPOSED = "ProposeEviction", "EvictionProposed"
BRAKE, ENGAGED, RELEASED = "Brake", "BrakeEngaged", "BrakeReleased"
LEADER_ELECTION: Final = "LeaderElection"
"""The reason of client-go's Events on a Lease."""

DRAIN, DRAINED = "Drain", "NodeDrained"
CONSOLIDATE: Final = "Consolidate"
_CONSOLIDATED: Final = {
    "empty": "NodeEmptied",
    "given_up": "ConsolidationGivenUp",
    "used_again": "NodeUsedAgain",
}
"""The reasons of Events on a node, by what became of its set."""


MAX_EVENT_AGE_S: Final = 600.0
"""Older records get no Event, for example after an outage or a restart."""
BATCH_SIZE: Final = 50
"""Records read before other tasks run again."""
GATHER_S: Final = 0.1
"""After a small batch further records gather so long: an Event can wait, an eviction cannot."""
MAX_EVENTS_PER_OWNER, OWNER_WINDOW_S, MAX_OWNERS = 10, 600.0, 4096

_FAILED_RESULTS: Final = frozenset({PDB_REFUSED, TOO_MANY_REQUESTS, DENIED, FAILED})
_RELEVANT_TYPES: Final = frozenset(
    {
        *(events.EVICTION_SUCCEEDED, events.EVICTION_REFUSED, events.EVICTION_UNKNOWN),
        events.EVICTION_CORRECTED,
        *(events.DECISION_DEFER, events.DECISION_REFUSE),
        *(events.POLICY_LOADED, events.POLICY_REJECTED),
        *(events.BRAKE_ENGAGED, events.BRAKE_RELEASED, events.LEADER_CHANGED),
        *(events.NODE_DRAINED, events.CONSOLIDATION_ENDED),
    }
)


class KubeEventsSink:
    """A sink that writes Events, as the policy and settings in force ask for.

    An eviction gets an Event on its pod and one on the pod's topmost owner. An eviction that
    failed, or that a limit of the policy stopped, gets an Event on the pod if the policy sets
    `evictionFailureEventNotification`. A policy that was loaded or rejected since this sink was
    made gets an Event on `own_pod`, if that is known, and so does a brake that engages or
    is released. A change of the leader gets one on the Lease, and a drained node gets one, as does
    a node whose set of moves has ended.
    `wall_clock` returns seconds since the epoch.

    It acknowledges every record at once and loses Events that cannot be written: the journal has
    all of them.
    """

    name = "kubernetes-events"
    from_start = False

    def __init__(
        self,
        record: Callable[[KubeEvent], None],
        active_config: Callable[[], Configuration],
        own_pod: Regarding | None,
        wall_clock: Callable[[], float],
    ) -> None:
        self._record = record
        self._active_config = active_config
        self._own_pod = own_pod
        self._wall_clock = wall_clock
        self._started_at = wall_clock()
        self._revision = active_config().policy.revision
        self._owners = _OwnerEventCounter()
        self._next_batch_at = -inf

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Write the Events of a batch of records, and return how many records were read."""
        if len(entries) < BATCH_SIZE:
            await anyio.sleep_until(self._next_batch_at)
        await checkpoint()
        batch = entries[:BATCH_SIZE]
        for entry in batch:
            self._read(entry)
        self._next_batch_at = anyio.current_time() + GATHER_S
        return len(batch)

    async def close(self) -> None:
        """Do nothing: this sink holds no resources."""

    def _read(self, entry: JournalRecord) -> None:
        head = parse_header(entry.raw)
        if head is None or head.type not in _RELEVANT_TYPES:
            return
        event = read(head.type, entry.raw)
        if event is not None and self._wall_clock() - event.time.timestamp() <= MAX_EVENT_AGE_S:
            self._handle(event.data, event.time)

    def _handle(self, data: object, time: datetime) -> None:
        match data:
            case EvictionEnded() | DecisionMade() | PolicyLoaded() if data.mode == MODE_DRY_RUN:
                pass
            case BrakeEngaged() | BrakeReleased() if data.mode != MODE_DRY_RUN:
                self._on_brake(data)
            case EvictionEnded() | EvictionCorrected():
                self._on_eviction_ended(data)
            case DecisionMade():
                self._on_decision(data)
            case PolicyLoaded() if time.timestamp() >= self._started_at:
                self._on_policy_loaded(data)
            case PolicyRejected() if time.timestamp() >= self._started_at:
                self._on_policy_rejected(data)
            case NodeDrained():
                node = Regarding("Node", "", data.node, data.node_uid)
                note = f"{CONTROLLER} drained the node: {data.message}"
                self._record_event(KubeEvent(node, DRAINED, DRAIN, note))
            case ConsolidationEnded():
                node = Regarding("Node", "", data.node, data.node_uid)
                note = f"{CONTROLLER}: {data.describe()}"
                self._record_event(KubeEvent(node, _CONSOLIDATED[data.result], CONSOLIDATE, note))
            case LeaderChanged() if time.timestamp() >= self._started_at:
                self._on_leader_changed(data)

    def _on_eviction_ended(self, data: EvictionEnded | EvictionCorrected) -> None:
        """Write the Event of an eviction or its failure; a pod that was gone already gets none."""
        result = data.outcome.result
        if result in (EVICTED, UNKNOWN):
            self._record_eviction(data, is_certain=result == EVICTED)
        elif result in _FAILED_RESULTS:
            self._record_failure(data, data.outcome.message or data.outcome.reason or result)

    def _record_eviction(
        self, data: EvictionEnded | EvictionCorrected, *, is_certain: bool
    ) -> None:
        """Write an Event on the pod and one on its owner."""
        caveat = "" if is_certain else " left; whether by this eviction is not known"
        message = f"{_eviction_text(data.who)}{caveat}: {_cause_text(data)}"
        self._record_event(
            KubeEvent(_pod_reference(data.who), data.why.plugin, DESCHEDULED, message)
        )
        if data.who.owners:
            owner, message = _topmost_owner(data.who), _owner_message(data, is_certain=is_certain)
            if self._owners.over_limit(owner, self._wall_clock()):
                message = f"more pods evicted by {CONTROLLER}: each has an Event of its own"
            self._record_event(KubeEvent(owner, POD_EVICTED, DESCHEDULED, message))

    def _on_decision(self, data: DecisionMade) -> None:
        """Write the Event of what a limit of the policy stopped, or a person is asked for."""
        if data.decision.reason in LIMIT_REASON_CODES:
            self._record_failure(data, data.decision.message)
        elif data.decision.reason == NOT_APPROVED_CODE:
            self._on_proposed(data)

    def _on_proposed(self, data: DecisionMade) -> None:
        """Write an Event on the pod and one on its owner: a person is asked for an approval."""
        text = f"{_eviction_text(data.who)} is proposed: {_cause_text(data)}"
        message = f"{text}; {data.decision.message}"
        self._record_event(KubeEvent(_pod_reference(data.who), PROPOSED, PROPOSE, message))
        if data.who.owners:
            owner, message = _topmost_owner(data.who), f"pod {data.who.name}: {message}"
            if self._owners.over_limit(owner, self._wall_clock()):
                message = "more evictions are proposed: `reactive-desched proposals` lists them"
            self._record_event(KubeEvent(owner, PROPOSED, PROPOSE, message))

    def _record_failure(self, data: PodData, message: str) -> None:
        if not self._active_config().policy.eviction_failure_event_notification:
            return
        text = f"{_eviction_text(data.who)} failed: {message} ({_cause_text(data)})"
        about = _pod_reference(data.who)
        self._record_event(KubeEvent(about, EVICTION_FAILED, DESCHEDULED, text, is_warning=True))

    def _on_policy_loaded(self, data: PolicyLoaded) -> None:
        """Write an Event for another policy; the initial one gets none."""
        before, self._revision = self._revision, data.revision
        if self._own_pod is not None and data.revision != before:
            message = (
                f"revision {data.revision} of {data.source} is in force, after revision {before}"
            )
            self._record_event(KubeEvent(self._own_pod, RELOADED, RELOAD, message))

    def _on_policy_rejected(self, data: PolicyRejected) -> None:
        """Write an Event for a rejected policy."""
        if self._own_pod is not None:
            first = f": {data.problems[0]}" if data.problems else ""
            message = f"kept revision {data.kept}: file rejected{first}"
            self._record_event(KubeEvent(self._own_pod, REJECTED, RELOAD, message, is_warning=True))

    def _on_brake(self, data: BrakeEngaged | BrakeReleased) -> None:
        """Write an Event on the controller's own pod."""
        if self._own_pod is not None:
            is_engaged = isinstance(data, BrakeEngaged)
            reason = ENGAGED if is_engaged else RELEASED
            note = f"{data.brake} brake of {data.scope}: {data.message}"
            if data.by:
                note = f"{note} (by {data.by})"
            event = KubeEvent(self._own_pod, reason, BRAKE, note, is_warning=is_engaged)
            self._record_event(event)

    def _on_leader_changed(self, data: LeaderChanged) -> None:
        """Write client-go's Event on the Lease: who became the leader, or leads no more."""
        election = self._active_config().settings.leader_election
        lease = Regarding(
            "Lease",
            election.resource_namespace,
            election.resource_name,
            api_version="coordination.k8s.io/v1",
        )
        note = f"{data.holder} became leader" if data.holder else f"{data.previous} stopped leading"
        self._record_event(KubeEvent(lease, LEADER_ELECTION, LEADER_ELECTION, note))

    def _record_event(self, event: KubeEvent) -> None:
        if self._active_config().settings.events.kubernetes:
            self._record(event)


class _OwnerEventCounter:
    """Counts Events per owner, so that further Events on a busy owner name no pod.

    At most 4,096 owners are kept; at the bound the one least recently counted is dropped.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[Regarding, tuple[float, int]] = OrderedDict()  # since, how many

    def over_limit(self, owner: Regarding, now: float) -> bool:
        """Count one more, and say whether there were ten within ten minutes before it."""
        since, count = self._counts.pop(owner, (now, 0))
        if not 0 <= now - since < OWNER_WINDOW_S:
            since, count = now, 0
        if len(self._counts) >= MAX_OWNERS:
            self._counts.popitem(last=False)
        self._counts[owner] = since, count + 1
        return count >= MAX_EVENTS_PER_OWNER


def own_pod(environ: Mapping[str, str]) -> Regarding | None:
    """Return our own pod from the environment that the Deployment sets; None when it is not set."""
    name, namespace = environ.get("POD_NAME"), environ.get("POD_NAMESPACE")
    if not name or not namespace:
        return None
    return Regarding("Pod", namespace, name, environ.get("POD_UID", ""))


def _eviction_text(pod: Who) -> str:
    return f"pod eviction from {pod.node} node by {CONTROLLER}"


def _owner_message(data: EvictionEnded | EvictionCorrected, *, is_certain: bool) -> str:
    pod = data.who
    if is_certain:
        return f"pod {pod.name} evicted from {pod.node} node by {CONTROLLER}: {_cause_text(data)}"
    text = f"pod {pod.name} left {pod.node} node; whether by the eviction of {CONTROLLER}"
    return f"{text} is not known: {_cause_text(data)}"


def _cause_text(data: PodData) -> str:
    return f"{data.why.plugin} of profile {data.why.profile}: {data.why.message}"


def _pod_reference(pod: Who) -> Regarding:
    return Regarding("Pod", pod.namespace, pod.name, pod.uid)


def _topmost_owner(pod: Who) -> Regarding:
    owner = pod.owners[-1]
    return Regarding(owner.kind, pod.namespace, owner.name, owner.uid, owner.api_version)
