"""Simulated clusters with a past; what is to come to them is in `scenario_events`."""

import random
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from reactive_desched.model.resources import CPU, parse_amount
from reactive_desched.sim import scenario_events as events
from reactive_desched.sim.clock import HistoryClock
from reactive_desched.sim.cluster import ClusterOptions, SimCluster
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import node_of, phase_of
from reactive_desched.sim.profiles import PREFIX, Pace
from reactive_desched.sim.store import DeleteOptions, Store

__all__ = ["FRESH", "LEAST_NODES", "SCENARIOS", "Scenario", "live_through"]

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
FRESH: Final = "fresh"
ZONE: Final = "topology.kubernetes.io/zone"
GPU: Final = "nvidia.com/gpu"
LEAST_NODES: Final = 6
"""Two in each of three zones: fewer leave no room for what a scenario does."""
_HOT_EVERY: Final = 4
"""One node in so many is hot where a scenario has hot nodes."""
_STEADY: Final[Mapping[str, str]] = MappingProxyType({})


class Past:
    """A cluster that lives through its past: controllers work, and time passes on request."""

    def __init__(self, store: Store, clock: HistoryClock, cluster: SimCluster, now: float) -> None:
        self.store = store
        self._clock = clock
        self._cluster = cluster
        self._now = now

    def until(self, age_s: float) -> None:
        """Let time pass until so many seconds before the present."""
        self._cluster.advance(max(0.0, self._now - age_s - self._clock.now()))

    def create(self, resource: str, name: str, **body: Any) -> None:
        """Create an object of the namespace `lab`."""
        meta = {"name": name, "namespace": events.NAMESPACE}
        self.store.create(resource, {"metadata": meta, **body})

    def deploy(
        self,
        name: str,
        replicas: int,
        *,
        cpu: str = "100m",
        gpus: int = 0,
        notes: Mapping[str, str] = _STEADY,
        **spec: Any,
    ) -> None:
        """Create a Deployment in the namespace `lab`; `spec` is added to that of its pods."""
        labels = {"app": name}
        devices = {GPU: str(gpus)} if gpus else {}
        resources = {"requests": {"cpu": cpu, "memory": "64Mi", **devices}, "limits": devices}
        container = {"name": "main", "image": "lab/app:1", "resources": resources}
        annotations = {f"{PREFIX}{key}": value for key, value in notes.items()}
        pod = {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {"containers": [container], **spec},
        }
        selector = {"matchLabels": labels}
        spec_ = {"replicas": replicas, "selector": selector, "template": pod}
        self.create("deployments", name, spec=spec_)

    def nodes(self, zone: str = "") -> list[Obj]:
        """Return the nodes, of one zone if one is named, by name."""
        found = self.store.list("nodes")
        return [node for node in found if not zone or labels_of(node).get(ZONE) == zone]

    def pods(self, app: str) -> list[Obj]:
        """Return the pods of one app of the namespace `lab` that are on a node."""
        found = self.store.list("pods", events.NAMESPACE)
        return [pod for pod in found if labels_of(pod).get("app") == app and node_of(pod)]

    def label(self, resource: str, obj: Obj, **labels: str | None) -> None:
        """Set labels of an object; None takes one off."""

        def change(current: Obj) -> Obj:
            new = {**labels_of(current), **labels}
            kept = {key: value for key, value in new.items() if value is not None}
            return {**current, "metadata": {**current["metadata"], "labels": kept}}

        self.store.modify(resource, namespace_of(obj), name_of(obj), change)

    def load(self, node: Obj, percent: int) -> None:
        """Let the pods of a node use so many percent of its processors together."""
        pods = [
            pod
            for pod in self.store.list("pods")
            if node_of(pod) == name_of(node) and phase_of(pod) == "Running"
        ]
        room = parse_amount(CPU, node["status"]["allocatable"]["cpu"])
        for pod in pods:
            share = room * percent // 100 // len(pods) // len(pod["spec"]["containers"])
            events.annotate_pod(self.store, pod, "usage-cpu", f"{share}m")

    def taint(self, node: Obj, key: str) -> None:
        """Add a NoSchedule taint to a node."""
        events.taint_node(self.store, name_of(node), key)

    def add_devices(self, node: Obj, gpus: int) -> None:
        """Give a node GPUs, and the taint that keeps other pods off them."""

        def change(current: Obj) -> Obj:
            status = dict(current["status"])
            for field in ("capacity", "allocatable"):
                status[field] = {**status[field], GPU: str(gpus)}
            return {**current, "status": status}

        self.store.modify("nodes", "", name_of(node), change, subresource="status")
        self.taint(node, GPU)

    def without_last_zone(self) -> list[Obj]:
        """Take the nodes of the last zone away before anything runs there, and return them."""
        zone = max(labels_of(node)[ZONE] for node in self.nodes())
        later = self.nodes(zone)
        if len(later) == len(self.nodes()):
            return []
        for node in later:
            self.store.delete("nodes", "", name_of(node), DeleteOptions())
        return later

    def join(self, nodes: list[Obj]) -> None:
        """Let nodes join the cluster, empty."""
        for node in nodes:
            labels, status = labels_of(node), node["status"]
            wished = {field: status[field] for field in ("capacity", "allocatable", "addresses")}
            meta = {"name": name_of(node), "labels": labels}
            spec = {"providerID": node["spec"]["providerID"]}
            self.store.create("nodes", {"metadata": meta, "spec": spec, "status": wished})

    def restart_all_but(self, app: str) -> None:
        """Delete every pod but those of one app; their owners make new ones."""
        for pod in self.store.list("pods"):
            if labels_of(pod).get("app") != app:
                options = DeleteOptions(grace_period_seconds=0)
                self.store.delete("pods", namespace_of(pod), name_of(pod), options)

    def cordon(self, nodes: list[Obj]) -> None:
        """Let no new pod onto nodes."""
        self._set_unschedulable(nodes, on=True)

    def uncordon(self, nodes: list[Obj]) -> None:
        """Let pods onto nodes again."""
        self._set_unschedulable(nodes, on=False)

    def _set_unschedulable(self, nodes: list[Obj], *, on: bool) -> None:
        def change(node: Obj) -> Obj:
            spec = {key: value for key, value in node["spec"].items() if key != "unschedulable"}
            return {**node, "spec": {**spec, **({"unschedulable": True} if on else {})}}

        for node in nodes:
            self.store.modify("nodes", "", name_of(node), change)


