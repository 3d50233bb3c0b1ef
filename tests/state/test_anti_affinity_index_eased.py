"""Pods that have lost one they must not be near are named, and nobody else is."""

from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.objects import ZONE_LABEL, PodStatus
from reactive_desched.testing.anti_affinity import avoiding, db
from reactive_desched.testing.builders import node, pod
from tests.support.neighbourhood import (
    AVOIDS_DB,
    FAR,
    NEAR,
    SHY,
    ZONES,
    Neighbourhood,
    eased,
)

WEB, DB = {"app": "web"}, {"app": "db"}


@pytest.mark.parametrize(
    "leaves",
    [
        pytest.param(lambda b: b.remove(NEAR), id="is deleted"),
        pytest.param(lambda b: b.apply(replace(NEAR, status=PodStatus("Succeeded"))), id="ends"),
        pytest.param(lambda b: b.apply(replace(NEAR, labels=WEB)), id="has other labels"),
        pytest.param(lambda b: b.apply(node("n2", zone="b")), id="moves with its node"),
        pytest.param(lambda b: b.apply(node("n2")), id="is in no zone any more"),
        pytest.param(lambda b: b.remove(ZONES[1]), id="loses its node"),
    ],
)
def test_who_is_near_a_pod_no_more_eases_it(leaves: Any) -> None:  # a step of a bench
    bench = Neighbourhood(*ZONES, SHY, NEAR, FAR)

    assert eased(leaves(bench)) == {"shy"}
    assert bench.avoided("shy") == [set()]


def test_a_pod_that_is_terminating_is_still_near() -> None:
    bench = Neighbourhood(*ZONES, SHY, NEAR)

    assert eased(bench.apply(replace(NEAR, deletion_s=1))) == set()
    assert bench.avoided("shy") == [{"near"}]


def test_what_does_not_concern_a_term_eases_nobody() -> None:
    bench = Neighbourhood(*ZONES, SHY, NEAR, FAR)

    assert eased(bench.remove(FAR)) == set()
    assert eased(bench.apply(replace(NEAR, labels={**DB, "tier": "x"}))) == set()
    assert eased(bench.apply(node("n2", labels={ZONE_LABEL: "a", "tier": "x"}))) == set()
    assert eased(bench.remove(pod("stranger"))) == set()
    assert eased(bench.apply(replace(SHY, labels=DB))) == set()
    assert eased(bench.apply(replace(SHY, labels=WEB))) == set()


def test_what_happens_on_nodes_that_do_not_count_eases_nobody() -> None:
    resting = node("n2", zone="a", ready="False")
    twins = [avoiding(db(name, "n2"), AVOIDS_DB) for name in "xy"]
    bench = Neighbourhood(ZONES[0], resting, SHY, *twins)

    assert eased(bench.remove(twins[0])) == set()
    assert eased(bench.apply(node("n2", zone="b", ready="False"))) == set()


def test_a_node_that_moves_eases_the_pods_it_takes_along() -> None:
    bench = Neighbourhood(*ZONES, SHY, NEAR)

    assert eased(bench.apply(node("n1", zone="c"))) == {"shy"}
    assert bench.avoided("shy") == [set()]
