"""The comments of a document, each with the part of the document it is about."""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import takewhile
from typing import Final

from reactive_desched.api.args import Path
from reactive_desched.policy.yaml.outline import NodeSpan, Outline

_COMMENT_PATTERN: Final = re.compile(r"(?:^|(?<=\s))#[^\r\n]*", re.MULTILINE)
_NO_COLUMN: Final = sys.maxsize


class CommentPosition(Enum):
    """The position of a comment, relative to the part that it is about."""

    ABOVE = auto()
    BESIDE = auto()
    BELOW = auto()


@dataclass(frozen=True, slots=True)
class Comment:
    """Lines about the part at a path; an empty one is an empty line between or around comments.

    `line` counts from 1; `column`, from 0, is that of the part. `end` is the place in the text at
    which the comment ends.
    """

    path: Path
    position: CommentPosition
    lines: tuple["CommentLine", ...]
    line: int
    end: int
    column: int = 0

    @property
    def has_text(self) -> bool:
        """Say whether this is more than empty lines."""
        return any(not line.is_empty for line in self.lines)


@dataclass(frozen=True, slots=True)
class CommentLine:
    """A comment without the spaces before it, and how many there were; or an empty line."""

    text: str
    column: int = 0

    @property
    def is_empty(self) -> bool:
        """Say whether this is an empty line."""
        return not self.text


@dataclass(frozen=True, slots=True)
class _NumberedLine(CommentLine):
    """A line with nothing but a comment, or with nothing at all, and its place."""

    number: int = 0
    end: int = 0


def find_comments(outline: Outline) -> tuple[Comment, ...]:
    """Find every comment of a document, in the order of the text.

    A comment beside a value is about that value. One on lines of its own is about what is below it,
    unless it is indented deeper: then it belongs to what is above.
    """
    return tuple(_CommentFinder(outline).find_all())


