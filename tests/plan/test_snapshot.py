from typing import Any

import msgspec
import pytest
from msgspec import Raw

from reactive_desched.errors import Malformed
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.usage import NodeUsage
from reactive_desched.plan import snapshot as picture_module
from reactive_desched.plan.defaults import is_default_uid
from reactive_desched.plan.input_objects import InputObject
from reactive_desched.plan.report import UnreadableObject
from reactive_desched.plan.snapshot import Snapshot, SnapshotBuilder
from tests.support.golden import Golden

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "shop", "name": "a", "uid": "u1", "resourceVersion": "5"},
    "spec": {"nodeName": "n1"},
}


def pod(**metadata: Any) -> dict[str, Any]:
    merged = {**POD["metadata"], **metadata}
    return {**POD, "metadata": {key: value for key, value in merged.items() if value is not None}}


def gather(*things: dict[str, Any]) -> Snapshot:
    gathering = SnapshotBuilder()
    for thing in things:
        raw = Raw(msgspec.json.encode(thing))
        gathering.add_input(
            InputObject(thing.get("kind", ""), thing.get("apiVersion", ""), raw), "file"
        )
    return gathering.build()


def names(picture: Snapshot) -> list[str]:
    return [str(each) for each in picture.pods]


def test_objects_are_in_the_order_of_their_names_whatever_order_they_came_in() -> None:
    spaces = [("b", "x"), ("a", "z"), ("a", "y")]
    pods = [pod(namespace=space, name=name, uid=name) for space, name in spaces]
    nodes = [{"kind": "Node", "metadata": {"name": name}} for name in ("n2", "n1")]
    picture = gather(*pods, *nodes)

    assert names(picture) == ["a/y", "a/z", "b/x"]
    assert [node.name for node in picture.nodes] == ["n1", "n2"]
    assert picture.is_complete


@pytest.mark.parametrize("newest_first", [False, True])
def test_of_an_object_given_twice_the_newer_counts(*, newest_first: bool) -> None:
    old, new = pod(resourceVersion="9"), pod(resourceVersion="10", uid="u2")
    picture = gather(*((new, old) if newest_first else (old, new)))

    assert [each.uid for each in picture.pods] == ["u2"]
    assert picture.duplicates == 1


def test_of_two_equally_new_ones_the_one_given_last_counts() -> None:
    first, last = pod(resourceVersion=None, uid="u1"), pod(resourceVersion=None, uid="u2")

    assert [each.uid for each in gather(first, last).pods] == ["u2"]
    assert [each.uid for each in gather(last, first).pods] == ["u1"]


def test_a_pod_without_a_uid_gets_a_stand_in_and_stays_itself() -> None:
    (only,) = gather(pod(uid=None)).pods

    assert (only.uid, str(only), only.node) == ("shop/a", "shop/a", "n1")
    assert is_default_uid(only.uid)


def test_owners_without_uids_get_stand_ins_that_siblings_share() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
    pods = [pod(name=name, uid=None, ownerReferences=[owner]) for name in ("a", "b")]

    assert [each.owners[0].uid for each in gather(*pods).pods] == ["shop/ReplicaSet/web"] * 2


def test_a_pod_without_a_namespace_is_in_the_default_one() -> None:
    (only,) = gather(pod(namespace=None, uid=None)).pods

    assert (str(only), only.uid) == ("default/a", "default/a")


def test_two_pods_that_share_a_uid_are_two() -> None:
    picture = gather(pod(name="a"), pod(name="b"))

    assert [each.uid for each in picture.pods] == ["u1", "shop/b"]
    assert len(picture.build_state(EVERYTHING).pods) == 2


@pytest.mark.parametrize(
    ("thing", "kind", "name"),
    [
        pytest.param(
            {**POD, "spec": {"nodeName": 7}},
            "Pod",
            "shop/a",
            id="a number for a name",
        ),
        pytest.param(
            {"kind": "Node", "metadata": {}},
            "Node",
            "(no name)",
            id="no name",
        ),
        pytest.param(
            {"metadata": {"name": "a"}},
            "(no kind)",
            "in file",
            id="no kind",
        ),
    ],
)
def test_what_cannot_be_read_is_named_and_left_out(
    thing: Any, kind: str, name: str, golden: Golden
) -> None:
    picture = gather(pod(name="good", uid="g"), thing)

    assert names(picture) == ["shop/good"]
    assert picture.unreadable == (UnreadableObject(kind, name, golden()),)
    assert not picture.is_complete


