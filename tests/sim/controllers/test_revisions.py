"""What the templates of a StatefulSet or a DaemonSet were stands in ControllerRevisions."""

import random
from typing import Any

import pytest

from reactive_desched.sim.metadata import for_create
from reactive_desched.sim.resources import RESOURCES
from tests.support.sim_world import SimulatedCluster, pod_template


def made(resource: str) -> SimulatedCluster:
    world = SimulatedCluster().nodes("n1")
    if resource == "statefulsets":
        world.stateful_set("db", 1)
    else:
        template = pod_template("db")
        selector = {"matchLabels": {"app": "db"}}
        world.create("daemonsets", "db", {"selector": selector, "template": template})
    return world.advance(5)


def numbers(world: SimulatedCluster) -> dict[str, int]:
    """Return the number of each revision by the label `v` of its template."""
    return {
        each["data"]["spec"]["template"]["metadata"]["labels"].get("v", ""): each["revision"]
        for each in world.store.list("controllerrevisions")
    }


@pytest.mark.parametrize("resource", ["statefulsets", "daemonsets"])
def test_a_template_that_returns_is_the_latest_revision(resource: str) -> None:
    world = made(resource)
    world.edit(resource, "db", template=pod_template("db", labels={"v": "2"}))
    world.advance(20)
    assert numbers(world) == {"": 1, "2": 2}

    world.edit(resource, "db", template=pod_template("db"))
    world.advance(20)

    assert numbers(world) == {"": 3, "2": 2}


@pytest.mark.parametrize("resource", ["statefulsets", "daemonsets"])
def test_the_oldest_revisions_go_that_no_pod_has(resource: str) -> None:
    world = made(resource)
    world.edit(resource, "db", revisionHistoryLimit=1)
    for version in ("2", "3", "4"):
        world.edit(resource, "db", template=pod_template("db", labels={"v": version}))
        world.advance(20)
    world.edit(resource, "db", revisionHistoryLimit=0)
    world.advance(1)

    assert set(numbers(world)) == {"4"}


@pytest.mark.parametrize("resource", ["statefulsets", "daemonsets"])
def test_revisions_go_with_their_workload(resource: str) -> None:
    world = made(resource)

    world.delete(resource, "db")
    world.advance(40)

    assert world.store.list("controllerrevisions") == []


def test_the_uid_of_a_revision_needs_no_draw() -> None:
    owner = {"uid": "1", "kind": "DaemonSet", "name": "db", "apiVersion": "apps/v1"}
    meta = {"name": "db-1", "namespace": "default", "ownerReferences": [owner]}
    luck = random.Random(1)
    before = luck.getstate()

    def uid_of(meta: dict[str, Any]) -> str:
        kind = RESOURCES["controllerrevisions"]
        uid: str = for_create(kind, {"metadata": meta}, 0.0, luck, draws=False)["uid"]
        return uid

    uid = uid_of(meta)

    assert luck.getstate() == before
    other = {**meta, "ownerReferences": [{**owner, "uid": "2"}]}
    assert uid_of(other) != uid


@pytest.mark.parametrize("resource", ["statefulsets", "daemonsets"])
def test_a_revision_has_its_keys_in_the_order_in_which_go_writes_them(resource: str) -> None:
    def unordered(value: Any) -> bool:
        if isinstance(value, dict):
            return list(value) != sorted(value) or any(map(unordered, value.values()))
        return isinstance(value, list) and any(map(unordered, value))

    (revision,) = made(resource).store.list("controllerrevisions")
    assert not unordered(revision["data"])
