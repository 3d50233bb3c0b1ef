"""What makes a pod be looked at again, and what does not."""

from typing import Any

import pytest

from reactive_desched.model.objects import ClusterObject, PodStatus
from reactive_desched.model.subjects import OnePod
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinity,
    InterPodAntiAffinityArgs,
)
from reactive_desched.testing.anti_affinity import MAIN, REGION, avoid, db, main_node, shy
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario

PLUGIN = InterPodAntiAffinity(InterPodAntiAffinityArgs())
WEB = {"app": "web"}


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param([], db("db", "n2"), id="a pod lands near it"),
        pytest.param([db("db", "n3")], main_node("n3"), id="a node joins its domain"),
        pytest.param([pod("db", on="n2", labels=WEB)], db("db", "n2"), id="a pod is labelled so"),
        pytest.param(
            [node("n3", labels={REGION: "x"}), db("db", "n3")],
            main_node("n3"),
            id="a node is labelled into its domain",
        ),
        pytest.param(
            [main_node("n3", ready="False"), db("db", "n3")],
            main_node("n3"),
            id="a node of its domain becomes ready",
        ),
    ],
)
def test_a_pod_is_flagged_as_soon_as(before: list[ClusterObject], change: ClusterObject) -> None:
    cluster = Scenario(PLUGIN, main_node("n1"), main_node("n2"), shy("web", "n1"), *before)
    assert cluster.flagged() == set()

    cluster.apply(change)

    assert cluster.flagged() == {"web"}


def test_a_pod_is_flagged_as_soon_as_it_lands_near_another() -> None:
    cluster = Scenario(PLUGIN, main_node("n1"), main_node("n2"), db("db", "n2"))
    cluster.apply(shy("web", "n1"))

    assert cluster.flagged() == {"web"}


def test_a_node_that_is_labelled_into_a_domain_brings_its_own_pods_along() -> None:
    cluster = Scenario(PLUGIN, main_node("n1"), node("n2"), db("db", "n1"), shy("web", "n2"))
    assert cluster.flagged() == set()

    cluster.apply(main_node("n2"))

    assert cluster.flagged() == {"web"}


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda c: c.remove(db("db", "n2")), id="the other is deleted"),
        pytest.param(
            lambda c: c.apply(db("db", "n2", status=PodStatus("Failed"))), id="the other ends"
        ),
        pytest.param(lambda c: c.apply(pod("db", on="n2")), id="the other has other labels"),
        pytest.param(lambda c: c.apply(node("n2")), id="the other's node leaves the domain"),
        pytest.param(lambda c: c.apply(node("n1")), id="its own node leaves the domain"),
        pytest.param(lambda c: c.remove(node("n2")), id="the other's node is deleted"),
        pytest.param(lambda c: c.apply(main_node("n2", ready="False")), id="it is not ready"),
        pytest.param(lambda c: c.apply(pod("web", on="n1")), id="it has no such terms any more"),
    ],
)
def test_a_finding_is_withdrawn_as_soon_as(ends: Any) -> None:  # a step of a scenario
    cluster = Scenario(PLUGIN, main_node("n1"), main_node("n2"), shy("web", "n1"), db("db", "n2"))
    assert cluster.flagged() == {"web"}

    ends(cluster)

    assert cluster.flagged() == set()


def test_a_change_is_looked_at_only_where_it_matters() -> None:
    cluster = Scenario(
        PLUGIN,
        *(main_node("n1"), main_node("n2"), node("n3", labels={REGION: "x"})),
        *(shy("web", "n1"), shy("far", "n3"), shy("other", "n1", avoid("app=x", REGION))),
        shy("host", "n1", avoid("app=db")),
    )

    assert cluster.judged_by(db("db", "n2")) == {OnePod("web")}
    assert cluster.judged_by(pod("plain", on="n2")) == set()
    assert cluster.judged_by(node("n1", labels={**MAIN, "rack": "7"})) == set()
    assert cluster.judged_by(main_node("n2", unschedulable=True)) == set()
    assert cluster.judged_by(node("n2", "x:NoSchedule", labels={REGION: "x"})) == {
        OnePod("web"),
        OnePod("far"),
    }
