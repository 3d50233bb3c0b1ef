"""Who is near whom, and who keeps away from whom, as two readers see it."""

import pytest

from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL
from reactive_desched.testing.anti_affinity import BROKEN, avoid, avoiding
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

RACK = "example.com/rack"
WEB, DB = {"app": "web"}, {"app": "db"}


def test_a_term_means_pods_of_its_domain_on_any_of_its_nodes() -> None:
    bench = Neighbourhood(*ZONES, SHY, NEAR, FAR)

    assert bench.avoided("shy") == [{"near"}]
    assert bench.matching(AVOIDS_DB) == {"a": {"near"}, "b": {"far"}}


def test_a_pod_is_told_who_avoids_it_and_the_scheduler_who_repels_it_and_where() -> None:
    bench = Neighbourhood(*ZONES, SHY, NEAR, FAR)

    assert bench.avoiding("near") == {"shy"}
    assert bench.avoiding("far") == set()
    assert bench.repelled(pod("new", labels=DB)) == {(ZONE_LABEL, "a", "shy")}
    assert bench.repelled(pod("new", labels=WEB)) == set()


def test_a_domain_with_pods_on_nodes_that_count_and_others_is_one_domain() -> None:
    resting = node("n3", zone="a", ready="False")
    bench = Neighbourhood(*ZONES[:2], resting, SHY, NEAR, FAR)

    assert bench.matching(AVOIDS_DB) == {"a": {"near", "far"}}


def test_a_pod_with_terms_is_asked_about_itself() -> None:
    assert Neighbourhood(*ZONES, SHY).avoiding("shy") == {"shy"}


def test_pods_that_exclude_each_other_find_each_other_and_themselves() -> None:
    term = avoid("app=web")
    twins = [avoiding(pod(name, on="n1", labels=WEB), term) for name in ("one", "two")]
    bench = Neighbourhood(node("n1"), *twins)

    assert bench.avoided("one") == [{"one", "two"}]
    assert bench.avoiding("one") == {"one", "two"}


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
    shy = avoiding(pod("shy", on="n1", labels={"app": "shy"}), avoid(text))
    other = pod("other", on="n1", labels=labels)
    for things in ((shy, other), (other, shy)):
        bench = Neighbourhood(node("n1"), *things)

        assert ("other" in set().union(*filter(None, bench.avoided("shy")))) == meant
        assert ("shy" in bench.avoiding("other")) == meant
        assert bool(bench.repelled(other)) == meant
        assert bool(bench.matching(avoid(text))) == meant


def test_a_selector_that_does_not_parse_means_nobody_and_says_so() -> None:
    shy = avoiding(pod("shy", on="n1", labels=WEB), BROKEN, avoid("app=web"))
    bench = Neighbourhood(node("n1"), shy)

    assert bench.avoided("shy") == [None, {"shy"}]
    assert bench.matching(BROKEN) == {}


def test_on_a_node_without_the_label_the_descheduler_sees_a_neighbour_and_the_scheduler_none() -> (
    None
):
    shy = avoiding(pod("shy", on="n1"), avoid("app=db", RACK))
    bench = Neighbourhood(node("n1"), node("n2"), shy, pod("db", on="n1", labels=DB))
    bench.apply(pod("elsewhere", on="n2", labels=DB))
    bench.apply(avoiding(pod("content", on="n1"), avoid("app=x", RACK)))

    assert bench.avoided("shy") == [{"db"}]
    assert bench.avoiding("db") == {"shy"}
    assert bench.avoiding("elsewhere") == set()
    assert "shy" in bench.avoiding_on("n1")
    assert bench.repelled(pod("new", labels=DB)) == set()
    assert bench.matching(avoid("app=db", RACK)) == {}


