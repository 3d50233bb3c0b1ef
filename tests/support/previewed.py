"""Small clusters in the simulator for previews, drawn by a seed, and their objects for `plan`."""

import json
from pathlib import Path
from random import Random
from typing import Any, Final

from reactive_desched.model.outcomes import (
    Accepted,
    EvictionRequest,
    EvictionResponse,
    PdbRefused,
    PodLookup,
    ServerError,
)
from reactive_desched.sim.eviction import evict
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import DeleteOptions, Store
from reactive_desched.state.resources import WATCHED_KINDS
from tests.support.sim_world import SimulatedCluster

APPS: Final = ("web", "api", "batch")
BUDGETS: Final = (
    {"minAvailable": 1},
    {"maxUnavailable": 1},
    {"maxUnavailable": "50%"},
    {"maxUnavailable": 0},
    {"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
)


def draw_policy(rng: Random, settings: str = "") -> str:
    """Write a policy with some plugins, limits, and settings behind it."""
    limits = "".join(
        f"{key}: {rng.choice([1, 2, 5])}\n"
        for key in (
            "maxNoOfPodsToEvictPerNode",
            "maxNoOfPodsToEvictPerNamespace",
            "maxNoOfPodsToEvictTotal",
        )
        if rng.random() < 0.2
    )
    return f"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
{limits}\
profiles:
- name: drawn
  pluginConfig:
  - name: DefaultEvictor
    args: {{nodeFit: {rng.choice(["true", "false"])}}}
  - name: RemoveDuplicates
    args: {{}}
  - name: LowNodeUtilization
    args: {{thresholds: {{cpu: 20, pods: 20}}, targetThresholds: {{cpu: 40, pods: 40}}}}
  plugins:
    deschedule: {{enabled: [RemovePodsViolatingNodeTaints]}}
    balance: {{enabled: [{rng.choice(["", "RemoveDuplicates", "LowNodeUtilization"])}]}}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
nodeFit: {rng.choice(["upstream", "scheduler"])}
{settings}"""


def draw_cluster(world: SimulatedCluster, rng: Random) -> None:
    """Make nodes, workloads and disruption budgets, and taint a node once all pods run."""
    names = [f"n{number}" for number in range(rng.randrange(2, 6))]
    world.nodes(*names, cpu=rng.choice(["1", "2", "4"]), pods=rng.choice(["6", "110"]))
    for app in APPS:
        size = rng.choice([1, 2, 5])
        if rng.random() < 0.25:
            world.stateful_set(app, size, cpu="100m")
        else:
            labels = {"tier": "shared"} if rng.random() < 0.5 else {}
            world.deployment(app, size, cpu="100m", labels=labels)
        if rng.random() < 0.6:
            world.pdb(app, **rng.choice(BUDGETS))
    if rng.random() < 0.2:
        world.pdb("second", {"tier": "shared"}, maxUnavailable=1)
    world.advance(60)
    for name in rng.sample(names, rng.randrange(1, len(names))):
        world.edit("nodes", name, taints=[{"key": "gpu", "effect": "NoSchedule"}])
    if rng.random() < 0.3:  # replicas that are not Ready yet
        world.edit("deployments" if _has(world, "web") else "statefulsets", "web", replicas=7)
        world.advance(0.5)


def _has(world: SimulatedCluster, name: str) -> bool:
    return world.store.get("deployments", "default", name) is not None


def write_cluster(store: Store, path: Path) -> str:
    """Write all that `plan` reads into a file, as kubectl does; return its name."""
    items = []
    for resource, kind in WATCHED_KINDS.items():
        if resource in RESOURCES:
            marks: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind}
            items += [{**marks, **stored} for stored in store.list(resource)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


class SimulatedEndpoint:
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
