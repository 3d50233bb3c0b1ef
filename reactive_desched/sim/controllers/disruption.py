"""Keeps each PodDisruptionBudget's status true, by the arithmetic of the real controller."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.sim.clock import parse_time, rfc3339
from reactive_desched.sim.conditions import with_condition
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.controllers.rollout import share_of
from reactive_desched.sim.controllers.scales import ScaleError, total_scale
from reactive_desched.sim.objects import Obj, labels_of, namespace_of
from reactive_desched.sim.pods import Key, is_ready, is_terminating, key_of
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.store import Event, Store

__all__ = ["DisruptionBudgets", "Expectation", "expectation"]

_BUDGETS: Final = "poddisruptionbudgets"
_UNCONFIRMED_S: Final = 120.0
_SCALED: Final = ("replicasets", "deployments", "statefulsets", "replicationcontrollers")


class Expectation(Struct, frozen=True):
    """The number of pods that there should be, and of those that must stay healthy."""

    pods: int
    healthy: int


def expectation(store: Store, budget: Obj, pods: list[Obj]) -> Expectation:
    """Work out what a budget protects; percentages are always rounded up.

    Raises ScaleError when a pod's owner has no size, ValueError for a malformed number.
    """
    spec = budget["spec"]
    if (limit := spec.get("maxUnavailable")) is not None:
        total = total_scale(store, pods)
        return Expectation(total, max(0, total - share_of(limit, total, round_up=True)))
    if (least := spec.get("minAvailable")) is None:
        return Expectation(0, 0)
    if isinstance(least, int):
        return Expectation(len(pods), least)
    total = total_scale(store, pods)
    return Expectation(total, share_of(least, total, round_up=True))


class DisruptionBudgets(Reconciler):
    """Recounts a budget when it, a pod it selects, or the size of an owner changes.

    Remembers which pods each budget selects, so that a pod's change costs only its namespace's
    budgets; bounded by the pods and budgets that exist.
    """

    watches = frozenset({_BUDGETS, "pods", *_SCALED})

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._recorder = Recorder(store, "controllermanager")
        self._covers: dict[str, dict[Key, _Cover]] = {}

    def observe(self, event: Event) -> None:
        """Note which budgets an event concerns."""
        if event.resource == _BUDGETS:
            self._observe_budget(event)
        elif event.resource == "pods":
            self._observe_pod(event)
        elif _replicas(event.object) != _replicas(event.previous) or event.type == "DELETED":
            for key in self._covers.get(namespace_of(event.object), ()):
                self.soon(key)

    def reconcile(self, key: Key, now: float) -> None:
        """Recount one budget and write its status."""
        budget = self.store.get(_BUDGETS, *key)
        cover = self._covers.get(key[0], {}).get(key)
        if budget is None or cover is None:
            return
        cover.refill(self.store)
        pods = [pod for name in sorted(cover.pods) if (pod := self.store.get("pods", *name))]
        try:
            expected = expectation(self.store, budget, pods)
        except (ScaleError, ValueError) as error:
            self._fail(budget, str(error), now)
            return
        self._report(budget, pods, expected, now)

    def _observe_budget(self, event: Event) -> None:
        budget, key = event.object, key_of(event.object)
        covers = self._covers.setdefault(key[0], {})
        if event.type == "DELETED":
            covers.pop(key, None)
            if not covers:
                del self._covers[key[0]]
            return
        raw = budget["spec"].get("selector")
        if key not in covers or covers[key].raw != raw:
            covers[key] = _Cover(key[0], raw)
        self.soon(key)

    def _observe_pod(self, event: Event) -> None:
        pod, before = event.object, event.previous
        for key, cover in self._covers.get(namespace_of(pod), {}).items():
            now_in = event.type != "DELETED" and cover.selects(labels_of(pod))
            if now_in:
                cover.pods.add(key_of(pod))
            elif not (before is not None and cover.selects(labels_of(before))):
                continue
            else:
                cover.pods.discard(key_of(pod))
            self.soon(key)

    def _report(self, budget: Obj, pods: list[Obj], expected: Expectation, now: float) -> None:
        disrupted = self._still_disrupted(budget, pods, now)
        healthy = sum(
            1
            for pod in pods
            if not is_terminating(pod)
            and pod["metadata"]["name"] not in disrupted
            and is_ready(pod)
        )
        allowed = max(0, healthy - expected.healthy) if expected.pods > 0 else 0
        generation = budget["metadata"].get("generation", 0)
        condition = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
            "observedGeneration": generation,
        }
        conditions = budget.get("status", {}).get("conditions") or ()
        status = {
            "observedGeneration": generation,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": expected.healthy,
            "expectedPods": expected.pods,
            "disruptedPods": disrupted or None,
            "conditions": with_condition(conditions, condition, rfc3339(now)),
        }
        write_status(self.store, _BUDGETS, budget, status)

    def _still_disrupted(self, budget: Obj, pods: Iterable[Obj], now: float) -> dict[str, str]:
        """Return the evictions whose pods have not begun to terminate, for two minutes each."""
        noted = budget.get("status", {}).get("disruptedPods") or {}
        kept: dict[str, str] = {}
        for pod in pods:
            name = pod["metadata"]["name"]
            if name not in noted or is_terminating(pod):
                continue
            until = parse_time(noted[name]) + _UNCONFIRMED_S
            if until <= now:
                note = f"Pod was expected by PDB {key_of(budget)} to be deleted but it wasn't"
                self._recorder.warning(pod, "NotDeleted", "Disrupting", note)
                continue
            kept[name] = noted[name]
            self.soon(key_of(budget), until)
        return kept

    def _fail(self, budget: Obj, why: str, now: float) -> None:
        """Fail safe: allow nothing and say why; the observed generation stays behind."""
        status = budget.get("status", {})
        observed = status.get("observedGeneration", 0)
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "SyncFailed",
            "message": why,
            "observedGeneration": observed,
        }
        conditions = with_condition(status.get("conditions") or (), condition, rfc3339(now))
        counts = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 0)
        failed = {**counts, **status, "disruptionsAllowed": 0, "conditions": conditions}
        write_status(self.store, _BUDGETS, budget, failed)
        note = f"Failed to calculate the number of expected pods: {why}"
        self._recorder.warning(budget, "CalculateExpectedPodCountFailed", "Disrupting", note)


class _Cover:
    """The pods one budget selects; filled from the store once, then kept by events."""

    def __init__(self, namespace: str, raw: Obj | None) -> None:
        self.raw = raw
        self.pods: set[Key] = set()
        self._namespace = namespace
        self._selector = None if raw is None else msgspec.convert(raw, LabelSelector)
        self._is_filled = False

    def selects(self, labels: Labels) -> bool:
        """Say whether the budget covers pods of these labels; an absent selector covers none."""
        return self._selector is not None and self._selector.matches(labels)

    def refill(self, store: Store) -> None:
        """Find the pods that were there before the budget was."""
        if self._is_filled:
            return
        self._is_filled = True
        for pod in store.list("pods", self._namespace):
            if self.selects(labels_of(pod)):
                self.pods.add(key_of(pod))


def _replicas(owner: Obj | None) -> int | None:
    return None if owner is None else owner["spec"].get("replicas")
