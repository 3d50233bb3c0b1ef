"""An operator made with controller-runtime sees the same of the real control plane and of `sim`."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.component import ChildProcess
from tests.support.control_plane import RealTools, wait_until
from tests.support.kubectl import Kubectl, KubectlError
from tests.support.manifests import node
from tests.support.simulated_cluster import simulated_cluster

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON
TEXT = {"type": "string"}
SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["plants"],
            "properties": {
                "plants": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9},
                "sort": {"type": "string", "default": "rose"},
            },
            "x-kubernetes-validations": [
                {"rule": "self.sort == oldSelf.sort", "message": "a garden keeps its sort"}
            ],
        },
        "status": {
            "type": "object",
            "properties": {
                "growing": {"type": "integer", "format": "int32"},
                "observedGeneration": {"type": "integer", "format": "int64"},
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {
                        "type": "object",
                        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
                        "properties": {
                            "type": TEXT,
                            "status": TEXT,
                            "reason": TEXT,
                            "message": TEXT,
                            "lastTransitionTime": {"type": "string", "format": "date-time"},
                            "observedGeneration": {"type": "integer", "format": "int64"},
                        },
                    },
                },
            },
        },
    },
}
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gardens.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gardens", "kind": "Garden"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}


@pytest.fixture(params=["real", "simulated"])
def kubectl(
    real_tools: RealTools, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Kubectl]:
    """kubectl on either, with a node on which pods run."""
    if request.param == "simulated":
        with simulated_cluster(real_tools, tmp_path, "--nodes", "1", "--pods", "0") as kubectl:
            yield kubectl
        return
    kubectl = request.getfixturevalue("control_plane").kubectl()
    kubectl.apply(node("garden"))
    yield kubectl
    kubectl.run("delete", "node", "garden")


@pytest.fixture
def running(operator: Path, kubectl: Kubectl, tmp_path: Path) -> Iterator[ChildProcess]:
    """The operator, with its kind defined."""
    kubectl.apply(DEFINITION)
    kubectl.run("wait", "--for=condition=Established", "crd/gardens.example.com", "--timeout=60s")
    argv = (str(operator), "--kubeconfig", str(kubectl.kubeconfig))
    process = ChildProcess("operator", argv, tmp_path / "operator.log")
    try:
        with process.running():
            yield process
    finally:
        kubectl.run("delete", "crd", "gardens.example.com", "--timeout=60s")


def garden(**spec: Any) -> Object:
    head = {"apiVersion": "example.com/v1", "kind": "Garden"}
    return {**head, "metadata": {"name": "park"}, "spec": spec}


def test_an_operator_does_its_work(kubectl: Kubectl, running: ChildProcess) -> None:
    namespace = f"garden-{secrets.token_hex(5)}"
    kubectl.run("create", "namespace", namespace)
    where = ("-n", namespace)
    apply = ("apply", *where, "-f", "-")

    def send(**spec: Any) -> None:
        kubectl.run(*apply, stdin=json.dumps(garden(**spec)))

    def is_grown(plants: int, generation: int) -> bool:
        (found,) = kubectl.get("garden", "park", *where)
        status = found.get("status") or {}
        ready = [each["status"] for each in status.get("conditions") or ()]
        seen = (status.get("growing"), status.get("observedGeneration"), ready)
        return seen == (plants, generation, ["True"])

    with pytest.raises(KubectlError, match="less than or equal to 9"):
        send(plants=10)
    send(plants=2)
    wait_until(lambda: is_grown(2, 1), within_s=90, what="it has grown")
    (found,) = kubectl.get("garden", "park", *where)
    assert found["spec"]["sort"] == "rose"
    assert found["metadata"]["finalizers"] == ["example.com/farewell"]
    (label,) = kubectl.get("configmap", "park-label", *where, "--show-managed-fields")
    owners = [(it["manager"], it["operation"]) for it in label["metadata"]["managedFields"]]
    assert (label["data"], owners) == ({"sort": "rose"}, [("gardener", "Apply")])

    with pytest.raises(KubectlError, match="a garden keeps its sort"):
        send(plants=2, sort="tulip")
    send(plants=3)
    wait_until(lambda: is_grown(3, 2), within_s=60, what="it has grown again")
    (before,) = kubectl.get("deployment", "park", *where)
    kubectl.run("delete", "deployment", "park", *where)
    wait_until(lambda: is_grown(3, 2), within_s=60, what="it is planted again")
    (after,) = kubectl.get("deployment", "park", *where)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    events = [each["reason"] for each in kubectl.get("events", *where)]
    assert "Planted" in events
    (lease,) = kubectl.get("lease", "gardener.example.com", "-n", "kube-system")
    assert lease["spec"]["holderIdentity"]

    kubectl.run("delete", "garden", "park", *where, "--timeout=60s")
    assert kubectl.get("configmap", "park-farewell", *where)
    wait_until(
        lambda: not kubectl.get("deployments", *where), within_s=60, what="the Deployment goes too"
    )
    assert running.alive
    kubectl.run("delete", "namespace", namespace, "--wait=false")
