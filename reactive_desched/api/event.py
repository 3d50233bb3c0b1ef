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

from reactive_desched.model.event_types import TYPE_PREFIX, full_type

FINDING_MADE: Final = full_type("finding.made")
DECISION_EVICT: Final = full_type("decision.evict")
DECISION_DEFER: Final = full_type("decision.defer")
DECISION_REFUSE: Final = full_type("decision.refuse")
EVICTION_REQUESTED: Final = full_type("eviction.requested")
EVICTION_SUCCEEDED: Final = full_type("eviction.succeeded")
EVICTION_REFUSED: Final = full_type("eviction.refused")
EVICTION_UNKNOWN: Final = full_type("eviction.unknown")
EVICTION_REHEARSED: Final = full_type("eviction.rehearsed")
POLICY_LOADED: Final = full_type("policy.loaded")
POLICY_REJECTED: Final = full_type("policy.rejected")
LEADER_CHANGED: Final = full_type("leader.changed")
CHECKPOINT: Final = full_type("audit.checkpoint")
JOURNAL_RESUMED: Final = full_type("journal.resumed")
JOURNAL_LOST: Final = full_type("journal.lost")

EVICTION_OUTCOME_TYPES: Final = frozenset(
    {EVICTION_SUCCEEDED, EVICTION_REFUSED, EVICTION_UNKNOWN, EVICTION_REHEARSED}
)
"""The types that end an eviction.requested: exactly one of them for each."""

MODE_LIVE: Final = "live"
MODE_DRY_RUN: Final = "dry-run"


def _described(description: str) -> Meta:
    return Meta(description=description)


