from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.model.affinity_terms import descheduler_scope, scheduler_scope
from reactive_desched.model.changes import AntiAffinityEased, Change
from reactive_desched.model.labels import LabelSelector, Requirement, parse_selector
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    ClusterObject,
    Namespace,
    Node,
    Pod,
    PodAffinityTerm,
    PodStatus,
)
from reactive_desched.model.subjects import OnePod, OnNode
from reactive_desched.state import selections as selections_module
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.domains import Domains
from reactive_desched.state.view import ClusterView
from reactive_desched.testing.anti_affinity import avoid, avoiding, selector
from reactive_desched.testing.builders import node, pod

RACK = "example.com/rack"
WEB, DB = {"app": "web"}, {"app": "db"}
BROKEN = PodAffinityTerm(HOSTNAME_LABEL, LabelSelector({}, (Requirement("app", "Near", ("x",)),)))


class Bench:
    """A cluster and short questions about it."""

    def __init__(self, *things: ClusterObject, selects: str = "") -> None:
        self.state = ClusterState(parse_selector(selects))
        self.view = ClusterView(self.state, lambda: 0.0)
        self.apply(*things)

    def apply(self, *things: ClusterObject) -> list[Change]:
        return [change for thing in things for change in self.state.upsert(thing)]

    def remove(self, *things: ClusterObject) -> list[Change]:
        return [change for thing in things for change in self.state.remove(thing)]

    def avoided(self, uid: str) -> list[set[str] | None]:
        """Name, term by term, whom a pod avoids and is near."""
        placed = self.view.placed(uid)
        assert placed is not None
        nearby = (pods for _, pods in self.view.avoided(*placed))
        return [None if pods is None else {p.uid for p in pods} for pods in nearby]

    def avoiding(self, uid: str) -> set[str]:
        return {p.uid for p in self.view.avoiding(OnePod(uid))}

    def avoiding_on(self, name: str, *keys: str) -> set[str]:
        subject = OnNode(name)
        found = (
            self.view.avoiding(subject, frozenset(keys)) if keys else self.view.avoiding(subject)
        )
        return {p.uid for p in found}

    def repelled(self, one: Pod) -> set[tuple[str, str, str]]:
        """Name the domains, and who declares it there, that a pod is kept out of."""
        return {
            (avoidance.key, value, uid)
            for avoidance in self.view.repelling(one)
            for value in avoidance.declarers.values()
            for uid in avoidance.declarers.pods(value)
        }


def by_domain(domains: Domains) -> dict[str, set[str]]:
    values = list(domains.values())
    found = {value: set(domains.pods(value)) for value in values}
    assert len(values) == len(found)
    assert {value: domains.count(value) for value in found} == {v: len(p) for v, p in found.items()}
    assert bool(domains) == bool(found)
    return found


def eased(changes: Iterable[Change]) -> set[str]:
    return {
        uid for change in changes if isinstance(change, AntiAffinityEased) for uid in change.pods
    }


def in_zone(name: str, zone: str, **more: Any) -> Node:  # whatever a node takes
    return node(name, labels={ZONE_LABEL: zone}, **more)


def relabelled(one: Pod, labels: dict[str, str]) -> Pod:
    return msgspec.structs.replace(one, labels=labels)


SHY = avoiding(pod("shy", on="n1", labels=WEB), avoid("app=db", ZONE_LABEL))
NEAR, FAR = pod("near", on="n2", labels=DB), pod("far", on="n3", labels=DB)
ZONES = (in_zone("n1", "a"), in_zone("n2", "a"), in_zone("n3", "b"))


def test_a_term_means_pods_of_its_domain_on_any_of_its_nodes() -> None:
    bench = Bench(*ZONES, SHY, NEAR, FAR)

    assert bench.avoided("shy") == [{"near"}]
    assert by_domain(bench.view.matching(SHY.spec.anti_affinity[0], "default")) == {
        "a": {"near"},
        "b": {"far"},
    }


def test_a_pod_is_told_who_avoids_it_and_the_scheduler_who_repels_it_and_where() -> None:
    bench = Bench(*ZONES, SHY, NEAR, FAR)

    assert bench.avoiding("near") == {"shy"}
    assert bench.avoiding("far") == set()
    assert bench.repelled(pod("new", labels=DB)) == {(ZONE_LABEL, "a", "shy")}
    assert bench.repelled(pod("new", labels=WEB)) == set()


