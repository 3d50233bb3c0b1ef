"""A story in words, as `audit show` prints it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from reactive_desched.api.event import (
    DRY_RUN,
    Cause,
    Checkpoint,
    DecisionMade,
    EvictionEnded,
    EvictionRequested,
    FindingMade,
    PodData,
    PolicyLoaded,
)
from reactive_desched.audit import event_lines
from reactive_desched.audit.layout import Look, aligned, folded, hung
from reactive_desched.audit.story import Story, Told
from reactive_desched.errors import JournalError
from reactive_desched.journal.signing.signed_note import parse_note
from reactive_desched.model.event_types import short
from reactive_desched.model.outcomes import REHEARSED

_BOLD, _DIM = "1", "2"
_GREEN, _YELLOW, _RED, _CYAN, _MAGENTA = "32", "33", "31", "36", "35"
_STYLES: Final = {
    "change": _CYAN,
    "finding": _BOLD,
    "evict": _GREEN,
    "defer": _YELLOW,
    "refuse": _RED,
    "request": _BOLD,
}
_NOT_ENDED: Final = (
    "no outcome is recorded yet: the answer is awaited, or the controller was stopped and settles"
    " it when it starts again"
)
_TIME: Final = len("2026-03-29 01:30:00.000")
_ELAPSED: Final = 11
_WORD: Final = 9
_INDENT: Final = "  "


def lines(story: Story, look: Look) -> Iterator[str]:
    """Yield the story line by line: how it ended, who and why, what happened, what proves it."""
    own = story.own
    data = own[0].event.data
    for line in folded(_headline(own), look):
        yield look.painted(_BOLD, line)
    yield ""
    if isinstance(data, PodData):
        yield from aligned(_about(story, data), look, _INDENT)
        yield ""
        yield from _trigger(data.trigger, look)
    yield from _course(story, look)
    yield ""
    yield from aligned([*_standing(story), *_vouched(story)], look, _INDENT)


def _headline(own: list[Told]) -> str:
    """Say in one line what this is about and how it ended."""
    first, last = own[0].event, own[-1].event
    if not isinstance(first.data, PodData):
        return f"{short(first.type)}, record {own[0].seq}"
    who = first.data.who
    return event_lines.plain(f"{who.namespace}/{who.name} on {who.node}: {_state(last.data)}")


def _state(data: object) -> str:
    """Say how the story ends, as far as it is told."""
    match data:
        case EvictionEnded(outcome=outcome, mode=mode) if mode == DRY_RUN:
            is_rehearsed = outcome.result == REHEARSED
            return f"{'would have been evicted' if is_rehearsed else outcome.result} (dry run)"
        case EvictionEnded(outcome=outcome):
            return outcome.result
        case EvictionRequested(mode=mode):
            return "eviction requested" + (" (dry run)" if mode == DRY_RUN else "")
        case DecisionMade(decision=decision) if decision.gate:
            return f"left where it is for now ({decision.verdict} by {decision.gate})"
        case DecisionMade():
            return "about to be evicted"
        case _:
            return "found, nothing decided yet"


def _about(story: Story, data: PodData) -> list[tuple[str, str]]:
    who, why = data.who, data.why
    own = story.own
    zone = f" in zone {who.zone}" if who.zone else ""
    known = {name: value for name, value in why.numbers.items() if value != ""}
    numbers = ", ".join(f"{name} {value}" for name, value in known.items())
    count = len(own) + story.left_out
    records = f"records {own[0].seq} to {own[-1].seq}" if count > 1 else f"record {own[0].seq}"
    rows = [
        ("pod", f"{who.namespace}/{who.name}, uid {who.uid}"),
        ("owners", event_lines.owners(data)),
        ("node", f"{who.node}{zone}"),
        ("plugin", f"{why.plugin}, profile {why.profile}"),
        ("reason", why.reason),
        ("numbers", numbers or "none"),
        ("case", f"{own[0].event.correlationid}: {records}"),
    ]
    return [(name, event_lines.plain(text)) for name, text in rows]


def _trigger(cause: Cause, look: Look) -> Iterator[str]:
    """Say what made us look: a change has no record of its own."""
    version = f", resourceVersion {cause.resource_version}" if cause.resource_version else ""
    text = f"{cause.change}: {cause.object or 'anything may have changed'}{version}"
    yield from _line("", "", "change", event_lines.plain(text), look)


def _later_trigger(cause: Cause, look: Look) -> Iterator[str]:
    """Say, less loudly, what made us look again."""
    for line in _trigger(cause, Look(width=look.width)):
        yield look.painted(_DIM, line)


def _course(story: Story, look: Look) -> Iterator[str]:
    """Yield a line for each event, with the time since the first."""
    own = story.own
    started = own[0].event.time
    requested: datetime | None = None
    cause = _cause(own[0])
    half = len(own) - len(own) // 2
    count = 0
    for told in story.events:
        if isinstance(told.event.data, DecisionMade) and _cause(told) != cause:
            cause = told.event.data.trigger
            yield from _later_trigger(cause, look)
        elapsed = _elapsed(told.event.time - started) if told is not own[0] else ""
        time = event_lines.clock(told.event.time)
        yield from _line(time, elapsed, _word(told), _said(told, requested), look, told)
        if isinstance(told.event.data, EvictionRequested):
            requested = told.event.time
        count += told.is_own
        if story.left_out and told.is_own and count == half:
            are = "is" if story.left_out == 1 else "are"
            left_out = event_lines.counted(story.left_out, "record")
            yield f"{_INDENT}… {left_out} {are} left out: -o json has them"


def _cause(told: Told) -> Cause | None:
    data = told.event.data
    return data.trigger if isinstance(data, PodData) else None


def _line(
    time: str, elapsed: str, word: str, text: str, look: Look, told: Told | None = None
) -> Iterator[str]:
    before = f"{_INDENT}{time:<{_TIME}} {elapsed:>{_ELAPSED}}  "
    style = _style(word, told)
    shown = before + look.painted(style, f"{word:<{_WORD}}")
    yield from hung(f"{before}{word:<{_WORD}}", text, look, painted=shown)


def _style(word: str, told: Told | None) -> str:
    if told is not None and not told.is_own:
        return _MAGENTA
    if told is not None and isinstance(told.event.data, EvictionEnded):
        return _GREEN if told.event.type.endswith(("succeeded.v1", "rehearsed.v1")) else _RED
    return _STYLES.get(word, "")


def _word(told: Told) -> str:
    match told.event.data:
        case FindingMade():
            return "finding"
        case DecisionMade(decision=decision):
            return decision.verdict
        case EvictionRequested():
            return "request"
        case EvictionEnded():
            return "outcome"
        case _:
            return short(told.event.type).partition(".")[0]


def _said(told: Told, requested: datetime | None) -> str:
    match told.event.data:
        case FindingMade(why=why):
            return event_lines.plain(f"{why.plugin}: {why.reason}")
        case EvictionRequested(mode=mode) as data:
            asked = ", nothing is asked" if mode == DRY_RUN else " before the API server was asked"
            return f"{event_lines.request(data)}; recorded{asked}"
        case EvictionEnded(outcome=outcome) if outcome.took_ms is None and requested is not None:
            late = event_lines.lasting((told.event.time - requested).total_seconds())
            return f"{event_lines.ending(outcome)} (settled {late} after the request)"
        case _ if told.is_own:
            return event_lines.told(told.event)
        case _:
            return f"meanwhile: {short(told.event.type)}: {event_lines.told(told.event)}"


def _elapsed(since: timedelta) -> str:
    seconds = since.total_seconds()
    return (
        f"+{event_lines.lasting(seconds)}" if seconds >= 0 else f"-{event_lines.lasting(-seconds)}"
    )


def _standing(story: Story) -> Iterator[tuple[str, str]]:
    """Say what is still to come, and which policy was in force."""
    last = story.own[-1].event.data
    if isinstance(last, EvictionRequested):
        yield "open", _NOT_ENDED
    elif isinstance(last, DecisionMade) and last.decision.gate:
        yield "open", "it is looked at again; a record follows when the verdict changes"
    if isinstance(last, PodData):
        yield "policy", event_lines.plain(_policy(last.why.policy_revision, story.policy))


def _policy(revision: str, loaded: Told | None) -> str:
    if loaded is None or not isinstance(loaded.event.data, PolicyLoaded):
        return f"revision {revision}; where it was loaded is not in this journal any more"
    data = loaded.event.data
    when = f"in force since {event_lines.clock(loaded.event.time)} (record {loaded.seq})"
    if data.revision != revision:
        return f"revision {revision}; the last one loaded before was {data.revision}, {when}"
    return f"revision {revision} from {data.source}, {data.mode}, version {data.version}, {when}"


def _vouched(story: Story) -> Iterator[tuple[str, str]]:
    """Say which checkpoint covers the last record."""
    sealed = story.sealed
    if sealed is None or not isinstance(sealed.event.data, Checkpoint):
        yield "signed", f"not yet: no checkpoint follows record {story.own[-1].seq}"
        return
    where = f"checkpoint in record {sealed.seq} of {event_lines.clock(sealed.event.time)}"
    data = sealed.event.data
    yield "signed", f"{where}, over records 1 to {data.size}{_keys(data.note)}"
    yield "proof", "`audit verify` checks the signature and every record under it"


def _keys(note: str) -> str:
    try:
        found = parse_note(note)
    except JournalError:
        return " (whose note cannot be read)"
    return event_lines.plain(" by " + ", ".join(one.key for one in found.signatures))