class Owner(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """An object that owns the pod, or owns its owner."""

    api_version: Annotated[str, _described("Its API version, such as apps/v1.")]
    kind: Annotated[str, _described("Its kind, such as ReplicaSet.")]
    name: Annotated[str, _described("Its name; its namespace is the pod's.")]
    uid: Annotated[str, _described("Its uid.")]


class Who(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The pod that this is about, as it was then."""

    name: Annotated[str, _described("The pod's name.")]
    namespace: Annotated[str, _described("The pod's namespace.")]
    node: Annotated[str, _described("The node it sat on.")]
    owners: Annotated[
        tuple[Owner, ...],
        _described("Its controller, that one's controller, and so on; empty for a bare pod."),
    ]
    uid: Annotated[str, _described("The pod's uid: names come back, uids never do.")]
    zone: Annotated[str, _described("The zone of the node; empty when it has none.")]


class What(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """What is, or would be, done with the pod."""

    action: Annotated[str, _described("How it is moved: evict.")]
    grace_period_seconds: Annotated[
        int | None, _described("The grace period asked for; left out: the pod's own.")
    ] = None


class Why(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Whose opinion it is that the pod should leave, and on what grounds."""

    numbers: Annotated[
        Mapping[str, int | str], _described("The figures behind the reason, by name; may be empty.")
    ]
    plugin: Annotated[str, _described("The plugin, by the name policies give it.")]
    policy_revision: Annotated[str, _described("The revision of the policy in force.")]
    profile: Annotated[str, _described("The policy's profile.")]
    reason: Annotated[str, _described("The reason, for a person to read.")]


class Cause(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """What made us look: the first change since the last look."""

    change: Annotated[str, _described("The kind of change, such as NodeTaintsChanged.")]
    object: Annotated[str, _described("What changed, such as `node n1`; empty: everything.")]
    resource_version: Annotated[
        str,
        _described("That of the object whose event led to the change; empty when none did."),
    ]


class Verdict(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """What the gates said."""

    verdict: Annotated[
        str, _described("evict, defer (look again later) or refuse (as things are).")
    ]
    detail: Annotated[str, _described("Numbers that differ from one look to the next.")] = ""
    gate: Annotated[str, _described("The gate that said no; left out when none did.")] = ""
    reason: Annotated[str, _described("Why, for a person to read.")] = ""


class Ending(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """What came of an eviction that was requested."""

    result: Annotated[
        str,
        _described(
            "evicted, refused by disruption budget, deferred by overload, gone, replaced, denied, "
            "failed, withheld (not asked for after all), unknown, or rehearsed (a dry run)."
        ),
    ]
    detail: Annotated[str, _described("The API server's words, or ours.")] = ""
    took_ms: Annotated[
        int | None, _described("Milliseconds from the intent to its end; left out after a restart.")
    ] = None


Mode = Annotated[
    Literal["live", "dry-run"],
    _described("dry-run: nothing was, or will be, asked of the cluster."),
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

    attempt: Annotated[int, _described("Which eviction request for this finding it is, from 1.")]


class EvictionEnded(PodData, frozen=True, gc=False, kw_only=True, rename="camel"):
    """What came of an eviction that was requested."""

    attempt: Annotated[int, _described("Which eviction request for this finding it is, from 1.")]
    outcome: Ending


class PolicyLoaded(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A policy came into force."""

    mode: Mode
    revision: Annotated[str, _described("A digest of the policy and settings.")]
    source: Annotated[str, _described("Where the policy was read.")]
    version: Annotated[str, _described("The version of reactive-desched.")]


class PolicyRejected(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Changed files were refused; the policy in force stays."""

    kept: Annotated[str, _described("The revision that stays in force.")]
    problems: Annotated[tuple[str, ...], _described("What is wrong, with file, line and field.")]
    source: Annotated[str, _described("Where the policy was read.")]


class LeaderChanged(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Another instance acts from now on."""

    holder: Annotated[str, _described("Who acts now; empty: nobody.")]
    previous: Annotated[str, _described("Who acted before; empty: nobody.")]
    transitions: Annotated[int, _described("How often this has happened, as the Lease counts it.")]


class Checkpoint(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """A signed statement of everything recorded before; keep one, and nobody can rewrite it."""

    note: Annotated[str, _described("The statement, as a C2SP signed note.")]
    oldest_open: Annotated[
        int | None,
        _described("The sequence of the oldest eviction.requested without an ending."),
    ] = None
    root: Annotated[str, _described("The hash of the record before, in hexadecimal.")]
    size: Annotated[int, _described("How many records came before.")]
    unrecorded: Annotated[
        int,
        _described("Verdicts not recorded since the last checkpoint, by the bound on their rate."),
    ] = 0


class JournalResumed(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The disk failed for a while; nothing was evicted meanwhile."""

    down_ms: Annotated[int, _described("Milliseconds from the fault to this record.")]
    reason: Annotated[str, _described("The operating system's words.")]
    refused: Annotated[int, _described("Records that were refused meanwhile.")]


class JournalLost(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Records were removed, to stay under the hard cap, before a sink had read them."""

    first: Annotated[int, _described("The sequence of the first record the sink lost.")]
    last: Annotated[int, _described("The sequence of the last.")]
    sink: Annotated[str, _described("The sink.")]


EventData = (
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

DATA_TYPES: Final[Mapping[str, type[Struct]]] = {
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

SCHEMA_REVISIONS: Final[Mapping[str, int]] = dict.fromkeys(DATA_TYPES, 1)
"""The revision of each type's schema: raised when an optional field is added."""

_D = TypeVar("_D")


class Event(Struct, Generic[_D], frozen=True, gc=False, kw_only=True):
    """A CloudEvent with our extension attributes, all of whose names are lower case by that rule.

    `prev`, `recordedtime` and `sequence` are set by the journal when it writes the event.
    """

    id: Annotated[str, _described("Unique; a resend keeps it, so drop what you have seen.")]
    source: Annotated[str, _described("//CLUSTER/descheduler/INSTANCE/EPOCH: one journal's life.")]
    specversion: Annotated[Literal["1.0"], _described("The version of CloudEvents.")]
    type: Annotated[str, _described("What happened; see the list of types.")]
    datacontenttype: Annotated[Literal["application/json"], _described("How data is written.")]
    dataschema: Annotated[str, _described("The schema of data and its revision.")]
    subject: Annotated[str, _described("NAMESPACE/POD, or what else it is about.")]
    time: Annotated[datetime, _described("When it happened.")]
    recordedtime: Annotated[str, _described("When it was written to the journal.")] = ""
    sequence: Annotated[
        str, _described("20 digits, contiguous for one source: a jump is a gap. Compare as text.")
    ] = ""
    partitionkey: Annotated[
        str, _described("The uid of the topmost owner, else of the pod: order holds within it.")
    ]
    correlationid: Annotated[
        str, _described("The case: shared from a finding to the end of its eviction.")
    ]
    causationid: Annotated[str, _described("The id of the event, or the change, that led to this.")]
    traceparent: Annotated[str, _described("The case as a W3C trace; no spans are exported.")]
    prev: Annotated[str, _described("SHA-256 of the record before, in hexadecimal.")] = ""
    data: _D


def dataschema(type_: str) -> str:
    """Return the URI of a type's schema; `/schemas/` serves it under its last part."""
    return f"urn:reactive-desched:schemas:{schema_name(type_)}"


def schema_name(type_: str) -> str:
    """Return the name of a type's schema without `.json`, such as eviction.requested.v1.1."""
    return f"{type_.removeprefix(TYPE_PREFIX)}.{SCHEMA_REVISIONS[type_]}"
