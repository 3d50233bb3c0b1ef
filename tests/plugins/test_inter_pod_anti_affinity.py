from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.api.scope import Namespaces
from reactive_desched.model.changes import Resynced
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import LabelSelector, Requirement
from reactive_desched.model.objects import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    HOSTNAME_LABEL,
    ZONE_LABEL,
    Annotations,
    ClusterObject,
    Node,
    Pod,
    PodAffinityTerm,
    PodStatus,
)
from reactive_desched.model.subjects import OnePod
from reactive_desched.plugins.inter_pod_anti_affinity import (
    LISTED_PARTNERS,
    InterPodAntiAffinity,
    InterPodAntiAffinityArgs,
)
from reactive_desched.state.cluster import ClusterState
from reactive_desched.testing.anti_affinity import avoid, avoiding
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario

REGION = "region"
MAIN = {REGION: "main"}
WEB, DB = {"app": "web"}, {"app": "db"}
BROKEN = PodAffinityTerm(HOSTNAME_LABEL, LabelSelector({}, (Requirement("app", "Near", ("x",)),)))


def plugin(**args: Any) -> InterPodAntiAffinity:  # any argument of the plugin
    return InterPodAntiAffinity(InterPodAntiAffinityArgs(**args))


def shy(name: str, on: str, *terms: PodAffinityTerm, **more: Any) -> Pod:  # any part of a pod
    """Build a pod that avoids app=db by region, or as told."""
    return avoiding(pod(name, on=on, **more), *(terms or (avoid("app=db", REGION),)))


def db(name: str, on: str, **more: Any) -> Pod:  # any part of a pod
    return pod(name, on=on, labels=DB, **more)


def main_node(name: str, **more: Any) -> Node:  # any part of a node
    return node(name, labels=MAIN, **more)


def sweep(cluster: Scenario, checked: InterPodAntiAffinity | None = None) -> list[str]:
    """Name whom a sweep evicts, in order; each is gone before the next is judged."""
    checked = checked or plugin()
    evicted = []
    for subject in checked.subjects(Resynced(), cluster.view):
        for finding in checked.judge(subject, cluster.view):
            assert isinstance(finding, Finding)
            evicted.append(finding.pod.name)
            cluster.state.remove(finding.pod)
    return evicted


def finding(cluster: Scenario, uid: str, checked: InterPodAntiAffinity | None = None) -> Finding:
    [found] = (checked or plugin()).judge(OnePod(uid), cluster.view)
    assert isinstance(found, Finding)
    return found


# --- who is flagged ---


def test_those_that_declare_a_term_are_flagged_and_the_pod_they_forbid_is_not() -> None:
    cluster = Scenario(
        plugin(), main_node("n1"), *(shy(name, "n1") for name in "abc"), db("db", "n1")
    )

    assert cluster.flagged() == {"a", "b", "c"}
    assert sweep(cluster) == ["a", "b", "c"]


def test_the_least_important_goes_first_and_may_settle_it_for_all() -> None:
    term = avoid("app=web", REGION)
    loud = [
        shy(name, "n1", avoid("app=db", REGION), labels=WEB, priority=priority)
        for name, priority in (("high", 100), ("low", 50))
    ]
    weak = shy("weak", "n1", term, labels=DB, priority=0)
    cluster = Scenario(plugin(), main_node("n1"), *loud, weak)

    assert cluster.flagged() == {"high", "low", "weak"}
    assert sweep(cluster) == ["weak"]


def test_of_three_that_exclude_each_other_two_go() -> None:
    term = avoid("app=web")
    cluster = Scenario(plugin(), node("n1"), *(shy(name, "n1", term, labels=WEB) for name in "cab"))

    assert sweep(cluster) == ["a", "b"]


def test_a_domain_spans_nodes() -> None:
    nodes = main_node("n1"), main_node("n2"), node("n3", labels={REGION: "other"})
    cluster = Scenario(plugin(), *nodes, shy("web", "n1"), db("far", "n3"))
    assert cluster.flagged() == set()

    cluster.apply(db("near", "n2"))

    assert cluster.flagged() == {"web"}


