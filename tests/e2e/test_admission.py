"""A real API server accepts what deploy/ would install."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from tests.support.control_plane import ControlPlane
from tests.support.kubectl import Kubectl, KubectlError, Object
from tests.support.kustomize import pod_template, render

pytestmark = pytest.mark.real

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FOLDERS = sorted(
    str(path.parent.relative_to(DEPLOY)) for path in DEPLOY.rglob("kustomization.yaml")
)
APPLIED = [folder for folder in FOLDERS if folder != "base"]
WITHOUT_PODS = "monitoring", "migration"
WORKLOADS = [folder for folder in APPLIED if not folder.startswith(WITHOUT_PODS)]


@pytest.fixture
def kubectl(control_plane: ControlPlane, kubeconfig: Path) -> Kubectl:
    # Asking for the kubeconfig creates the namespace and the ServiceAccount, which server-side
    # dry runs of namespaced objects and of pods need.
    return control_plane.kubectl()


def pod_of(kubectl: Kubectl, folder: str) -> Object:
    """Return the pod that the folder's workload would create, ready to be sent by itself."""
    answer = kubectl.run("apply", "--dry-run=server", "-o", "json", "-k", str(DEPLOY / folder))
    kinds = {"Deployment", "Job", "CronJob"}
    (found,) = (each for each in json.loads(answer)["items"] if each["kind"] in kinds)
    template = pod_template(found)
    labels = template["metadata"]["labels"]
    meta = {"name": "admission", "namespace": "reactive-desched", "labels": labels}
    # A dry run leaves neither the preview's account nor the example's class behind.
    spec = template["spec"] | {"serviceAccountName": "reactive-desched"}
    spec.pop("priorityClassName", None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def admit(kubectl: Kubectl, pod: Object) -> str:
    """Let the server judge a pod without keeping it, and return what it warned of."""
    create = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    return kubectl.run_loud(*create, stdin=json.dumps(pod))[1]


@pytest.mark.parametrize("folder", APPLIED)
def test_the_server_accepts_every_manifest_without_a_warning(kubectl: Kubectl, folder: str) -> None:
    apply = ("apply", "--dry-run=server", "--validate=strict", "-k", str(DEPLOY / folder))
    told, warned = kubectl.run_loud(*apply)

    accepted = {line.split()[0] for line in told.splitlines()}
    assert accepted == {said_of(each) for each in render(DEPLOY / folder)}
    assert warned == ""


def said_of(manifest: Object) -> str:
    """Return what kubectl calls an object."""
    group = manifest["apiVersion"].rpartition("/")[0]
    kind = ".".join(filter(None, (manifest["kind"].lower(), group)))
    return f"{kind}/{manifest['metadata']['name']}"


@pytest.mark.parametrize("folder", WORKLOADS)
def test_the_restricted_pod_security_standard_admits_our_pods(
    kubectl: Kubectl, folder: str
) -> None:
    assert admit(kubectl, pod_of(kubectl, folder)) == ""


def test_the_namespace_refuses_a_pod_that_may_become_root(kubectl: Kubectl) -> None:
    pod = pod_of(kubectl, "controller")
    pod["spec"]["securityContext"]["runAsNonRoot"] = False

    with pytest.raises(KubectlError, match=r"violates PodSecurity.*runAsNonRoot"):
        admit(kubectl, pod)


@pytest.mark.parametrize("folder", APPLIED)
def test_kubectl_renders_the_folders_as_the_unit_tests_do(kubectl: Kubectl, folder: str) -> None:
    told = kubectl.run("kustomize", str(DEPLOY / folder))
    theirs = list(yaml.safe_load_all(told))

    assert sorted(theirs, key=name) == sorted(render(DEPLOY / folder), key=name)


def name(manifest: dict[str, Any]) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]
