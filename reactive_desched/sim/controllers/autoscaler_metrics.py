"""Counts the pods that each metric of a HorizontalPodAutoscaler asks for, as its controller.

Resources are measured as the metrics API shows them. What metrics of pods, of objects and of
systems elsewhere say is made up: the annotation `sim.reactive-desched/metric.NAME` of the pod, of
the object, or of the namespace. All amounts are thousandths, as in the controller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Final

from msgspec import Struct, convert

from reactive_desched.errors import QuantityError, ReactiveDeschedError
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import FAILED
from reactive_desched.model.quantities import milli_value
from reactive_desched.model.resources import CPU, MEMORY
from reactive_desched.sim.amounts import listed, sum_of, write_amount
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.made_up_metrics import made_up, write_thousandths
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import is_ready, is_terminating, phase_of
from reactive_desched.sim.store import Store
from reactive_desched.sim.usage import used_by_containers

__all__ = ["MetricError", "Proposal", "Scaled", "proposed"]

_TOLERANCE: Final = 0.1
_WINDOW_S: Final = 15.0
_STARTS_S: Final = 300.0
"""`--horizontal-pod-autoscaler-cpu-initialization-period`."""
_FIRST_READY_S: Final = 30.0
"""`--horizontal-pod-autoscaler-initial-readiness-delay`."""
_MILLI, _WHOLE = 1000, 100
_MOST: Final = 2**31 - 1
_NO_SERIES: Final = "no metrics returned from external metrics API"
_FETCHED: Final = "unable to fetch metrics from custom metrics API"
_UNREADY: Final = "did not receive metrics for targeted pods (pods might be unready)"


class MetricError(ReactiveDeschedError):
    """A metric asks for nothing: it is not there, or it measures no pod that counts."""

    def __init__(self, reason: str, said: str, failure: str) -> None:
        super().__init__(said)
        self.reason = reason
        """The reason of the condition ScalingActive, whose message is the error's."""
        self.failure = failure
        """What an Event says of all metrics together."""


class _UnknownError(ReactiveDeschedError):
    """A metric cannot be followed; Events say `outer` before the reason."""

    def __init__(self, said: str, outer: str = "") -> None:
        super().__init__(said)
        self.outer = outer


class Scaled(Struct, frozen=True):
    """The workload that is scaled, as its Scale shows it, and the pods that it selects."""

    store: Store
    namespace: str
    pods: Sequence[Obj]
    wanted: int
    there: int
    up: float = _TOLERANCE
    down: float = _TOLERANCE

    def is_near(self, ratio: float) -> bool:
        """Say whether a use is so near to its target that nothing changes."""
        return 1 - self.down <= ratio <= 1 + self.up


class Proposal(Struct, frozen=True):
    """The answer of one metric: how many pods, its name in events, and its measure."""

    replicas: int
    metric: str
    current: Obj


class _Target(Struct, frozen=True):
    """The target of measures of single pods: an amount, or a share of the requests."""

    amount: int
    requests: Mapping[str, int] | None = None

    def use(self, measures: Mapping[str, int]) -> int:
        """Return the use of a pod on average, or its percentage of the requests."""
        if self.requests is None:
            return sum(measures.values()) // len(measures)
        asked = sum(self.requests[name] for name in measures)
        if not asked:
            raise _UnknownError("no metrics returned matched known pods")
        return sum(measures.values()) * _WHOLE // asked

    def ratio(self, measures: Mapping[str, int]) -> float:
        """Return the use as a multiple of the target."""
        return self.use(measures) / max(self.amount, 1)

    def assumed(self, name: str) -> int:
        """Return what a pod without a measure uses where the others use less than the target."""
        if self.requests is None:
            return self.amount
        return self.requests[name] * max(_WHOLE, self.amount) // _WHOLE


