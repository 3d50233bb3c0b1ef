"""What the record tells of a finding besides the finding itself."""

from msgspec import Struct

from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import OwnerReference
from reactive_desched.model.triggers import Trigger


class DecisionContext(Struct, frozen=True, gc=False):
    """A finding, whose opinion it is, what made us look, and where its pod belonged just then.

    `owners` are the pod's controller, that one's controller and so on.
    """

    finding: Finding
    profile: str = ""
    trigger: Trigger = Trigger()
    owners: tuple[OwnerReference, ...] = ()
    zone: str = ""
