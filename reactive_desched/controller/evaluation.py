"""One look at one subject: what led to it and what was decided."""

from collections.abc import Callable

from msgspec import Struct

from reactive_desched.controller.subscriptions import Instance, Key
from reactive_desched.model.changes import Change, about
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding
from reactive_desched.model.triggers import Trigger


class Cause(Struct, frozen=True, gc=False):
    """What made us look: the first change since the last look, and when it was seen.

    `at` is monotonic seconds. `version` is the resourceVersion of the object whose event led to
    the change; 0 where no event did, or where the server's versions are no numbers.
    """

    change: Change
    at: float
    version: int = 0

    @property
    def trigger(self) -> Trigger:
        """What records say of it."""
        version = str(self.version) if self.version else ""
        return Trigger(self.change.kind, about(self.change), version)

    def __str__(self) -> str:
        return str(self.trigger)


class Judgement(Struct, frozen=True):
    """A finding with the gate's decision on it; `is_news` unless it repeats the last one."""

    key: Key
    decision: Decision
    cause: Cause
    at: float
    is_news: bool = True

    @property
    def instance(self) -> Instance:
        """The plugin instance whose finding this is."""
        return self.key[0]

    @property
    def finding(self) -> Finding:
        """The finding decided on."""
        return self.decision.finding


Report = Callable[[Judgement], None]
