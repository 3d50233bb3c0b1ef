"""The namespaces of a term: its pod's own, those listed, or those with labels."""

import pytest

from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL, Namespace
from reactive_desched.testing.anti_affinity import anti_affinity_term, with_anti_affinity
from reactive_desched.testing.builders import node, pod
from tests.support.neighbourhood import (
    NEAR_POD,
    POD_AVOIDING_DB,
    ZONES,
    PodAffinityCluster,
    pods_to_judge_anew,
)

DB = {"app": "db"}
LIVE = {"stage": "live"}


def test_without_namespaces_a_term_means_its_pods_own() -> None:
    stranger = pod("stranger", on="n2", labels=DB, namespace="shop")
    assert PodAffinityCluster(*ZONES, POD_AVOIDING_DB, stranger).conflicts_of("shy") == [set()]


def test_a_term_with_namespaces_means_those_and_not_its_pods_own() -> None:
    shy = with_anti_affinity(
        pod("shy", on="n1"), anti_affinity_term("app=db", ZONE_LABEL, namespaces=("shop", "bank"))
    )
    strangers = [
        pod(f"in-{name}", on="n2", labels=DB, namespace=name) for name in ("shop", "bank", "farm")
    ]
    bench = PodAffinityCluster(*ZONES, shy, NEAR_POD, *strangers)

    assert bench.conflicts_of("shy") == [{"in-shop", "in-bank"}]
    assert [bench.pods_conflicting_with(p.uid) for p in strangers] == [{"shy"}, {"shy"}, set()]
    assert bench.pods_conflicting_with("near") == set()


@pytest.mark.parametrize(
    ("namespaces", "like", "scheduler"),
    [
        pytest.param((), "", {"near", "in-shop", "in-bank"}, id="an empty one means all"),
        pytest.param((), "stage=live", {"in-shop"}, id="those with the label"),
        pytest.param(("bank",), "stage=live", {"in-shop", "in-bank"}, id="those and the listed"),
        pytest.param((), "stage=none", set(), id="nobody, and not the pod's own"),
        pytest.param((), "!stage", {"near", "in-bank"}, id="namespaces we do not know have none"),
    ],
)
def test_a_sweep_does_not_read_a_namespace_selector(
    namespaces: tuple[str, ...], like: str, scheduler: set[str]
) -> None:
    term = anti_affinity_term("app=db", ZONE_LABEL, namespaces=namespaces, namespace_selector=like)
    shy = with_anti_affinity(pod("shy", on="n1"), term)
    strangers = [pod(f"in-{name}", on="n2", labels=DB, namespace=name) for name in ("shop", "bank")]
    bench = PodAffinityCluster(Namespace("shop", labels=LIVE), *ZONES, shy, NEAR_POD, *strangers)

    assert bench.conflicts_of("shy") == [scheduler]
    assert bench.conflicts_in_sweep("shy") == [{"in-bank"} if namespaces else {"near"}]
    assert bench.pods_matching_term(term).get("a", set()) == scheduler
    everybody = (NEAR_POD, *strangers)
    assert {one.uid for one in everybody if bench.forbidden_domains(one)} == scheduler
    assert {one.uid for one in everybody if bench.pods_conflicting_with(one.uid)} == scheduler


def test_a_term_with_a_namespace_selector_and_one_without_are_kept_apart() -> None:
    here = with_anti_affinity(pod("here", on="n1"), anti_affinity_term("app=db"))
    there = with_anti_affinity(
        pod("there", on="n1"), anti_affinity_term("app=db", namespace_selector="stage=live")
    )
    bench = PodAffinityCluster(node("n1"), here, there, pod("db", on="n1", labels=DB))

    assert bench.pods_conflicting_with("db") == {"here"}
    assert bench.forbidden_domains(pod("new", labels=DB)) == {(HOSTNAME_LABEL, "n1", "here")}


def test_namespaces_that_are_labelled_otherwise_are_meant_otherwise() -> None:
    term = anti_affinity_term("app=db", ZONE_LABEL, namespace_selector="stage=live")
    stranger = pod("stranger", on="n2", labels=DB, namespace="shop")
    bench = PodAffinityCluster(*ZONES, with_anti_affinity(pod("shy", on="n1"), term), stranger)
    assert bench.pods_matching_term(term) == {}

    assert pods_to_judge_anew(bench.apply(Namespace("shop", labels=LIVE))) == {"shy"}
    assert bench.pods_matching_term(term) == {"a": {"stranger"}}
    assert bench.forbidden_domains(stranger) == {(ZONE_LABEL, "a", "shy")}
    assert bench.conflicts_of("shy") == [{"stranger"}]

    assert pods_to_judge_anew(bench.remove(Namespace("shop", labels=LIVE))) == {"shy"}
    assert bench.pods_matching_term(term) == {}
    assert bench.forbidden_domains(stranger) == set()
    assert bench.conflicts_of("shy") == [set()]


def test_only_pods_near_one_of_the_namespace_that_their_terms_may_mean_are_judged_anew() -> None:
    live = anti_affinity_term("app=db", ZONE_LABEL, namespace_selector="stage=live")
    listed = anti_affinity_term(
        "app=db", ZONE_LABEL, namespaces=("shop",), namespace_selector="stage=live"
    )
    strangers = pod("db", on="n2", labels=DB, namespace="shop"), pod("x", on="n3", namespace="shop")
    bench = PodAffinityCluster(
        *ZONES,
        with_anti_affinity(pod("far", on="n3"), live),
        with_anti_affinity(pod("near", on="n1"), live),
        with_anti_affinity(pod("listed", on="n1"), listed),
        *strangers,
    )

    assert pods_to_judge_anew(bench.apply(Namespace("shop", labels=LIVE))) == {"near"}
    other = Namespace("shop", labels={**LIVE, "team": "x"})
    assert pods_to_judge_anew(bench.apply(other)) == set()


def test_pods_that_came_and_went_meanwhile_are_meant_as_well_or_not_any_more() -> None:
    term = anti_affinity_term("app=db", ZONE_LABEL, namespace_selector="stage=live")
    before, after = (
        pod(name, on="n2", labels=DB, namespace="shop") for name in ("before", "after")
    )
    bench = PodAffinityCluster(*ZONES, before)
    assert bench.pods_matching_term(term) == {}

    bench.apply(after)
    bench.remove(before)
    bench.apply(Namespace("shop", labels=LIVE))

    assert bench.pods_matching_term(term) == {"a": {"after"}}
