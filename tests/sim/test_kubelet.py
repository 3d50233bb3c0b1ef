"""What a kubelet does with a pod, from binding to the end."""

import random
from typing import Any

import pytest

from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.kubelet import Kubelets
from reactive_desched.sim.objects import name_of
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.store import DeleteOptions, Event
from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster

PREFIX = "sim.reactive-desched/"


def behaves(profile: str, **seconds: str) -> dict[str, str]:
    """Return the annotations of a profile."""
    notes = {PREFIX + name.replace("_", "-"): text for name, text in seconds.items()}
    return {PREFIX + "profile": profile, **notes}


def container(world: SimulatedCluster, name: str = "p") -> dict[str, Any]:
    """Return the status of the pod's one container."""
    (status,) = world.status("pods", name)["containerStatuses"]
    found: dict[str, Any] = status
    return found


def test_events_are_of_each_container_that_starts_and_count_its_restarts() -> None:
    world = SimulatedCluster(records_starts=True).nodes("n1")
    world.pod("p", annotations=behaves("crash-loop", run_seconds="1"))
    world.advance(60)

    restarts = container(world)["restartCount"]
    assert restarts > 1
    found = {
        event["reason"]: event
        for event in world.store.list("events")
        if event["reason"] in ("Pulled", "Created", "Started")
    }
    assert [found[reason]["message"] for reason in ("Pulled", "Created", "Started")] == [
        verbatim(
            'Container image "example/main:1" already present on machine'
            " and can be accessed by the pod"
        ),
        "Container created",
        "Container started",
    ]
    assert {event["count"] for event in found.values()} == {restarts + 1}
    name = world.get("pods", "p")["spec"]["containers"][0]["name"]
    assert found["Started"]["involvedObject"]["fieldPath"] == f"spec.containers{{{name}}}"


def test_of_many_containers_that_start_at_once_a_hundred_have_events() -> None:
    world = SimulatedCluster(records_starts=True).nodes("n1", "n2", cpu="500")
    world.deployment("web", 120, cpu="10m")
    world.advance(5)
    assert len(world.events("Started")) == 100

    world.deployment("later", 3)
    world.advance(5)
    assert len(world.events("Started")) == 103


def test_nothing_is_drawn_for_these_events() -> None:
    def uids(*, records_starts: bool) -> set[str]:
        world = SimulatedCluster(records_starts=records_starts).nodes("n1")
        world.deployment("web", 3)
        world.advance(5)
        world.deployment("api", 3)
        return {each["metadata"]["uid"] for each in world.store.list("pods")}

    assert uids(records_starts=True) == uids(records_starts=False)


def test_a_bound_pod_is_put_together_and_then_runs() -> None:
    world = SimulatedCluster().nodes("n1")

    world.pod("p")
    early = world.status("pods", "p")
    waiting = container(world)["state"]
    world.advance(2)
    late = world.status("pods", "p")

    assert early["phase"] == "Pending"
    assert waiting == {"waiting": {"reason": "ContainerCreating"}}
    assert {"hostIP", "podIP", "startTime"} <= set(early)
    assert late["phase"] == "Running"
    assert container(world)["ready"] is True
    assert {c["type"]: c["status"] for c in late["conditions"]} == {
        "PodScheduled": "True",
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }


def test_every_pod_has_its_own_address() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("web", 20)

    addresses = [pod["status"]["podIP"] for pod in world.pods()]

    assert len(set(addresses)) == len(addresses)


def test_start_up_and_readiness_take_the_time_the_pod_says() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", annotations=behaves("steady", start_seconds="10", ready_seconds="20"))

    world.advance(9.5)
    assert world.phases() == {"p": "Pending"}
    world.advance(20)
    assert world.phases() == {"p": "Running"}
    world.advance(1)
    assert world.phases() == {"p": "Ready"}


def test_init_containers_are_done_before_the_pod_runs_and_sidecars_continue() -> None:
    world = SimulatedCluster().nodes("n1")
    sidecar = {"name": "side", "image": "x", "restartPolicy": "Always"}
    world.pod("p", initContainers=[{"name": "init", "image": "x"}, sidecar])
    assert container(world)["state"]["waiting"]["reason"] == "PodInitializing"

    world.advance(2)

    init, side = world.status("pods", "p")["initContainerStatuses"]
    assert init["state"]["terminated"]["exitCode"] == 0
    assert "running" in side["state"]
    assert condition_status(world.get("pods", "p"), "Initialized") == "True"


