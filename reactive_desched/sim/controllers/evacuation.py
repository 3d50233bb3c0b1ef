"""Moves the pods that ask for it in the background, as KubeVirt migrates virtual machines.

An eviction of a pod with the annotation request-evict-only is refused with 429 and begins the move;
some seconds later the pod is gone, and its controller makes another.
"""

from typing import Final

from reactive_desched.model.opt_outs import EVICTION_IN_PROGRESS, REQUEST_EVICT_ONLY
from reactive_desched.sim.controllers.controller import Reconciler
from reactive_desched.sim.deletion import DeleteOptions
from reactive_desched.sim.objects import Obj, merged
from reactive_desched.sim.pods import Key, is_terminal, is_terminating, key_of
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import Event, Store

__all__ = ["Evacuation", "begin_evacuation"]

MOVE_S: Final = 5.0
_WEBHOOK: Final = "virt-launcher-eviction-interceptor.kubevirt.io"


def begin_evacuation(store: Store, pod: Obj, *, dry_run: bool) -> None:
    """Begin the move of a pod that asks for it, and raise the refusal; other pods pass."""
    annotations = pod["metadata"].get("annotations") or {}
    if REQUEST_EVICT_ONLY not in annotations or is_terminating(pod) or is_terminal(pod):
        return
    namespace, name = key_of(pod)
    if EVICTION_IN_PROGRESS not in annotations and not dry_run:

        def begun(current: Obj) -> Obj:
            meta = current["metadata"]
            moving = {**(meta.get("annotations") or {}), EVICTION_IN_PROGRESS: ""}
            return {**current, "metadata": merged(meta, annotations=moving)}

        store.modify("pods", namespace, name, begun)
    text = f'Eviction triggered evacuation of VMI "{namespace}/{name}"'
    message = f'admission webhook "{_WEBHOOK}" denied the request: {text}'
    raise StatusError(429, "TooManyRequests", message)


class Evacuation(Reconciler):
    """Deletes a pod five seconds after its move in the background began."""

    watches = frozenset({"pods"})

    def observe(self, event: Event) -> None:
        """Note the pods that are being moved."""
        if event.type != "DELETED" and _is_moving(event.object):
            self.soon(key_of(event.object), self.store.clock.now() + MOVE_S)

    def reconcile(self, key: Key, now: float) -> None:
        """End the move of a pod."""
        del now
        pod = self.store.get("pods", *key)
        if pod is not None and _is_moving(pod):
            options = DeleteOptions(grace_period_seconds=0, uid=pod["metadata"]["uid"])
            self.store.delete("pods", *key, options)


def _is_moving(pod: Obj) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    asked = REQUEST_EVICT_ONLY in annotations and EVICTION_IN_PROGRESS in annotations
    return asked and not is_terminating(pod) and not is_terminal(pod)
