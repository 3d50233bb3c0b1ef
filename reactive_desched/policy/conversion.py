"""A policy of the legacy format to one of today's: one document tree to another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from reactive_desched.api.args import Path
from reactive_desched.policy import document
from reactive_desched.policy.decode import known_fields_only
from reactive_desched.policy.registry import DEFAULT_EVICTOR
from reactive_desched.policy.source_location import ConversionOrigin
from reactive_desched.policy.strategies import (
    EVICTOR_FLAGS,
    NODE_FIT,
    SOFT_CONSTRAINTS,
    STATES,
    STRATEGIES,
    THRESHOLDS,
    TOP_LEVEL_FIELDS,
    ParamPath,
    Strategy,
)
from reactive_desched.policy.tree import (
    MappingEntry,
    MappingNode,
    ScalarNode,
    SequenceNode,
    YamlNode,
    find,
    mark_of,
)
from reactive_desched.policy.v1alpha1 import LegacyPolicy

_COPY_SOURCE: Final = None
_FILTERS: Final = ("filter", "preevictionfilter")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A document in today's format, and where each part of it was written in the legacy one.

    Values that were carried over are the same nodes, with the marks of the legacy text.
    """

    tree: MappingNode
    origin: ConversionOrigin


@dataclass(frozen=True, slots=True)
class _TargetValue:
    """A value to be, and where it comes from; without content it is what is written there."""

    source_path: Path
    content: "Mapping[str, _TargetValue] | Sequence[_TargetValue] | str | Literal[True] | None" = (
        _COPY_SOURCE
    )


def convert(root: MappingNode) -> Conversion:
    """Convert a document; what the legacy format does not know is left out.

    Takes any mapping: whether the values are right is for the reader of the result to say. Each
    enabled strategy becomes a profile of its own, in the order of the file.
    """
    assembly = _TreeBuilder(root)
    tree = assembly.build(_policy_target(assembly.known_tree), ())
    if not isinstance(tree, MappingNode):
        raise TypeError("a policy is a mapping")
    return Conversion(tree, ConversionOrigin(root, assembly.paths))


class _TreeBuilder:
    """Puts pieces together, and remembers where they come from."""

    def __init__(self, root: MappingNode) -> None:
        self._root = root
        self.known_tree = known_fields_only(root, LegacyPolicy)
        self.paths: dict[Path, Path] = {}

    def build(self, target: _TargetValue, path: Path) -> YamlNode | None:
        """Make the value for a path; None when there is nothing to put there."""
        self.paths[path] = target.source_path
        mark = mark_of(self._root, target.source_path)
        match target.content:
            case None:
                return find(self.known_tree, target.source_path)
            case str() as text:
                return ScalarNode(mark, text, text)
            case True:
                return ScalarNode(mark, True, "true")
            case Mapping() as pieces:
                entries = tuple(self._entries(pieces, path))
                return MappingNode(mark, entries) if entries else None
            case pieces:
                made = (self.build(each, (*path, index)) for index, each in enumerate(pieces))
                items = tuple(node for node in made if node is not None)
                return SequenceNode(mark, items) if items else None

    def _entries(self, targets: Mapping[str, _TargetValue], path: Path) -> Iterator[MappingEntry]:
        """Make the entries of a mapping; a null says the same as no entry."""
        for key, piece in targets.items():
            node = self.build(piece, (*path, key))
            if node is not None and not _is_null(node):
                yield MappingEntry(key, mark_of(self._root, piece.source_path), node)


def _policy_target(root: YamlNode) -> _TargetValue:
    """Outline the whole document."""
    return _TargetValue(
        (),
        {
            "apiVersion": _TargetValue(("apiVersion",), document.API_VERSION),
            "kind": _TargetValue(("kind",), document.KIND),
            **{key: _TargetValue((key,)) for key in TOP_LEVEL_FIELDS},
            "profiles": _TargetValue(
                ("strategies",), tuple(map(_ProfileBuilder(root).build, enabled_strategies(root)))
            ),
        },
    )


def enabled_strategies(root: YamlNode) -> tuple[str, ...]:
    """Give the names of the strategies that run, in the order of the file."""
    written = find(root, ("strategies",))
    return tuple(
        name
        for name in (written.keys_in_order if isinstance(written, MappingNode) else ())
        if name in STRATEGIES and is_true(find(root, ("strategies", name, "enabled")))
    )