def test_a_domain_with_pods_on_nodes_that_count_and_others_is_one_domain() -> None:
    resting = in_zone("n3", "a", ready="False")
    bench = Bench(*ZONES[:2], resting, SHY, NEAR, FAR)

    assert by_domain(bench.view.matching(SHY.spec.anti_affinity[0], "default")) == {
        "a": {"near", "far"}
    }


def test_a_pod_with_terms_is_asked_about_itself() -> None:
    assert Bench(*ZONES, SHY).avoiding("shy") == {"shy"}


def test_pods_that_exclude_each_other_find_each_other_and_themselves() -> None:
    term = avoid("app=web")
    twins = [avoiding(pod(name, on="n1", labels=WEB), term) for name in ("one", "two")]
    bench = Bench(node("n1"), *twins)

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
        bench = Bench(node("n1"), *things)

        assert ("other" in set().union(*filter(None, bench.avoided("shy")))) == meant
        assert ("shy" in bench.avoiding("other")) == meant
        assert bool(bench.repelled(other)) == meant
        assert bool(bench.view.matching(shy.spec.anti_affinity[0], "default")) == (
            meant and text != "app=shy"
        )


def test_a_selector_that_does_not_parse_means_nobody_and_says_so() -> None:
    shy = avoiding(pod("shy", on="n1", labels=WEB), BROKEN, avoid("app=web"))
    bench = Bench(node("n1"), shy)

    assert bench.avoided("shy") == [None, {"shy"}]
    assert by_domain(bench.view.matching(BROKEN, "default")) == {}


def test_on_a_node_without_the_label_the_descheduler_sees_a_neighbour_and_the_scheduler_none() -> (
    None
):
    shy = avoiding(pod("shy", on="n1"), avoid("app=db", RACK))
    bench = Bench(node("n1"), node("n2"), shy, pod("db", on="n1", labels=DB))
    bench.apply(pod("elsewhere", on="n2", labels=DB))
    bench.apply(avoiding(pod("content", on="n1"), avoid("app=x", RACK)))

    assert bench.avoided("shy") == [{"db"}]
    assert bench.avoiding("db") == {"shy"}
    assert bench.avoiding("elsewhere") == set()
    assert "shy" in bench.avoiding_on("n1")
    assert bench.repelled(pod("new", labels=DB)) == set()
    assert by_domain(bench.view.matching(avoid("app=db", RACK), "default")) == {}


def test_the_descheduler_overlooks_nodes_that_do_not_count_and_the_scheduler_does_not() -> None:
    near = pod("near", on="n2", labels=DB)
    bench = Bench(in_zone("n1", "a"), in_zone("n2", "a", ready="False"), SHY, near)
    term = SHY.spec.anti_affinity[0]

    assert bench.avoided("shy") == [set()]
    assert bench.avoiding("near") == set()
    assert by_domain(bench.view.matching(term, "default")) == {"a": {"near"}}
    assert bench.apply(in_zone("n2", "a")) != []
    assert bench.avoided("shy") == [{"near"}]
    assert bench.avoiding_on("n2") == {"shy"}
    assert eased(bench.apply(in_zone("n2", "a", ready="False"))) == {"shy"}
    assert bench.avoided("shy") == [set()]


def test_another_policy_lets_other_nodes_count() -> None:
    pool = {ZONE_LABEL: "a", "pool": "x"}
    bench = Bench(node("n1", labels=pool), in_zone("n2", "a"), SHY, NEAR, selects="pool=x")
    assert bench.avoided("shy") == [set()]

    bench.state.select(parse_selector(""))
    assert bench.avoided("shy") == [{"near"}]

    assert eased(bench.state.select(parse_selector("pool=x"))) == {"shy"}
    assert bench.avoided("shy") == [set()]


def test_pods_may_be_known_before_their_node_is() -> None:
    bench = Bench(SHY, NEAR)
    assert bench.repelled(pod("new", labels=DB)) == set()

    bench.apply(*ZONES)

    assert bench.avoided("shy") == [{"near"}]
    assert bench.repelled(pod("new", labels=DB)) == {(ZONE_LABEL, "a", "shy")}


