"""Scales workloads by what their pods use, as the HorizontalPodAutoscaler does.

Resource metrics of cpu and memory count, by utilization or by value; metrics of other types, and
the policies of `behavior`, do not. It looks every fifteen seconds, scales up by four pods or to
twice as many at once, and down to the highest of the last five minutes' recommendations.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from types import MappingProxyType
from typing import Final

from msgspec import Struct, convert

from reactive_desched.errors import QuantityError
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.resources import CPU, MEMORY, parse_amount
from reactive_desched.sim.amounts import sum_of, write_amount
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import with_conditions
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import Key, is_active, is_ready, key_of
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.store import Event, Store
from reactive_desched.sim.usage import used_by_containers

__all__ = ["HorizontalAutoscalers"]

_EVERY_S: Final = 15.0
_TOLERANCE: Final = 0.1
_STABILIZATION_S: Final = 300
_STEP_UP: Final = 4
_SCALED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Deployment": "deployments",
        "ReplicaSet": "replicasets",
        "ReplicationController": "replicationcontrollers",
        "StatefulSet": "statefulsets",
    }
)


class _Measure(Struct, frozen=True):
    """The result of one metric: how many pods it wants, its measure, and why there is none."""

    wanted: int = 0
    current: Obj | None = None
    fault: str = ""


class HorizontalAutoscalers(Reconciler):
    """Bounded by the autoscalers: the recommendations of the last minutes of each."""

    watches = frozenset({"horizontalpodautoscalers"})

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._recorder = Recorder(store, "horizontal-pod-autoscaler")
        self._recommended: dict[Key, deque[tuple[float, int]]] = {}

    def observe(self, event: Event) -> None:
        """Look at an autoscaler that is new or changed; forget one that is gone."""
        key = key_of(event.object)
        if event.type == "DELETED":
            self._recommended.pop(key, None)
        elif event.previous is None or event.previous["spec"] != event.object["spec"]:
            self.soon(key)

    def reconcile(self, key: Key, now: float) -> None:
        """Scale the workload, and report."""
        autoscaler = self.store.get("horizontalpodautoscalers", *key)
        if autoscaler is None:
            return
        self.soon(key, now + _EVERY_S)
        target = autoscaler["spec"].get("scaleTargetRef") or {}
        kind, name = str(target.get("kind")), str(target.get("name"))
        resource = _SCALED.get(kind, "")
        scaled = self.store.get(resource, key[0], name) if resource else None
        if scaled is None:
            why = _no("AbleToScale", "FailedGetScale", f'{kind} "{name}" not found')
            self._report(autoscaler, 0, 0, [why], now)
        elif not int(scaled["spec"].get("replicas", 1)):
            why = _no("ScalingActive", "ScalingDisabled", "the target has no replicas")
            self._report(autoscaler, 0, 0, [why], now)
        else:
            self._adapt(autoscaler, resource, scaled, now)

    def _adapt(self, autoscaler: Obj, resource: str, scaled: Obj, now: float) -> None:
        """Scale a workload by its metrics; one that is not known keeps it from shrinking."""
        spec, there = autoscaler["spec"], int(scaled["spec"].get("replicas", 1))
        measured = list(self._measured(scaled, spec, there))
        faults = [each.fault for each in measured if each.fault]
        wanted = max((each.wanted for each in measured if not each.fault), default=there)
        if faults:
            wanted = max(wanted, there)
        chosen = self._bounded(key_of(autoscaler), spec, there, wanted, now)
        if chosen != there:
            self._scale(autoscaler, resource, scaled, chosen, is_more=chosen > there)
        conditions = [_yes("AbleToScale", "ReadyForNewScale")]
        if faults:
            conditions.append(_no("ScalingActive", "FailedGetResourceMetric", faults[0]))
        else:
            conditions.append(_yes("ScalingActive", "ValidMetricFound"))
        current = [each.current for each in measured if each.current is not None]
        self._report(autoscaler, there, chosen, conditions, now, current)

    def _bounded(self, key: Key, spec: Obj, there: int, wanted: int, now: float) -> int:
        """Return how many pods there should be, after the window, the step and the bounds."""
        least, most = int(spec.get("minReplicas", 1)), int(spec.get("maxReplicas", 1))
        wanted = max(least, min(wanted, most))
        down = (spec.get("behavior") or {}).get("scaleDown") or {}
        window = float(down.get("stabilizationWindowSeconds", _STABILIZATION_S))
        recent = self._recommended.setdefault(key, deque())
        recent.append((now, wanted))
        while recent[0][0] < now - window:
            recent.popleft()
        if wanted < there:
            wanted = min(there, max(count for _, count in recent))
        return max(least, min(wanted, most, max(there * 2, there + _STEP_UP)))

    def _measured(self, scaled: Obj, spec: Obj, there: int) -> Iterator[_Measure]:
        selector = convert(scaled["spec"].get("selector") or {}, LabelSelector)
        pods = [
            pod
            for pod in self.store.list("pods", namespace_of(scaled))
            if is_active(pod) and selector.matches(labels_of(pod))
        ]
        metrics = spec.get("metrics") or [_DEFAULT_METRIC]
        for metric in metrics:
            source = metric.get("resource") or {}
            name = str(source.get("name"))
            if metric.get("type") != "Resource" or name not in (CPU, MEMORY):
                yield _Measure(fault=f"unable to get metric of the type {metric.get('type')}")
            else:
                yield _measure(pods, name, source.get("target") or {}, there)

    def _scale(
        self, autoscaler: Obj, resource: str, scaled: Obj, replicas: int, *, is_more: bool
    ) -> None:
        def change(current: Obj) -> Obj:
            return {**current, "spec": {**current["spec"], "replicas": replicas}}

        self.store.modify(resource, *key_of(scaled), change)
        why = "a metric is above its target" if is_more else "All metrics below target"
        note = f"New size: {replicas}; reason: {why}"
        self._recorder.normal(autoscaler, "SuccessfulRescale", "Rescale", note)

    def _report(
        self,
        autoscaler: Obj,
        there: int,
        wanted: int,
        conditions: Iterable[Obj],
        now: float,
        current: Sequence[Obj] = (),
    ) -> None:
        at, before = rfc3339(now), autoscaler.get("status", {})
        status = {
            "currentReplicas": there,
            "desiredReplicas": wanted,
            "currentMetrics": list(current) or None,
            "lastScaleTime": before.get("lastScaleTime") if there == wanted else at,
            "conditions": with_conditions(before.get("conditions") or (), conditions, at),
        }
        write_status(self.store, "horizontalpodautoscalers", autoscaler, status)


_DEFAULT_METRIC: Final[Obj] = {
    "type": "Resource",
    "resource": {"name": CPU, "target": {"type": "Utilization", "averageUtilization": 80}},
}


def _measure(pods: Iterable[Obj], resource: str, target: Obj, there: int) -> _Measure:
    """Return how many pods a metric wants: pods that are not Ready are not measured."""
    ready = [pod for pod in pods if is_ready(pod)]
    used = sum(sum(used_by_containers(pod, resource).values()) for pod in ready)
    if not ready:
        return _Measure(fault=f"unable to get metrics for resource {resource}: no pod is Ready")
    current: Obj = {"averageValue": write_amount(resource, used // len(ready))}
    percent = target.get("averageUtilization")
    if percent is not None:
        asked = [sum_of(pod["spec"]).get(resource, 0) for pod in ready]
        if not all(asked):
            without = name_of(ready[asked.index(0)])
            return _Measure(fault=f"missing request for {resource} of Pod {without}")
        utilization = used * 100 // sum(asked)
        current["averageUtilization"] = utilization
        ratio = utilization / int(percent)
    else:
        try:
            wished = parse_amount(resource, str(target.get("averageValue", "")))
        except QuantityError as error:
            return _Measure(fault=str(error))
        ratio = used / len(ready) / max(wished, 1)
    wanted = there if abs(ratio - 1) <= _TOLERANCE else ceil(ratio * len(ready))
    return _Measure(
        wanted, {"type": "Resource", "resource": {"name": resource, "current": current}}
    )


def _yes(kind: str, reason: str) -> Obj:
    return {"type": kind, "status": "True", "reason": reason}


def _no(kind: str, reason: str, message: str) -> Obj:
    return {"type": kind, "status": "False", "reason": reason, "message": message}
