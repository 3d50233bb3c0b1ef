from itertools import chain
from typing import Any

import msgspec

from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeGone,
    NodeLabelsChanged,
)
from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import Node, Pod, PodStatus
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.preferred_affinity import (
    BestPreferenceChanged,
    PreferredAffinity,
)
from reactive_desched.testing.builders import node, pod

SSD, HDD = {"disk": "ssd"}, {"disk": "hdd"}
DB = pod("db", on="n1", prefers={"disk=ssd": 10, "rack": 3})
SIBLING = msgspec.structs.replace(DB, name="db-2", uid="db-2")


class Bench:
    """A cluster in which somebody has asked for the wishes of DB."""

    def __init__(self, *things: Node | Pod, selects: str = "") -> None:
        self.state = ClusterState(parse_selector(selects))
        for thing in (node("n1"), DB, *things):
            self.state.upsert(thing)
        self.weights()

    def weights(self, on: str = "n1", of: Pod = DB) -> tuple[int, int]:
        assert of.spec.node_affinity is not None
        return self.state.index(PreferredAffinity).weights(of.spec.node_affinity, on)

    def better(self, on: str) -> frozenset[str]:
        assert DB.spec.node_affinity is not None
        return self.state.index(PreferredAffinity).better_nodes(DB.spec.node_affinity, on)

    def shifted(self, changes: list[Change]) -> list[tuple[str, ...]]:
        return [change.pods for change in changes if isinstance(change, BestPreferenceChanged)]


def test_a_node_weighs_what_its_labels_fulfil_and_the_best_is_known() -> None:
    bench = Bench(node("n2", labels=SSD), node("n3", labels={"rack": "7"}))

    assert [bench.weights(name) for name in ("n1", "n2", "n3", "unknown")] == [
        (0, 10),
        (10, 10),
        (3, 10),
        (0, 10),
    ]


def test_a_better_node_that_joins_shifts_the_best() -> None:
    bench = Bench()

    assert bench.state.upsert(node("n2", labels=SSD)) == [
        NodeAdded("n2"),
        BestPreferenceChanged(("db",)),
    ]
    assert bench.weights() == (0, 10)


def test_a_node_whose_labels_get_better_or_worse_shifts_the_best() -> None:
    bench = Bench(node("n2"))
    better = bench.state.upsert(node("n2", labels=SSD))
    assert better == [NodeLabelsChanged("n2", frozenset({"disk"})), BestPreferenceChanged(("db",))]
    assert bench.weights() == (0, 10)

    worse = bench.state.upsert(node("n2", labels=HDD))
    assert bench.shifted(worse) == [("db",)]
    assert bench.weights() == (0, 0)


def test_the_best_node_leaving_shifts_the_best_to_the_next() -> None:
    bench = Bench(node("n2", labels=SSD), node("n3", labels={"rack": "7"}))

    assert bench.state.remove(node("n2")) == [NodeGone("n2"), BestPreferenceChanged(("db",))]
    assert bench.weights() == (0, 3)
    assert bench.shifted(bench.state.upsert(node("n3", ready="False"))) == [("db",)]
    assert bench.weights() == (0, 0)


def test_one_of_two_equally_good_nodes_leaving_shifts_nothing() -> None:
    bench = Bench(node("n2", labels=SSD), node("n3", labels=SSD))

    assert bench.state.remove(node("n2")) == [NodeGone("n2")]
    assert bench.weights() == (0, 10)


def test_the_better_nodes_are_those_of_a_higher_weight() -> None:
    bench = Bench(node("n2", labels=SSD), node("n3"))
    assert bench.better("n1") == {"n2"}
    assert bench.better("n1") is bench.better("n3")
    assert bench.better("n2") == set()

    bench.state.upsert(node("n3", labels=SSD))

    assert bench.better("n1") == {"n2", "n3"}


def test_labels_that_make_a_node_as_good_as_the_best_are_announced_to_pods_with_less() -> None:
    bench = Bench(node("n2", labels=SSD), node("n3"))
    bench.state.upsert(msgspec.structs.replace(SIBLING, node="n2"))

    assert bench.shifted(bench.state.upsert(node("n3", labels=SSD))) == [("db",)]
    assert bench.shifted(bench.state.upsert(node("n3"))) == []