@pytest.mark.parametrize(
    "leaves",
    [
        pytest.param(lambda b: b.remove(NEAR), id="is deleted"),
        pytest.param(
            lambda b: b.apply(msgspec.structs.replace(NEAR, status=PodStatus("Succeeded"))),
            id="ends",
        ),
        pytest.param(lambda b: b.apply(relabelled(NEAR, WEB)), id="has other labels"),
        pytest.param(lambda b: b.apply(in_zone("n2", "b")), id="moves with its node"),
        pytest.param(lambda b: b.apply(node("n2")), id="is in no zone any more"),
        pytest.param(lambda b: b.remove(ZONES[1]), id="loses its node"),
    ],
)
def test_who_is_near_a_pod_no_more_eases_it(leaves: Any) -> None:  # a step of a bench
    bench = Bench(*ZONES, SHY, NEAR, FAR)

    assert eased(leaves(bench)) == {"shy"}
    assert bench.avoided("shy") == [set()]


def test_a_pod_that_is_terminating_is_still_near() -> None:
    bench = Bench(*ZONES, SHY, NEAR)

    assert eased(bench.apply(msgspec.structs.replace(NEAR, deletion_s=1))) == set()
    assert bench.avoided("shy") == [{"near"}]


def test_what_does_not_concern_a_term_eases_nobody() -> None:
    bench = Bench(*ZONES, SHY, NEAR, FAR)

    assert eased(bench.remove(FAR)) == set()
    assert eased(bench.apply(relabelled(NEAR, {**DB, "tier": "x"}))) == set()
    assert eased(bench.apply(node("n2", labels={ZONE_LABEL: "a", "tier": "x"}))) == set()
    assert eased(bench.remove(pod("stranger"))) == set()
    assert eased(bench.apply(relabelled(SHY, DB))) == set()
    assert eased(bench.apply(relabelled(SHY, WEB))) == set()


def test_what_happens_on_nodes_that_do_not_count_eases_nobody() -> None:
    resting = in_zone("n2", "a", ready="False")
    twins = [avoiding(pod(n, on="n2", labels=DB), avoid("app=db", ZONE_LABEL)) for n in "xy"]
    bench = Bench(ZONES[0], resting, SHY, *twins)

    assert eased(bench.remove(twins[0])) == set()
    assert eased(bench.apply(in_zone("n2", "b", ready="False"))) == set()


def test_a_node_that_moves_eases_the_pods_it_takes_along() -> None:
    bench = Bench(*ZONES, SHY, NEAR)

    assert eased(bench.apply(in_zone("n1", "c"))) == {"shy"}
    assert bench.avoided("shy") == [set()]


def test_only_the_labels_that_changed_matter_where_a_node_says_which() -> None:
    hosts = avoiding(pod("hosts", on="n2", labels=WEB), avoid("app=db"))
    bench = Bench(*ZONES, SHY, NEAR, hosts)

    assert bench.avoiding_on("n2") == {"shy", "hosts"}
    assert bench.avoiding_on("n2", ZONE_LABEL) == {"shy"}
    assert bench.avoiding_on("n2", HOSTNAME_LABEL, "x") == {"hosts"}
    assert bench.avoiding_on("n2", "x") == set()


def test_pods_without_company_are_not_looked_at_with_their_node() -> None:
    alone = avoiding(pod("alone", on="n1", labels=WEB), avoid("app=web"))
    bench = Bench(node("n1"), alone)
    assert bench.avoiding_on("n1") == set()

    bench.apply(pod("other", on="n1", labels=WEB))
    assert bench.avoiding_on("n1") == {"alone"}


def test_a_pods_terms_may_differ_from_before() -> None:
    bench = Bench(*ZONES, SHY, NEAR)
    other = avoiding(SHY, avoid("app=x", ZONE_LABEL))
    bench.apply(other)

    assert bench.avoided("shy") == [set()]
    assert bench.avoiding("near") == set()
    bench.apply(avoiding(SHY, avoid("app=db", HOSTNAME_LABEL), avoid("app=db", ZONE_LABEL)))
    assert bench.avoided("shy") == [set(), {"near"}]


