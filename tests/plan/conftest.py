"""Objects as kubectl writes them, in few words, and `plan` on them in this process."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.model.objects import HOSTNAME_LABEL
from reactive_desched.plan.command import build_report
from reactive_desched.plan.inputs import PlanOptions
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.report import PlanReport

Object = dict[str, Any]  # an object of the API as JSON

NOW = "2026-05-01T12:00:00Z"
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: taints
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
"""


class World:
    """Writes small clusters and looks at them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY, encoding="utf-8")

    def node(self, name: str, *tainted: str, ready: str = "True", **labels: str) -> Object:
        since = {"effect": "NoSchedule", "timeAdded": "2026-05-01T11:00:00Z"}
        taints = [{"key": key, **since} for key in tainted]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": self._metadata(name, "", labels={HOSTNAME_LABEL: name, **labels}),
            "spec": {"taints": taints} if taints else {},
            "status": {
                "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }

    def pod(
        self, name: str, on: str | None = "n1", space: str = "shop", phase: str = "Running"
    ) -> Object:
        owner = {"kind": "ReplicaSet", "name": "web", "uid": "rs-web", "controller": True}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**self._metadata(name, space), "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main"}], **({"nodeName": on} if on else {})},
            "status": {"phase": phase, "startTime": "2026-05-01T11:00:00Z"},
        }

    def namespace(self, name: str, **labels: str) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": self._metadata(name, "", labels=labels),
        }

    def small(self) -> list[Object]:
        """A tainted node with two pods, and two other nodes with one pod."""
        return [
            *(self.node("n1", "gpu"), self.node("n2"), self.node("n3")),
            *(self.pod("a"), self.pod("b"), self.pod("c", on="n2")),
        ]

    def listed(self, things: Iterable[Object]) -> Object:
        items = list(things)
        return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {}}

    def file(self, content: object, name: str = "cluster.json") -> str:
        """Write a text, bytes, or a value as JSON, and return where."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text, encoding="utf-8")
        return str(path)

    def look(self, *files: str, policy: str | None = None, **more: Any) -> PlanReport:
        """Look at files as `plan --as once` does; without any, at the small cluster."""
        if policy is not None:
            self.policy.write_text(policy, encoding="utf-8")
        named = files or (self.file(self.listed(self.small())),)
        options = PlanOptions(
            policy=str(self.policy), files=named, **{"now": NOW, "mode": PlanMode.ONCE, **more}
        )
        return build_report(options, Progress())

    def gone(self, *files: str, **more: Any) -> list[str]:
        """Name the pods that would be evicted, in order."""
        decisions = self.look(*files, **more).decisions
        return [str(each.pod) for each in decisions if each.action == "Evict"]

    def _metadata(self, name: str, space: str, **more: Any) -> Object:
        place = {"namespace": space} if space else {}
        return {"name": name, **place, "uid": f"uid-{name}", "resourceVersion": "7", **more}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(scope="session")
def make_world() -> Callable[[Path], World]:
    """Make worlds where a fixture per test is too few: hypothesis runs a test many times."""
    return World