class Scenario(Struct, frozen=True):
    """A scenario: the past of the cluster, and the events to come."""

    past: Callable[[Past], None]
    age_s: float = 3 * DAY_S
    """How old the cluster is."""
    then: Callable[[Store], Coroutine[None, None, None]] | None = None


def live_through(
    scenario: Scenario,
    store: Store,
    clock: HistoryClock,
    rng: random.Random,
    now: float,
    scoring: str,
) -> None:
    """Let a populated cluster live through the scenario's past; `now` is the present."""
    options = ClusterOptions(pace=Pace(jitter_s=2.0), scoring=scoring)
    cluster = SimCluster(store, rng, options)
    store.create("namespaces", {"metadata": {"name": events.NAMESPACE}})
    past = Past(store, clock, cluster, now)
    scenario.past(past)
    past.until(0)
    cluster.close()


def _busy(past: Past) -> None:
    past.until(HOUR_S)


def _skewed(past: Past) -> None:
    later = past.without_last_zone()
    past.deploy("even", 4, topologySpreadConstraints=[_spread("even")])
    past.until(HOUR_S)
    past.join(later)


def _overcommitted(past: Past) -> None:
    past.until(HOUR_S)
    for node in past.nodes()[::_HOT_EVERY]:
        past.load(node, 96)
    past.deploy("queued", 3, cpu="14", priorityClassName="batch")  # preempts no pod