def test_templates_that_say_the_same_share_a_selection() -> None:
    one = avoiding(pod("one", on="n1"), avoid("app=db"))
    two = avoiding(pod("two", on="n1"), avoid("app=db"))
    bench = Bench(node("n1"), one, two)

    assert len(bench.state.neighbours.selections) == 1
    assert len(bench.view.repelling(pod("db", labels=DB))) == 1


def test_one_of_two_that_declare_the_same_may_leave() -> None:
    term = avoid("app=db")
    one, two = (avoiding(pod(name, on="n1"), term) for name in ("one", "two"))
    bench = Bench(node("n1"), one, two)
    bench.remove(one)

    assert bench.repelled(pod("db", labels=DB)) == {(HOSTNAME_LABEL, "n1", "two")}


def test_a_node_that_joins_a_domain_of_any_label_is_near_those_in_it() -> None:
    shy = avoiding(pod("shy", on="n1"), avoid("app=db", RACK))
    bench = Bench(node("n1", labels={RACK: "r"}), node("n2", labels={RACK: "r"}), shy, NEAR)

    assert bench.avoiding_on("n2") == {"shy"}


# --- the namespaces of a term ---


def test_without_namespaces_a_term_means_its_pods_own() -> None:
    stranger = pod("stranger", on="n2", labels=DB, namespace="shop")
    assert Bench(*ZONES, SHY, stranger).avoided("shy") == [set()]


def test_a_term_with_namespaces_means_those_and_not_its_pods_own() -> None:
    shy = avoiding(pod("shy", on="n1"), avoid("app=db", ZONE_LABEL, namespaces=("shop", "bank")))
    strangers = [
        pod(f"in-{name}", on="n2", labels=DB, namespace=name) for name in ("shop", "bank", "farm")
    ]
    bench = Bench(*ZONES, shy, NEAR, *strangers)

    assert bench.avoided("shy") == [{"in-shop", "in-bank"}]
    assert [bench.avoiding(p.uid) for p in strangers] == [{"shy"}, {"shy"}, set()]
    assert bench.avoiding("near") == set()


LIVE = {"stage": "live"}


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
    bench = Bench(Namespace("shop", labels=LIVE), *ZONES, shy, NEAR, *strangers)

    assert bench.avoided("shy") == [{"in-bank"} if namespaces else {"near"}]
    assert by_domain(bench.view.matching(term, "default")).get("a", set()) == scheduler
    everybody = (NEAR, *strangers)
    assert {one.uid for one in everybody if bench.repelled(one)} == scheduler
    assert {one.uid for one in everybody if bench.avoiding(one.uid)} == bench.avoided("shy")[0]


def test_a_term_with_a_namespace_selector_and_one_without_are_kept_apart() -> None:
    here = avoiding(pod("here", on="n1"), avoid("app=db"))
    there = avoiding(pod("there", on="n1"), avoid("app=db", namespaces_like="stage=live"))
    bench = Bench(node("n1"), here, there, pod("db", on="n1", labels=DB))

    assert bench.avoiding("db") == {"here", "there"}
    assert bench.repelled(pod("new", labels=DB)) == {(HOSTNAME_LABEL, "n1", "here")}


def test_namespaces_that_are_labelled_otherwise_are_meant_otherwise() -> None:
    term = avoid("app=db", ZONE_LABEL, namespaces_like="stage=live")
    stranger = pod("stranger", on="n2", labels=DB, namespace="shop")
    bench = Bench(*ZONES, avoiding(pod("shy", on="n1"), term), stranger)
    assert by_domain(bench.view.matching(term, "default")) == {}

    bench.apply(Namespace("shop", labels=LIVE))
    assert by_domain(bench.view.matching(term, "default")) == {"a": {"stranger"}}
    assert bench.repelled(stranger) == {(ZONE_LABEL, "a", "shy")}

    bench.remove(Namespace("shop", labels=LIVE))
    assert by_domain(bench.view.matching(term, "default")) == {}
    assert bench.repelled(stranger) == set()


def test_pods_that_came_and_went_meanwhile_are_meant_as_well_or_not_any_more() -> None:
    term = avoid("app=db", ZONE_LABEL, namespaces_like="stage=live")
    before, after = (
        pod(name, on="n2", labels=DB, namespace="shop") for name in ("before", "after")
    )
    bench = Bench(*ZONES, before)
    assert by_domain(bench.view.matching(term, "default")) == {}

    bench.apply(after)
    bench.remove(before)
    bench.apply(Namespace("shop", labels=LIVE))

    assert by_domain(bench.view.matching(term, "default")) == {"a": {"after"}}


