"""The small cluster of the demo: nodes, workloads, and the hand that changes them."""

from collections.abc import Callable, Iterable

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.store import Store

SSD, BANK = {"disk": "ssd"}, {"pool": "bank"}
_ZONES = ("a", "b", "c")
_ROOM = {"cpu": "8", "memory": "16Gi", "pods": "40"}


class Town:
    """What kubectl would do, said in the words of the script."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def settle(self) -> None:
        """Build the cluster: seven nodes' worth of room, four teams' workloads."""
        for number in range(1, 7):
            labels = SSD if number in (2, 3) else BANK if number in (5, 6) else {}
            self.add_node(f"node-{number}", labels)
        for namespace in ("shop", "data", "bank", "batch"):
            self.store.create("namespaces", {"metadata": {"name": namespace}})
        self._deploy("shop", "web", 6, {})
        self._deploy("shop", "agent", 6, {"tolerations": [{"operator": "Exists"}]})
        self._deploy("data", "db", 3, {"affinity": _requires("disk", "ssd")}, cpu="1")
        self._deploy("bank", "ledger", 4, {"nodeSelector": BANK})
        self._deploy("batch", "worker", 18, {})

    def add_node(self, name: str, labels: dict[str, str]) -> None:
        """Let a node join."""
        zone = _ZONES[int(name[-1]) % len(_ZONES)]
        own = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        node = {
            "metadata": {"name": name, "labels": {**own, **labels}},
            "status": {
                "capacity": _ROOM,
                "allocatable": _ROOM,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
        self.store.create("nodes", node)

    def taint(self, name: str, key: str) -> None:
        """Put a NoSchedule taint on a node."""
        self._change_taints(name, lambda taints: [*taints, {"key": key, "effect": "NoSchedule"}])

    def untaint(self, name: str, key: str) -> None:
        """Take a taint off a node."""
        self._change_taints(name, lambda taints: [t for t in taints if t["key"] != key])

    def unlabel(self, name: str, key: str) -> None:
        """Take a label off a node."""

        def change(node: Obj) -> Obj:
            metadata = node["metadata"]
            labels = {k: v for k, v in metadata["labels"].items() if k != key}
            return {**node, "metadata": {**metadata, "labels": labels}}

        self.store.modify("nodes", "", name, change)

    def budget(self, namespace: str, app: str, most_unavailable: int) -> None:
        """Set how many pods of an app may be unavailable."""
        spec = {
            "maxUnavailable": most_unavailable,
            "selector": {"matchLabels": {"app": app}},
        }
        name = {"name": app, "namespace": namespace}
        if self.store.get("poddisruptionbudgets", namespace, app) is None:
            self.store.create("poddisruptionbudgets", {"metadata": name, "spec": spec})
        else:
            self.store.modify(
                "poddisruptionbudgets", namespace, app, lambda pdb: {**pdb, "spec": spec}
            )

    def pods_on(self, nodes: Iterable[str], app: str = "") -> dict[str, str]:
        """Return uid and app of the pods on some nodes that are not leaving."""
        wanted = set(nodes)
        return {
            pod["metadata"]["uid"]: pod["metadata"]["labels"]["app"]
            for pod in self.store.list("pods")
            if pod["spec"].get("nodeName") in wanted
            and "deletionTimestamp" not in pod["metadata"]
            and app in ("", pod["metadata"]["labels"]["app"])
        }

    def nodes_of(self, app: str) -> list[str]:
        """Return the nodes on which an app's pods are, ready or not, one for each pod."""
        return sorted(
            pod["spec"].get("nodeName", "")
            for pod in self.store.list("pods")
            if pod["metadata"]["labels"]["app"] == app
            and "deletionTimestamp" not in pod["metadata"]
        )

    def is_calm(self) -> bool:
        """Say whether every wanted pod is there and ready, and none is leaving."""
        wanted = sum(
            deployment["spec"]["replicas"] for deployment in self.store.list("deployments")
        )
        pods = self.store.list("pods")
        return len(pods) == wanted and all(map(_is_settled, pods))

    def _change_taints(self, name: str, change: Callable[[list[Obj]], list[Obj]]) -> None:
        def changed(node: Obj) -> Obj:
            spec = node.get("spec") or {}
            return {**node, "spec": {**spec, "taints": change(spec.get("taints") or [])}}

        self.store.modify("nodes", "", name, changed)

    def _deploy(
        self, namespace: str, app: str, replicas: int, more: Obj, cpu: str = "200m"
    ) -> None:
        labels = {"app": app}
        container = {"name": "main", "image": app, "resources": {"requests": {"cpu": cpu}}}
        deployment = {
            "metadata": {"name": app, "namespace": namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], **more},
                },
            },
        }
        self.store.create("deployments", deployment)


def _requires(key: str, value: str) -> Obj:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _is_settled(pod: Obj) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
