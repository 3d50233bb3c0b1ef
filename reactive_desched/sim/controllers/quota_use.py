"""Writes what the objects of a namespace use of its ResourceQuotas into their status."""

from reactive_desched.model.resources import add_resources
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.objects import namespace_of
from reactive_desched.sim.pods import Key, key_of
from reactive_desched.sim.quotas import counts_kind, hard_of, used_of, written
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.store import Event, Store

__all__ = ["QuotaUse"]


class QuotaUse(Reconciler):
    """Looks at a quota when it changes, or an object of a kind that it names."""

    watches = frozenset(kind.plural for kind in RESOURCES.values() if kind.namespaced)

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._limited: dict[str, int] = {}
        """How many quotas each namespace has that has one."""

    def observe(self, event: Event) -> None:
        """Look at the quota that changed, or at those of a changed object's namespace."""
        namespace = namespace_of(event.object)
        if event.resource == "resourcequotas":
            step = {"ADDED": 1, "DELETED": -1}.get(event.type, 0)
            self._limited[namespace] = self._limited.get(namespace, 0) + step
            if not self._limited[namespace]:
                del self._limited[namespace]
        if namespace not in self._limited or event.resource == "events":
            return
        kind = RESOURCES[event.resource]
        for quota in self.store.list("resourcequotas", namespace):
            if quota is event.object or counts_kind(quota, kind):
                self.soon(key_of(quota))

    def reconcile(self, key: Key, now: float) -> None:
        """Count what is used of a quota."""
        quota = self.store.get("resourcequotas", *key)
        if quota is None:
            return
        hard, used = hard_of(quota), dict[str, int]()
        for kind in RESOURCES.values():
            if kind.namespaced and counts_kind(quota, kind):
                add_resources(used, used_of(quota, kind, self.store.list(kind.plural, key[0]), now))
        status = {
            "hard": quota["spec"].get("hard"),
            "used": written({name: used.get(name, 0) for name in hard}),
        }
        write_status(self.store, "resourcequotas", quota, status)
