"""A pod's status: its JSON, and the PodStatus that pods in the same condition share."""

from collections.abc import Iterable
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from reactive_desched.model.objects import ContainerStatus, PodCondition, PodStatus
from reactive_desched.state.kinds.interning import DAY_S, EPOCH, InternTables
from reactive_desched.state.kinds.kind import EMPTY_OBJECT, Timestamp, WireStruct

__all__ = ["ConditionTexts", "StatusReader", "WireContainerStatus", "WirePodStatus"]


class Waiting(WireStruct, frozen=True, gc=False):
    """Why a container waits."""

    reason: str = ""


class Terminated(WireStruct, frozen=True, gc=False):
    """Why a container ended, and with what exit code."""

    reason: str = ""
    exit_code: int = 0


class ContainerState(WireStruct, frozen=True, gc=False):
    """What a container is doing; neither means that it runs."""

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


ConditionTexts = tuple[tuple[str, str, str], ...]
"""Type, status and reason of each condition of a pod."""


class StatusReader:
    """Turns the status in a pod's JSON into shared PodStatus objects."""

    def __init__(self, tables: InternTables) -> None:
        self._tables: Final = tables
        self._intern: Final = tables.texts.intern

    def status(self, wire: WirePodStatus) -> PodStatus:
        """Return the interned PodStatus.

        Its parts are interned first: their hashes and comparisons then cost next to nothing.
        """
        key = tuple([(c.type, c.status, c.reason) for c in wire.conditions])
        conditions = self._tables.conditions.get(key)
        if conditions is None:
            conditions = self._intern_conditions(key)
        container = self._container
        candidate = PodStatus(
            wire.phase,
            wire.reason,
            wire.qos_class,
            conditions,
            tuple([container(status) for status in wire.container_statuses]),
            tuple([container(status) for status in wire.init_container_statuses]),
            tuple([container(status) for status in wire.ephemeral_container_statuses]),
            wire.nominated_node_name,
        )
        found = self._tables.statuses.get(candidate)
        return self._intern_status(candidate) if found is None else found

    def _intern_conditions(self, key: ConditionTexts) -> tuple[PodCondition, ...]:
        made = tuple([PodCondition(*map(self._intern, texts)) for texts in key])
        return self._tables.conditions.put(key, made)

    def _container(self, wire: WireContainerStatus) -> ContainerStatus:
        waiting, terminated = wire.state.waiting, wire.state.terminated
        candidate = ContainerStatus(
            wire.name,
            wire.restart_count,
            "" if waiting is None else waiting.reason,
            "" if terminated is None else terminated.reason,
            None if terminated is None else terminated.exit_code,
        )
        found = self._tables.container_statuses.get(candidate)
        return self._intern_container(candidate) if found is None else found

    def _intern_container(self, status: ContainerStatus) -> ContainerStatus:
        text = self._intern
        made = ContainerStatus(
            text(status.name),
            status.restart_count,
            text(status.waiting_reason),
            text(status.terminated_reason),
            status.exit_code,
        )
        return self._tables.container_statuses.put(made, made)

    def _intern_status(self, status: PodStatus) -> PodStatus:
        text = self._intern
        made = replace(
            status,
            phase=text(status.phase),
            reason=text(status.reason),
            qos_class=text(status.qos_class),
        )
        return self._tables.statuses.put(made, made)

    def transitions(
        self, conditions: Iterable[WirePodCondition], created_s: int
    ) -> tuple[int | None, ...]:
        """Return when each condition last changed, in seconds after the creation of the pod.

        Relative to the creation, most healthy pods have the same few small numbers.
        """
        seconds = tuple(
            [
                None
                if (changed := condition.last_transition_time) is None
                else (since := changed - EPOCH).days * DAY_S + since.seconds - created_s
                for condition in conditions
            ]
        )
        return self._tables.transitions.intern(seconds)
