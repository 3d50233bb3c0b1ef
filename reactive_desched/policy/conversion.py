"""A policy of the legacy format to one of today's: one document tree to another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from reactive_desched.policy import document
from reactive_desched.policy.decode import known_part
from reactive_desched.policy.diagnostics import Path
from reactive_desched.policy.registry import DEFAULT_EVICTOR
from reactive_desched.policy.source_location import Origin
from reactive_desched.policy.strategies import (
    EVICTOR_FLAGS,
    NODE_FIT,
    SOFT_CONSTRAINTS,
    STATES,
    STRATEGIES,
    THRESHOLDS,
    TOP,
    Below,
    Strategy,
)
from reactive_desched.policy.tree import Entry, Items, Node, Scalar, Table, find, mark_of
from reactive_desched.policy.v1alpha1 import LegacyPolicy

_COPY: Final = None
_FILTERS: Final = ("filter", "preevictionfilter")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A document in today's format, and where each part of it was written in the legacy one.

    Values that were carried over are the same nodes, with the marks of the legacy text.
    """

    tree: Table
    origin: Origin


@dataclass(frozen=True, slots=True)
class _Piece:
    """A value to be, and where it comes from; without content it is what is written there."""

    written: Path
    content: "Mapping[str, _Piece] | Sequence[_Piece] | str | Literal[True] | None" = _COPY


def convert(root: Table) -> Conversion:
    """Convert a document; what the legacy format does not know is left out.

    Takes any mapping: whether the values are right is for the reader of the result to say. Each
    enabled strategy becomes a profile of its own, in the order of the file.
    """
    assembly = _Assembly(root)
    tree = assembly.node(_policy(assembly.known), ())
    if not isinstance(tree, Table):
        raise TypeError("a policy is a mapping")
    return Conversion(tree, Origin(root, assembly.paths))


class _Assembly:
    """Puts pieces together, and remembers where they come from."""

    def __init__(self, root: Table) -> None:
        self._root = root
        self.known = known_part(root, LegacyPolicy)
        self.paths: dict[Path, Path] = {}

    def node(self, piece: _Piece, path: Path) -> Node | None:
        """Make the value for a path; None when there is nothing to put there."""
        self.paths[path] = piece.written
        mark = mark_of(self._root, piece.written)
        match piece.content:
            case None:
                return find(self.known, piece.written)
            case str() as text:
                return Scalar(mark, text, text)
            case True:
                return Scalar(mark, True, "true")
            case Mapping() as pieces:
                entries = tuple(self._entries(pieces, path))
                return Table(mark, entries) if entries else None
            case pieces:
                made = (self.node(each, (*path, index)) for index, each in enumerate(pieces))
                items = tuple(node for node in made if node is not None)
                return Items(mark, items) if items else None

    def _entries(self, pieces: Mapping[str, _Piece], path: Path) -> Iterator[Entry]:
        """Make the entries of a mapping; a null says the same as no entry."""
        for key, piece in pieces.items():
            node = self.node(piece, (*path, key))
            if node is not None and not _is_null(node):
                yield Entry(key, mark_of(self._root, piece.written), node)


def _policy(root: Node) -> _Piece:
    """Outline the whole document."""
    return _Piece(
        (),
        {
            "apiVersion": _Piece(("apiVersion",), document.API_VERSION),
            "kind": _Piece(("kind",), document.KIND),
            **{key: _Piece((key,)) for key in TOP},
            "profiles": _Piece(("strategies",), tuple(map(_Profile(root).piece, enabled(root)))),
        },
    )


def enabled(root: Node) -> tuple[str, ...]:
    """Give the names of the strategies that run, in the order of the file."""
    written = find(root, ("strategies",))
    return tuple(
        name
        for name in (written.keys_in_order if isinstance(written, Table) else ())
        if name in STRATEGIES and is_true(find(root, ("strategies", name, "enabled")))
    )


