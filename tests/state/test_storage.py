"""Which nodes node fit looks at again, and the indexes of pods that it reads."""

from typing import Any

import msgspec
import pytest

from reactive_desched.fit.change_log import NodeChanges
from reactive_desched.model.objects import (
    ClusterObject,
    CSINode,
    HostPort,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
)
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.pvc_users import PvcUsers
from reactive_desched.state.indexes.terminating_pods import TerminatingPods
from reactive_desched.testing.builders import node, pod

WEB = msgspec.structs.replace(pod("web", on="n1"), pvc_names=("data", "logs"))
ENDED = msgspec.structs.replace(WEB, status=PodStatus("Failed"))
CLAIM = PersistentVolumeClaim("default", "data", volume_name="v1")
VOLUME = PersistentVolume("v1", claim_ref="default/data")


class Follower:
    """The nodes that changed since it was made."""

    def __init__(self, state: ClusterState) -> None:
        self.log = state.index(NodeChanges).log
        self.cursor = self.log.end

    @property
    def names(self) -> set[str]:
        changed = self.log.since(self.cursor)
        assert changed is not None
        return set(changed)


def followed(*things: ClusterObject) -> tuple[ClusterState, Follower]:
    state = ClusterState()
    state.index(NodeChanges)
    for thing in things:
        state.upsert(thing)
    return state, Follower(state)


def users(state: ClusterState, claim: str) -> set[str]:
    return {user.name for user in state.index(PvcUsers).users_of(f"default/{claim}")}


def test_the_pods_of_a_claim_are_known_while_they_are_active_on_a_node() -> None:
    state, _ = followed(WEB, msgspec.structs.replace(WEB, name="db", uid="db", pvc_names=("data",)))
    assert (users(state, "data"), users(state, "logs")) == ({"web", "db"}, {"web"})

    state.upsert(ENDED)
    assert (users(state, "data"), users(state, "logs")) == ({"db"}, set())
    state.remove(pod("db", on="n1"))
    assert users(state, "data") == set()
    assert state.index(PvcUsers).answers() == {}


def test_an_unscheduled_pod_uses_nothing_yet() -> None:
    state, _ = followed(msgspec.structs.replace(WEB, node=""))

    assert users(state, "data") == set()


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        pytest.param(node("n1"), {"n1"}, id="a node"),
        pytest.param(pod("new", on="n2"), {"n2"}, id="a pod that came"),
        pytest.param(ENDED, {"n1"}, id="a pod that ended"),
        pytest.param(
            msgspec.structs.replace(WEB, labels={"a": "b"}), set(), id="a pod's other labels"
        ),
        pytest.param(
            msgspec.structs.replace(WEB, resize_delta={"cpu": 5}),
            {"n1"},
            id="a pod that is resized",
        ),
        pytest.param(
            msgspec.structs.replace(CLAIM, volume_name="v2", resource_version=1),
            {"n1"},
            id="a claim in use",
        ),
        pytest.param(PersistentVolumeClaim("default", "other"), set(), id="a claim of nobody"),
        pytest.param(
            msgspec.structs.replace(VOLUME, driver="x", resource_version=1),
            {"n1"},
            id="a volume in use",
        ),
        pytest.param(PersistentVolume("v9", claim_ref="default/x"), set(), id="a volume of nobody"),
        pytest.param(CSINode("n7", attach_limits={"x": 1}), {"n7"}, id="what drivers can attach"),
    ],
)
def test_followers_learn_which_nodes_may_differ(change: ClusterObject, touched: set[str]) -> None:
    state, seen = followed(WEB, CLAIM, VOLUME)

    state.upsert(change)

    assert set(seen.names) == touched


def test_a_heartbeat_touches_nothing() -> None:
    state, seen = followed(node("n1", version=1))

    state.upsert(node("n1", version=2))

    assert not seen.names


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"labels": {"a": "b"}}, id="labels"),
        pytest.param({"unschedulable": True}, id="cordoned"),
        pytest.param({"ready": "False"}, id="not ready"),
        pytest.param({"allocatable": {"cpu": "1"}}, id="less room"),
    ],
)
def test_whatever_a_node_has_that_pods_depend_on_marks_it_dirty(change: dict[str, Any]) -> None:
    state, seen = followed(node("n1", version=1))

    state.upsert(node("n1", version=2, **change))

    assert set(seen.names) == {"n1"}


def test_a_taint_touches_the_node() -> None:
    state, seen = followed(node("n1", version=1))

    state.upsert(node("n1", "a:NoSchedule", version=2))

    assert set(seen.names) == {"n1"}


def test_followers_learn_of_what_is_gone() -> None:
    state, seen = followed(node("n2"), WEB, CLAIM)
    for thing in (node("n2"), CLAIM, WEB):
        state.remove(thing)
        assert set(seen.names) == ({"n2"} if thing.name == "n2" else {"n1", "n2"})


def test_a_node_lists_which_pods_use_its_host_ports() -> None:
    web = msgspec.structs.replace(pod("web", on="n1"), spec=_listening(pod("web")))
    state, _ = followed(web, pod("db", on="n1"))
    entry = state.nodes.record("n1")
    assert [p.name for p in entry.host_port_pods] == ["web"]

    before = entry.host_port_pods
    state.upsert(msgspec.structs.replace(web, resize_delta={"cpu": 1}))
    assert [p.name for p in entry.host_port_pods] == ["web"]
    assert entry.host_port_pods is not before
    state.remove(web)
    assert entry.host_port_pods == ()


def _listening(thing: Pod) -> object:
    return msgspec.structs.replace(thing.spec, host_ports=(HostPort(80),))


def test_pods_whose_deletion_has_begun_are_known_until_they_are_gone() -> None:
    leaving = msgspec.structs.replace(WEB, deletion_s=1)
    state, _ = followed(WEB)
    terminating = state.index(TerminatingPods)
    assert list(terminating.pods_of("default")) == []

    state.upsert(leaving)
    assert list(terminating.pods_of("default")) == [leaving]
    assert list(terminating.pods_of("bank")) == []
    state.upsert(msgspec.structs.replace(ENDED, deletion_s=1))
    assert list(terminating.pods_of("default")) == []
    state.upsert(msgspec.structs.replace(leaving, uid="w2"))
    state.remove(msgspec.structs.replace(leaving, uid="w2"))
    assert terminating.answers() == {}