def test_all_that_cannot_be_read_is_counted_and_the_first_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(picture_module, "MAX_NAMED", 2)
    picture = gather(*({**pod(name=name), "spec": 7} for name in "dcba"))

    assert picture.unreadable_count == 4
    assert [each.name for each in picture.unreadable] == ["shop/c", "shop/d"]


def test_a_list_of_which_a_part_is_missing_makes_it_less_than_whole() -> None:
    gathering = SnapshotBuilder()
    gathering.add_partial_list("one page")

    assert gathering.build().partial_lists == ("one page",)
    assert not gathering.build().is_complete


def test_unused_kinds_are_counted_and_do_no_harm() -> None:
    picture = gather(
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {}},
        {"apiVersion": "config.example.com/v1", "kind": "Node", "metadata": {"name": "x"}},
    )

    assert list(picture.ignored.items()) == [
        ("Deployment", 1),
        ("Node (config.example.com/v1)", 1),
        ("ReplicaSet", 2),
    ]
    assert picture.is_complete
    assert picture.nodes == []


@pytest.mark.parametrize(
    ("resource", "thing"),
    [
        ("namespaces", {"apiVersion": "v1", "kind": "Namespace"}),
        ("priorityclasses", {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}),
        ("poddisruptionbudgets", {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}),
        ("persistentvolumeclaims", {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}),
        ("nodes", {"apiVersion": "v1", "kind": "Node"}),
        ("pods", {"kind": "Pod"}),
    ],
    ids=str,
)
def test_every_kind_that_matters_is_taken_in(resource: str, thing: dict[str, Any]) -> None:
    picture = gather({**thing, "metadata": {"name": "it", "uid": "u"}})

    assert [getattr(each, "name", "") for each in picture.objects[resource]] == ["it"]
    assert len(list(picture.build_state(EVERYTHING).keys(resource))) == 1


def test_a_state_made_of_it_can_be_changed_and_made_anew() -> None:
    picture = gather(pod())
    changed = picture.build_state(EVERYTHING)
    changed.remove(picture.pods[0])

    assert len(changed.pods) == 0
    assert len(picture.build_state(EVERYTHING).pods) == 1


def test_what_comes_decoded_counts_like_the_rest() -> None:
    (known,) = gather(pod()).pods
    gathering = SnapshotBuilder()
    gathering.add("pods", known)
    gathering.add_malformed(Malformed("Pod", "", "broken"))

    assert names(gathering.build()) == ["shop/a"]
    assert gathering.build().unreadable == (UnreadableObject("Pod", "(no name)", "broken"),)


def metrics(kind: str, name: str, cpu: str, time: str = "2026-11-21T07:17:02Z") -> dict[str, Any]:
    usage = {"cpu": cpu}
    measured: dict[str, Any] = (
        {"usage": usage} if kind == "NodeMetrics" else {"containers": [{"usage": usage}]}
    )
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, **({"namespace": "shop"} if kind == "PodMetrics" else {})},
        "timestamp": time,
        **measured,
    }


def test_what_metrics_server_measured_becomes_samples_of_the_state() -> None:
    picture = gather(
        pod(), metrics("PodMetrics", "a", "100m"), metrics("NodeMetrics", "n1", "500m")
    )

    (sample,) = picture.build_state(EVERYTHING).store(NodeUsage)
    assert (sample.key, sample.usage) == ("KubernetesMetrics/n1", {"cpu": 500})
    assert sample.pods == {"shop/a": {"cpu": 100}}
    assert picture.ignored == {}


@pytest.mark.parametrize("newest_first", [False, True])
def test_of_a_node_measured_twice_the_newer_measurement_counts(*, newest_first: bool) -> None:
    old = metrics("NodeMetrics", "n1", "1", "2026-11-21T07:17:02Z")
    new = metrics("NodeMetrics", "n1", "2", "2026-11-21T07:18:02Z")

    (sample,) = gather(*((new, old) if newest_first else (old, new))).samples

    assert sample.usage == {"cpu": 2000}


def test_metrics_that_cannot_be_read_are_named_and_left_out() -> None:
    picture = gather(metrics("NodeMetrics", "n1", "much"))

    assert [(each.kind, each.name) for each in picture.unreadable] == [("NodeMetrics", "n1")]
    assert picture.samples == ()
