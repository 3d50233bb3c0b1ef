"""Reservations of koordinator's API: places that its scheduler keeps for the pods of jobs."""

from typing import Final

from msgspec import Raw

from reactive_desched.model.migration_jobs import JobCondition, PodReference
from reactive_desched.model.reservations import (
    CREATED_BY,
    CREATOR,
    ORDER_LABEL,
    RESERVATION_API,
    RESERVATION_KIND,
    RESERVATIONS,
    Reservation,
    ReservationPhase,
)
from reactive_desched.model.resources import PODS, parse_resource_list
from reactive_desched.state.kinds.interning import parse_resource_version, quantity_texts
from reactive_desched.state.kinds.kind import (
    Metadata,
    Presence,
    Purpose,
    Timestamp,
    WatchedKind,
    WireStruct,
)

__all__ = ["RESERVATION"]

_PHASES: Final = frozenset(ReservationPhase)


class ReservationMetadata(Metadata, frozen=True, gc=False):
    """A Reservation's metadata."""

    deletion_timestamp: Timestamp | None = None


class ReservationOwner(WireStruct, frozen=True, gc=False):
    """For which pods the place is kept: every part that is given must hold."""

    object: Presence | None = None
    controller: Presence | None = None
    label_selector: Presence | None = None


class ReservationSpec(WireStruct, frozen=True, gc=False):
    """The spec of a Reservation."""

    owners: tuple[ReservationOwner, ...] = ()


class ReservationStatus(WireStruct, frozen=True, gc=False):
    """The status of a Reservation."""

    phase: str = ""
    node_name: str = ""
    allocatable: dict[str, Raw] | None = None
    current_owners: tuple[PodReference, ...] = ()
    conditions: tuple[JobCondition, ...] = ()


class WireReservation(WireStruct, frozen=True, gc=False):
    """A Reservation's JSON."""

    metadata: ReservationMetadata
    spec: ReservationSpec = ReservationSpec()
    status: ReservationStatus = ReservationStatus()


def _read(wire: WireReservation) -> Reservation:
    metadata, status = wire.metadata, wire.status
    conditions = {(each.type, each.reason): each for each in status.conditions}
    scheduled = conditions.get(("Scheduled", "Scheduled"))
    unschedulable = conditions.get(("Scheduled", "Unschedulable"))
    phase = ReservationPhase(status.phase) if status.phase in _PHASES else ReservationPhase.WAITING
    room = parse_resource_list(quantity_texts(status.allocatable or {}))
    return Reservation(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        phase=phase,
        node=status.node_name,
        requests={**room, PODS: 1},
        is_scheduled=bool(
            status.node_name and scheduled is not None and scheduled.status == "True"
        ),
        unschedulable="" if unschedulable is None else unschedulable.message or "no node fits",
        is_expired=phase is ReservationPhase.FAILED and ("Ready", "Expired") in conditions,
        taken_by=status.current_owners[0] if status.current_owners else None,
        is_for_pod=any(_is_single_pod(owner) for owner in wire.spec.owners),
        is_ours=metadata.labels.get(CREATED_BY) == CREATOR,
        has_order=ORDER_LABEL in metadata.labels,
        is_terminating=metadata.deletion_timestamp is not None,
    )


def _is_single_pod(owner: ReservationOwner) -> bool:
    return owner.object is not None and owner.controller is None and owner.label_selector is None


RESERVATION: Final = WatchedKind(
    kind=RESERVATION_KIND,
    resource=RESERVATIONS,
    api_version=RESERVATION_API,
    namespaced=False,
    record=Reservation,
    wire=WireReservation,
    make_reader=lambda _: _read,
    purpose=Purpose.RESERVATIONS,
    read_for="places that koordinator's scheduler keeps for the pods of migration jobs; watched "
    "only while the settings have `migration.schedulerNames`",
    if_forbidden="jobs of mode ReservationFirst wait until their time is over",
)