# --- selections that only a question needs ---


def test_a_spread_constraint_finds_its_counts_and_they_are_kept() -> None:
    bench = Bench(*ZONES, NEAR, FAR, SHY)
    apps = selector("app")
    assert by_domain(bench.view.selected("default", apps, ZONE_LABEL)) == {
        "a": {"near", "shy"},
        "b": {"far"},
    }

    bench.remove(FAR)
    bench.apply(pod("more", on="n3", labels=WEB), in_zone("n2", "c"))

    assert by_domain(bench.view.selected("default", apps, ZONE_LABEL)) == {
        "a": {"shy"},
        "b": {"more"},
        "c": {"near"},
    }


def test_at_the_bound_the_selection_asked_for_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selections_module, "REMEMBERED_QUESTIONS", 2)
    bench = Bench(*ZONES, NEAR)

    def ask(app: str) -> dict[str, set[str]]:
        return by_domain(bench.view.selected("default", selector(f"app={app}"), ZONE_LABEL))

    for app in ("db", "x", "db", "y"):
        ask(app)
    kept = bench.state.neighbours.selections._unheld
    assert [selection.selector.match_labels["app"] for selection in kept] == ["db", "y"]
    bench.apply(FAR)
    for app in ("x", "y", "z"):
        assert ask(app) == {}
    assert ask("db") == {"a": {"near"}, "b": {"far"}}


def test_a_selection_that_a_pod_refers_to_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections_module, "REMEMBERED_QUESTIONS", 1)
    bench = Bench(*ZONES, SHY, NEAR)
    for app in "vwxyz":
        bench.view.selected("default", selector(f"app={app}"), ZONE_LABEL)

    assert bench.avoided("shy") == [{"near"}]
    assert len(bench.state.neighbours.selections) == 2


def test_when_all_pods_are_gone_nothing_is_left_but_the_last_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selections_module, "REMEMBERED_QUESTIONS", 1)
    shy = avoiding(
        pod("shy", on="n1", labels=WEB),
        *(avoid("app=db", RACK), avoid("app=web", namespaces=("shop", "bank"))),
        *(avoid("app in (a,b)", namespaces_like="x=y"), BROKEN, avoid("app=db", RACK)),
    )
    bench = Bench(*ZONES, shy, NEAR)
    bench.view.selected("farm", selector("app=x"), ZONE_LABEL)
    bench.remove(shy, NEAR)
    bench.view.selected("farm", selector("tier=y"), HOSTNAME_LABEL)

    neighbours = bench.state.neighbours
    assert neighbours.avoidances._declarations == {}
    assert list(neighbours.selections._populations) == ["farm"]
    assert list(neighbours.selections._populations["farm"]._pods) == ["tier"]
    assert neighbours.selections._everywhere is None
    assert neighbours.keys() == {HOSTNAME_LABEL}


def test_labels_that_no_selection_demands_any_more_are_not_indexed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selections_module, "REMEMBERED_QUESTIONS", 1)
    bench = Bench(*ZONES, NEAR)
    for text in ("app=db", "tier=x"):
        bench.view.selected("default", selector(text), ZONE_LABEL)

    assert list(bench.state.neighbours.selections._populations["default"]._pods) == ["tier"]


def test_a_name_that_another_pod_took_over_is_counted_once_in_the_end() -> None:
    reborn = pod("near", uid="reborn", on="n3", labels=DB, version=9)
    bench = Bench(*ZONES, SHY, NEAR, reborn)
    bench.remove(NEAR)

    assert by_domain(bench.view.matching(SHY.spec.anti_affinity[0], "default")) == {"b": {"reborn"}}
    assert bench.avoided("shy") == [set()]


# --- the property: whatever happens, the answers are those of a naive search ---

