"""The trigger of an evaluation: which change of which object, as records keep it."""

from typing import Final

from msgspec import Struct


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
