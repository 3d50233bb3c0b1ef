"""The quick kubectl of tests shows and makes what kubectl itself shows and makes."""

import json
from functools import partial

import pytest

from tests.support import manifests
from tests.support.control_plane import wait_until
from tests.support.kubectl import Kubectl, KubectlError
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real


@pytest.fixture
def kubectl(playground: E2ENamespace) -> Kubectl:
    quick = playground.kubectl
    return Kubectl(quick.binary, quick.kubeconfig, quick.cache)


def test_it_shows_what_kubectl_shows(playground: E2ENamespace, kubectl: Kubectl) -> None:
    playground.add_nodes("n1")
    pod = next(iter(playground.deploy("web", 2).values())).name
    here = ("-n", playground.namespace)

    def show_the_same(*look: str) -> bool:
        return playground.kubectl.get(*look) == kubectl.get(*look)

    for look in (
        ("pods", *here),
        ("pods", *here, "-l", "app=web"),
        ("pod", *here, pod),
        ("pod", pod, *here),
        ("pods", *here, "--field-selector", f"metadata.name={pod}"),
        ("pods", "-A", "-l", "app=other"),
        ("deployments", *here),
        ("pdb", *here),
        ("nodes", "-l", f"{OWNER}={playground.namespace}"),
        ("namespace", playground.namespace),
        ("configmap", "kube-root-ca.crt", *here, "--show-managed-fields"),
        ("deployment,replicaset", *here),
    ):
        wait_until(  # a kubelet may report in between
            partial(show_the_same, *look),
            within_s=60,
            what=f"both show the same of {look}",
        )
    with pytest.raises(KubectlError, match="NotFound"):
        playground.kubectl.get("pod", *here, "nobody")


def test_what_it_creates_kubectl_changes_without_a_warning(
    playground: E2ENamespace, kubectl: Kubectl
) -> None:
    made = manifests.pod_disruption_budget(playground.namespace, "web", 1, "web")
    playground.kubectl.apply(made)
    changed = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    _, warned = kubectl.run_loud("apply", "-f", "-", stdin=json.dumps(changed))
    assert warned == ""

    playground.kubectl.apply(made)

    [found] = kubectl.get("pdb", "-n", playground.namespace)
    assert "labels" not in found["metadata"], "what is not there any more was applied, too"
    wrong = manifests.pod_disruption_budget(playground.namespace, "web", 1, "wrong")
    wrong["spec"]["nonsense"] = 1
    with pytest.raises(KubectlError, match="unknown field"):
        playground.kubectl.apply(wrong)