def test_on_one_node_pods_are_near_even_if_it_lacks_the_label() -> None:
    cluster = Scenario(plugin(), node("n1"), node("n2"), shy("web", "n1"), db("far", "n2"))
    assert cluster.flagged() == set()

    cluster.apply(db("near", "n1"))

    assert cluster.flagged() == {"web"}
    found = finding(cluster, "web")
    assert found.reason == "shares node n1 with default/near, which its anti-affinity forbids"
    assert found.numbers["topologyValue"] == ""


def test_another_pod_of_the_same_name_is_taken_for_the_pod_itself() -> None:
    everywhere = avoid("app=db", REGION, namespaces=("default", "shop"))
    web = shy("web", "n1", everywhere)
    cluster = Scenario(plugin(), main_node("n1"), web, db("web", "n1", uid="x", namespace="shop"))
    assert cluster.flagged() == set()

    cluster.apply(db("other", "n1", namespace="shop"))

    assert cluster.flagged() == {"web"}


@pytest.mark.parametrize(
    ("terms", "namespace", "flagged"),
    [
        pytest.param([avoid("app=db", REGION)], "shop", set(), id="its own namespace is meant"),
        pytest.param(
            [avoid("app=db", REGION, namespaces=("shop",))], "shop", {"web"}, id="a listed one is"
        ),
        pytest.param(
            [avoid("app=db", REGION, namespaces=("shop",))],
            "default",
            set(),
            id="its own is not if others are listed",
        ),
        pytest.param(
            [avoid("app=db", REGION, namespaces_like="")],
            "shop",
            set(),
            id="a namespaceSelector is not looked at",
        ),
        pytest.param([avoid(None, REGION)], "default", set(), id="no selector means nobody"),
        pytest.param([avoid("", REGION)], "default", {"web"}, id="an empty one means everybody"),
        pytest.param([BROKEN], "default", set(), id="a broken one means nobody"),
        pytest.param(
            [BROKEN, avoid("app=db", REGION)],
            "default",
            set(),
            id="terms after a broken one do not matter",
        ),
        pytest.param(
            [avoid("app=db", REGION), BROKEN],
            "default",
            {"web"},
            id="terms before a broken one do",
        ),
        pytest.param(
            [avoid("app=x", REGION), avoid("app=db", REGION)],
            "default",
            {"web"},
            id="any term will do",
        ),
    ],
)
def test_whom_a_term_means(terms: list[PodAffinityTerm], namespace: str, flagged: set[str]) -> None:
    cluster = Scenario(
        plugin(), main_node("n1"), shy("web", "n1", *terms), db("db", "n1", namespace=namespace)
    )

    assert cluster.flagged() == flagged


def test_a_terminating_pod_is_still_in_the_way() -> None:
    leaving = msgspec.structs.replace(db("db", "n1"), deletion_s=1)

    assert Scenario(plugin(), main_node("n1"), shy("web", "n1"), leaving).flagged() == {"web"}


@pytest.mark.parametrize(
    "partner",
    [
        pytest.param(db("db", "n1", status=PodStatus("Succeeded")), id="has ended"),
        pytest.param(pod("db", labels=DB), id="is not bound"),
        pytest.param(db("db", "n2"), id="sits on a node that does not count"),
        pytest.param(db("db", "n3"), id="sits on a node nobody knows"),
    ],
)
def test_a_pod_is_not_in_the_way_that(partner: Pod) -> None:
    nodes = main_node("n1"), main_node("n2", ready="False")

    assert Scenario(plugin(), *nodes, shy("web", "n1"), partner).flagged() == set()


@pytest.mark.parametrize(
    ("args", "flagged"),
    [
        pytest.param({}, {"web", "api"}, id="all, by default"),
        pytest.param({"namespaces": Namespaces(include=("shop",))}, {"api"}, id="one namespace"),
        pytest.param({"namespaces": Namespaces(exclude=("shop",))}, {"web"}, id="all but one"),
        pytest.param({"label_selector": LabelSelector({"tier": "x"})}, {"api"}, id="by label"),
    ],
)
def test_only_pods_that_the_arguments_cover_are_looked_at(
    args: dict[str, Any], flagged: set[str]
) -> None:
    x = {"tier": "x"}
    cluster = Scenario(
        plugin(**args),
        main_node("n1"),
        shy("web", "n1"),
        db("db", "n1"),
        shy("api", "n1", namespace="shop", labels=x),
        pod("db", uid="db2", on="n1", namespace="shop", labels={**DB, **x}),
    )

    assert cluster.flagged() == flagged


