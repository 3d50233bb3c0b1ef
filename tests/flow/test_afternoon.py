"""An afternoon of a cluster with every plugin enabled: only what lasts moves pods.

A roll-out of the network agent, pressure that the kubelet relieves, a node that restarts, and
labels that are missing for a moment pass by themselves. A queue of Jobs without retries and a
training job whose pods belong together run all the time. In the middle a person taints a node.
"""

from pathlib import Path

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import with_conditions
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import node_of, phase_of
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import SimulatedCluster, node, pod_template

MINUTE_S = 60.0
AGENT_TAINT = {"key": "node.cilium.io/agent-not-ready", "effect": "NoSchedule"}
PERSONS_TAINT = {"key": "repair", "value": "fan", "effect": "NoSchedule"}
POLICY = (Path(__file__).parent / "afternoon.yaml").read_text()
JOB_RUNS_S = 600


class Afternoon:
    """The cluster, its controller, and what happens to it."""

    def __init__(self) -> None:
        world = self.world = SimulatedCluster(heartbeats=True)
        world.nodes(*(f"n{i}/{'abc'[i % 3]}" for i in range(9)), labels={"disk": "ssd"})
        for i in range(2):
            made = node(f"gpu{i}/{'ab'[i]}", taints=({**PERSONS_TAINT, "key": "nvidia.com/gpu"},))
            made["status"]["capacity"]["nvidia.com/gpu"] = "8"
            world.store.create("nodes", made)
        for name in ("web", "api", "cart"):
            world.deployment(name, 9, cpu="500m", affinity=wanting("disk"))
        world.stateful_set("db", 3, cpu="500m", affinity=apart("db"))
        self._train()
        world.advance(60)
        config = load_sources([SourceText(POLICY, "afternoon.yaml")], plugin_registry())
        self.cluster = DescheduledCluster(world, config=config)
        self._jobs = 0

    def pass_minutes(self, minutes: float) -> None:
        """Let time pass; every five minutes a Job is made."""
        for _ in range(round(minutes / 5)):
            self._jobs += 1
            self._make_job(f"report-{self._jobs}")
            self.cluster.run(5 * MINUTE_S)

    def taint(self, name: str, *taints: Obj) -> None:
        """Give a node these taints beside those of its conditions."""
        self.world.edit("nodes", name, taints=list(taints))

    def report(self, name: str, **conditions: str) -> None:
        """Have a kubelet report conditions."""
        at = rfc3339(self.world.clock.now())
        found = [{"type": kind, "status": status} for kind, status in conditions.items()]

        def change(current: Obj) -> Obj:
            status = current["status"]
            now = with_conditions(status.get("conditions") or (), found, at)
            return {**current, "status": {**status, "conditions": now}}

        self.world.store.modify("nodes", "", name, change, subresource="status")
        self.world.cluster.settle()

    def label(self, name: str, **labels: str | None) -> None:
        """Set a node's labels; None removes one."""

        def change(current: Obj) -> Obj:
            merged = {**current["metadata"]["labels"], **labels}
            kept = {key: value for key, value in merged.items() if value is not None}
            return {**current, "metadata": {**current["metadata"], "labels": kept}}

        self.world.store.modify("nodes", "", name, change)
        self.world.cluster.settle()

    def pods_on(self, name: str) -> set[str]:
        """Return the names of a node's running pods."""
        pods = self.world.store.list("pods", "default")
        return {name_of(p) for p in pods if node_of(p) == name and phase_of(p) == "Running"}

    def _make_job(self, name: str) -> None:
        template = pod_template(
            name,
            cpu="300m",
            annotations={"sim.reactive-desched/run-seconds": str(JOB_RUNS_S)},
            restartPolicy="Never",
        )
        self.world.create("jobs", name, {"backoffLimit": 0, "completions": 1, "template": template})

    def _train(self) -> None:
        """Run four pods that a scheduler of gangs placed together, and one that serves a model."""
        gpus = {
            "resources": {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
        }
        tolerant = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
        gang = {"scheduling.x-k8s.io/pod-group": "train"}
        for app, replicas, labels in (("train", 4, gang), ("infer", 1, {})):
            template = pod_template(app, labels=labels, tolerations=tolerant)
            template["spec"]["containers"][0] |= gpus
            selector = {"matchLabels": {"app": app}}
            spec = {"replicas": replicas, "selector": selector, "template": template}
            self.world.create("deployments", app, spec)


def wanting(label: str) -> Obj:
    """Return a required affinity to nodes that have a label."""
    term = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def apart(app: str) -> Obj:
    """Return a required anti-affinity among the pods of an app."""
    term = {
        "labelSelector": {"matchLabels": {"app": app}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_of_a_whole_afternoon_only_the_taint_of_a_person_moves_pods() -> None:
    afternoon = Afternoon()
    world, cluster = afternoon.world, afternoon.cluster
    afternoon.pass_minutes(30)

    for i in range(9):  # the network agent is rolled out, node by node
        afternoon.taint(f"n{i}", AGENT_TAINT)
        cluster.run(20)
        afternoon.taint(f"n{i}")
        cluster.run(5)
    afternoon.pass_minutes(15)

    afternoon.report("n3", MemoryPressure="True")
    cluster.run(20)
    afternoon.report("n4", DiskPressure="True")
    afternoon.pass_minutes(5)
    afternoon.report("n3", MemoryPressure="False")
    afternoon.report("n4", DiskPressure="False")
    afternoon.pass_minutes(10)

    afternoon.report("n5", Ready="False")  # a kubelet restarts
    cluster.run(15)
    afternoon.report("n5", Ready="True")
    afternoon.pass_minutes(10)

    afternoon.label("n6", disk=None)  # what discovers features writes its labels anew
    cluster.run(10)
    afternoon.label("n6", disk="ssd")
    afternoon.pass_minutes(10)

    assert cluster.evicted == []

    leaving = {name for name in afternoon.pods_on("n7") if not name.startswith("report-")}
    assert leaving, "the node has pods of Deployments"
    afternoon.taint("n7", PERSONS_TAINT)
    cluster.run(30)
    assert cluster.evicted, "a person's taint counts within half a minute"
    afternoon.pass_minutes(60)

    assert set(cluster.evicted) == leaving
    assert len(cluster.evicted) == len(leaving)
    failed = [
        name_of(job) for job in world.store.list("jobs", "default") if job["status"].get("failed")
    ]
    assert failed == []
