"""Counts what objects use of the ResourceQuotas of their namespace, as the API server's plugin.

Objects count by `count/<resource>.<group>`, pods by their number, requests and limits too. Scopes
of pods are honoured, but CrossNamespacePodAffinity.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from reactive_desched.errors import QuantityError
from reactive_desched.model.resources import (
    CPU,
    MEMORY,
    add_resources,
    is_extended,
    parse_amount,
)
from reactive_desched.sim.amounts import LIMITS, REQUESTS, listed, sum_of, write_amount
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pod_defaults import qos_class
from reactive_desched.sim.pods import is_terminal, is_terminating
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import forbidden

__all__ = ["GROWING", "check_quotas", "counts_kind", "hard_of", "used_of", "written"]

_PODS: Final = "pods"
_CLAIMS: Final = "persistentvolumeclaims"
_SERVICES: Final = "services"
_NODE_PORTS: Final = "services.nodeports"
_BALANCERS: Final = "services.loadbalancers"
GROWING: Final = (_CLAIMS, _SERVICES)
"""The kinds of which a change may use more than before."""

_STORAGE: Final = "requests.storage"
_OF_REQUESTS, _OF_LIMITS = f"{REQUESTS}.", f"{LIMITS}."
_MUST_BE_SPECIFIED: Final = {
    **{resource: (REQUESTS, resource) for resource in (CPU, MEMORY)},
    **{f"{_OF_REQUESTS}{resource}": (REQUESTS, resource) for resource in (CPU, MEMORY)},
    **{f"{_OF_LIMITS}{resource}": (LIMITS, resource) for resource in (CPU, MEMORY)},
}
"""What every container has to name where a quota limits it."""


def check_quotas(
    kind: Resource,
    new: Obj,
    quotas: Iterable[Obj],
    others: Callable[[], Iterable[Obj]],
    now: float,
    current: Obj | None = None,
) -> None:
    """Refuse an object that some quota has no room for; `others` are those of its kind there.

    Of one that is `current`, and so among them, what it uses more than before counts.
    """
    for quota in quotas:
        if not _covers(quota, kind, new):
            continue
        hard = hard_of(quota)
        if kind.plural == _PODS and (missing := _missing(new, hard)):
            raise forbidden(kind, name_of(new), f"failed quota: {name_of(quota)}: {missing}")
        before = {} if current is None else _use(kind, current)
        wanted = {
            name: amount - before.get(name, 0)
            for name, amount in _use(kind, new).items()
            if name in hard and amount > before.get(name, 0)
        }
        if not wanted:
            continue
        used = used_of(quota, kind, others(), now)
        exceeded = [name for name in wanted if used.get(name, 0) + wanted[name] > hard[name]]
        if exceeded:
            said = ", ".join(
                f"{word}: {_said({name: amounts.get(name, 0) for name in exceeded})}"
                for word, amounts in (("requested", wanted), ("used", used), ("limited", hard))
            )
            raise forbidden(kind, name_of(new), f"exceeded quota: {name_of(quota)}, {said}")


def hard_of(quota: Obj) -> dict[str, int]:
    """Return the limits of a quota; one that cannot be read is none."""
    found: dict[str, int] = {}
    for name, amount in (quota.get("spec", {}).get("hard") or {}).items():
        try:
            found[name] = parse_amount(_plain(name), str(amount))
        except QuantityError:
            continue
    return found


def counts_kind(quota: Obj, kind: Resource) -> bool:
    """Say whether a quota names what objects of a kind use."""
    names = (quota.get("spec", {}).get("hard") or {}).keys()
    if not names.isdisjoint(_counted_as(kind)):
        return True
    if kind.plural == _CLAIMS:
        return any("storage" in name for name in names)
    if kind.plural == _SERVICES:
        return not names.isdisjoint((_NODE_PORTS, _BALANCERS))
    return kind.plural == _PODS and any(not name.startswith("count/") for name in names)


def used_of(quota: Obj, kind: Resource, objects: Iterable[Obj], now: float) -> dict[str, int]:
    """Return what objects of one kind use of a quota."""
    used: dict[str, int] = {}
    for each in objects:
        if _covers(quota, kind, each) and _counts(kind, each, now):
            add_resources(used, _use(kind, each))
    return used


def written(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as quantities."""
    return {name: write_amount(_plain(name), amount) for name, amount in amounts.items()}