def test_pods_that_the_arguments_leave_out_are_not_flagged_for_those_they_cover() -> None:
    labelled = pod("db", on="n1", labels={**DB, "tier": "x"})
    only_x = plugin(label_selector=LabelSelector({"tier": "x"}))

    assert Scenario(only_x, main_node("n1"), shy("web", "n1"), labelled).flagged() == set()


def test_pods_that_the_arguments_leave_out_are_not_in_the_way_either() -> None:
    everywhere = avoid("app=db", REGION, namespaces=("default", "shop"))
    things = main_node("n1"), shy("web", "n1", everywhere), db("db", "n1", namespace="shop")

    assert Scenario(plugin(), *things).flagged() == {"web"}
    only_here = plugin(namespaces=Namespaces(exclude=("shop",)))
    assert Scenario(only_here, *things).flagged() == set()


# --- the order ---


def graded(name: str, priority: int | None, qos: str, prefers: str | None = None) -> Pod:
    made = shy(name, "n1", avoid("", REGION), priority=priority)
    return msgspec.structs.replace(
        made,
        spec=msgspec.structs.replace(made.spec, qos_class=qos),
        annotations=Annotations(prefer_no_eviction=prefers),
    )


IN_ORDER = [
    graded("z1", None, BEST_EFFORT),
    graded("y2", None, BURSTABLE),
    graded("a3", None, BURSTABLE, "true"),
    graded("x4", None, GUARANTEED),
    graded("w5", -5, GUARANTEED),
    graded("v6", 0, BEST_EFFORT),
    graded("u7", 0, BEST_EFFORT, ""),
    graded("t8", 10, BEST_EFFORT),
    graded("b9", 10, BEST_EFFORT, "true"),
    graded("c9", 10, BEST_EFFORT, "true"),
    graded("s9", 10, GUARANTEED),
]


@pytest.mark.parametrize("things", [IN_ORDER, IN_ORDER[::-1]], ids=["as they are", "reversed"])
def test_pods_of_a_node_are_judged_from_the_least_to_the_most_important(things: list[Pod]) -> None:
    cluster = Scenario(plugin(), main_node("n1"), *things)

    assert sweep(cluster) == [one.name for one in IN_ORDER[:-1]]


def test_what_the_status_says_about_quality_of_service_goes_first() -> None:
    term = avoid("", REGION)
    meek = msgspec.structs.replace(
        graded("a", None, BEST_EFFORT), status=PodStatus("Running", qos_class=GUARANTEED)
    )
    bold = shy("b", "n1", term)

    assert sweep(Scenario(plugin(), main_node("n1"), meek, bold)) == ["b"]


def test_nodes_are_swept_by_name_and_each_as_it_is_then() -> None:
    term = avoid("app=web", REGION)
    nodes = main_node("n2"), main_node("n1")
    pods = [shy(name, on, term, labels=WEB) for name, on in (("a", "n2"), ("b", "n1"), ("c", "n2"))]
    cluster = Scenario(plugin(), *nodes, *pods)

    assert sweep(cluster) == ["b", "a"]


def test_a_new_pod_and_those_it_meets_are_judged_from_the_least_important() -> None:
    term = avoid("app=web")
    cluster = Scenario(plugin(), node("n1"), shy("low", "n1", term, labels=WEB, priority=1))
    high = shy("high", "n1", term, labels=WEB, priority=2)
    changes = cluster.state.upsert(high)

    subjects = plugin().subjects(changes[0], cluster.view)
    assert list(subjects) == [OnePod("low"), OnePod("high")]


# --- what a finding says ---


