"""Conditions of the node-problem-detector and others on a real control plane, by status patches."""

import json
import time
from collections.abc import Callable

import pytest

from tests.support import manifests
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.limits import UNLIMITED
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

FOR_S = 4.0
LONG_S = 12.0
"""So long a condition has to stand that is to end before, even if the machine stands still."""
QUIET_S = 8.0
PLUGIN = "RemovePodsViolatingNodeConditions"
DEADLOCK = {"type": "KernelDeadlock", "for": f"{FOR_S:.0f}s", "lapse": "1s"}
GPU = {"type": "GpuHealthy", "status": "False", "for": f"{FOR_S:.0f}s", "lapse": "1s"}
SETTINGS = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 200ms, maxWait: 2s}\n"
) + UNLIMITED
STANDS_LONG = {**DEADLOCK, "for": f"{LONG_S:.0f}s"}


def by_rule(condition: dict[str, str]) -> str:
    """Return settings by which nodes of which this holds are drained."""
    return SETTINGS + f"drains: [{{name: sick, conditions: [{json.dumps(condition)}]}}]\n"


def report(playground: E2ENamespace, name: str, kind: str, status: str) -> None:
    """Report a condition of one of our nodes, as an agent does: the others stay."""
    condition = {"type": kind, "status": status, "reason": "Reported", "message": "by a test"}
    patch = json.dumps({"status": {"conditions": [condition]}})
    playground.kubectl.run(
        "patch", "node", playground.node(name), "--subresource=status", "-p", patch
    )


def for_each_second(seconds: float, do: Callable[[], None]) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        do()
        time.sleep(1)


def on_all_nodes(playground: E2ENamespace, app: str) -> None:
    """Create a DaemonSet whose pods tolerate nothing but what its controller adds."""
    made = manifests.deployment(
        playground.namespace, app, 1, nodeSelector={OWNER: playground.namespace}
    )
    del made["spec"]["replicas"]
    playground.kubectl.apply({**made, "kind": "DaemonSet"})
    wait_until(
        lambda: len(playground.pods(app)) == 2, within_s=60, what="the DaemonSet has its pods"
    )


def test_pods_leave_a_closed_node_once_its_condition_has_stood(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """Pods of DaemonSets and critical ones stay; an open node is left alone, a sick one closed."""
    playground.plugins = {PLUGIN: {"conditions": [DEADLOCK, GPU]}}
    playground.settings = SETTINGS
    playground.add_nodes("n1", sick="yes")
    playground.deploy("vital", 1, priorityClassName="system-node-critical")
    playground.deploy("web", 2)
    playground.add_nodes("n2")
    on_all_nodes(playground, "agent")

    with run_controller():
        report(playground, "n1", "KernelDeadlock", "True")
        time.sleep(QUIET_S)
        assert referee.evicted() == []
        playground.cordon("n1")
        playground.await_healthy("web", 2, off="n1")
        time.sleep(QUIET_S)
        assert {each.pod.split("-")[0] for each in referee.evicted()} == {"web"}
        assert playground.apps_on("n1") == {"agent", "vital"}

        playground.cordon("n2")
        playground.kubectl.run("uncordon", playground.node("n1"))
        report(playground, "n2", "GpuHealthy", "False")
        report(playground, "n1", "KernelDeadlock", "False")
        playground.await_healthy("web", 2, off="n2")

    assert len(referee.evicted()) == 4


def test_a_condition_that_ends_in_time_or_flips_moves_nothing(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.plugins = {PLUGIN: {"conditions": [STANDS_LONG]}}
    playground.settings = SETTINGS
    playground.add_nodes("n1")
    playground.deploy("web", 2)
    playground.add_nodes("n2")
    playground.cordon("n1")

    with run_controller():
        report(playground, "n1", "KernelDeadlock", "True")
        time.sleep(LONG_S / 4)
        report(playground, "n1", "KernelDeadlock", "False")
        time.sleep(LONG_S)
        status = ["True"]

        def flip() -> None:
            report(playground, "n1", "KernelDeadlock", status[0])
            status[0] = "True" if status[0] == "False" else "False"
            time.sleep(1)

        for_each_second(2 * LONG_S + 4, flip)  # it stands for longer in all
        assert referee.evicted() == []
        report(playground, "n1", "KernelDeadlock", "True")
        playground.await_healthy("web", 2, off="n1")


def test_a_rule_closes_one_sick_node_and_the_next_once_that_one_is_given_back(
    playground: E2ENamespace, run_controller: RunController
) -> None:
    """A node that recovers stays closed until a person uncordons it."""
    playground.kubectl.run("apply", "-f", "deploy/drain/rbac.yaml")
    playground.plugins = {"DrainNodes": {}}
    playground.settings = by_rule(DEADLOCK)
    names = ("n1", "n2", "n3", "n4", "n5", "n6")
    playground.add_nodes(*names)
    playground.deploy("web", 12)

    def is_cordoned(name: str) -> bool:
        (node,) = playground.kubectl.get("node", playground.node(name))
        return bool(node["spec"].get("unschedulable"))

    with run_controller():
        report(playground, "n1", "KernelDeadlock", "True")
        wait_until(lambda: is_cordoned("n1"), within_s=60, what="n1 is cordoned")
        playground.await_healthy("web", 12, off="n1")
        report(playground, "n2", "KernelDeadlock", "True")
        report(playground, "n1", "KernelDeadlock", "False")
        time.sleep(2 * QUIET_S)
        assert [is_cordoned(name) for name in ("n1", "n2")] == [True, False]
        playground.kubectl.run("uncordon", playground.node("n1"))
        wait_until(lambda: is_cordoned("n2"), within_s=60, what="n2 is cordoned")
        playground.await_healthy("web", 12, off="n2")
        assert not is_cordoned("n1")


def test_where_most_nodes_of_a_zone_are_sick_at_once_no_rule_closes_one(
    playground: E2ENamespace, run_controller: RunController
) -> None:
    """A check that misfires everywhere closes nothing, and moves nothing."""
    playground.kubectl.run("apply", "-f", "deploy/drain/rbac.yaml")
    playground.plugins = {"DrainNodes": {}}
    playground.settings = by_rule(STANDS_LONG)
    zone = {"topology.kubernetes.io/zone": f"{playground.namespace}-z"}
    names = ("n1", "n2", "n3", "n4")
    playground.add_nodes(*names, **zone)
    playground.deploy("web", 4)
    before = set(playground.pods("web"))

    with run_controller() as controller:
        for name in names:
            report(playground, name, "KernelDeadlock", "True")
        time.sleep(3 * QUIET_S)
        assert set(playground.pods("web")) == before
        nodes = playground.kubectl.get("node", "-l", f"{OWNER}={playground.namespace}")
        assert not any(node["spec"].get("unschedulable") for node in nodes)
        text = controller.page("/readyz?verbose")
        assert "KernelDeadlock" in text
        for name in names[1:]:
            report(playground, name, "KernelDeadlock", "False")
        playground.await_healthy("web", 4, off="n1")
