"""One look at one subject: what led to it and what was decided."""

from collections.abc import Callable

from msgspec import Struct

from reactive_desched.model.changes import Change, about
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding
from reactive_desched.react.instances import Instance, Key


class Cause(Struct, frozen=True, gc=False):
    """What made us look: the first change since the last look, and when it was seen.

    `at` is monotonic seconds.
    """

    change: Change
    at: float

    def __str__(self) -> str:
        return f"{self.change.kind} {about(self.change)}".rstrip()


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
