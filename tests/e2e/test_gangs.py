"""Gangs on the real control plane: PodGroups of three APIs, and a job of eight amid all else."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import (
    GANG_APIS,
    GANG_FEATURES,
    ControlPlane,
    RealTools,
    wait_until,
)
from tests.support.controller_process import RunController
from tests.support.limits import ANY_MOVES, NO_BUDGETS
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON
ROOT = Path(__file__).parent.parent.parent
QUIET_S = 10.0
HEAD = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
HASTE = "debounce: {quiet: 200ms, maxWait: 2s}\n" + NO_BUDGETS + ANY_MOVES
YOUNG = "minPodAge: 0s, minReadyTime: 0s, standingTimes: {byTaint: {'*': 1s}, openNodes: 0s}"
KEEP = f"{HEAD}{HASTE}guards: {{{YOUNG}}}\n"
TOGETHER = f"{HEAD}{HASTE}guards: {{{YOUNG}, gangs: together}}\n"
COSCHEDULING, VOLCANO = "scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1"
VOLCANO_GROUP = "scheduling.k8s.io/group-name"


@pytest.fixture(scope="module")
def control_plane(
    real_tools: RealTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A cluster of this module's own, with the PodGroups of Kubernetes and of two others."""
    folder = tmp_path_factory.mktemp("gangs")
    with ControlPlane(real_tools, folder, GANG_FEATURES, GANG_APIS) as plane:
        for each in (COSCHEDULING, VOLCANO):
            definition = _definition(*each.split("/"))
            plane.kubectl().apply(definition)
            name = definition["metadata"]["name"]
            plane.kubectl().run("wait", "--for=condition=Established", f"crd/{name}")
        yield plane


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """The controller's credentials: those of deploy/, and the right to nominate."""
    for name in ("base/namespace.yaml", "base/rbac.yaml", "room/rbac.yaml"):
        control_plane.kubectl().run("apply", "-f", str(ROOT / "deploy" / name))
    return control_plane.service_account_kubeconfig("reactive-desched", "reactive-desched")


def _definition(group: str, version: str) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{group}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/pull/1"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def pod_group(playground: E2ENamespace, name: str, api: str, **spec: Any) -> None:
    playground.kubectl.apply(
        {
            "apiVersion": api,
            "kind": "PodGroup",
            "metadata": {"namespace": playground.namespace, "name": name},
            "spec": spec,
        }
    )


def own_group(playground: E2ENamespace, name: str, policy: Object, **more: Any) -> None:
    pod_group(playground, name, "scheduling.k8s.io/v1alpha2", schedulingPolicy=policy, **more)


