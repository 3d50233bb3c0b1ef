"""The namespaces of a term: its pod's own, those listed, or those with labels."""

import pytest

from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL, Namespace
from reactive_desched.testing.anti_affinity import avoid, avoiding
from reactive_desched.testing.builders import node, pod
from tests.support.neighbourhood import NEAR, SHY, ZONES, Neighbourhood

DB = {"app": "db"}
LIVE = {"stage": "live"}


def test_without_namespaces_a_term_means_its_pods_own() -> None:
    stranger = pod("stranger", on="n2", labels=DB, namespace="shop")
    assert Neighbourhood(*ZONES, SHY, stranger).avoided("shy") == [set()]


def test_a_term_with_namespaces_means_those_and_not_its_pods_own() -> None:
    shy = avoiding(pod("shy", on="n1"), avoid("app=db", ZONE_LABEL, namespaces=("shop", "bank")))
    strangers = [
        pod(f"in-{name}", on="n2", labels=DB, namespace=name) for name in ("shop", "bank", "farm")
    ]
    bench = Neighbourhood(*ZONES, shy, NEAR, *strangers)

    assert bench.avoided("shy") == [{"in-shop", "in-bank"}]
    assert [bench.avoiding(p.uid) for p in strangers] == [{"shy"}, {"shy"}, set()]
    assert bench.avoiding("near") == set()


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
def test_only_the_scheduler_reads_a_namespace_selector(
    namespaces: tuple[str, ...], like: str, scheduler: set[str]
) -> None:
    term = avoid("app=db", ZONE_LABEL, namespaces=namespaces, namespaces_like=like)
    shy = avoiding(pod("shy", on="n1"), term)
    strangers = [pod(f"in-{name}", on="n2", labels=DB, namespace=name) for name in ("shop", "bank")]
    bench = Neighbourhood(Namespace("shop", labels=LIVE), *ZONES, shy, NEAR, *strangers)

    assert bench.avoided("shy") == [{"in-bank"} if namespaces else {"near"}]
    assert bench.matching(term).get("a", set()) == scheduler
    everybody = (NEAR, *strangers)
    assert {one.uid for one in everybody if bench.repelled(one)} == scheduler
    assert {one.uid for one in everybody if bench.avoiding(one.uid)} == bench.avoided("shy")[0]


def test_a_term_with_a_namespace_selector_and_one_without_are_kept_apart() -> None:
    here = avoiding(pod("here", on="n1"), avoid("app=db"))
    there = avoiding(pod("there", on="n1"), avoid("app=db", namespaces_like="stage=live"))
    bench = Neighbourhood(node("n1"), here, there, pod("db", on="n1", labels=DB))

    assert bench.avoiding("db") == {"here", "there"}
    assert bench.repelled(pod("new", labels=DB)) == {(HOSTNAME_LABEL, "n1", "here")}


def test_namespaces_that_are_labelled_otherwise_are_meant_otherwise() -> None:
    term = avoid("app=db", ZONE_LABEL, namespaces_like="stage=live")
    stranger = pod("stranger", on="n2", labels=DB, namespace="shop")
    bench = Neighbourhood(*ZONES, avoiding(pod("shy", on="n1"), term), stranger)
    assert bench.matching(term) == {}

    bench.apply(Namespace("shop", labels=LIVE))
    assert bench.matching(term) == {"a": {"stranger"}}
    assert bench.repelled(stranger) == {(ZONE_LABEL, "a", "shy")}

    bench.remove(Namespace("shop", labels=LIVE))
    assert bench.matching(term) == {}
    assert bench.repelled(stranger) == set()


def test_pods_that_came_and_went_meanwhile_are_meant_as_well_or_not_any_more() -> None:
    term = avoid("app=db", ZONE_LABEL, namespaces_like="stage=live")
    before, after = (
        pod(name, on="n2", labels=DB, namespace="shop") for name in ("before", "after")
    )
    bench = Neighbourhood(*ZONES, before)
    assert bench.matching(term) == {}

    bench.apply(after)
    bench.remove(before)
    bench.apply(Namespace("shop", labels=LIVE))

    assert bench.matching(term) == {"a": {"after"}}