def proposed(metric: Obj, scaled: Scaled, now: float) -> Proposal:
    """Return what a metric of the spec asks for; raise MetricError where it asks for nothing."""
    kind = str(metric.get("type"))
    (reason, what, propose) = _KINDS.get(kind, ("InvalidMetricSourceType", "", _unknown))
    source = metric.get(kind[:1].lower() + kind[1:]) or {}
    try:
        replicas, named, current = propose(source, scaled, now)
    except (_UnknownError, QuantityError) as error:
        named = what.format(source.get("name"), source.get("container"), _metric_name(source))
        outer = error.outer if isinstance(error, _UnknownError) else ""
        raise MetricError(reason, str(error), f"failed to get {named}: {outer}{error}") from error
    shown = {key: source[key] for key in _SHOWN if key in source}
    field = kind[:1].lower() + kind[1:]
    return Proposal(replicas, named, {"type": kind, field: {**shown, "current": current}})


_Proposed = tuple[int, str, Obj]
_SHOWN: Final = ("name", "container", "describedObject", "metric")


def _unknown(source: Obj, scaled: Scaled, now: float) -> _Proposed:
    del source, scaled, now
    raise _UnknownError("unknown metric source type")


def _of_resource(source: Obj, scaled: Scaled, now: float) -> _Proposed:
    """Propose by what pods, or their containers of one name, use of a resource."""
    resource, container = str(source.get("name")), str(source.get("container") or "")
    target = source.get("target") or {}
    is_share = target.get("averageValue") is None
    try:
        measures = _resource_measures(scaled.pods, resource, container)
        if is_share:
            amount = int(target.get("averageUtilization") or 0)
            asks = partial(_asked, resource=resource, container=container)
        else:
            amount, asks = milli_value(str(target["averageValue"])), None
        counted = _by_pods(scaled, measures, amount, now, asks=asks, resource=resource)
    except _UnknownError as error:
        part = "utilization" if is_share else "usage"
        raise _UnknownError(f"failed to get {resource} {part}: {error}") from error
    current: Obj = {"averageValue": _resource_text(resource, counted.average)}
    if not is_share:
        return counted.replicas, f"{resource} resource", current
    current["averageUtilization"] = counted.use
    of = "container resource" if container else "resource"
    return counted.replicas, f"{resource} {of} utilization (percentage of request)", current


def _of_pods(source: Obj, scaled: Scaled, now: float) -> _Proposed:
    """Propose by what the pods say of a metric themselves."""
    name = _metric_name(source)
    said = {name_of(pod): _value(pod, source) for pod in scaled.pods}
    measures = {pod: value for pod, value in said.items() if value is not None}
    if not measures:
        missing = f"the server could not find the metric {name} for pods"
        raise _UnknownError(f"unable to get metric {name}: {_FETCHED}: {missing}")
    target = milli_value(str((source.get("target") or {}).get("averageValue")))
    counted = _by_pods(scaled, measures, target, now)
    return (
        counted.replicas,
        f"pods metric {name}",
        {"averageValue": write_thousandths(counted.average)},
    )


def _of_object(source: Obj, scaled: Scaled, now: float) -> _Proposed:
    """Propose by what an object of the namespace says, for all pods or for each."""
    del now
    name, described = _metric_name(source), source.get("describedObject") or {}
    kind, target = str(described.get("kind")), source.get("target") or {}
    value, plural = _value_of_object(source, scaled)
    if value is None:
        of = described.get("name")
        said = f"{_FETCHED}: the server could not find the metric {name} for {plural} {of}"
        # In the order in which kube-controller-manager 1.36 has it.
        said = f"unable to get metric {name}: {kind} on {scaled.namespace} {of}/{said}"
        is_each = target.get("type") == "AverageValue"
        raise _UnknownError(said, f"failed to get {name} object metric: " if is_each else "")
    if target.get("type") == "Value":
        wished = milli_value(str(target.get("value")))
        return (
            _for_all(scaled, value / max(wished, 1)),
            f"{kind} metric {name}",
            {"value": write_thousandths(value)},
        )
    wished = milli_value(str(target.get("averageValue")))
    each: Obj = {"averageValue": write_thousandths(ceil(value / max(scaled.there, 1)))}
    return _for_each(scaled, value, wished), f"external metric {name}({_selector(source)})", each


