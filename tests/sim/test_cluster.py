"""The whole world on one clock."""

import contextlib
import random
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.sim.clock import RealClock, VirtualClock
from reactive_desched.sim.cluster import ClusterOptions, NeverSettlesError, SimCluster
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.seed import seed
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import Event, Store
from reactive_desched.sim.workloads import populate
from tests.support.sim_world import START_S, SimulatedCluster


def run_a_day(chance: int) -> list[Any]:
    """Run a populated cluster through some trouble and return everything it holds."""
    clock = VirtualClock(START_S)
    rng = random.Random(chance)
    store = Store(clock, rng)
    seed(store)
    populate(store, nodes=5, pods=60, seed=chance)
    options = ClusterOptions(pace=Pace(jitter_s=5.0), random_ties=True)
    cluster = SimCluster(store, rng, options)
    cluster.advance(30)
    cluster.stop_node("node-2")
    cluster.advance(500)
    store.delete("nodes", "", "node-3")
    cluster.advance(500)
    return [store.list(resource) for resource in ("nodes", "pods", "replicasets", "events")]


def test_the_same_seed_gives_the_same_cluster_to_the_last_byte() -> None:
    assert run_a_day(7) == run_a_day(7)


def test_another_seed_gives_another() -> None:
    assert run_a_day(7) != run_a_day(8)


def test_a_cluster_that_is_opened_on_a_full_store_changes_nothing() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("web", 3)
    world.stateful_set("db", 2)
    world.pdb("web", maxUnavailable=1)
    world.advance(20)
    world.cluster.close()
    before = world.store.rv

    again = SimCluster(world.store, random.Random(1))
    again.advance(20)

    assert world.store.rv == before


def test_a_closed_cluster_does_nothing_more() -> None:
    world = SimulatedCluster().nodes("n1")
    world.cluster.close()

    world.deployment("web", 1)

    assert world.names() == set()


def test_time_is_spent_where_something_is_due() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("p")

    assert world.cluster.next_due() == START_S + 2
    world.advance(2)

    assert world.clock.now() == START_S + 2
    assert world.phases() == {"p": "Ready"}


def test_a_real_clock_cannot_be_advanced() -> None:
    store = Store(RealClock(), random.Random(1))

    with pytest.raises(TypeError, match="VirtualClock"):
        SimCluster(store, random.Random(1)).advance(1)


def break_a_budget(world: SimulatedCluster) -> None:
    """Store a budget that no controller can read."""
    meta = {"name": "bad", "namespace": "default"}
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": "app=web"}}
    world.store.create("poddisruptionbudgets", {"metadata": meta, "spec": spec})


def test_a_malformed_object_is_an_error_in_a_strict_world() -> None:
    with pytest.raises(msgspec.ValidationError):
        break_a_budget(SimulatedCluster())


def test_a_tolerant_world_logs_a_malformed_object_and_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SimulatedCluster(tolerant=True).nodes("n1")

    break_a_budget(world)
    world.deployment("web", 1, affinity={"nodeAffinity": "yes"})
    world.deployment("fine", 1)
    world.pdb("fine", maxUnavailable=1)
    world.advance(5)

    assert "DisruptionBudgets gave up on an object" in caplog.text
    assert list(world.phases("fine").values()) == ["Ready"]
    assert world.status("poddisruptionbudgets", "fine")["disruptionsAllowed"] == 1


class Restless:
    """A part that always has work."""

    watches = frozenset[str]()

    def observe(self, event: Event) -> None:
        """Ignore it."""

    def due(self) -> float | None:
        """Always."""
        return 0.0

    def step(self, now: float) -> None:
        """Do nothing about it."""


def test_a_world_that_never_rests_is_an_error_that_names_the_culprit() -> None:
    world = SimulatedCluster()
    world.cluster._controllers.append(Restless())

    with pytest.raises(NeverSettlesError, match="Restless"):
        world.cluster.settle()


@pytest.mark.anyio
async def test_in_real_time_a_write_is_followed_up_without_being_asked() -> None:
    store = Store(RealClock(), random.Random(1))
    seed(store)
    options = ClusterOptions(pace=Pace(start_s=0.01))
    cluster = SimCluster(store, random.Random(1), options)
    running = anyio.Event()

    def watch(event: Event) -> None:
        if event.resource == "pods" and event.object["status"].get("phase") == "Running":
            running.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cluster.run)
        await anyio.wait_all_tasks_blocked()
        populate(store, nodes=1, pods=2)
        store.subscribe(watch)
        with anyio.fail_after(60):
            await running.wait()
        tasks.cancel_scope.cancel()


trouble = st.lists(
    st.one_of(
        st.tuples(st.just("evict"), st.integers(0, 20)),
        st.tuples(st.just("cordon"), st.integers(1, 4)),
        st.tuples(st.just("uncordon"), st.integers(1, 4)),
        st.tuples(st.just("stop"), st.integers(1, 4)),
        st.tuples(st.just("start"), st.integers(1, 4)),
        st.tuples(st.just("wait"), st.integers(0, 120)),
    ),
    max_size=25,
)


def make_trouble(world: SimulatedCluster, what: str, number: int) -> None:
    """Do one thing to the cluster."""
    node = f"n{number}"
    match what:
        case "evict":
            names = sorted(world.names())
            # A budget may stand in the way.
            with contextlib.suppress(StatusError):
                world.evict(names[number % len(names)])
        case "wait":
            world.advance(number)
        case "cordon" | "uncordon":
            world.edit("nodes", node, unschedulable=what == "cordon")
        case _:
            turn = world.cluster.stop_node if what == "stop" else world.cluster.start_node
            turn(node)


@given(trouble)
def test_whatever_happens_the_cluster_heals_and_evictions_never_break_the_budget(
    story: list[tuple[str, int]],
) -> None:
    world = SimulatedCluster().nodes("n1/a", "n2/a", "n3/b", "n4/b")
    world.deployment("web", 6)
    world.stateful_set("db", 2)
    world.pdb("web", maxUnavailable=2)
    world.advance(30)
    for what, number in story:
        make_trouble(world, what, number)
        if not any(kind in ("stop", "start") for kind, _ in story):
            healthy = [s for s in world.phases("web").values() if s == "Ready"]
            assert len(healthy) >= 4

    for number in range(1, 5):
        make_trouble(world, "uncordon", number)
        make_trouble(world, "start", number)
    world.advance(700)

    assert sorted(world.phases("web").values()) == ["Ready"] * 6
    assert world.phases("db") == {"db-0": "Ready", "db-1": "Ready"}
    assert all(world.nodes_of_pods().values())
