"""kubectl works on the simulated cluster as it does on a real one."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.component import ChildProcess
from tests.support.control_plane import RealTools, wait_until
from tests.support.kubectl import Kubectl

pytestmark = pytest.mark.real


@pytest.fixture
def kubectl(real_tools: RealTools, tmp_path: Path) -> Iterator[Kubectl]:
    """kubectl on a fresh simulated cluster of six nodes, all of whose pods are Ready."""
    config = tmp_path / "kubeconfig"
    size = ("--nodes", "6", "--pods", "80", "--write-kubeconfig", str(config))
    argv = (sys.executable, "-m", "reactive_desched", "sim", *size)
    simulator = ChildProcess("sim", argv, tmp_path / "sim.log")
    simulator.start()
    hands = Kubectl(real_tools.paths["kubectl"], config, tmp_path / "cache")
    try:
        wait_until(config.exists, within_s=60, what="the simulator's kubeconfig")
        wait_until(lambda: all_ready(hands), within_s=60, what="every pod to be Ready")
        yield hands
        assert simulator.stop() == 0
    finally:
        simulator.kill()


def all_ready(kubectl: Kubectl) -> bool:
    """Say whether there are pods and every one of them is Ready."""
    listed = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
    answers = kubectl.run("get", "pods", "-A", "-o", listed).split()
    return len(answers) > 1 and set(answers) == {"True"}


def on_node(kubectl: Kubectl, node: str) -> set[str]:
    """Return the workloads (label app) with a pod on a node."""
    listed = "jsonpath={.items[*].metadata.labels.app}"
    where = f"spec.nodeName={node}"
    return set(kubectl.run("get", "pods", "-A", "--field-selector", where, "-o", listed).split())


def test_a_drained_node_keeps_only_its_agents_and_gets_pods_again_when_uncordoned(
    kubectl: Kubectl,
) -> None:
    told = kubectl.run("drain", "node-4", "--ignore-daemonsets", "--timeout=90s")
    assert "node/node-4 drained" in told
    assert on_node(kubectl, "node-4") == {"log-shipper", "node-agent"}
    wait_until(lambda: all_ready(kubectl), within_s=60, what="the replacements to be Ready")

    kubectl.run("uncordon", "node-4")
    kubectl.run("scale", "deployment/web", "-n", "shop", "--replicas=12")
    kubectl.run("rollout", "status", "deployment/web", "-n", "shop", "--timeout=60s")

    assert "web" in on_node(kubectl, "node-4")


def test_a_rollout_and_its_undoing_come_to_an_end(kubectl: Kubectl) -> None:
    rollout = ("rollout", "status", "deployment/cart", "-n", "shop", "--timeout=60s")
    kubectl.run("set", "image", "deployment/cart", "cart=example/cart:2", "-n", "shop")
    kubectl.run(*rollout)
    kubectl.run("rollout", "undo", "deployment/cart", "-n", "shop")

    told = kubectl.run(*rollout)

    assert "successfully rolled out" in told
    (cart,) = kubectl.get("deployment", "cart", "-n", "shop")
    assert cart["spec"]["template"]["spec"]["containers"][0]["image"].endswith("/cart:1.0")


def test_a_deleted_namespace_is_waited_for_until_it_is_gone(kubectl: Kubectl) -> None:
    kubectl.run("delete", "namespace", "shop", "--timeout=60s")

    assert kubectl.get("pods", "-n", "shop") == []
    assert "shop" not in kubectl.run("get", "namespaces", "-o", "name")


def test_a_taint_empties_a_node_and_describe_says_so(
    kubectl: Kubectl,
) -> None:
    kubectl.run("taint", "node", "node-2", "gone=now:NoExecute")

    wait_until(lambda: not on_node(kubectl, "node-2"), within_s=60, what="every pod to leave")
    told = kubectl.run("describe", "node", "node-2")

    assert "gone=now:NoExecute" in told
    assert "Non-terminated Pods:          (0 in total)" in told
