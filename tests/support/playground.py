"""One test's own corner of a shared real cluster: a namespace, its nodes, and its pods alone."""

import contextlib
import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Self

from reactive_desched.model.node_marks import CORDON
from tests.support import manifests
from tests.support.component import ChildProcess
from tests.support.control_plane import wait_until
from tests.support.kubectl import Kubectl, KubectlError, Object
from tests.support.quick_kubectl import QuickKubectl

OWNER = "e2e.reactive-desched.example"  # the label that keeps a playground's pods on its nodes
LAST_EVENTS, MESSAGE_WIDTH = 30, 160


NODE_PLUGINS: dict[str, Object] = {
    "RemovePodsViolatingNodeTaints": {},
    "RemovePodsViolatingNodeAffinity": {
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]
    },
}


@dataclass(frozen=True)
class PodSnapshot:
    """What a test wants to know of a pod."""

    name: str
    uid: str
    node: str | None
    healthy: bool  # Ready and not on its way out, as a disruption budget counts

    @classmethod
    def of(cls, pod: Object) -> Self:
        """Read a pod as the API server gives it."""
        meta, conditions = pod["metadata"], pod.get("status", {}).get("conditions", [])
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        leaving = "deletionTimestamp" in meta
        node = pod["spec"].get("nodeName")
        return cls(meta["name"], meta["uid"], node, ready and not leaving)


