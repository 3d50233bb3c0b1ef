"""Where in a converted document the comments of the old one go."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from reactive_desched.policy.comments import Comment, Line, Where
from reactive_desched.policy.diagnostics import Path, spelled
from reactive_desched.policy.yaml_draft import Block, Draft, Leaf, Part, parts, rebuilt, steps

_ENTRY: Final = 3
_SEVERAL: Final = 2
_HEADING: Final = "# Comments on what this format has no place for:"


@dataclass(slots=True)
class Remarks:
    """The comments around one part; lines above and below know the column of their part then."""

    above: list[tuple[Line, int]] = field(default_factory=list)
    beside: str = ""
    below: list[tuple[Line, int]] = field(default_factory=list)


def with_strategies_at_home(policy: Draft) -> Draft:
    """Say which of the parts that a strategy became is the strategy, and which its switch.

    The first is its entry in pluginConfig, the second its name among those enabled.
    """
    return rebuilt(policy, _at_home)


def _at_home(path: Path, part: Part) -> Part:
    match part.written, path:
        case ("strategies", name), (*_, "pluginConfig", int()):
            is_own = isinstance(part.value, Block) and part.value.says("name") == name
            return part if is_own else replace(part, written=None)
        case ("strategies", name), (*_, "enabled", int()) if _is(part.value, name):
            return replace(part, written=(*part.written, "enabled"))
        case (("strategies", _, "params"), ("profiles", int(), "pluginConfig", 0, "args")) | (
            ("strategies", _),
            _,
        ):
            return replace(part, written=None)
        case _:
            return part


def _is(draft: Draft, name: str | int) -> bool:
    return isinstance(draft, Leaf) and draft.value == name


class Homes:
    """Finds a place in a draft for each comment; what finds none is told at the top."""

    def __init__(self, draft: Draft) -> None:
        self._parts = tuple(parts(draft))
        self._order = {path: index for index, (path, _) in enumerate(self._parts)}
        self._exact: dict[Path, tuple[Path, Part]] = {}
        for path, part in self._parts:
            if part.written is not None:
                self._exact.setdefault(part.written, (path, part))
        strategies = [path for path, part in self._parts if _is_strategy(part)]
        profiles = Counter(path[:2] for path in strategies)
        self._new = {
            path
            for path, part in self._parts
            if part.written is None and (len(path) > _ENTRY or profiles[path[:2]] < _SEVERAL)
        }
        self.remarks: dict[Path, Remarks] = {}
        self.homeless: list[Comment] = []

    def settle(self, comments: Iterable[Comment]) -> None:
        """Place every comment, in order."""
        for comment in comments:
            if not self._settled(comment) and comment.says_something:
                self.homeless.append(comment)
        if self.homeless and self._parts:
            above = self._remarks(self._parts[0][0]).above
            if above and not above[-1][0].is_empty:
                above.append((Line(""), 0))
            above.extend((line, 0) for line in _told(self.homeless))

    def _settled(self, comment: Comment) -> bool:
        """Place a comment, if there is a place."""
        if comment.where is Where.BELOW:
            return self._settled_below(comment)
        if (exact := self._exact.get(comment.path)) is not None:
            self._attach(comment, *exact)
            return True
        inside = self._inside(comment.path)
        if inside:
            self._add(self._remarks(inside[0]).above, comment, is_same=False)
        return bool(inside)

    def _attach(self, comment: Comment, path: Path, part: Part) -> None:
        """Place a comment at the part it is about."""
        if comment.where is Where.ABOVE:
            self._add(self._remarks(path).above, comment, is_same=_is_same(path, comment))
            return
        remarks = self._remarks(_leafward(path, part))
        if remarks.beside:
            self._add(remarks.above, comment, is_same=False)
        else:
            remarks.beside = comment.lines[0].text

    def _settled_below(self, comment: Comment) -> bool:
        """Place a comment below what it stood below, or else at the end of what that was in."""
        written = comment.path[:2] if _is_switch(comment.path) else comment.path
        if (exact := self._exact.get(written)) is not None:
            path = exact[0] if _is_switch(comment.path) else self._outward(exact[0])
        elif inside := self._inside(written) or self._inside(written[:-1]):
            path = max(inside, key=lambda path: (-len(path), self._order[path]))
        else:
            return False
        self._add(self._remarks(path).below, comment, is_same=_is_same(path, comment))
        return True

    def _inside(self, written: Path) -> list[Path]:
        """Give the parts that come from a part of the old document, in the order of the new one."""
        return [path for path, part in self._parts if _is_below(part.written, written)]

    def _outward(self, path: Path) -> Path:
        """Go up to the outermost part that is new around a part: the rest is not about it."""
        while path[:-1] in self._new:
            path = path[:-1]
        return path

    def _add(self, lines: list[tuple[Line, int]], comment: Comment, *, is_same: bool) -> None:
        """Add the lines of a comment; around one that moved, empty lines mean nothing."""
        kept = list(comment.lines)
        column = comment.column
        if comment.where is Where.BESIDE:
            kept, column = [replace(comment.lines[0], column=0)], 0
        while kept and not is_same and kept[0].is_empty:
            kept.pop(0)
        while kept and not is_same and kept[-1].is_empty:
            kept.pop()
        lines.extend((line, column) for line in kept)

    def _remarks(self, path: Path) -> Remarks:
        return self.remarks.setdefault(path, Remarks())


def _is_same(path: Path, comment: Comment) -> bool:
    """Say whether a comment stays where it is, so that the empty lines around it may stay too."""
    return path == comment.path or len(path) == len(comment.path) == 1


def _is_strategy(part: Part) -> bool:
    return part.written is not None and part.written[:-1] == ("strategies",)


def _is_switch(path: Path) -> bool:
    """Say whether a path leads to what enables a strategy."""
    return path[:1] == ("strategies",) and path[2:] == ("enabled",)


def _is_below(written: Path | None, path: Path) -> bool:
    return written is not None and written[: len(path)] == path


def _leafward(path: Path, part: Part) -> Path:
    """Go down to the value itself where the part became a mapping or list around it."""
    while isinstance(part.value, Block) and len(part.value.parts) == 1:
        ((step, only),) = steps(part.value)
        if only.written != part.written:
            break
        path, part = (*path, step), only
    return path


def _told(homeless: Sequence[Comment]) -> Iterator[Line]:
    """Write comments that have no place, each with what it was about."""
    yield Line(_HEADING)
    for comment in homeless:
        texts = [line.text.lstrip("#").strip() for line in comment.lines if not line.is_empty]
        yield Line(f"# - {spelled(comment.path)}: {texts[0]}")
        yield from (Line(f"#   {text}".rstrip()) for text in texts[1:])
    yield Line("")
