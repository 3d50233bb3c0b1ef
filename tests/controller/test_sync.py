from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from reactive_desched.controller.asked_kinds import asked_kinds
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.readiness import PauseStatus, Readiness, sync_pause
from reactive_desched.controller.sync import ResourceEventHandler
from reactive_desched.errors import Malformed
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeGone,
    NodeTaintsChanged,
    PodBound,
    PodGone,
    WorkloadChanged,
)
from reactive_desched.model.node_load import make_rule
from reactive_desched.model.objects import (
    ClusterObject,
    Job,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PriorityClass,
    ReplicaSet,
)
from reactive_desched.model.observer import Observer
from reactive_desched.model.rights import Right
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.indexes.node_loads import NodeLoads
from reactive_desched.state.resources import RESOURCES, RESOURCES_TO_SYNC, WATCHED_KINDS
from reactive_desched.testing.builders import node, pod
from tests.support.assembly_bench import make_config, make_profile
from tests.support.flow import MemoryIntentStore, never_suspended
from tests.support.golden import Golden

ABOVE = OwnerReference("Deployment", "web", "d", controller=True)


class Applied(Controller):
    """A controller that keeps what is applied to it."""

    def __init__(self) -> None:
        observer, wakeup = Observer(), Wakeup()
        super().__init__(
            make_config(),
            readiness=Readiness(RESOURCES_TO_SYNC, observer, wakeup),
            recorder=MemoryIntentStore(),
            observer=observer,
            work_available=wakeup,
            suspend=never_suspended(),
            clock=lambda: 0.0,
            wall_clock=lambda: 0.0,
        )
        self.applied: list[Change] = []
        self.versions: list[int] = []

    def apply(self, changes: Sequence[Change], version: int = 0) -> bool:
        self.applied += changes
        self.versions += [version] * len(changes)
        return True


class Bench(Observer):
    """The event handlers of every resource over one state, and what they applied."""

    def __init__(self) -> None:
        self.controller = Applied()
        self.state = self.controller.state
        self.wakes = 0
        self.malformed: list[tuple[str, str]] = []
        self.missing: list[tuple[str, str]] = []
        self.handlers = {
            resource: ResourceEventHandler(resource, self.controller, self, self)  # type: ignore[arg-type]  # what a handler uses of a worker
            for resource in RESOURCES
        }
        self.nodes = self.handlers["nodes"]

    def wake(self) -> None:
        self.wakes += 1

    def on_malformed(self, resource: str, error: Malformed) -> None:
        self.malformed.append((resource, error.name))

    def on_resource_missing(self, resource: str, effect: str, reason: str) -> None:
        self.missing.append((resource, reason))

    def reason(self, resource: str) -> str:
        return self.controller.readiness.pauses[sync_pause(resource)].reason

    def news(self) -> list[Change]:
        """Return, once, what was applied."""
        applied = list(self.controller.applied)
        self.controller.applied.clear()
        return applied


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


@pytest.mark.parametrize("started", [False, True])
def test_a_list_replaces_the_objects_before_it_and_makes_changes_once_all_was_evaluated(
    started: bool,  # noqa: FBT001 -- a case of the test
) -> None:
    bench = Bench()
    pods = bench.handlers["pods"]
    pods.upsert(pod("old", on="n1"))
    pods.upsert(pod("web", on="n1"))
    bench.news()
    if started:
        bench.controller.evaluator.resync(0.0)
    pods.begin_replace()
    pods.upsert_many([pod("web", on="n1"), pod("db", on="n1")])

    assert (PodBound(pod("db", on="n1")) in bench.news()) is started
    pods.end_replace()
    assert {each.name for each in bench.state.pods} == {"web", "db"}