def _leaky(past: Past) -> None:
    notes = {"usage-memory": "64Mi"}
    past.deploy(events.LEAKY, max(2, len(past.nodes()) // 4), notes=notes)
    past.until(HOUR_S)


def _crowded(past: Past) -> None:
    """Fill the cluster with pods of the lowest priority; some of them wait for room."""
    past.deploy("crunch", 3 * len(past.nodes()), cpu="2", priorityClassName="batch")
    past.deploy(events.URGENT, 0, cpu="3", priorityClassName="business-critical")
    past.until(HOUR_S)


def _batch(past: Past) -> None:
    past.until(HOUR_S)
    for number in range(3):
        events.create_job(past.store, f"earlier-{number}", fails=False)


def _gpu(past: Past) -> None:
    """Give every other node eight GPUs, and leave room for a whole node's on none of them."""
    nodes = past.nodes()[::2]
    for node in nodes:
        past.add_devices(node, 8)
    tolerations = [{"key": GPU, "operator": "Exists"}]
    past.deploy("training", len(nodes), gpus=5, tolerations=tolerations)
    past.deploy("notebook", len(nodes), gpus=1, tolerations=tolerations)
    past.until(HOUR_S)
    past.deploy("foundation", 1, gpus=8, tolerations=tolerations)


def _messy(past: Past) -> None:
    """Give every plugin something to find; most pods are three days old, a few have never moved."""
    later = past.without_last_zone()
    past.deploy("legacy", 3)
    past.until(3 * DAY_S)
    past.restart_all_but("legacy")  # which is for PodLifeTime
    past.until(2 * DAY_S)
    first, second, third, *others = past.nodes()
    past.label("nodes", second, disk="ssd")
    past.deploy("import", 3, notes={"profile": "fail", "run-seconds": "28800"})  # RemoveFailedPods
    past.deploy("flaky", 2, notes={"profile": "crash-loop", "run-seconds": "30"})  # …Restarts
    past.deploy("typo", 1, notes={"profile": "image-pull"})
    past.deploy("starting", 2, notes={"profile": "never-ready"})
    past.deploy("huge", 1, cpu="500")
    past.deploy("nowhere", 1, nodeSelector={"disk": "tape"})
    past.deploy("index", 2, affinity=_requires("disk", "ssd"))  # …NodeAffinity
    past.deploy("quiet", 2, affinity=_keeps_off("noisy"))  # …InterPodAntiAffinity
    past.deploy("loud", len(past.nodes()))
    past.deploy("even", 4, topologySpreadConstraints=[_spread("even")])
    past.create("pods", "by-hand", spec={"containers": [{"name": "main", "image": "lab/app:1"}]})
    past.until(2 * DAY_S - HOUR_S)
    past.cordon(others)
    past.deploy("report", 6, cpu="10m")  # RemoveDuplicates
    past.until(2 * HOUR_S)
    past.uncordon(others)
    past.join(later)  # …TopologySpreadConstraint, LowNodeUtilization
    past.until(1.5 * HOUR_S)
    past.deploy("latecomer", 3)  # onto the nodes that joined: HighNodeUtilization
    past.until(HOUR_S)
    past.label("nodes", second, disk=None)
    past.label("nodes", later[0] if later else third, disk="ssd")
    for pod in past.pods("loud"):
        past.label("pods", pod, noisy="true")
    past.taint(first, "gpu")  # …NodeTaints
    past.load(third, 97)  # LowNodeLoad
    for app, unavailable in (("starting", 0), ("index", 1)):
        selector = {"matchLabels": {"app": app}}
        spec = {"maxUnavailable": unavailable, "selector": selector}
        past.create("poddisruptionbudgets", app, spec=spec)


def _spread(app: str) -> Obj:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _requires(key: str, value: str) -> Obj:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _keeps_off(label: str) -> Obj:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {label: "true"}},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "busy": Scenario(_busy),
        "messy": Scenario(_messy, age_s=30 * DAY_S),
        "skewed": Scenario(_skewed),
        "overcommitted": Scenario(_overcommitted),
        "storm": Scenario(_busy, then=events.storm),
        "pressure": Scenario(_leaky, then=events.pressure),
        "preemption": Scenario(_crowded, then=events.preemption),
        "batch": Scenario(_batch, then=events.batch),
        "gpu": Scenario(_gpu),
        "autoscaler": Scenario(_busy, then=events.autoscaler),
    }
)
"""What `--scenario` takes, besides `fresh`."""
