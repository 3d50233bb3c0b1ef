"""The small cluster of the demo, changed over HTTP as kubectl would change it."""

from collections.abc import Iterable
from typing import Any

import aiohttp

JsonObject = dict[str, Any]  # any JSON object

SSD, BANK = {"disk": "ssd"}, {"pool": "bank"}
_ZONES = ("a", "b", "c")
_CAPACITY = {"cpu": "8", "memory": "16Gi", "pods": "40"}
_FAST_ANNOTATIONS = {
    "sim.reactive-desched/start-seconds": "0.3",
    "sim.reactive-desched/shutdown-seconds": "0.3",
}
_MERGE_PATCH_HEADERS = {"Content-Type": "application/merge-patch+json"}
_APPS = (
    ("shop", "web"),
    ("shop", "agent"),
    ("data", "db"),
    ("bank", "ledger"),
    ("batch", "worker"),
)
_EXPECTED_PODS = 37


class DemoCluster:
    """Does in the simulated cluster what kubectl would do, in the words of the script."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self.url = url

    async def create(self) -> None:
        """Build the cluster: six nodes and four teams' workloads."""
        for number in range(1, 7):
            labels = SSD if number in (2, 3) else BANK if number in (5, 6) else {}
            await self.add_node(f"node-{number}", labels)
        for namespace in ("shop", "data", "bank", "batch"):
            await self._create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        await self.deploy()

    async def deploy(self) -> None:
        """Create the workloads."""
        await self._deploy("shop", "web", 6, {})
        await self._deploy("shop", "agent", 6, {"tolerations": [{"operator": "Exists"}]})
        await self._deploy("data", "db", 3, {"affinity": _requires("disk", "ssd")}, cpu="1")
        await self._deploy("bank", "ledger", 4, {"nodeSelector": BANK})
        await self._deploy("batch", "worker", 18, {})

    async def restore(self) -> None:
        """Undo what a day changed, and delete the workloads, which `deploy` creates again."""
        for namespace, app in _APPS:
            await self._delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/{app}")
        for number in range(1, 7):
            await self.taint(f"node-{number}")
        for name in ("node-2", "node-3"):
            await self._patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": SSD}})
        await self._delete("/api/v1/nodes/node-7")
        await self._delete("/apis/policy/v1/namespaces/bank/poddisruptionbudgets/ledger")

    async def add_node(self, name: str, labels: dict[str, str]) -> None:
        """Let a node join."""
        zone = _ZONES[int(name[-1]) % len(_ZONES)]
        own = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        node = {
            "metadata": {"name": name, "labels": {**own, **labels}},
            "status": {"capacity": _CAPACITY, "allocatable": _CAPACITY, "conditions": [ready]},
        }
        await self._create("/api/v1/nodes", node)

    async def taint(self, name: str, *keys: str) -> None:
        """Give a node exactly these NoSchedule taints."""
        taints = [{"key": key, "effect": "NoSchedule"} for key in keys]
        await self._patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})

    async def unlabel(self, name: str, key: str) -> None:
        """Take a label off a node."""
        await self._patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {key: None}}})

    async def create_pdb(self, namespace: str, app: str) -> None:
        """Put a disruption budget over an app that lets no pod go."""
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}}
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        await self._create(path, {"metadata": {"name": app}, "spec": spec})

    async def relax_pdb(self, namespace: str, app: str) -> None:
        """Let one pod of the app go at a time."""
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{app}"
        await self._patch(path, {"spec": {"maxUnavailable": 1}})

    async def pods_on(self, nodes: Iterable[str], app: str = "") -> dict[str, str]:
        """Return uid and app of the pods on some nodes that are not leaving."""
        wanted = set(nodes)
        return {
            pod["metadata"]["uid"]: _app(pod)
            for pod in await self._pods()
            if pod["spec"].get("nodeName") in wanted
            and not _is_leaving(pod)
            and app in ("", _app(pod))
        }

    async def nodes_of(self, app: str) -> set[str]:
        """Return the nodes on which an app's pods are."""
        return {
            pod["spec"].get("nodeName", "")
            for pod in await self._pods()
            if _app(pod) == app and not _is_leaving(pod)
        }

    async def is_stable(self) -> bool:
        """Say whether every wanted pod is there and ready, and none is leaving."""
        pods = await self._pods()
        return len(pods) == _EXPECTED_PODS and all(map(_is_ready, pods))

    async def is_empty(self) -> bool:
        """Say whether no pod is there."""
        return not await self._pods()

    async def _pods(self) -> list[JsonObject]:
        async with self._http.get(f"{self.url}/api/v1/pods") as reply:
            listed: list[JsonObject] = (await reply.json())["items"]
            return listed

    async def _create(self, path: str, body: JsonObject) -> None:
        async with self._http.post(f"{self.url}{path}", json=body) as reply:
            reply.raise_for_status()

    async def _patch(self, path: str, body: JsonObject) -> None:
        request = self._http.patch(f"{self.url}{path}", json=body, headers=_MERGE_PATCH_HEADERS)
        async with request as reply:
            reply.raise_for_status()

    async def _delete(self, path: str) -> None:
        async with self._http.delete(f"{self.url}{path}") as reply:
            reply.raise_for_status()

    async def _deploy(
        self, namespace: str, app: str, replicas: int, more: JsonObject, cpu: str = "200m"
    ) -> None:
        labels = {"app": app}
        container = {"name": "main", "image": app, "resources": {"requests": {"cpu": cpu}}}
        template = {
            "metadata": {"labels": labels, "annotations": _FAST_ANNOTATIONS},
            "spec": {"containers": [container], **more},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        await self._create(path, {"metadata": {"name": app}, "spec": spec})


def _requires(key: str, value: str) -> JsonObject:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _app(pod: JsonObject) -> str:
    return str(pod["metadata"]["labels"]["app"])


def _is_leaving(pod: JsonObject) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: JsonObject) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not _is_leaving(pod)
