"""Makes one document tree of another, and remembers where each part of it was written."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from reactive_desched.api.args import Path
from reactive_desched.policy.yaml.source_location import ConversionOrigin
from reactive_desched.policy.yaml.tree import (
    MappingEntry,
    MappingNode,
    PlainValue,
    ScalarNode,
    SequenceNode,
    YamlNode,
    find,
    mark_of,
)


class Null(Enum):
    """A null that is written out, where it says more than nothing at all."""

    NULL = None


NULL: Final = Null.NULL
_COPY_SOURCE: Final = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """A document in another format, and where each part of it was written in the first one.

    Values that were carried over are the same nodes, with the marks of the first text.
    """

    tree: MappingNode
    origin: ConversionOrigin


@dataclass(frozen=True, slots=True)
class TargetValue:
    """A value to be, and where it comes from; without content it is what is written there.

    A mapping or a list without anything in it is left out, and so is a null that is carried over.
    """

    source_path: Path
    content: "Mapping[str, TargetValue] | Sequence[TargetValue] | PlainValue | Null" = _COPY_SOURCE


class TreeBuilder:
    """Builds a tree from a target; values are copied from the known part of a document."""

    def __init__(self, root: YamlNode, known_tree: YamlNode) -> None:
        self._root = root
        self._known_tree = known_tree
        self._paths: dict[Path, Path] = {}

    def convert(self, target: TargetValue) -> Conversion:
        """Make the whole document; the target must be a mapping."""
        tree = self._build(target, ())
        if not isinstance(tree, MappingNode):
            raise TypeError("a document is a mapping")
        return Conversion(tree, ConversionOrigin(self._root, self._paths))

    def _build(self, target: TargetValue, path: Path) -> YamlNode | None:
        """Make the value for a path; None when there is nothing to put there."""
        self._paths[path] = target.source_path
        mark = mark_of(self._root, target.source_path)
        match target.content:
            case None:
                return find(self._known_tree, target.source_path)
            case Null():
                return ScalarNode(mark, None, "null")
            case bool() as switch:
                return ScalarNode(mark, switch, str(switch).lower())
            case str() | int() | float() as value:
                return ScalarNode(mark, value, str(value))
            case Mapping() as pieces:
                entries = tuple(self._entries(pieces, path))
                return MappingNode(mark, entries) if entries else None
            case pieces:
                made = (self._build(each, (*path, index)) for index, each in enumerate(pieces))
                items = tuple(node for node in made if node is not None)
                return SequenceNode(mark, items) if items else None

    def _entries(self, targets: Mapping[str, TargetValue], path: Path) -> Iterator[MappingEntry]:
        """Make the entries of a mapping; a null says the same as no entry."""
        for key, piece in targets.items():
            node = self._build(piece, (*path, key))
            if node is not None and (piece.content is NULL or not _is_null(node)):
                yield MappingEntry(key, mark_of(self._root, piece.source_path), node)


def _is_null(node: YamlNode) -> bool:
    return isinstance(node, ScalarNode) and node.value is None
