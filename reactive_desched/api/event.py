"""The wire format: what every published event says, as CloudEvents 1.0.

An event is one JSON object in canonical form (RFC 8785): the same bytes stand in the journal, in a
Kafka value and in a server-sent event, so one hash chain covers them all. Within a version (the
last part of a type) fields are only ever added, always optional; readers ignore what they do not
know, and treat words such as results and gates as open lists.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Generic, Literal, TypeVar

from msgspec import Meta, Struct

from reactive_desched.model.event_types import PREFIX, full

FINDING_MADE: Final = full("finding.made")
DECISION_EVICT: Final = full("decision.evict")
DECISION_DEFER: Final = full("decision.defer")
DECISION_REFUSE: Final = full("decision.refuse")
EVICTION_REQUESTED: Final = full("eviction.requested")
EVICTION_SUCCEEDED: Final = full("eviction.succeeded")
EVICTION_REFUSED: Final = full("eviction.refused")
EVICTION_UNKNOWN: Final = full("eviction.unknown")
EVICTION_REHEARSED: Final = full("eviction.rehearsed")
POLICY_LOADED: Final = full("policy.loaded")
POLICY_REJECTED: Final = full("policy.rejected")
LEADER_CHANGED: Final = full("leader.changed")
CHECKPOINT: Final = full("audit.checkpoint")
JOURNAL_RESUMED: Final = full("journal.resumed")
JOURNAL_LOST: Final = full("journal.lost")

OUTCOMES: Final = frozenset(
    {EVICTION_SUCCEEDED, EVICTION_REFUSED, EVICTION_UNKNOWN, EVICTION_REHEARSED}
)
"""The types that end an eviction.requested: exactly one of them for each."""

LIVE: Final = "live"
DRY_RUN: Final = "dry-run"


def _said(description: str) -> Meta:
    return Meta(description=description)


class Owner(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """An object that owns the pod, or owns its owner."""

    api_version: Annotated[str, _said("Its API version, such as apps/v1.")]
    kind: Annotated[str, _said("Its kind, such as ReplicaSet.")]
    name: Annotated[str, _said("Its name; its namespace is the pod's.")]
    uid: Annotated[str, _said("Its uid.")]


class Who(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The pod that this is about, as it was then."""

    name: Annotated[str, _said("The pod's name.")]
    namespace: Annotated[str, _said("The pod's namespace.")]
    node: Annotated[str, _said("The node it sat on.")]
    owners: Annotated[
        tuple[Owner, ...],
        _said("Its controller, that one's controller, and so on; empty for a bare pod."),
    ]
    uid: Annotated[str, _said("The pod's uid: names come back, uids never do.")]
    zone: Annotated[str, _said("The zone of the node; empty when it has none.")]


