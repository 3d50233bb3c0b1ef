"""A simulated cluster in a process of its own, whose nodes a test taints over HTTP."""

import json
import re
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.component import ChildProcess
from tests.support.control_plane import wait_until
from tests.support.limits import UNLIMITED

__all__ = ["TAINT_POLICY", "SimulatorProcess", "simulator", "taint_settings"]

TAINT_POLICY = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: test
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
"""


def taint_settings(*lines: str) -> str:
    """Return settings with a short debounce, no limits, and these lines."""
    head = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings"
    return "\n".join(("", head, "debounce: {quiet: 50ms}", *lines, "")) + UNLIMITED


@dataclass(frozen=True)
class SimulatorProcess:
    """A running `sim` of six nodes: where it serves, and how to reach it."""

    url: str
    kubeconfig: Path

    def set_taints(self, node: str, *keys: str) -> None:
        """Give a node NoSchedule taints with these keys, and no others."""
        taints = [{"key": key, "effect": "NoSchedule"} for key in keys]
        merged = {"spec": {"taints": taints or None}}
        self._send("PATCH", f"api/v1/nodes/{node}", merged, "application/merge-patch+json")

    def pods_of(self, node: str) -> list[str]:
        """Return `NAMESPACE/NAME` of each pod of a controller on a node, without its own agents."""
        with urllib.request.urlopen(f"{self.url}/api/v1/pods", timeout=60) as answer:
            pods = json.load(answer)["items"]
        return [
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in pods
            if pod["spec"].get("nodeName") == node
            and [each["kind"] for each in pod["metadata"].get("ownerReferences", ())]
            not in ([], ["DaemonSet"], ["Node"])
        ]

    def annotate_pod(self, pod: str, annotation: str) -> None:
        """Set `NAME=VALUE` on `NAMESPACE/NAME`."""
        namespace, name = pod.split("/")
        key, _, value = annotation.partition("=")
        path = f"api/v1/namespaces/{namespace}/pods/{name}"
        merged = {"metadata": {"annotations": {key: value}}}
        self._send("PATCH", path, merged, "application/merge-patch+json")

    def create_migration_job(self, name: str, pod: str) -> None:
        """Create a PodMigrationJob for a pod of the namespace `default`, there or not."""
        job = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "PodMigrationJob",
            "metadata": {"name": name},
            "spec": {"podRef": {"namespace": "default", "name": pod}},
        }
        path = "apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
        self._send("POST", path, job, "application/json")

    def _send(self, method: str, path: str, body: Mapping[str, Any], content_type: str) -> None:
        request = urllib.request.Request(
            f"{self.url}/{path}",
            method=method,
            data=json.dumps(body).encode(),
            headers={"Content-Type": content_type},
        )
        urllib.request.urlopen(request, timeout=60).close()


@contextmanager
def simulator(folder: Path, pods: int) -> Iterator[SimulatorProcess]:
    """Run `sim` with so many pods until the block ends."""
    kubeconfig = folder / "kubeconfig"
    size = ("--nodes", "6", "--pods", str(pods), "--write-kubeconfig", str(kubeconfig))
    argv = (sys.executable, "-m", "reactive_desched", "sim", *size)
    process = ChildProcess("sim", argv, folder / "sim.log")
    process.start()
    try:
        url = wait_until(
            lambda: re.search(r"http://\S+", process.tail(5)), within_s=60, what="the cluster"
        )
        yield SimulatorProcess(url.group(), kubeconfig)
    finally:
        process.kill()
