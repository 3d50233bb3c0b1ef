"""Programs that were written for real clusters run on the simulator unchanged."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.component import ChildProcess
from tests.support.control_plane import RealTools, wait_until
from tests.support.custom_resources import definition
from tests.support.golden import verbatim
from tests.support.helm import Helm, HelmError
from tests.support.kubectl import Kubectl, KubectlError
from tests.support.simulated_cluster import simulated_cluster

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON


@pytest.fixture(scope="module")
def kubectl(real_tools: RealTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl on a simulated cluster of twelve nodes in which much is wrong."""
    size = ("--scenario", "messy", "--nodes", "12", "--pods", "120")
    with simulated_cluster(real_tools, tmp_path_factory.mktemp("strangers"), *size) as kubectl:
        yield kubectl


# --- the SIG descheduler ---

ARGS: dict[str, Object] = {
    "DefaultEvictor": {"nodeFit": True},
    "RemoveFailedPods": {"minPodLifetimeSeconds": 1},
    "RemovePodsHavingTooManyRestarts": {
        "podRestartThreshold": 100,
        "includingInitContainers": True,
    },
    "PodLifeTime": {"maxPodLifeTimeSeconds": 604800},
    "RemovePodsViolatingNodeTaints": {},
    "RemovePodsViolatingNodeAffinity": {
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]
    },
    "RemoveDuplicates": {},
}
POLICY = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": "all",
            "pluginConfig": [{"name": name, "args": args} for name, args in ARGS.items()],
            "plugins": {
                "balance": {"enabled": ["RemoveDuplicates"]},
                "deschedule": {"enabled": [*ARGS][1:-1]},
            },
        }
    ],
}


