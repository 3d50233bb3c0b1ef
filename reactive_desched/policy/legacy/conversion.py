"""A policy of the legacy format to one of today's: one document tree to another."""

from collections.abc import Iterator, Mapping
from typing import Final

from reactive_desched.api.args import Path
from reactive_desched.policy import document
from reactive_desched.policy.legacy.strategies import (
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
from reactive_desched.policy.legacy.v1alpha1 import LegacyPolicy
from reactive_desched.policy.registry import DEFAULT_EVICTOR
from reactive_desched.policy.yaml.decode import known_fields_only
from reactive_desched.policy.yaml.derived_tree import Conversion, TargetValue, TreeBuilder
from reactive_desched.policy.yaml.tree import MappingNode, ScalarNode, SequenceNode, YamlNode, find

_FILTERS: Final = ("filter", "preevictionfilter")


def convert(root: MappingNode) -> Conversion:
    """Convert a document; what the legacy format does not know is left out.

    Takes any mapping: whether the values are right is for the reader of the result to say. Each
    enabled strategy becomes a profile of its own, in the order of the file.
    """
    known_tree = known_fields_only(root, LegacyPolicy)
    return TreeBuilder(root, known_tree).convert(_policy_target(known_tree))


def _policy_target(root: YamlNode) -> TargetValue:
    """Outline the whole document."""
    return TargetValue(
        (),
        {
            "apiVersion": TargetValue(("apiVersion",), document.API_VERSION),
            "kind": TargetValue(("kind",), document.KIND),
            **{key: TargetValue((key,)) for key in TOP_LEVEL_FIELDS},
            "profiles": TargetValue(
                ("strategies",), tuple(map(_ProfileBuilder(root).build, enabled_strategies(root)))
            ),
        },
    )


def enabled_strategies(root: YamlNode) -> tuple[str, ...]:
    """Return the names of the strategies that run, in the order of the file."""
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

    def build(self, name: str) -> TargetValue:
        """Outline the profile of the strategy of this name."""
        strategy, at = STRATEGIES[name], ("strategies", name)
        points = {**dict.fromkeys(_FILTERS, DEFAULT_EVICTOR), strategy.point: name}
        plugins = {
            point: TargetValue(at, {"enabled": TargetValue(at, (TargetValue(at, each),))})
            for point, each in points.items()
        }
        configs = (
            TargetValue(at, self._entry(DEFAULT_EVICTOR, at, self._evictor_args(strategy, at))),
            TargetValue(at, self._entry(name, at, self._args(strategy, at))),
        )
        return TargetValue(
            at,
            {
                "name": TargetValue(at, f"strategy-{name}-profile"),
                "pluginConfig": TargetValue(at, configs),
                "plugins": TargetValue(at, plugins),
            },
        )

    def _entry(
        self, name: str, at: Path, args: Mapping[str, TargetValue]
    ) -> Mapping[str, TargetValue]:
        return {"name": TargetValue(at, name), "args": TargetValue((*at, "params"), args)}

    def _evictor_args(self, strategy: Strategy, at: Path) -> Mapping[str, TargetValue]:
        """Outline what protects pods: flags of the whole policy, and what the strategy says."""
        flags = {flag: TargetValue((flag,)) for flag in EVICTOR_FLAGS}
        fit = {"nodeFit": TargetValue(_param_path(at, NODE_FIT))} if strategy.has_node_fit else {}
        return {**flags, **fit, "priorityThreshold": self._threshold(at)}

    def _threshold(self, at: Path) -> TargetValue:
        """Outline the threshold; an empty class name is none."""
        paths = {key: _param_path(at, path) for key, path in THRESHOLDS.items()}
        present = {key: path for key, path in paths.items() if self._is_set(path)}
        first = next(iter((present or paths).values()))
        return TargetValue(first, {key: TargetValue(path) for key, path in present.items()})

    def _is_set(self, path: Path) -> bool:
        node = find(self._root, path)
        return node is not None and not (isinstance(node, ScalarNode) and node.value in (None, ""))

    def _args(self, strategy: Strategy, at: Path) -> Mapping[str, TargetValue]:
        """Outline the arguments of the strategy's plugin."""
        copied = {
            arg: TargetValue(_param_path(at, path)) for arg, path in strategy.copied_params.items()
        }
        if SOFT_CONSTRAINTS in strategy.derived_params:
            return {**copied, **self._spread(at)}
        if strategy.derived_params == STATES:
            return {**copied, "states": self._states(at)}
        return copied

    def _spread(self, at: Path) -> Mapping[str, TargetValue]:
        """Outline which constraints count, and that they are balanced with an eye on fit."""
        soft = _param_path(at, SOFT_CONSTRAINTS)
        kinds = ["DoNotSchedule", *(["ScheduleAnyway"] if is_true(find(self._root, soft)) else [])]
        return {
            "constraints": TargetValue(soft, tuple(TargetValue(soft, kind) for kind in kinds)),
            "topologyBalanceNodeFit": TargetValue((*at, "params"), content=True),
        }

    def _states(self, at: Path) -> TargetValue:
        """Outline the states: both lists, the older one first."""
        paths = [_param_path(at, path) for path in STATES]
        pieces = [TargetValue(item) for path in paths for item in self._items(path)]
        return TargetValue(paths[-1], tuple(pieces))

    def _items(self, path: Path) -> Iterator[Path]:
        """Return the paths of the items of a list, if there is one."""
        node = find(self._root, path)
        for index in range(len(node.items) if isinstance(node, SequenceNode) else 0):
            yield (*path, index)


def _param_path(at: Path, below: ParamPath) -> Path:
    return (*at, "params", *below)
