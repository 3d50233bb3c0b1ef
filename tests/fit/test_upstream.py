from typing import Any

import msgspec
import pytest

from reactive_desched.fit.upstream import UpstreamNodeFit, fit_error
from reactive_desched.model.labels import EVERYTHING, LabelSelector, parse_selector
from reactive_desched.model.objects import ClusterObject, Node, Pod, PodAffinityTerm
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod
from tests.support.golden import Golden, verbatim

REPELS = (PodAffinityTerm("kubernetes.io/hostname", LabelSelector({"app": "db"})),)


def with_spec(thing: Pod, **fields: Any) -> Pod:  # any field of a spec
    return msgspec.structs.replace(thing, spec=msgspec.structs.replace(thing.spec, **fields))


def reason(candidate: Pod, target: Node, *residents: Pod) -> str | None:
    state = ClusterState()
    things: tuple[ClusterObject, ...] = (target, *residents)
    for thing in things:
        state.upsert(thing)
    room = ClusterView(state, lambda: 0).node_info(target.name)
    assert room is not None
    error = fit_error(candidate, target, room.requested, room.active.values())
    return None if error is None else error.message


SMALL = {"cpu": "1", "memory": "1Gi", "pods": "2"}
WEB = pod("web", on="n1", requests={"cpu": "500m"})


@pytest.mark.parametrize(
    ("candidate", "target", "residents", "expected"),
    [
        pytest.param(WEB, node("n2"), [], None, id="an ordinary pod on an empty node"),
        pytest.param(
            pod("web", on="n1", tolerates="*"),
            node("n2", unschedulable=True),
            [],
            "node is not schedulable",
            id="tolerations do not open a cordoned node",
        ),
        pytest.param(
            with_spec(WEB, node_selector={"disk": "ssd"}),
            node("n2"),
            [],
            verbatim("pod node selector does not match the node label"),
            id="node selector",
        ),
        pytest.param(
            pod("web", on="n1", requires="disk=ssd"),
            node("n2"),
            [],
            verbatim("pod node selector does not match the node label"),
            id="required affinity",
        ),
        pytest.param(
            WEB,
            node("n2", "a:NoExecute"),
            [],
            verbatim("pod does not tolerate taints on the node"),
            id="a NoExecute taint",
        ),
        pytest.param(WEB, node("n2", "a:PreferNoSchedule"), [], None, id="a soft taint"),
        pytest.param(
            pod("web", on="n1", tolerates="a"), node("n2", "a:NoSchedule"), [], None, id="tolerated"
        ),
        pytest.param(
            with_spec(WEB, anti_affinity=REPELS),
            node("n2"),
            [pod("db", on="n2", labels={"app": "db"})],
            verbatim("pod matches inter-pod anti-affinity rule of other pod on node"),
            id="anti-affinity to a resident",
        ),
        pytest.param(
            with_spec(WEB, anti_affinity=REPELS),
            node("n2"),
            [pod("db", on="n2", labels={"app": "db"}, namespace="bank")],
            None,
            id="not to one of another namespace",
        ),
        pytest.param(
            with_spec(WEB, anti_affinity=(PodAffinityTerm("rack", LabelSelector({"app": "db"})),)),
            node("n2"),
            [pod("db", on="n2", labels={"app": "db"})],
            None,
            id="not on a node without the topology label",
        ),
        pytest.param(
            with_spec(WEB, anti_affinity=REPELS),
            node("n2"),
            [pod("web", uid="w2", on="n2", labels={"app": "db"})],
            None,
            id="not to a pod of the same name, as upstream",
        ),
        pytest.param(
            WEB,
            node("n2", allocatable=SMALL),
            [pod("a", on="n2", requests={"cpu": "600m"})],
            "insufficient cpu",
            id="cpu taken by residents",
        ),
        pytest.param(
            pod("web", on="n2", requests={"cpu": "3"}),
            node("n2", allocatable=SMALL),
            [],
            None,
            id="resources do not count on its own node",
        ),
        pytest.param(
            pod("web", on="n1"),
            node("n2", allocatable=SMALL),
            [pod("a", on="n2"), pod("b", on="n2")],
            "insufficient pods",
            id="no pod slot left",
        ),
        pytest.param(
            pod("web", on="n1", requests={"example.com/gpu": "1"}),
            node("n2"),
            [],
            "insufficient example.com/gpu",
            id="a resource the node lacks",
        ),
        pytest.param(
            pod("web", on="n1", requests={"example.com/gpu": "0"}),
            node("n2"),
            [],
            None,
            id="none of a resource the node lacks",
        ),
    ],
)
def test_whether_a_pod_fits_a_node(
    candidate: Pod, target: Node, residents: list[Pod], expected: str | None
) -> None:
    assert reason(candidate, target, *residents) == expected


