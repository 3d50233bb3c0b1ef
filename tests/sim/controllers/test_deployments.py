"""A Deployment rolls from one ReplicaSet to the next."""

from reactive_desched.sim.objects import name_of
from reactive_desched.sim.pods import is_ready
from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster, pod_template, workload

REVISION = "deployment.kubernetes.io/revision"


def sizes(world: SimulatedCluster) -> dict[str, int]:
    """Return the wanted size of each ReplicaSet by its revision."""
    sets = world.store.list("replicasets", "default")
    return {rs["metadata"]["annotations"][REVISION]: rs["spec"]["replicas"] for rs in sets}


def test_there_is_one_replica_set_per_template() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)

    (rs,) = world.store.list("replicasets", "default")

    digest = rs["metadata"]["labels"]["pod-template-hash"]
    assert rs["metadata"]["name"] == f"web-{digest}"
    assert rs["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert all(p["metadata"]["labels"]["pod-template-hash"] == digest for p in world.pods())


def test_a_rollout_never_has_too_few_ready_or_too_many_pods() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 8)
    world.advance(10)

    world.edit("deployments", "web", template=pod_template("web", labels={"v": "2"}))
    seen = []
    for _ in range(40):
        pods = [pod for pod in world.pods() if "deletionTimestamp" not in pod["metadata"]]
        seen.append((len(pods), sum(map(is_ready, pods))))
        world.advance(0.5)

    assert max(total for total, _ in seen) == 10
    assert min(ready for _, ready in seen) == 6
    assert {pod["metadata"]["labels"].get("v") for pod in world.pods()} == {"2"}
    assert sizes(world) == {"1": 0, "2": 8}


def test_one_that_is_made_anew_waits_for_the_end_of_the_replica_set_before() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)
    world.advance(10)
    [before] = world.store.list("replicasets", "default")

    world.store.delete("deployments", "default", "web")
    again = world.deployment("web", 2)
    world.advance(30)

    [after] = world.store.list("replicasets", "default")
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["ownerReferences"][0]["uid"] == again["metadata"]["uid"]
    assert all(map(is_ready, world.pods()))


def test_going_back_uses_the_old_replica_set_again() -> None:
    world = SimulatedCluster().nodes("n1")
    first = world.deployment("web", 2)["spec"]["template"]
    world.advance(10)
    (old,) = world.store.list("replicasets", "default")
    world.edit("deployments", "web", template=pod_template("web", labels={"v": "2"}))
    world.advance(20)

    world.edit("deployments", "web", template=first)
    world.advance(20)

    assert sizes(world) == {"2": 0, "3": 2}
    again = world.get("replicasets", old["metadata"]["name"])
    assert again["metadata"]["annotations"][REVISION] == "3"


def test_recreate_waits_until_the_old_pods_are_gone() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)
    world.edit("deployments", "web", strategy={"type": "Recreate"})
    world.advance(10)
    old = world.names()

    world.edit("deployments", "web", template=pod_template("web", labels={"v": "2"}))
    assert world.names() == old
    world.advance(10)

    assert not world.names() & old
    assert sorted(world.phases().values()) == ["Ready", "Ready"]


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)
    world.edit("deployments", "web", paused=True)

    template = pod_template("web", labels={"v": "2"})
    world.edit("deployments", "web", template=template, replicas=3)
    world.advance(10)

    assert sizes(world) == {"1": 3}


def test_the_status_says_when_a_rollout_is_complete() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)

    early = world.status("deployments", "web")
    world.advance(10)
    late = world.status("deployments", "web")

    def told(status: dict[str, list[dict[str, str]]]) -> dict[str, tuple[str, str]]:
        return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}

    assert told(early) == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "ReplicaSetUpdated"),
    }
    assert told(late) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    assert (late["updatedReplicas"], late["availableReplicas"]) == (2, 2)


def test_old_replica_sets_beyond_the_history_limit_are_deleted() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 1)
    world.edit("deployments", "web", revisionHistoryLimit=1)
    for version in ("2", "3", "4"):
        world.edit("deployments", "web", template=pod_template("web", labels={"v": version}))
        world.advance(20)

    assert sizes(world) == {"3": 0, "4": 1}


def test_every_change_of_size_is_an_event() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 2)
    (first,) = (name_of(rs) for rs in world.store.list("replicasets"))
    world.advance(10)
    world.edit("deployments", "web", replicas=1)
    world.advance(10)
    world.edit("deployments", "web", replicas=1, template=pod_template("web", labels={"v": "2"}))
    world.advance(10)
    (second,) = {name_of(rs) for rs in world.store.list("replicasets")} - {first}

    assert world.events("ScalingReplicaSet") == [
        verbatim(f"Scaled up replica set {first} from 0 to 2"),
        verbatim(f"Scaled down replica set {first} from 2 to 1"),
        verbatim(f"Scaled up replica set {second} from 0 to 1"),
        verbatim(f"Scaled down replica set {first} from 1 to 0"),
    ]
    assert set(world.events("SuccessfulCreate")) >= {f"Created pod: {n}" for n in world.names()}


def test_a_rollout_that_stands_still_is_late_until_it_moves() -> None:
    world = SimulatedCluster().nodes("n1")
    world.create("deployments", "web", {**workload("web", 1), "progressDeadlineSeconds": 60})
    world.advance(5)
    stuck = pod_template("web", annotations={"sim.reactive-desched/profile": "never-ready"})
    world.edit("deployments", "web", template=stuck)

    def progress() -> tuple[str, str]:
        conditions = world.status("deployments", "web")["conditions"]
        (found,) = (each for each in conditions if each["type"] == "Progressing")
        return found["status"], found["reason"]

    world.advance(58)
    assert progress() == ("True", "ReplicaSetUpdated")
    world.advance(3)
    assert progress() == ("False", "ProgressDeadlineExceeded")
    world.edit("deployments", "web", template=pod_template("web", labels={"fixed": "yes"}))
    world.advance(5)
    assert progress() == ("True", "NewReplicaSetAvailable")


def test_a_rollout_that_is_scaled_keeps_the_shares_of_its_sets() -> None:
    world = SimulatedCluster().nodes("n1", "n2", cpu="64")
    spec = workload("web", 10, cpu="10m")
    rolling = {"maxSurge": 3, "maxUnavailable": 2}
    spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    world.create("deployments", "web", spec)
    world.advance(10)
    template = workload("web", 10, cpu="10m")["template"]
    template["spec"]["containers"][0]["image"] = "no-such-image"

    def sizes() -> list[int]:
        return sorted(rs["spec"]["replicas"] for rs in world.store.list("replicasets"))

    world.edit("deployments", "web", template=template)
    world.advance(30)
    assert sizes() == [5, 8]
    world.edit("deployments", "web", replicas=30)
    world.advance(30)
    assert sizes() == [13, 20]  # the example of Kubernetes' own test
    world.edit("deployments", "web", replicas=0)
    world.advance(30)
    assert sizes() == [0, 0]
