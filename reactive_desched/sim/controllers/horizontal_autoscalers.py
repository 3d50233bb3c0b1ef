"""Scales workloads by what their pods use, and by other metrics, as the HorizontalPodAutoscaler.

It looks at each autoscaler every fifteen seconds. `autoscaler_metrics` says what each metric asks
for, of which the highest counts; `autoscaler_rules` how far that may be followed at once.
"""

from contextlib import suppress
from typing import Final

from msgspec import Struct

from reactive_desched.errors import QuantityError, SelectorError
from reactive_desched.model.labels import Selector, parse_selector
from reactive_desched.model.quantities import parse_quantity
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import with_conditions
from reactive_desched.sim.controllers.autoscaler_metrics import (
    MetricError,
    Proposal,
    Scaled,
    proposed,
)
from reactive_desched.sim.controllers.autoscaler_rules import PastScaling
from reactive_desched.sim.controllers.controller import Reconciler
from reactive_desched.sim.controllers.scales import ScaleError
from reactive_desched.sim.objects import Obj, labels_of, namespace_of
from reactive_desched.sim.pods import Key, key_of
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import StatusError, not_found
from reactive_desched.sim.store import Event, Store
from reactive_desched.sim.views import scale_of, with_scale

__all__ = ["HorizontalAutoscalers"]

_EVERY_S: Final = 15.0
_UNMEASURED: Final[Obj] = {"type": ""}
"""What the status shows of a metric that failed."""


class _Target(Struct, frozen=True):
    """The workload that an autoscaler names, and its Scale."""

    kind: Resource
    obj: Obj
    scale: Obj

    @property
    def wanted(self) -> int:
        """Return how many pods it asks for."""
        return int(self.scale["spec"].get("replicas") or 0)


class _Measured(Struct, frozen=True):
    """The number of pods that the metrics ask for, and what the status shows of them."""

    replicas: int | None
    """None where that is not known: too much failed."""
    metric: str
    """The metric that asks for the most, as events name it."""
    shown: list[Obj]
    condition: Obj
    failure: str = ""


