"""The switch that stops a simulated node's kubelet: an annotation, so that kubectl can turn it.

`down` stops it at once, `shutdown` after it has ended the node's pods (`node_shutdown`).
"""

from typing import Final

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.store import Store

__all__ = ["ANNOTATION", "DOWN", "SHUTDOWN", "is_down", "is_shutting_down", "switch"]

ANNOTATION: Final = "sim.reactive-desched/kubelet"
DOWN, SHUTDOWN = "down", "shutdown"


def is_down(node: Obj) -> bool:
    """Say whether the node's kubelet is switched off."""
    return _position(node) == DOWN


def is_shutting_down(node: Obj) -> bool:
    """Say whether the node's kubelet ends its pods before it stops."""
    return _position(node) == SHUTDOWN


def _position(node: Obj) -> str | None:
    position: str | None = (node["metadata"].get("annotations") or {}).get(ANNOTATION)
    return position


def switch(store: Store, node: str, *, on: bool) -> None:
    """Stop a node's kubelet or start it again; raises StatusError for an unknown node."""

    def change(current: Obj) -> Obj:
        annotations = current["metadata"].setdefault("annotations", {})
        if on:
            annotations.pop(ANNOTATION, None)
        else:
            annotations[ANNOTATION] = DOWN
        return current

    store.modify("nodes", "", node, change)