def test_changes_come_with_the_version_of_the_object_that_was_received() -> None:
    bench = Bench()
    bench.nodes.upsert(node("n1", version=5))
    bench.nodes.remove(node("n1", version=7))
    bench.nodes.upsert(node("n2", version=8))
    bench.nodes.begin_replace()
    bench.nodes.end_replace()

    assert bench.controller.applied == [
        NodeAdded("n1"),
        NodeGone("n1"),
        NodeAdded("n2"),
        NodeGone("n2"),
    ]
    assert bench.controller.versions == [5, 7, 8, 0]


@pytest.mark.parametrize(
    ("resource", "thing"),
    [("replicasets", ReplicaSet("r", 5, ABOVE)), ("jobs", Job("r", 5, ABOVE))],
)
def test_what_controls_an_owner_is_taken_in_and_announced_by_its_uid(
    resource: str, thing: ReplicaSet | Job
) -> None:
    bench = Bench()
    feed = bench.handlers[resource]
    feed.upsert(thing)
    assert list(bench.state.keys(resource)) == ["r"]
    feed.upsert(thing)
    assert bench.news() == [WorkloadChanged("r")]
    feed.remove(thing)
    assert list(bench.state.keys(resource)) == []

    feed.upsert(thing)
    feed.begin_replace()
    feed.upsert(type(thing)("s", 6, ABOVE))
    feed.end_replace()
    assert list(bench.state.keys(resource)) == ["s"]
    uids = [change.uid for change in bench.news() if isinstance(change, WorkloadChanged)]
    assert sorted(uids) == ["r", "r", "r", "s"]


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
    bench.handlers["pods"].upsert(pod("web", on="n1"))
    bench.news()
    bench.nodes.begin_replace()
    bench.nodes.upsert(node("n1"))
    bench.nodes.end_replace()

    assert bench.news() == []


def test_every_resource_forgets_what_its_new_picture_lacks() -> None:
    bench = Bench()
    bench.handlers["pods"].upsert(web := pod("web", on="n1"))
    bench.handlers["priorityclasses"].upsert(PriorityClass("high"))
    bench.handlers["persistentvolumeclaims"].upsert(PersistentVolumeClaim("shop", "data"))
    bench.handlers["replicasets"].upsert(ReplicaSet("r", 1, ABOVE))
    bench.handlers["jobs"].upsert(Job("j", 1, ABOVE))
    for feed in bench.handlers.values():
        feed.begin_replace()
        feed.end_replace()

    assert PodGone(web) in bench.news()
    assert all(list(bench.state.keys(resource)) == [] for resource in RESOURCES)


def test_a_pod_of_the_same_name_in_the_new_picture_does_not_save_the_old_one() -> None:
    bench = Bench()
    pods = bench.handlers["pods"]
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
    bench.nodes.upsert(node("n0"))
    bench.nodes.begin_replace()
    bench.nodes.end_replace()
    bench.nodes.upsert(node("n1"))
    bench.nodes.end_replace()

    assert bench.state.keys("nodes") == ["n1"]
    assert bench.nodes._listed is None


@pytest.mark.parametrize("resource", ["pods", "nodes", "replicasets"])
def test_what_a_new_list_lacks_is_removed_in_steps(resource: str) -> None:
    def made(number: int) -> ClusterObject:
        if resource == "pods":
            return pod(f"p{number}")
        return node(f"n{number}") if resource == "nodes" else ReplicaSet(f"r{number}", 5, ABOVE)

    bench = Bench()
    feed = bench.handlers[resource]
    before = [made(number) for number in range(40)]
    feed.upsert_many(before)
    kept = before[::3]
    feed.begin_replace()
    feed.upsert_many(kept)
    left = [len(bench.state.keys(resource)) for _ in feed.remove_unlisted()]

    assert left == sorted(left, reverse=True)
    assert {*range(len(kept), 40)} <= {*left}
    feed.end_replace()
    assert sorted(bench.state.keys(resource)) == sorted(each.key for each in kept)


