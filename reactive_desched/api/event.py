"""The wire format of published events, as CloudEvents 1.0.

An event is one JSON object in canonical form (RFC 8785): the journal, a Kafka value and a
server-sent event hold the same bytes, so one hash chain covers them all. Within a version (the
last part of a type) fields are only ever added, always optional; readers ignore unknown fields,
and treat values such as results, gates and reasons as open lists. A field `reason` holds a
CamelCase code of docs/reference/reasons.md, a field `message` text for people.

A type of event is one declaration: the struct of its data below `EventData`, its name in
`@event_data`, its meaning (the docstring, or a text of its own), and `describe`, its line in lists.
Schemas, filters by type, and docs/reference/events.md follow from that.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Final, Generic, Literal, NamedTuple, TypeVar

from msgspec import Meta, Struct

from reactive_desched.model.approvals import short_id
from reactive_desched.model.event_types import TYPE_PREFIX, full_type
from reactive_desched.model.evictor_table import EVICTORS
from reactive_desched.text.ages import format_duration
from reactive_desched.text.counts import agree, and_more, format_count
from reactive_desched.text.times import format_time
from reactive_desched.text.workloads import name_of_key

MODE_LIVE: Final = "live"
MODE_DRY_RUN: Final = "dry_run"

_MS_IN_S: Final = 1000
_DIGEST_CHARS: Final = 12

_D = TypeVar("_D")


class EventData(Struct, frozen=True, gc=False, rename="camel"):
    """The data of an event; each subclass is that of one type, or of several."""

    def describe(self) -> str:
        """Return what happened in one line, for people; what shows it makes it printable."""
        raise NotImplementedError

    @property
    def pod(self) -> "Who | None":
        """The pod that the event is about; None for an event that is about no pod."""
        return getattr(self, "who", None)


class EventType(Struct, frozen=True):
    """A type of event: its name, what it says, and the revision of its schema.

    The meaning is left out where it is the docstring of its data. The revision is raised when an
    optional field is added.
    """

    name: str
    meaning: str = ""
    revision: int = 1


_data_types: dict[str, type[EventData]] = {}
_event_types: dict[str, EventType] = {}
_T = TypeVar("_T", bound=type[EventData])

DATA_TYPES: Final[Mapping[str, type[EventData]]] = MappingProxyType(_data_types)
"""The data struct of each type of event."""

EVENT_TYPES: Final[Mapping[str, EventType]] = MappingProxyType(_event_types)
"""Each type of event by its name, with its meaning."""


def event_data(*types: EventType) -> Callable[[_T], _T]:
    """Declare that events of these types have the struct below as their data."""

    def declare(data: _T) -> _T:
        if data.describe is EventData.describe:
            raise TypeError(f"{data.__name__} does not define describe()")
        for type_ in types:
            meaning = type_.meaning or " ".join((data.__doc__ or "").split())
            _data_types[type_.name] = data
            _event_types[type_.name] = EventType(type_.name, meaning, type_.revision)
        return data

    return declare


def type_of(data: EventData) -> str:
    """Return the type of an event with this data, which is the data of one type only."""
    [type_] = (name for name, declared in _data_types.items() if declared is type(data))
    return type_


def _described(description: str) -> Meta:
    return Meta(description=description)


def _with_code(owner: str, reason: str) -> str:
    return f"{owner} ({reason})" if reason and reason != owner else owner


class Owner(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """An object that owns the pod, or owns its owner."""

    api_version: Annotated[str, _described("Its API version, such as apps/v1.")]
    kind: Annotated[str, _described("Its kind, such as ReplicaSet.")]
    name: Annotated[str, _described("Its name; its namespace is the pod's.")]
    uid: Annotated[str, _described("Its uid.")]


class Who(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """The pod, as it was when the event happened."""

    name: Annotated[str, _described("The pod's name.")]
    namespace: Annotated[str, _described("The pod's namespace.")]
    node: Annotated[str, _described("The node the pod ran on.")]
    owners: Annotated[
        tuple[Owner, ...],
        _described("Its controller, the controller of that, and so on; empty for a bare pod."),
    ]
    template_hash: Annotated[
        str,
        _described(
            "The hash of the owner's pod template: the label pod-template-hash, else "
            "controller-revision-hash; left out when the pod has neither."
        ),
    ] = ""
    uid: Annotated[str, _described("The pod's uid: names come back, uids never do.")]
    zone: Annotated[str, _described("The zone of the node; empty when it has none.")]


_BY: Final = {"delete": ", by deletion", "soft-evict": ", by the annotation of a soft eviction"}


def _actions() -> str:
    """Return the actions of all evictors, for people."""
    each_does = ((each.action, each.does) for each in EVICTORS.values())
    return "; ".join(": ".join(filter(None, does)) for does in each_does)


class What(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """The action on the pod, taken or simulated."""

    action: Annotated[
        str,
        _described(f"How the pod is moved: {_actions()}."),
    ]
    grace_period_seconds: Annotated[
        int | None, _described("The grace period requested; left out: the pod's own.")
    ] = None


class Why(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The plugin and profile that found the pod, and the reason for it to leave its node."""

    message: Annotated[str, _described("Why the pod should leave, for people.")]
    numbers: Annotated[
        Mapping[str, int | str],
        _described("The figures behind the message, by name; may be empty."),
    ]
    plugin: Annotated[str, _described("The plugin, by the name policies give it.")]
    policy_revision: Annotated[str, _described("The revision of the policy in force.")]
    profile: Annotated[str, _described("The policy's profile.")]