@pytest.mark.parametrize(
    ("grace", "shutdown", "takes", "code"),
    [
        pytest.param(30, "4", 4, 143, id="shuts down in time"),
        pytest.param(3, "60", 3, 137, id="is killed when its grace is over"),
    ],
)
def test_a_deleted_pod_ends_within_its_grace(
    grace: int, shutdown: str, takes: int, code: int
) -> None:
    world = SimulatedCluster().nodes("n1")
    notes = behaves("steady", shutdown_seconds=shutdown)
    world.pod("p", annotations=notes, terminationGracePeriodSeconds=grace)
    world.advance(5)
    seen: list[Event] = []
    world.store.subscribe(seen.append)

    world.delete("pods", "p")
    world.advance(takes - 0.5)
    assert world.phases() == {"p": "Terminating"}
    world.advance(0.5)

    assert world.names() == set()
    last = next(e for e in seen if e.type == "DELETED" and e.resource == "pods").object
    (status,) = last["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == code
    assert last["status"]["phase"] == "Failed"


def test_the_stopping_of_each_container_is_an_event() -> None:
    world = SimulatedCluster().nodes("n1")
    two = [{"name": name, "image": "app:1"} for name in ("a", "b")]
    world.pod("p", containers=two)
    world.advance(10)
    world.delete("pods", "p")
    assert world.events("Killing") == ["Stopping container a", "Stopping container b"]


def test_of_a_pod_with_thousands_of_containers_only_some_have_an_event_when_they_stop() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", containers=[{"name": f"c{n}", "image": "app:1"} for n in range(2_000)])
    world.advance(10)
    world.delete("pods", "p")
    assert world.events("Killing") == [f"Stopping container c{n}" for n in range(25)]


@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_a_step_looks_after_one_pod_of_thousands_of_containers_and_the_next_after_another(
    kind: str,
) -> None:
    world = SimulatedCluster().nodes("n1")
    many = [{"name": f"i{n}", "image": "app:1"} for n in range(2_000)]
    for name in ("p1", "p2", "p3"):
        containers = {"containers": [{"name": "c", "image": "app:1"}]} | {kind: many}
        spec = {"nodeName": "n1", **containers}
        meta = {"name": name, "namespace": "default"}
        world.store.create("pods", {"metadata": meta, "spec": spec})
    kubelets = Kubelets(world.store, world.cluster.index, random.Random(1), Pace())
    for pod in world.store.list("pods"):
        kubelets.observe(Event("ADDED", "pods", pod, None, world.store.rv))

    admitted = []
    for _ in range(3):
        kubelets.step(world.clock.now())
        pods = world.store.list("pods")
        admitted.append([name_of(pod) for pod in pods if "startTime" in pod["status"]])
    assert admitted == [["p1"], ["p1", "p2"], ["p1", "p2", "p3"]]


def test_a_second_deletion_with_less_grace_ends_it_sooner() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", annotations=behaves("steady", shutdown_seconds="60"))
    world.advance(5)
    world.delete("pods", "p", grace_period_seconds=50)
    world.advance(5)

    world.delete("pods", "p", grace_period_seconds=10)
    world.advance(4)
    assert world.phases() == {"p": "Terminating"}
    world.advance(3)

    assert world.names() == set()


def test_a_forced_deletion_is_over_at_once() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p")
    world.advance(5)

    world.delete("pods", "p", grace_period_seconds=0)

    assert world.names() == set()


def test_a_crash_loop_restarts_after_growing_pauses() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", annotations=behaves("crash-loop", run_seconds="1"))
    seen = []
    for _ in range(60):
        world.advance(1)
        status = container(world)
        seen.append((status["restartCount"], next(iter(status["state"]))))

    assert seen.count((0, "waiting")) == 2 + 10 - 1
    assert seen.count((1, "waiting")) == 20
    assert seen[-1] == (2, "waiting")
    assert container(world)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container(world)["lastState"]["terminated"]["exitCode"] == 1
    assert world.phases() == {"p": "Running"}


def test_a_failing_pod_ends_failed_with_the_reason_asked_for() -> None:
    world = SimulatedCluster().nodes("n1")

    world.pod("p", annotations=behaves("fail", run_seconds="3", reason="Evicted", exit_code="7"))
    world.advance(6)

    status = world.status("pods", "p")
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert container(world)["state"]["terminated"]["exitCode"] == 7


def test_a_completing_pod_succeeds_unless_it_is_to_be_restarted() -> None:
    world = SimulatedCluster().nodes("n1")
    notes = behaves("complete", run_seconds="3")
    world.pod("once", annotations=notes, restartPolicy="OnFailure")
    world.pod("always", annotations=notes)

    world.advance(6)

    assert world.phases() == {"once": "Succeeded", "always": "Running"}
    assert container(world, "always")["state"]["waiting"]["reason"] == "CrashLoopBackOff"


def test_a_pod_whose_image_is_not_found_stays_pending_and_can_be_deleted() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", annotations=behaves("image-pull"))

    world.advance(100)
    assert world.phases() == {"p": "Pending"}
    assert container(world)["state"]["waiting"]["reason"] == "ImagePullBackOff"
    world.delete("pods", "p")

    assert world.names() == set()


def waits(world: SimulatedCluster, number: int = 0) -> str:
    """Return why a container of the pod p waits, "" where it does not."""
    containers = world.status("pods", "p")["containerStatuses"]
    reason: str = containers[number]["state"].get("waiting", {}).get("reason", "")
    return reason


def test_an_image_that_no_registry_has_is_pulled_ever_later() -> None:
    world = SimulatedCluster().nodes("n1")
    other = {"name": "other", "image": "example/other:1"}
    main = {"name": "main", "image": "registry.example/web:no-such-tag"}
    world.create("pods", "p", {"containers": [main, other]})
    world.advance(2)
    assert (waits(world), waits(world, 1)) == ("ErrImagePull", "")
    assert world.phases() == {"p": "Pending"}

    seen = []
    for _ in range(70):
        world.advance(1)
        seen.append(waits(world))
    pulled = [number for number, each in enumerate(seen) if each == "ErrImagePull"]
    assert pulled == [10, 31]  # ten seconds after the first failure, then twenty
    assert len([each for each in world.events("BackOff") if "no-such-tag" in each]) == 1
    main["image"] = "registry.example/web:1"
    world.edit("pods", "p", containers=[main, other])
    world.advance(60)
    assert world.phases() == {"p": "Ready"}


def test_an_init_container_whose_image_is_missing_keeps_the_others_waiting() -> None:
    world = SimulatedCluster().nodes("n1")
    first = {"name": "first", "image": "no-such-image"}
    world.create(
        "pods", "p", {"containers": [{"name": "main", "image": "a"}], "initContainers": [first]}
    )
    world.advance(3)

    init = world.status("pods", "p")["initContainerStatuses"]
    assert init[0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
    assert waits(world) == "PodInitializing"


def test_a_running_pod_that_is_annotated_anew_behaves_anew() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p")
    world.advance(5)

    def annotate(pod: dict[str, Any]) -> dict[str, Any]:
        pod["metadata"]["annotations"] = behaves("never-ready")
        return pod

    world.store.modify("pods", "default", "p", annotate)
    world.advance(1)
    assert world.phases() == {"p": "Running"}
    world.store.modify(
        "pods", "default", "p", lambda p: {**p, "metadata": {**p["metadata"], "annotations": {}}}
    )
    world.advance(1)

    assert world.phases() == {"p": "Ready"}


def test_pods_of_a_stopped_node_freeze_and_continue_when_it_starts() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("young")
    world.cluster.stop_node("n1")
    world.advance(30)
    assert world.phases() == {"young": "Pending"}

    world.cluster.start_node("n1")
    world.advance(5)

    assert world.phases() == {"young": "Ready"}


def test_chance_makes_some_pods_start_later() -> None:
    world = SimulatedCluster(pace=Pace(start_s=1.0, jitter_s=10.0)).nodes("n1")
    world.deployment("web", 10)

    world.advance(5)
    early = set(world.phases().values())
    world.advance(10)

    assert early == {"Ready", "Pending"}
    assert set(world.phases().values()) == {"Ready"}


def test_a_node_without_status_is_described_by_its_kubelet() -> None:
    world = SimulatedCluster()
    world.store.create("nodes", {"metadata": {"name": "bare"}})
    world.cluster.settle()

    status = world.status("nodes", "bare")

    assert status["allocatable"]["pods"] == "110"
    assert [c["type"] for c in status["conditions"] if c["status"] == "True"] == ["Ready"]
    assert {a["type"] for a in status["addresses"]} == {"InternalIP", "Hostname"}


def test_a_pod_of_the_same_name_starts_anew() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p", annotations=behaves("steady", start_seconds="100"))
    world.advance(5)
    world.store.delete("pods", "default", "p", DeleteOptions(grace_period_seconds=0))

    world.pod("p")
    world.advance(2)

    assert world.phases() == {"p": "Ready"}
