"""What is remembered of selections that only a question needs, and what is forgotten."""

import pytest

from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL
from reactive_desched.state.indexes import selectors
from reactive_desched.state.indexes.topology_domains import TopologyDomains
from reactive_desched.testing.anti_affinity import (
    INVALID_TERM,
    anti_affinity_term,
    db_pod,
    pod_avoiding_db,
    selector,
    with_anti_affinity,
)
from reactive_desched.testing.builders import node, pod
from tests.support.footprint import footprint
from tests.support.neighbourhood import (
    FAR_POD,
    NEAR_POD,
    POD_AVOIDING_DB,
    ZONES,
    PodAffinityCluster,
)

RACK = "example.com/rack"
WEB = {"app": "web"}


@pytest.fixture
def one_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the last question be remembered."""
    monkeypatch.setattr(selectors, "MAX_UNREFERENCED_QUERIES", 1)


def test_a_spread_constraint_finds_its_counts_and_they_are_kept() -> None:
    bench = PodAffinityCluster(*ZONES, NEAR_POD, FAR_POD, POD_AVOIDING_DB)
    assert bench.pods_matching_selector("app") == {"a": {"near", "shy"}, "b": {"far"}}

    bench.remove(FAR_POD)
    bench.apply(pod("more", on="n3", labels=WEB), node("n2", zone="c"))

    assert bench.pods_matching_selector("app") == {"a": {"shy"}, "b": {"more"}, "c": {"near"}}


def test_templates_that_say_the_same_share_a_selection() -> None:
    twins = [pod_avoiding_db(name, "n1", anti_affinity_term("app=db")) for name in ("one", "two")]
    bench = PodAffinityCluster(node("n1"), *twins)

    assert len(bench.index.queries) == 1
    assert len(bench.index.terms_matching(db_pod("db", "n1"))) == 1


def test_at_the_bound_the_selection_asked_for_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selectors, "MAX_UNREFERENCED_QUERIES", 2)
    bench = PodAffinityCluster(*ZONES, NEAR_POD)

    def ask(app: str) -> TopologyDomains:
        return bench.index.matching_selector("default", selector(f"app={app}"), ZONE_LABEL)

    first = {app: ask(app) for app in ("db", "x")}
    ask("db")
    first["y"] = ask("y")

    assert len(bench.index.queries) == 2
    assert ask("y") is first["y"]
    assert ask("db") is first["db"]
    assert ask("x") is not first["x"]


def test_selections_are_forgotten_by_how_many_pods_they_have_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selectors, "MAX_UNREFERENCED_PODS", 3)
    pods = [pod(f"p{number}", on="n1", labels=WEB) for number in range(2)]
    bench = PodAffinityCluster(*ZONES, *pods)
    for app in ("x", "y", "z"):
        bench.pods_matching_selector(f"app notin ({app})")
    assert len(bench.index.queries) == 1

    for app in ("x", "y", "z"):
        bench.pods_matching_selector(f"app in ({app})")
    assert len(bench.index.queries) == 4


def test_what_was_forgotten_is_found_out_anew(one_remembered: None) -> None:
    bench = PodAffinityCluster(*ZONES, NEAR_POD)
    bench.pods_matching_selector("app=db")
    bench.pods_matching_selector("app=x")
    bench.apply(FAR_POD)

    assert bench.pods_matching_selector("app=db") == {"a": {"near"}, "b": {"far"}}
    assert bench.pods_matching_selector("app=x") == {}


def test_a_pod_matches_a_selection_until_it_is_forgotten(one_remembered: None) -> None:
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB)
    matching = bench.index.queries.queries_matching
    assert len(matching(POD_AVOIDING_DB)) == 0

    bench.pods_matching_selector("app")
    assert len(matching(POD_AVOIDING_DB)) == 1

    bench.remove(POD_AVOIDING_DB)  # the selection of its own term was used later than "app"
    assert len(matching(POD_AVOIDING_DB)) == 0


def test_a_selection_that_a_pod_refers_to_is_not_forgotten(one_remembered: None) -> None:
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB, NEAR_POD)
    for app in "vwxyz":
        bench.pods_matching_selector(f"app={app}")

    assert bench.conflicts_of("shy") == [{"near"}]
    assert len(bench.index.queries) == 2


def test_when_all_pods_are_gone_nothing_is_left_but_the_last_questions(
    one_remembered: None,
) -> None:
    terms = (
        *(
            anti_affinity_term("app=db", RACK),
            anti_affinity_term("app=web", namespaces=("shop", "bank")),
        ),
        *(
            anti_affinity_term("app in (a,b)", namespace_selector="x=y"),
            INVALID_TERM,
            anti_affinity_term("app=db", RACK),
        ),
    )
    plain = pod("shy", on="n1", labels=WEB)
    bench = PodAffinityCluster(*ZONES, with_anti_affinity(plain, *terms), NEAR_POD)
    bench.pods_matching_selector("app=x", namespace="farm")
    never_avoided = PodAffinityCluster(*ZONES, plain, NEAR_POD)
    for each in (bench, never_avoided):
        each.remove(plain, NEAR_POD)
        each.pods_matching_selector("tier=y", HOSTNAME_LABEL, "farm")

    assert footprint(bench.index) == footprint(never_avoided.index)
    assert set(bench.index.queries.topology_keys) == {HOSTNAME_LABEL}


def test_labels_that_no_selection_demands_any_more_are_not_indexed(one_remembered: None) -> None:
    bench, never_asked = PodAffinityCluster(*ZONES, NEAR_POD), PodAffinityCluster(*ZONES, NEAR_POD)
    bench.pods_matching_selector("app=db")
    for each in (bench, never_asked):
        each.pods_matching_selector("tier=x")

    assert footprint(bench.index) == footprint(never_asked.index)
