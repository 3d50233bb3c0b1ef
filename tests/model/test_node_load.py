"""What is used on a node is the same, measured anew or followed pod by pod."""

import pytest
from msgspec.structs import replace

from reactive_desched.model.node_load import (
    Level,
    NodeLoad,
    RunningUse,
    make_rule,
    measure,
    other_use,
    with_new_sample,
)
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
    followed = RunningUse(rule, measure(rule, NODE, [prod("z")], measured))
    for each in pods:
        followed.count(each, 1)
    followed.count(prod("z"), -1)

    assert measure(rule, NODE, pods, measured) == followed.load()


def test_a_pod_that_came_uses_its_requests_and_one_that_left_uses_nothing() -> None:
    load = measure(RULE, NODE, [prod("a"), prod("c")], sample(100, a=500, b=700))

    assert load == NodeLoad(
        NODE,
        ("cpu", "memory", "pods"),
        (100 + 500 + 2000, 1, 2),
        (500 + 2000, 1, 2),
        5.0,
        load.pods,
    )


@pytest.mark.parametrize("follows", [True, False], ids=["reacting", "sweep"])
@pytest.mark.parametrize(
    "pods",
    [
        [prod("a"), prod("b")],
        [prod("a"), batch("b"), prod("c")],
        [prod("a"), batch("b")],
        [batch("a"), batch("b")],
        [],
    ],
    ids=["all prod", "some prod", "one prod", "no prod", "no pods"],
)
def test_a_new_sample_of_the_same_pods_counts_as_when_it_is_measured_anew(
    pods: list[Pod], *, follows: bool
) -> None:
    rule, names = replace(RULE, follows_pods=follows), [pod.name for pod in pods]
    first = sample(100, **dict.fromkeys(names, 500))
    second = replace(sample(300, **{name: 10**n for n, name in enumerate(names)}), sampled_s=6.0)
    cpu = sum(used["cpu"] for used in second.pods.values())
    summed = replace(second, pods_usage={"cpu": cpu, "memory": len(pods)})
    load, pick_others = measure(rule, NODE, pods, first), other_use(pods, first)

    assert pick_others is not None
    for each in (second, summed):
        assert with_new_sample(rule, load, each, pick_others) == measure(rule, NODE, pods, second)


def test_a_resource_that_was_not_measured_of_every_pod_counts_where_it_was() -> None:
    uses = {"default/a": {"cpu": 500}, "default/b": {"cpu": 300, "memory": 7}}
    measured = NodeMetric(NODE_METRIC, "n1", {"cpu": 900, "memory": 9}, 5.0, uses)

    load = measure(RULE, NODE, [prod("a"), prod("b")], measured)

    assert load.used(Level.PROD) == {"cpu": 800, "memory": 7, "pods": 2}


@pytest.mark.parametrize(
    "pods",
    [
        [prod("a")],
        [prod("a"), prod("c")],
        [prod("a"), prod("b"), prod("c")],
        [prod("a"), prod("a", "second")],
    ],
    ids=["one left", "one left and one came", "one came", "one was made again"],
)
def test_other_pods_than_those_of_the_sample_start_a_new_sample(pods: list[Pod]) -> None:
    assert other_use(pods, sample(100, a=500, b=700)) is None
