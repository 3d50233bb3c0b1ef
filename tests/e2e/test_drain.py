"""`drain` on a real control plane: a blocked budget is named, and at the end all is empty."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
from reactive_desched.kube.client.nodes import mark_drained, request_drain, write_taint
from reactive_desched.kube.client.session import open_session
from reactive_desched.model.objects import Node
from reactive_desched.model.taints import Taint
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.controller_process import ControllerProcess, RunController
from tests.support.limits import UNLIMITED
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
NODES = ("n1", "n2", "n3")
SETTINGS = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 200ms, maxWait: 2s}\n"
) + UNLIMITED


def drain(
    control_plane: ControlPlane, controller: ControllerProcess, *words: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command as an administrator, who may write to nodes."""
    command = (sys.executable, "-m", "reactive_desched", "drain", *words)
    where = ("--kubeconfig", str(control_plane.admin_kubeconfig), "--server", controller.url)
    return subprocess.run((*command, *where), capture_output=True, text=True, check=False)


def annotation(playground: E2ENamespace, node: str) -> str:
    path = r"jsonpath={.metadata.annotations.reactive-desched/drained}"
    return playground.kubectl.run("get", "node", playground.node(node), "-o", path)


def test_three_nodes_with_a_blocked_budget_are_drained_once_it_allows(
    control_plane: ControlPlane, playground: E2ENamespace, run_controller: RunController
) -> None:
    playground.kubectl.run("apply", "-f", str(ROOT / "deploy" / "drain" / "rbac.yaml"))
    playground.plugins = {"DrainNodes": {}}
    playground.settings = SETTINGS
    playground.add_nodes(*NODES)
    playground.deploy("free", 3)
    playground.deploy("web", 3)
    playground.create_pdb("web", 0)
    playground.add_nodes("n4", "n5")
    names = tuple(map(playground.node, NODES))

    with run_controller() as controller:
        first = drain(control_plane, controller, *names, "--wait", "--timeout", "15s")
        assert first.returncode == 3, first.stderr
        assert "PodDisruptionBudget" in first.stdout
        assert first.stdout.count(f"{playground.namespace}/web-") == 3
        playground.await_healthy("free", 3, off="n1")
        playground.delete_pdb("web")

        last = drain(control_plane, controller, *names, "--wait", "--timeout", "100s")
        assert last.returncode == 0, last.stdout + last.stderr
        wait_until(
            lambda: all(annotation(playground, node) for node in NODES),
            within_s=60,
            what="each node is marked as drained",
        )
        assert drain(control_plane, controller, "--show", *names).returncode == 0
        assert drain(control_plane, controller, "--stop", *names).returncode == 0

    for app in ("free", "web"):
        where = {each.node for each in playground.pods(app).values()}
        assert where <= {playground.node("n4"), playground.node("n5")}
    assert not any(annotation(playground, node) for node in NODES)


def test_another_node_of_the_name_is_not_written(
    control_plane: ControlPlane, playground: E2ENamespace
) -> None:
    playground.add_nodes("n1")
    name = playground.node("n1")
    (found,) = playground.kubectl.get("node", name)
    taint = Taint("reactive-desched/test", "PreferNoSchedule")

    async def write(uid: str) -> None:
        node = Node(name, uid=uid)
        async with open_session(KubeConfigOptions(str(control_plane.admin_kubeconfig))) as session:
            await write_taint(session, node, taint.key, taint)
            await request_drain(session, node, "ann")
            await mark_drained(session, node, "now")

    with pytest.raises(RequestRejected) as refused:
        anyio.run(write, "11111111-2222-3333-4444-555555555555")
    assert refused.value.is_gone
    (after,) = playground.kubectl.get("node", name)
    assert "unschedulable" not in after["spec"]
    assert all(each["key"] != taint.key for each in after["spec"].get("taints", ()))

    anyio.run(write, found["metadata"]["uid"])
    (after,) = playground.kubectl.get("node", name)
    assert after["spec"]["unschedulable"]
    assert any(each["key"] == taint.key for each in after["spec"]["taints"])