def test_ended_pods_leave_room_and_terminating_ones_do_not() -> None:
    from reactive_desched.model.objects import PodStatus

    heavy = pod("a", on="n2", requests={"cpu": "600m"})
    ended = msgspec.structs.replace(heavy, status=PodStatus("Succeeded"))
    leaving = msgspec.structs.replace(heavy, deletion_s=1)

    assert reason(WEB, node("n2", allocatable=SMALL), ended) is None
    assert reason(WEB, node("n2", allocatable=SMALL), leaving) == "insufficient cpu"


def search(*things: ClusterObject) -> UpstreamNodeFit:
    state = ClusterState()
    for thing in things:
        state.upsert(thing)
    return UpstreamNodeFit(ClusterView(state, lambda: 0))


def test_elsewhere_never_means_the_pods_own_node() -> None:
    assert not search(node("n1")).find_other_node(WEB, EVERYTHING)
    assert search(node("n1"), node("n2")).find_other_node(WEB, EVERYTHING)


def test_the_node_found_is_named() -> None:
    fit = search(node("n1"), node("n2", "a:NoSchedule"), node("n3"))

    assert fit.find_other_node(WEB, EVERYTHING) == "n3"
    assert fit.find_any_node(WEB) == "n1"


def test_why_nothing_was_found_is_counted_by_the_first_reason_of_each_node(golden: Golden) -> None:
    cordoned = node("n3", "a:NoSchedule", unschedulable=True)
    fit = search(node("n1"), node("n2", "a:NoSchedule"), cordoned, node("n4", "b:NoExecute"))
    sibling = msgspec.structs.replace(WEB, uid="sibling")

    for candidate in (WEB, sibling):
        assert fit.find_other_node(candidate, EVERYTHING) is None
        found = fit.diagnose_other_nodes(candidate, EVERYTHING)
        assert found.message == golden(diagnosis=found.diagnosis)
        assert str(found.diagnosis) == verbatim(
            "0/3 nodes are available: "
            "1 node is not schedulable, 2 pod does not tolerate taints on the node"
        )


def test_elsewhere_keeps_to_ready_nodes_of_the_evictors_selector() -> None:
    fit = search(node("n1"), node("n2", labels={"pool": "a"}), node("n3", ready="False"))

    assert fit.find_other_node(WEB, parse_selector("pool=a"))
    assert not fit.find_other_node(WEB, parse_selector("pool=b"))


def test_an_answer_that_nothing_fits_holds_until_a_pod_is_evicted() -> None:
    state = ClusterState()
    for thing in (node("n1"), node("n2", "a:NoSchedule")):
        state.upsert(thing)
    fit = UpstreamNodeFit(ClusterView(state, lambda: 0))
    assert not fit.find_other_node(WEB, EVERYTHING)

    state.upsert(node("n2"))
    assert not fit.find_other_node(WEB, EVERYTHING)
    fit.reserve(WEB)
    assert fit.find_other_node(WEB, EVERYTHING)
