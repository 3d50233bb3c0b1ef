import msgspec
import pytest

from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import (
    ClusterObject,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
    PriorityClass,
)
from reactive_desched.model.subjects import NodeOrPod, NodeSubject, PodSubject
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.owners import ReplicaCounts
from reactive_desched.testing.builders import node, pod

ZONE = "topology.kubernetes.io/zone"
IN = {"pool": "a", ZONE: "z1"}
COUNTS, OUTSIDE = node("counts", labels=IN), node("outside", labels={ZONE: "z1"})
BROKEN = node("broken", labels=IN, ready="False")
WEB, DB = pod("web", on="counts"), pod("db", on="counts", owner="StatefulSet/db")
DONE = pod("done", on="counts", status=PodStatus("Succeeded"))
ELSEWHERE = [pod(f"on-{name}", on=name) for name in ("outside", "broken", "unknown")]
WAITING = pod("waiting")


@pytest.fixture
def view() -> ClusterView:
    state = ClusterState(parse_selector("pool=a"))
    things: list[ClusterObject] = [COUNTS, OUTSIDE, BROKEN, WEB, DB, DONE, *ELSEWHERE, WAITING]
    for thing in things:
        state.upsert(thing)
    return ClusterView(state, lambda: 7.0)


def test_only_ready_nodes_of_the_policys_selection_count(view: ClusterView) -> None:
    assert list(view.nodes()) == [COUNTS]
    assert [room.name for room in view.eligible_node_infos()] == ["counts"]
    assert view.eligible_node_count == 1
    assert view.now_s == 7.0


def test_an_evictor_may_look_at_ready_nodes_beyond_the_selection(view: ClusterView) -> None:
    def names(selector: str) -> list[str]:
        return [room.name for room in view.ready_node_infos(parse_selector(selector))]

    assert names("") == ["counts", "outside"]
    assert names("pool=a") == ["counts"]
    assert names("!pool") == ["outside"]


def test_pods_on_a_node_are_the_active_ones(view: ClusterView) -> None:
    info = view.node_info("counts")
    assert info is not None
    assert list(info.active) == ["web", "db"]
    assert view.node_info("nowhere") is None


def test_a_pod_is_placed_when_it_is_active_on_a_node_that_counts(view: ClusterView) -> None:
    assert view.active_pod("web") == (WEB, COUNTS)
    others = ["done", "waiting", "stranger", *(stray.uid for stray in ELSEWHERE)]
    assert [view.active_pod(uid) for uid in others] == [None] * 6


@pytest.mark.parametrize(
    ("subject", "pods"),
    [
        pytest.param(NodeSubject("counts"), [WEB, DB], id="a node that counts, with its pods"),
        pytest.param(PodSubject("db"), [DB], id="one pod on it"),
        pytest.param(NodeSubject("outside"), None, id="a node outside the selection"),
        pytest.param(NodeSubject("broken"), None, id="a node that is not ready"),
        pytest.param(NodeSubject("unknown"), None, id="a node only known by a pod"),
        pytest.param(NodeSubject("nowhere"), None, id="a node nobody knows"),
        pytest.param(PodSubject("on-outside"), None, id="a pod outside the selection"),
        pytest.param(PodSubject("done"), None, id="a pod that ended"),
    ],
)
def test_a_place_is_a_node_that_counts_with_its_active_pods(
    view: ClusterView, subject: NodeOrPod, pods: list[Pod] | None
) -> None:
    place = view.pods_of(subject)

    assert (place and (place[0], list(place[1]))) == (pods and (COUNTS, pods))


def test_pods_that_have_ended_are_among_all_pods_of_a_node(view: ClusterView) -> None:
    def names(subject: NodeOrPod) -> list[str] | None:
        found = view.all_pods_of(subject)
        return found and [pod.name for pod in found[1]]

    assert names(NodeSubject("counts")) == ["web", "db", "done"]
    assert names(PodSubject("done")) == ["done"]
    assert view.pod_and_node("done") == (DONE, COUNTS)
    elsewhere: list[NodeOrPod] = [
        NodeSubject("outside"),
        PodSubject("on-outside"),
        PodSubject("waiting"),
        PodSubject("stranger"),
    ]
    assert [names(subject) for subject in elsewhere] == [None] * 4


def test_replicas_are_the_pods_of_an_owner_in_any_phase(view: ClusterView) -> None:
    assert view.index(ReplicaCounts).count("owner-db") == 1
    assert view.index(ReplicaCounts).count("owner-web") == 6
    assert view.index(ReplicaCounts).count("owner-nobody") == 0


def test_everything_is_found_by_its_name(view: ClusterView) -> None:
    state = view._state
    things = (
        Namespace("shop"),
        PriorityClass("high"),
        PersistentVolumeClaim("shop", "data"),
    )
    for thing in things:
        state.upsert(thing)

    found = (
        view.store(Namespace).get("shop"),
        view.store(PriorityClass).get("high"),
        view.store(PersistentVolumeClaim).get("shop/data"),
    )
    assert found == things
    assert view.pod("web") == WEB
    assert view.store(Namespace).get("bank") is None
    assert view.store(PersistentVolumeClaim).get("bank/data") is None
    assert set(view.pods()) == {"web", "db", "done", "waiting", *(s.uid for s in ELSEWHERE)}


def test_the_view_is_never_out_of_date(view: ClusterView) -> None:
    newer = msgspec.structs.replace(WEB, labels={"a": "b"})
    view._state.upsert(newer)

    assert view.pod("web") == newer