def _said(amounts: Mapping[str, int]) -> str:
    return ",".join(f"{name}={text}" for name, text in sorted(written(amounts).items()))


def _plain(name: str) -> str:
    """Return the resource that a name of a quota is about, without the kind of its amount."""
    return name.removeprefix(_OF_REQUESTS).removeprefix(_OF_LIMITS)


def _counted_as(kind: Resource) -> tuple[str, ...]:
    """Return the names by which the objects of a kind are counted."""
    if kind.group:
        return (f"count/{kind.plural}.{kind.group}",)
    return f"count/{kind.plural}", kind.plural


def _use(kind: Resource, obj: Obj) -> dict[str, int]:
    found = dict.fromkeys(_counted_as(kind), 1)
    if kind.plural == _CLAIMS:
        return found | _storage(obj)
    if kind.plural == _SERVICES:
        return found | _reached(obj["spec"])
    if kind.plural != _PODS:
        return found
    requests, limits = sum_of(obj["spec"]), sum_of(obj["spec"], LIMITS)
    for resource, amount in requests.items():
        found[f"{_OF_REQUESTS}{resource}"] = amount
        if not is_extended(resource):
            found[resource] = amount
    found |= {f"{_OF_LIMITS}{resource}": amount for resource, amount in limits.items()}
    return found


def _storage(claim: Obj) -> dict[str, int]:
    """Return what a claim asks for: of all storage, and of that of its class."""
    spec = claim["spec"]
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    amount = parse_amount("storage", str(text)) if text else 0
    found = {_STORAGE: amount}
    if name := spec.get("storageClassName"):
        within = f"{name}.storageclass.storage.k8s.io"
        found |= {f"{within}/requests.storage": amount, f"{within}/{_CLAIMS}": 1}
    return found


def _reached(spec: Obj) -> dict[str, int]:
    """Return the ways from outside that a Service asks for: balancers and ports of nodes."""
    kind, ports = spec.get("type"), spec.get("ports") or ()
    if kind not in ("NodePort", "LoadBalancer"):
        return {_NODE_PORTS: 0, _BALANCERS: 0}
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    return {_NODE_PORTS: len(ports), _BALANCERS: int(kind == "LoadBalancer")}


def _counts(kind: Resource, obj: Obj, now: float) -> bool:
    """Say whether an object counts: no pod that has ended, or that should have long ago."""
    if kind.plural != _PODS:
        return True
    if is_terminal(obj):
        return False
    meta = obj["metadata"]
    grace = float(meta.get("deletionGracePeriodSeconds") or 0)
    return not is_terminating(obj) or now <= parse_time(meta["deletionTimestamp"]) + grace


def _covers(quota: Obj, kind: Resource, obj: Obj) -> bool:
    scopes = list(_scopes(quota.get("spec", {})))
    if kind.plural != _PODS:
        return not scopes
    return all(_is_in(obj, scope, operator, values) for scope, operator, values in scopes)


def _scopes(spec: Obj) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for scope in spec.get("scopes") or ():
        yield str(scope), "Exists", ()
    for each in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        values = tuple(map(str, each.get("values") or ()))
        yield str(each.get("scopeName")), str(each.get("operator")), values


def _is_in(pod: Obj, scope: str, operator: str, values: tuple[str, ...]) -> bool:
    spec = pod["spec"]
    match scope:
        case "BestEffort" | "NotBestEffort":
            return (qos_class(spec) == "BestEffort") == (scope == "BestEffort")
        case "Terminating" | "NotTerminating":
            ends = spec.get("activeDeadlineSeconds") is not None
            return ends == (scope == "Terminating")
        case "PriorityClass":
            name = str(spec.get("priorityClassName") or "")
            return {
                "Exists": bool(name),
                "DoesNotExist": not name,
                "In": name in values,
                "NotIn": bool(name) and name not in values,
            }.get(operator, False)
        case _:
            return False


def _missing(pod: Obj, hard: Mapping[str, int]) -> str:
    """Say what containers have to name and do not; empty when nothing is missing."""
    spec = pod["spec"]
    if spec.get("resources"):
        return ""
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    found: list[str] = []
    for name in sorted(hard.keys() & _MUST_BE_SPECIFIED.keys()):
        field, resource = _MUST_BE_SPECIFIED[name]
        without = sorted(
            str(each["name"]) for each in containers if resource not in listed(each, field)
        )
        if without:
            found.append(f"{name} for: {','.join(without)}")
    return f"must specify {'; '.join(found)}" if found else ""
