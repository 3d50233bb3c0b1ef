"""Sorts nodes into levels by their labels: a node is of the first level that selects it."""

from collections.abc import Collection, Hashable, Iterator

from msgspec import Struct

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import NodeChange
from reactive_desched.model.labels import EVERYTHING, Selector


class NodeLevelChanged(NodeChange, frozen=True, gc=False):
    """The node is of another level now, of one that is new to it, or of none any more."""


class LevelRule(Struct, frozen=True):
    """The selectors of the levels, in order, and that of all nodes meant."""

    levels: tuple[Selector, ...] = ()
    nodes: Selector = EVERYTHING


class NodeLevels(Index):
    """The names of the eligible nodes of each level of a `LevelRule`, by the level's number."""

    announces = (NodeLevelChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._rule = args if isinstance(args, LevelRule) else LevelRule()
        self._level_of: dict[str, int] = {}
        self._names: list[dict[str, None]] = [{} for _ in self._rule.levels]
        self._below: dict[int, frozenset[str]] = {}
        for info in cluster.node_infos():
            if info.node is not None:
                self.on_node(None, NodeState(info.node, info.eligible))

    @property
    def count(self) -> int:
        """The number of levels, whether they have nodes or not."""
        return len(self._names)

    def level_of(self, node: str) -> int | None:
        """Return the number of a node's level; None where it is of none, or not eligible."""
        return self._level_of.get(node)

    def names(self, level: int) -> Collection[str]:
        """Name the nodes of a level."""
        return self._names[level].keys()

    def below(self, level: int) -> frozenset[str]:
        """Name the nodes of all later levels; the same set until one of them changes."""
        if level not in self._below:
            self._below[level] = frozenset().union(*self._names[level + 1 :])
        return self._below[level]

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterator[NodeLevelChanged]:
        """Sort a node by its labels, if it is eligible; forget it if not."""
        name = _name_of(old, new)
        before, after = self._level_of.get(name), self._find_level(new)
        if before == after:
            return iter(())
        if before is not None:
            del self._level_of[name], self._names[before][name]
        if after is not None:
            self._level_of[name] = after
            self._names[after][name] = None
        self._below.clear()
        return iter((NodeLevelChanged(name),))

    def answers(self) -> object:
        """Return the level of each node, and the nodes below each level."""
        below = [self.below(level) for level in range(len(self._names))]
        return self._level_of, [set(names) for names in self._names], below

    def _find_level(self, new: NodeState | None) -> int | None:
        if new is None or not new.eligible or not self._rule.nodes.matches(new.node.labels):
            return None
        levels = enumerate(self._rule.levels)
        return next((at for at, each in levels if each.matches(new.node.labels)), None)


def _name_of(old: NodeState | None, new: NodeState | None) -> str:
    state = new or old
    assert state is not None, "a hook has one of both"
    return state.node.name
