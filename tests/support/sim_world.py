"""A simulated cluster on virtual time, in few words: `World().nodes("n1", "n2")`."""

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.cluster import MOST_ENDED_PODS, ClusterOptions, SimCluster
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.eviction import evict
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import is_terminating, node_of, phase_of
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED
from reactive_desched.sim.seed import seed, seed_storage
from reactive_desched.sim.store import DeleteOptions, Event, Store

START_S = 1_800_000_000.0
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


class SimulatedCluster:
    """Store, clock and controllers; everything is made in the namespace `default`.

    Pods take two seconds to start and one to shut down unless `pace` says otherwise.
    """

    def __init__(
        self,
        *,
        pace: Pace | None = None,
        heartbeats: bool = False,
        node_agents: bool = False,
        records_starts: bool = False,
        tolerant: bool = False,
        scoring: str = LEAST_ALLOCATED,
        most_ended_pods: int = MOST_ENDED_PODS,
        chance: int = 1,
    ) -> None:
        self.clock = VirtualClock(START_S)
        rng = random.Random(chance)
        self.store = Store(self.clock, rng)
        seed(self.store)
        seed_storage(self.store)
        options = ClusterOptions(
            pace=pace or Pace(),
            heartbeats=heartbeats,
            node_agents=node_agents,
            records_starts=records_starts,
            tolerant=tolerant,
            scoring=scoring,
            most_ended_pods=most_ended_pods,
        )
        self.cluster = SimCluster(self.store, rng, options)
        self._written: list[tuple[Event, bytes]] = []
        self.store.subscribe(
            lambda event: self._written.append((event, msgspec.json.encode(event.object)))
        )

    def nodes(self, *names: str, **settings: Any) -> "SimulatedCluster":
        """Add nodes of four cores and eight gibibytes; "n1/a" puts n1 into zone a."""
        for name in names:
            self.store.create("nodes", node(name, **settings))
        self.cluster.settle()
        return self

    def create(self, resource: str, name: str, spec: Obj, **meta: Any) -> Obj:
        """Create any object in the default namespace and let the controllers see it."""
        metadata = {"name": name, "namespace": "default", **meta}
        made = self.store.create(resource, {"metadata": metadata, "spec": spec})
        self.cluster.settle()
        return made

    def deployment(self, name: str, replicas: int, **template: Any) -> Obj:
        """Create a Deployment whose pods are labelled app=<name>."""
        return self.create("deployments", name, workload(name, replicas, **template))

    def stateful_set(self, name: str, replicas: int, spec: Obj | None = None, **pod: Any) -> Obj:
        """Create a StatefulSet; `spec` adds fields to its own spec."""
        own = {"serviceName": name, **(spec or {})}
        return self.create("statefulsets", name, {**workload(name, replicas, **pod), **own})

    def pod(self, name: str, **template: Any) -> Obj:
        """Create a pod without an owner."""
        made = pod_template(name, **template)
        metadata = {**made["metadata"], "name": name, "namespace": "default"}
        created = self.store.create("pods", {"metadata": metadata, "spec": made["spec"]})
        self.cluster.settle()
        return created

    def pdb(self, name: str, selector: Mapping[str, str] | None = None, **spec: Any) -> Obj:
        """Create a disruption budget over app=<name>."""
        labels = dict(selector or {"app": name})
        return self.create(
            "poddisruptionbudgets", name, {"selector": {"matchLabels": labels}, **spec}
        )

    def advance(self, seconds: float) -> "SimulatedCluster":
        """Let time pass; what was written must not change afterwards: watches send it later."""
        self.cluster.advance(seconds)
        for event, before in self._written:
            assert msgspec.json.encode(event.object) == before, f"changed in place: {event.key}"
        self._written.clear()
        return self

    def evict(self, pod: str) -> None:
        """Evict a pod through the eviction endpoint; raises StatusError when refused."""
        evict(self.store, "default", pod, DeleteOptions())
        self.cluster.settle()

    def delete(self, resource: str, name: str, **options: Any) -> None:
        """Delete an object of the default namespace, or a cluster-scoped one."""
        namespace = "" if self.store.get(resource, "default", name) is None else "default"
        self.store.delete(resource, namespace, name, DeleteOptions(**options))
        self.cluster.settle()

    def edit(self, resource: str, name: str, **spec: Any) -> None:
        """Set fields of an object's spec."""
        namespace = "" if self.store.get(resource, "default", name) is None else "default"

        def change(current: Obj) -> Obj:
            return {**current, "spec": {**current["spec"], **spec}}

        self.store.modify(resource, namespace, name, change)
        self.cluster.settle()

    def label(self, resource: str, name: str, key: str, value: str) -> None:
        """Give an object another value of a label."""
        namespace = "" if self.store.get(resource, "default", name) is None else "default"

        def change(current: Obj) -> Obj:
            labels = {**current["metadata"]["labels"], key: value}
            return {**current, "metadata": {**current["metadata"], "labels": labels}}

        self.store.modify(resource, namespace, name, change)
        self.cluster.settle()

    def get(self, resource: str, name: str) -> Obj:
        """Return an object of the default namespace, or a cluster-scoped one."""
        stored = self.store.get(resource, "default", name) or self.store.get(resource, "", name)
        assert stored is not None, f"there is no {name} among the {resource}"
        return stored

    def status(self, resource: str, name: str) -> Obj:
        """Return an object's status."""
        stored: Obj = self.get(resource, name)["status"]
        return stored

    def pods(self, app: str | None = None) -> list[Obj]:
        """Return the pods of the default namespace, or those labelled app=<app>."""
        listed = self.store.list("pods", "default")
        return [p for p in listed if app is None or p["metadata"]["labels"].get("app") == app]

    def names(self, app: str | None = None) -> set[str]:
        """Return the pods' names."""
        return {name_of(p) for p in self.pods(app)}

    def nodes_of_pods(self, app: str | None = None) -> dict[str, str]:
        """Return each pod's node, "" for those without one."""
        return {name_of(p): node_of(p) for p in self.pods(app)}

    def phases(self, app: str | None = None) -> dict[str, str]:
        """Return each pod's state as kubectl users think of it."""
        return {name_of(p): _state(p) for p in self.pods(app)}

    def taints(self, node_name: str) -> set[str]:
        """Return a node's taints as key:effect."""
        listed = self.get("nodes", node_name)["spec"].get("taints") or ()
        return {f"{taint['key']}:{taint['effect']}" for taint in listed}

    def events(self, reason: str) -> list[str]:
        """Return the messages of the events with this reason."""
        return [e["message"] for e in self.store.list("events") if e["reason"] == reason]


def _state(pod: Obj) -> str:
    if is_terminating(pod):
        return "Terminating"
    ready = condition_status(pod, "Ready") == "True"
    return "Ready" if ready else phase_of(pod)


def node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Obj, ...] = (),
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
) -> Obj:
    """Return a node; "n1/a" is n1 in zone a."""
    name, _, zone = name.partition("/")
    own = {HOSTNAME: name, **({ZONE: zone} if zone else {}), **(labels or {})}
    return {
        "metadata": {"name": name, "labels": own},
        "spec": {"taints": list(taints)},
        "status": {"capacity": {"cpu": cpu, "memory": memory, "pods": pods}},
    }


def pod_template(
    app: str,
    *,
    cpu: str = "",
    memory: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Obj:
    """Return a pod template with one container; other arguments become fields of its spec."""
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    container: Obj = {"name": "main", "image": "example/main:1"}
    if requests:
        container["resources"] = {"requests": requests}
    metadata: Obj = {"labels": {"app": app, **(labels or {})}}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def workload(name: str, replicas: int, **template: Any) -> Obj:
    """Return the spec that Deployments, ReplicaSets and StatefulSets share."""
    return {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": pod_template(name, **template),
    }
