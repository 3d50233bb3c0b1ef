"""Removes the condition DisruptionTarget of pods that were not deleted after all."""

from typing import Final

from reactive_desched.sim.clock import parse_time, rfc3339
from reactive_desched.sim.conditions import find_condition, with_condition
from reactive_desched.sim.controllers.controller import Reconciler
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.pods import Key, is_active, key_of
from reactive_desched.sim.store import Event, Store

__all__ = ["StaleDisruption"]

_KEEP_S: Final = 120.0
_MARK: Final = "DisruptionTarget"


class StaleDisruption(Reconciler):
    """Resets DisruptionTarget two minutes after it was set on a pod that still lives."""

    watches = frozenset({"pods"})

    def __init__(self, store: Store) -> None:
        super().__init__(store)

    def observe(self, event: Event) -> None:
        """Note pods that carry the mark."""
        if event.type != "DELETED" and (at := _expires(event.object)) is not None:
            self.soon(key_of(event.object), at)

    def reconcile(self, key: Key, now: float) -> None:
        """Reset the mark if it has grown stale."""
        pod = self.store.get("pods", *key)
        at = None if pod is None else _expires(pod)
        if at is None:
            return
        if now < at:
            self.soon(key, at)
            return
        condition = {"type": _MARK, "status": "False"}

        def change(current: Obj) -> Obj:
            status = current["status"]
            conditions = with_condition(status["conditions"], condition, rfc3339(now))
            return {**current, "status": {**status, "conditions": conditions}}

        self.store.modify("pods", *key, change, subresource="status")


def _expires(pod: Obj) -> float | None:
    mark = find_condition(pod, _MARK)
    if mark is None or mark.get("status") != "True" or not is_active(pod):
        return None
    if mark.get("reason") == "TerminationByKubelet":
        return None
    return parse_time(mark["lastTransitionTime"]) + _KEEP_S