def test_the_descheduler_overlooks_nodes_that_do_not_count_and_the_scheduler_does_not() -> None:
    bench = Neighbourhood(ZONES[0], node("n2", zone="a", ready="False"), SHY, NEAR)

    assert bench.avoided("shy") == [set()]
    assert bench.avoiding("near") == set()
    assert bench.matching(AVOIDS_DB) == {"a": {"near"}}
    assert bench.apply(node("n2", zone="a")) != []
    assert bench.avoided("shy") == [{"near"}]
    assert bench.avoiding_on("n2") == {"shy"}
    assert eased(bench.apply(node("n2", zone="a", ready="False"))) == {"shy"}
    assert bench.avoided("shy") == [set()]


def test_another_policy_lets_other_nodes_count() -> None:
    pool = {ZONE_LABEL: "a", "pool": "x"}
    bench = Neighbourhood(
        node("n1", labels=pool), node("n2", zone="a"), SHY, NEAR, selects="pool=x"
    )
    assert bench.avoided("shy") == [set()]

    bench.state.select(parse_selector(""))
    assert bench.avoided("shy") == [{"near"}]

    assert eased(bench.state.select(parse_selector("pool=x"))) == {"shy"}
    assert bench.avoided("shy") == [set()]


def test_pods_may_be_known_before_their_node_is() -> None:
    bench = Neighbourhood(SHY, NEAR)
    assert bench.repelled(pod("new", labels=DB)) == set()

    bench.apply(*ZONES)

    assert bench.avoided("shy") == [{"near"}]
    assert bench.repelled(pod("new", labels=DB)) == {(ZONE_LABEL, "a", "shy")}


def test_only_the_labels_that_changed_matter_where_a_node_says_which() -> None:
    hosts = avoiding(pod("hosts", on="n2", labels=WEB), avoid("app=db"))
    bench = Neighbourhood(*ZONES, SHY, NEAR, hosts)

    assert bench.avoiding_on("n2") == {"shy", "hosts"}
    assert bench.avoiding_on("n2", ZONE_LABEL) == {"shy"}
    assert bench.avoiding_on("n2", HOSTNAME_LABEL, "x") == {"hosts"}
    assert bench.avoiding_on("n2", "x") == set()


def test_pods_without_company_are_not_looked_at_with_their_node() -> None:
    alone = avoiding(pod("alone", on="n1", labels=WEB), avoid("app=web"))
    bench = Neighbourhood(node("n1"), alone)
    assert bench.avoiding_on("n1") == set()

    bench.apply(pod("other", on="n1", labels=WEB))
    assert bench.avoiding_on("n1") == {"alone"}


def test_a_pods_terms_may_differ_from_before() -> None:
    bench = Neighbourhood(*ZONES, SHY, NEAR)
    bench.apply(avoiding(SHY, avoid("app=x", ZONE_LABEL)))

    assert bench.avoided("shy") == [set()]
    assert bench.avoiding("near") == set()
    bench.apply(avoiding(SHY, avoid("app=db", HOSTNAME_LABEL), AVOIDS_DB))
    assert bench.avoided("shy") == [set(), {"near"}]


def test_one_of_two_that_declare_the_same_may_leave() -> None:
    term = avoid("app=db")
    one, two = (avoiding(pod(name, on="n1"), term) for name in ("one", "two"))
    bench = Neighbourhood(node("n1"), one, two)
    bench.remove(one)

    assert bench.repelled(pod("db", labels=DB)) == {(HOSTNAME_LABEL, "n1", "two")}


def test_a_node_that_joins_a_domain_of_any_label_is_near_those_in_it() -> None:
    shy = avoiding(pod("shy", on="n1"), avoid("app=db", RACK))
    bench = Neighbourhood(node("n1", labels={RACK: "r"}), node("n2", labels={RACK: "r"}), shy, NEAR)

    assert bench.avoiding_on("n2") == {"shy"}


def test_a_name_that_another_pod_took_over_is_counted_once_in_the_end() -> None:
    reborn = pod("near", uid="reborn", on="n3", labels=DB, version=9)
    bench = Neighbourhood(*ZONES, SHY, NEAR, reborn)
    bench.remove(NEAR)

    assert bench.matching(AVOIDS_DB) == {"b": {"reborn"}}
    assert bench.avoided("shy") == [set()]