class _CommentFinder:
    """Goes through the lines of a document."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        text = outline.text
        self._lines = [0, *(at.end() for at in re.finditer("\n", text))]
        self._comment_spans = {
            self._line_number(at): (at, end) for at, end in _find_hashes(outline)
        }
        self._spans: dict[int, list[NodeSpan]] = {}
        for spot in outline.spans:
            self._spans.setdefault(self._line_number(spot.start), []).append(spot)
        self._dashes = {number: spot for spot in outline.spans for number in self._dash_line(spot)}
        for number, spot in self._dashes.items():
            self._spans[number] = [spot]
        self._columns = {spot.path: spot.column for spot in outline.spans if not spot.is_flow}

    def find_all(self) -> Iterator[Comment]:
        """Return the comments line by line."""
        waiting: list[_NumberedLine] = []
        above: NodeSpan | None = None
        last = self._line_number(max(self._outline.start, self._outline.end - 1))
        for number in range(self._line_number(self._outline.start), last + 1):
            if (alone := self._comment_only_line(number)) is not None:
                waiting.append(alone)
                continue
            spots = self._spans.get(number, [])
            yield from self._assign(waiting, above, spots[0] if spots else None)
            waiting = []
            yield from self._trailing_comment(number, above)
            above = spots[-1] if spots else above
        yield from self._assign(waiting, above, None)

    def _assign(
        self, waiting: Sequence[_NumberedLine], above: NodeSpan | None, below: NodeSpan | None
    ) -> Iterator[Comment]:
        """Divide the lines between two parts: those of the upper one, then those of the lower."""
        upper: list[_NumberedLine] = []
        if above is not None:
            about = partial(_belongs_to_above, above=above, below=below)
            upper = list(takewhile(lambda line: line.is_empty or about(line), waiting))
        while upper and upper[-1].is_empty:
            upper.pop()
        lower = waiting[len(upper) :]
        for path, lines in self._group_by_target(upper, above):
            yield self._make_comment(path, CommentPosition.BELOW, lines)
        if lower and below is not None:
            yield self._make_comment(below.path, CommentPosition.ABOVE, lower)

    def _group_by_target(
        self, lines: Sequence[_NumberedLine], above: NodeSpan | None
    ) -> Iterator[tuple[Path, list[_NumberedLine]]]:
        """Group lines by what they are about: the nearest part above not indented deeper.

        What follows a line and is indented deeper stays with it: a mapping that is commented out
        is one comment.
        """
        group: list[_NumberedLine] = []
        target: Path = ()
        for line in lines:
            path = target if line.is_empty else self._target(line, above)
            has_text = any(not each.is_empty for each in group)
            if has_text and len(path) > len(target):
                path = target
            if path != target and has_text:
                yield target, group
                group = []
            group.append(line)
            target = path
        if group:
            yield target, group

    def _target(self, line: _NumberedLine, above: NodeSpan | None) -> Path:
        path = above.path if above is not None else ()
        lengths = range(len(path), 0, -1)
        fitting = (
            path[:n] for n in lengths if self._columns.get(path[:n], _NO_COLUMN) <= line.column
        )
        return next(fitting, path[:1])

    def _comment_only_line(self, number: int) -> _NumberedLine | None:
        """Return a line that holds at most a comment."""
        begin = max(self._lines[number], self._outline.start)
        at, end = self._comment_spans.get(number, (self._line_end(number), self._line_end(number)))
        text = self._outline.text
        if text[begin:at].strip():
            return None
        return _NumberedLine(text[at:end].rstrip(), at - begin, number, end)

    def _make_comment(
        self, path: Path, position: CommentPosition, lines: Sequence[_NumberedLine]
    ) -> Comment:
        first = next((line for line in lines if not line.is_empty), lines[0])
        column = self._columns.get(path, first.column)
        return Comment(path, position, tuple(lines), first.number + 1, lines[-1].end, column)

    def _trailing_comment(self, number: int, above: NodeSpan | None) -> Iterator[Comment]:
        """Return the comment at the end of a line that holds something else."""
        if number not in self._comment_spans:
            return
        at, end = self._comment_spans[number]
        spots = [spot for spot in self._spans.get(number, []) if spot.start < at]
        line = _NumberedLine(
            self._outline.text[at:end].rstrip(), at - self._lines[number], number, end
        )
        if number in self._dashes:
            yield self._make_comment(self._dashes[number].path, CommentPosition.ABOVE, [line])
            return
        spot = _commented_span(spots) or self._span_ending_on(number) or above
        yield self._make_comment(
            spot.path if spot is not None else (), CommentPosition.BESIDE, [line]
        )

    def _dash_line(self, spot: NodeSpan) -> Iterator[int]:
        """Return the line of the dash of an item if the item itself begins on one below."""
        if spot.is_flow or not isinstance(spot.path[-1], int):
            return
        for number in range(self._line_number(spot.start) - 1, -1, -1):
            end, _ = self._comment_spans.get(number, (self._line_end(number), 0))
            if written := self._outline.text[self._lines[number] : end].strip():
                if not written.strip(" -"):
                    yield number
                return

    def _span_ending_on(self, number: int) -> NodeSpan | None:
        """Return what ends on a line on which nothing begins: a bracket, or the rest of a text."""
        begin, end = self._lines[number], self._line_end(number)
        closed = (spot for spot in reversed(self._outline.spans) if begin < spot.end <= end)
        return next(closed, None)

    def _line_number(self, at: int) -> int:
        return bisect_right(self._lines, at) - 1

    def _line_end(self, number: int) -> int:
        """Return the place of the break that ends a line."""
        is_last = number + 1 == len(self._lines)
        return len(self._outline.text) if is_last else self._lines[number + 1] - 1


def _find_hashes(outline: Outline) -> Iterator[tuple[int, int]]:
    """Return begin and end of each comment; a # inside a value begins none."""
    at = outline.start
    while (match := _COMMENT_PATTERN.search(outline.text, at, outline.end)) is not None:
        index = bisect_right(outline.opaque_spans, (match.start(), len(outline.text))) - 1
        mask = outline.opaque_spans[index] if index >= 0 else (0, 0)
        if mask[0] <= match.start() < mask[1]:
            at = mask[1]
        else:
            yield match.span()
            at = match.end()


def _commented_span(spans: Sequence[NodeSpan]) -> NodeSpan | None:
    """Give what a comment at the end of a line is about: the last part that is not in brackets."""
    outside = [spot for spot in spans if not spot.is_flow]
    return next(reversed(outside or spans), None)


def _belongs_to_above(line: _NumberedLine, above: NodeSpan, below: NodeSpan | None) -> bool:
    """Return whether a line between two parts is about the upper one."""
    if below is None:
        return True
    goes_in = below.path[: len(above.path)] == above.path
    return not (goes_in or below.is_flow) and line.column > below.column