def is_true(node: YamlNode | None) -> bool:
    """Say whether a switch is on."""
    return isinstance(node, ScalarNode) and node.value is True


class _ProfileBuilder:
    """Outlines the profile that a strategy becomes."""

    def __init__(self, root: YamlNode) -> None:
        self._root = root

    def build(self, name: str) -> _TargetValue:
        """Outline the profile of the strategy of this name."""
        strategy, at = STRATEGIES[name], ("strategies", name)
        points = {**dict.fromkeys(_FILTERS, DEFAULT_EVICTOR), strategy.point: name}
        plugins = {
            point: _TargetValue(at, {"enabled": _TargetValue(at, (_TargetValue(at, each),))})
            for point, each in points.items()
        }
        configs = (
            _TargetValue(at, self._entry(DEFAULT_EVICTOR, at, self._evictor_args(strategy, at))),
            _TargetValue(at, self._entry(name, at, self._args(strategy, at))),
        )
        return _TargetValue(
            at,
            {
                "name": _TargetValue(at, f"strategy-{name}-profile"),
                "pluginConfig": _TargetValue(at, configs),
                "plugins": _TargetValue(at, plugins),
            },
        )

    def _entry(
        self, name: str, at: Path, args: Mapping[str, _TargetValue]
    ) -> Mapping[str, _TargetValue]:
        return {"name": _TargetValue(at, name), "args": _TargetValue((*at, "params"), args)}

    def _evictor_args(self, strategy: Strategy, at: Path) -> Mapping[str, _TargetValue]:
        """Outline what protects pods: flags of the whole policy, and what the strategy says."""
        flags = {flag: _TargetValue((flag,)) for flag in EVICTOR_FLAGS}
        fit = {"nodeFit": _TargetValue(_param_path(at, NODE_FIT))} if strategy.has_node_fit else {}
        return {**flags, **fit, "priorityThreshold": self._threshold(at)}

    def _threshold(self, at: Path) -> _TargetValue:
        """Outline the threshold; an empty class name is none."""
        paths = {key: _param_path(at, path) for key, path in THRESHOLDS.items()}
        present = {key: path for key, path in paths.items() if self._is_set(path)}
        first = next(iter((present or paths).values()))
        return _TargetValue(first, {key: _TargetValue(path) for key, path in present.items()})

    def _is_set(self, path: Path) -> bool:
        node = find(self._root, path)
        return node is not None and not (isinstance(node, ScalarNode) and node.value in (None, ""))

    def _args(self, strategy: Strategy, at: Path) -> Mapping[str, _TargetValue]:
        """Outline the arguments of the strategy's plugin."""
        copied = {
            arg: _TargetValue(_param_path(at, path)) for arg, path in strategy.copied_params.items()
        }
        if SOFT_CONSTRAINTS in strategy.derived_params:
            return {**copied, **self._spread(at)}
        if strategy.derived_params == STATES:
            return {**copied, "states": self._states(at)}
        return copied

    def _spread(self, at: Path) -> Mapping[str, _TargetValue]:
        """Outline which constraints count, and that they are balanced with an eye on fit."""
        soft = _param_path(at, SOFT_CONSTRAINTS)
        kinds = ["DoNotSchedule", *(["ScheduleAnyway"] if is_true(find(self._root, soft)) else [])]
        return {
            "constraints": _TargetValue(soft, tuple(_TargetValue(soft, kind) for kind in kinds)),
            "topologyBalanceNodeFit": _TargetValue((*at, "params"), content=True),
        }

    def _states(self, at: Path) -> _TargetValue:
        """Outline the states: both lists, the older one first."""
        paths = [_param_path(at, path) for path in STATES]
        pieces = [_TargetValue(item) for path in paths for item in self._items(path)]
        return _TargetValue(paths[-1], tuple(pieces))

    def _items(self, path: Path) -> Iterator[Path]:
        """Give the paths of the items of a list, if there is one."""
        node = find(self._root, path)
        for index in range(len(node.items) if isinstance(node, SequenceNode) else 0):
            yield (*path, index)


def _param_path(at: Path, below: ParamPath) -> Path:
    return (*at, "params", *below)


def _is_null(node: YamlNode) -> bool:
    return isinstance(node, ScalarNode) and node.value is None
