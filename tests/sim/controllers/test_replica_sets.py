"""A ReplicaSet keeps its number of active pods, and replaces those that leave."""

from tests.support.sim_world import SimulatedCluster, workload

NOT_READY = {"sim.reactive-desched/profile": "never-ready"}


def test_an_evicted_pod_is_replaced_at_once_and_lands_elsewhere() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("web", 1)
    world.advance(5)
    (old,) = world.names()
    assert world.nodes_of_pods() == {old: "n1"}
    world.edit("nodes", "n1", unschedulable=True)

    world.evict(old)

    assert world.phases()[old] == "Terminating"
    (new,) = world.names() - {old}
    assert world.nodes_of_pods()[new] == "n2"
    world.advance(5)
    assert world.phases() == {new: "Ready"}


def test_a_pod_that_failed_is_replaced_but_its_object_stays() -> None:
    world = SimulatedCluster().nodes("n1")
    failing = {"sim.reactive-desched/profile": "fail", "sim.reactive-desched/run-seconds": "3"}
    world.create("replicasets", "web", workload("web", 1, annotations=failing))

    world.advance(6)

    states = sorted(world.phases().values())
    assert states[0] == "Failed"
    assert "Pending" in states or "Ready" in states


def test_the_surplus_goes_first_where_it_is_least_use() -> None:
    world = SimulatedCluster().nodes("n1")
    world.create("replicasets", "web", workload("web", 2))
    world.advance(5)
    ready = world.names()
    world.edit("nodes", "n1", unschedulable=True)
    world.edit("replicasets", "web", replicas=4)

    world.edit("replicasets", "web", replicas=2)

    assert {name for name, state in world.phases().items() if state == "Ready"} == ready


def test_the_status_counts_what_is_there_ready_and_available() -> None:
    world = SimulatedCluster().nodes("n1")
    world.create("replicasets", "web", {**workload("web", 2), "minReadySeconds": 10})

    world.advance(5)
    early = world.status("replicasets", "web")
    world.advance(10)
    late = world.status("replicasets", "web")

    assert (early["replicas"], early["readyReplicas"]) == (2, 2)
    assert "availableReplicas" not in early
    assert late["availableReplicas"] == 2


def test_a_refused_pod_is_asked_for_again_later() -> None:
    world = SimulatedCluster().nodes("n1")
    world.create("replicasets", "web", workload("web", 1, priorityClassName="later"))
    assert world.names() == set()
    assert "no PriorityClass with name later" in world.events("FailedCreate")[0]
    world.store.create("priorityclasses", {"metadata": {"name": "later"}, "value": 7})

    world.advance(10)

    assert set(world.phases().values()) == {"Ready"}


def failures(world: SimulatedCluster, resource: str, name: str = "web") -> list[dict[str, str]]:
    found = world.status(resource, name).get("conditions", [])
    return [each for each in found if each["type"] == "ReplicaFailure"]


def test_a_pod_beyond_a_quota_is_a_condition_of_its_set_and_of_the_deployment_above() -> None:
    world = SimulatedCluster().nodes("n1")
    world.create("resourcequotas", "few", {"hard": {"pods": "1"}})
    world.deployment("web", 2)
    world.create("replicationcontrollers", "rc", {**workload("rc", 1), "selector": {"app": "rc"}})
    world.advance(20)
    (name,) = [each["metadata"]["name"] for each in world.store.list("replicasets")]

    (of_set,), (of_all,) = failures(world, "replicasets", name), failures(world, "deployments")
    (of_controller,) = failures(world, "replicationcontrollers", "rc")

    assert (of_set["status"], of_set["reason"]) == ("True", "FailedCreate")
    assert "exceeded quota: few" in of_set["message"]
    assert of_all == {**of_set, "lastUpdateTime": of_set["lastTransitionTime"]}
    assert of_controller["message"] != of_set["message"]
    world.edit("resourcequotas", "few", hard={"pods": "5"})
    world.advance(20)
    assert not failures(world, "replicasets", name) + failures(world, "deployments")
    assert len(world.phases()) == 3


def test_a_replication_controller_is_kept_the_same_way() -> None:
    world = SimulatedCluster().nodes("n1")
    spec = {**workload("web", 2), "selector": {"app": "web"}}
    world.create("replicationcontrollers", "web", spec)

    world.advance(5)

    assert sorted(world.phases().values()) == ["Ready", "Ready"]
    assert world.status("replicationcontrollers", "web")["readyReplicas"] == 2


def test_events_say_which_pods_were_deleted() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 3)
    world.advance(5)
    before = world.names()
    world.edit("deployments", "web", replicas=1)
    world.advance(5)

    gone = before - world.names()
    assert len(gone) == 2
    assert set(world.events("SuccessfulDelete")) == {f"Deleted pod: {name}" for name in gone}
