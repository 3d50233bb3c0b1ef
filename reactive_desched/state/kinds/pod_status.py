"""A pod's status: its JSON, and the PodStatus that pods in the same condition share."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec import Raw

from reactive_desched.model.objects import ContainerStatus, PodCondition, PodStatus
from reactive_desched.state.kinds.interning import DAY_S, EPOCH, ConditionTexts, InternTables
from reactive_desched.state.kinds.kind import EMPTY_OBJECT, Presence, Timestamp, WireStruct

__all__ = ["StatusReader", "WireContainerStatus", "WirePodStatus", "made_claims"]


class Waiting(WireStruct, frozen=True, gc=False):
    """The reason why a container waits."""

    reason: str = ""


class Terminated(WireStruct, frozen=True, gc=False):
    """The reason why a container ended, and its exit code."""

    reason: str = ""
    exit_code: int = 0


class ContainerState(WireStruct, frozen=True, gc=False):
    """The state of a container; without `waiting` and `terminated` it runs."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


RUNNING: Final = ContainerState()


class WireContainerStatus(WireStruct, frozen=True, gc=False):
    """One container's status."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = RUNNING
    resources: Raw = EMPTY_OBJECT
    allocated_resources: Raw = EMPTY_OBJECT


class WirePodCondition(WireStruct, frozen=True, gc=False):
    """One of a pod's conditions."""

    type: str
    status: str
    reason: str = ""
    last_transition_time: Timestamp | None = None


class PodResourceClaimStatus(WireStruct, frozen=True, gc=False):
    """The ResourceClaim that was made for one of the pod's; none where it needs none."""

    name: str = ""
    resource_claim_name: str = ""


class WirePodStatus(WireStruct, frozen=True, gc=False):
    """A pod's status."""

    phase: str = ""
    reason: str = ""
    qos_class: str = ""
    start_time: Timestamp | None = None
    conditions: tuple[WirePodCondition, ...] = ()
    container_statuses: tuple[WireContainerStatus, ...] = ()
    init_container_statuses: tuple[WireContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[WireContainerStatus, ...] = ()
    nominated_node_name: str = ""
    observed_generation: int = 0
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: Presence | None = None
    resize: str = ""  # before Kubernetes 1.33; since then a condition says it
    resources: Raw = EMPTY_OBJECT
    allocated_resources: Raw = EMPTY_OBJECT


ContainerTexts = tuple[tuple[str, int, ContainerState], ...]
StatusTexts = tuple[
    str, str, str, str, bool, ConditionTexts, ContainerTexts, ContainerTexts, ContainerTexts
]
"""Phase, reason, QoS class, nominated node, whether extended resources are claimed, conditions, and
the lists of containers."""

_STARTED_WITHIN_S: Final = 600
"""Pods whose conditions last changed so soon after their creation share the times of changes."""


class StatusReader:
    """Turns the status in a pod's JSON into shared PodStatus objects."""

    def __init__(self, tables: InternTables) -> None:
        self._tables: Final = tables
        self._intern: Final = tables.texts.intern
        self._known: Final = tables.statuses.get
        self._known_transitions: Final = tables.transitions.get

    def status(self, wire: WirePodStatus) -> PodStatus:
        """Return the PodStatus of these texts and numbers, looked up by all of them at once."""
        key = (
            wire.phase,
            wire.reason,
            wire.qos_class,
            wire.nominated_node_name,
            wire.extended_resource_claim_status is not None,
            tuple([(c.type, c.status, c.reason) for c in wire.conditions]),
            _container_texts(wire.container_statuses),
            _container_texts(init) if (init := wire.init_container_statuses) else (),
            _container_texts(others) if (others := wire.ephemeral_container_statuses) else (),
        )
        return self._known(key) or self._intern_status(key)

    def _intern_status(self, key: StatusTexts) -> PodStatus:
        """Make a status, and keep it by a key that shares its texts with others."""
        text = self._intern
        phase, reason, qos_class, nominated_node, has_claim, conditions, *groups = key
        condition_texts = self._tables.condition_texts.intern(
            tuple([(text(type_), text(status), text(why)) for type_, status, why in conditions])
        )
        containers, init, ephemeral = (
            tuple([(text(name), restarts, state) for name, restarts, state in group])
            for group in groups
        )
        made = PodStatus(
            text(phase),
            text(reason),
            text(qos_class),
            self._conditions(condition_texts),
            self._containers(containers),
            self._containers(init),
            self._containers(ephemeral),
            text(nominated_node),
            has_claim,
        )
        shared = (
            *(made.phase, made.reason, made.qos_class, made.nominated_node, has_claim),
            *(condition_texts, containers, init, ephemeral),
        )
        return self._tables.statuses.put(shared, made)

    def _conditions(self, texts: ConditionTexts) -> tuple[PodCondition, ...]:
        found = self._tables.conditions.get(texts)
        if found is not None:
            return found
        return self._tables.conditions.put(texts, tuple([PodCondition(*each) for each in texts]))

    def _containers(self, texts: ContainerTexts) -> tuple[ContainerStatus, ...]:
        return tuple([self._container(*each) for each in texts])

    def _container(self, name: str, restarts: int, state: ContainerState) -> ContainerStatus:
        waiting, terminated, text = state.waiting, state.terminated, self._intern
        made = ContainerStatus(
            name,
            restarts,
            text("" if waiting is None else waiting.reason),
            text("" if terminated is None else terminated.reason),
            None if terminated is None else terminated.exit_code,
        )
        return self._tables.container_statuses.intern(made)

    def transitions(
        self, conditions: Iterable[WirePodCondition], created_s: int
    ) -> tuple[int | None, ...]:
        """Return when each condition last changed, in seconds after the creation of the pod.

        Relative to the creation, most healthy pods have the same few small numbers: those of a
        start are shared. Those of a later change are hardly ever another pod's.
        """
        seconds: list[int | None] = []
        last: datetime | None = None
        since_s = latest_s = 0
        for condition in conditions:
            changed = condition.last_transition_time
            if changed is None:
                seconds.append(None)
                continue
            if changed != last:  # several conditions change at once
                since, last = changed - EPOCH, changed
                since_s = since.days * DAY_S + since.seconds - created_s
                latest_s = max(latest_s, since_s)
            seconds.append(since_s)
        times = tuple(seconds)
        if latest_s > _STARTED_WITHIN_S:
            return times
        return self._known_transitions(times) or self._tables.transitions.intern(times)


def made_claims(wire: WirePodStatus) -> tuple[tuple[str, str], ...]:
    """Return the names of the ResourceClaims that were made, by those in the pod."""
    return tuple([(each.name, each.resource_claim_name) for each in wire.resource_claim_statuses])


def _container_texts(statuses: tuple[WireContainerStatus, ...]) -> ContainerTexts:
    return tuple([(c.name, c.restart_count, c.state) for c in statuses])
