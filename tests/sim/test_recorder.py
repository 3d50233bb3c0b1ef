"""Events are written once and counted when they repeat."""

from reactive_desched.sim.recorder import Recorder
from tests.support.sim_world import SimulatedCluster


def test_a_repetition_is_counted_instead_of_written_again() -> None:
    world = SimulatedCluster().nodes("n1")
    pod = world.pod("p")
    recorder = Recorder(world.store, "tester")

    recorder.warning(pod, "Trouble", "Testing", "it hurts")
    world.advance(60)
    recorder.warning(pod, "Trouble", "Testing", "it hurts")
    recorder.warning(pod, "Trouble", "Testing", "it hurts more")

    events = [e for e in world.store.list("events") if e["reason"] == "Trouble"]
    told = sorted((event["message"], event["count"]) for event in events)
    assert told == [("it hurts", 2), ("it hurts more", 1)]
    first = next(event for event in events if event["count"] == 2)
    assert first["firstTimestamp"] < first["lastTimestamp"]
    assert first["involvedObject"]["uid"] == pod["metadata"]["uid"]
    assert (first["type"], first["source"]) == ("Warning", {"component": "tester"})


def test_an_event_about_a_node_is_in_the_default_namespace() -> None:
    world = SimulatedCluster().nodes("n1")

    Recorder(world.store, "tester").normal(world.get("nodes", "n1"), "Fine", "Testing", "well")

    (event,) = [e for e in world.store.list("events") if e["reason"] == "Fine"]
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]


def test_nothing_is_written_into_a_namespace_on_its_way_out() -> None:
    world = SimulatedCluster().nodes("n1")
    world.store.create("namespaces", {"metadata": {"name": "shop"}})
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": "n1"}
    pod = world.store.create("pods", {"metadata": {"name": "p", "namespace": "shop"}, "spec": spec})
    world.advance(5)
    world.delete("namespaces", "shop")

    Recorder(world.store, "tester").normal(pod, "Fine", "Testing", "well")

    assert world.events("Fine") == []