def test_the_sig_descheduler_finds_the_mess_and_evicts(
    kubectl: Kubectl, sig_descheduler: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    flags = ("--policy-config-file", str(policy), "--secure-port", "0", "--v", "1")
    files = ("--kubeconfig", str(kubectl.kubeconfig))
    before = {pod["metadata"]["uid"] for pod in kubectl.get("pods", "-A")}

    done = subprocess.run(
        (sig_descheduler, *files, *flags), capture_output=True, text=True, check=False, timeout=100
    )

    assert done.returncode == 0, done.stderr[-3000:]
    evicted = re.findall(r'"Evicted pod" pod="([^"]+)".* strategy="(\w+)"', done.stderr)
    assert {strategy for _, strategy in evicted} == {*ARGS} - {"DefaultEvictor"}
    expected = ("pod's disruption budget", "context canceled")  # it ends with Events unwritten
    errors = [line for line in done.stderr.splitlines() if line.startswith("E")]
    assert [line for line in errors if not any(said in line for said in expected)] == []

    def gone() -> bool:
        left = {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in kubectl.get("pods", "-A")
            if pod["metadata"]["uid"] in before
        }
        return not left & {pod for pod, _ in evicted}

    wait_until(gone, within_s=60, what="the evicted pods are gone")


def test_the_sig_descheduler_elects_a_leader_and_goes_on(
    kubectl: Kubectl, sig_descheduler: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    argv = (
        str(sig_descheduler),
        *("--kubeconfig", str(kubectl.kubeconfig), "--policy-config-file", str(policy)),
        *("--secure-port", "0", "--v", "1", "--leader-elect=true"),
        *("--descheduling-interval", "1s"),
    )
    process = ChildProcess("descheduler", argv, tmp_path / "descheduler.log")
    process.start()
    try:
        rounds = "Number of evictions/requests"
        wait_until(lambda: process.tail(500).count(rounds) > 1, within_s=90, what="two rounds")
        (lease,) = kubectl.get("lease", "descheduler", "-n", "kube-system")
        assert lease["spec"]["holderIdentity"]
    finally:
        process.kill()


# --- Helm ---


@pytest.fixture
def chart(helm: Helm, tmp_path: Path) -> Path:
    """The chart that `helm create` makes."""
    helm.run("create", str(tmp_path / "shop"))
    return tmp_path / "shop"


def test_a_release_is_installed_upgraded_rolled_back_and_uninstalled(
    kubectl: Kubectl, helm: Helm, chart: Path
) -> None:
    where = ("--kubeconfig", str(kubectl.kubeconfig), "-n", "shop-of-helm")
    wait = ("--wait", "--timeout", "60s")

    def replicas() -> int:
        (web,) = kubectl.get("deployment", "shop", "-n", "shop-of-helm")
        found: int = web["status"]["readyReplicas"]
        return found

    assert "STATUS: deployed" in helm.run(
        "install", "shop", str(chart), *where, *wait, "--create-namespace"
    )
    assert replicas() == 1
    helm.run("upgrade", "shop", str(chart), *where, *wait, "--set", "replicaCount=3")
    assert replicas() == 3
    helm.run("rollback", "shop", "1", *where, *wait)
    assert replicas() == 1

    kubectl.run("scale", "deployment/shop", "--replicas=2", "-n", "shop-of-helm")
    upgrade = ("upgrade", "shop", str(chart), *where, *wait, "--set", "replicaCount=4")
    said = verbatim('conflict with "kubectl" with subresource "scale" using apps/v1')
    with pytest.raises(HelmError, match=re.escape(said)):
        helm.run(*upgrade)
    helm.run(*upgrade, "--force-conflicts")
    assert replicas() == 4

    helm.run("uninstall", "shop", *where, *wait)
    assert kubectl.get("deployments", "-n", "shop-of-helm") == []


# --- kubectl ---


def config_map(name: str, **data: str) -> str:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return json.dumps(made)


def test_kubectl_applies_on_the_server_what_it_applied_as_a_client(kubectl: Kubectl) -> None:
    by_server = ("apply", "--server-side", "-f", "-")
    kubectl.run("apply", "-f", "-", stdin=config_map("mine", a="1", b="1"))
    kubectl.run(*by_server, stdin=config_map("mine", a="2"))  # it takes over what it applied
    (found,) = kubectl.get("configmap", "mine", "--show-managed-fields")
    assert found["data"] == {"a": "2"}
    owners = {(each["manager"], each["operation"]) for each in found["metadata"]["managedFields"]}
    assert owners == {("kubectl", "Apply"), ("kubectl-last-applied", "Apply")}

    other = (*by_server, "--field-manager=other")
    with pytest.raises(KubectlError, match=re.escape('conflict with "kubectl": .data.a')):
        kubectl.run(*other, stdin=config_map("mine", a="3"))
    with pytest.raises(KubectlError):  # status 1: there is a difference
        kubectl.run("diff", "--server-side", "-f", "-", stdin=config_map("mine", a="3"))
    kubectl.run("diff", "--server-side", "-f", "-", stdin=config_map("mine", a="2"))


def test_kubectl_defines_a_kind_and_uses_it(kubectl: Kubectl) -> None:
    kubectl.apply(definition())
    kubectl.run("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=60s")
    made = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    kubectl.apply({**made, "spec": {}})
    status = ("--subresource=status", "--type=merge", "-p", '{"status":{"phase":"ok"}}')
    kubectl.run("patch", "wd", "w", *status)
    kubectl.run("wait", "--for=jsonpath={.status.phase}=ok", "widget/w", "--timeout=60s")
    (found,) = kubectl.get("widgets.v1beta1.example.com")
    assert (found["apiVersion"], found["spec"]["size"]) == ("example.com/v1beta1", 3)
    assert "w" in kubectl.run("get", "widgets", "--no-headers").split()

    kubectl.run("delete", "crd", "widgets.example.com")
    with pytest.raises(KubectlError, match=r"NotFound|a resource type"):
        kubectl.run("get", "widgets")


def stateful_set(name: str, image: str) -> Object:
    labels = {"app": name}
    container = {"name": "main", "image": image}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_kubectl_rolls_out_and_back(kubectl: Kubectl) -> None:
    kubectl.apply(stateful_set("kept", "a:1"))
    status = ("rollout", "status", "statefulset/kept", "--timeout=60s")
    kubectl.run(*status)
    kubectl.run("set", "image", "statefulset/kept", "main=a:2")
    kubectl.run(*status)
    listed = kubectl.run("rollout", "history", "statefulset/kept").split()
    assert [word for word in listed if word.isdecimal()] == ["1", "2"]
    assert "a:1" in kubectl.run("rollout", "history", "statefulset/kept", "--revision=1")

    kubectl.run("rollout", "undo", "statefulset/kept")
    kubectl.run(*status)

    images = {
        pod["spec"]["containers"][0]["image"] for pod in kubectl.get("pods", "-l", "app=kept")
    }
    assert images == {"a:1"}
    assert "StatefulSet/kept" not in kubectl.run("get", "controllerrevisions")
    kubectl.run("delete", "statefulset", "kept")


def test_kubectl_refuses_explains_and_prints_by_a_schema(kubectl: Kubectl) -> None:
    wanted = definition("trees")
    for version in wanted["spec"]["versions"]:
        version["subresources"]["scale"] = {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.size",
        }
        column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
        version["additionalPrinterColumns"] = [column]
    wanted["spec"]["names"] = {"plural": "trees", "kind": "Tree"}
    kubectl.apply(wanted)
    kubectl.run("wait", "--for=condition=Established", "crd/trees.example.com", "--timeout=60s")
    made = {"apiVersion": "example.com/v1", "kind": "Tree", "metadata": {"name": "t"}}
    with pytest.raises(KubectlError, match=verbatim("spec.size in body must be of type integer")):
        kubectl.apply({**made, "spec": {"size": "large"}})
    with pytest.raises(KubectlError, match=verbatim('unknown field "spec.lost"')):
        kubectl.apply({**made, "spec": {"lost": 1}})

    kubectl.apply({**made, "spec": {"size": 3}})
    kubectl.run("scale", "tree/t", "--replicas=5")

    assert kubectl.run("get", "trees", "--no-headers").split() == ["t", "5"]
    assert "size" in kubectl.run("explain", "trees.spec")
    kubectl.run("delete", "crd", "trees.example.com")
