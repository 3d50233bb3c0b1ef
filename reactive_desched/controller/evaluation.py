"""One look at one subject: what led to it and what was decided."""

from collections.abc import Callable

from msgspec import Struct

from reactive_desched.controller.subscriptions import PluginInstance, SubjectKey
from reactive_desched.model.changes import Change, changed_object
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding
from reactive_desched.model.triggers import Trigger


class ChangeTrigger(Struct, frozen=True, gc=False):
    """What made us look: the first change since the last look, and when it was seen.

    `at` is monotonic seconds. `version` is the resourceVersion of the object whose event led to
    the change; 0 where no event did, or where the server's versions are no numbers.
    """

    change: Change
    seen_at: float
    resource_version: int = 0

    @property
    def record(self) -> Trigger:
        """What records say of it."""
        version = str(self.resource_version) if self.resource_version else ""
        return Trigger(self.change.kind, changed_object(self.change), version)

    def __str__(self) -> str:
        return str(self.record)


class Evaluation(Struct, frozen=True):
    """A finding with the gate's decision on it; `is_news` unless it repeats the last one."""

    key: SubjectKey
    decision: Decision
    trigger: ChangeTrigger
    decided_at: float
    changed: bool = True

    @property
    def instance(self) -> PluginInstance:
        """The plugin instance whose finding this is."""
        return self.key[0]

    @property
    def finding(self) -> Finding:
        """The finding decided on."""
        return self.decision.finding


OnDecision = Callable[[Evaluation], None]
