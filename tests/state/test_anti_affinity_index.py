"""Who is near whom, and who keeps away from whom."""

import pytest
from msgspec.structs import replace

from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL
from reactive_desched.testing.anti_affinity import (
    INVALID_TERM,
    anti_affinity_term,
    with_anti_affinity,
)
from reactive_desched.testing.builders import node, pod
from tests.support.neighbourhood import (
    DB_ANTI_AFFINITY,
    FAR_POD,
    NEAR_POD,
    POD_AVOIDING_DB,
    ZONES,
    PodAffinityCluster,
    pods_to_judge_anew,
    resolved_pods,
)

RACK = "example.com/rack"
WEB, DB = {"app": "web"}, {"app": "db"}


def test_a_term_means_pods_of_its_domain_on_any_of_its_nodes() -> None:
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB, NEAR_POD, FAR_POD)

    assert bench.conflicts_of("shy") == [{"near"}]
    assert bench.pods_matching_term(DB_ANTI_AFFINITY) == {"a": {"near"}, "b": {"far"}}


def test_an_index_answers_which_pods_avoid_a_pod_and_which_repel_it_and_where() -> None:
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB, NEAR_POD, FAR_POD)

    assert bench.pods_conflicting_with("near") == {"shy"}
    assert bench.pods_conflicting_with("far") == set()
    assert bench.forbidden_domains(pod("new", labels=DB)) == {(ZONE_LABEL, "a", "shy")}
    assert bench.forbidden_domains(pod("new", labels=WEB)) == set()


def test_a_domain_with_pods_on_nodes_that_count_and_others_is_one_domain() -> None:
    resting = node("n3", zone="a", ready="False")
    bench = PodAffinityCluster(*ZONES[:2], resting, POD_AVOIDING_DB, NEAR_POD, FAR_POD)

    assert bench.pods_matching_term(DB_ANTI_AFFINITY) == {"a": {"near", "far"}}


def test_a_pod_with_terms_is_asked_about_itself() -> None:
    assert PodAffinityCluster(*ZONES, POD_AVOIDING_DB).pods_conflicting_with("shy") == {"shy"}


def test_pods_that_exclude_each_other_find_each_other_and_themselves() -> None:
    term = anti_affinity_term("app=web")
    twins = [with_anti_affinity(pod(name, on="n1", labels=WEB), term) for name in ("one", "two")]
    bench = PodAffinityCluster(node("n1"), *twins)

    assert bench.conflicts_of("one") == [{"one", "two"}]
    assert bench.pods_conflicting_with("one") == {"one", "two"}


@pytest.mark.parametrize(
    ("text", "labels", "meant"),
    [
        pytest.param("app=db", DB, True, id="one label"),
        pytest.param("app=db", {**DB, "tier": "x"}, True, id="among other labels"),
        pytest.param("app=db,tier=x", DB, False, id="one of two labels is not enough"),
        pytest.param("app in (db,web)", DB, True, id="one of several values"),
        pytest.param("app in (db,web)", {"app": "x"}, False, id="none of several values"),
        pytest.param("app=db,app in (db,web)", DB, True, id="the same label twice"),
        pytest.param("app", DB, True, id="a label with any value"),
        pytest.param("!app", DB, False, id="no such label, but it has one"),
        pytest.param("!app", {}, True, id="no such label"),
        pytest.param("app notin (web)", DB, True, id="another value"),
        pytest.param("app=db,tier notin (x)", DB, True, id="one label and not another"),
        pytest.param("", {}, True, id="an empty selector means everybody"),
        pytest.param(None, {}, False, id="no selector means nobody"),
    ],
)
def test_selectors_of_every_shape_find_their_pods_and_are_found_by_them(
    text: str | None, labels: dict[str, str], *, meant: bool
) -> None:
    shy = with_anti_affinity(pod("shy", on="n1", labels={"app": "shy"}), anti_affinity_term(text))
    other = pod("other", on="n1", labels=labels)
    for things in ((shy, other), (other, shy)):
        bench = PodAffinityCluster(node("n1"), *things)

        assert ("other" in set().union(*bench.conflicts_of("shy"))) == meant
        assert bench.conflicts_in_sweep("shy") == bench.conflicts_of("shy")
        assert ("shy" in bench.pods_conflicting_with("other")) == meant
        assert bool(bench.forbidden_domains(other)) == meant
        assert bool(bench.pods_matching_term(anti_affinity_term(text))) == meant


def test_a_selector_that_does_not_parse_matches_no_pod_but_a_sweep_learns_of_it() -> None:
    shy = with_anti_affinity(
        pod("shy", on="n1", labels=WEB), INVALID_TERM, anti_affinity_term("app=web")
    )
    bench = PodAffinityCluster(node("n1"), shy)

    assert bench.conflicts_of("shy") == [{"shy"}]
    assert bench.conflicts_in_sweep("shy") == [None, {"shy"}]
    assert bench.pods_matching_term(INVALID_TERM) == {}