def _of_elsewhere(source: Obj, scaled: Scaled, now: float) -> _Proposed:
    """Propose by what a system beside the cluster says, which is made up of the namespace."""
    del now
    name, target = _metric_name(source), source.get("target") or {}
    home = scaled.store.get("namespaces", "", scaled.namespace) or {}
    value, is_each = _value(home, source), target.get("averageValue") is not None
    if value is None:
        said = f"unable to get external metric {scaled.namespace}/{name}/{_selector(source)}"
        what = f"{name} external metric" if is_each else f"external metric {name}"
        raise _UnknownError(f"{said}: {_NO_SERIES}", f"failed to get {what}: ")
    named = f"external metric {name}({_selector(source)})"
    if is_each:
        wished = milli_value(str(target["averageValue"]))
        current = {"averageValue": write_thousandths(ceil(value / max(scaled.there, 1)))}
        return _for_each(scaled, value, wished), named, current
    wished = milli_value(str(target.get("value")))
    return _for_all(scaled, value / max(wished, 1)), named, {"value": write_thousandths(value)}


_KINDS: Final[Mapping[str, tuple[str, str, Callable[[Obj, Scaled, float], _Proposed]]]] = {
    "Resource": ("FailedGetResourceMetric", "{0} resource metric value", _of_resource),
    "ContainerResource": (
        "FailedGetContainerResourceMetric",
        "{1} container metric value",
        _of_resource,
    ),
    "Pods": ("FailedGetPodsMetric", "pods metric value", _of_pods),
    "Object": ("FailedGetObjectMetric", "object metric value", _of_object),
    "External": ("FailedGetExternalMetric", "{2} external metric value", _of_elsewhere),
}
"""By type: the reason where it fails, what failed then, and how it counts."""


class _Counted(Struct, frozen=True):
    replicas: int
    use: int
    average: int


def _by_pods(
    scaled: Scaled,
    measures: dict[str, int],
    amount: int,
    now: float,
    *,
    asks: Callable[[Obj], int] | None = None,
    resource: str = "",
) -> _Counted:
    """Count pods by measures of single ones; those that are missing or young count with care."""
    if not scaled.pods:
        raise _UnknownError("no pods returned by selector while calculating replica count")
    unready, missing, ignored = _apart(scaled.pods, measures, resource, now)
    count = len(scaled.pods) - len(unready) - len(missing) - len(ignored)
    measures = {name: each for name, each in measures.items() if name not in unready | ignored}
    if not measures:
        raise _UnknownError(_UNREADY)
    requests = None if asks is None else {name_of(pod): asks(pod) for pod in scaled.pods}
    target = _Target(amount, requests)
    use, ratio = target.use(measures), target.ratio(measures)
    average = sum(measures.values()) // len(measures)
    same = _Counted(scaled.wanted, use, average)
    grows_beside_unready = bool(unready) and ratio > 1
    if not grows_beside_unready and not missing:
        return same if scaled.is_near(ratio) else _Counted(ceil(ratio * count), use, average)
    if ratio != 1:
        measures |= {name: 0 if ratio > 1 else target.assumed(name) for name in missing}
    if grows_beside_unready:
        measures |= dict.fromkeys(unready, 0)
    careful = target.ratio(measures)
    replicas = ceil(careful * len(measures))
    turns = (ratio - 1) * (careful - 1) < 0
    overshoots = (careful < 1 and replicas > scaled.wanted) or (
        careful > 1 and replicas < scaled.wanted
    )
    if scaled.is_near(careful) or turns or overshoots:
        return same
    return _Counted(replicas, use, average)


def _apart(
    pods: Iterable[Obj], measures: Mapping[str, int], resource: str, now: float
) -> tuple[set[str], set[str], set[str]]:
    """Return the pods that start, those without a measure, and those that have ended."""
    unready, missing, ignored = set[str](), set[str](), set[str]()
    for pod in pods:
        name = name_of(pod)
        if is_terminating(pod) or phase_of(pod) == FAILED:
            ignored.add(name)
        elif phase_of(pod) == "Pending":
            unready.add(name)
        elif name not in measures:
            missing.add(name)
        elif resource == CPU and _is_starting(pod, now):
            unready.add(name)
    return unready, missing, ignored


def _is_starting(pod: Obj, now: float) -> bool:
    """Say whether the cpu of a pod does not count yet: it starts, or was never Ready."""
    ready, started = find_condition(pod, "Ready"), pod["status"].get("startTime")
    if ready is None or not started:
        return True
    since, began = parse_time(str(ready["lastTransitionTime"])), parse_time(started)
    is_unready = ready.get("status") == "False"
    if began + _STARTS_S > now:
        return is_unready or now < since + _WINDOW_S
    return is_unready and began + _FIRST_READY_S > since


