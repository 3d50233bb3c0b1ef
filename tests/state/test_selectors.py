"""What is remembered of selections that only a question needs, and what is forgotten."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL
from reactive_desched.primitives import long_answers
from reactive_desched.primitives.long_answers import AnswerTakesLong
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
    monkeypatch.setattr(selectors, "MAX_RECENT_PODS", 3)
    pods = [pod(f"p{number}", on="n1", labels=WEB) for number in range(2)]
    bench = PodAffinityCluster(*ZONES, *pods)
    for app in ("x", "y", "z"):
        bench.pods_matching_selector(f"app notin ({app})")
    assert len(bench.index.queries) == 2, "twice as many pods as there are"

    for app in ("x", "y", "z"):
        bench.pods_matching_selector(f"app in ({app})")
    assert len(bench.index.queries) == 5


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


@pytest.fixture
def one_pod_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (long_answers, selectors):
        monkeypatch.setattr(module, "PORTION", 1)
    monkeypatch.setattr(selectors, "SHORT_STEPS", 0)


def begin(bench: PodAffinityCluster, text: str) -> Iterator[None]:
    """Ask as an evaluation does; return the steps of the answer, of which one is taken."""
    with pytest.raises(AnswerTakesLong) as asked, bench.index.queries.long_answers:
        bench.pods_matching_selector(text)
    next(asked.value.steps)
    return asked.value.steps


def test_pods_that_have_other_labels_while_they_are_collected_are_among_them_or_not(
    one_pod_a_step: None,
) -> None:
    shared = {"app": "web"}
    pods = [pod(name, on="n1", labels=shared) for name in ("first", "stays", "leaves", "differs")]
    pods = [replace(each, labels=shared) for each in pods]
    bench = PodAffinityCluster(*ZONES, *pods)
    left = begin(bench, "app")

    bench.apply(replace(pods[2], labels={"tier": "x"}), replace(pods[3], labels={"app": "other"}))
    bench.apply(pod("comes", on="n3", labels=WEB))
    assert sum(1 for _ in left)

    assert bench.pods_matching_selector("app") == {
        "a": {"first", "stays", "differs"},
        "b": {"comes"},
    }


def test_a_pod_whose_old_labels_were_not_looked_at_yet_is_collected_by_its_new_ones(
    one_pod_a_step: None,
) -> None:
    pods = [pod(name, on="n1", labels={"app": name}) for name in ("first", "second")]
    bench = PodAffinityCluster(*ZONES, *pods)
    left = begin(bench, "app")

    bench.apply(replace(pods[1], labels={"app": "third"}))
    list(left)

    assert bench.pods_matching_selector("app") == {"a": {"first", "second"}}


def test_pods_of_a_node_that_moves_while_they_are_collected_are_in_its_new_domain(
    one_pod_a_step: None,
) -> None:
    bench = PodAffinityCluster(*ZONES, NEAR_POD, FAR_POD)
    begin(bench, "app")

    bench.apply(node("n2", zone="c"), node("n3", zone="d"))

    assert bench.pods_matching_selector("app") == {"c": {"near"}, "d": {"far"}}


def test_many_pods_that_are_forgotten_are_freed_in_steps_by_changes_and_before_a_long_answer(
    one_remembered: None, one_pod_a_step: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "SIZE_FREED_AT_ONCE", 0)
    bench = PodAffinityCluster(*ZONES, NEAR_POD, FAR_POD)
    near, far = (
        bench.index.matching_selector("default", selector(f"no{number} notin (x)"), HOSTNAME_LABEL)
        for number in (1, 2)
    )
    assert set(near.values()) == {"n2", "n3"}, "it is forgotten, and not freed yet"

    bench.apply(*(pod(f"p{number}", on="n1", labels=WEB) for number in range(3)))
    assert not near
    assert far

    for _ in begin(bench, "no3 notin (x)"):
        pass
    assert not far
