"""A pod's status: its JSON, and the PodStatus that pods in the same condition share."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec import Raw

from reactive_desched.model.objects import ContainerStatus, PodCondition, PodStatus
from reactive_desched.state.kinds.interning import DAY_S, EPOCH, InternTables
from reactive_desched.state.kinds.kind import EMPTY_OBJECT, Timestamp, WireStruct

__all__ = ["StatusReader", "WireContainerStatus", "WirePodStatus"]


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


class StatusReader:
    """Turns the status in a pod's JSON into shared PodStatus objects."""

    def __init__(self, tables: InternTables) -> None:
        self._tables: Final = tables
        self._intern: Final = tables.texts.intern

    def status(self, wire: WirePodStatus) -> PodStatus:
        """Return the interned PodStatus."""
        candidate = PodStatus(
            phase=wire.phase,
            reason=wire.reason,
            qos_class=wire.qos_class,
            conditions=tuple([PodCondition(c.type, c.status, c.reason) for c in wire.conditions]),
            containers=tuple(map(_container_status, wire.container_statuses)),
            init_containers=tuple(map(_container_status, wire.init_container_statuses)),
            ephemeral_containers=tuple(map(_container_status, wire.ephemeral_container_statuses)),
        )
        found = self._tables.statuses.get(candidate)
        return self._intern_new_status(candidate) if found is None else found

    def _intern_new_status(self, status: PodStatus) -> PodStatus:
        """Keep a new PodStatus, built from texts and conditions that are shared themselves."""
        text = self._intern
        made = PodStatus(
            phase=text(status.phase),
            reason=text(status.reason),
            qos_class=text(status.qos_class),
            conditions=self._tables.conditions.intern(
                tuple(map(self._intern_condition, status.conditions))
            ),
            containers=tuple(map(self._intern_container, status.containers)),
            init_containers=tuple(map(self._intern_container, status.init_containers)),
            ephemeral_containers=tuple(map(self._intern_container, status.ephemeral_containers)),
        )
        return self._tables.statuses.intern(made)

    def _intern_condition(self, condition: PodCondition) -> PodCondition:
        text = self._intern
        return PodCondition(text(condition.type), text(condition.status), text(condition.reason))

    def _intern_container(self, container: ContainerStatus) -> ContainerStatus:
        text = self._intern
        return ContainerStatus(
            name=text(container.name),
            restart_count=container.restart_count,
            waiting_reason=text(container.waiting_reason),
            terminated_reason=text(container.terminated_reason),
            exit_code=container.exit_code,
        )

    def transitions(
        self, conditions: Iterable[WirePodCondition], created: datetime | None
    ) -> tuple[int | None, ...]:
        """Return when each condition last changed, in seconds after the creation of the pod.

        Relative to the creation, most healthy pods have the same few small numbers.
        """
        start = EPOCH if created is None else created.replace(microsecond=0)
        seconds = [
            None
            if (changed := condition.last_transition_time) is None
            else (after := changed - start).days * DAY_S + after.seconds
            for condition in conditions
        ]
        return self._tables.transitions.intern(tuple(seconds))


def _container_status(wire: WireContainerStatus) -> ContainerStatus:
    waiting, terminated = wire.state.waiting, wire.state.terminated
    return ContainerStatus(
        name=wire.name,
        restart_count=wire.restart_count,
        waiting_reason="" if waiting is None else waiting.reason,
        terminated_reason="" if terminated is None else terminated.reason,
        exit_code=None if terminated is None else terminated.exit_code,
    )