def test_a_finding_names_the_domain_and_a_pod_and_all_whom_it_is_against() -> None:
    cluster = Scenario(
        plugin(), main_node("n1"), main_node("n2"), db("b", "n2"), db("a", "n1"), shy("web", "n1")
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
    cluster = Scenario(plugin(), main_node("n1"), shy("web", "n1"), *many)

    assert len(finding(cluster, "web").against) == listed


def test_a_pod_that_two_terms_mean_is_named_once() -> None:
    web = shy("web", "n1", avoid("app=db", REGION), avoid("app=db"))
    cluster = Scenario(plugin(), main_node("n1"), web, db("db", "n1"))

    found = finding(cluster, "web")

    assert found.against == ("db",)
    assert found.reason.startswith("shares region=main with default/db,")


# --- what it reacts to ---


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param([], db("db", "n2"), id="a pod lands near it"),
        pytest.param([db("db", "n3")], main_node("n3"), id="a node joins its domain"),
        pytest.param([pod("db", on="n2", labels=WEB)], db("db", "n2"), id="a pod is labelled so"),
        pytest.param(
            [node("n3", labels={REGION: "x"}), db("db", "n3")],
            main_node("n3"),
            id="a node is labelled into its domain",
        ),
        pytest.param(
            [main_node("n3", ready="False"), db("db", "n3")],
            main_node("n3"),
            id="a node of its domain becomes ready",
        ),
    ],
)
def test_a_pod_is_flagged_as_soon_as(before: list[ClusterObject], change: ClusterObject) -> None:
    cluster = Scenario(plugin(), main_node("n1"), main_node("n2"), shy("web", "n1"), *before)
    assert cluster.flagged() == set()

    cluster.apply(change)

    assert cluster.flagged() == {"web"}


def test_a_pod_is_flagged_as_soon_as_it_lands_near_another() -> None:
    cluster = Scenario(plugin(), main_node("n1"), main_node("n2"), db("db", "n2"))
    cluster.apply(shy("web", "n1"))

    assert cluster.flagged() == {"web"}


def test_a_node_that_is_labelled_into_a_domain_brings_its_own_pods_along() -> None:
    cluster = Scenario(plugin(), main_node("n1"), node("n2"), db("db", "n1"), shy("web", "n2"))
    assert cluster.flagged() == set()

    cluster.apply(main_node("n2"))

    assert cluster.flagged() == {"web"}


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda c: c.remove(db("db", "n2")), id="the other is deleted"),
        pytest.param(
            lambda c: c.apply(db("db", "n2", status=PodStatus("Failed"))), id="the other ends"
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
    cluster = Scenario(plugin(), main_node("n1"), main_node("n2"), shy("web", "n1"), db("db", "n2"))
    assert cluster.flagged() == {"web"}

    ends(cluster)

    assert cluster.flagged() == set()


def test_a_change_is_looked_at_only_where_it_matters() -> None:
    cluster = Scenario(
        plugin(),
        *(main_node("n1"), main_node("n2"), node("n3", labels={REGION: "x"})),
        *(shy("web", "n1"), shy("far", "n3"), shy("other", "n1", avoid("app=x", REGION))),
        shy("host", "n1", avoid("app=db")),
    )

    assert cluster.judged_by(db("db", "n2")) == {OnePod("web")}
    assert cluster.judged_by(pod("plain", on="n2")) == set()
    assert cluster.judged_by(node("n1", labels={**MAIN, "rack": "7"})) == set()
    assert cluster.judged_by(main_node("n2", unschedulable=True)) == set()
    assert cluster.judged_by(node("n2", "x:NoSchedule", labels={REGION: "x"})) == {
        OnePod("web"),
        OnePod("far"),
    }


# --- the property ---

KEYS = (HOSTNAME_LABEL, ZONE_LABEL, REGION)
TERMS = (
    avoid("app=web"),
    avoid("app=web", ZONE_LABEL),
    avoid("app=db", ZONE_LABEL),
    avoid("app=db", REGION),
    avoid("app in (web,db)", REGION, namespaces=("shop", "default")),
    avoid("tier", REGION, namespaces=("shop",)),
    avoid("app=web", ZONE_LABEL, namespaces_like=""),
    avoid("", HOSTNAME_LABEL),
    avoid("app notin (db)", ZONE_LABEL),
    avoid(None, ZONE_LABEL),
    BROKEN,
)
pods = st.builds(
    lambda name, namespace, on, labels, terms, priority, phase: avoiding(
        pod(
            name,
            uid=f"{namespace}/{name}",
            namespace=namespace,
            on=on,
            labels=labels,
            priority=priority,
            status=PodStatus(phase),
        ),
        *terms,
    ),
    st.sampled_from(["p1", "p2", "p3", "p4"]),
    st.sampled_from(["default", "default", "shop"]),
    st.sampled_from(["n1", "n1", "n2", "n2", "n3", None]),
    st.sampled_from([{}, WEB, WEB, DB, {**WEB, "tier": "x"}, {**DB, "tier": "x"}]),
    st.sampled_from([(), TERMS[:1], TERMS[1:2], TERMS[2:3]])
    | st.lists(st.sampled_from(TERMS), max_size=2),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
)
nodes = st.builds(
    lambda name, zone, region, ready: node(
        name,
        labels={**({ZONE_LABEL: zone} if zone else {}), **({REGION: region} if region else {})},
        ready=ready,
    ),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(["a", "a", "b", None]),
    st.sampled_from(["main", "other", None]),
    st.sampled_from(["True", "True", "True", "False"]),
)
steps = st.lists(
    st.tuples(st.just("apply"), nodes)
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("remove"), nodes | pods),
    min_size=6,
    max_size=30,
)
START = (
    node("n1", labels={ZONE_LABEL: "a", **MAIN}),
    node("n2", labels={ZONE_LABEL: "a", **MAIN}),
    avoiding(pod("p1", uid="default/p1#0", on="n1", labels=WEB), *TERMS[:2]),
)
arguments = st.sampled_from(
    [
        {},
        {"namespaces": Namespaces(include=("default",))},
        {"namespaces": Namespaces(exclude=("default",))},
        {"label_selector": LabelSelector({"app": "web"})},
        {"label_selector": LabelSelector({"tier": "x"})},
    ]
)


