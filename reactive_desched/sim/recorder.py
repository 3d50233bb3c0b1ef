"""Kubernetes Events as the control plane writes them, repeats counted instead of stored again."""

from collections import OrderedDict
from typing import Final

from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.objects import Obj, name_of, namespace_of
from reactive_desched.sim.store import Store

__all__ = ["Recorder"]

_REMEMBERED: Final = 2_000
_LONGEST_NOTE: Final = 1024


class Recorder:
    """Writes events for one component.

    Remembers the last 2,000 distinct events; when full the oldest is forgotten, so that its
    repetition becomes a new event.
    """

    def __init__(self, store: Store, component: str) -> None:
        self._store = store
        self._component = component
        self._written: OrderedDict[tuple[str, str, str], tuple[str, str]] = OrderedDict()

    def normal(
        self,
        regarding: Obj,
        reason: str,
        action: str,
        note: str,
        *,
        field: str = "",
        draws_uid: bool = True,
    ) -> None:
        """Record that something went as it should, at a field of the object or at all of it.

        Where nothing is drawn, all objects have the names and uids that they have without it.
        """
        self._record(regarding, "Normal", reason, action, note, field, draws_uid=draws_uid)

    def warning(self, regarding: Obj, reason: str, action: str, note: str) -> None:
        """Record that something did not."""
        self._record(regarding, "Warning", reason, action, note)

    def _record(
        self,
        regarding: Obj,
        kind: str,
        reason: str,
        action: str,
        note: str,
        field: str = "",
        *,
        draws_uid: bool = True,
    ) -> None:
        identity = (regarding["metadata"]["uid"], reason, note)
        place = self._written.get(identity)
        if place is not None and self._store.get("events", *place) is not None:
            self._written.move_to_end(identity)
            self._store.modify("events", *place, self._repeated)
            return
        event = self._event(regarding, kind, reason, action, note)
        if field:
            event["involvedObject"]["fieldPath"] = field
        home = self._store.get("namespaces", "", namespace_of(event))
        if home is None or "deletionTimestamp" in home["metadata"]:
            return  # Nobody may write into a namespace on its way out.
        self._store.create("events", event, draws_uid=draws_uid)
        self._written[identity] = (namespace_of(event), name_of(event))
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def _repeated(self, event: Obj) -> Obj:
        now = rfc3339(self._store.clock.now())
        return {**event, "count": int(event.get("count", 1)) + 1, "lastTimestamp": now}

    def _event(self, regarding: Obj, kind: str, reason: str, action: str, note: str) -> Obj:
        now = self._store.clock.now()
        meta = regarding["metadata"]
        namespace = namespace_of(regarding) or "default"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                # The store's version grows with every write, so no two events share a name.
                "name": f"{meta['name']}.{self._store.rv:x}",
                "namespace": namespace,
            },
            "involvedObject": {
                "apiVersion": regarding["apiVersion"],
                "kind": regarding["kind"],
                "name": meta["name"],
                "uid": meta["uid"],
                "resourceVersion": meta.get("resourceVersion", ""),
                **({"namespace": meta["namespace"]} if "namespace" in meta else {}),
            },
            "type": kind,
            "reason": reason,
            "action": action,
            "message": note[:_LONGEST_NOTE],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": f"{self._component}-simulated",
            "firstTimestamp": rfc3339(now),
            "lastTimestamp": rfc3339(now),
            "count": 1,
        }