def deploy(
    playground: E2ENamespace,
    app: str,
    replicas: int,
    cpu: str = "100m",
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> None:
    """Create a Deployment on our nodes; nobody waits for it."""
    ours = {"nodeSelector": {OWNER: playground.namespace}, **spec}
    made = manifests.deployment(playground.namespace, app, replicas, cpu=cpu, **ours)
    metadata = made["spec"]["template"]["metadata"]
    metadata["labels"] |= labels or {}
    metadata["annotations"] = {**metadata["annotations"], **(annotations or {})}
    playground.kubectl.apply(made)


def of_group(name: str) -> Object:
    return {"schedulingGroup": {"podGroupName": name}}


def test_a_podgroup_of_kubernetes_says_which_of_its_pods_may_leave(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """All pods are on a node that is tainted; of each group three run."""
    playground.settings = KEEP
    playground.add_nodes("n1")
    own_group(playground, "basic", {"basic": {}})
    own_group(playground, "spares", {"gang": {"minCount": 2}}, disruptionMode="Pod")
    own_group(playground, "needs-all", {"gang": {"minCount": 3}}, disruptionMode="Pod")
    own_group(playground, "as-one", {"gang": {"minCount": 2}}, disruptionMode="PodGroup")
    groups = ("basic", "spares", "needs-all", "as-one")
    for name in groups:
        deploy(playground, name, 3, **of_group(name))
    before = {name: playground.await_healthy(name, 3) for name in groups}
    playground.add_nodes("n2", "n3")
    playground.taint("n1", "repair=now:NoSchedule")

    with run_controller():
        playground.await_healthy("basic", 3, off="n1")
        playground.await_healthy("spares", 3, off="n1")
        time.sleep(QUIET_S)

    assert {each.pod.rsplit("-", 2)[0] for each in referee.evicted()} == {"basic", "spares"}
    for name in ("needs-all", "as-one"):
        assert playground.pods(name).keys() == before[name].keys()


@pytest.mark.parametrize(
    ("api", "labels", "annotations"),
    [
        (COSCHEDULING, {"scheduling.x-k8s.io/pod-group": "train"}, {}),
        (VOLCANO, {}, {VOLCANO_GROUP: "train"}),
    ],
    ids=["coscheduling", "volcano"],
)
def test_so_many_of_a_gang_get_room_as_its_podgroup_says(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    api: str,
    labels: dict[str, str],
    annotations: dict[str, str],
) -> None:
    """Each of three nodes has 2 CPUs free; two of three pods of 3 CPUs can have room, no more."""
    playground.balance = {"MakeRoomForPending": {"wait": "1s"}}
    playground.settings = KEEP
    playground.add_nodes("n1", "n2", "n3")
    playground.deploy("web", 18, cpu="1")
    patient = playground.add_patient_class()
    spec = {"priorityClassName": patient}
    deploy(playground, "train", 3, "3", labels=labels, annotations=annotations, **spec)

    with run_controller():
        time.sleep(QUIET_S)
        assert referee.evicted() == [], "all three are needed, as long as nothing says otherwise"
        pod_group(playground, "train", api, minMember=2)
        wait_until(lambda: _bound(playground, "train") == 2, within_s=60, what="two are bound")
        playground.await_healthy("web", 18)
        time.sleep(QUIET_S)

    moved = [each.pod for each in referee.evicted()]
    assert [name.startswith("web") for name in moved] == [True, True]


def _bound(playground: E2ENamespace, app: str) -> int:
    return sum(each.node is not None for each in playground.pods(app).values())


def job_of_eight(playground: E2ENamespace, **spec: Any) -> None:
    """Create a job of eight pods, as Volcano makes them, and its PodGroup."""
    pod_group(playground, "train", VOLCANO, minMember=8)
    marks = {VOLCANO_GROUP: "train"}
    labels = {"volcano.sh/job-name": "train"}
    deploy(playground, "train", 8, labels=labels, annotations=marks, **spec)


@pytest.mark.parametrize("gangs", ["keep", "together"])
def test_a_job_of_eight_amid_everything_else(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck, gangs: str
) -> None:
    """Beside the job there are a smaller gang, whose move costs less, and pods of their own."""
    playground.settings = TOGETHER if gangs == "together" else KEEP
    playground.add_nodes("n1", "n2")
    job_of_eight(playground)
    pod_group(playground, "pair", COSCHEDULING, minMember=2)
    deploy(playground, "pair", 2, labels={"scheduling.x-k8s.io/pod-group": "pair"})
    deploy(playground, "web", 6)
    before = {
        app: playground.await_healthy(app, size)
        for app, size in (("train", 8), ("pair", 2), ("web", 6))
    }
    playground.add_nodes("n3", "n4")
    on_n1 = {app: playground.pods_on(app, "n1") for app in before}
    assert all(on_n1.values()), "the scheduler spreads them"
    playground.taint("n1", "repair=now:NoSchedule")

    with run_controller():
        playground.await_healthy("web", 6, off="n1")
        if gangs == "together":
            playground.await_healthy("train", 8, off="n1")
            playground.await_healthy("pair", 2, off="n1")
        time.sleep(QUIET_S)

    evicted = [each.pod for each in referee.evicted()]
    left = {app: [n for n in evicted if n.startswith(app)] for app in before}
    assert len(left["web"]) == len(on_n1["web"]), "nothing else of the run stalls, or moves more"
    if gangs == "keep":
        assert left["train"] == left["pair"] == []
        return
    assert len(left["train"]) == 8
    assert len(left["pair"]) == 2
    assert not before["train"].keys() & playground.pods("train").keys()
    gangs_only = [name for name in evicted if not name.startswith("web")]
    assert all(name.startswith("pair") for name in gangs_only[:2]), "the one hurt least is first"


def test_a_job_of_eight_gets_room_amid_everything_else(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    """Each of twelve nodes has 2 of 8 CPUs free, and each of eight pods needs 3."""
    playground.balance = {"MakeRoomForPending": {"wait": "1s"}}
    playground.settings = KEEP
    playground.add_nodes(*(f"n{number}" for number in range(12)))
    playground.deploy("web", 72, cpu="1")
    assert set(playground.pods_by_node().values()) == {6}
    patient = playground.add_patient_class()
    spec: Object = {"priorityClassName": patient}
    pod_group(playground, "train", VOLCANO, minMember=8)
    marks = {VOLCANO_GROUP: "train"}
    deploy(playground, "train", 8, "3", annotations=marks, **spec)

    with run_controller():
        members = playground.await_healthy("train", 8, within_s=120)
        playground.await_healthy("web", 72)
        time.sleep(QUIET_S)

    assert len(members) == 8
    moved = [each.pod for each in referee.evicted()]
    assert [name.startswith("web") for name in moved] == [True] * 8


@pytest.mark.parametrize(
    ("nodes", "size", "has_room"),
    [
        pytest.param(3, 2, True, id="a pair"),
        pytest.param(11, 8, False, id="eight, and room for seven"),
        pytest.param(12, 8, True, id="eight, and nothing to spare"),
    ],
)
def test_a_gang_of_kubernetes_gets_room_and_is_bound_as_a_whole(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    nodes: int,
    size: int,
    *,
    has_room: bool,
) -> None:
    """Each node has 2 of 8 CPUs free, and each pod of the gang needs 3: one move makes a place.

    What moves takes the CPUs of nodes that no pod of the gang needs. The kube-scheduler takes
    nominations back whenever the group does not fit by then: the taint keeps the rooms.
    """
    playground.balance = {"MakeRoomForPending": {"wait": "1s"}}
    playground.settings = KEEP
    playground.add_nodes(*(f"n{number}" for number in range(nodes)))
    playground.deploy("web", 6 * nodes, cpu="1")
    assert set(playground.pods_by_node().values()) == {6}
    own_group(playground, "train", {"gang": {"minCount": size}})
    spec = {"priorityClassName": playground.add_patient_class(), **of_group("train")}
    deploy(playground, "train", size, "3", **spec)

    with run_controller():
        if not has_room:
            time.sleep(3 * QUIET_S)
            assert referee.evicted() == []
            return
        members = playground.await_healthy("train", size, within_s=120)
        playground.await_healthy("web", 6 * nodes)
        time.sleep(QUIET_S)

    assert playground.pods("train").keys() == members.keys(), "none was moved"
    moved = [each.pod for each in referee.evicted()]
    assert [name.startswith("web") for name in moved] == [True] * size
