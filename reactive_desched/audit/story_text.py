"""A story in words, as `audit show` prints it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from reactive_desched.api.event import (
    EVICTION_DRY_RUN,
    EVICTION_SUCCEEDED,
    MODE_DRY_RUN,
    Cause,
    Checkpoint,
    DecisionMade,
    DisruptionObserved,
    EventData,
    EvictionCorrected,
    EvictionEnded,
    EvictionFollowedUp,
    EvictionRequested,
    FindingMade,
    MigrationCarriedOut,
    PodData,
    PolicyLoaded,
    Who,
)
from reactive_desched.audit.event_lines import describe_event, format_owners
from reactive_desched.audit.story import Story, StoryEvent
from reactive_desched.errors import JournalError
from reactive_desched.journal.signing.signed_note import parse_note
from reactive_desched.model.changes import Resynced
from reactive_desched.model.event_types import short_type
from reactive_desched.model.moves import end_in_words
from reactive_desched.model.outcomes import DRY_RUN
from reactive_desched.primitives.bounded_text import printable
from reactive_desched.text.ages import format_duration
from reactive_desched.text.counts import format_count
from reactive_desched.text.layout import TextLayout, align, fold, hanging_indent
from reactive_desched.text.terminal import BOLD, CYAN, DIM, GREEN, MAGENTA, RED, YELLOW
from reactive_desched.text.times import format_time

_STYLES: Final = {
    "change": CYAN,
    "finding": BOLD,
    "evict": GREEN,
    "held": YELLOW,
    "request": BOLD,
}
_SUCCESS_TYPES: Final = (EVICTION_SUCCEEDED, EVICTION_DRY_RUN)
_NO_OUTCOME_YET: Final = (
    "no outcome is recorded yet: the response is awaited, or the controller was stopped and"
    " resolves it at its next start"
)
_TIME_WIDTH: Final = len("2026-03-29 01:30:00.000")
_ELAPSED_WIDTH: Final = 11
_LABEL_WIDTH: Final = 9
_INDENT: Final = "  "


def story_lines(story: Story, layout: TextLayout) -> Iterator[str]:
    """Yield the case line by line: its end, the pod and the reason, the records, the proof."""
    case_events = story.case_events
    data = case_events[0].event.data
    for line in fold(_headline(case_events), layout):
        yield layout.styled(BOLD, line)
    yield ""
    if isinstance(data, EventData) and (pod := data.pod) is not None:
        yield from align(_fact_rows(story, data, pod), width=layout.width, indent=_INDENT)
        yield ""
    if isinstance(data, PodData):
        yield from _trigger_lines(data.trigger, layout)
    yield from _event_lines(story, layout)
    yield from _text_lines(story, layout)
    yield ""
    yield from align(
        [*_state_rows(story), *_checkpoint_rows(story)], width=layout.width, indent=_INDENT
    )


def _text_lines(story: Story, layout: TextLayout) -> Iterator[str]:
    """Yield the files of a policy as they were."""
    for each in story.texts:
        yield ""
        name = f"{each.file.name} (SHA-256 {each.file.sha256})"
        if each.missing:
            name += f": there is no text of it: {each.missing}"
        elif each.from_seq != story.case_events[0].seq:
            name += f", by its text in record {each.from_seq}"
        yield layout.styled(BOLD, f"{_INDENT}{printable(name)}")
        yield from (f"{_INDENT}{printable(line)}" for line in each.text.splitlines())


def _headline(case_events: list[StoryEvent]) -> str:
    """Say in one line what this is about and how it ended."""
    first = case_events[0].event
    who = first.data.pod if isinstance(first.data, EventData) else None
    if who is None:
        return f"{short_type(first.type)}, record {case_events[0].seq}"
    return printable(
        f"{who.namespace}/{who.name} on {who.node or 'no node'}: {_final_state(_last(case_events))}"
    )


def _last(case_events: list[StoryEvent]) -> object:
    """Return the data of the last event; what was done for a job ends no story that has others."""
    of_pod = [item.event.data for item in case_events]
    others = [data for data in of_pod if not isinstance(data, MigrationCarriedOut)]
    return (others or of_pod)[-1]


def _final_state(data: object) -> str:
    """Describe how the story ends, as far as the records say."""
    match data:
        case EvictionEnded(outcome=outcome, mode=mode) if mode == MODE_DRY_RUN:
            would_evict = outcome.result == DRY_RUN
            return f"{'would have been evicted' if would_evict else outcome.result} (dry run)"
        case EvictionEnded(outcome=outcome):
            return outcome.result
        case EvictionCorrected(outcome=outcome):
            return f"{outcome.result}, as was found out later"
        case EvictionFollowedUp(follow_up=follow_up):
            return f"evicted, then {end_in_words(follow_up.result, follow_up.message)}"
        case DisruptionObserved(cause=cause):
            return f"ended by something else ({cause})"
        case MigrationCarriedOut() as data:
            return printable(data.describe())
        case EvictionRequested(mode=mode):
            return "eviction requested" + (" (dry run)" if mode == MODE_DRY_RUN else "")
        case DecisionMade(decision=decision) if decision.gate:
            by = f"{decision.gate}: {decision.reason}" if decision.reason else decision.gate
            return f"left where it is for now (held by {by})"
        case DecisionMade():
            return "about to be evicted"
        case _:
            return "found, nothing decided yet"


def _fact_rows(story: Story, data: EventData, who: Who) -> list[tuple[str, str]]:
    case_events = story.case_events
    zone = f" in zone {who.zone}" if who.zone else ""
    count = len(case_events) + story.omitted
    records = (
        f"records {case_events[0].seq} to {case_events[-1].seq}"
        if count > 1
        else f"record {case_events[0].seq}"
    )
    rows = [
        ("cluster", story.cluster),
        ("pod", f"{who.namespace}/{who.name}, uid {who.uid}"),
        ("owners", format_owners(who)),
        ("node", f"{who.node or 'none'}{zone}"),
        *(_finding_rows(data) if isinstance(data, PodData) else ()),
        ("case", f"{case_events[0].event.correlationid}: {records}"),
    ]
    return [(name, printable(text)) for name, text in rows]


def _finding_rows(data: PodData) -> Iterator[tuple[str, str]]:
    why = data.why
    shown_details = {name: value for name, value in why.numbers.items() if value != ""}
    numbers = ", ".join(f"{name} {value}" for name, value in shown_details.items())
    yield "plugin", f"{why.plugin}, profile {why.profile}"
    yield "finding", why.message
    yield "numbers", numbers or "none"


def _trigger_lines(trigger: Cause, layout: TextLayout) -> Iterator[str]:
    """Yield the change that led to the evaluation: a change has no record of its own."""
    version = f", resourceVersion {trigger.resource_version}" if trigger.resource_version else ""
    is_start = trigger.change == Resynced().kind
    about = trigger.object or ("anything may have changed" if is_start else "")
    text = (f"{trigger.change}: {about}" if about else trigger.change) + version
    yield from _format_line("", "", "change", printable(text), layout)


def _dim_trigger_lines(trigger: Cause, layout: TextLayout) -> Iterator[str]:
    """Say, less loudly, what made us look again."""
    for line in _trigger_lines(trigger, TextLayout(width=layout.width)):
        yield layout.styled(DIM, line)


def _event_lines(story: Story, layout: TextLayout) -> Iterator[str]:
    """Yield a line for each event, with the time since the first."""
    case_events = story.case_events
    started = case_events[0].event.time
    requested: datetime | None = None
    trigger = _trigger_of(case_events[0])
    half = len(case_events) - len(case_events) // 2
    count = 0
    for item in story.events:
        if isinstance(item.event.data, DecisionMade) and _trigger_of(item) != trigger:
            trigger = item.event.data.trigger
            yield from _dim_trigger_lines(trigger, layout)
        elapsed = _format_elapsed(item.event.time - started) if item is not case_events[0] else ""
        time = format_time(item.event.time)
        yield from _format_line(
            time, elapsed, _label(item), _describe(item, requested), layout, item
        )
        if isinstance(item.event.data, EvictionRequested):
            requested = item.event.time
        count += item.is_of_case
        if story.omitted and item.is_of_case and count == half:
            left_out = format_count(story.omitted, "record", "is", "are")
            yield f"{_INDENT}… {left_out} left out: -o json has them"


def _trigger_of(item: StoryEvent) -> Cause | None:
    data = item.event.data
    return data.trigger if isinstance(data, PodData) else None


def _format_line(
    time: str,
    elapsed: str,
    label: str,
    text: str,
    layout: TextLayout,
    item: StoryEvent | None = None,
) -> Iterator[str]:
    before = f"{_INDENT}{time:<{_TIME_WIDTH}} {elapsed:>{_ELAPSED_WIDTH}}  "
    style = _style(label, item)
    shown = before + layout.styled(style, f"{label:<{_LABEL_WIDTH}}")
    yield from hanging_indent(f"{before}{label:<{_LABEL_WIDTH}}", text, layout, styled_head=shown)


def _style(label: str, item: StoryEvent | None) -> str:
    if item is not None and not item.is_of_case:
        return MAGENTA
    if item is not None and isinstance(item.event.data, EvictionEnded):
        return GREEN if item.event.type in _SUCCESS_TYPES else RED
    return _STYLES.get(label, "")


def _label(item: StoryEvent) -> str:
    match item.event.data:
        case FindingMade():
            return "finding"
        case DecisionMade(decision=decision):
            return "evict" if decision.verdict == "evict" else "held"
        case EvictionRequested():
            return "request"
        case EvictionEnded():
            return "outcome"
        case EvictionCorrected():
            return "in truth"
        case EvictionFollowedUp():
            return "followup"
        case DisruptionObserved():
            return "ended"
        case MigrationCarriedOut():
            return "job"
        case _:
            return short_type(item.event.type).partition(".")[0]


def _describe(item: StoryEvent, requested: datetime | None) -> str:
    match item.event.data:
        case FindingMade(why=why):
            return printable(f"{why.plugin}: {why.message}")
        case EvictionRequested(mode=mode) as data:
            request_note = (
                ", nothing is asked" if mode == MODE_DRY_RUN else " before the API server was asked"
            )
            return f"{data.describe()}; recorded{request_note}"
        case EvictionEnded(outcome=outcome) if outcome.took_ms is None and requested is not None:
            late = format_duration((item.event.time - requested).total_seconds())
            return f"{printable(outcome.describe())} (settled {late} after the request)"
        case _ if item.is_of_case:
            return describe_event(item.event)
        case _:
            return f"meanwhile: {short_type(item.event.type)}: {describe_event(item.event)}"


def _format_elapsed(since: timedelta) -> str:
    seconds = since.total_seconds()
    return f"+{format_duration(seconds)}" if seconds >= 0 else f"-{format_duration(-seconds)}"


def _state_rows(story: Story) -> Iterator[tuple[str, str]]:
    """Say what is still to come, and which policy was in force."""
    last = story.case_events[-1].event.data
    if isinstance(last, EvictionRequested):
        yield "open", _NO_OUTCOME_YET
    elif isinstance(last, DecisionMade) and last.decision.gate:
        yield "open", "it is looked at again; a record follows when the decision changes"
    if isinstance(last, PodData):
        yield "policy", printable(_policy(last.why.policy_revision, story.policy))


def _policy(revision: str, loaded: StoryEvent | None) -> str:
    if loaded is None or not isinstance(loaded.event.data, PolicyLoaded):
        return f"revision {revision}; where it was loaded is not in this journal any more"
    data = loaded.event.data
    when = f"in force since {format_time(loaded.event.time)} (record {loaded.seq})"
    if data.revision != revision:
        return f"revision {revision}; the last one loaded before was {data.revision}, {when}"
    text = f"; its text: audit show {loaded.event.id}" if data.files else ""
    which = data.describe_revision()
    where = f"{data.source}, {data.mode}, version {data.version}"
    return f"{which} from {where}, {when}{text}"


def _checkpoint_rows(story: Story) -> Iterator[tuple[str, str]]:
    """Say which checkpoint covers the last record."""
    checkpoint = story.checkpoint
    if checkpoint is None or not isinstance(checkpoint.event.data, Checkpoint):
        yield "signed", f"not yet: no checkpoint follows record {story.case_events[-1].seq}"
        return
    where = f"checkpoint in record {checkpoint.seq} of {format_time(checkpoint.event.time)}"
    data = checkpoint.event.data
    yield "signed", f"{where}, over records 1 to {data.size}{_signer_names(data.note)}"
    yield "proof", "`audit verify` checks the signature and every record under it"


def _signer_names(note: str) -> str:
    try:
        found = parse_note(note)
    except JournalError:
        return " (whose note cannot be read)"
    return printable(" by " + ", ".join(one.key_identity for one in found.signatures))
