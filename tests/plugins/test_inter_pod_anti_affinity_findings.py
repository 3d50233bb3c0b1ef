"""What a finding says, and against whom it is."""

import pytest

from reactive_desched.model.findings import Finding
from reactive_desched.model.subjects import OnePod
from reactive_desched.plugins.inter_pod_anti_affinity import (
    LISTED_PARTNERS,
    InterPodAntiAffinity,
    InterPodAntiAffinityArgs,
)
from reactive_desched.testing.anti_affinity import REGION, avoid, db, main_node, shy
from reactive_desched.testing.scenario import Scenario

PLUGIN = InterPodAntiAffinity(InterPodAntiAffinityArgs())


def finding(cluster: Scenario, uid: str) -> Finding:
    [found] = cluster.opinions(OnePod(uid))
    assert isinstance(found, Finding)
    return found


def test_a_finding_names_the_domain_and_a_pod_and_all_whom_it_is_against() -> None:
    cluster = Scenario(
        PLUGIN, main_node("n1"), main_node("n2"), db("b", "n2"), db("a", "n1"), shy("web", "n1")
    )

    found = finding(cluster, "web")

    assert found.reason == ("shares region=main with default/a, which its anti-affinity forbids")
    assert found.numbers == {
        "topologyKey": REGION,
        "topologyValue": "main",
        "conflictingPod": "default/a",
        "conflictingPodUid": "a",
    }
    assert set(found.against) == {"a", "b"}
    assert not found.needs_fit


@pytest.mark.parametrize(
    ("partners", "listed"), [(LISTED_PARTNERS, LISTED_PARTNERS), (LISTED_PARTNERS + 1, 0)]
)
def test_a_finding_against_more_than_it_can_list_names_none(partners: int, listed: int) -> None:
    many = [db(f"db-{number}", "n1") for number in range(partners)]
    cluster = Scenario(PLUGIN, main_node("n1"), shy("web", "n1"), *many)

    assert len(finding(cluster, "web").against) == listed


def test_a_pod_that_two_terms_mean_is_named_once() -> None:
    web = shy("web", "n1", avoid("app=db", REGION), avoid("app=db"))
    cluster = Scenario(PLUGIN, main_node("n1"), web, db("db", "n1"))

    found = finding(cluster, "web")

    assert found.against == ("db",)
    assert found.reason.startswith("shares region=main with default/db,")
