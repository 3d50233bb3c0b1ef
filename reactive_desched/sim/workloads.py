"""A cluster as one finds it in the wild: nodes in zones, and teams that run workloads on them."""

import random
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.sim.long_running_pods import place_standing
from reactive_desched.sim.node_shapes import create_nodes
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.store import Store

__all__ = ["populate"]

_TEAMS: Final = {
    "shop": ("web", "cart", "checkout", "catalog", "search"),
    "payments": ("gateway", "ledger", "fraud", "invoices"),
    "media": ("transcode", "thumbnails", "streams"),
    "data": ("kafka", "postgres", "redis", "warehouse"),
    "platform": ("ingress", "auth", "mailer", "flags"),
}
_STATEFUL: Final = frozenset({"kafka", "postgres", "redis", "ledger"})
_AGENTS: Final = ("node-agent", "log-shipper")
_CLASSES: Final = (("business-critical", 100_000), ("standard", 1_000), ("batch", 0))
_SIZES: Final = (2, 3, 3, 4, 5, 6, 8, 10, 12, 16, 24)
_FILL: Final = 0.55
"""The share of the cluster's cpu and memory that the pods request together."""
_SPREADS: Final = 0.3
_REPELS: Final = 0.15
_PROTECTED: Final = 0.6


class _Budget(Struct, frozen=True):
    """The most that an average pod may request."""

    cpu_m: int
    memory_mi: int


def populate(
    store: Store,
    *,
    nodes: int = 50,
    pods: int = 1000,
    zones: int = 3,
    seed: int = 1,
    prescheduled: bool = False,
) -> None:
    """Create nodes and workloads that come to about `pods` pods, the same for the same seed.

    The pods come to life when the cluster runs. With `prescheduled` the pods of Deployments and
    StatefulSets are written as running already, evenly and with no regard to constraints: for
    clusters so big that starting them one by one would take minutes.
    Raises ConfigError when a number makes no sense.
    """
    if nodes < 1 or pods < 0 or zones < 1:
        raise ConfigError(
            f"{nodes} nodes in {zones} zones with {pods} pods: "
            "nodes and zones start at 1, pods at 0"
        )
    rng = random.Random(seed)  # noqa: S311 -- a reproducible landscape, not a secret
    total = create_nodes(store, nodes, zones, most_pods=max(110, 2 * pods // nodes))
    share = _Budget(
        int(total.cpu_m * _FILL / max(pods, 1)), int(total.memory_mi * _FILL / max(pods, 1))
    )
    _create_foundations(store)
    left = pods - _create_agents(store, nodes, pods, share)
    for workload in _workloads(rng, left, nodes, share):
        _create(store, workload, rng)
    if prescheduled:
        place_standing(store)


def _create_foundations(store: Store) -> None:
    for name in _TEAMS:
        store.create("namespaces", {"metadata": {"name": name, "labels": {"team": name}}})
    for name, value in _CLASSES:
        meta = {"name": name}
        is_default = {"globalDefault": True} if name == "standard" else {}
        store.create("priorityclasses", {"metadata": meta, "value": value, **is_default})


def _create_agents(store: Store, nodes: int, pods: int, share: _Budget) -> int:
    """Create DaemonSets while they leave at least half of the pods to others."""
    created = 0
    for name in _AGENTS:
        if created + nodes > pods // 2:
            break
        spec = _template(name, "kube-system", _Budget(share.cpu_m // 4, share.memory_mi // 4))
        spec["spec"]["priorityClassName"] = "system-node-critical"
        body = {"selector": {"matchLabels": {"app": name}}, "template": spec}
        store.create(
            "daemonsets",
            {"metadata": {"name": name, "namespace": "kube-system"}, "spec": body},
        )
        created += nodes
    return created


class _Workload(Struct, frozen=True):
    resource: str
    namespace: str
    name: str
    replicas: int
    template: Obj


def _workloads(rng: random.Random, pods: int, nodes: int, share: _Budget) -> Iterator[_Workload]:
    """Invent workloads until the pods are used up; names get numbers after the first round."""
    left, serial = pods, 1
    while left > 0:
        for namespace, names in _TEAMS.items():
            for base in names:
                scale = max(1, pods // 2000)
                replicas = min(left, rng.choice(_SIZES) * scale)
                if replicas <= 0:
                    return
                left -= replicas
                name = base if serial == 1 else f"{base}-{serial}"
                yield _invent(rng, namespace, name, base, replicas, nodes, share)
        serial += 1


def _invent(
    rng: random.Random,
    namespace: str,
    name: str,
    base: str,
    replicas: int,
    nodes: int,
    share: _Budget,
) -> _Workload:
    factor = rng.choice((0.5, 0.75, 1.0, 1.0, 1.25, 1.5))
    own = _Budget(int(share.cpu_m * factor), int(share.memory_mi * factor))
    template = _template(name, namespace, own)
    template["spec"]["priorityClassName"] = rng.choice([name for name, _ in _CLASSES])
    _add_constraints(rng, template, name, replicas, nodes)
    resource = "statefulsets" if base in _STATEFUL else "deployments"
    return _Workload(resource, namespace, name, replicas, template)


def _template(name: str, namespace: str, share: _Budget) -> Obj:
    requests = {"cpu": f"{max(10, share.cpu_m)}m", "memory": f"{max(16, share.memory_mi)}Mi"}
    container = {
        "name": name,
        "image": f"registry.example/{namespace}/{name}:1.0",
        "resources": {"requests": requests, "limits": {"memory": requests["memory"]}},
    }
    return {
        "metadata": {"labels": {"app": name, "team": namespace}},
        "spec": {"containers": [container]},
    }


def _add_constraints(
    rng: random.Random, template: Obj, name: str, replicas: int, nodes: int
) -> None:
    """Let some workloads spread over zones, and some small ones keep off each other's nodes."""
    selector = {"matchLabels": {"app": name}}
    luck = rng.random()
    if luck < _SPREADS:
        template["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": selector,
            }
        ]
    elif luck < _SPREADS + _REPELS and replicas <= nodes // 2:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        template["spec"]["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }


def _create(store: Store, workload: _Workload, rng: random.Random) -> None:
    meta: Obj = {"name": workload.name, "namespace": workload.namespace}
    meta["labels"] = {"app": workload.name, "team": workload.namespace}
    selector = {"matchLabels": {"app": workload.name}}
    spec: Obj = {"replicas": workload.replicas, "selector": selector, "template": workload.template}
    if workload.resource == "statefulsets":
        spec |= {"serviceName": workload.name, "podManagementPolicy": "Parallel"}
    store.create(workload.resource, {"metadata": meta, "spec": spec})
    if workload.replicas > 1 and rng.random() < _PROTECTED:
        limit = rng.choice(
            ({"maxUnavailable": 1}, {"maxUnavailable": "25%"}, {"minAvailable": "50%"})
        )
        store.create(
            "poddisruptionbudgets", {"metadata": meta, "spec": {"selector": selector, **limit}}
        )
