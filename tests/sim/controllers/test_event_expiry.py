"""Events do not pile up."""

from tests.support.sim_world import SimulatedCluster


def test_an_event_is_forgotten_an_hour_after_its_last_write() -> None:
    world = SimulatedCluster()
    world.pod("p")
    assert len(world.events("FailedScheduling")) == 1
    world.delete("pods", "p")

    world.advance(3599)
    assert len(world.events("FailedScheduling")) == 1
    world.advance(1)

    assert world.events("FailedScheduling") == []


def test_an_event_that_repeats_is_counted_and_kept() -> None:
    world = SimulatedCluster()
    world.pod("p")

    world.advance(3700)

    (event,) = [e for e in world.store.list("events") if e["reason"] == "FailedScheduling"]
    assert event["count"] == 13


def test_beyond_ten_thousand_the_oldest_go_first() -> None:
    world = SimulatedCluster()
    for number in range(10_003):
        meta = {"name": f"e{number:05}", "namespace": "default"}
        world.store.create("events", {"metadata": meta, "reason": "Flood"})

    world.cluster.settle()

    names = [event["metadata"]["name"] for event in world.store.list("events")]
    assert (len(names), names[0]) == (10_000, "e00003")
