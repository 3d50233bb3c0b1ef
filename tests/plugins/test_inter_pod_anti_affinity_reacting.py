"""What makes a pod be looked at again, and what does not."""

from typing import Any

import pytest

from reactive_desched.model.objects import ClusterObject, PodStatus
from reactive_desched.model.subjects import PodSubject
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.testing.anti_affinity import (
    MAIN,
    REGION,
    anti_affinity_term,
    db_pod,
    main_node,
    pod_avoiding_db,
)
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario

PLUGIN = InterPodAntiAffinityPlugin(InterPodAntiAffinityArgs())
WEB = {"app": "web"}


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param([], db_pod("db", "n2"), id="a pod lands near it"),
        pytest.param([db_pod("db", "n3")], main_node("n3"), id="a node joins its domain"),
        pytest.param(
            [pod("db", on="n2", labels=WEB)], db_pod("db", "n2"), id="a pod is labelled so"
        ),
        pytest.param(
            [node("n3", labels={REGION: "x"}), db_pod("db", "n3")],
            main_node("n3"),
            id="a node is labelled into its domain",
        ),
        pytest.param(
            [main_node("n3", ready="False"), db_pod("db", "n3")],
            main_node("n3"),
            id="a node of its domain becomes ready",
        ),
    ],
)
def test_a_pod_is_flagged_as_soon_as(before: list[ClusterObject], change: ClusterObject) -> None:
    cluster = Scenario(
        PLUGIN, main_node("n1"), main_node("n2"), pod_avoiding_db("web", "n1"), *before
    )
    assert cluster.flagged() == set()

    cluster.apply(change)

    assert cluster.flagged() == {"web"}


def test_a_pod_is_flagged_as_soon_as_it_lands_near_another() -> None:
    cluster = Scenario(PLUGIN, main_node("n1"), main_node("n2"), db_pod("db", "n2"))
    cluster.apply(pod_avoiding_db("web", "n1"))

    assert cluster.flagged() == {"web"}


def test_a_node_that_is_labelled_into_a_domain_brings_its_own_pods_along() -> None:
    cluster = Scenario(
        PLUGIN, main_node("n1"), node("n2"), db_pod("db", "n1"), pod_avoiding_db("web", "n2")
    )
    assert cluster.flagged() == set()

    cluster.apply(main_node("n2"))

    assert cluster.flagged() == {"web"}


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda c: c.remove(db_pod("db", "n2")), id="the other is deleted"),
        pytest.param(
            lambda c: c.apply(db_pod("db", "n2", status=PodStatus("Failed"))), id="the other ends"
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
    cluster = Scenario(
        PLUGIN, main_node("n1"), main_node("n2"), pod_avoiding_db("web", "n1"), db_pod("db", "n2")
    )
    assert cluster.flagged() == {"web"}

    ends(cluster)

    assert cluster.flagged() == set()


def test_a_change_is_evaluated_only_where_it_matters() -> None:
    cluster = Scenario(
        PLUGIN,
        *(main_node("n1"), main_node("n2"), node("n3", labels={REGION: "x"})),
        *(
            pod_avoiding_db("web", "n1"),
            pod_avoiding_db("far", "n3"),
            pod_avoiding_db("other", "n1", anti_affinity_term("app=x", REGION)),
        ),
        pod_avoiding_db("host", "n1", anti_affinity_term("app=db")),
    )

    assert cluster.subjects_evaluated(db_pod("db", "n2")) == {PodSubject("web")}
    assert cluster.subjects_evaluated(pod("plain", on="n2")) == set()
    assert cluster.subjects_evaluated(node("n1", labels={**MAIN, "rack": "7"})) == set()
    assert cluster.subjects_evaluated(main_node("n2", unschedulable=True)) == set()
    assert cluster.subjects_evaluated(node("n2", "x:NoSchedule", labels={REGION: "x"})) == {
        PodSubject("web"),
        PodSubject("far"),
    }