KEYS = (HOSTNAME_LABEL, ZONE_LABEL, RACK)
some_labels = st.sampled_from([{}, WEB, DB, {**WEB, "tier": "x"}, {**DB, "tier": "y"}])
SELECTORS = ("app=web", "app=db", "app=web,tier=x", "tier", "app in (web,db)", "!tier", "", None)
# Few and often the same: what pods share is where mistakes hide.
TERMS = (
    *(avoid(text, by) for text in ("app=web", "app=db") for by in KEYS),
    *(avoid(text, ZONE_LABEL) for text in SELECTORS),
    avoid("app=web", namespaces=("shop",)),
    avoid("app=web", ZONE_LABEL, namespaces_like=""),
    avoid("app=web", ZONE_LABEL, namespaces=("default",), namespaces_like="stage=live"),
    avoid("tier notin (x)", RACK, namespaces_like="!stage"),
    BROKEN,
)
terms = st.sampled_from(TERMS)
declared = st.sampled_from([(), TERMS[:1], TERMS[:1], TERMS[1:3], TERMS[3:4]]) | st.lists(
    terms, max_size=2
)
pods = st.builds(
    lambda name, namespace, on, labels, declared, phase: avoiding(
        pod(name, namespace=namespace, on=on, labels=labels, status=PodStatus(phase)), *declared
    ),
    st.sampled_from(["p1", "p2", "p3", "p4"]),
    st.sampled_from(["default", "default", "shop"]),
    st.sampled_from(["n1", "n1", "n2", "n3", None]),
    some_labels,
    declared,
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
)
nodes = st.builds(
    lambda name, zone, rack, pool, ready: node(
        name,
        labels={ZONE_LABEL: zone, "pool": pool, **({RACK: rack} if rack else {})},
        ready=ready,
    ),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from([None, "r1", "r2"]),
    st.sampled_from(["x", "x", "y"]),
    st.sampled_from(["True", "True", "False"]),
)
namespaces = st.builds(lambda labels: Namespace("shop", labels=labels), st.sampled_from([{}, LIVE]))
questions = st.tuples(st.just("ask"), terms | st.just(None))
steps = st.lists(
    st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("apply"), nodes)
    | st.tuples(st.just("remove"), pods | nodes)
    | st.tuples(st.just("apply"), namespaces)
    | st.tuples(st.just("select"), st.sampled_from(["", "pool=x"]))
    | questions,
    min_size=4,
    max_size=30,
)


class Story(Bench):
    """A bench in which a pod's name may come back, as another pod."""

    def __init__(self) -> None:
        super().__init__(node("n1", labels={ZONE_LABEL: "a"}), node("n2", labels={ZONE_LABEL: "a"}))
        self._lives: Counter[str] = Counter()

    def tell(self, step: str, thing: Any) -> None:  # what the step is about
        if isinstance(thing, Pod):
            key = str(thing)
            thing = msgspec.structs.replace(thing, uid=f"{key}#{self._lives[key]}")
            self._lives[key] += step == "remove"
        if step == "select":
            self.state.select(parse_selector(thing))
        elif step == "ask":
            self.answers()
        else:
            getattr(self, step)(thing)

    def answers(self) -> dict[str, Any]:  # answers of several kinds
        """Return everything that can be asked about this cluster."""
        active = [p for p in self.state.pods if p.is_active]
        placed = [p for p in active if self.view.placed(p.uid) is not None]
        return {
            "avoided": {p.uid: self.avoided(p.uid) for p in placed},
            "avoiding": {p.uid: self.avoiding(p.uid) for p in active},
            "repelled": {p.uid: self.repelled(p) for p in self.state.pods},
            "matching": [
                by_domain(self.view.matching(term, p.namespace))
                for p in active
                for term in p.spec.anti_affinity
            ],
            "selected": [
                by_domain(self.view.selected(namespace, selector(text), key))
                for namespace in ("default", "shop")
                for text in ("app=web", "!tier")
                for key in KEYS
            ],
        }


