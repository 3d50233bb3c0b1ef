"""MakeRoomForPending with the real scheduler: the pod that waited is bound, and all is at rest."""

import time

import pytest

from tests.support import manifests
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.limits import UNLIMITED
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

QUIET_S = 10.0
SETTINGS = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 200ms, maxWait: 2s}\n"
) + UNLIMITED


def two_nodes_with_two_free_cpus(playground: E2ENamespace) -> None:
    """Fill two nodes of 8 CPUs with four pods of 1.5 each, as the scheduler spreads them."""
    playground.balance = {"MakeRoomForPending": {"wait": "1s"}}
    playground.settings = SETTINGS
    playground.add_nodes("n1", "n2")
    playground.deploy("web", 8, cpu="1500m")
    assert set(playground.pods_by_node().values()) == {4}
    playground.kubectl.run("apply", "-f", "deploy/room/rbac.yaml")


def create(playground: E2ENamespace, app: str, replicas: int, cpu: str, **spec: object) -> None:
    """Create a Deployment whose pods find no node."""
    ours = {"nodeSelector": {OWNER: playground.namespace}, **spec}
    made = manifests.deployment(playground.namespace, app, replicas, cpu=cpu, **ours)
    playground.kubectl.apply(made)


@pytest.mark.parametrize("preempts", [True, False], ids=["preempts", "never preempts"])
def test_a_pod_of_three_cpus_is_bound_where_each_node_had_two_free(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    *,
    preempts: bool,
) -> None:
    two_nodes_with_two_free_cpus(playground)
    patient = {} if preempts else {"priorityClassName": playground.add_patient_class()}
    create(playground, "big", 1, "3", **patient)

    with run_controller():
        playground.await_healthy("big", 1)
        playground.await_healthy("web", 8)
        moved = [each.pod for each in referee.evicted()]
        time.sleep(QUIET_S)

    assert len(moved) == 1
    assert moved[0].startswith("web")
    assert len(referee.evicted()) == 1, "a second look moves something"


def test_where_there_is_room_for_one_of_two_pods_that_wait_one_move_makes_it(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """Two pods of 3.5 CPUs wait, and there is room for one."""
    two_nodes_with_two_free_cpus(playground)
    create(playground, "big", 1, "3500m", priorityClassName=playground.add_patient_class())
    create(playground, "other", 1, "3500m", priorityClassName=f"{playground.namespace}-patient")

    def is_bound(app: str) -> bool:
        return any(each.node for each in playground.pods(app).values())

    with run_controller():
        wait_until(lambda: is_bound("big") != is_bound("other"), within_s=60, what="one is bound")
        playground.await_healthy("web", 8)
        time.sleep(QUIET_S)

    assert len(referee.evicted()) == 1


def test_a_gang_gets_room_on_two_nodes_by_one_set_of_moves(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """Each of three nodes has 2 CPUs free, and each of two pods needs 3."""
    playground.balance = {"MakeRoomForPending": {"wait": "1s"}}
    playground.settings = SETTINGS
    playground.add_nodes("n1", "n2", "n3")
    playground.deploy("web", 18, cpu="1")
    playground.kubectl.run("apply", "-f", "deploy/room/rbac.yaml")
    gang = manifests.deployment(
        playground.namespace,
        "train",
        2,
        cpu="3",
        nodeSelector={OWNER: playground.namespace},
        priorityClassName=playground.add_patient_class(),
    )
    gang["spec"]["template"]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "train"
    playground.kubectl.apply(gang)

    with run_controller():
        members = playground.await_healthy("train", 2)
        playground.await_healthy("web", 18)
        time.sleep(QUIET_S)

    assert len({each.node for each in members.values()}) == 2
    moved = [each.pod for each in referee.evicted()]
    assert [name.startswith("web") for name in moved] == [True, True]


def test_a_pod_of_a_second_node_moves_first_and_makes_the_place_for_one_of_the_first(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """`big` fits on n1 without `a`, that on n2 alone, without `m`, and that one on n3."""
    playground.balance = {"MakeRoomForPending": {"wait": "1s"}}
    playground.settings = SETTINGS
    ours = {OWNER: playground.namespace}
    playground.add_nodes("n2", side="a")
    playground.deploy("fill2", 1, cpu="5", nodeSelector={**ours, "side": "a"})
    playground.deploy("m", 1, cpu="2")
    playground.add_nodes("n1", side="a", first="yes")
    playground.deploy("fill1", 1, cpu="3", nodeSelector={**ours, "first": "yes"})
    playground.deploy("a", 1, cpu="2", nodeSelector={**ours, "side": "a"})
    playground.add_nodes("n3", third="yes")
    playground.deploy("fill3", 1, cpu="5", nodeSelector={**ours, "third": "yes"})
    playground.kubectl.run("apply", "-f", "deploy/room/rbac.yaml")
    create(playground, "big", 1, "4")

    with run_controller():
        playground.await_healthy("big", 1)
        (a,) = playground.await_healthy("a", 1, off="n1").values()
        (m,) = playground.await_healthy("m", 1, off="n2").values()
        time.sleep(QUIET_S)

    assert [each.pod.split("-")[0] for each in referee.evicted()] == ["m", "a"]
    assert (a.node, m.node) == (playground.node("n2"), playground.node("n3"))