def _resource_measures(pods: Iterable[Obj], resource: str, container: str) -> dict[str, int]:
    used = {name_of(pod): used_by_containers(pod, CPU) for pod in pods}
    if not any(used.values()):
        raise _UnknownError(
            f"unable to get metrics for resource {resource}:"
            " no metrics returned from resource metrics API"
        )
    if resource not in (CPU, MEMORY):
        return {}
    unit = 1 if resource == CPU else _MILLI
    measures: dict[str, int] = {}
    for pod in pods:
        each = used_by_containers(pod, resource)
        if container:
            each = {name: amount for name, amount in each.items() if name == container}
        if each:
            measures[name_of(pod)] = sum(each.values()) * unit
    return measures


def _asked(pod: Obj, resource: str, container: str) -> int:
    """Return what a pod, or a container of it, requests; raise where it does not."""
    spec, unit = pod["spec"], 1 if resource == CPU else _MILLI
    if listed(spec, "requests") and not container:
        if (amount := sum_of(spec).get(resource)) is None:
            raise _UnknownError(f"missing pod-level request for {resource} in Pod {name_of(pod)}")
        return amount * unit
    total = 0
    sidecars = [
        each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"
    ]
    for each in (*spec["containers"], *sidecars):
        if container in ("", each["name"]):
            request = listed(each, "requests").get(resource)
            if request is None:
                of = f"in container {each['name']} of Pod {name_of(pod)}"
                raise _UnknownError(f"missing request for {resource} {of}")
            total += milli_value(request)
        if container == each["name"]:
            return total
    if container:
        raise _UnknownError(f"container {container} not found in Pod {name_of(pod)}")
    return total


def _for_all(scaled: Scaled, ratio: float) -> int:
    """Return how many pods a measure of them all wants: as many times those that are Ready."""
    if scaled.is_near(ratio):
        return scaled.wanted
    if not scaled.pods:
        raise _UnknownError(
            "unable to calculate ready pods:"
            " no pods returned by selector while calculating replica count"
        )
    ready = sum(1 for pod in scaled.pods if phase_of(pod) == "Running" and is_ready(pod))
    return min(_MOST, ceil(ratio * ready))


def _for_each(scaled: Scaled, value: int, wished: int) -> int:
    """Return by how many pods a measure has to be shared."""
    if scaled.there and scaled.is_near(value / (max(wished, 1) * scaled.there)):
        return scaled.there
    return min(_MOST, ceil(value / max(wished, 1)))


def _value_of_object(source: Obj, scaled: Scaled) -> tuple[int | None, str]:
    """Return what the described object says, and what its kind is called."""
    described = source.get("describedObject") or {}
    group = str(described.get("apiVersion") or "").rpartition("/")[0]
    kind = scaled.store.kinds.of_kind(group, str(described.get("kind")))
    if kind is None:
        return None, str(described.get("kind")).lower()
    is_home = kind.plural == "namespaces"
    place = ("", scaled.namespace) if is_home else (scaled.namespace, str(described.get("name")))
    return _value(scaled.store.get(kind.plural, *place) or {}, source), kind.qualified


def _value(obj: Obj, source: Obj) -> int | None:
    """Return what an object says of a metric; None where it says nothing that is selected."""
    selector = convert((source.get("metric") or {}).get("selector") or {}, LabelSelector)
    return made_up(obj, _metric_name(source)) if selector.matches({}) else None


def _metric_name(source: Obj) -> str:
    return str((source.get("metric") or {}).get("name"))


def _selector(source: Obj) -> str:
    """Write the selector of a metric as Go prints it."""
    selector = (source.get("metric") or {}).get("selector")
    if selector is None:
        return "nil"
    labels = "".join(
        f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items())
    )
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key')},Operator:{each.get('operator')},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )


def _resource_text(resource: str, milli: int) -> str:
    return (
        write_amount(resource, -(-milli // _MILLI))
        if resource == MEMORY
        else write_thousandths(milli)
    )
