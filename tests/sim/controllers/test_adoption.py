"""Workloads adopt what their selector matches and nobody controls, and release what it does not."""

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.pods import controller_of
from tests.support.sim_world import SimulatedCluster, pod_template, workload


def relabel(world: SimulatedCluster, resource: str, name: str, **labels: str) -> None:
    def change(current: Obj) -> Obj:
        return {**current, "metadata": {**current["metadata"], "labels": labels}}

    world.store.modify(resource, "default", name, change)
    world.cluster.settle()


def owner_of(world: SimulatedCluster, name: str) -> str:
    owner = controller_of(world.get("pods", name))
    return "" if owner is None else f"{owner['kind']}/{owner['name']}"


def test_a_replica_set_adopts_a_pod_that_was_there() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("loner", labels={"app": "web"})
    world.create("replicasets", "web", workload("web", 2))

    assert owner_of(world, "loner") == "ReplicaSet/web"
    assert len(world.names()) == 2


def test_a_pod_that_comes_to_a_full_set_is_surplus() -> None:
    world = SimulatedCluster().nodes("n1")
    world.create("replicasets", "web", workload("web", 2))
    world.advance(5)
    before = world.names()

    world.pod("loner", labels={"app": "web"})

    assert {name for name, state in world.phases().items() if state == "Ready"} == before
    world.advance(5)
    assert world.names() == before


def test_a_released_pod_is_replaced_and_stays() -> None:
    world = SimulatedCluster().nodes("n1")
    world.create("replicasets", "web", workload("web", 1))
    (name,) = world.names()

    relabel(world, "pods", name, app="debugged")

    assert owner_of(world, name) == ""
    assert len(world.names("web")) == 1
    relabel(world, "pods", name, app="web")
    assert owner_of(world, name) == "ReplicaSet/web"


def test_an_ended_pod_and_one_that_goes_are_not_adopted() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod(
        "ended",
        labels={"app": "x"},
        restartPolicy="Never",
        annotations={
            "sim.reactive-desched/profile": "complete",
            "sim.reactive-desched/run-seconds": "1",
        },
    )
    world.pod(
        "leaving", labels={"app": "x"}, annotations={"sim.reactive-desched/shutdown-seconds": "20"}
    )
    world.advance(5)
    world.delete("pods", "leaving")
    relabel(world, "pods", "ended", app="web")
    relabel(world, "pods", "leaving", app="web")

    world.create("replicasets", "web", workload("web", 1))

    assert owner_of(world, "ended") == owner_of(world, "leaving") == ""


def test_a_deleted_set_leaves_its_orphans_and_a_new_one_adopts_them() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)
    world.advance(5)
    before = world.names()
    world.delete("deployments", "web", propagation_policy="Orphan")
    (orphan,) = world.store.list("replicasets")
    assert controller_of(orphan) is None

    world.deployment("web", 2)

    (adopted,) = world.store.list("replicasets")
    assert controller_of(adopted) is not None
    assert world.names() == before


def test_a_job_adopts_with_its_finalizer_and_releases_without() -> None:
    world = SimulatedCluster().nodes("n1")
    labels = {"app": "work"}
    spec = {"manualSelector": True, "selector": {"matchLabels": labels}, "parallelism": 1}
    template = pod_template("work", restartPolicy="Never")
    world.pod("loner", labels=labels, restartPolicy="Never")
    world.create("jobs", "work", {**spec, "template": template})
    assert world.get("pods", "loner")["metadata"]["finalizers"] == [
        "batch.kubernetes.io/job-tracking"
    ]

    assert owner_of(world, "loner") == "Job/work"
    relabel(world, "pods", "loner", app="x")
    assert "finalizers" not in world.get("pods", "loner")["metadata"]
    assert owner_of(world, "loner") == ""


def test_a_stateful_set_adopts_only_what_is_named_as_its_own() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("db-1", labels={"app": "db"})
    world.pod("other", labels={"app": "db"})
    world.stateful_set("db", 2, {"podManagementPolicy": "Parallel"})

    assert owner_of(world, "db-1") == "StatefulSet/db"
    assert owner_of(world, "other") == ""


def test_a_daemon_set_adopts() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("loner", labels={"app": "agent"}, nodeName="n1")
    spec = workload("agent", 1)
    del spec["replicas"]
    spec["updateStrategy"] = {"type": "OnDelete"}  # nothing says of which revision it is
    world.create("daemonsets", "agent", spec)
    assert owner_of(world, "loner") == "DaemonSet/agent"
