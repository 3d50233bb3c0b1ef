"""A real API server accepts what deploy/ would install."""

import json
from pathlib import Path

import pytest

from reactive_desched.testing.control_plane import ControlPlane
from reactive_desched.testing.kubectl import Kubectl, KubectlError, Object

pytestmark = pytest.mark.real

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
BASE, DRY_RUN = DEPLOY / "base", DEPLOY / "overlays" / "dry-run"


@pytest.fixture
def kubectl(control_plane: ControlPlane, kubeconfig: Path) -> Kubectl:
    # Asking for the kubeconfig creates the namespace and the ServiceAccount, which server-side
    # dry runs of namespaced objects and of pods need.
    return control_plane.kubectl()


def pod_of_the_deployment(kubectl: Kubectl, folder: Path) -> Object:
    """Return the pod that the Deployment would create, ready to be sent by itself."""
    answer = kubectl.run("apply", "--dry-run=server", "-o", "json", "-k", str(folder))
    (found,) = (each for each in json.loads(answer)["items"] if each["kind"] == "Deployment")
    template: Object = found["spec"]["template"]
    meta = {**template["metadata"], "name": "admission", "namespace": "reactive-desched"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}


def admit(kubectl: Kubectl, pod: Object) -> str:
    """Let the server judge a pod without keeping it, and return what it warned of."""
    create = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    return kubectl.run_loud(*create, stdin=json.dumps(pod))[1]


@pytest.mark.parametrize("folder", [BASE, DRY_RUN], ids=["base", "dry-run overlay"])
def test_the_server_accepts_every_manifest_without_a_warning(
    kubectl: Kubectl, folder: Path
) -> None:
    apply = ("apply", "--dry-run=server", "--validate=strict", "-k", str(folder))
    told, warned = kubectl.run_loud(*apply)

    accepted = {line.split()[0] for line in told.splitlines()}
    assert accepted == {
        "namespace/reactive-desched",
        "serviceaccount/reactive-desched",
        "clusterrole.rbac.authorization.k8s.io/reactive-desched",
        "clusterrolebinding.rbac.authorization.k8s.io/reactive-desched",
        "configmap/reactive-desched",
        "persistentvolumeclaim/reactive-desched-journal",
        "deployment.apps/reactive-desched",
        "service/reactive-desched",
    }
    assert warned == ""


@pytest.mark.parametrize("folder", [BASE, DRY_RUN], ids=["base", "dry-run overlay"])
def test_the_restricted_pod_security_standard_admits_the_controllers_pods(
    kubectl: Kubectl, folder: Path
) -> None:
    assert admit(kubectl, pod_of_the_deployment(kubectl, folder)) == ""


def test_the_namespace_refuses_a_pod_that_may_become_root(kubectl: Kubectl) -> None:
    pod = pod_of_the_deployment(kubectl, BASE)
    pod["spec"]["securityContext"]["runAsNonRoot"] = False

    with pytest.raises(KubectlError, match=r"violates PodSecurity.*runAsNonRoot"):
        admit(kubectl, pod)
