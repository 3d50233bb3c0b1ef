"""What comes to a simulated cluster while one watches, on a clock that jumps to what is next."""

import random
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
import trio.testing

from reactive_desched.sim import scenario_events
from reactive_desched.sim.cluster import ClusterOptions, SimCluster
from reactive_desched.sim.conditions import condition_status, find_condition
from reactive_desched.sim.objects import Obj, labels_of, name_of
from reactive_desched.sim.pods import node_of
from reactive_desched.sim.scenario_events import NAMESPACE
from reactive_desched.sim.seed import seed
from reactive_desched.sim.store import Store
from tests.support.sim_world import START_S, node, workload

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class TrioClock:
    """The clock of the test as the cluster's."""

    def now(self) -> float:
        """Return the present moment."""
        return START_S + trio.current_time()


class EventfulCluster:
    """A cluster that runs by itself, and to which something comes."""

    def __init__(self, *nodes: str) -> None:
        self.store = Store(TrioClock(), random.Random(1))
        seed(self.store)
        self.store.create("namespaces", {"metadata": {"name": NAMESPACE}})
        for name in nodes:
            self.store.create("nodes", node(name))
        self.seen: list[Obj] = []
        self.store.subscribe(lambda event: self.seen.append(event.object))
        self.cluster = SimCluster(self.store, random.Random(2), ClusterOptions())

    def deploy(self, name: str, replicas: int, **template: Any) -> None:
        """Create a Deployment in the namespace of the scenarios."""
        meta = {"name": name, "namespace": NAMESPACE}
        self.store.create(
            "deployments", {"metadata": meta, "spec": workload(name, replicas, **template)}
        )

    async def run(
        self, events: Callable[[Store], Coroutine[Any, Any, None]], seconds: float
    ) -> None:
        """Let what comes come for so long."""
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(self.cluster.run)
                group.start_soon(events, self.store)

    def reasons(self) -> set[str]:
        """Return the reasons of the Events so far."""
        return {str(each["reason"]) for each in self.store.list("events")}

    def pods(self, app: str) -> list[Obj]:
        """Return the pods of an app."""
        return [each for each in self.store.list("pods") if labels_of(each).get("app") == app]


async def test_storm_taints_the_zones_in_turn() -> None:
    world = EventfulCluster("n1/a", "n2/b")

    await world.run(scenario_events.storm, 30 + 100)

    tainted = {
        name_of(each): [taint["key"] for taint in each["spec"].get("taints") or ()]
        for each in world.store.list("nodes")
    }
    assert tainted == {"n1": ["storm"], "n2": []}


async def test_pressure_lets_a_pod_use_all_memory_until_its_kubelet_ends_it() -> None:
    world = EventfulCluster("n1", "n2")
    world.deploy(
        scenario_events.LEAKY, 1, annotations={"sim.reactive-desched/usage-memory": "64Mi"}
    )

    await world.run(scenario_events.pressure, 60)

    ended = [pod for pod in world.pods("leaky") if pod["status"].get("reason") == "Evicted"]
    assert len(ended) == 1
    full = world.store.get("nodes", "", node_of(ended[0]))
    assert condition_status(full or {}, "MemoryPressure") == "True"


async def test_preemption_asks_for_pods_that_displace_others_and_ends_them_again() -> None:
    world = EventfulCluster("n1")
    for name, value in (("low", 0), ("high", 1000)):
        world.store.create("priorityclasses", {"metadata": {"name": name}, "value": value})
    world.deploy("crunch", 2, cpu="2", priorityClassName="low")
    world.deploy(scenario_events.URGENT, 0, cpu="2", priorityClassName="high")

    await world.run(scenario_events.preemption, 60)
    assert "Preempted" in world.reasons()
    assert {node_of(pod) for pod in world.pods("urgent")} == {"n1"}


async def test_batch_creates_a_job_each_minute_and_one_in_three_fails() -> None:
    world = EventfulCluster("n1")

    await world.run(scenario_events.batch, 400)

    outcomes = {
        name_of(job): condition["type"]
        for job in world.store.list("jobs")
        for condition in job["status"].get("conditions") or ()
        if condition["status"] == "True"
    }
    assert outcomes["import-2"] == "Complete"
    assert outcomes["import-3"] == "Failed"


async def test_the_autoscaler_adds_nodes_for_pods_that_wait_and_takes_empty_ones_away() -> None:
    world = EventfulCluster("n1", "n2")  # of four cores each: a wave asks for twelve

    await world.run(scenario_events.autoscaler, 200)
    joined = {name_of(each) for each in world.store.list("nodes")}
    assert joined == {"n1", "n2", "added-1"}
    assert all(node_of(pod) for pod in world.pods("wave"))


async def test_the_autoscaler_keeps_half_of_the_nodes_that_there_were() -> None:
    world = EventfulCluster("n1", "n2", "n3", "n4")

    await world.run(scenario_events.autoscaler, 30 + 180 + 150)

    assert len(world.store.list("nodes")) == 2
    assert find_condition(world.store.list("nodes")[0], "Ready") is not None
