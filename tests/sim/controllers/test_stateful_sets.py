"""A StatefulSet's pods have names and an order."""

from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster, pod_template

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def test_each_pod_waits_until_the_one_before_it_is_ready() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 3)

    assert world.names() == {"db-0"}
    world.advance(2)
    assert world.phases() == {"db-0": "Ready", "db-1": "Pending"}
    world.advance(5)
    assert world.phases() == {"db-0": "Ready", "db-1": "Ready", "db-2": "Ready"}


def test_events_say_what_was_made_and_deleted_for_a_set() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 2, {"volumeClaimTemplates": [CLAIM]})
    world.advance(10)
    world.edit("statefulsets", "db", replicas=1)
    world.advance(10)

    made = [f"Create Pod db-{number} in StatefulSet db successful" for number in range(2)]
    claims = [
        f"Create Claim data-db-{number} Pod db-{number} in StatefulSet db success"
        for number in range(2)
    ]
    assert sorted(world.events("SuccessfulCreate")) == sorted([*made, *claims])
    assert world.events("SuccessfulDelete") == [
        verbatim("Delete Pod db-1 in StatefulSet db successful")
    ]


def test_parallel_pods_start_together() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 3, {"podManagementPolicy": "Parallel"})

    assert world.names() == {"db-0", "db-1", "db-2"}


def test_an_evicted_pod_comes_back_under_its_name_only_when_the_old_one_is_gone() -> None:
    world = SimulatedCluster(pace=None).nodes("n1", "n2")
    world.stateful_set("db", 2)
    world.advance(10)
    before = world.get("pods", "db-0")

    world.evict("db-0")
    assert world.phases()["db-0"] == "Terminating"
    world.advance(0.5)
    assert world.get("pods", "db-0")["metadata"]["uid"] == before["metadata"]["uid"]
    world.advance(5)

    after = world.get("pods", "db-0")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert world.phases()["db-0"] == "Ready"


def test_a_failed_pod_is_made_again() -> None:
    world = SimulatedCluster().nodes("n1")
    failing = {"sim.reactive-desched/profile": "fail", "sim.reactive-desched/run-seconds": "3"}
    world.stateful_set("db", 1, annotations=failing)
    world.advance(4)
    first = world.get("pods", "db-0")["metadata"]["uid"]

    world.advance(2)

    assert world.get("pods", "db-0")["metadata"]["uid"] != first


def test_shrinking_takes_the_highest_first_one_by_one() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 3)
    world.advance(10)

    world.edit("statefulsets", "db", replicas=1)

    assert world.phases() == {"db-0": "Ready", "db-1": "Ready", "db-2": "Terminating"}
    world.advance(10)
    assert world.phases() == {"db-0": "Ready"}


def test_a_new_template_replaces_the_highest_first_and_waits_for_it() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 2)
    world.advance(10)

    world.edit("statefulsets", "db", template=pod_template("db", labels={"v": "2"}))

    assert world.phases() == {"db-0": "Ready", "db-1": "Terminating"}
    world.advance(20)
    assert {pod["metadata"]["labels"]["v"] for pod in world.pods()} == {"2"}
    status = world.status("statefulsets", "db")
    assert status["currentRevision"] == status["updateRevision"]


def test_below_the_partition_a_pod_is_created_again_as_it_was() -> None:
    world = SimulatedCluster().nodes("n1")
    partition = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}
    world.stateful_set("db", 2, {**partition, "ordinals": {"start": 5}})
    world.advance(10)
    world.edit("statefulsets", "db", template=pod_template("db", labels={"v": "2"}))
    world.advance(20)
    assert {name for name in world.names() if labels(world, name).get("v") == "2"} == {"db-6"}

    world.delete("pods", "db-5")
    world.advance(10)

    assert "v" not in labels(world, "db-5")
    status = world.status("statefulsets", "db")
    assert labels(world, "db-5")["controller-revision-hash"] == status["currentRevision"]


def labels(world: SimulatedCluster, pod: str) -> dict[str, str]:
    found: dict[str, str] = world.get("pods", pod)["metadata"]["labels"]
    return found


def test_an_update_goes_one_by_one_also_where_pods_start_together() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 3, {"podManagementPolicy": "Parallel"})
    world.advance(10)
    world.edit("statefulsets", "db", template=pod_template("db", labels={"v": "2"}))

    fewest = 3
    for _ in range(60):
        fewest = min(fewest, list(world.phases().values()).count("Ready"))
        world.advance(0.5)

    assert fewest == 2
    assert {pod["metadata"]["labels"]["v"] for pod in world.pods()} == {"2"}


def test_claims_outlive_their_pods_and_are_used_again() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 1, {"volumeClaimTemplates": [CLAIM]})
    world.advance(5)
    claim = world.get("persistentvolumeclaims", "data-db-0")

    world.delete("pods", "db-0")
    world.advance(5)

    assert world.phases() == {"db-0": "Ready"}
    uid = world.get("persistentvolumeclaims", "data-db-0")["metadata"]["uid"]
    assert uid == claim["metadata"]["uid"]
    assert world.status("persistentvolumeclaims", "data-db-0")["phase"] == "Bound"


def test_a_stray_that_claims_to_belong_is_not_counted() -> None:
    world = SimulatedCluster().nodes("n1")
    made = world.stateful_set("db", 1)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    reference = {**owner, "uid": made["metadata"]["uid"]}
    world.create("pods", "stray", pod_template("db")["spec"], ownerReferences=[reference])

    world.advance(5)

    assert world.phases() == {"db-0": "Ready", "stray": "Ready"}
    assert world.status("statefulsets", "db")["replicas"] == 1
