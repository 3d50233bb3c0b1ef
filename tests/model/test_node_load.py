"""What is used on a node is the same, measured anew or followed pod by pod."""

import pytest
from msgspec.structs import replace

from reactive_desched.model.node_load import NodeLoad, make_rule, measure, with_pods_changed
from reactive_desched.model.objects import BEST_EFFORT, BURSTABLE, Pod, PodStatus
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.testing.builders import node, pod

RULE = make_rule({"cpu": 20}, {"cpu": 80}, {"cpu": 10}, {"cpu": 40})
NODE = node("n1")


def prod(name: str, uid: str = "") -> Pod:
    made = pod(name, on="n1", status=PodStatus(qos_class=BURSTABLE), requests={"cpu": "2"})
    return replace(made, uid=uid or made.uid)


def batch(name: str) -> Pod:
    return pod(name, on="n1", status=PodStatus(qos_class=BEST_EFFORT), requests={"cpu": "2"})


def sample(system: int, **used: int) -> NodeMetric:
    pods = {f"default/{name}": {"cpu": cpu, "memory": 1} for name, cpu in used.items()}
    usage = {"cpu": system + sum(used.values()), "memory": len(used)}
    return NodeMetric(NODE_METRIC, "n1", usage, 5.0, pods)


PODS = {
    "all are measured": [prod("a"), batch("b")],
    "one left since": [batch("b")],
    "one came since": [prod("a"), batch("b"), prod("c")],
    "one left and one came": [prod("a"), batch("c")],
    "one was made again, and the end of the first is not yet known": [
        *(prod("a"), batch("b"), prod("a", "second")),
    ],
    "none are left": [],
}


@pytest.mark.parametrize("follows", [True, False], ids=["reacting", "sweep"])
@pytest.mark.parametrize("pods", PODS.values(), ids=PODS)
def test_a_node_measured_anew_is_the_node_followed_pod_by_pod(
    pods: list[Pod], *, follows: bool
) -> None:
    rule, measured = replace(RULE, follows_pods=follows), sample(100, a=500, b=700)
    followed = measure(rule, NODE, [], measured)
    for each in pods:
        followed = with_pods_changed(rule, followed, None, each)

    assert measure(rule, NODE, pods, measured) == followed


def test_a_pod_that_came_uses_its_requests_and_one_that_left_uses_nothing() -> None:
    load = measure(RULE, NODE, [prod("a"), prod("c")], sample(100, a=500, b=700))

    assert load == NodeLoad(
        NODE,
        {"cpu": 100 + 500 + 2000, "memory": 1, "pods": 2},
        {"cpu": 500 + 2000, "memory": 1, "pods": 2},
        5.0,
        load.pods,
    )
