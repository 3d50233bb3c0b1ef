"""Formats an event as one line of text, for lists and stories."""

from datetime import UTC, datetime
from typing import Final

from reactive_desched.api.event import (
    MODE_DRY_RUN,
    BrakeEngaged,
    BrakeReleased,
    Checkpoint,
    DecisionMade,
    DisruptionObserved,
    Ending,
    EpochBegan,
    EvictionCorrected,
    EvictionEnded,
    EvictionFollowedUp,
    EvictionRequested,
    FindingMade,
    FollowUp,
    FutileCleared,
    JournalLost,
    JournalResumed,
    LeaderChanged,
    MigrationCarriedOut,
    PodData,
    PolicyLoaded,
    PolicyRejected,
    Verdict,
)
from reactive_desched.journal.records import AnyEvent
from reactive_desched.primitives.counts import format_count

_MS_IN_S: Final = 1000
_DIGEST_CHARS: Final = 12
_S_IN_MIN, _S_IN_H, _S_IN_DAY = 60, 3600, 86_400


def describe_event(event: AnyEvent) -> str:
    """Return an event in one line; empty for an unknown type."""
    match event.data:
        case FindingMade(why=why):
            return printable(why.message)
        case DecisionMade(decision=decision):
            return describe_decision(decision)
        case EvictionRequested() as data:
            return describe_request(data)
        case EvictionEnded(outcome=outcome) | EvictionCorrected(outcome=outcome):
            return describe_outcome(outcome)
        case EvictionFollowedUp(follow_up=follow_up):
            return describe_follow_up(follow_up)
        case DisruptionObserved() as data:
            return describe_disruption(data)
        case MigrationCarriedOut() as data:
            return describe_migration(data)
        case _:
            return printable(_describe_controller_event(event))


def printable(text: str) -> str:
    """Return a text without control characters, which a terminal would interpret."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def describe_decision(decision: Verdict) -> str:
    """Return the gate, its reason code and its message."""
    if not decision.gate:
        return "every gate agrees"
    message = f": {decision.message}" if decision.message else ""
    return printable(f"{_code(decision.gate, decision.reason)}{message}")


_BY: Final = {"delete": ", by deletion", "soft-evict": ", by the annotation of a soft eviction"}


def describe_request(data: EvictionRequested) -> str:
    """Return the attempt and how the eviction is requested."""
    grace = data.what.grace_period_seconds
    text = f"attempt {data.attempt}" + ("" if grace is None else f", grace period {grace} s")
    text += _BY.get(data.what.action, "")
    return f"{text}, dry run" if data.mode == MODE_DRY_RUN else text


def describe_outcome(outcome: Ending) -> str:
    """Return the result, its reason code, how long it took, and the message."""
    took = (
        "" if outcome.took_ms is None else f" after {format_duration(outcome.took_ms / _MS_IN_S)}"
    )
    message = f": {outcome.message}" if outcome.message else ""
    return printable(f"{_code(outcome.result, outcome.reason)}{took}{message}")


def describe_follow_up(follow_up: FollowUp) -> str:
    """Return the result, the replacement, how long it took, and whether the finding holds."""
    parts = [follow_up.result]
    if (pod := follow_up.replacement) is not None:
        parts.append(f"{pod.name} on {pod.node}" if pod.node else f"{pod.name} on no node")
    if (took_ms := follow_up.ready_ms) is not None:
        parts.append(f"Ready after {format_duration(took_ms / _MS_IN_S)}")
    if (holds := follow_up.finding_holds) is not None:
        parts.append("the finding holds there" if holds else "the finding does not hold there")
    message = f": {follow_up.message}" if follow_up.message else ""
    return printable(", ".join(parts) + message)


def describe_disruption(data: DisruptionObserved) -> str:
    """Return what ended a pod."""
    return printable(f"{data.cause}: {data.message}" if data.message else data.cause)


def describe_migration(data: MigrationCarriedOut) -> str:
    """Return what was done for a migration job, and how it went."""
    about = data.object
    name = f"{about.namespace}/{about.name}" if about.namespace else about.name
    result = _code(data.result, data.job_reason)
    text = f"{data.action} {about.kind} {name}: {result}"
    if data.job and data.job != about.name:
        text += f", for PodMigrationJob {data.job}"
    return printable(f"{text}: {data.message}" if data.message else text)


def _code(owner: str, reason: str) -> str:
    return f"{owner} ({reason})" if reason and reason != owner else owner


def describe_revision(data: PolicyLoaded) -> str:
    """Return the revision of a policy, and what its other files, such as settings, held."""
    others = [file for file in data.files if not file.sha256.startswith(data.revision)]
    named = ", ".join(f"{file.name} {file.sha256[:_DIGEST_CHARS]}" for file in others)
    return f"revision {data.revision} with {named}" if named else f"revision {data.revision}"


def format_owners(data: PodData | DisruptionObserved | MigrationCarriedOut) -> str:
    """Return the chain of owners as KIND/NAME, the pod's own controller first."""
    return printable(", ".join(f"{one.kind}/{one.name}" for one in data.who.owners)) or "none"


