import msgspec

from reactive_desched.model.changes import NodeAdded, NodeGone, NodeLabelsChanged, NodeTaintsChanged
from reactive_desched.model.labels import EVERYTHING, Selector, parse_selector
from reactive_desched.model.objects import Pod, PodStatus
from reactive_desched.model.resources import PODS
from reactive_desched.state.index_registry import IndexHooks
from reactive_desched.state.node_closings import NodeClosings
from reactive_desched.state.nodes import NodeChangeTimes, NodeRecord, NodeStore, changed_keys
from reactive_desched.testing.builders import node, pod

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def node_store(selector: Selector = EVERYTHING) -> NodeStore:
    standing = NodeChangeTimes(lambda: 0.0, lambda: 0.0)
    return NodeStore(selector, IndexHooks(), standing, NodeClosings(lambda: 0.0))


def web(cpu: str = "1", phase: str = "Running") -> Pod:
    return pod("web", on="n1", requests={"cpu": cpu}, status=PodStatus(phase))


def entry(*pods: Pod) -> NodeRecord:
    made = NodeRecord("n1")
    for one in pods:
        put(made, one)
    return made


def put(record: NodeRecord, pod: Pod) -> None:
    record.remove_pod(pod.uid)
    record.add_pod(pod)


def test_a_node_sums_what_its_active_pods_request_and_counts_them() -> None:
    full = entry(web(), pod("db", on="n1", requests={"cpu": "500m", "memory": "1Gi"}))

    assert full.requested == {"cpu": 1500, "memory": 1 << 30, PODS: 2}


def test_a_pod_that_ended_frees_its_room_and_stays_known() -> None:
    ended = web(phase="Succeeded")
    room = entry(web(), ended)

    assert (room.active, room.completed, room.requested) == ({}, {"web": ended}, {})


def test_a_pod_that_was_resized_counts_with_its_new_size_only() -> None:
    assert entry(web("1"), web("3")).requested == {"cpu": 3000, PODS: 1}


def test_what_a_resize_adds_is_summed_apart() -> None:
    growing = msgspec.structs.replace(web(), resize_delta={"cpu": 500})
    room = entry(growing)

    assert (room.requested, room.resize_delta) == ({"cpu": 1000, PODS: 1}, {"cpu": 500})
    put(room, msgspec.structs.replace(growing, resize_delta={"cpu": 700}))
    assert room.resize_delta == {"cpu": 700}
    room.remove_pod("web")
    assert (room.requested, room.resize_delta) == ({}, {})


def test_a_record_of_the_same_size_is_taken_in_all_the_same() -> None:
    newer = msgspec.structs.replace(web(), labels={"a": "b"})
    room = entry(web(), newer)

    assert room.active == {"web": newer}
    assert room.requested == {"cpu": 1000, PODS: 1}


def test_taking_a_pod_away_leaves_nothing_of_it() -> None:
    room = entry(web())
    room.remove_pod("web")
    room.remove_pod("nobody")
    assert (room.active, room.requested) == ({}, {})

    ended = entry(web(phase="Failed"))
    ended.remove_pod("web")
    assert ended.completed == {}


def test_an_older_version_of_a_node_is_ignored() -> None:
    table = node_store()
    table.upsert(node("n1", version=5))

    assert table.upsert(node("n1", "a:NoSchedule", version=4)) == []
    assert table.upsert(node("n1", "a:NoSchedule", version=5)) == [NodeTaintsChanged("n1")]
    assert table.upsert(node("n1", version=6)) == [NodeTaintsChanged("n1")]


def test_versions_that_are_no_numbers_are_never_older() -> None:
    table = node_store()
    table.upsert(node("n1", version=5))

    assert table.upsert(node("n1", "a:NoSchedule", version=0)) == [NodeTaintsChanged("n1")]


def test_versions_of_different_nodes_of_one_name_are_not_compared() -> None:
    table = node_store()
    table.upsert(node("n1", version=5))
    reborn = msgspec.structs.replace(node("n1", "a:NoSchedule", version=4), uid="reborn")

    assert table.upsert(reborn) == [NodeTaintsChanged("n1")]


def test_a_node_that_is_not_known_cannot_go() -> None:
    table = node_store()
    table.record("n1").add_pod(web())

    assert table.remove(node("n1")) == []
    assert table.remove(node("n2")) == []


def test_a_node_that_did_not_count_goes_without_a_word() -> None:
    table = node_store()
    table.upsert(node("n1", ready="False"))
    assert table.remove(node("n1")) == []
    table.upsert(node("n2"))

    assert table.remove(node("n2")) == [NodeGone("n2")]
    assert table.eligible_count == 0


def test_a_name_is_kept_while_a_node_or_a_pod_bears_it() -> None:
    table = node_store()
    table.upsert(node("empty"))
    table.upsert(node("busy"))
    table.upsert(node("done"))
    table.record("busy").add_pod(pod("web", on="busy"))
    table.record("done").add_pod(pod("job", on="done", status=PodStatus("Succeeded")))
    for name in ("empty", "busy", "done"):
        table.remove(node(name))

    assert table.info("empty") is None
    assert list(table.keys()) == []
    for name, uid in (("busy", "web"), ("done", "job")):
        left = table.info(name)
        assert left is not None
        left.remove_pod(uid)
        table.remove_if_empty(left)
        assert table.info(name) is None


def test_changed_keys_are_those_added_removed_and_altered() -> None:
    before, after = (
        {"same": "1", "gone": "1", "other": "1"},
        {"same": "1", "new": "1", "other": "2"},
    )

    assert changed_keys(before, after) == {"gone", "new", "other"}
    table = node_store()
    table.upsert(node("n1", labels=before))
    assert table.upsert(node("n1", labels=after)) == [
        NodeLabelsChanged("n1", frozenset({"gone", "new", "other"}))
    ]


def counting(table: NodeStore) -> list[str]:
    return [entry.name for entry in table.infos() if entry.eligible]


def test_another_selection_says_which_nodes_came_and_went() -> None:
    table = node_store(parse_selector("pool=a"))
    for one in (
        node("n1", labels={"pool": "a"}),
        node("n2", labels={"pool": "b"}),
        node("n3", labels={"pool": "b"}, ready="False"),
    ):
        table.upsert(one)
    table.record("n4")  # pods sit on a node of that name, which itself is not known

    steps = list(table.set_selector(parse_selector("pool=b")))
    assert steps == [[NodeGone("n1")], [NodeAdded("n2")], [], []]
    assert (counting(table), table.eligible_count) == (["n2"], 1)
    assert not any(table.set_selector(parse_selector("pool=b")))
    assert counting(table) == ["n2"]
    table.upsert(node("n3", labels={"pool": "b"}))
    assert (counting(table), table.eligible_count) == (["n2", "n3"], 2)
