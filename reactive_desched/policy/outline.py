"""Where everything stands in the text of a document: what a tree of values does not remember."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml.events import (
    CollectionEndEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from reactive_desched.policy.diagnostics import Path
from reactive_desched.policy.tree import Mark
from reactive_desched.policy.yaml_text import YamlText, mark_of_event

_CLOSING: Final = "..."
TAGGED: Final = "!"
"""The style of a value with an explicit tag: it cannot be written again as it stands."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A key with its value, or an item of a list; places count from 0.

    `column` of an item in block style is that of its dash.
    """

    path: Path
    start: int
    end: int
    column: int
    is_flow: bool
    """Whether it is inside brackets or braces."""


@dataclass(slots=True)
class Outline:
    """One document: `start` and `end` bound it in the text, without its `---`.

    `spots` are in written order, what is outside before what is inside. `masks` are the spans in
    which a # begins no comment. `styles` has the style of each single value, `brackets` the places
    of collections in flow style. A document that `shares` has anchors or aliases.
    """

    text: str
    start: int
    root: Mark
    end: int = 0
    spots: list[Spot] = field(default_factory=list)
    masks: list[tuple[int, int]] = field(default_factory=list)
    styles: dict[Mark, str] = field(default_factory=dict)
    brackets: set[Mark] = field(default_factory=set)
    shares: bool = False


def outline(text: str, root: Mark) -> Outline:
    """Outline the document of a text whose outermost value begins at a place.

    The text is one that the reader takes: its depth and size are within bounds.
    """
    for each in _documents(text):
        if each.root == root:
            return each
    raise LookupError(f"no document begins at {root}")


def _documents(text: str) -> Iterator[Outline]:
    events = iter(YamlText(text, "").events())
    end = 0
    for event in events:
        if isinstance(event, DocumentStartEvent):
            first, begin = next(events), _first_place(event, text, end)
            if isinstance(first, DocumentEndEvent):
                end = _place(first).end_mark.index
                continue
            found = Outline(text, begin, mark_of_event(first))
            _Outliner(found, events).follow(first)
            is_closed = text.startswith(_CLOSING, found.end)
            end = _below(text, found.end + len(_CLOSING)) if is_closed else found.end
            yield found


def _first_place(event: Event, text: str, after: int) -> int:
    """Say where a document begins: below its `---`, or after what ended the one before."""
    at = _place(event)
    return _below(text, at.end_mark.index) if at.explicit else after


def _below(text: str, at: int) -> int:
    """Go to the next line, unless something is on the rest of this one."""
    line, line_break, _ = text[at:].partition("\n")
    is_free = not line.strip() or line.strip().startswith("#")
    return at + len(line) + 1 if is_free and line_break else at


class _Outliner:
    """Follows the events of one document."""

    def __init__(self, found: Outline, events: Iterator[Event]) -> None:
        self._found = found
        self._events = events

    def follow(self, first: Event) -> None:
        """Follow the document to its end."""
        self._value(first, (), is_flow=False)
        self._found.end = _place(next(self._events)).start_mark.index

    def _value(self, event: Event, path: Path, *, is_flow: bool) -> int:
        """Follow the value that begins with this event, and say where it ends."""
        at = _place(event)
        if isinstance(event, NodeEvent) and at.anchor:
            self._found.shares = True
        match event:
            case ScalarEvent():
                return self._leaf(event)
            case MappingStartEvent():
                return self._collection(event, path, is_flow=is_flow or at.flow_style)
            case SequenceStartEvent():
                return self._collection(event, path, is_flow=is_flow or at.flow_style)
            case _:
                end: int = at.end_mark.index
                return end

    def _leaf(self, event: Event) -> int:
        at, text = _place(event), self._found.text
        begin: int = at.start_mark.index
        end = begin + len(text[begin : at.end_mark.index].rstrip())
        is_block = at.style is not None and at.style in "|>"
        self._found.masks.append((_below_header(text, begin) if is_block else begin, end))
        self._found.styles[mark_of_event(event)] = TAGGED if at.tag else at.style or ""
        return end

    def _collection(self, event: Event, path: Path, *, is_flow: bool) -> int:
        at = _place(event)
        if is_flow:
            self._found.brackets.add(mark_of_event(event))
        follow = self._entry if isinstance(event, MappingStartEvent) else self._item
        end, count, column = at.start_mark.index, 0, at.start_mark.column
        while not isinstance(step := next(self._events), CollectionEndEvent):
            end = follow(step, (*path, count), column, is_flow=is_flow)
            count += 1
        closing: int = _place(step).end_mark.index
        return closing if is_flow else end

    def _entry(self, key: Event, path: Path, column: int, *, is_flow: bool) -> int:
        at = _place(key)
        begin, end = at.start_mark.index, at.end_mark.index
        self._found.masks.append((begin, end))
        below = (*path[:-1], str(at.value))
        return self._spot(next(self._events), below, (begin, end, column), is_flow=is_flow)

    def _item(self, event: Event, path: Path, column: int, *, is_flow: bool) -> int:
        begin = _place(event).start_mark.index
        return self._spot(event, path, (begin, begin, column), is_flow=is_flow)

    def _spot(self, event: Event, path: Path, where: tuple[int, int, int], *, is_flow: bool) -> int:
        """Note a key or item, and what is below it after it; say where it ends."""
        begin, least, column = where
        index = len(self._found.spots)
        self._found.spots.append(Spot(path, begin, least, column, is_flow))
        end = max(least, self._value(event, path, is_flow=is_flow))
        end = least if _is_empty(event) else end
        self._found.spots[index] = Spot(path, begin, end, column, is_flow)
        return end


def _below_header(text: str, begin: int) -> int:
    """Give the place below the line on which a block of text is announced."""
    return text.find("\n", begin) + 1 or len(text)


def _is_empty(event: Event) -> bool:
    """Say whether nothing is written; the parser then gives the place of what is next."""
    at = _place(event)
    return isinstance(event, ScalarEvent) and bool(at.start_mark.index == at.end_mark.index)


def _place(event: Event) -> Any:  # Any: ruamel's events are not typed
    return event
