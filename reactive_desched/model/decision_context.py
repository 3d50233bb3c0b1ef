"""The context of a decision that a record adds to its finding: profile, trigger, owners, zone."""

from typing import Final

from msgspec import Struct

from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import OwnerReference


class Trigger(Struct, frozen=True, gc=False):
    """A change, the object it is about, and that object's resourceVersion.

    `object_name` is empty where a change is about no single object, such as a start. The version is
    that of the object whose event led to the change, even where `object_name` is empty; it is empty
    where no event did: after a start, when time has passed, when an eviction has ended.
    """

    change: str = ""
    object_name: str = ""
    resource_version: str = ""

    def __str__(self) -> str:
        return f"{self.change} {self.object_name}".rstrip()


SWEEP: Final = Trigger("Sweep")
"""What led to everything that a sweep finds."""


class DecisionContext(Struct, frozen=True, gc=False):
    """A finding with its profile, its trigger, and the owners and zone of its pod at that time.

    `owners` are the pod's controller, that one's controller and so on.
    """

    finding: Finding
    profile: str = ""
    trigger: Trigger = Trigger()
    owners: tuple[OwnerReference, ...] = ()
    zone: str = ""
