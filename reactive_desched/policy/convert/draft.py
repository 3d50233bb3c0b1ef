"""A document that is to be written: its values as text, each with its place before."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from reactive_desched.api.args import Path
from reactive_desched.policy.yaml.outline import Outline
from reactive_desched.policy.yaml.quoting import yaml_scalar, yaml_text
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import (
    MappingNode,
    PlainValue,
    ScalarNode,
    SequenceNode,
    SourceMark,
    YamlNode,
)

NO_SOURCE: Final = None


@dataclass(frozen=True, slots=True)
class DraftPart:
    """A key with its value, or an item of a list (which has no key).

    `source_path` is the path of the same value in the source document, if there is one.
    `is_unchanged` says that the value stands in the source document at the same path.
    """

    key: str | None
    value: "Draft"
    source_path: Path | None = NO_SOURCE
    is_unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value, and the text that writes it."""

    text: str
    value: PlainValue


@dataclass(frozen=True, slots=True)
class Block:
    """A mapping or a list; `column` is where it began, if it is to begin there again."""

    parts: tuple[DraftPart, ...]
    is_list: bool = False
    is_flow: bool = False
    column: int | None = None

    def part(self, key: str) -> DraftPart | None:
        """Find a key."""
        return next((part for part in self.parts if part.key == key), None)

    def get(self, key: str) -> "Draft | None":
        """Find the value of a key."""
        part = self.part(key)
        return None if part is None else part.value

    def scalar_value(self, key: str) -> PlainValue:
        """Return the single value of a key; None where there is none."""
        value = self.get(key)
        return value.value if isinstance(value, Leaf) else None


Draft = Block | Leaf


def text_leaf(value: str) -> Leaf:
    """Return a text as a value."""
    return Leaf(yaml_text(value), value)


def child_steps(draft: Draft) -> Iterator[tuple[str | int, DraftPart]]:
    """Return the parts of a value, each with the step of a path that leads to it."""
    for index, part in enumerate(draft.parts if isinstance(draft, Block) else ()):
        yield (index if part.key is None else part.key), part


def walk_parts(draft: Draft, path: Path = ()) -> Iterator[tuple[Path, DraftPart]]:
    """Visit every part with its path, each before the parts inside it."""
    for step, part in child_steps(draft):
        yield (*path, step), part
        yield from walk_parts(part.value, (*path, step))


def map_parts(draft: Draft, transform: "PartTransform", path: Path = ()) -> Draft:
    """Return a draft with each part replaced by what a function returns for it, innermost first.

    What is not changed stays the same object.
    """
    if isinstance(draft, Leaf):
        return draft
    made = tuple(_map_part(part, transform, (*path, step)) for step, part in child_steps(draft))
    if all(new is old for new, old in zip(made, draft.parts, strict=True)):
        return draft
    return replace(draft, parts=tuple(part for part in made if part is not None))


def _map_part(part: DraftPart, transform: "PartTransform", path: Path) -> DraftPart | None:
    value = map_parts(part.value, transform, path)
    return transform(path, part if value is part.value else with_value(part, value))


def with_value(part: DraftPart, value: Draft) -> DraftPart:
    """Return a part with another value."""
    return replace(part, value=value, is_unchanged=False)


PartTransform = Callable[[Path, DraftPart], DraftPart | None]
"""Gives the part to put in the place of one at a path; None leaves it out."""


class Drafter:
    """Drafts documents from trees; what is kept as it was is drafted to be written as it was."""

    def __init__(self, outline: Outline, *, keep_source: bool) -> None:
        self._outline = outline
        self._keep_source = keep_source

    def draft(self, location: SourceLocation) -> Draft:
        """Draft the value at a place."""
        node = location.node
        return Leaf("null", None) if node is None else self._draft_value(node, location)

    def _draft_value(self, node: YamlNode, at: SourceLocation) -> Draft:
        match node:
            case ScalarNode(mark=mark):
                return Leaf(yaml_scalar(node, self._outline.styles.get(mark)), node.value)
            case SequenceNode(items=items, mark=mark):
                parts = tuple(
                    self._draft_part(None, item, at.below(index))
                    for index, item in enumerate(items)
                )
                return self._draft_block(parts, mark, is_list=True)
            case MappingNode(entries=entries, mark=mark):
                parts = tuple(
                    self._draft_part(entry.key, entry.value, at.below(entry.key))
                    for entry in entries
                )
                return self._draft_block(parts, mark)

    def _draft_part(self, key: str | None, node: YamlNode, at: SourceLocation) -> DraftPart:
        return DraftPart(key, self._draft_value(node, at), at.original.path, self._keep_source)

    def _draft_block(
        self, parts: tuple[DraftPart, ...], mark: SourceMark, *, is_list: bool = False
    ) -> Block:
        is_flow = mark in self._outline.brackets
        column = mark.column - 1 if self._keep_source and not is_flow else None
        return Block(parts, is_list, is_flow, column)