def test_a_resource_is_in_sync_while_its_list_is_complete_and_a_watch_is_open(
    golden: Golden,
) -> None:
    bench = Bench()
    assert bench.reason("nodes") == golden("first list")
    bench.nodes.mark_synced()
    assert bench.reason("nodes") == golden("first list"), "a watch without any list"

    bench.nodes.begin_replace()
    assert bench.reason("nodes") == golden("new list")
    bench.nodes.mark_synced()
    assert bench.reason("nodes") == golden("new list"), "the list is not complete"
    bench.nodes.end_replace()
    assert bench.reason("nodes") == "waiting for a watch"
    bench.nodes.mark_synced()
    assert bench.reason("nodes") == ""

    bench.nodes.mark_stale("connection refused")
    assert bench.reason("nodes") == "connection refused"
    bench.nodes.mark_synced()
    assert bench.reason("nodes") == ""
    bench.nodes.mark_stale("")
    assert bench.reason("nodes") == "the watch is lost"


def test_the_worker_is_woken_by_changes_and_when_a_resource_is_in_sync() -> None:
    bench = Bench()
    bench.nodes.upsert(node("n1"))
    bench.nodes.upsert(node("n1"))
    assert bench.wakes == 1

    bench.nodes.begin_replace()
    bench.nodes.upsert(node("n1"))
    bench.nodes.end_replace()
    bench.nodes.mark_synced()
    assert bench.wakes == 2


def test_an_optional_resource_that_is_denied_holds_nothing_until_it_can_be_read() -> None:
    bench = Bench()
    volumes = bench.handlers["persistentvolumes"]
    volumes.mark_denied("403")
    volumes.mark_denied("403")
    assert bench.missing == [("persistentvolumes", "403")]
    assert bench.reason("persistentvolumes") == ""
    assert "403" in bench.controller.readiness.pauses["sync/persistentvolumes"].note
    volumes.mark_stale("500")
    assert bench.reason("persistentvolumes") == ""

    volumes.begin_replace()
    assert bench.reason("persistentvolumes") != ""
    volumes.end_replace()
    volumes.mark_synced()
    assert bench.controller.readiness.pauses["sync/persistentvolumes"] == PauseStatus()
    volumes.mark_stale("lost")
    assert bench.reason("persistentvolumes") == "lost"


CLASSES_DENIED = "GET /apis/scheduling.k8s.io/v1/priorityclasses: 403 no"


def test_a_resource_that_nothing_reads_holds_nothing_until_a_policy_reads_it(
    golden: Golden,
) -> None:
    bench = Bench()
    readiness, classes = bench.controller.readiness, bench.handlers["priorityclasses"]
    readiness.set_asked(asked_kinds(make_config()))

    assert classes.mark_denied(CLASSES_DENIED)

    classes.mark_stale(CLASSES_DENIED)
    assert bench.reason("priorityclasses") == ""
    assert readiness.pauses["sync/priorityclasses"].note == golden()

    threshold = make_profile(priorityThreshold={"name": "low"})
    readiness.set_asked(asked_kinds(make_config(threshold)))

    assert bench.reason("priorityclasses") == CLASSES_DENIED
    assert not classes.mark_denied(CLASSES_DENIED)
    classes.mark_stale("the watch is lost")
    assert bench.reason("priorityclasses") == "the watch is lost"


def test_the_pause_for_a_right_that_is_missing_names_it_from_the_first_denial_on() -> None:
    bench = Bench()
    bench.handlers["poddisruptionbudgets"].mark_stale(
        "watch /apis/policy/v1/poddisruptionbudgets: 403 no"
    )

    right = bench.controller.readiness.pauses["sync/poddisruptionbudgets"].right
    assert right == Right("policy", "poddisruptionbudgets", ("list", "watch"))


@pytest.mark.parametrize("resource", ["poddisruptionbudgets", "pods"])
def test_a_needed_resource_that_is_not_served_says_what_serves_it(
    resource: str, golden: Golden
) -> None:
    bench = Bench()
    path = WATCHED_KINDS[resource].path
    bench.handlers[resource].mark_stale(f"list {path}: 404 not found")

    assert bench.reason(resource) == golden()


