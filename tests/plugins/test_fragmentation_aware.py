"""FragmentationAware: which pod leaves a node of which unequal shares are requested.

The cases are the facts that koordinator's own tests pin, and their boundaries.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from reactive_desched.model.objects import Node, Pod
from reactive_desched.plugins.fragmentation_aware import (
    FragmentationAwareArgs,
    FragmentationAwarePlugin,
    Shares,
)
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.swept import swept

GI = 2**30


def fragmentation(**args: Any) -> FragmentationAwarePlugin:
    return plugin_from_policy(FragmentationAwarePlugin, FragmentationAwareArgs, **args)


def small(name: str, **more: Any) -> Node:
    has = {"cpu": "10", "memory": "10Gi", "pods": "10"}
    return node(name, allocatable=has, **more)


def asking(name: str, on: str, cpu: int, memory: int, **more: Any) -> Pod:
    requests = {"cpu": str(cpu), "memory": f"{memory}Gi"}
    return pod(name, on=on, owner="ReplicaSet/web", requests=requests, **more)


N1, N2 = small("n1"), small("n2")


@pytest.mark.parametrize(
    ("requested", "capacity", "deviation"),
    [
        ({"cpu": 5000, "memory": 5}, {"cpu": 10_000, "memory": 10}, 0.0),
        ({"cpu": 8000, "memory": 2}, {"cpu": 10_000, "memory": 10}, 0.3),
        ({"cpu": 8000}, {"cpu": 10_000, "memory": 10}, 0.4),
        ({"cpu": 8000}, {"cpu": 10_000}, 0.0),
        ({}, {}, 0.0),
        ({"cpu": 6, "memory": 3, "pods": 0}, {"cpu": 10, "memory": 10, "pods": 10}, 0.06**0.5),
    ],
)
def test_the_deviation_is_that_of_the_whole_population(
    requested: Mapping[str, int], capacity: Mapping[str, int], deviation: float
) -> None:
    assert Shares(requested, tuple(capacity.items())).deviation() == pytest.approx(deviation)


def test_an_even_node_keeps_its_pods() -> None:
    assert swept(fragmentation(), N1, N2, asking("a", "n1", 4, 4), asking("b", "n1", 3, 3)) == []


def test_the_pod_that_makes_the_shares_most_equal_leaves_and_no_second_one() -> None:
    pods = [asking("most", "n1", 5, 0), asking("less", "n1", 3, 0), asking("even", "n1", 1, 1)]

    assert swept(fragmentation(), N1, N2, *pods) == ["most"]


def test_a_deviation_equal_to_the_threshold_is_no_reason() -> None:
    pods = [asking("a", "n1", 3, 0)]

    assert swept(fragmentation(imbalanceThreshold=0.15), N1, N2, *pods) == []
    assert swept(fragmentation(imbalanceThreshold=0.149), N1, N2, *pods) == ["a"]


def test_an_improvement_equal_to_the_least_is_not_enough() -> None:
    pods = [asking("a", "n1", 1, 0), asking("ds", "n1", 7, 0, labels={"app": "fixed"})]
    mine = {"podSelectors": [{"selector": {"matchExpressions": [
        {"key": "app", "operator": "DoesNotExist"}]}}]}  # fmt: skip

    gain = (
        Shares({"cpu": 8, "memory": 0}, (("cpu", 10), ("memory", 10))).deviation()
        - Shares({"cpu": 7, "memory": 0}, (("cpu", 10), ("memory", 10))).deviation()
    )
    assert swept(fragmentation(minImprovementThreshold=gain, **mine), N1, N2, *pods) == []
    assert swept(fragmentation(minImprovementThreshold=gain - 0.001, **mine), N1, N2, *pods) == [
        "a"
    ]


def test_a_pod_that_fits_nowhere_else_is_passed_over() -> None:
    pods = [asking("big", "n1", 8, 0), asking("other", "n1", 1, 0), asking("full", "n2", 5, 5)]

    assert swept(fragmentation(), N1, N2, *pods) == ["other"]
    assert swept(fragmentation(nodeFit=False), N1, N2, *pods) == ["big"]


def test_pods_move_among_the_selected_nodes_alone() -> None:
    chosen = {"nodeSelector": {"matchLabels": {"pool": "a"}}}
    n1, n2 = small("n1", labels={"pool": "a"}), small("n2", labels={"pool": "b"})
    loaded = asking("a", "n1", 5, 0), asking("b", "n2", 5, 0)

    assert swept(fragmentation(**chosen), n1, n2, *loaded) == []
    again = small("n3", labels={"pool": "a"})
    assert swept(fragmentation(**chosen), n1, n2, again, *loaded) == ["a"]


@pytest.mark.parametrize(
    "args",
    [
        {"paused": True},
        {"dryRun": True},
        {"evictableNamespaces": {"exclude": ["default"]}},
        {"evictableNamespaces": {"include": ["other"]}},
        {"podSelectors": [{"selector": {"matchLabels": {"app": "db"}}}]},
        {"resources": ["cpu"]},
        {"resources": ["cpu", "example.com/none"]},
    ],
)
def test_what_the_arguments_leave_out_stays(args: Mapping[str, Any]) -> None:
    loaded = asking("a", "n1", 5, 0)

    assert swept(fragmentation(), N1, N2, loaded) == ["a"]
    assert swept(fragmentation(**args), N1, N2, loaded) == []


def test_an_empty_list_of_resources_stands_for_the_default_ones() -> None:
    loaded = asking("a", "n1", 5, 0)

    assert swept(fragmentation(resources=[]), N1, N2, loaded) == ["a"]


def test_pods_that_stay_count_as_load() -> None:
    away = asking("a", "n1", 5, 0, namespace="kube-system")
    args = {"evictableNamespaces": {"exclude": ["kube-system"]}}

    assert swept(fragmentation(**args), N1, N2, away, asking("b", "n1", 1, 0)) == ["b"]


def test_the_number_of_pods_is_a_resource_too() -> None:
    pods = [asking(f"p{n}", "n1", 0, 0) for n in range(5)]

    assert swept(fragmentation(resources=["cpu", "pods"]), N1, N2, *pods) == ["p0"]