def test_on_a_node_without_the_label_a_sweep_alone_sees_a_neighbour() -> None:
    shy = with_anti_affinity(pod("shy", on="n1"), anti_affinity_term("app=db", RACK))
    bench = PodAffinityCluster(node("n1"), node("n2"), shy, pod("db", on="n1", labels=DB))
    bench.apply(pod("elsewhere", on="n2", labels=DB))
    bench.apply(with_anti_affinity(pod("content", on="n1"), anti_affinity_term("app=x", RACK)))

    assert bench.conflicts_in_sweep("shy") == [{"db"}]
    assert bench.conflicts_of("shy") == []
    assert bench.pods_conflicting_with("db") == set()
    assert bench.pods_conflicting_on_node("n1") == set()
    assert bench.forbidden_domains(pod("new", labels=DB)) == set()
    assert bench.pods_matching_term(anti_affinity_term("app=db", RACK)) == {}


def test_a_label_with_an_empty_value_is_a_domain_like_any_other() -> None:
    shy = with_anti_affinity(pod("shy", on="n1"), anti_affinity_term("app=db", RACK))
    racks = node("n1", labels={RACK: ""}), node("n2", labels={RACK: ""})
    bench = PodAffinityCluster(*racks, shy, pod("db", on="n2", labels=DB))

    assert bench.conflicts_of("shy") == [{"db"}]
    assert bench.pods_conflicting_with("db") == {"shy"}


def test_pods_of_a_node_that_is_not_ready_do_not_count_as_forbidden() -> None:
    bench = PodAffinityCluster(
        ZONES[0], node("n2", zone="a", ready="False"), POD_AVOIDING_DB, NEAR_POD
    )

    assert bench.conflicts_of("shy") == [set()]
    assert bench.pods_matching_term(DB_ANTI_AFFINITY) == {"a": {"near"}}
    assert bench.apply(node("n2", zone="a")) != []
    assert bench.conflicts_of("shy") == [{"near"}]
    assert bench.pods_conflicting_on_node("n2") == {"shy"}
    assert resolved_pods(bench.apply(node("n2", zone="a", ready="False"))) == {"shy"}
    assert bench.conflicts_of("shy") == [set()]


def test_pods_of_a_node_that_the_policy_does_not_select_count_while_it_is_ready() -> None:
    bench = PodAffinityCluster(
        node("n1", zone="a", labels={"pool": "x"}), POD_AVOIDING_DB, NEAR_POD, selects="pool=x"
    )
    assert pods_to_judge_anew(bench.apply(node("n2", zone="a"))) == {"shy"}
    assert bench.conflicts_of("shy") == [{"near"}]
    assert bench.conflicts_in_sweep("shy") == [set()]
    assert bench.pods_conflicting_with("near") == {"shy"}

    assert resolved_pods(bench.apply(node("n2", zone="b"))) == {"shy"}
    assert pods_to_judge_anew(bench.apply(node("n2", zone="a"))) == {"shy"}
    assert resolved_pods(bench.apply(node("n2", zone="a", ready="False"))) == {"shy"}
    assert pods_to_judge_anew(bench.apply(node("n2", zone="a"))) == {"shy"}
    assert resolved_pods(bench.remove(node("n2", zone="a"))) == {"shy"}


def test_another_policy_lets_other_nodes_count() -> None:
    pool = {ZONE_LABEL: "a", "pool": "x"}
    bench = PodAffinityCluster(
        node("n1", labels=pool), node("n2", zone="a"), POD_AVOIDING_DB, NEAR_POD, selects="pool=x"
    )
    assert bench.conflicts_in_sweep("shy") == [set()]

    list(bench.state.set_node_selector(parse_selector("")))
    assert bench.conflicts_in_sweep("shy") == [{"near"}]
    assert bench.conflicts_of("shy") == [{"near"}]

    list(bench.state.set_node_selector(parse_selector("pool=x")))
    assert bench.conflicts_in_sweep("shy") == [set()]
    assert bench.conflicts_of("shy") == [{"near"}]


def test_pods_may_be_known_before_their_node_is() -> None:
    bench = PodAffinityCluster(POD_AVOIDING_DB, NEAR_POD)
    assert bench.forbidden_domains(pod("new", labels=DB)) == set()

    bench.apply(*ZONES)

    assert bench.conflicts_of("shy") == [{"near"}]
    assert bench.forbidden_domains(pod("new", labels=DB)) == {(ZONE_LABEL, "a", "shy")}


def test_only_the_labels_that_changed_matter_where_a_node_says_which() -> None:
    hosts = with_anti_affinity(pod("hosts", on="n2", labels=WEB), anti_affinity_term("app=db"))
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB, NEAR_POD, hosts)

    assert bench.pods_conflicting_on_node("n2") == {"shy", "hosts"}
    assert bench.pods_conflicting_on_node("n2", ZONE_LABEL) == {"shy"}
    assert bench.pods_conflicting_on_node("n2", HOSTNAME_LABEL, "x") == {"hosts"}
    assert bench.pods_conflicting_on_node("n2", "x") == set()