def format_missing(first: int | None, last: int | None) -> str:
    """Say which records a change of epoch lost."""
    if first is None or last is None:
        return "no record is known to be missing"
    return (
        f"records {first} to {last} are missing" if last > first else f"record {first} is missing"
    )


def format_time(time: datetime) -> str:
    """Return a time in UTC with milliseconds."""
    return time.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def format_duration(seconds: float) -> str:
    """Return a duration in two units at most."""
    if seconds < 1:
        return f"{seconds * _MS_IN_S:.0f} ms"
    if seconds < _S_IN_MIN:
        return f"{seconds:.1f} s"
    for unit, size, smaller, part in (
        ("d", _S_IN_DAY, "h", _S_IN_H),
        ("h", _S_IN_H, "min", _S_IN_MIN),
        ("min", _S_IN_MIN, "s", 1),
    ):
        if seconds >= size:
            count, rest = divmod(int(seconds), size)
            return f"{count} {unit} {rest // part} {smaller}" if rest // part else f"{count} {unit}"
    return ""


def _describe_brake(data: BrakeEngaged | BrakeReleased) -> str:
    until = data.until if isinstance(data, BrakeEngaged) else None
    verb = "holds" if isinstance(data, BrakeEngaged) else "no longer holds"
    text = f"{data.brake} brake {verb} {data.scope}"
    text += f" until {format_time(until)}" if until is not None else ""
    text += f", by {data.by}" if data.by else ""
    return f"{text}: {data.message}"


def cluster_of(source: str) -> str:
    """Return the name that the cluster had when the journal of this source began."""
    return source.removeprefix("//").partition("/")[0]


def _describe_controller_event(event: AnyEvent) -> str:
    """Return an event of the controller itself in one line."""
    match event.data:
        case PolicyLoaded() as data:
            which = describe_revision(data)
            return f"{which} from {data.source}, {data.mode}, by {data.version}"
        case PolicyRejected() as data:
            more = f" and {len(data.problems) - 1} more" if len(data.problems) > 1 else ""
            return f"revision {data.kept} stays: {''.join(data.problems[:1])}{more}"
        case LeaderChanged() as data:
            return f"leader {data.holder or 'none'}, before it {data.previous or 'none'}"
        case BrakeEngaged() | BrakeReleased() as data:
            return _describe_brake(data)
        case Checkpoint() as data:
            counts = (data.unrecorded, "decision"), (data.unrecorded_disruptions, "disruption")
            left_out = "".join(
                f", {format_count(count, noun)} unrecorded" for count, noun in counts if count
            )
            verb = "is" if data.size == 1 else "are"
            return f"{format_count(data.size, 'record')} before it {verb} signed for{left_out}"
        case JournalResumed() as data:
            down = format_duration(data.down_ms / _MS_IN_S)
            refused = format_count(data.refused, "record")
            return f"the disk failed for {down}: {data.message}; {refused} refused"
        case JournalLost() as data:
            return (
                f"retention removed records {data.first} to {data.last}, unread by sink {data.sink}"
            )
        case FutileCleared() as data:
            why = f": {data.message}" if data.message else ""
            owner = data.owner or format_count(data.cleared, "owner")
            return f"{data.by} cleared the memory of {owner}{why}"
        case EpochBegan() as data:
            return f"{format_missing(data.first_missing, data.last_missing)}: {data.message}"
        case _:
            return ""
