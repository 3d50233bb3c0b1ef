"""RemoveDuplicates on the simulated cluster: what it evens out stays even."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import SimulatedCluster

HOUR_S = 3600.0
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def descheduler(world: SimulatedCluster) -> DescheduledCluster:
    return DescheduledCluster(world, DuplicatesPlugin(DuplicatesArgs()))


def test_replicas_move_to_nodes_that_join_and_then_stay() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 6)
    running = descheduler(world).run(60)
    assert (running.pods_by_node("web"), running.evicted) == ({"n1": 6}, [])

    world.nodes("n2", "n3")
    running.run(60)

    assert running.pods_by_node("web") == {"n1": 2, "n2": 2, "n3": 2}
    assert len(running.evicted) == 4
    running.run(HOUR_S)
    assert (len(running.evicted), running.found_by_sweep()) == (4, [])


def test_evictions_under_way_do_not_lower_the_share_of_the_others() -> None:
    """Were pods that leave not counted, five and one would lose a third pod, to three and three."""
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 6, terminationGracePeriodSeconds=30)
    running = descheduler(world).run(60)

    world.nodes("n2")
    running.run(HOUR_S)

    assert running.pods_by_node("web") == {"n1": 3, "n2": 3}
    assert len(running.evicted) == 3


def test_what_a_disruption_budget_delays_follows() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 6)
    world.pdb("web", maxUnavailable=1)
    running = descheduler(world).run(60)

    world.nodes("n2", "n3")
    running.run(HOUR_S)

    assert running.pods_by_node("web") == {"n1": 2, "n2": 2, "n3": 2}
    assert len(running.evicted) == 4


def test_where_no_node_below_the_share_has_room_nothing_moves() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 6, cpu="500m")
    running = descheduler(world).run(60)

    world.nodes("n2", cpu="600m")  # the share is 3, and n2 has room for one
    running.run(HOUR_S)

    assert running.pods_by_node("web") == {"n1": 5, "n2": 1}
    assert len(running.evicted) == 1


def test_a_node_at_its_share_is_no_place_to_move_to() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("web", 5, cpu="500m")
    running = descheduler(world).run(60)
    assert sorted(running.pods_by_node("web").values()) == [2, 3]

    world.nodes("n3", cpu="100m")  # the share is 2, and n3 has room for none
    running.run(HOUR_S)

    assert running.evicted == []


def test_a_stateful_set_whose_pods_come_back_one_by_one_is_evened_out() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 6)
    running = descheduler(world).run(120)

    world.nodes("n2", "n3")
    running.run(HOUR_S)

    assert running.pods_by_node("db") == {"n1": 2, "n2": 2, "n3": 2}
    assert len(running.evicted) == 4


sizes = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 9), min_size=1)
steps = st.lists(
    st.tuples(st.just("join"), st.sampled_from(["n2", "n3", "n4", "n5"]))
    | st.tuples(st.just("cordon"), st.sampled_from(["n1", "n2", "n3"]))
    | st.tuples(st.just("uncordon"), st.sampled_from(["n1", "n2", "n3"]))
    | st.tuples(st.just("scale"), st.sampled_from(["a", "b", "c"]), st.integers(1, 9))
    | st.tuples(st.just("wait"), st.sampled_from([1.0, 5.0, 60.0])),
    max_size=8,
)


class Story:
    """A cluster that begins with one node and to which things happen."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.world = SimulatedCluster().nodes("n1")
        for name, replicas in sizes.items():
            self.world.deployment(name, replicas)
        self.world.advance(30)

    def tell(self, step: str, *of: Any) -> None:
        known = {each["metadata"]["name"] for each in self.world.store.list("nodes")}
        match step:
            case "join" if of[0] not in known:
                self.world.nodes(of[0])
            case "cordon" if of[0] in known:
                self.world.edit("nodes", of[0], unschedulable=True, taints=[CORDON])
            case "uncordon" if of[0] in known:
                self.world.edit("nodes", of[0], unschedulable=False, taints=[])
            case "scale" if self.world.store.get("deployments", "default", of[0]):
                self.world.edit("deployments", of[0], replicas=of[1])


@given(sizes, steps)
def test_whatever_happens_evictions_end_and_a_second_sweep_finds_nothing(
    sizes: dict[str, int], steps: list[tuple[Any, ...]]
) -> None:
    story = Story(sizes)
    running = descheduler(story.world)
    for step, *of in steps:
        if step == "wait":
            running.run(*of)
        else:
            story.tell(step, *of)
    running.run(600)
    at_rest = len(running.evicted)

    running.run(HOUR_S)

    assert len(running.evicted) == at_rest
    assert running.found_by_sweep() == []


@given(sizes, steps)
def test_what_a_sweep_evicts_is_placed_so_that_the_next_sweep_finds_nothing(
    sizes: dict[str, int], steps: list[tuple[Any, ...]]
) -> None:
    story = Story(sizes)
    for step, *of in steps:
        if step != "wait":
            story.tell(step, *of)
    story.world.advance(60)
    watching = descheduler(story.world)

    for pod in watching.found_by_sweep():
        story.world.evict(pod)
    story.world.advance(60)

    assert watching.found_by_sweep() == []