class Story:
    """A scenario in which a name may come back as another pod, and no pod that ended runs again."""

    def __init__(self, args: dict[str, Any]) -> None:
        self.args = args
        self.cluster = Scenario(plugin(**args), *START)
        self._lives: Counter[str] = Counter()

    def tell(self, step: str, thing: Node | Pod) -> None:
        if isinstance(thing, Pod):
            name = thing.uid
            thing = msgspec.structs.replace(thing, uid=f"{name}#{self._lives[name]}")
            known = self.cluster.state.pods.get(thing.uid)
            if known is not None and known.node and step == "apply":
                phase = known.status if not known.is_active else thing.status
                thing = msgspec.structs.replace(thing, node=known.node, status=phase)
            self._lives[name] += step == "remove"
        getattr(self.cluster, step)(thing)

    def things(self) -> Iterable[ClusterObject]:
        for resource in ("nodes", "pods"):
            for key in self.cluster.state.keys(resource):
                if (thing := self.cluster.state.get(resource, key)) is not None:
                    yield thing


@given(steps, arguments)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[tuple[str, Node | Pod]], args: dict[str, Any]
) -> None:
    story = Story(args)
    for step, thing in steps:
        story.tell(step, thing)

        flagged = story.cluster.flagged()
        assert flagged == story.cluster.flagged_by_full_scan()
        assert flagged == Scenario(plugin(**args), *story.things()).flagged()


@given(steps, arguments)
def test_a_full_scan_finds_what_the_rules_say(
    steps: list[tuple[str, Node | Pod]], args: dict[str, Any]
) -> None:
    story = Story(args)
    for step, thing in steps:
        story.tell(step, thing)
    state, covers = story.cluster.state, InterPodAntiAffinityArgs(**args).covers
    seen = [
        one
        for one in state.pods
        if one.is_active and state.nodes.standing(one.node).counts and covers(one)
    ]

    assert story.cluster.flagged() == {one.name for one in seen if conflicts(one, seen, state)}


def conflicts(one: Pod, others: list[Pod], state: ClusterState) -> bool:
    """Say what the reference's rules say, in so many words."""
    here = state.nodes.standing(one.node).labels
    for term in one.spec.anti_affinity:
        chosen, key = term.label_selector, term.topology_key
        if chosen is None:
            continue
        if chosen.problems():
            return False
        for other in others:
            there = state.nodes.standing(other.node).labels
            if (
                other.name != one.name
                and other.namespace in (term.namespaces or (one.namespace,))
                and chosen.matches(other.labels)
                and (one.node == other.node or (key in here and here[key] == there.get(key)))
            ):
                return True
    return False
