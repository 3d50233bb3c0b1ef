"""An evaluation: the decision on one finding, the change that led to it, and its context.

The context is what records add to the finding: profile, trigger, owners and zone.
"""

from collections.abc import Hashable
from typing import Final

from msgspec import Struct

from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Decision
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


class ChangeTrigger(Struct, frozen=True, gc=False):
    """The first change since a subject was last evaluated, and when the controller saw it.

    `seen_at` is monotonic seconds. `resource_version` is that of the object whose event led to
    the change; 0 where no event did, or where the server's versions are no numbers.
    """

    change: Change
    seen_at: float
    resource_version: int = 0

    @property
    def record(self) -> Trigger:
        """The trigger as journal records hold it."""
        version = str(self.resource_version) if self.resource_version else ""
        return Trigger(self.change.kind, self.change.object_name, version)

    def __str__(self) -> str:
        return str(self.record)


class Evaluation(Struct, frozen=True):
    """A finding of a profile's plugin on a subject, with the decision on it.

    `changed` is false when the decision repeats the last one on this finding; `is_new` says that
    the finding was not blocked before, but for the time that it had to stand. `decided_at` is
    monotonic seconds. `instance` is the plugin instance that yielded the finding.
    """

    profile: str
    subject: Hashable
    decision: Decision
    trigger: ChangeTrigger
    decided_at: float
    changed: bool = True
    is_new: bool = False
    instance: Hashable = None

    @property
    def finding(self) -> Finding:
        """The finding decided on."""
        return self.decision.finding

    @property
    def plugin(self) -> str:
        """The name of the plugin that yielded the finding."""
        return self.decision.finding.plugin
