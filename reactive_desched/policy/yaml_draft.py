"""A document that is to be written: its values as text, each knowing where it was before."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from reactive_desched.policy.diagnostics import Path
from reactive_desched.policy.outline import Outline
from reactive_desched.policy.quoting import leaf, word
from reactive_desched.policy.source_location import Place
from reactive_desched.policy.tree import Items, Mark, Node, Plain, Scalar, Table

NOWHERE: Final = None


@dataclass(frozen=True, slots=True)
class Part:
    """A key with its value, or an item of a list (which has no key).

    `written` is the path it had in the document it comes from, if it can be said to be the same
    thing. What `is_kept` is, in that document, the same thing at the same path.
    """

    key: str | None
    value: "Draft"
    written: Path | None = NOWHERE
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value, and the text that writes it."""

    text: str
    value: Plain


@dataclass(frozen=True, slots=True)
class Block:
    """A mapping or a list; `column` is where it began, if it is to begin there again."""

    parts: tuple[Part, ...]
    is_list: bool = False
    is_flow: bool = False
    column: int | None = None

    def part(self, key: str) -> Part | None:
        """Find a key."""
        return next((part for part in self.parts if part.key == key), None)

    def get(self, key: str) -> "Draft | None":
        """Find the value of a key."""
        found = self.part(key)
        return None if found is None else found.value

    def says(self, key: str) -> Plain:
        """Give the single value of a key; None where there is none."""
        found = self.get(key)
        return found.value if isinstance(found, Leaf) else None


Draft = Block | Leaf


def text(value: str) -> Leaf:
    """Give a text as a value."""
    return Leaf(word(value), value)


def steps(draft: Draft) -> Iterator[tuple[str | int, Part]]:
    """Give the parts of a value, each with the step of a path that leads to it."""
    for index, part in enumerate(draft.parts if isinstance(draft, Block) else ()):
        yield (index if part.key is None else part.key), part


def parts(draft: Draft, path: Path = ()) -> Iterator[tuple[Path, Part]]:
    """Visit every part with its path, what is outside before what is inside."""
    for step, part in steps(draft):
        yield (*path, step), part
        yield from parts(part.value, (*path, step))


def rebuilt(draft: Draft, change: "Change", path: Path = ()) -> Draft:
    """Give a draft in which each part is what a function makes of it, from the inside out.

    What is not changed stays the same object.
    """
    if isinstance(draft, Leaf):
        return draft
    made = tuple(_rebuilt(part, change, (*path, step)) for step, part in steps(draft))
    if all(new is old for new, old in zip(made, draft.parts, strict=True)):
        return draft
    return replace(draft, parts=tuple(part for part in made if part is not None))


def _rebuilt(part: Part, change: "Change", path: Path) -> Part | None:
    value = rebuilt(part.value, change, path)
    return change(path, part if value is part.value else changed(part, value))


def changed(part: Part, value: Draft) -> Part:
    """Give a part with another value."""
    return replace(part, value=value, is_kept=False)


Change = Callable[[Path, Part], Part | None]
"""Gives the part to put in the place of one at a path; None leaves it out."""


class Drafter:
    """Drafts documents from trees; what is kept as it was is drafted to be written as it was."""

    def __init__(self, outline: Outline, *, keeps: bool) -> None:
        self._outline = outline
        self._keeps = keeps

    def draft(self, place: Place) -> Draft:
        """Draft the value at a place."""
        node = place.node
        return Leaf("null", None) if node is None else self._value(node, place)

    def _value(self, node: Node, at: Place) -> Draft:
        match node:
            case Scalar(mark=mark):
                return Leaf(leaf(node, self._outline.styles.get(mark)), node.value)
            case Items(items=items, mark=mark):
                parts = tuple(
                    self._part(None, item, at.below(index)) for index, item in enumerate(items)
                )
                return self._block(parts, mark, is_list=True)
            case Table(entries=entries, mark=mark):
                parts = tuple(
                    self._part(entry.key, entry.value, at.below(entry.key)) for entry in entries
                )
                return self._block(parts, mark)

    def _part(self, key: str | None, node: Node, at: Place) -> Part:
        return Part(key, self._value(node, at), at.written.path, self._keeps)

    def _block(self, parts: tuple[Part, ...], mark: Mark, *, is_list: bool = False) -> Block:
        is_flow = mark in self._outline.brackets
        column = mark.column - 1 if self._keeps and not is_flow else None
        return Block(parts, is_list, is_flow, column)