def is_true(node: Node | None) -> bool:
    """Say whether a switch is on."""
    return isinstance(node, Scalar) and node.value is True


class _Profile:
    """Outlines the profile that a strategy becomes."""

    def __init__(self, root: Node) -> None:
        self._root = root

    def piece(self, name: str) -> _Piece:
        """Outline the profile of the strategy of this name."""
        strategy, at = STRATEGIES[name], ("strategies", name)
        points = {**dict.fromkeys(_FILTERS, DEFAULT_EVICTOR), strategy.point: name}
        plugins = {
            point: _Piece(at, {"enabled": _Piece(at, (_Piece(at, each),))})
            for point, each in points.items()
        }
        configs = (
            _Piece(at, self._entry(DEFAULT_EVICTOR, at, self._evictor_args(strategy, at))),
            _Piece(at, self._entry(name, at, self._args(strategy, at))),
        )
        return _Piece(
            at,
            {
                "name": _Piece(at, f"strategy-{name}-profile"),
                "pluginConfig": _Piece(at, configs),
                "plugins": _Piece(at, plugins),
            },
        )

    def _entry(self, name: str, at: Path, args: Mapping[str, _Piece]) -> Mapping[str, _Piece]:
        return {"name": _Piece(at, name), "args": _Piece((*at, "params"), args)}

    def _evictor_args(self, strategy: Strategy, at: Path) -> Mapping[str, _Piece]:
        """Outline what protects pods: flags of the whole policy, and what the strategy says."""
        flags = {flag: _Piece((flag,)) for flag in EVICTOR_FLAGS}
        fit = {"nodeFit": _Piece(_param(at, NODE_FIT))} if strategy.has_node_fit else {}
        return {**flags, **fit, "priorityThreshold": self._threshold(at)}

    def _threshold(self, at: Path) -> _Piece:
        """Outline the threshold; an empty class name is none."""
        paths = {key: _param(at, path) for key, path in THRESHOLDS.items()}
        there = {key: path for key, path in paths.items() if self._is_there(path)}
        first = next(iter((there or paths).values()))
        return _Piece(first, {key: _Piece(path) for key, path in there.items()})

    def _is_there(self, path: Path) -> bool:
        node = find(self._root, path)
        return node is not None and not (isinstance(node, Scalar) and node.value in (None, ""))

    def _args(self, strategy: Strategy, at: Path) -> Mapping[str, _Piece]:
        """Outline the arguments of the strategy's plugin."""
        copied = {arg: _Piece(_param(at, path)) for arg, path in strategy.copies.items()}
        if SOFT_CONSTRAINTS in strategy.makes:
            return {**copied, **self._spread(at)}
        if strategy.makes == STATES:
            return {**copied, "states": self._states(at)}
        return copied

    def _spread(self, at: Path) -> Mapping[str, _Piece]:
        """Outline which constraints count, and that they are balanced with an eye on fit."""
        soft = _param(at, SOFT_CONSTRAINTS)
        kinds = ["DoNotSchedule", *(["ScheduleAnyway"] if is_true(find(self._root, soft)) else [])]
        return {
            "constraints": _Piece(soft, tuple(_Piece(soft, kind) for kind in kinds)),
            "topologyBalanceNodeFit": _Piece((*at, "params"), content=True),
        }

    def _states(self, at: Path) -> _Piece:
        """Outline the states: both lists, the older one first."""
        paths = [_param(at, path) for path in STATES]
        pieces = [_Piece(item) for path in paths for item in self._items(path)]
        return _Piece(paths[-1], tuple(pieces))

    def _items(self, path: Path) -> Iterator[Path]:
        """Give the paths of the items of a list, if there is one."""
        node = find(self._root, path)
        for index in range(len(node.items) if isinstance(node, Items) else 0):
            yield (*path, index)


def _param(at: Path, below: Below) -> Path:
    return (*at, "params", *below)


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None
