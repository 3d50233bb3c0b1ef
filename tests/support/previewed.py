"""Small clusters in the simulator for previews, drawn by a seed, and their objects for `plan`."""

import json
from pathlib import Path
from random import Random
from typing import Any, Final

from reactive_desched.eviction.client import EvictionClient
from reactive_desched.model.outcomes import (
    Accepted,
    EvictionRequest,
    EvictionResponse,
    PdbRefused,
    PodLookup,
    ServerError,
)
from reactive_desched.sim.eviction import evict
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import DeleteOptions, Store
from reactive_desched.state.resources import WATCHED_KINDS
from tests.support.sim_world import SimulatedCluster, node, workload

APPS: Final = ("web", "api", "batch")
BUDGETS: Final = (
    {"minAvailable": 1},
    {"maxUnavailable": 1},
    {"maxUnavailable": "50%"},
    {"maxUnavailable": 0},
    {"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
)


def draw_limits(rng: Random) -> str:
    """Write some of a policy's limits."""
    return "".join(
        f"{key}: {rng.choice([1, 2, 5])}\n"
        for key in (
            "maxNoOfPodsToEvictPerNode",
            "maxNoOfPodsToEvictPerNamespace",
            "maxNoOfPodsToEvictTotal",
        )
        if rng.random() < 0.2
    )


def draw_policy(rng: Random, settings: str = "", *, by_age: bool = False) -> str:
    """Write a policy with some plugins and limits, and settings behind it.

    A policy `by_age` evicts pods for their age, too: replacements after a while, again and again.
    """
    limits = draw_limits(rng)
    threshold = rng.choice(["", "", ", priorityThreshold: {name: high}"])
    aged = ", PodLifeTime" if by_age else ""
    return f"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
{limits}\
profiles:
- name: drawn
  pluginConfig:
  - name: DefaultEvictor
    args: {{nodeFit: {rng.choice(["true", "false"])}{threshold}}}
  - name: RemoveDuplicates
    args: {{}}
  - name: PodLifeTime
    args: {{maxPodLifeTimeSeconds: {rng.choice([45, 240])}}}
  - name: LowNodeUtilization
    args: {{thresholds: {{cpu: 20, pods: 20}}, targetThresholds: {{cpu: 40, pods: 40}}}}
  plugins:
    deschedule: {{enabled: [RemovePodsViolatingNodeTaints{aged}]}}
    balance: {{enabled: [{rng.choice(["", "RemoveDuplicates", "LowNodeUtilization"])}]}}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
nodeFit: {rng.choice(["upstream", "scheduler"])}
{settings}"""


def draw_cluster(world: SimulatedCluster, rng: Random) -> None:
    """Make a cluster, let it come to rest, and taint nodes; sometimes not all pods are Ready."""
    draw_objects(world.store, rng)
    world.cluster.settle()
    world.advance(60)
    draw_taints(world.store, rng)
    if rng.random() < 0.3:
        has_deployment = world.store.get("deployments", "default", "web") is not None
        world.edit("deployments" if has_deployment else "statefulsets", "web", replicas=7)
        world.advance(0.5)
    world.cluster.settle()


def draw_objects(store: Store, rng: Random, nodes: int = 0, few_pods: str = "6") -> None:
    """Create nodes, as many as are given if any, workloads and disruption budgets.

    In half of the clusters a node takes `few_pods`. No pod preempts others: previews assume so.
    """
    cpu, pods = rng.choice(["1", "2", "4"]), rng.choice([few_pods, "110"])
    store.create(
        "priorityclasses",
        {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"},
    )
    for number in range(nodes or rng.randrange(2, 6)):
        store.create("nodes", node(f"n{number}", cpu=cpu, pods=pods))
    for app in APPS:
        labels = {"tier": "shared"} if rng.random() < 0.5 else {}
        priority = {"priorityClassName": "high"} if rng.random() < 0.2 else {}
        spec = workload(app, rng.choice([1, 3, 5]), cpu="100m", labels=labels, **priority)
        is_stateful = rng.random() < 0.25
        spec |= {"serviceName": app} if is_stateful else {}
        _create(store, "statefulsets" if is_stateful else "deployments", app, spec)
        if rng.random() < 0.6:
            selector = {"matchLabels": {"app": app}}
            budget = {"selector": selector, **rng.choice(BUDGETS)}
            _create(store, "poddisruptionbudgets", app, budget)
    if rng.random() < 0.2:
        selector = {"matchLabels": {"tier": "shared"}}
        _create(
            store, "poddisruptionbudgets", "second", {"selector": selector, "maxUnavailable": 1}
        )


def draw_taints(store: Store, rng: Random) -> None:
    """Taint some of the nodes, never all."""
    names = [stored["metadata"]["name"] for stored in store.list("nodes")]
    taint = {"key": "gpu", "effect": "NoSchedule"}
    for name in rng.sample(names, rng.randrange(1, len(names))):
        store.modify("nodes", "", name, lambda o: {**o, "spec": {**o["spec"], "taints": [taint]}})


def _create(store: Store, resource: str, name: str, spec: Obj) -> None:
    metadata = {"name": name, "namespace": "default"}
    store.create(resource, {"metadata": metadata, "spec": spec})


def write_cluster(store: Store, path: Path) -> str:
    """Write all that `plan` reads into a file, as kubectl does; return its name."""
    items = []
    for resource, kind in WATCHED_KINDS.items():
        if resource in RESOURCES:
            marks: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind}
            items += [{**marks, **stored} for stored in store.list(resource)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


class SimulatedEndpoint(EvictionClient):
    """Evicts from a simulated cluster in which no time passes."""

    def __init__(self, world: SimulatedCluster) -> None:
        self._world = world

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Evict as the API server does, and let the controllers see it."""
        options = DeleteOptions(uid=request.uid)
        try:
            evict(self._world.store, request.namespace, request.name, options)
        except StatusError as error:
            refused = error.code == 429
            return PdbRefused(str(error)) if refused else ServerError(error.code, str(error))
        self._world.cluster.settle()
        return Accepted()

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Nothing is lost on the way."""
        raise AssertionError(f"{namespace}/{name} need not be read")
