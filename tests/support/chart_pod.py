"""The container of a release as a process: what the kubelet would start, with its files."""

import re
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.support.component import ChildProcess
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.kustomize import pod_template
from tests.support.ports import free_ports

__all__ = ["ChartPod"]

Object = dict[str, Any]  # a Kubernetes object as JSON
CONFIG, STATE = "/etc/reactive-desched", "/var/lib/reactive-desched"
WORKLOADS = "deployments,jobs,cronjobs"
OURS = "app.kubernetes.io/part-of=reactive-desched"


@dataclass
class ChartPod:
    """The container of a release in `namespace`, with the token of its ServiceAccount alone.

    `files` are folders of other volumes, by where the container has them.
    """

    plane: ControlPlane
    namespace: str
    folder: Path
    files: dict[str, Path] = field(default_factory=dict)
    account: str = field(init=False)
    probes: int = field(init=False)
    port: int = field(init=False)
    _since: int = field(init=False)
    _process: ChildProcess = field(init=False)

    def __post_init__(self) -> None:
        kubectl = self.plane.kubectl()
        (workload,) = kubectl.get(WORKLOADS, "-n", self.namespace, "-l", OURS)
        pod = pod_template(workload)["spec"]
        (container,) = pod["containers"]
        self.account = pod["serviceAccountName"]
        self.port, self.probes = free_ports(2)
        self.folder.mkdir(parents=True)
        here = {
            **{f"{place}/": f"{path}/" for place, path in self.files.items()},
            CONFIG: str(self._mount(pod)),
            STATE: str(self.folder / "state"),
            "0.0.0.0:10258": f"127.0.0.1:{self.port}",
            "0.0.0.0:8081": f"127.0.0.1:{self.probes}",
        }
        policy = self.folder / "config" / "policy.yaml"
        policy.write_text(_replaced(policy.read_text(), here))
        kubeconfig = self.plane.service_account_kubeconfig(self.namespace, self.account)
        # Files are where they are, so the token is in a kubeconfig.
        argv = (
            *(sys.executable, "-m", "reactive_desched"),
            *(_replaced(word, here) for word in container["args"]),
            f"--kubeconfig={kubeconfig}",
        )
        values = {each["name"]: each.get("value", "x") for each in container["env"]}
        values["POD_NAMESPACE"] = self.namespace
        env = {name: _replaced(value, here) for name, value in values.items()}
        self._since = self.plane.audit.size_bytes()
        command = ("env", *(f"{name}={value}" for name, value in env.items()), *argv)
        self._process = ChildProcess("pod", command, self.folder / "pod.log")

    def __enter__(self) -> Self:
        """Start it."""
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.kill()

    def await_ready(self) -> None:
        """Wait until its readiness probe passes."""

        def ready() -> bool:
            self._process.ensure_alive()
            return self.page(self.probes, "/readyz").strip() == "ok"

        wait_until(ready, within_s=60, what="the pod is ready", describe=lambda: self.log[-3000:])

    def await_end(self) -> None:
        """Wait until the process has ended, as that of a sweep does."""
        what = "the sweep has ended"
        wait_until(lambda: not self._process.alive, within_s=60, what=what)

    def page(self, port: int, path: str) -> str:
        """Return the text of a page, whatever its status; empty when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()
        except OSError:
            return ""

    @property
    def log(self) -> str:
        """All that it logged."""
        return (self.folder / "pod.log").read_text(errors="replace")

    def asked(self) -> dict[tuple[str, str], set[int]]:
        """Return what it asked the API server for since it was made, and the answers' codes."""
        user = f"system:serviceaccount:{self.namespace}:{self.account}"
        found: dict[tuple[str, str], set[int]] = {}
        for each in self.plane.audit.requests(user, self._since):
            found.setdefault((each.verb, each.resource), set()).add(each.code)
        return found

    def _mount(self, pod: Object) -> Path:
        """Write the ConfigMap as files."""
        (volume,) = (each for each in pod["volumes"] if each["name"] == "policy")
        config = ("configmap", volume["configMap"]["name"], "-n", self.namespace)
        (found,) = self.plane.kubectl().get(*config)
        folder = self.folder / "config"
        folder.mkdir()
        for name, text in found["data"].items():
            (folder / name).write_text(text)
        return folder


def _replaced(text: str, here: dict[str, str]) -> str:
    places = "|".join(map(re.escape, here))
    return re.sub(places, lambda found: here[found[0]], text)