class What(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """What is, or would be, done with the pod."""

    action: Annotated[str, _said("How it is moved: evict.")]
    grace_period_seconds: Annotated[
        int | None, _said("The grace period asked for; left out: the pod's own.")
    ] = None


class Why(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Whose opinion it is that the pod should leave, and on what grounds."""

    numbers: Annotated[
        Mapping[str, int | str], _said("The figures behind the reason, by name; may be empty.")
    ]
    plugin: Annotated[str, _said("The plugin, by the name policies give it.")]
    policy_revision: Annotated[str, _said("The revision of the policy in force.")]
    profile: Annotated[str, _said("The policy's profile.")]
    reason: Annotated[str, _said("The reason, for a person to read.")]


class Cause(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """What made us look: the first change since the last look."""

    change: Annotated[str, _said("The kind of change, such as NodeTaintsChanged.")]
    object: Annotated[str, _said("What changed, such as `node n1`; empty: everything.")]
    resource_version: Annotated[
        str,
        _said("That of the object whose event led to the change; empty when none did."),
    ]


class Verdict(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """What the gates said."""

    verdict: Annotated[str, _said("evict, defer (look again later) or refuse (as things are).")]
    detail: Annotated[str, _said("Numbers that differ from one look to the next.")] = ""
    gate: Annotated[str, _said("The gate that said no; left out when none did.")] = ""
    reason: Annotated[str, _said("Why, for a person to read.")] = ""


class Ending(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """What came of an eviction that was requested."""

    result: Annotated[
        str,
        _said(
            "evicted, refused by disruption budget, deferred by overload, gone, replaced, denied, "
            "failed, withheld (not asked for after all), unknown, or rehearsed (a dry run)."
        ),
    ]
    detail: Annotated[str, _said("The API server's words, or ours.")] = ""
    took_ms: Annotated[
        int | None, _said("Milliseconds from the intent to its end; left out after a restart.")
    ] = None


Mode = Annotated[
    Literal["live", "dry-run"], _said("dry-run: nothing was, or will be, asked of the cluster.")
]


class PodData(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """What every event about a pod says."""

    mode: Mode
    trigger: Cause
    what: What
    who: Who
    why: Why


class FindingMade(PodData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A plugin holds that this pod should leave its node."""


class DecisionMade(PodData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The verdict on a finding, recorded when it differs from the last one."""

    decision: Verdict


class EvictionRequested(PodData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Durable before the API server is asked; exactly one ending follows, also across a crash."""

    attempt: Annotated[int, _said("Which eviction request for this finding it is, from 1.")]


class EvictionEnded(PodData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """What came of an eviction that was requested."""

    attempt: Annotated[int, _said("Which eviction request for this finding it is, from 1.")]
    outcome: Ending


class PolicyLoaded(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A policy came into force."""

    mode: Mode
    revision: Annotated[str, _said("A digest of the policy and settings.")]
    source: Annotated[str, _said("Where the policy was read.")]
    version: Annotated[str, _said("The version of reactive-desched.")]


class PolicyRejected(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Changed files were refused; the policy in force stays."""

    kept: Annotated[str, _said("The revision that stays in force.")]
    problems: Annotated[tuple[str, ...], _said("What is wrong, with file, line and field.")]
    source: Annotated[str, _said("Where the policy was read.")]


class LeaderChanged(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Another instance acts from now on."""

    holder: Annotated[str, _said("Who acts now; empty: nobody.")]
    previous: Annotated[str, _said("Who acted before; empty: nobody.")]
    transitions: Annotated[int, _said("How often this has happened, as the Lease counts it.")]


class Checkpoint(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """A signed statement of everything recorded before; keep one, and nobody can rewrite it."""

    note: Annotated[str, _said("The statement, as a C2SP signed note.")]
    oldest_open: Annotated[
        int | None,
        _said("The sequence of the oldest eviction.requested without an ending."),
    ] = None
    root: Annotated[str, _said("The hash of the record before, in hexadecimal.")]
    size: Annotated[int, _said("How many records came before.")]
    unrecorded: Annotated[
        int, _said("Verdicts not recorded since the last checkpoint, by the bound on their rate.")
    ] = 0


class JournalResumed(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The disk failed for a while; nothing was evicted meanwhile."""

    down_ms: Annotated[int, _said("Milliseconds from the fault to this record.")]
    reason: Annotated[str, _said("The operating system's words.")]
    refused: Annotated[int, _said("Records that were refused meanwhile.")]


class JournalLost(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Records were removed, to stay under the hard cap, before a sink had read them."""

    first: Annotated[int, _said("The sequence of the first record the sink lost.")]
    last: Annotated[int, _said("The sequence of the last.")]
    sink: Annotated[str, _said("The sink.")]


Data = (
    FindingMade
    | DecisionMade
    | EvictionRequested
    | EvictionEnded
    | PolicyLoaded
    | PolicyRejected
    | LeaderChanged
    | Checkpoint
    | JournalResumed
    | JournalLost
)

DATA: Final[Mapping[str, type[Struct]]] = {
    FINDING_MADE: FindingMade,
    DECISION_EVICT: DecisionMade,
    DECISION_DEFER: DecisionMade,
    DECISION_REFUSE: DecisionMade,
    EVICTION_REQUESTED: EvictionRequested,
    EVICTION_SUCCEEDED: EvictionEnded,
    EVICTION_REFUSED: EvictionEnded,
    EVICTION_UNKNOWN: EvictionEnded,
    EVICTION_REHEARSED: EvictionEnded,
    POLICY_LOADED: PolicyLoaded,
    POLICY_REJECTED: PolicyRejected,
    LEADER_CHANGED: LeaderChanged,
    CHECKPOINT: Checkpoint,
    JOURNAL_RESUMED: JournalResumed,
    JOURNAL_LOST: JournalLost,
}
"""Which data each type of event carries."""

REVISIONS: Final[Mapping[str, int]] = dict.fromkeys(DATA, 1)
"""The revision of each type's schema: raised when an optional field is added."""

_D = TypeVar("_D")


class Event(Struct, Generic[_D], frozen=True, gc=False, kw_only=True):
    """A CloudEvent with our extension attributes, all of whose names are lower case by that rule.

    `prev`, `recordedtime` and `sequence` are set by the journal when it writes the event.
    """

    id: Annotated[str, _said("Unique; a resend keeps it, so drop what you have seen.")]
    source: Annotated[str, _said("//CLUSTER/descheduler/INSTANCE/EPOCH: one journal's life.")]
    specversion: Annotated[Literal["1.0"], _said("The version of CloudEvents.")]
    type: Annotated[str, _said("What happened; see the list of types.")]
    datacontenttype: Annotated[Literal["application/json"], _said("How data is written.")]
    dataschema: Annotated[str, _said("The schema of data and its revision.")]
    subject: Annotated[str, _said("NAMESPACE/POD, or what else it is about.")]
    time: Annotated[datetime, _said("When it happened.")]
    recordedtime: Annotated[str, _said("When it was written to the journal.")] = ""
    sequence: Annotated[
        str, _said("20 digits, contiguous for one source: a jump is a gap. Compare as text.")
    ] = ""
    partitionkey: Annotated[
        str, _said("The uid of the topmost owner, else of the pod: order holds within it.")
    ]
    correlationid: Annotated[
        str, _said("The case: shared from a finding to the end of its eviction.")
    ]
    causationid: Annotated[str, _said("The id of the event, or the change, that led to this.")]
    traceparent: Annotated[str, _said("The case as a W3C trace; no spans are exported.")]
    prev: Annotated[str, _said("SHA-256 of the record before, in hexadecimal.")] = ""
    data: _D


def dataschema(type_: str) -> str:
    """Return the URI of a type's schema; `/schemas/` serves it under its last part."""
    return f"urn:reactive-desched:schemas:{schema_name(type_)}"


def schema_name(type_: str) -> str:
    """Return the name of a type's schema without `.json`, such as eviction.requested.v1.1."""
    return f"{type_.removeprefix(PREFIX)}.{REVISIONS[type_]}"
