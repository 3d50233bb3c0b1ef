"""What a finding says, and against whom it is."""

import pytest

from reactive_desched.model.findings import Finding
from reactive_desched.model.subjects import PodSubject
from reactive_desched.plugins.inter_pod_anti_affinity import (
    MAX_LISTED_CONFLICTS,
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.testing.anti_affinity import (
    REGION,
    anti_affinity_term,
    db_pod,
    main_node,
    pod_avoiding_db,
)
from reactive_desched.testing.scenario import Scenario
from tests.support.golden import Golden

PLUGIN = InterPodAntiAffinityPlugin(InterPodAntiAffinityArgs())


def finding(cluster: Scenario, uid: str) -> Finding:
    [found] = cluster.evaluate(PodSubject(uid))
    assert isinstance(found, Finding)
    return found


def test_a_finding_names_the_domain_and_a_pod_and_all_it_conflicts_with(golden: Golden) -> None:
    cluster = Scenario(
        PLUGIN,
        main_node("n1"),
        main_node("n2"),
        db_pod("b", "n2"),
        db_pod("a", "n1"),
        pod_avoiding_db("web", "n1"),
    )

    found = finding(cluster, "web")

    assert found.message == golden()
    assert found.details == {
        "topologyKey": REGION,
        "topologyValue": "main",
        "conflictingPod": "default/a",
        "conflictingPodUid": "a",
    }
    assert set(found.conflicts_with) == {"a", "b"}
    assert not found.needs_fit


@pytest.mark.parametrize(
    ("partners", "listed"),
    [(MAX_LISTED_CONFLICTS, MAX_LISTED_CONFLICTS), (MAX_LISTED_CONFLICTS + 1, 0)],
)
def test_a_finding_against_more_than_it_can_list_names_none(partners: int, listed: int) -> None:
    many = [db_pod(f"db-{number}", "n1") for number in range(partners)]
    cluster = Scenario(PLUGIN, main_node("n1"), pod_avoiding_db("web", "n1"), *many)

    assert len(finding(cluster, "web").conflicts_with) == listed


def test_a_pod_that_two_terms_mean_is_named_once() -> None:
    web = pod_avoiding_db(
        "web", "n1", anti_affinity_term("app=db", REGION), anti_affinity_term("app=db")
    )
    cluster = Scenario(PLUGIN, main_node("n1"), web, db_pod("db", "n1"))

    found = finding(cluster, "web")

    assert found.conflicts_with == ("db",)
    assert found.message.startswith("shares region=main with default/db,")
