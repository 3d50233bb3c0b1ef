"""Keeps the line and column of every key, value and comment in the text of a document."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from yaml.events import (  # type: ignore[import-untyped]  # PyYAML ships no types
    CollectionEndEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from reactive_desched.api.args import Path
from reactive_desched.policy.yaml.text import YamlText, mark_of_event
from reactive_desched.policy.yaml.tree import SourceMark

_CLOSING: Final = "..."
TAGGED: Final = "!"
"""The style of a value with an explicit tag: it cannot be written again as it stands."""


@dataclass(frozen=True, slots=True)
class NodeSpan:
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

    `spans` are in written order, what is outside before what is inside. `opaque_spans` are those in
    which a # begins no comment. `styles` has the style of each single value, `brackets` the places
    of collections in flow style. `has_aliases` says that there are anchors or aliases.
    """

    text: str
    start: int
    root: SourceMark
    end: int = 0
    spans: list[NodeSpan] = field(default_factory=list)
    opaque_spans: list[tuple[int, int]] = field(default_factory=list)
    styles: dict[SourceMark, str] = field(default_factory=dict)
    brackets: set[SourceMark] = field(default_factory=set)
    has_aliases: bool = False


def outline_document(text: str, root: SourceMark) -> Outline:
    """Outline the document of a text whose outermost value begins at a place.

    The text is one that the reader takes: its depth and size are within bounds.
    """
    for each in outlines(text):
        if each.root == root:
            return each
    raise LookupError(f"no document begins at {root}")


def outlines(text: str) -> Iterator[Outline]:
    """Outline each document of a text that says anything, in order; raises PolicyErrors."""
    events = iter(YamlText(text, "").events())
    end = 0
    for event in events:
        if isinstance(event, DocumentStartEvent):
            first, begin = next(events), _document_start(event, text, end)
            if isinstance(first, DocumentEndEvent):
                end = _untyped(first).end_mark.index
                continue
            current = Outline(text, begin, mark_of_event(first))
            _OutlineBuilder(current, events).build(first)
            is_closed = text.startswith(_CLOSING, current.end)
            end = _skip_line_break(text, current.end + len(_CLOSING)) if is_closed else current.end
            yield current


def _document_start(event: Event, text: str, after: int) -> int:
    """Say where a document begins: below its `---`, or after what ended the one before."""
    at = _untyped(event)
    return _skip_line_break(text, at.end_mark.index) if at.explicit else after


def _skip_line_break(text: str, at: int) -> int:
    """Go to the next line, unless something is on the rest of this one."""
    line, line_break, _ = text[at:].partition("\n")
    is_free = not line.strip() or line.strip().startswith("#")
    return at + len(line) + 1 if is_free and line_break else at


class _OutlineBuilder:
    """Follows the events of one document."""

    def __init__(self, outline: Outline, events: Iterator[Event]) -> None:
        self._outline = outline
        self._events = events

    def build(self, first: Event) -> None:
        """Follow the document to its end."""
        self._visit_value(first, (), is_flow=False)
        self._outline.end = _untyped(next(self._events)).start_mark.index

    def _visit_value(self, event: Event, path: Path, *, is_flow: bool) -> int:
        """Follow the value that begins with this event, and say where it ends."""
        at = _untyped(event)
        if isinstance(event, NodeEvent) and at.anchor:
            self._outline.has_aliases = True
        match event:
            case ScalarEvent():
                return self._visit_scalar(event)
            case MappingStartEvent():
                return self._visit_collection(event, path, is_flow=is_flow or at.flow_style)
            case SequenceStartEvent():
                return self._visit_collection(event, path, is_flow=is_flow or at.flow_style)
            case _:
                end: int = at.end_mark.index
                return end

    def _visit_scalar(self, event: Event) -> int:
        at, text = _untyped(event), self._outline.text
        begin: int = at.start_mark.index
        end = begin + len(text[begin : at.end_mark.index].rstrip())
        is_block = at.style in ("|", ">")
        self._outline.opaque_spans.append(
            (_after_block_header(text, begin) if is_block else begin, end)
        )
        self._outline.styles[mark_of_event(event)] = TAGGED if at.tag else at.style or ""
        return end

    def _visit_collection(self, event: Event, path: Path, *, is_flow: bool) -> int:
        at = _untyped(event)
        if is_flow:
            self._outline.brackets.add(mark_of_event(event))
        visit = self._visit_entry if isinstance(event, MappingStartEvent) else self._visit_item
        end, count, column = at.start_mark.index, 0, at.start_mark.column
        while not isinstance(step := next(self._events), CollectionEndEvent):
            end = visit(step, (*path, count), column, is_flow=is_flow)
            count += 1
        closing: int = _untyped(step).end_mark.index
        return closing if is_flow else end

    def _visit_entry(self, key: Event, path: Path, column: int, *, is_flow: bool) -> int:
        at = _untyped(key)
        begin, end = at.start_mark.index, at.end_mark.index
        self._outline.opaque_spans.append((begin, end))
        below = (*path[:-1], str(at.value))
        return self._add_span(next(self._events), below, (begin, end, column), is_flow=is_flow)

    def _visit_item(self, event: Event, path: Path, column: int, *, is_flow: bool) -> int:
        begin = _untyped(event).start_mark.index
        return self._add_span(event, path, (begin, begin, column), is_flow=is_flow)

    def _add_span(
        self, event: Event, path: Path, bounds: tuple[int, int, int], *, is_flow: bool
    ) -> int:
        """Note a key or item, and what is below it after it; say where it ends."""
        begin, least, column = bounds
        index = len(self._outline.spans)
        self._outline.spans.append(NodeSpan(path, begin, least, column, is_flow))
        end = max(least, self._visit_value(event, path, is_flow=is_flow))
        end = least if _is_empty(event) else end
        self._outline.spans[index] = NodeSpan(path, begin, end, column, is_flow)
        return end


def _after_block_header(text: str, begin: int) -> int:
    """Return the place below the line on which a block of text is announced."""
    return text.find("\n", begin) + 1 or len(text)


def _is_empty(event: Event) -> bool:
    """Say whether nothing is written; the parser then gives the place of what is next."""
    at = _untyped(event)
    return isinstance(event, ScalarEvent) and bool(at.start_mark.index == at.end_mark.index)


def _untyped(event: Event) -> Any:  # Any: PyYAML's stubs leave out the marks of events
    return event
