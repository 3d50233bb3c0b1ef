"""koordinator's Reservation: room on a node that its scheduler keeps for certain pods."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from reactive_desched.model.migration_jobs import PodReference
from reactive_desched.model.resources import ResourceList

RESERVATION_API: Final = "scheduling.koordinator.sh/v1alpha1"
RESERVATION_KIND: Final = "Reservation"
RESERVATIONS: Final = "reservations"

ORDER_LABEL: Final = "scheduling.koordinator.sh/reservation-order"
"""koordinator's label: of a pod's Reservations its scheduler takes that of the smallest number."""
CREATED_BY: Final = "app.kubernetes.io/created-by"
CREATOR: Final = "reactive-desched"


class ReservationPhase(StrEnum):
    """The phase of a Reservation; one that was just made has none, which means Pending."""

    NONE = ""
    PENDING = "Pending"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    WAITING = "Waiting"
    FAILED = "Failed"


class Reservation(Struct, frozen=True, gc=False, kw_only=True):
    """One Reservation, of which only that is kept which decides.

    `is_scheduled` says that it has a node, `unschedulable` why no node can take it. `taken_by` is
    the pod that was bound into the place. `is_for_pod` says that an owner is a single pod: one that
    waits for a node itself. `is_ours` says that this program made it.
    """

    name: str
    uid: str
    resource_version: int = 0
    phase: ReservationPhase = ReservationPhase.NONE
    node: str = ""
    requests: ResourceList = {}
    is_scheduled: bool = False
    unschedulable: str = ""
    is_expired: bool = False
    taken_by: PodReference | None = None
    is_for_pod: bool = False
    is_ours: bool = False
    has_order: bool = False
    is_terminating: bool = False

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def is_pending(self) -> bool:
        """Say whether it waits for a node."""
        return self.phase in (ReservationPhase.NONE, ReservationPhase.PENDING)

    @property
    def keeps_room(self) -> bool:
        """Say whether it takes room on its node that no pod takes yet."""
        return self.phase is ReservationPhase.AVAILABLE and bool(self.node)
