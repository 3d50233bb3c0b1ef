"""The context of a decision that a record adds to its finding: profile, trigger, owners, zone."""

from msgspec import Struct

from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import OwnerReference
from reactive_desched.model.triggers import Trigger


class DecisionContext(Struct, frozen=True, gc=False):
    """A finding with its profile, its trigger, and the owners and zone of its pod at that time.

    `owners` are the pod's controller, that one's controller and so on.
    """

    finding: Finding
    profile: str = ""
    trigger: Trigger = Trigger()
    owners: tuple[OwnerReference, ...] = ()
    zone: str = ""
