"""The spread of an owner's replicas: which changes of the cluster it announces."""

import pytest
from msgspec.structs import replace

from reactive_desched.model.changes import Change
from reactive_desched.model.objects import ClusterObject, OwnerReference, Pod, PodStatus
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.replica_spread import (
    ReplicaGroup,
    ReplicaSpread,
    ReplicaSpreadChanged,
)
from reactive_desched.testing.builders import node, pod, tolerations, with_spec

WEB = ReplicaGroup("default", "ReplicaSet", "web", ())
DB = replace(WEB, name="db")
A, B = pod("a", on="n1"), pod("b", on="n1")


class World:
    """A cluster that is watched by the index."""

    def __init__(self, *objects: ClusterObject) -> None:
        self.state = ClusterState()
        self.index = self.state.index(ReplicaSpread)
        for obj in objects:
            self.state.upsert(obj)

    def announced(self, obj: ClusterObject, step: str = "upsert") -> list[ReplicaGroup]:
        changes: list[Change] = getattr(self.state, step)(obj)
        return [change.group for change in changes if isinstance(change, ReplicaSpreadChanged)]


def test_a_group_is_announced_from_the_second_pod_on_a_node_on_and_when_it_goes() -> None:
    world = World(node("n1"), node("n2"))

    assert world.announced(A) == []
    assert world.announced(B) == [WEB]
    assert world.announced(pod("c", on="n2")) == [WEB]
    assert world.announced(B, "remove") == [WEB]
    assert world.announced(A, "remove") == []


def test_pods_without_a_node_do_not_crowd_one() -> None:
    world = World(node("n1"), pod("c"), A)

    assert world.announced(pod("d")) == []
    assert world.announced(B) == [WEB]
    assert world.announced(pod("e")) == [WEB]
    assert dict(world.index.pods_by_node(WEB)) == {"": 3, "n1": 2}


def test_pods_that_have_ended_do_not_count() -> None:
    over = replace(B, status=PodStatus("Succeeded"))
    world = World(node("n1"), A)

    assert world.announced(over) == []
    assert world.announced(replace(over, uid="x", status=PodStatus("Running"))) == [WEB]
    assert dict(world.index.pods_by_node(WEB)) == {"n1": 2}


@pytest.mark.parametrize(
    ("changed", "groups"),
    [
        pytest.param(replace(B, deletion_s=1), [WEB], id="it begins to terminate"),
        pytest.param(with_spec(B, tolerations=tolerations("a")), [WEB], id="it tolerates more"),
        pytest.param(
            with_spec(B, images=("new",)), [WEB], id="it has another image, so no pod beside it"
        ),
        pytest.param(
            replace(B, owners=(OwnerReference("ReplicaSet", "db", "u"),)),
            [WEB],
            id="it has another owner",
        ),
        pytest.param(replace(B, status=PodStatus("Failed")), [WEB], id="it has ended"),
        pytest.param(replace(B, labels={"a": "b"}), [], id="it has other labels"),
        pytest.param(with_spec(B, requests={"cpu": 1}), [], id="it is resized"),
    ],
)
def test_a_change_of_one_of_two_pods_is_announced_where_it_matters(
    changed: Pod, groups: list[ReplicaGroup]
) -> None:
    assert World(node("n1"), A, B).announced(changed) == groups


def test_a_pod_with_two_owners_counts_for_both() -> None:
    both = (*A.owners, OwnerReference("ReplicaSet", "db", "u"))
    world = World(node("n1"), replace(A, owners=both))

    assert world.announced(replace(B, owners=both)) == [WEB, DB]
    assert set(world.index.crowded_groups()) == {WEB, DB}


def test_nodes_are_announced_to_crowded_groups_whose_pods_may_be_there_or_are() -> None:
    away, db = node("n3", "a:NoSchedule"), pod("d", on="n3", owner="ReplicaSet/db")
    world = World(node("n1"), node("n2"), away, A, B, pod("c", on="n3"), db)
    assert set(world.index.possible_nodes(A.spec)) == {"n1", "n2"}

    assert world.announced(node("n4")) == [WEB]
    assert world.announced(node("n4", labels={"x": "y"})) == []
    assert world.announced(node("n4", "a:NoSchedule")) == [WEB]
    assert world.announced(node("n4"), "remove") == []
    assert world.announced(node("n3", "a:NoSchedule", ready="False")) == [WEB]
    assert world.announced(node("n3", "a:NoSchedule")) == [WEB]
    assert set(world.index.possible_nodes(A.spec)) == {"n1", "n2"}


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    world = World(node("n1"), A, B)
    world.index.possible_nodes(A.spec)
    for each in (A, B):
        world.announced(each, "remove")

    assert world.index.answers() == ({}, {}, 0, 0, 0)