@dataclass
class E2ENamespace:
    """Nodes and workloads under one name; leaving the context gives everything back."""

    kubectl: QuickKubectl
    namespace: str
    plugins: dict[str, Object] = field(default_factory=dict)
    balance: dict[str, Object] = field(default_factory=dict)
    settings: str | None = None
    metrics_providers: list[Object] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Create the namespace, and wait until pods may be created in it."""
        self.kubectl.apply(manifests.namespace(self.namespace))
        wait_until(
            lambda: self.kubectl.get("serviceaccounts", "-n", self.namespace),
            within_s=60,
            what=f"the namespace {self.namespace} has its ServiceAccount",
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Ask for everything to be removed; nobody waits for it, names are never used again."""
        self.kubectl.run(
            "delete", "namespace", self.namespace, "--wait=false", "--ignore-not-found"
        )
        self.kubectl.run("delete", "nodes", "-l", f"{OWNER}={self.namespace}", "--wait=false")

    def policy(self) -> str:
        """Return a policy file for this namespace and its nodes alone.

        It runs `plugins` and `balance`; without either, the plugins about wrong nodes.
        """
        selector = {"namespaces": {"include": [self.namespace]}}
        deschedule = self.plugins or ({} if self.balance else NODE_PLUGINS)
        plugins = {name: {**selector, **args} for name, args in deschedule.items()}
        configured = {"DefaultEvictor": {"nodeFit": True}, **plugins, **self.balance}
        profile = {
            "name": self.namespace,
            "pluginConfig": [{"name": name, "args": args} for name, args in configured.items()],
            "plugins": {
                "deschedule": {"enabled": list(plugins)},
                "balance": {"enabled": list(self.balance)},
            },
        }
        head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
        nodes = {"nodeSelector": f"{OWNER}={self.namespace}"}
        providers = {"metricsProviders": self.metrics_providers} if self.metrics_providers else {}
        return json.dumps({**head, **nodes, **providers, "profiles": [profile]}, indent=1)

    def node(self, name: str) -> str:
        """Return the full name of one of our nodes."""
        return f"{self.namespace}-{name}"

    def add_nodes(self, *names: str, **labels: str) -> None:
        """Add nodes and wait until pods may be placed on them."""
        names_here = {OWNER: self.namespace, **labels}
        self.kubectl.apply(*(manifests.node(self.node(name), **names_here) for name in names))
        expected = {self.node(name) for name in names}
        wait_until(
            lambda: expected <= self._open_nodes(), within_s=60, what=f"nodes {expected} are open"
        )

    def deploy(
        self, app: str, replicas: int, *, cpu: str = "100m", **pod_spec: object
    ) -> dict[str, PodSnapshot]:
        """Create a Deployment on our nodes and return its pods once all are healthy."""
        on_our_nodes = {"nodeSelector": {OWNER: self.namespace}, **pod_spec}
        self.kubectl.apply(
            manifests.deployment(self.namespace, app, replicas, cpu=cpu, **on_our_nodes)
        )
        return self.await_healthy(app, replicas)

    def deploy_stateful(self, app: str, replicas: int) -> dict[str, PodSnapshot]:
        """Create a StatefulSet on our nodes and return its pods once all are healthy."""
        ours = {"nodeSelector": {OWNER: self.namespace}}
        self.kubectl.apply(manifests.stateful_set(self.namespace, app, replicas, **ours))
        return self.await_healthy(app, replicas)

    def roll_out(self, app: str) -> None:
        """Begin a rollout of a Deployment that replaces a pod every two seconds."""
        changed = {
            "minReadySeconds": 2,
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"annotations": {"e2e.reactive-desched.example/rolled": "1"}}},
        }
        patch = json.dumps({"spec": changed})
        self.kubectl.run("patch", "deployment", app, "-n", self.namespace, "-p", patch)

    def add_patient_class(self) -> str:
        """Create a PriorityClass of pods that preempt none, and name it; its value is 0."""
        name = f"{self.namespace}-patient"
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        values = {"value": 0, "preemptionPolicy": "Never"}
        self.kubectl.apply({**kind, "metadata": {"name": name}, **values})
        return name

    def deploy_each(self, *apps: str, cpu: str) -> None:
        """Create Deployments of one pod each on our nodes; nobody waits for them."""
        ours = {"nodeSelector": {OWNER: self.namespace}}
        made = (manifests.deployment(self.namespace, app, 1, cpu=cpu, **ours) for app in apps)
        self.kubectl.apply(*made)

    def scale(self, replicas: int, *apps: str) -> None:
        """Set the size of Deployments; nobody waits for it."""
        named = [f"deployment/{app}" for app in apps]
        self.kubectl.run("scale", *named, "-n", self.namespace, f"--replicas={replicas}")

    def create_pdb(self, app: str, max_unavailable: int, name: str = "") -> None:
        """Give an app a disruption budget and wait until the server has worked it out."""
        name = name or app
        budget = manifests.pod_disruption_budget(self.namespace, app, max_unavailable, name)
        self.kubectl.apply(budget)

        def counted() -> bool:
            (budget,) = self.kubectl.get("poddisruptionbudget", "-n", self.namespace, name)
            allowed: int = budget.get("status", {}).get("disruptionsAllowed", 0)
            return allowed == max_unavailable

        wait_until(counted, within_s=60, what=f"the disruption budget {name} is worked out")

    def delete_pdb(self, name: str) -> None:
        """Delete a disruption budget."""
        self.kubectl.run("delete", "poddisruptionbudget", name, "-n", self.namespace)

    def forbid_evictions(self, app: str) -> None:
        """Deny evictions of an app by admission policy, and wait until the server applies it."""
        self.kubectl.apply(*manifests.eviction_ban(self.namespace, app))
        pod = next(iter(self.pods(app).values())).name
        wait_until(
            lambda: self._eviction_is_denied(pod),
            within_s=60,
            what=f"evictions of {app} are denied",
        )

    def taint(self, name: str, taint: str) -> None:
        """Add a taint written `key=value:Effect` to one of our nodes."""
        self.kubectl.taint(self.node(name), taint)

    def lose(self, *names: str, ready: str = "False") -> None:
        """Have some of our nodes report this of Ready, until their kubelets report."""
        condition = {"type": "Ready", "status": ready, "reason": "KubeletNotReady"}
        patch = json.dumps({"status": {"conditions": [condition]}})
        for name in names:
            self.kubectl.run("patch", "node", self.node(name), "--subresource=status", "-p", patch)

    def await_taint(self, name: str, key: str) -> None:
        """Wait until one of our nodes has a taint of this key with the effect NoSchedule."""

        def tainted() -> bool:
            (node,) = self.kubectl.get("node", self.node(name))
            taints = node["spec"].get("taints", ())
            return any(each["key"] == key and each["effect"] == "NoSchedule" for each in taints)

        wait_until(tainted, within_s=60, what=f"node {name} has the taint {key}")

    def cordon(self, name: str) -> None:
        """Cordon one of our nodes, and wait until it has the taint of a cordon."""
        self.kubectl.run("cordon", self.node(name))
        self.await_taint(name, CORDON)

    def relabel(self, name: str, label: str) -> None:
        """Set a label written `key=value` on one of our nodes."""
        self.kubectl.run("label", "--overwrite", "node", self.node(name), label)

    def relabel_all(self, *names: str, label: str) -> None:
        """Set a label written `key=value` on several of our nodes, by one command."""
        self.kubectl.run("label", "--overwrite", "nodes", *map(self.node, names), label)

    def await_rollout(self, app: str) -> None:
        """Wait until a rollout of a Deployment is over."""
        self.kubectl.run("rollout", "status", f"deployment/{app}", "-n", self.namespace)

    def pods(self, app: str) -> dict[str, PodSnapshot]:
        """Return the app's pods by uid, those on their way out included."""
        found = self.kubectl.get("pods", "-n", self.namespace, "-l", f"app={app}")
        return {pod.uid: pod for pod in map(PodSnapshot.of, found)}

    def pods_by_node(self) -> dict[str, int]:
        """Count the pods, whatever their app, on each of our nodes that has any."""
        return self._count(map(PodSnapshot.of, self._all_pods()))

    def await_pods_by_node(self, within_s: float = 60, **expected: int) -> None:
        """Wait until every pod is healthy, and each node has as many as expected."""

        def as_expected() -> bool:
            pods = [PodSnapshot.of(pod) for pod in self._all_pods()]
            return all(pod.healthy for pod in pods) and self._count(pods) == expected

        what = f"the nodes have {expected} pods"
        wait_until(as_expected, within_s=within_s, what=what, describe=self.describe)

    def apps_on(self, name: str) -> set[str]:
        """Return the apps that have a pod on one of our nodes."""
        here = f"spec.nodeName={self.node(name)}"
        pods = self.kubectl.get("pods", "-n", self.namespace, "--field-selector", here)
        return {pod["metadata"]["labels"]["app"] for pod in pods}

    def ready_at(self, name: str) -> datetime:
        """Return the second in which one of our nodes became Ready."""
        (node,) = self.kubectl.get("node", self.node(name))
        (ready,) = (c for c in node["status"]["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "True"
        return datetime.fromisoformat(ready["lastTransitionTime"])

    def pods_on(self, app: str, name: str) -> set[str]:
        """Return the uids of the app's pods on one of our nodes."""
        node = self.node(name)
        return {uid for uid, pod in self.pods(app).items() if pod.node == node}

    def await_healthy(
        self, app: str, replicas: int, *, off: str | None = None, within_s: float = 60
    ) -> dict[str, PodSnapshot]:
        """Return the app's pods once exactly `replicas` exist, healthy, none on the node `off`."""
        shunned = self.node(off) if off else None

        def at_rest() -> dict[str, PodSnapshot] | None:
            pods = self.pods(app)
            good = all(pod.healthy and pod.node != shunned for pod in pods.values())
            return pods if good and len(pods) == replicas else None

        where = f" off {off}" if off else ""
        what = f"{replicas} pods of {app} are healthy{where}"
        return wait_until(at_rest, within_s=within_s, what=what, describe=self.describe)

    def describe(self) -> str:
        """Say how pods, nodes and jobs are, and the last events: why a test waited in vain."""
        here, hasty = ("-n", self.namespace), replace(self.kubectl, timeout_s=10)
        try:
            pods = map(_pod_line, hasty.get("pods", *here))
            nodes = map(_node_line, hasty.get("nodes", "-l", f"{OWNER}={self.namespace}"))
            events = sorted(map(_event_line, hasty.get("events", *here)))
            return "\n".join((*pods, *nodes, *self._job_lines(hasty), *events[-LAST_EVENTS:]))
        except (KubectlError, subprocess.TimeoutExpired) as error:
            return f"kubectl says: {error}"

    def _job_lines(self, kubectl: Kubectl) -> list[str]:
        """Say how the migration jobs of our pods are, where the cluster has the kind."""
        try:
            jobs = kubectl.get("podmigrationjobs")
        except KubectlError:
            return []
        ours = (job for job in jobs if job["spec"]["podRef"].get("namespace") == self.namespace)
        return [f"PodMigrationJob {_name(job)}: {json.dumps(job.get('status'))}" for job in ours]

    def set_status(self, pod: str, **status: object) -> None:
        """Change a pod's status, as its kubelet would."""
        patch = json.dumps({"status": status})
        subresource = "--subresource=status"
        self.kubectl.run("patch", "pod", "-n", self.namespace, pod, subresource, "-p", patch)

    def label_pod(self, pod: str, label: str) -> None:
        """Set a label written `key=value` on a pod."""
        self.kubectl.run("label", "--overwrite", "pod", "-n", self.namespace, pod, label)

    def erase_pod(self, pod: str) -> None:
        """Delete a pod without grace, and wait until it is gone, as its kubelet may hold it."""
        self.kubectl.erase("pods", self.namespace, pod)
        named = ("-n", self.namespace, "--field-selector", f"metadata.name={pod}")
        wait_until(
            lambda: not self.kubectl.get("pods", *named),
            within_s=60,
            what=f"{pod} is gone",
            every_s=0.05,
        )

    def watch_health(self, app: str, log: Path) -> "HealthWatch":
        """Return a watch of the app's pods, to be used as a context manager."""
        return HealthWatch(self.kubectl.watching("pods", "-n", self.namespace, f"-lapp={app}"), log)

    def _all_pods(self) -> list[Object]:
        return self.kubectl.get("pods", "-n", self.namespace)

    def _count(self, pods: Iterable[PodSnapshot]) -> dict[str, int]:
        ours = self.node("")
        return dict(Counter(pod.node.removeprefix(ours) for pod in pods if pod.node))

    def _eviction_is_denied(self, pod: str) -> bool:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction?dryRun=All"
        meta = {"namespace": self.namespace, "name": pod}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        try:
            self.kubectl.run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
        except KubectlError as error:
            return "not to be evicted" in str(error)
        return False

    def _open_nodes(self) -> set[str]:
        nodes = self.kubectl.get("nodes", "-l", f"{OWNER}={self.namespace}")
        return {node["metadata"]["name"] for node in nodes if not node["spec"].get("taints")}


def _pod_line(pod: Object) -> str:
    """Say how a pod is: its node, or for which it is nominated, and what does not hold."""
    meta, status = pod["metadata"], pod.get("status", {})
    parts = (
        f"Pod {_name(pod)}: {status.get('phase')}",
        f"on {pod['spec'].get('nodeName')}",
        f"nominated for {found}" if (found := status.get("nominatedNodeName")) else "",
        f"terminating since {found}" if (found := meta.get("deletionTimestamp")) else "",
        f"with finalizers {found}" if (found := meta.get("finalizers")) else "",
        _untrue(status),
    )
    return ", ".join(filter(None, parts))


def _node_line(node: Object) -> str:
    taints = [f"{each['key']}:{each['effect']}" for each in node["spec"].get("taints", ())]
    conditions = node.get("status", {}).get("conditions", ())
    ready = [each["status"] for each in conditions if each["type"] == "Ready"]
    return f"Node {_name(node)}: taints {taints}, Ready {ready}"


def _event_line(event: Object) -> str:
    at = event.get("lastTimestamp") or event.get("eventTime") or ""
    about = event["involvedObject"]
    message = str(event.get("message"))[:MESSAGE_WIDTH]
    return f"{at} {event.get('reason')} {about['kind']} {about.get('name')}: {message}"


def _untrue(status: Object) -> str:
    """Say which conditions of a pod are not True, and why."""
    found = (each for each in status.get("conditions", ()) if each["status"] != "True")
    parts = (f"{c['type']}={c['status']} {c.get('reason')} {c.get('message', '')}" for c in found)
    return "; ".join(part[:MESSAGE_WIDTH] for part in parts)


def _name(found: Object) -> str:
    name: str = found["metadata"]["name"]
    return name


@dataclass
class HealthWatch:
    """A record of every pod event in the server's order, so that no short dip is missed."""

    command: tuple[str, ...]
    log: Path
    _component: ChildProcess = field(init=False)

    def __enter__(self) -> Self:
        """Begin to watch, and wait until the first pods were seen."""
        self._component = ChildProcess("pod watch", self.command, self.log)
        self._component.start()
        wait_until(self.healthy_counts, within_s=60, what="the pod watch has begun")
        return self

    def __exit__(self, *_: object) -> None:
        """End the watch; the record stays."""
        self._component.kill()

    def healthy_counts(self) -> list[int]:
        """Return how many pods were healthy after each event."""
        healthy: set[str] = set()
        counts = []
        for event in self._events():
            pod = PodSnapshot.of(event["object"])
            if pod.healthy and event["type"] != "DELETED":
                healthy.add(pod.uid)
            else:
                healthy.discard(pod.uid)
            counts.append(len(healthy))
        return counts

    def _events(self) -> Iterator[Object]:
        text, decoder, at = self.log.read_text(), json.JSONDecoder(), 0
        with contextlib.suppress(json.JSONDecodeError):  # the last one is still being written
            while (at := text.find("{", at)) >= 0:
                event, at = decoder.raw_decode(text, at)
                yield event