def test_labels_that_no_pod_prefers_change_nothing() -> None:
    bench = Bench(node("n2", labels=SSD))

    assert bench.shifted(bench.state.upsert(node("n2", labels={**SSD, "tier": "x"}))) == []
    assert bench.weights() == (0, 10)


def test_one_wished_for_label_among_others_is_enough() -> None:
    bench = Bench(node("n2"))

    assert bench.shifted(bench.state.upsert(node("n2", labels={**SSD, "tier": "x"}))) == [("db",)]


def test_nodes_that_do_not_count_are_not_better() -> None:
    bench = Bench(
        node("n1", labels={"pool": "a"}),
        node("n2", labels=SSD),
        node("n3", labels={**SSD, "pool": "a"}, ready="False"),
        selects="pool=a",
    )

    assert bench.weights() == (0, 0)


def test_pods_of_one_owner_share_their_preferences_and_are_announced_together() -> None:
    bench = Bench(SIBLING)

    [together] = bench.shifted(bench.state.upsert(node("n2", labels=SSD)))
    assert sorted(together) == ["db", "db-2"]


def test_only_bound_running_pods_are_announced() -> None:
    bench = Bench(SIBLING, replaced(SIBLING, name="w", uid="waiting", node=""))
    bench.state.upsert(replaced(DB, status=PodStatus("Succeeded")))
    assert bench.shifted(bench.state.upsert(node("n2", labels=SSD))) == [("db-2",)]

    bench.state.remove(SIBLING)
    assert bench.shifted(bench.state.remove(node("n2"))) == []
    assert bench.state.index(PreferredAffinity)._classes == {}


def test_a_pod_with_other_preferences_leaves_its_old_ones() -> None:
    bench = Bench()
    content = replaced(DB, spec=pod("db", prefers={"rack": 1}).spec)
    bench.state.upsert(content)
    bench.weights(of=content)

    assert bench.shifted(bench.state.upsert(node("n2", labels=SSD))) == []
    assert bench.shifted(bench.state.upsert(node("n2", labels={"rack": "7"}))) == [("db",)]


def test_a_pod_updated_with_equal_preferences_still_learns_of_a_better_node() -> None:
    bench = Bench()
    again = pod("db", on="n1", prefers={"disk=ssd": 10, "rack": 3}, version=9)
    assert again.spec.node_affinity is not DB.spec.node_affinity
    assert bench.state.upsert(again) == []

    assert bench.shifted(bench.state.upsert(node("n2", labels=SSD))) == [("db",)]
    known = bench.state.pods.get("db")
    assert known is not None
    assert bench.weights(of=known) == (0, 10)


def test_preferences_that_were_never_asked_for_change_nothing() -> None:
    bench = Bench()
    other = pod("other", on="n1", prefers={"disk=ssd": 1})
    bench.state.upsert(other)

    assert bench.shifted(bench.state.upsert(node("n2", labels=SSD))) == [("db",)]
    assert bench.weights("n2", other) == (1, 1)


def test_preferences_that_no_pod_has_can_be_asked_for() -> None:
    bench = Bench(node("n2", labels=SSD))

    assert bench.weights("n2", pod("stranger", prefers={"disk=ssd": 4})) == (4, 4)
    assert len(bench.state.index(PreferredAffinity)._classes) == 1


def test_required_affinity_alone_is_no_wish() -> None:
    state = ClusterState()
    state.upsert(pod("db", on="n1", requires="disk=ssd"))

    assert state.index(PreferredAffinity)._classes == {}


def replaced(thing: Pod, **fields: Any) -> Pod:  # any field of a pod
    return msgspec.structs.replace(thing, **fields)


def selected(bench: Bench, selector: str) -> list[Change]:
    """Give the policy another node selector; return what differs."""
    return list(chain.from_iterable(bench.state.set_node_selector(parse_selector(selector))))


def test_another_selection_of_nodes_is_weighed_anew() -> None:
    bench = Bench(node("n2", labels=SSD), selects="disk!=ssd")
    assert bench.weights() == (0, 0)

    better = BestPreferenceChanged(("db",))
    assert selected(bench, "") == [NodeAdded("n2"), better]
    assert bench.weights() == (0, 10)
    assert bench.shifted(bench.state.remove(node("n2"))) == [("db",)]
    bench.state.upsert(node("n2", labels=SSD))
    bench.weights()
    assert selected(bench, "disk!=ssd") == [NodeGone("n2"), better]
    assert bench.weights() == (0, 0)
