"""Whatever happened before, the search answers as one that sees the cluster for the first time."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.fit import scheduler
from reactive_desched.fit.labels import READ_AT_ONCE
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.labels import EVERYTHING, parse_selector
from reactive_desched.model.objects import Node, NodeImage, Pod
from reactive_desched.primitives.long_answers import PORTION, AnswerTakesLong
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod
from tests.support.all_nodes import diagnose_all_nodes, fitting_nodes
from tests.support.small_clusters import RandomCluster

SELECTOR = parse_selector("disk!=ssd")
TARGETS = frozenset({"n2", "n3", "gone"})


class World:
    """One state, and a search that has followed it from the start."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.view = ClusterView(self.state, lambda: 0)
        self.fit = SchedulerNodeFit(self.view, lambda: 0)

    def check(self) -> None:
        """Compare what both say of every pod."""
        anew = SchedulerNodeFit(self.view, lambda: 0)
        for uid in self.view.pods():
            pod = self.view.pod(uid)
            assert pod is not None
            fitting = fitting_nodes(anew, pod)
            assert fitting_nodes(self.fit, pod) == fitting
            assert diagnose_all_nodes(self.fit, pod) == diagnose_all_nodes(anew, pod)
            self.check_search(pod, fitting)

    def check_search(self, pod: Pod, fitting: set[str]) -> None:
        ready = {room.name for room in self.view.ready_node_infos(SELECTOR)}
        others = (fitting & ready) - {pod.node}
        found = self.fit.find_other_node(pod, SELECTOR)
        assert found in others if others else found is None
        found = self.fit.find_other_node(pod, SELECTOR, TARGETS)
        assert found in others & TARGETS if others & TARGETS else found is None
        counting = fitting & {room.name for room in self.view.eligible_node_infos()}
        found = self.fit.find_any_node(pod)
        assert found in counting if counting else found is None
        best, _ = self.fit.explain_other_nodes(pod, SELECTOR)
        assert best == SchedulerNodeFit(self.view, lambda: 0).explain_other_nodes(pod, SELECTOR)[0]


@given(st.data(), st.integers(4, 25))
def test_after_any_changes_the_search_answers_as_a_new_one(data: st.DataObject, steps: int) -> None:
    world, clusters = World(), RandomCluster()
    for step in range(steps):
        world.fit.apply_changes(clusters.change(data, world.state), 0.0)
        if step % 3 == 0:
            world.check()
    world.check()


def test_many_nodes_that_changed_are_followed_in_steps_where_answers_are_wanted_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler, "NODES_PER_SYNC", 1)
    world, mover = World(), pod("mover", on="n1")
    for number in range(1, 4):
        world.state.upsert(node(f"n{number}"))
    world.state.upsert(mover)

    with pytest.raises(AnswerTakesLong) as asked, world.fit.long_answers:
        world.fit.find_node_among(mover, {"n3"})
    assert sum(1 for _ in asked.value.steps) == 2

    with world.fit.long_answers:
        assert world.fit.find_node_among(mover, {"n3"}) == "n3"
    world.state.upsert(node("n2", unschedulable=True))
    with world.fit.long_answers:
        assert world.fit.find_node_among(mover, {"n2"}) is None, "one node is few"


SCORED = 3 * PORTION
TARGET = frozenset({"n001"})


def large_world(*pods: Pod) -> World:
    world = World()
    for number in range(SCORED):
        allocatable = {"cpu": f"{8 + number % 5}", "memory": "64Gi", "pods": "110"}
        world.state.upsert(node(f"n{number:03}", allocatable=allocatable))
    for each in pods:
        world.state.upsert(each)
    return world


def elsewhere(fit: SchedulerNodeFit, mover: Pod) -> str:
    while not fit.sync():
        pass
    return fit.scored_elsewhere(mover, TARGET)


def elsewhere_in_steps(
    world: World, mover: Pod, between: Callable[[int], object] = lambda _: None
) -> tuple[str, int]:
    """Return the answer, and after how many steps it came."""
    steps = 0
    while not world.fit.sync():
        pass
    for _ in range(9):
        try:
            with world.fit.long_answers:
                return world.fit.scored_elsewhere(mover, TARGET), steps
        except AnswerTakesLong as asked:
            for _ in asked.steps:
                steps += 1
                between(steps)
    raise AssertionError("it is asked for without end")


