import pytest

from reactive_desched.controller.event_handler import ResourceEventHandler
from reactive_desched.controller.sync import SyncStatus
from reactive_desched.errors import Malformed
from reactive_desched.model.changes import Change, NodeAdded, NodeGone, NodeTaintsChanged, PodGone
from reactive_desched.model.objects import (
    Job,
    OwnerReference,
    PersistentVolumeClaim,
    PriorityClass,
    ReplicaSet,
)
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.resources import RESOURCES
from reactive_desched.testing.builders import node, pod

ABOVE = OwnerReference("Deployment", "web", "d", controller=True)


class Bench:
    """The feeds of every resource over one state, and all that was told."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.synced = SyncStatus(RESOURCES, lambda: None)
        self.told: list[Change] = []
        self.versions: list[int] = []
        self.malformed: list[tuple[str, str]] = []
        self.feeds = {
            resource: ResourceEventHandler(
                resource,
                self.state,
                self.synced,
                self._tell,
                lambda what, error: self.malformed.append((what, error.name)),
            )
            for resource in RESOURCES
        }
        self.nodes = self.feeds["nodes"]

    def _tell(self, changes: list[Change], version: int) -> None:
        self.told += changes
        self.versions += [version] * len(changes)

    def news(self) -> list[Change]:
        """Return, once, what was told."""
        told = list(self.told)
        self.told.clear()
        return told


def test_what_comes_in_becomes_changes() -> None:
    bench = Bench()
    bench.nodes.upsert(node("n1"))
    assert bench.news() == [NodeAdded("n1")]
    bench.nodes.upsert(node("n1"))
    assert bench.news() == []
    bench.nodes.remove(node("n1"))
    assert bench.news() == [NodeGone("n1")]
    bench.nodes.remove(node("n1"))
    assert bench.news() == []


def test_changes_come_with_the_version_of_the_object_that_was_told() -> None:
    bench = Bench()
    bench.nodes.upsert(node("n1", version=5))
    bench.nodes.remove(node("n1", version=7))
    bench.nodes.upsert(node("n2", version=8))
    bench.nodes.begin_replace()
    bench.nodes.end_replace()

    assert bench.told == [NodeAdded("n1"), NodeGone("n1"), NodeAdded("n2"), NodeGone("n2")]
    assert bench.versions == [5, 7, 8, 0]


@pytest.mark.parametrize(
    ("resource", "thing"),
    [("replicasets", ReplicaSet("r", 5, ABOVE)), ("jobs", Job("r", 5, ABOVE))],
)
def test_what_controls_an_owner_is_taken_in_without_a_word(
    resource: str, thing: ReplicaSet | Job
) -> None:
    bench = Bench()
    feed = bench.feeds[resource]
    feed.upsert(thing)
    assert list(bench.state.keys(resource)) == ["r"]
    feed.remove(thing)
    assert list(bench.state.keys(resource)) == []

    feed.upsert(thing)
    feed.begin_replace()
    feed.upsert(type(thing)("s", 6, ABOVE))
    feed.end_replace()
    assert list(bench.state.keys(resource)) == ["s"]
    assert bench.told == []


def test_what_a_whole_new_picture_lacks_is_gone_at_its_end_and_not_before() -> None:
    bench = Bench()
    for name in ("kept", "missing"):
        bench.nodes.upsert(node(name))
    bench.news()

    bench.nodes.begin_replace()
    bench.nodes.upsert(node("kept", "gpu:NoSchedule"))
    bench.nodes.upsert(node("new"))
    assert bench.news() == [NodeTaintsChanged("kept"), NodeAdded("new")]
    bench.nodes.end_replace()
    assert bench.news() == [NodeGone("missing")]


def test_a_picture_of_one_resource_takes_nothing_of_another_away() -> None:
    bench = Bench()
    bench.nodes.upsert(node("n1"))
    bench.feeds["pods"].upsert(pod("web", on="n1"))
    bench.news()
    bench.nodes.begin_replace()
    bench.nodes.upsert(node("n1"))
    bench.nodes.end_replace()

    assert bench.news() == []


def test_every_resource_forgets_what_its_new_picture_lacks() -> None:
    bench = Bench()
    bench.feeds["pods"].upsert(web := pod("web", on="n1"))
    bench.feeds["priorityclasses"].upsert(PriorityClass("high"))
    bench.feeds["persistentvolumeclaims"].upsert(PersistentVolumeClaim("shop", "data"))
    bench.feeds["replicasets"].upsert(ReplicaSet("r", 1, ABOVE))
    bench.feeds["jobs"].upsert(Job("j", 1, ABOVE))
    for feed in bench.feeds.values():
        feed.begin_replace()
        feed.end_replace()

    assert PodGone(web) in bench.news()
    assert all(list(bench.state.keys(resource)) == [] for resource in RESOURCES)


def test_a_pod_of_the_same_name_in_the_new_picture_does_not_save_the_old_one() -> None:
    bench = Bench()
    pods = bench.feeds["pods"]
    pods.upsert(old := pod("web", on="n1", uid="old"))
    bench.news()
    pods.begin_replace()
    pods.upsert(pod("web", on="n1", uid="new"))
    pods.end_replace()

    assert PodGone(old) in bench.news()
    assert bench.state.keys("pods") == ["new"]


def test_a_replacement_begun_anew_forgets_what_the_first_had_seen() -> None:
    bench = Bench()
    for name in ("n1", "n2"):
        bench.nodes.upsert(node(name))
    bench.nodes.begin_replace()
    bench.nodes.upsert(node("n1"))
    bench.nodes.begin_replace()
    bench.nodes.upsert(node("n2"))
    bench.nodes.end_replace()

    assert bench.state.keys("nodes") == ["n2"]


def test_what_is_removed_while_the_picture_is_replaced_is_not_removed_twice() -> None:
    bench = Bench()
    bench.nodes.upsert(node("n1"))
    bench.news()
    bench.nodes.begin_replace()
    bench.nodes.remove(node("n1"))
    bench.nodes.end_replace()

    assert bench.news() == [NodeGone("n1")]


def test_after_a_replacement_nothing_is_missing_any_more() -> None:
    bench = Bench()
    bench.nodes.begin_replace()
    bench.nodes.end_replace()
    bench.nodes.upsert(node("n1"))
    bench.nodes.end_replace()

    assert bench.state.keys("nodes") == ["n1"]
    assert bench.nodes._missing is None


def test_a_picture_counts_while_it_is_whole_and_followed() -> None:
    bench = Bench()

    def lack() -> str:
        return bench.synced.reasons()["nodes"]

    bench.nodes.begin_replace()
    assert lack() == "a new list is being taken in"
    bench.nodes.end_replace()
    assert lack() == "waiting for a watch"
    bench.nodes.mark_synced()
    assert lack() == ""
    bench.nodes.mark_stale("connection refused")
    assert lack() == "connection refused"


def test_the_new_picture_is_not_called_whole_before_what_it_lacks_is_gone() -> None:
    known: list[list[str]] = []
    state = ClusterState()
    synced = SyncStatus(("nodes",), lambda: known.append(list(state.keys("nodes"))))
    feed = ResourceEventHandler("nodes", state, synced, lambda *_: None, lambda *_: None)
    feed.upsert(node("n1"))
    feed.begin_replace()
    feed.end_replace()

    assert known == [["n1"], []]


def test_an_object_that_cannot_be_read_is_told_with_its_resource() -> None:
    bench = Bench()
    bench.nodes.report_malformed(Malformed("Node", "n1", "spec is no object"))

    assert bench.malformed == [("nodes", "n1")]


def test_what_nobody_may_tell_us_of_is_known_as_such_until_it_is_told_after_all() -> None:
    bench = Bench()
    volumes = bench.feeds["persistentvolumes"]
    volumes.mark_denied("403")
    assert not bench.state.is_readable("persistentvolumes")

    volumes.begin_replace()
    volumes.end_replace()
    assert bench.state.is_readable("persistentvolumes")