class Cause(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The change that led to the evaluation: the first one since the subject was last evaluated."""

    change: Annotated[str, _described("The kind of change, such as NodeTaintsChanged.")]
    object: Annotated[
        str, _described("The changed object, such as `node n1`; empty: no single object.")
    ]
    resource_version: Annotated[
        str,
        _described("Of the object whose watch event led to the change; empty without one."),
    ]


class Verdict(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """The decision of the gates on a finding."""

    # what is published keeps its name; elsewhere a decision is called a decision
    verdict: Annotated[
        str, _described("evict, defer (evaluated again at a time) or refuse (until a change).")
    ]
    gate: Annotated[
        str, _described("The gate that deferred or refused the eviction; left out for evict.")
    ] = ""
    message: Annotated[str, _described("The reason with its numbers, for people.")] = ""
    reason: Annotated[
        str, _described("The gate's reason, a CamelCase code; left out for evict.")
    ] = ""

    def describe(self) -> str:
        """Return the gate, its reason code and its message."""
        if not self.gate:
            return "every gate agrees"
        message = f": {self.message}" if self.message else ""
        return f"{_with_code(self.gate, self.reason)}{message}"


class Ending(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """The outcome of an eviction that was requested."""

    result: Annotated[
        str,
        _described(
            "evicted, pdb_refused, too_many_requests, not_found, conflict, denied, failed, "
            "cancelled (no request was sent), unknown, or dry_run."
        ),
    ]
    message: Annotated[str, _described("The API server's words, or ours, for people.")] = ""
    reason: Annotated[str, _described("How the result came about, a CamelCase code.")] = ""
    took_ms: Annotated[
        int | None,
        _described("Milliseconds from the intent to its outcome; left out after a restart."),
    ] = None

    def describe(self) -> str:
        """Return the result, its reason code, how long it took, and the message."""
        took_ms = self.took_ms
        took = "" if took_ms is None else f" after {format_duration(took_ms / _MS_IN_S)}"
        message = f": {self.message}" if self.message else ""
        return f"{_with_code(self.result, self.reason)}{took}{message}"


class Replacement(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """The pod that the owner created in place of an evicted one."""

    name: Annotated[str, _described("Its name.")]
    node: Annotated[str, _described("The node it was bound to; left out: none.")] = ""
    uid: Annotated[str, _described("Its uid.")]


class FollowUp(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """The replacement of an evicted pod, and whether it is better off."""

    result: Annotated[
        str,
        _described(
            "moved (the replacement is Ready on another node), returned (Ready on the node that "
            "the evicted pod left), not_ready (bound, and not Ready in time), unscheduled (not "
            "bound in time), not_replaced (none was created in time), owner_gone (the owner was "
            "deleted, or wants fewer pods), or not_followed (the controller was not running or "
            "followed too many others, or the pod stayed and was evicted again)."
        ),
    ]
    finding_holds: Annotated[
        bool | None,
        _described(
            "Whether the plugin finds the same of the replacement, where it is now. Of a plugin "
            "that balances also true when the replacement returned, or is on a node that the "
            "plugin would relieve as well. Left out when there is none, or the plugin is not in "
            "force any more."
        ),
    ] = None
    message: Annotated[str, _described("The same for people.")] = ""
    ready_ms: Annotated[
        int | None,
        _described("Milliseconds from the accepted eviction until the replacement was Ready."),
    ] = None
    replacement: Annotated[
        Replacement | None, _described("The replacement; left out when there is none.")
    ] = None
    scheduled_ms: Annotated[
        int | None,
        _described("Milliseconds from the accepted eviction until the replacement was bound."),
    ] = None

    def describe(self) -> str:
        """Return the result, the replacement, how long it took, and whether the finding holds."""
        parts = [self.result]
        if (pod := self.replacement) is not None:
            parts.append(f"{pod.name} on {pod.node}" if pod.node else f"{pod.name} on no node")
        if (took_ms := self.ready_ms) is not None:
            parts.append(f"Ready after {format_duration(took_ms / _MS_IN_S)}")
        if (holds := self.finding_holds) is not None:
            parts.append("the finding holds there" if holds else "the finding does not hold there")
        message = f": {self.message}" if self.message else ""
        return ", ".join(parts) + message


Mode = Annotated[
    Literal["live", "dry_run"],
    _described("live, or dry_run: the controller sends no eviction request to the API server."),
]


class PodData(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The fields of every event about a pod."""

    mode: Mode
    trigger: Cause
    what: What
    who: Who
    why: Why


class Uptime(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The time since the controller's machine booted, which no step of its clock alters."""

    boot_id: Annotated[str, _described("The name of the boot: /proc/sys/kernel/random/boot_id.")]
    milliseconds: Annotated[int, _described("Since that boot, suspended time included.")]


UptimeOrNone = Annotated[
    Uptime | None,
    _described(
        "When this happened, by the uptime of the controller's machine; left out where the machine "
        "does not name its boots."
    ),
]


ServerTimeOrNone = Annotated[
    datetime | None,
    _described(
        "The same moment by the API server's clock, from the header Date of its responses: early "
        "by a second and by what a response takes, at most. Left out before the first response."
    ),
]


FINDING_MADE: Final = full_type("finding.made")


@event_data(
    EventType(
        FINDING_MADE,
        "A plugin found that a pod should leave its node.",
        revision=2,
    ),
)
class FindingMade(PodData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A plugin found that the pod should leave its node."""

    def describe(self) -> str:
        """Return why the pod should leave."""
        return self.why.message


DECISION_EVICT: Final = full_type("decision.evict")
DECISION_DEFER: Final = full_type("decision.defer")
DECISION_REFUSE: Final = full_type("decision.refuse")


@event_data(
    EventType(
        DECISION_EVICT,
        "Every gate agreed to the eviction; an eviction.requested follows.",
        revision=2,
    ),
    EventType(
        DECISION_DEFER,
        "A gate deferred the eviction: the finding is evaluated again later.",
        revision=2,
    ),
    EventType(
        DECISION_REFUSE,
        "A gate refused the eviction until a change of the cluster.",
        revision=2,
    ),
)
class DecisionMade(PodData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A decision on a finding, recorded when its gate or reason differs from the last one."""

    decision: Verdict

    def describe(self) -> str:
        """Return the decision."""
        return self.decision.describe()


EVICTION_REQUESTED: Final = full_type("eviction.requested")


@event_data(
    EventType(
        EVICTION_REQUESTED,
        "An eviction request is about to be sent. Durable before it is sent; exactly one of "
        "the four outcomes follows, also across a crash.",
        revision=2,
    ),
)
class EvictionRequested(
    PodData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """Durable before the request is sent; exactly one outcome follows, also across a crash."""

    attempt: Annotated[int, _described("Which eviction request for this finding it is, from 1.")]
    phase: Annotated[
        str,
        _described(
            "The phase of a pod that had ended, Succeeded or Failed; left out of any other. Unless "
            "its controller creates another pod then, its eviction takes tokens of "
            "`budgets.ended` alone."
        ),
    ] = ""
    server_time: ServerTimeOrNone = None
    uptime: UptimeOrNone = None

    def describe(self) -> str:
        """Return the attempt and how the eviction is requested."""
        grace = self.what.grace_period_seconds
        text = f"attempt {self.attempt}" + ("" if grace is None else f", grace period {grace} s")
        text += _BY.get(self.what.action, "")
        return f"{text}, dry run" if self.mode == MODE_DRY_RUN else text


EVICTION_SUCCEEDED: Final = full_type("eviction.succeeded")
EVICTION_REFUSED: Final = full_type("eviction.refused")
EVICTION_UNKNOWN: Final = full_type("eviction.unknown")
EVICTION_DRY_RUN: Final = full_type("eviction.dry_run")

EVICTION_OUTCOME_TYPES: Final = frozenset(
    {EVICTION_SUCCEEDED, EVICTION_REFUSED, EVICTION_UNKNOWN, EVICTION_DRY_RUN}
)
"""The types of outcomes: exactly one of them follows each eviction.requested."""


@event_data(
    EventType(
        EVICTION_SUCCEEDED,
        "An outcome: the API server accepted the eviction.",
        revision=2,
    ),
    EventType(
        EVICTION_REFUSED,
        "An outcome: no eviction took place; `outcome.reason` says why.",
        revision=2,
    ),
    EventType(
        EVICTION_UNKNOWN,
        "An outcome: no response came; whether we evicted the pod is unknown.",
        revision=2,
    ),
    EventType(
        EVICTION_DRY_RUN,
        "An outcome: a dry run; no request was sent.",
        revision=2,
    ),
)
class EvictionEnded(
    PodData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """The outcome of an eviction that was requested."""

    attempt: Annotated[int, _described("Which eviction request for this finding it is, from 1.")]
    outcome: Ending
    server_time: ServerTimeOrNone = None
    uptime: UptimeOrNone = None

    def describe(self) -> str:
        """Return the outcome."""
        return self.outcome.describe()


EVICTION_CORRECTED: Final = full_type("eviction.corrected")


@event_data(
    EventType(
        EVICTION_CORRECTED,
        "An outcome `failed` or `unknown` was not the last word: what the pod showed later. "
        "It names the outcome that it corrects.",
    ),
)
class EvictionCorrected(
    PodData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """Replaces an outcome, by what the pod showed later; the record of that outcome stays.

    At most one follows an outcome `failed` or `unknown`.
    """

    attempt: Annotated[int, _described("Which eviction request for this finding it is, from 1.")]
    corrects: Annotated[
        str, _described("The id of the outcome whose `outcome` this one takes the place of.")
    ]
    outcome: Ending
    server_time: ServerTimeOrNone = None
    uptime: UptimeOrNone = None

    def describe(self) -> str:
        """Return the outcome that it turned out to be."""
        return self.outcome.describe()


EVICTION_FOLLOWED_UP: Final = full_type("eviction.followed_up")


@event_data(
    EventType(
        EVICTION_FOLLOWED_UP,
        "What came of an eviction: where the replacement went, how long that took, and "
        "whether the finding holds there. One follows each eviction.succeeded and "
        "eviction.unknown, and each eviction.refused that was corrected.",
    ),
)
class EvictionFollowedUp(
    PodData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """Says how the move of an evicted pod ended; each eviction has one, in time, also a restart."""

    attempt: Annotated[int, _described("Which eviction request for this finding it is, from 1.")]
    follow_up: FollowUp
    server_time: ServerTimeOrNone = None
    uptime: UptimeOrNone = None

    def describe(self) -> str:
        """Return what became of the pod's place."""
        return self.follow_up.describe()


DISRUPTION_OBSERVED: Final = full_type("disruption.observed")


@event_data(
    EventType(
        DISRUPTION_OBSERVED,
        "Something else than this controller ends a pod: the scheduler, the kubelet, a taint, "
        "another client, or its owner.",
    ),
)
class DisruptionObserved(
    EventData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """Something else than this controller ends a pod; at most one is written of each pod."""

    cause: Annotated[
        str,
        _described(
            "The reason of the pod's condition DisruptionTarget, as Kubernetes has it; without "
            "that condition NamespaceGone, OwnerGone, JobEnded, ScaledDown, RolledOut or Deleted "
            "(nothing says by whom)."
        ),
    ]
    message: Annotated[str, _described("The same for people, with what else is known.")] = ""
    server_time: ServerTimeOrNone = None
    since: Annotated[
        datetime | None,
        _described(
            "When the condition was set, by the API server's clock; left out where it is not known."
        ),
    ] = None
    uptime: UptimeOrNone = None
    who: Who

    def describe(self) -> str:
        """Return what ended the pod."""
        return f"{self.cause}: {self.message}" if self.message else self.cause


class ObjectReference(
    Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """An object of the cluster."""

    api_version: Annotated[str, _described("Its API version, such as v1.")]
    kind: Annotated[str, _described("Its kind, such as Reservation.")]
    name: Annotated[str, _described("Its name.")]
    namespace: Annotated[str, _described("Its namespace; left out for one without.")] = ""
    uid: Annotated[str, _described("Its uid; left out where it is not known.")] = ""


MIGRATION_CARRIED_OUT: Final = full_type("migration.carried_out")


@event_data(
    EventType(
        MIGRATION_CARRIED_OUT,
        "A PodMigrationJob, a Reservation or a placeholder was made or deleted, or could not "
        "be; or a job is over.",
    ),
)
class MigrationCarriedOut(
    EventData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """An object of a migration was made or deleted, or could not be; or its job ended."""

    action: Annotated[str, _described("create, delete, or end: the PodMigrationJob is over.")]
    job: Annotated[str, _described("The PodMigrationJob that it was done for.")]
    job_reason: Annotated[str, _described("Of a job that is over, the reason in its status.")] = ""
    message: Annotated[str, _described("Why, or what went wrong, for people.")] = ""
    object: Annotated[
        ObjectReference,
        _described("The PodMigrationJob, Reservation or placeholder (a Pod) that it is about."),
    ]
    result: Annotated[
        str,
        _described("done, failed (the API server refused), or the phase in which the job ended."),
    ]
    server_time: ServerTimeOrNone = None
    uptime: UptimeOrNone = None
    who: Annotated[Who, _described("The pod that the job moves, as far as it is known.")]

    def describe(self) -> str:
        """Return what was done for a migration job, and how it went."""
        about = self.object
        name = f"{about.namespace}/{about.name}" if about.namespace else about.name
        text = f"{self.action} {about.kind} {name}: {_with_code(self.result, self.job_reason)}"
        if self.job and self.job != about.name:
            text += f", for PodMigrationJob {self.job}"
        return f"{text}: {self.message}" if self.message else text


FUTILE_CLEARED: Final = full_type("futile.cleared")


@event_data(
    EventType(
        FUTILE_CLEARED,
        "A person had the controller forget the moves that did not help an owner.",
    ),
)
class FutileCleared(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A person had the controller forget what it remembers of an owner's moves, or of all."""

    by: Annotated[str, _described("Who did so, as they named themselves.")]
    cleared: Annotated[int, _described("How many owners it had a memory of, and forgot.")]
    message: Annotated[str, _described("Why, as they said; may be empty.")]
    owner: Annotated[str, _described("NAMESPACE/KIND/NAME of the owner; empty: every owner.")]
    owner_uid: Annotated[str, _described("The uid of the owner; empty: every owner.")]

    def describe(self) -> str:
        """Return who cleared the memory of whom, and why."""
        why = f": {self.message}" if self.message else ""
        owner = name_of_key(self.owner) or format_count(self.cleared, "owner")
        return f"{self.by} cleared the memory of {owner}{why}"


EVALUATION_REQUESTED: Final = full_type("evaluation.requested")


@event_data(
    EventType(
        EVALUATION_REQUESTED,
        "A person had the controller evaluate some pods at once.",
    ),
)
class EvaluationRequested(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A person had the controller evaluate what the scope names, without waiting for a change."""

    by: Annotated[str, _described("Who did so, as they named themselves.")]
    message: Annotated[str, _described("Why, as they said; may be empty.")]
    scope: Annotated[str, _described("What was named, such as node n7; or everything.")]

    def describe(self) -> str:
        """Return who asked for what, and why."""
        why = f": {self.message}" if self.message else ""
        return f"{self.by} had {self.scope} evaluated{why}"


NODE_DRAINED: Final = full_type("node.drained")


@event_data(
    EventType(
        NODE_DRAINED,
        "The last pod that had to leave a node that is to be drained has left it.",
    ),
)
class NodeDrained(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A node that is to be drained is empty, but for what a drain leaves there."""

    node: Annotated[str, _described("The node.")]
    node_uid: Annotated[str, _described("The uid of the node.")]
    message: Annotated[str, _described("Who wants that, and why, as its annotation says.")]

    def describe(self) -> str:
        """Return which node is empty, and who wanted that."""
        return f"node {self.node} is drained: {self.message}"


CONSOLIDATION_BEGUN: Final = full_type("consolidation.begun")
CONSOLIDATION_ENDED: Final = full_type("consolidation.ended")


@event_data(
    EventType(
        CONSOLIDATION_BEGUN,
        "The pods of a node begin to leave as one set, so that the node can be removed.",
    ),
)
class ConsolidationBegun(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A node has the taint under which its pods leave as one set."""

    node: Annotated[str, _described("The node.")]
    node_uid: Annotated[str, _described("The uid of the node.")]
    pods: Annotated[int, _described("How many pods have to leave.")]

    def describe(self) -> str:
        """Return which node is emptied, and how many pods leave it."""
        return f"node {self.node} is emptied: {format_count(self.pods, 'pod')} to move"


@event_data(
    EventType(
        CONSOLIDATION_ENDED,
        "A node whose pods left as one set is empty, or its set was given up.",
    ),
)
class ConsolidationEnded(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A set of moves has ended, or a node that it left empty is used again."""

    node: Annotated[str, _described("The node.")]
    node_uid: Annotated[str, _described("The uid of the node.")]
    result: Annotated[
        str,
        _described(
            "`empty`: no pod is left that had to leave; `given_up`: pods are left; `used_again`: "
            "a pod came to the empty node."
        ),
    ]
    message: Annotated[str, _described("Why, for people.")]

    def describe(self) -> str:
        """Return which node it is, and what became of it."""
        words = {"empty": "is empty", "given_up": "is not emptied", "used_again": "is used again"}
        return f"node {self.node} {words.get(self.result, self.result)}: {self.message}"


DELETION_COSTS_WRITTEN: Final = full_type("deletion-costs.written")


@event_data(
    EventType(
        DELETION_COSTS_WRITTEN,
        "Pods have the annotation by which Kubernetes chooses which of a ReplicaSet to delete.",
    ),
)
class DeletionCostsWritten(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The ranks of a plugin that were written to pods after one look."""

    profile: Annotated[str, _described("The profile of the plugin.")]
    plugin: Annotated[str, _described("The plugin that ranks the pods.")]
    pods: Annotated[int, _described("How many pods have another cost now.")]
    left: Annotated[int, _described("How many are to have another one after the next look.")]
    costs: Annotated[
        tuple[str, ...], _described("Each pod as NAMESPACE/NAME, and its cost after a space.")
    ]

    def describe(self) -> str:
        """Return how many costs were written, for which plugin."""
        more = f", {self.left} more to come" if self.left else ""
        return f"{self.plugin} has {format_count(self.pods, 'deletion cost')} written{more}"


ROOM_BEGUN: Final = full_type("room.begun")
ROOM_ENDED: Final = full_type("room.ended")


class _Room(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Room is made on a node for a pod that waits."""

    waiting: Annotated[str, _described("The pod that waits, as NAMESPACE/NAME.")]
    waiting_uid: Annotated[str, _described("The uid of the pod that waits.")]
    node: Annotated[str, _described("The node on which room is made.")]


@event_data(
    EventType(
        ROOM_BEGUN,
        "Pods begin to move as one set, to make room for a pod that the scheduler finds no node "
        "for.",
    ),
)
class RoomBegun(_Room, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A pod that waits is nominated for a node, and pods leave that one."""

    pods: Annotated[int, _described("How many pods move.")]

    def describe(self) -> str:
        """Return for which pod room is made, where, and by how many moves."""
        moves = format_count(self.pods, "pod")
        return f"room for {self.waiting} is made on {self.node}: {moves} to move"


@event_data(
    EventType(
        ROOM_ENDED,
        "A pod for which room was made is bound or gone, or was not bound in time.",
    ),
)
class RoomEnded(_Room, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A set of moves that made room has ended."""

    result: Annotated[
        str,
        _described(
            "`bound`: the pod is on that node; `elsewhere`: it is on another one; `gone`: it was "
            "deleted; `given_up`: it still waits."
        ),
    ]

    def describe(self) -> str:
        """Return which pod it is, and what became of it."""
        words = {
            "bound": f"is bound to {self.node}, where room was made",
            "elsewhere": f"is bound to another node than {self.node}, where room was made",
            "gone": f"is gone; room was made for it on {self.node}",
            "given_up": f"still waits, though room was made on {self.node}",
        }
        return f"{self.waiting} {words.get(self.result, self.result)}"


class _ProposalsAnswered(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A person answered proposals of plugins whose mode is propose."""

    by: Annotated[str, _described("Who did so, as they named themselves.")]
    message: Annotated[str, _described("Why, as they said; may be empty.")]
    proposals: Annotated[
        tuple[str, ...],
        _described("The proposals that were answered; an answer to many has several records."),
    ]
    scope: Annotated[str, _described("What was named, such as group 1a2b3c4d.")]
    until: Annotated[datetime, _described("Until when the answer holds.")]

    def _answered(self, verb: str) -> str:
        why = f": {self.message}" if self.message else ""
        count = format_count(len(self.proposals), "proposal")
        return f"{self.by} {verb} {count} by naming {self.scope}{why}"


PROPOSALS_APPROVED: Final = full_type("proposals.approved")


@event_data(EventType(PROPOSALS_APPROVED, "A person approved evictions that plugins had proposed."))
class ProposalsApproved(_ProposalsAnswered, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A person approved proposals: each pod is evaluated again, by every gate."""

    def describe(self) -> str:
        """Return who approved what, and why."""
        return self._answered("approved")


PROPOSALS_REJECTED: Final = full_type("proposals.rejected")


@event_data(EventType(PROPOSALS_REJECTED, "A person rejected evictions that plugins had proposed."))
class ProposalsRejected(_ProposalsAnswered, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A person rejected proposals: the pods stay until the time that they named."""

    def describe(self) -> str:
        """Return who rejected what, and why."""
        return self._answered("rejected")


PROPOSAL_ENDED: Final = full_type("proposal.ended")


@event_data(EventType(PROPOSAL_ENDED, "What a plugin had proposed is right again, or gone."))
class ProposalEnded(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A proposal ended by itself: its finding does not hold any more."""

    plugin: Annotated[str, _described("The plugin that proposed the eviction.")]
    profile: Annotated[str, _described("Its profile.")]
    proposal: Annotated[str, _described("The proposal.")]
    who: Annotated[Who, _described("The pod, as it was last.")]

    def describe(self) -> str:
        """Return which proposal ended."""
        return (
            f"proposal {short_id(self.proposal)} ended: {self.plugin} finds nothing wrong any more"
        )


class PolicyFile(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """A file of the policy and the settings, as it was read."""

    name: Annotated[str, _described("The file.")]
    path: Annotated[
        str, _described("Where the file lay, as an absolute path; left out by earlier versions.")
    ] = ""
    sha256: Annotated[str, _described("SHA-256 of what the file held, in hexadecimal.")]
    size: Annotated[
        int, _described("How many bytes the file held; left out by earlier versions.")
    ] = 0
    text: Annotated[
        str,
        _described(
            "What the file held, without what stands behind the host in its URLs; left out where "
            "an earlier record of the same process has it, or where it has more than 48 KiB."
        ),
    ] = ""


POLICY_LOADED: Final = full_type("policy.loaded")


@event_data(
    EventType(
        POLICY_LOADED,
        revision=2,
    ),
)
class PolicyLoaded(
    EventData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """A policy came into force."""

    cluster: Annotated[
        str,
        _described(
            "The cluster: its name in the settings, else the uid of its namespace kube-system."
        ),
    ] = ""
    cluster_uid: Annotated[
        str, _described("The uid of the namespace kube-system; left out: it cannot be read.")
    ] = ""
    context: Annotated[
        str,
        _described("The context of the kubeconfig that led to it; left out where there is none."),
    ] = ""
    files: Annotated[
        tuple[PolicyFile, ...], _described("The files; left out by earlier versions.")
    ] = ()
    mode: Mode
    revision: Annotated[
        str, _described("The first 12 digits of the SHA-256 of the file that holds the policy.")
    ]
    source: Annotated[str, _described("The files the policy was read from.")]
    version: Annotated[str, _described("The version of reactive-desched.")]

    def describe(self) -> str:
        """Return the revision, its files, the mode and the version."""
        return f"{self.describe_revision()} from {self.source}, {self.mode}, by {self.version}"

    def describe_revision(self) -> str:
        """Return the revision of the policy, and what its other files, such as settings, held."""
        others = [file for file in self.files if not file.sha256.startswith(self.revision)]
        named = ", ".join(f"{file.name} {file.sha256[:_DIGEST_CHARS]}" for file in others)
        return f"revision {self.revision} with {named}" if named else f"revision {self.revision}"


POLICY_REJECTED: Final = full_type("policy.rejected")


@event_data(EventType(POLICY_REJECTED))
class PolicyRejected(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Changed files were rejected; the policy in force stays."""

    kept: Annotated[str, _described("The revision that stays in force.")]
    problems: Annotated[tuple[str, ...], _described("What is wrong, with file, line and field.")]
    source: Annotated[str, _described("The files the policy was read from.")]

    def describe(self) -> str:
        """Return the revision that stays, and the first problem."""
        more = f" {and_more(len(self.problems) - 1)}" if len(self.problems) > 1 else ""
        return f"revision {self.kept} stays: {''.join(self.problems[:1])}{more}"


LEADER_CHANGED: Final = full_type("leader.changed")


@event_data(EventType(LEADER_CHANGED))
class LeaderChanged(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Another instance became the leader."""

    holder: Annotated[str, _described("The new leader; empty: none.")]
    previous: Annotated[str, _described("The previous leader; empty: none.")]
    transitions: Annotated[int, _described("The Lease's leaseTransitions.")]

    def describe(self) -> str:
        """Return the new leader and the previous one."""
        return f"leader {self.holder or 'none'}, before it {self.previous or 'none'}"


BRAKE_NAMES: Final = (
    "zone, storm, pending, manual (a person paused), or `health/` and the name of a health check."
)
BRAKE_ENGAGED: Final = full_type("brake.engaged")


@event_data(
    EventType(
        BRAKE_ENGAGED,
        "A brake holds evictions from now on: too many nodes are not Ready, a storm of "
        "findings, too many pods that no node takes, a service that suffers, or a person who "
        "paused.",
    ),
)
class BrakeEngaged(
    EventData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """A brake holds evictions from now on."""

    brake: Annotated[str, _described(BRAKE_NAMES)]
    by: Annotated[str, _described("Who paused, as they named themselves; left out for others.")] = (
        ""
    )
    message: Annotated[str, _described("Why, for people.")]
    mode: Mode
    scope: Annotated[
        str, _described("What it holds: `cluster`, or such as `zone eu-1/a` or `namespace shop`.")
    ]
    until: Annotated[
        datetime | None, _described("When a pause ends by itself; left out: it does not.")
    ] = None

    def describe(self) -> str:
        """Return what the brake holds, until when, by whom and why."""
        until = "" if self.until is None else f" until {format_time(self.until)}"
        by = f", by {self.by}" if self.by else ""
        return f"{self.brake} brake holds {self.scope}{until}{by}: {self.message}"


BRAKE_RELEASED: Final = full_type("brake.released")


@event_data(
    EventType(
        BRAKE_RELEASED,
        "A brake holds evictions no longer.",
    ),
)
class BrakeReleased(
    EventData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """A brake holds evictions no longer; what waited for it is evaluated again."""

    brake: Annotated[str, _described(BRAKE_NAMES)]
    by: Annotated[str, _described("Who released it, as they named themselves; else left out.")] = ""
    message: Annotated[str, _described("Why, for people.")]
    mode: Mode
    scope: Annotated[
        str, _described("What it held: `cluster`, or such as `zone eu-1/a` or `namespace shop`.")
    ]

    def describe(self) -> str:
        """Return what the brake held, by whom it was released and why."""
        by = f", by {self.by}" if self.by else ""
        return f"{self.brake} brake no longer holds {self.scope}{by}: {self.message}"


CHECKPOINT: Final = full_type("audit.checkpoint")


@event_data(
    EventType(
        CHECKPOINT,
        "A signed statement of all earlier records. Every file begins with one.",
        revision=2,
    ),
)
class Checkpoint(
    EventData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """A signed statement of all earlier records; a copy of it reveals any later rewriting."""

    note: Annotated[str, _described("The statement, as a C2SP signed note.")]
    oldest_open: Annotated[
        int | None,
        _described("The sequence of the oldest eviction.requested without an outcome."),
    ] = None
    root: Annotated[str, _described("The hash of the record before, in hexadecimal.")]
    size: Annotated[int, _described("How many records came before.")]
    unrecorded: Annotated[
        int,
        _described("Decisions not recorded since the last checkpoint, because of the rate limit."),
    ] = 0
    unrecorded_disruptions: Annotated[
        int,
        _described(
            "Ends of pods by something else, not recorded since the last checkpoint, because of "
            "their rate limit."
        ),
    ] = 0

    def describe(self) -> str:
        """Return how many records it signs for, and what was not recorded."""
        counts = (self.unrecorded, "decision"), (self.unrecorded_disruptions, "disruption")
        left_out = "".join(
            f", {format_count(count, noun)} unrecorded" for count, noun in counts if count
        )
        verb = agree(self.size, "is", "are")
        return f"{format_count(self.size, 'record')} before it {verb} signed for{left_out}"


JOURNAL_RESUMED: Final = full_type("journal.resumed")


@event_data(
    EventType(
        JOURNAL_RESUMED,
        "The journal writes again; no pod was evicted during the fault.",
    ),
)
class JournalResumed(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The journal writes again after a disk fault; no pod was evicted during it."""

    down_ms: Annotated[int, _described("Milliseconds from the fault to this record.")]
    message: Annotated[str, _described("The fault in the operating system's words, for people.")]
    refused: Annotated[int, _described("Records that the journal refused during the fault.")]

    def describe(self) -> str:
        """Return how long the disk failed, and what was refused."""
        down = format_duration(self.down_ms / _MS_IN_S)
        refused = format_count(self.refused, "record")
        return f"the disk failed for {down}: {self.message}; {refused} refused"


JOURNAL_LOST: Final = full_type("journal.lost")


@event_data(EventType(JOURNAL_LOST))
class JournalLost(EventData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Retention removed records that a sink had not read, to stay under the hard cap."""

    first: Annotated[int, _described("The sequence of the first record the sink lost.")]
    last: Annotated[int, _described("The sequence of the last record the sink lost.")]
    sink: Annotated[str, _described("The name of the sink.")]

    def describe(self) -> str:
        """Return which records were removed, and which sink has not read them."""
        lost = f"records {self.first} to {self.last}"
        return f"retention removed {lost}, unread by sink {self.sink}"


def format_missing(first: int | None, last: int | None) -> str:
    """Say which records a change of epoch lost."""
    if first is None or last is None:
        return "no record is known to be missing"
    return (
        f"records {first} to {last} are missing" if last > first else f"record {first} is missing"
    )


EPOCH_BEGAN: Final = full_type("epoch.began")


@event_data(
    EventType(
        EPOCH_BEGAN,
        "The journal goes on under another source, because its end is missing or cannot be "
        "read: the same sequences now name other records.",
    ),
)
class EpochBegan(
    EventData, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """The journal goes on in another epoch: the same sequences now name other records."""

    first_missing: Annotated[
        int | None,
        _described(
            "The sequence of the first record that is missing; left out when none is known to."
        ),
    ] = None
    last_missing: Annotated[
        int | None, _described("The sequence of the last that a follower had; left out likewise.")
    ] = None
    previous: Annotated[
        str, _described("The source of the epoch before; empty: it cannot be read.")
    ]
    message: Annotated[str, _described("Why another epoch began, for people.")]

    def describe(self) -> str:
        """Return which records are missing, and why another epoch began."""
        return f"{format_missing(self.first_missing, self.last_missing)}: {self.message}"


class Record(NamedTuple):
    """One record of the journal: its sequence, and its event as JSON without a line's end.

    `json.loads(record.raw)` is the event as docs/reference/events.md describes it.
    """

    seq: int
    raw: bytes


class Event(Struct, Generic[_D], frozen=True, gc=False, kw_only=True):
    """A CloudEvent with our extension attributes (lower case, as CloudEvents requires).

    The journal sets `prev`, `recordedtime` and `sequence` when it writes the event.
    """

    id: Annotated[str, _described("Unique; a redelivery keeps it, so drop the ids you have seen.")]
    source: Annotated[
        str, _described("//CLUSTER/descheduler/INSTANCE/EPOCH: one epoch of one journal.")
    ]
    specversion: Annotated[Literal["1.0"], _described("The version of CloudEvents.")]
    type: Annotated[str, _described("What happened; see the list of types.")]
    datacontenttype: Annotated[Literal["application/json"], _described("How data is written.")]
    dataschema: Annotated[str, _described("The schema of data and its revision.")]
    subject: Annotated[str, _described("NAMESPACE/POD, or the component that the event is about.")]
    time: Annotated[datetime, _described("When it happened.")]
    recordedtime: Annotated[str, _described("When the journal wrote the event.")] = ""
    sequence: Annotated[
        str, _described("20 digits, contiguous for one source: a jump is a gap. Compare as text.")
    ] = ""
    partitionkey: Annotated[
        str, _described("The uid of the topmost owner, else of the pod: order holds within it.")
    ]
    correlationid: Annotated[
        str, _described("The case: shared from a finding to the outcome of its eviction.")
    ]
    causationid: Annotated[
        str, _described("The id of the event, or the change, that led to this event.")
    ]
    traceparent: Annotated[
        str,
        _described("The case as a W3C trace, and the event as its span; `sinks.otlp` sends them."),
    ]
    prev: Annotated[str, _described("SHA-256 of the record before, in hexadecimal.")] = ""
    data: _D


def dataschema(type_: str) -> str:
    """Return the URI of a type's schema; `/schemas/` serves it under its last part."""
    return f"urn:reactive-desched:schemas:{schema_name(type_)}"


def schema_name(type_: str) -> str:
    """Return the name of a type's schema without `.json`, such as eviction.requested.v1.1."""
    return f"{type_.removeprefix(TYPE_PREFIX)}.{EVENT_TYPES[type_].revision}"
