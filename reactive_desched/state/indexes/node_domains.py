"""Keeps which nodes share a topology domain."""

from collections.abc import Hashable
from typing import Final

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL

INDEXED_KEYS: Final = (ZONE_LABEL, "topology.kubernetes.io/region", HOSTNAME_LABEL)
"""The topology labels that are indexed."""


class NodeDomains(Index):
    """The nodes of each zone, region and host name, eligible or not."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._nodes: dict[tuple[str, str], dict[str, None]] = {}
        for info in cluster.node_infos():
            if info.node is not None:
                self._move(info.name, {}, info.node.labels)

    def has_others(self, key: str, value: str, node: str) -> bool:
        """Say whether a node beside this one may be in a domain; True for other topology labels."""
        if key not in INDEXED_KEYS:
            return True
        nodes = self._nodes.get((key, value), {})
        return len(nodes) > 1 or (len(nodes) == 1 and node not in nodes)

    def on_node(self, old: NodeState | None, new: NodeState | None) -> tuple[()]:
        """Move a node whose labels differ."""
        before = old.node.labels if old is not None else {}
        after = new.node.labels if new is not None else {}
        state = new or old
        if state is not None and before is not after:
            self._move(state.node.name, before, after)
        return ()

    def answers(self) -> object:
        """Return the nodes by topology label and value."""
        return {domain: set(nodes) for domain, nodes in self._nodes.items()}

    def _move(self, name: str, old: Labels, new: Labels) -> None:
        for key in INDEXED_KEYS:
            before, after = old.get(key), new.get(key)
            if before == after:
                continue
            if before is not None:
                nodes = self._nodes[key, before]
                del nodes[name]
                if not nodes:
                    del self._nodes[key, before]
            if after is not None:
                self._nodes.setdefault((key, after), {})[name] = None