def test_all_nodes_are_scored_in_steps_where_answers_are_wanted_so() -> None:
    mover, other = (pod(name, on="n000", requests={"cpu": name[-1]}) for name in ("m1", "m2"))
    world = large_world(mover, other)
    best = elsewhere(SchedulerNodeFit(world.view, lambda: 0), mover)

    found, steps = elsewhere_in_steps(world, mover)
    assert found == best != ""
    assert steps >= 2 * SCORED / PORTION - 1
    assert elsewhere_in_steps(world, mover) == (best, 0)
    assert elsewhere_in_steps(world, other)[1] >= SCORED / PORTION


def test_scores_that_are_left_in_the_middle_are_gone_on_with() -> None:
    mover = pod("mover", on="n000", requests={"cpu": "1"})
    world = large_world(mover)
    while not world.fit.sync():
        pass
    with pytest.raises(AnswerTakesLong) as asked, world.fit.long_answers:
        world.fit.scored_elsewhere(mover, TARGET)
    getattr(asked.value.steps, "close")()  # noqa: B009 -- as who asked for it and went away

    best = elsewhere(SchedulerNodeFit(world.view, lambda: 0), mover)
    assert elsewhere_in_steps(world, mover)[0] == best


def test_nodes_that_change_between_two_steps_are_scored_as_they_are() -> None:
    mover = pod("mover", on="n000", requests={"cpu": "1"})
    world = large_world(mover)
    before = elsewhere(SchedulerNodeFit(world.view, lambda: 0), mover)

    def fill(step: int) -> None:
        for number in range(2, SCORED, 5) if step == 2 * SCORED // PORTION else ():
            on = f"n{number:03}"
            world.state.upsert(pod(f"full-{number}", on=on, requests={"cpu": "6"}))
        while not world.fit.sync():  # as with any other question
            pass

    found, steps = elsewhere_in_steps(world, mover, fill)
    anew = elsewhere(SchedulerNodeFit(world.view, lambda: 0), mover)
    assert elsewhere(world.fit, mover) == anew
    assert found == anew != before
    assert steps > 2 * SCORED // PORTION


def with_image(name: str, *images: str, size: int = 900_000_000) -> Node:
    return replace(
        node(name, allocatable={"cpu": "8", "memory": "64Gi", "pods": "110"}),
        images=tuple(NodeImage((image,), size) for image in images),
    )


def test_images_that_come_while_they_are_sought_count() -> None:
    mover = pod("mover", on="n000", requests={"cpu": "1"})
    mover = replace(mover, spec=replace(mover.spec, images=("app",)))
    world = World()
    for number in range(SCORED):
        world.state.upsert(with_image(f"n{number:03}", *["app:latest"] * (number < SCORED - 9)))
    world.state.upsert(mover)

    def move(step: int) -> None:
        """Have one of the nodes that had the image alone keep it, when the first were looked at."""
        if step == SCORED // PORTION + 1:
            for number in range(SCORED):
                world.state.upsert(with_image(f"n{number:03}", *["app:latest"] * (number == 7)))
            while not world.fit.sync():
                pass

    for number in range(SCORED // 2):
        world.state.upsert(with_image(f"n{number:03}", "app:latest", size=5_000_000_000))
    assert elsewhere_in_steps(world, mover, move)[0] == elsewhere(world.fit, mover)
    world.check()


def test_many_targets_are_looked_up_in_steps_where_answers_are_wanted_so() -> None:
    world, mover = World(), pod("mover", on="n0")
    size = 2 * READ_AT_ONCE
    for number in range(size):
        world.state.upsert(node(f"n{number}"))
    world.state.upsert(mover)
    targets = frozenset(f"n{number}" for number in range(1, size))
    world.check()

    with pytest.raises(AnswerTakesLong) as asked, world.fit.long_answers:
        world.fit.find_other_node(mover, EVERYTHING, targets)
    assert sum(1 for _ in asked.value.steps) == 2
    with world.fit.long_answers:
        assert world.fit.find_other_node(mover, EVERYTHING, targets) in targets

    world.state.upsert(node("n0", labels={"new": "x"}))
    with pytest.raises(AnswerTakesLong) as asked, world.fit.long_answers:
        world.fit.find_other_node(mover, EVERYTHING, targets)
    assert world.fit.find_other_node(mover, EVERYTHING, targets) in targets