def test_a_resource_that_is_needed_is_waited_for_however_often_it_is_denied(golden: Golden) -> None:
    bench = Bench()
    bench.handlers["pods"].mark_denied("403")

    assert bench.missing == []
    assert bench.reason("pods") == golden()


def test_an_object_that_cannot_be_read_is_reported_with_its_resource() -> None:
    bench = Bench()
    bench.nodes.report_malformed(Malformed("Node", "n1", "spec is no object"))

    assert bench.malformed == [("nodes", "n1")]


def test_a_forbidden_resource_is_known_as_unreadable_until_it_is_listed_after_all() -> None:
    bench = Bench()
    volumes = bench.handlers["persistentvolumes"]
    volumes.mark_denied("403")
    assert not bench.state.is_readable("persistentvolumes")

    volumes.begin_replace()
    volumes.end_replace()
    assert bench.state.is_readable("persistentvolumes")


def test_measured_use_never_holds_evictions() -> None:
    bench = Bench()
    metrics = bench.handlers["nodemetrics"]
    before = dict(bench.controller.readiness.pauses)

    metrics.begin_replace()
    metrics.end_replace()
    metrics.mark_stale("the watch is lost")
    metrics.mark_denied("404")

    assert bench.controller.readiness.pauses == before


def test_that_measured_use_is_missing_is_reported_where_a_plugin_reads_it() -> None:
    bench = Bench()
    bench.handlers["nodemetrics"].mark_denied("404")
    assert bench.missing == []

    bench = Bench()
    bench.state.index(NodeLoads, make_rule({}, {}, {}, {}))
    bench.handlers["nodemetrics"].mark_denied("404")
    assert bench.missing == [("nodemetrics", "404")]


def test_an_object_of_a_new_list_that_did_not_change_is_held_once() -> None:
    bench = Bench()
    pods, first, web = bench.handlers["pods"], pod("web", on="n1"), pod("api", on="n1")
    pods.begin_replace()
    for each in (first, web):
        pods.upsert(each)
    pods.end_replace()

    listed = pods.reuse(copied(first))

    assert listed is bench.state.pods.get(first.uid)
    changed = replace(copied(web), resource_version=web.resource_version + 1)
    assert pods.reuse(changed) is changed
    new = pod("new", on="n1")
    assert pods.reuse(new) is new
    assert bench.nodes.reuse(node("n9")) == node("n9")


def test_a_pod_that_changed_keeps_the_text_of_its_uid_which_is_the_key_of_indexes() -> None:
    bench = Bench()
    first = pod("web", on="n1", version=1)
    bench.handlers["pods"].upsert(first)
    uid, name = first.uid, first.name

    bench.handlers["pods"].upsert(replace(copied(first), resource_version=2))

    held = bench.state.pods.get(uid)
    assert held is not None
    assert held.resource_version == 2
    assert held.uid is uid
    assert held.name is name


def test_what_a_new_list_lacks_is_looked_for_in_steps_and_its_keys_are_freed_in_steps() -> None:
    bench = Bench()
    pods = bench.handlers["pods"]
    uids = [f"{number:x}" for number in range(8_000)]
    stored = [pod(uid, on="n1", uid=uid) for uid in uids]
    for each in stored:
        pods.upsert(each)

    pods.begin_replace()
    pods.upsert_many(stored[:-1])
    steps, left, freed = 0, 7_999, list[int]()
    for _ in pods.remove_unlisted():
        steps += 1
        assert pods._listed is not None
        kept = sum(map(len, pods._listed.values()))
        freed.append(left - kept)
        left = kept

    assert bench.state.pods.get(uids[-1]) is None
    assert len(bench.state.pods) == 7_999
    assert steps >= 8_000 / 200 + 16
    assert sum(freed) == 7_999
    assert max(freed) <= 8_000 / 200


def copied(it: Pod) -> Pod:
    """Return an equal pod whose texts are other ones, as one that is read again has them."""
    return replace(it, uid=it.uid.encode().decode(), name=it.name.encode().decode())
