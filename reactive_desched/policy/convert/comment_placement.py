"""Places the comments of an old document in the converted one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from reactive_desched.api.args import Path
from reactive_desched.policy.convert.comments import Comment, CommentLine, CommentPosition
from reactive_desched.policy.convert.draft import (
    Block,
    Draft,
    DraftPart,
    Leaf,
    child_steps,
    map_parts,
    walk_parts,
)
from reactive_desched.policy.yaml.diagnostics import format_path

_ENTRY_DEPTH: Final = 3
_MIN_MERGED: Final = 2
_HEADING: Final = "# Comments on what this format has no place for:"


@dataclass(slots=True)
class PartComments:
    """The comments around one part; lines above and below know the column of their part then."""

    above: list[tuple[CommentLine, int]] = field(default_factory=list)
    beside: str = ""
    below: list[tuple[CommentLine, int]] = field(default_factory=list)


def mark_strategy_parts(policy: Draft) -> Draft:
    """Say which of the parts that a strategy became is the strategy, and which its switch.

    The first is its entry in pluginConfig, the second its name among those enabled.
    """
    return map_parts(policy, _mark_strategy_part)


def _mark_strategy_part(path: Path, part: DraftPart) -> DraftPart:
    match part.source_path, path:
        case ("strategies", name), (*_, "pluginConfig", int()):
            is_own = isinstance(part.value, Block) and part.value.scalar_value("name") == name
            return part if is_own else replace(part, source_path=None)
        case ("strategies", name), (*_, "enabled", int()) if _is_leaf_value(part.value, name):
            return replace(part, source_path=(*part.source_path, "enabled"))
        case (("strategies", _, "params"), ("profiles", int(), "pluginConfig", 0, "args")) | (
            ("strategies", _),
            _,
        ):
            return replace(part, source_path=None)
        case _:
            return part


def _is_leaf_value(draft: Draft, name: str | int) -> bool:
    return isinstance(draft, Leaf) and draft.value == name


class CommentPlacement:
    """Finds a place in a draft for each comment; the others go to the top."""

    def __init__(self, draft: Draft) -> None:
        self._parts = tuple(walk_parts(draft))
        self._order = {path: index for index, (path, _) in enumerate(self._parts)}
        self._by_source_path: dict[Path, tuple[Path, DraftPart]] = {}
        for path, part in self._parts:
            if part.source_path is not None:
                self._by_source_path.setdefault(part.source_path, (path, part))
        strategies = [path for path, part in self._parts if _is_strategy(part)]
        profiles = Counter(path[:2] for path in strategies)
        self._new_paths = {
            path
            for path, part in self._parts
            if part.source_path is None
            and (len(path) > _ENTRY_DEPTH or profiles[path[:2]] < _MIN_MERGED)
        }
        self.part_comments: dict[Path, PartComments] = {}
        self.unattached: list[Comment] = []

    def attach_all(
        self, comments: Iterable[Comment], other: "CommentPlacement | None" = None
    ) -> None:
        """Place every comment, in order; `other` takes those that have their place there."""
        for comment in comments:
            is_attached = self.try_attach(comment) or (
                other is not None and other.try_attach(comment)
            )
            if not is_attached and comment.has_text:
                self.unattached.append(comment)
        if self.unattached and self._parts:
            above = self._comments_of(self._parts[0][0]).above
            if above and not above[-1][0].is_empty:
                above.append((CommentLine(""), 0))
            above.extend((line, 0) for line in _unattached_lines(self.unattached))

    def try_attach(self, comment: Comment) -> bool:
        """Place a comment, if there is a place."""
        if comment.position is CommentPosition.BELOW:
            return self._try_attach_below(comment)
        if (exact := self._by_source_path.get(comment.path)) is not None:
            self._attach_to_part(comment, *exact)
            return True
        inside = self._parts_from(comment.path)
        if inside:
            self._append_lines(self._comments_of(inside[0]).above, comment, is_same=False)
        return bool(inside)

    def _attach_to_part(self, comment: Comment, path: Path, part: DraftPart) -> None:
        """Place a comment at the part it is about."""
        if comment.position is CommentPosition.ABOVE:
            self._append_lines(
                self._comments_of(path).above, comment, is_same=_is_unmoved(path, comment)
            )
            return
        remarks = self._comments_of(_innermost(path, part))
        if remarks.beside:
            self._append_lines(remarks.above, comment, is_same=False)
        else:
            remarks.beside = comment.lines[0].text

    def _try_attach_below(self, comment: Comment) -> bool:
        """Place a comment below the part it stood below, else at the end of the part around it."""
        written = comment.path[:2] if _is_switch(comment.path) else comment.path
        if (exact := self._by_source_path.get(written)) is not None:
            path = exact[0] if _is_switch(comment.path) else self._outermost_new(exact[0])
        elif inside := self._parts_from(written) or self._parts_from(written[:-1]):
            path = max(inside, key=lambda path: (-len(path), self._order[path]))
        else:
            return False
        self._append_lines(
            self._comments_of(path).below, comment, is_same=_is_unmoved(path, comment)
        )
        return True

    def _parts_from(self, written: Path) -> list[Path]:
        """Give the parts that come from a part of the old document, in the order of the new one."""
        return [path for path, part in self._parts if _starts_with(part.source_path, written)]

    def _outermost_new(self, path: Path) -> Path:
        """Go up to the outermost part that is new around a part: the rest is not about it."""
        while path[:-1] in self._new_paths:
            path = path[:-1]
        return path

    def _append_lines(
        self, lines: list[tuple[CommentLine, int]], comment: Comment, *, is_same: bool
    ) -> None:
        """Add the lines of a comment; around one that moved, empty lines mean nothing."""
        kept = list(comment.lines)
        column = comment.column
        if comment.position is CommentPosition.BESIDE:
            kept, column = [replace(comment.lines[0], column=0)], 0
        while kept and not is_same and kept[0].is_empty:
            kept.pop(0)
        while kept and not is_same and kept[-1].is_empty:
            kept.pop()
        lines.extend((line, column) for line in kept)

    def _comments_of(self, path: Path) -> PartComments:
        return self.part_comments.setdefault(path, PartComments())


def _is_unmoved(path: Path, comment: Comment) -> bool:
    """Say whether a comment stays where it is, so that the empty lines around it may stay too."""
    return path == comment.path or len(path) == len(comment.path) == 1


def _is_strategy(part: DraftPart) -> bool:
    return part.source_path is not None and part.source_path[:-1] == ("strategies",)


def _is_switch(path: Path) -> bool:
    """Say whether a path leads to what enables a strategy."""
    return path[:1] == ("strategies",) and path[2:] == ("enabled",)


def _starts_with(written: Path | None, path: Path) -> bool:
    return written is not None and written[: len(path)] == path


def _innermost(path: Path, part: DraftPart) -> Path:
    """Go down to the value itself where the part became a mapping or list around it."""
    while isinstance(part.value, Block) and len(part.value.parts) == 1:
        ((step, only),) = child_steps(part.value)
        if only.source_path != part.source_path:
            break
        path, part = (*path, step), only
    return path


def _unattached_lines(unattached: Sequence[Comment]) -> Iterator[CommentLine]:
    """Write comments that have no place, each with what it was about."""
    yield CommentLine(_HEADING)
    for comment in unattached:
        texts = [line.text.lstrip("#").strip() for line in comment.lines if not line.is_empty]
        yield CommentLine(f"# - {format_path(comment.path)}: {texts[0]}")
        yield from (CommentLine(f"#   {text}".rstrip()) for text in texts[1:])
    yield CommentLine("")
