"""What the records of the cluster's objects say of themselves."""

import pytest

from reactive_desched.model.evaluation import Trigger
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    ClusterObject,
    Namespace,
    Node,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PodStatus,
    PriorityClass,
)
from reactive_desched.model.taints import Taint

READY = PodCondition("Ready", "True")


@pytest.mark.parametrize(
    ("node", "phase", "active"),
    [
        pytest.param("n1", "Running", True, id="running on a node"),
        pytest.param("n1", "Pending", True, id="starting on a node"),
        pytest.param("n1", "Unknown", True, id="unknown is not ended"),
        pytest.param("n1", "", True, id="no phase yet"),
        pytest.param("", "Pending", False, id="not yet on a node"),
        pytest.param("n1", "Succeeded", False, id="finished"),
        pytest.param("n1", "Failed", False, id="failed"),
    ],
)
def test_a_pod_is_active_while_it_is_on_a_node_and_has_not_ended(
    node: str, phase: str, *, active: bool
) -> None:
    assert Pod("shop", "web", "u1", node=node, status=PodStatus(phase)).is_active is active


def test_a_terminating_pod_is_still_active() -> None:
    pod = Pod("shop", "web", "u1", node="n1", deletion_s=5)

    assert (pod.is_terminating, pod.is_active) == (True, True)


def test_a_pod_deleted_at_the_epoch_is_terminating() -> None:
    assert Pod("shop", "web", "u1", deletion_s=0).is_terminating
    assert not Pod("shop", "web", "u1").is_terminating


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param((READY,), True, id="Ready is True"),
        pytest.param((PodCondition("ContainersReady", "True"),), False, id="another condition"),
        pytest.param((PodCondition("Ready", "False"),), False, id="Ready is False"),
        pytest.param((PodCondition("Ready", "Unknown"),), False, id="Ready is Unknown"),
        pytest.param((), False, id="no conditions"),
    ],
)
def test_a_pod_is_ready_when_its_condition_says_so(
    conditions: tuple[PodCondition, ...], *, ready: bool
) -> None:
    assert PodStatus(conditions=conditions).is_ready is ready


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        pytest.param("True", True, id="ready"),
        pytest.param(None, True, id="no condition counts as ready, as upstream"),
        pytest.param("False", False, id="not ready"),
        pytest.param("Unknown", False, id="the kubelet went silent"),
    ],
)
def test_a_node_is_ready_unless_a_condition_says_otherwise(
    status: str | None, *, ready: bool
) -> None:
    assert Node("n1", ready_status=status).is_ready is ready


def test_a_node_is_in_the_zone_of_its_label() -> None:
    assert Node("n1", labels={"topology.kubernetes.io/zone": "z1"}).zone == "z1"
    assert Node("n1", labels={"zone": "z1"}).zone == ""


WEB = Pod("shop", "web", "u1", labels={"app": "web"})


@pytest.mark.parametrize(
    ("selector", "namespace", "covered"),
    [
        pytest.param(LabelSelector({"app": "web"}), "shop", True, id="a label of the pod"),
        pytest.param(LabelSelector({"app": "db"}), "shop", False, id="not a label of the pod"),
        pytest.param(LabelSelector({"app": "web"}), "office", False, id="another namespace"),
        pytest.param(LabelSelector(), "shop", True, id="an empty selector covers everybody"),
        pytest.param(None, "shop", False, id="no selector covers nobody"),
    ],
)
def test_a_budget_covers_the_pods_it_selects_in_its_namespace(
    selector: LabelSelector | None, namespace: str, *, covered: bool
) -> None:
    assert PodDisruptionBudget(namespace, "budget", selector=selector).covers(WEB) is covered


@pytest.mark.parametrize(
    ("record", "key"),
    [
        pytest.param(WEB, "u1", id="a pod by its uid"),
        pytest.param(Node("n1", uid="u"), "n1", id="a node by its name"),
        pytest.param(Namespace("shop", uid="u"), "shop", id="a namespace by its name"),
        pytest.param(PriorityClass("high", uid="u"), "high", id="a priority class by its name"),
        pytest.param(PodDisruptionBudget("shop", "b"), "shop/b", id="a budget by both names"),
        pytest.param(PersistentVolumeClaim("shop", "d"), "shop/d", id="a claim by both names"),
    ],
)
def test_each_record_is_known_by_its_key(record: ClusterObject, key: str) -> None:
    assert record.key == key


def test_pods_and_owners_are_written_as_people_name_them() -> None:
    assert str(WEB) == "shop/web"
    assert str(OwnerReference("ReplicaSet", "web-7", "u2")) == "ReplicaSet/web-7"


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (Trigger("NodeTaintsChanged", "node n1", "7"), "NodeTaintsChanged node n1"),
        (Trigger("Resynced"), "Resynced"),
        (Trigger(), ""),
    ],
)
def test_a_trigger_is_written_as_the_change_and_its_object(trigger: Trigger, words: str) -> None:
    assert str(trigger) == words


@pytest.mark.parametrize(
    ("ready", "confirmed"),
    [
        pytest.param("True", {"gpu"}, id="ready"),
        pytest.param("False", {"gpu", "not-ready"}, id="not ready"),
        pytest.param("Unknown", {"gpu", "unreachable"}, id="silent"),
        pytest.param(None, {"gpu"}, id="never reported"),
    ],
)
def test_a_taint_that_repeats_the_ready_condition_is_confirmed_by_it_alone(
    ready: str | None, confirmed: set[str]
) -> None:
    keys = ("gpu", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    taints = tuple(Taint(key, effect) for key in keys for effect in ("NoSchedule", "NoExecute"))
    found = Node("n1", ready_status=ready, taints=taints).confirmed_taints

    assert found == tuple(t for t in taints if t.key.rpartition("/")[2] in confirmed)
