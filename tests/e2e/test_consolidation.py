"""ConsolidateNodes with the real scheduler: nodes are empty after it, and it comes to rest."""

import time

import pytest

from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.limits import UNLIMITED
from tests.support.playground import OWNER, E2ENamespace

pytestmark = [pytest.mark.real, pytest.mark.timeout(500)]

NODES = tuple(f"n{number}" for number in range(1, 7))
APPS = ("web", "small", "large")
QUIET_S = 15.0
KEY = "reactive-desched/consolidating"
SETTINGS = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 200ms, maxWait: 2s, perPlugin: {ConsolidateNodes: {quiet: 500ms, "
    "maxWait: 2s}}}\n"
) + UNLIMITED


def used(playground: E2ENamespace, app: str) -> set[str | None]:
    return {each.node for each in playground.pods(app).values()}


def taints(playground: E2ENamespace, *names: str) -> dict[str, str]:
    """Return the value of our taint by node."""
    there = playground.kubectl.get("nodes", "-l", f"{OWNER}={playground.namespace}")
    by_name = {node["metadata"]["name"]: node["spec"].get("taints", ()) for node in there}
    return {
        name: each["value"]
        for name in names
        for each in by_name[playground.node(name)]
        if each["key"] == KEY
    }


def test_pods_spread_over_six_nodes_end_on_as_few_as_hold_them_and_stay_there(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """Ten pods of 500m need one node of 8 CPUs; the scheduler spreads them by default.

    All nodes that are emptied are closed before the first pod leaves, so no replacement has to move
    again. The scheduler watches nodes and pods apart: one may come where it saw no taint yet.
    """
    playground.balance = {"ConsolidateNodes": {}}
    playground.settings = SETTINGS
    playground.add_nodes(*NODES)
    before = playground.deploy("web", 10, cpu="500m")
    assert len(used(playground, "web")) > 1
    playground.kubectl.run("apply", "-f", "deploy/drain/rbac.yaml")

    with run_controller():
        wait_until(
            lambda: len(used(playground, "web")) == 1 and len(taints(playground, *NODES)) == 5,
            within_s=400,
            what="five of six nodes are empty",
        )
        moved = len(referee.evicted())
        time.sleep(QUIET_S)
        assert len(referee.evicted()) == moved, "a second look moves something"

    playground.await_healthy("web", 10)
    assert set(taints(playground, *NODES).values()) == {"empty"}
    again = [each.pod for each in referee.evicted() if str(each.uid) not in before]
    assert len(again) <= 1, f"these moved more than once: {again}"


def test_of_two_hundred_nodes_those_that_are_used_little_are_emptied_by_one_move_each(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """190 nodes have 1.5 CPUs left of 8, and ten have a pod of half a CPU each."""
    playground.balance = {"ConsolidateNodes": {}}
    playground.settings = SETTINGS
    names = [f"n{number}" for number in range(1, 201)]
    little = [playground.node(name) for name in names[:10]]
    playground.add_nodes(*names[:10])
    playground.deploy("small", 10, cpu="500m")
    playground.kubectl.run("cordon", *little)
    playground.add_nodes(*names[10:])
    playground.deploy("full", 190, cpu="6500m")
    playground.kubectl.run("uncordon", *little)
    playground.kubectl.run("apply", "-f", "deploy/drain/rbac.yaml")

    def used_now() -> int:
        return len(used(playground, "full") | used(playground, "small"))

    assert used_now() == len(names)
    with run_controller():
        wait_until(
            lambda: list(taints(playground, *names).values()) == ["empty"] * 10,
            within_s=400,
            what="ten nodes are empty",
        )
        moved = [each.pod for each in referee.evicted()]
        time.sleep(QUIET_S)
        assert len(referee.evicted()) == len(moved), "a second look moves something"

    assert len(moved) == 10
    assert used_now() == 190
    playground.await_healthy("full", 190)
    playground.await_healthy("small", 10)


def test_a_pod_that_a_budget_keeps_keeps_all_pods_of_its_node(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.balance = {"ConsolidateNodes": {}}
    playground.settings = SETTINGS
    playground.add_nodes("n1")
    playground.deploy("web", 2)
    playground.deploy("kept", 1)
    playground.create_pdb("kept", 0)
    playground.add_nodes("n2")
    playground.deploy("other", 3)
    playground.kubectl.run("apply", "-f", "deploy/drain/rbac.yaml")
    where = used(playground, "kept")

    with run_controller():
        wait_until(
            lambda: used(playground, "other") == where, within_s=60, what="the other node is empty"
        )
        time.sleep(5)

    assert used(playground, "web") | used(playground, "kept") == where
    assert all(each.pod.startswith("other") for each in referee.evicted())


def test_a_set_of_an_earlier_process_goes_on_and_without_the_plugin_no_taint_is_left(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.balance = {"ConsolidateNodes": {"minNodes": [], "headroom": {"cpu": 60}}}
    playground.settings = SETTINGS
    playground.add_nodes("n1")
    before = playground.deploy("web", 3)
    playground.add_nodes("n2", "n3")
    playground.deploy("one", 1, nodeName=playground.node("n2"))
    playground.taint("n1", f"{KEY}=emptying:PreferNoSchedule")
    playground.kubectl.run("apply", "-f", "deploy/drain/rbac.yaml")

    with run_controller():
        wait_until(
            lambda: playground.node("n1") not in used(playground, "web"),
            within_s=60,
            what="the node that an earlier process began is empty",
        )
        wait_until(
            lambda: taints(playground, "n1") == {"n1": "empty"}, within_s=60, what="it is marked"
        )
    assert {str(each.uid) for each in referee.evicted()} >= before.keys()

    playground.balance = {}
    with run_controller():
        wait_until(
            lambda: not taints(playground, "n1", "n2", "n3"), within_s=60, what="no taint is left"
        )


def test_two_nodes_are_kept_free_small_pods_go_elsewhere_and_a_large_one_takes_a_whole_node(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """Six pods are spread over six nodes of 8 CPUs; then come small ones, and one of 7 CPUs."""
    playground.balance = {"KeepNodesFree": {"nodes": 2}}
    playground.settings = SETTINGS.replace("ConsolidateNodes", "KeepNodesFree")
    playground.add_nodes(*NODES)
    playground.deploy("web", 6, cpu="1")
    playground.kubectl.run("apply", "-f", "deploy/drain/rbac.yaml")

    def free() -> set[str]:
        empty = {name for name, value in taints(playground, *NODES).items() if value == "empty"}
        taken = {node for app in APPS for node in used(playground, app)}
        return {name for name in empty if playground.node(name) not in taken}

    with run_controller():
        wait_until(lambda: len(free()) == 2, within_s=200, what="two nodes are free")
        moved, kept = len(referee.evicted()), free()
        playground.deploy("small", 4, cpu="500m")
        time.sleep(QUIET_S)
        assert (len(referee.evicted()), free()) == (moved, kept), "it does not come to rest"
        playground.deploy("large", 1, cpu="7")
        [taken] = used(playground, "large")
        assert taken in {playground.node(name) for name in kept}, "no whole node was free"
        wait_until(lambda: len(free()) == 2, within_s=200, what="another node is emptied")

    playground.await_healthy("web", 6)
    playground.await_healthy("large", 1)
    assert {each.pod.partition("-")[0] for each in referee.evicted()} <= {"web", "small"}