class Naive:
    """The same answers, found by looking at every pod and every node each time."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.active = [p for p in state.pods if p.is_active]
        self.counted = [p for p in self.active if state.nodes.standing(p.node).counts]

    def labels(self, one: Pod) -> dict[str, str]:
        return dict(self.state.nodes.standing(one.node).labels)

    def means(self, term: PodAffinityTerm, owner: str, one: Pod, *, scheduler: bool) -> bool:
        chosen = term.label_selector
        if chosen is None or chosen.problems():
            return False
        scope = (scheduler_scope if scheduler else descheduler_scope)(term, owner)
        known = self.state.namespaces.get(one.namespace)
        labels = known.labels if known is not None else {}
        return scope.covers(one.namespace, labels) and chosen.matches(one.labels)

    def is_near(self, one: Pod, other: Pod, key: str) -> bool:
        if one.node == other.node:
            return True
        return key in self.labels(one) and self.labels(one).get(key) == self.labels(other).get(key)

    def avoided(self, one: Pod) -> Iterator[set[str] | None]:
        for term in one.spec.anti_affinity:
            if term.label_selector is not None and term.label_selector.problems():
                yield None
            elif term.label_selector is not None:
                yield {
                    other.uid
                    for other in self.counted
                    if self.is_near(one, other, term.topology_key)
                    and self.means(term, one.namespace, other, scheduler=False)
                }

    def avoiding(self, one: Pod) -> set[str]:
        if one not in self.counted:
            return set()
        return ({one.uid} if one.spec.anti_affinity else set()) | {
            other.uid
            for other in self.counted
            for term in other.spec.anti_affinity
            if self.is_near(one, other, term.topology_key)
            and self.means(term, other.namespace, one, scheduler=False)
        }

    def repelled(self, one: Pod) -> set[tuple[str, str, str]]:
        return {
            (term.topology_key, value, other.uid)
            for other in self.active
            for term in other.spec.anti_affinity
            if self.means(term, other.namespace, one, scheduler=True)
            if (value := self.labels(other).get(term.topology_key)) is not None
        }

    def matching(self, term: PodAffinityTerm, owner: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for one in self.active:
            value = self.labels(one).get(term.topology_key)
            if value is not None and self.means(term, owner, one, scheduler=True):
                found.setdefault(value, set()).add(one.uid)
        return found

    def answers(self) -> dict[str, Any]:  # answers of several kinds
        return {
            "avoided": {p.uid: list(self.avoided(p)) for p in self.counted},
            "avoiding": {p.uid: self.avoiding(p) for p in self.active},
            "repelled": {p.uid: self.repelled(p) for p in self.state.pods},
            "matching": [
                self.matching(term, p.namespace)
                for p in self.active
                for term in p.spec.anti_affinity
            ],
            "selected": [
                self.matching(avoid(text, key), namespace)
                for namespace in ("default", "shop")
                for text in ("app=web", "!tier")
                for key in KEYS
            ],
        }


def told(steps: Iterable[tuple[str, Any]]) -> Story:  # what a step is about
    story = Story()
    for step, thing in steps:
        story.tell(step, thing)
    return story


@given(steps)
def test_after_any_changes_the_answers_are_those_of_a_naive_search(
    steps: list[tuple[str, Any]],
) -> None:
    story = told(steps)

    assert story.answers() == Naive(story.state).answers()


@given(steps)
def test_after_any_changes_the_answers_are_those_of_a_state_made_afresh(
    steps: list[tuple[str, Any]],
) -> None:
    story, afresh = told(steps), Story()
    afresh.state.select(story.state.nodes.selects)
    for name in afresh.state.nodes.names():
        afresh.state.remove(node(name))
    for resource in ("pods", "namespaces", "nodes"):
        for key in story.state.keys(resource):
            known = story.state.get(resource, key)
            assert known is not None
            afresh.apply(known)

    assert story.answers() == afresh.answers()


@given(steps)
def test_no_bound_on_questions_changes_an_answer(steps: list[tuple[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selections_module, "REMEMBERED_QUESTIONS", 1)
        story = told([*steps, ("ask", None)])

        assert story.answers() == Naive(story.state).answers()
        assert len(story.state.neighbours.selections._unheld) <= 1


@given(steps)
def test_a_node_names_every_pod_that_a_pod_of_it_conflicts_with(
    steps: list[tuple[str, Any]],
) -> None:
    story = told(steps)
    naive = Naive(story.state)
    for entry in story.state.nodes:
        here = {p.uid for p in entry.active.values()}
        conflicts = {
            one.uid
            for one in naive.counted
            for near in naive.avoided(one)
            if near is not None and near - {one.uid} and (one.uid in here or near & here)
        }
        assert not entry.counts or conflicts <= story.avoiding_on(entry.name)