class HorizontalAutoscalers(Reconciler):
    """Bounded by the autoscalers: of each what it recommended and did within an hour."""

    watches = frozenset({"horizontalpodautoscalers"})

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._recorder = Recorder(store, "horizontal-pod-autoscaler")
        self._past: dict[Key, PastScaling] = {}
        self._selectors: dict[Key, Selector] = {}

    def observe(self, event: Event) -> None:
        """Look at an autoscaler fifteen seconds after it came; forget one that is gone."""
        key = key_of(event.object)
        if event.type == "DELETED":
            self._past.pop(key, None)
            self._selectors.pop(key, None)
        elif event.previous is None:
            self.soon(key, self.store.clock.now() + _EVERY_S)

    def reconcile(self, key: Key, now: float) -> None:
        """Scale the workload, and report."""
        autoscaler = self.store.get("horizontalpodautoscalers", *key)
        if autoscaler is None:
            return
        self.soon(key, now + _EVERY_S)
        try:
            target = self._target(autoscaler)
        except (ScaleError, StatusError) as error:
            self._recorder.warning(autoscaler, "FailedGetScale", "Scale", str(error))
            why = f"the HPA controller was unable to get the target's current scale: {error}"
            self._report(autoscaler, now, _no("AbleToScale", "FailedGetScale", why))
            return
        past = self._past.setdefault(key, PastScaling(target.wanted, now))
        self._adapt(autoscaler, target, past, now)

    def _target(self, autoscaler: Obj) -> _Target:
        """Return the workload; raise ScaleError or StatusError where it has no Scale."""
        reference = autoscaler["spec"].get("scaleTargetRef") or {}
        version, kind = str(reference.get("apiVersion") or ""), str(reference.get("kind"))
        known = self.store.kinds.of_kind(version.rpartition("/")[0], kind)
        if known is None:
            group = version.rpartition("/")[0]
            raise ScaleError(f'no matches for kind "{kind}" in group "{group}"')
        if "scale" not in known.subresources:
            raise ScaleError("the server could not find the requested resource")
        name = str(reference.get("name"))
        found = self.store.get(known.plural, namespace_of(autoscaler), name)
        if found is None:
            raise not_found(known, name)
        return _Target(known, found, scale_of(known, found))

    def _adapt(self, autoscaler: Obj, target: _Target, past: PastScaling, now: float) -> None:
        """Bring a workload into its bounds, or to what its metrics ask for."""
        spec, there = autoscaler["spec"], target.wanted
        able = "the HPA controller was able to get the target's current scale"
        conditions = [_yes("AbleToScale", "SucceededGetScale", able)]
        if not there:
            off = "scaling is disabled since the replica count of the target is zero"
            conditions.append(_no("ScalingActive", "ScalingDisabled", off))
            self._report(autoscaler, now, *conditions, there=0, wanted=0)
            return
        least, most = int(spec.get("minReplicas", 1)), int(spec["maxReplicas"])
        shown: list[Obj] | None = None
        if not least <= there <= most:
            side = "above Spec.MaxReplicas" if there > most else "below Spec.MinReplicas"
            wanted, why = min(max(there, least), most), f"Current number of replicas {side}"
        else:
            measured = self._measured(autoscaler, target, now)
            conditions.append(measured.condition)
            shown = measured.shown
            if measured.replicas is None:
                before = (autoscaler.get("status") or {}).get("desiredReplicas", 0)
                self._report(autoscaler, now, *conditions, there=there, wanted=before, shown=shown)
                self._warn(autoscaler, "FailedComputeMetricsReplicas", measured.failure)
                return
            allowed = past.allow(spec, there, measured.replicas, now)
            conditions[0] = allowed.able
            conditions.append(allowed.limited)
            wanted = allowed.replicas
            why = ""  # an earlier recommendation may let it grow, and the controller says no more
            if measured.replicas > there:
                why = f"{measured.metric} above target"
            elif measured.replicas < there:
                why = "All metrics below target"
        if wanted != there:
            conditions[0] = self._scaled(autoscaler, target, wanted, why)
            past.note(there, wanted, now)
        self._report(autoscaler, now, *conditions, there=there, wanted=wanted, shown=shown)

    def _scaled(self, autoscaler: Obj, target: _Target, replicas: int, why: str) -> Obj:
        """Scale the workload; return the condition that says so."""
        scale = {"spec": {"replicas": replicas}}
        self.store.modify(
            target.kind.plural,
            *key_of(target.obj),
            lambda current: with_scale(target.kind, current, scale),
            subresource="scale",
        )
        note = f"New size: {replicas}; reason: {why}"
        self._recorder.normal(autoscaler, "SuccessfulRescale", "Rescale", note)
        done = f"the HPA controller was able to update the target scale to {replicas}"
        return _yes("AbleToScale", "SucceededRescale", done)

    def _measured(self, autoscaler: Obj, target: _Target, now: float) -> _Measured:
        """Ask every metric; where one fails the others may still let the workload grow."""
        text = str(target.scale["status"].get("selector") or "")
        pods, failure = self._pods(autoscaler, text)
        if failure is not None:
            return failure
        scaled = Scaled(
            store=self.store,
            namespace=namespace_of(autoscaler),
            pods=pods,
            wanted=target.wanted,
            there=int(target.scale["status"].get("replicas") or 0),
            **_tolerances(autoscaler["spec"].get("behavior") or {}),
        )
        shown: list[Obj] = []
        best: Proposal | None = None
        faults: list[MetricError] = []
        for metric in autoscaler["spec"]["metrics"]:
            try:
                found = proposed(metric, scaled, now)
            except MetricError as error:
                self._warn(autoscaler, error.reason, str(error))
                faults.append(error)
                shown.append(_UNMEASURED)
                continue
            shown.append(found.current)
            if best is None or found.replicas > best.replicas:
                best = found
        failed = ""
        if faults:
            counted = f"({len(faults)} invalid out of {len(shown)})"
            failed = f"invalid metrics {counted}, first error is: {faults[0].failure}"
        if best is None or (faults and best.replicas < target.wanted):
            why = f"the HPA was unable to compute the replica count: {faults[0]}"
            condition = _no("ScalingActive", faults[0].reason, why)
            return _Measured(None, "", shown, condition, failed)
        valid = "the HPA was able to successfully calculate a replica count from"
        condition = _yes("ScalingActive", "ValidMetricFound", f"{valid} {best.metric}")
        return _Measured(best.replicas, best.metric, shown, condition)

    def _pods(self, autoscaler: Obj, text: str) -> tuple[list[Obj], _Measured | None]:
        """Return the pods that a selector chooses, or why it cannot be followed."""
        if not text:
            said = "the HPA target's scale is missing a selector"
            return [], self._unselected(
                autoscaler, "InvalidSelector", said, "selector is required", "SelectorRequired"
            )
        try:
            selector = parse_selector(text)
        except SelectorError as error:
            said = (
                f"couldn't convert selector into a corresponding internal selector object: {error}"
            )
            return [], self._unselected(autoscaler, "InvalidSelector", said, said)
        namespace = namespace_of(autoscaler)
        self._selectors[key_of(autoscaler)] = selector
        pods = [
            pod for pod in self.store.list("pods", namespace) if selector.matches(labels_of(pod))
        ]
        others = sorted(
            name
            for (place, name), each in self._selectors.items()
            if place == namespace and any(each.matches(labels_of(pod)) for pod in pods)
        )
        if len(others) > 1:
            named = " ".join(f"{namespace}/{name}" for name in others)
            said = f"pods by selector {text} are controlled by multiple HPAs: [{named}]"
            return [], self._unselected(autoscaler, "AmbiguousSelector", said, said)
        return pods, None

    def _unselected(
        self, autoscaler: Obj, reason: str, said: str, failure: str, event: str = ""
    ) -> _Measured:
        self._warn(autoscaler, event or reason, failure)
        return _Measured(None, "", [], _no("ScalingActive", reason, said), failure)

    def _warn(self, autoscaler: Obj, reason: str, note: str) -> None:
        self._recorder.warning(autoscaler, reason, "Measure", note)

    def _report(
        self,
        autoscaler: Obj,
        now: float,
        *conditions: Obj,
        there: int | None = None,
        wanted: int = 0,
        shown: list[Obj] | None = None,
    ) -> None:
        """Write the status where it differs; without a size only its conditions."""
        at, before = rfc3339(now), autoscaler.get("status") or {}
        merged = with_conditions(before.get("conditions") or (), conditions, at)
        status = {**before, "conditions": merged}
        if there is not None:
            is_scaled = conditions[0]["reason"] == "SucceededRescale"
            status = {
                **({"currentReplicas": there} if there else {}),
                "desiredReplicas": wanted,
                "currentMetrics": shown or None,
                "conditions": merged,
            }
            if scaled_at := at if is_scaled else before.get("lastScaleTime"):
                status["lastScaleTime"] = scaled_at
        if status != before:
            key = key_of(autoscaler)
            self.store.replace_status("horizontalpodautoscalers", *key, status)


def _tolerances(behavior: Obj) -> dict[str, float]:
    """Return how far a use may be from its target, where the behavior says so."""
    found: dict[str, float] = {}
    for name, field in (("up", "scaleUp"), ("down", "scaleDown")):
        text = (behavior.get(field) or {}).get("tolerance")
        with suppress(QuantityError):
            if text is not None:
                found[name] = float(parse_quantity(str(text)))
    return found


def _yes(kind: str, reason: str, message: str) -> Obj:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


def _no(kind: str, reason: str, message: str) -> Obj:
    return {"type": kind, "status": "False", "reason": reason, "message": message}
