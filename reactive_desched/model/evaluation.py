"""An evaluation: the decision on one finding and what led to it; and the intent that follows.

The context is what records add to the finding: profile, trigger, owners and zone. An intent is
complete enough to be recorded before it is carried out.
"""

from collections.abc import Hashable
from typing import Final

from msgspec import Struct

from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Decision
from reactive_desched.model.eviction_options import BY_EVICTION, EVICTION, EvictionOptions
from reactive_desched.model.findings import Finding
from reactive_desched.model.modes import ACT, OBSERVE, Mode
from reactive_desched.model.objects import OwnerReference, Pod
from reactive_desched.model.outcomes import NOT_KNOWN, Outcome, RequestTime


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

    `owners` are the pod's controller, that one's controller and so on. `is_observed` says that
    what is decided is only shown.
    """

    finding: Finding
    profile: str = ""
    trigger: Trigger = Trigger()
    owners: tuple[OwnerReference, ...] = ()
    zone: str = ""
    is_observed: bool = False


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
    monotonic seconds. `instance` is the plugin instance that yielded the finding, and `mode` says
    what is done with what it finds. `found_as_decided` says that the plugin found it in the same
    state of the cluster in which the gates decided on it.
    """

    profile: str
    subject: Hashable
    decision: Decision
    trigger: ChangeTrigger
    decided_at: float
    changed: bool = True
    is_new: bool = False
    instance: Hashable = None
    mode: Mode = ACT
    found_as_decided: bool = False

    @property
    def is_observed(self) -> bool:
        """Say whether the decision is only shown."""
        return self.mode == OBSERVE

    @property
    def finding(self) -> Finding:
        """The finding decided on."""
        return self.decision.finding

    @property
    def plugin(self) -> str:
        """The name of the plugin that yielded the finding."""
        return self.decision.finding.plugin


class Intent(Struct, frozen=True, gc=False):
    """One eviction that every gate agreed to, and the account of what led to it.

    `grace_period_s` is that of the policy file, which holds where the finding asks for none, and
    `evictor` that of the profile, for findings that have no options of their own.
    """

    context: DecisionContext
    grace_period_s: int | None = None
    evictor: str = EVICTION

    @property
    def pod(self) -> Pod:
        """The pod to evict."""
        return self.context.finding.pod

    @property
    def options(self) -> EvictionOptions:
        """Return how the pod is asked to leave."""
        asked = self.context.finding.options
        if asked is None:
            asked = EvictionOptions(self.evictor) if self.evictor != EVICTION else BY_EVICTION
        return asked.or_grace_period(self.grace_period_s)

    @property
    def plugin(self) -> str:
        """The plugin that yielded the finding."""
        return self.context.finding.plugin

    @property
    def is_observed(self) -> bool:
        """Say whether no request is sent: what would follow is assumed."""
        return self.context.is_observed

    @property
    def message(self) -> str:
        """Return why the pod should leave, for a person to read."""
        return self.context.finding.message


class EvictionResult(Struct, frozen=True, gc=False):
    """The result of carrying out an intent.

    `sent_at` is when the eviction request was sent, or would have been, in monotonic seconds.
    `request_id` is the id of its record; empty where none was written. `sent` is the same moment
    by the other clocks.
    """

    intent: Intent
    outcome: Outcome
    sent_at: float
    request_id: str = ""
    sent: RequestTime = NOT_KNOWN
