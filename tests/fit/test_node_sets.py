"""What a node itself says to a pod: it is closed or not wanted, or lacks room or a free port."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reactive_desched.model.node_affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from reactive_desched.model.objects import ClusterObject, HostPort, Pod, PodStatus
from reactive_desched.model.scheduling import (
    NODE_AFFINITY_MISMATCH,
    PORTS_IN_USE,
    TOO_MANY_PODS,
    UNSCHEDULABLE,
    UNTOLERATED_TAINTS,
)
from reactive_desched.testing.builders import READY, node, pod, term, with_spec

KeptOff = Callable[..., str | None]
MOVER = pod("mover", on="n1", requests={"cpu": "1"})
ASKS_NOTHING = pod("mover", on="n1")
ANY_OR_D = with_spec(
    MOVER, node_affinity=NodeAffinity(NodeSelector((NodeSelectorTerm(), term("d=1"))))
)
TWO_CORES = node("n2", allocatable={"cpu": "2", "pods": "9"})


def taking(cpu: str, status: PodStatus = READY) -> Pod:
    return pod("a", on="n2", requests={"cpu": cpu}, status=status)


def gpus(count: int) -> Pod:
    return with_spec(MOVER, requests={"example.com/gpu": count})


def listening(name: str, on: str, protocol: str = "TCP", ip: str = "0.0.0.0") -> Pod:
    return with_spec(pod(name, on=on), host_ports=(HostPort(80, protocol, ip),))


@pytest.mark.parametrize(
    ("candidate", "things", "why"),
    [
        pytest.param(MOVER, [node("n2")], None, id="an ordinary pod and an empty node"),
        pytest.param(MOVER, [node("n2", unschedulable=True)], UNSCHEDULABLE, id="cordoned"),
        pytest.param(
            pod("mover", on="n1", tolerates="*"),
            [node("n2", unschedulable=True)],
            None,
            id="cordoned, and tolerated",
        ),
        pytest.param(MOVER, [node("n2", "a:NoSchedule")], UNTOLERATED_TAINTS, id="a taint"),
        pytest.param(
            MOVER, [node("n2", "a:NoExecute")], UNTOLERATED_TAINTS, id="a NoExecute taint"
        ),
        pytest.param(MOVER, [node("n2", "a:PreferNoSchedule")], None, id="a soft taint"),
        pytest.param(
            pod("m", on="n1", tolerates="a"), [node("n2", "a:NoSchedule")], None, id="tolerated"
        ),
        pytest.param(
            with_spec(MOVER, node_selector={"d": "1"}),
            [node("n2")],
            NODE_AFFINITY_MISMATCH,
            id="node selector",
        ),
        pytest.param(
            pod("m", on="n1", requires="d=1"),
            [node("n2")],
            NODE_AFFINITY_MISMATCH,
            id="node affinity",
        ),
        pytest.param(
            ANY_OR_D,
            [node("n2", labels={"d": "1"})],
            None,
            id="one term of node affinity is enough",
        ),
        pytest.param(
            ANY_OR_D,
            [node("n2")],
            NODE_AFFINITY_MISMATCH,
            id="an empty term of node affinity never is",
        ),
        pytest.param(
            MOVER,
            [node("n2", allocatable={"cpu": "900m", "pods": "9"})],
            "Insufficient cpu",
            id="too small a node",
        ),
        pytest.param(
            MOVER,
            [TWO_CORES, replace(taking("1500m"), deletion_s=1)],
            "Insufficient cpu",
            id="what is being deleted still takes room",
        ),
        pytest.param(
            MOVER,
            [TWO_CORES, taking("1500m", PodStatus("Succeeded"))],
            None,
            id="what has ended takes none",
        ),
        pytest.param(
            MOVER,
            [TWO_CORES, replace(taking("500m"), resize_delta={"cpu": 600})],
            "Insufficient cpu",
            id="an in-place resize takes room",
        ),
        pytest.param(
            gpus(1),
            [node("n2")],
            "Insufficient example.com/gpu",
            id="an extended resource the node lacks",
        ),
        pytest.param(gpus(0), [node("n2")], None, id="none of it is enough"),
        pytest.param(
            ASKS_NOTHING,
            [node("n2", allocatable={"cpu": "1", "pods": "9"}), taking("2")],
            None,
            id="who asks for nothing fits an over-committed node",
        ),
        pytest.param(
            ASKS_NOTHING,
            [
                node("n2", allocatable={"cpu": "4", "pods": "2"}),
                pod("a", on="n2"),
                pod("b", on="n2"),
            ],
            TOO_MANY_PODS,
            id="no place among the pods",
        ),
        pytest.param(
            listening("mover", "n1"),
            [node("n2"), listening("a", "n2", ip="10.0.0.1")],
            PORTS_IN_USE,
            id="any address clashes with one",
        ),
        pytest.param(
            listening("mover", "n1", ip="10.0.0.2"),
            [node("n2"), listening("a", "n2", ip="10.0.0.1")],
            None,
            id="another address",
        ),
        pytest.param(
            listening("mover", "n1", "UDP"),
            [node("n2"), listening("a", "n2")],
            None,
            id="another protocol",
        ),
    ],
)
def test_whether_the_other_node_fits(
    kept_off: KeptOff, candidate: Pod, things: list[ClusterObject], why: str | None
) -> None:
    assert kept_off(candidate, things) == (None if why is None else str(why))
