"""Pods that have lost one they must not be near are named, and nobody else is."""

from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.objects import ZONE_LABEL, PodStatus
from reactive_desched.testing.anti_affinity import db_pod, with_anti_affinity
from reactive_desched.testing.builders import node, pod
from tests.support.neighbourhood import (
    DB_ANTI_AFFINITY,
    FAR_POD,
    NEAR_POD,
    POD_AVOIDING_DB,
    ZONES,
    PodAffinityCluster,
    resolved_pods,
)

WEB, DB = {"app": "web"}, {"app": "db"}


@pytest.mark.parametrize(
    "leaves",
    [
        pytest.param(lambda b: b.remove(NEAR_POD), id="is deleted"),
        pytest.param(
            lambda b: b.apply(replace(NEAR_POD, status=PodStatus("Succeeded"))), id="ends"
        ),
        pytest.param(lambda b: b.apply(replace(NEAR_POD, labels=WEB)), id="has other labels"),
        pytest.param(lambda b: b.apply(node("n2", zone="b")), id="moves with its node"),
        pytest.param(lambda b: b.apply(node("n2")), id="is in no zone any more"),
        pytest.param(lambda b: b.remove(ZONES[1]), id="loses its node"),
    ],
)
def test_a_pod_that_leaves_the_domain_resolves_the_conflict(
    leaves: Any,
) -> None:  # a step of a bench
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB, NEAR_POD, FAR_POD)

    assert resolved_pods(leaves(bench)) == {"shy"}
    assert bench.conflicts_of("shy") == [set()]


def test_a_pod_that_is_terminating_is_still_near() -> None:
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB, NEAR_POD)

    assert resolved_pods(bench.apply(replace(NEAR_POD, deletion_s=1))) == set()
    assert bench.conflicts_of("shy") == [{"near"}]


def test_what_does_not_concern_a_term_resolves_no_conflict() -> None:
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB, NEAR_POD, FAR_POD)

    assert resolved_pods(bench.remove(FAR_POD)) == set()
    assert resolved_pods(bench.apply(replace(NEAR_POD, labels={**DB, "tier": "x"}))) == set()
    assert resolved_pods(bench.apply(node("n2", labels={ZONE_LABEL: "a", "tier": "x"}))) == set()
    assert resolved_pods(bench.remove(pod("stranger"))) == set()
    assert resolved_pods(bench.apply(replace(POD_AVOIDING_DB, labels=DB))) == set()
    assert resolved_pods(bench.apply(replace(POD_AVOIDING_DB, labels=WEB))) == set()


def test_a_node_that_is_not_ready_resolves_no_conflict_where_it_moves() -> None:
    resting = node("n2", zone="a", ready="False")
    twins = [with_anti_affinity(db_pod(name, "n2"), DB_ANTI_AFFINITY) for name in "xy"]
    bench = PodAffinityCluster(ZONES[0], resting, POD_AVOIDING_DB, *twins)

    assert resolved_pods(bench.apply(node("n2", zone="b", ready="False"))) == set()


def test_a_node_that_moves_eases_the_pods_it_takes_along() -> None:
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB, NEAR_POD)

    assert resolved_pods(bench.apply(node("n1", zone="c"))) == {"shy"}
    assert bench.conflicts_of("shy") == [set()]
