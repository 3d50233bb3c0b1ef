"""The switch that stops a simulated node's kubelet: an annotation, so that kubectl can turn it."""

from typing import Final

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.store import Store

__all__ = ["ANNOTATION", "DOWN", "is_down", "switch"]

ANNOTATION: Final = "sim.reactive-desched/kubelet"
DOWN: Final = "down"


def is_down(node: Obj) -> bool:
    """Say whether the node's kubelet is switched off."""
    return (node["metadata"].get("annotations") or {}).get(ANNOTATION) == DOWN


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