def test_pods_without_rules_about_others_are_not_judged_with_their_node() -> None:
    alone = with_anti_affinity(pod("alone", on="n1", labels=WEB), anti_affinity_term("app=web"))
    bench = PodAffinityCluster(node("n1"), alone)
    assert bench.pods_conflicting_on_node("n1") == set()

    bench.apply(pod("other", on="n1", labels=WEB))
    assert bench.pods_conflicting_on_node("n1") == {"alone"}


def test_a_pods_terms_may_differ_from_before() -> None:
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB, NEAR_POD)
    bench.apply(with_anti_affinity(POD_AVOIDING_DB, anti_affinity_term("app=x", ZONE_LABEL)))

    assert bench.conflicts_of("shy") == [set()]
    assert bench.pods_conflicting_with("near") == set()
    bench.apply(
        with_anti_affinity(
            POD_AVOIDING_DB, anti_affinity_term("app=db", HOSTNAME_LABEL), DB_ANTI_AFFINITY
        )
    )
    assert bench.conflicts_of("shy") == [set(), {"near"}]


def test_one_of_two_that_declare_the_same_may_leave() -> None:
    term = anti_affinity_term("app=db")
    one, two = (with_anti_affinity(pod(name, on="n1"), term) for name in ("one", "two"))
    bench = PodAffinityCluster(node("n1"), one, two)
    bench.remove(one)

    assert bench.forbidden_domains(pod("db", labels=DB)) == {(HOSTNAME_LABEL, "n1", "two")}


def test_a_node_that_joins_a_domain_of_any_label_is_near_those_in_it() -> None:
    shy = with_anti_affinity(pod("shy", on="n1"), anti_affinity_term("app=db", RACK))
    bench = PodAffinityCluster(
        node("n1", labels={RACK: "r"}), node("n2", labels={RACK: "r"}), shy, NEAR_POD
    )

    assert bench.pods_conflicting_on_node("n2") == {"shy"}


def test_a_name_that_another_pod_took_over_is_counted_once_in_the_end() -> None:
    reborn = pod("near", uid="reborn", on="n3", labels=DB, version=9)
    bench = PodAffinityCluster(*ZONES, POD_AVOIDING_DB, NEAR_POD, reborn)
    bench.remove(NEAR_POD)

    assert bench.pods_matching_term(DB_ANTI_AFFINITY) == {"b": {"reborn"}}
    assert bench.conflicts_of("shy") == [set()]


@pytest.mark.parametrize(
    ("keys", "met"),
    [
        pytest.param({"match_label_keys": ("version",)}, {"old"}, id="matchLabelKeys: its own"),
        pytest.param({"mismatch_label_keys": ("version",)}, {"new"}, id="mismatchLabelKeys"),
        pytest.param({"match_label_keys": ("none",)}, {"old", "new"}, id="a label it has not"),
    ],
)
def test_label_keys_narrow_a_term_to_the_pods_own_values_but_not_in_a_sweep(
    keys: dict[str, tuple[str, ...]], met: set[str]
) -> None:
    term = replace(DB_ANTI_AFFINITY, **keys)
    shy = with_anti_affinity(pod("shy", on="n1", labels={"app": "shy", "version": "1"}), term)
    old, new = (
        pod(name, on="n2", labels={**DB, "version": version})
        for name, version in (("old", "1"), ("new", "2"))
    )
    bench = PodAffinityCluster(*ZONES, shy, old, new)

    assert bench.conflicts_of("shy") == [met]
    assert {one.uid for one in (old, new) if bench.pods_conflicting_with(one.uid)} == met
    assert {one.uid for one in (old, new) if bench.forbidden_domains(one)} == met
    assert bench.conflicts_in_sweep("shy") == [{"old", "new"}]


def test_a_pod_that_is_labelled_otherwise_means_other_pods_by_its_label_keys() -> None:
    term = replace(DB_ANTI_AFFINITY, match_label_keys=("version",))
    shy = with_anti_affinity(pod("shy", on="n1", labels={"version": "1"}), term)
    old = pod("old", on="n2", labels={**DB, "version": "1"})
    bench = PodAffinityCluster(*ZONES, shy, old)
    assert bench.conflicts_of("shy") == [{"old"}]

    assert resolved_pods(bench.apply(replace(shy, labels={"version": "2"}))) == set()
    assert bench.conflicts_of("shy") == [set()]
    assert bench.pods_conflicting_with("old") == set()


def test_label_keys_that_the_api_server_has_merged_keep_the_values_of_the_creation() -> None:
    merged = anti_affinity_term("app=db,version in (1)", ZONE_LABEL)
    term = replace(merged, match_label_keys=("version",))
    shy = with_anti_affinity(pod("shy", on="n1", labels={"version": "2"}), term)
    old = pod("old", on="n2", labels={**DB, "version": "1"})

    assert PodAffinityCluster(*ZONES, shy, old).conflicts_of("shy") == [{"old"}]
