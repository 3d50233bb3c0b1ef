"""Which pods are flagged: those that declare a term and have whom it means near them."""

from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.api.scope import Namespaces
from reactive_desched.model.changes import NodeLabelsChanged
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import Namespace, Pod, PodAffinityTerm, PodStatus
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.primitives.long_answers import InPortions
from reactive_desched.testing.anti_affinity import (
    INVALID_TERM,
    MAIN,
    REGION,
    anti_affinity_term,
    db_pod,
    main_node,
    pod_avoiding_db,
)
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario
from tests.support.golden import Golden

DB = {"app": "db"}


def plugin(**args: Any) -> InterPodAntiAffinityPlugin:  # any argument of the plugin
    return InterPodAntiAffinityPlugin(InterPodAntiAffinityArgs(**args))


def swept(cluster: Scenario, by: InterPodAntiAffinityPlugin | None = None) -> set[str]:
    """Name the pods that a sweep flags."""
    found = (by or plugin()).sweep(cluster.view)
    return {finding.pod.name for portion in found for finding in portion}


def test_those_that_declare_a_term_are_flagged_and_the_pod_they_forbid_is_not() -> None:
    cluster = Scenario(
        plugin(),
        main_node("n1"),
        *(pod_avoiding_db(name, "n1") for name in "abc"),
        db_pod("db", "n1"),
    )

    assert cluster.flagged() == {"a", "b", "c"}
    assert cluster.evicted_by_sweep() == ["a", "b", "c"]


def test_a_domain_spans_nodes() -> None:
    nodes = main_node("n1"), main_node("n2"), node("n3", labels={REGION: "other"})
    cluster = Scenario(plugin(), *nodes, pod_avoiding_db("web", "n1"), db_pod("far", "n3"))
    assert cluster.flagged() == set()

    cluster.apply(db_pod("near", "n2"))

    assert cluster.flagged() == {"web"}


def test_on_a_node_without_the_label_pods_are_near_each_other_in_a_sweep_alone(
    golden: Golden,
) -> None:
    cluster = Scenario(
        plugin(), node("n1"), node("n2"), pod_avoiding_db("web", "n1"), db_pod("far", "n2")
    )
    assert swept(cluster) == set()

    cluster.apply(db_pod("near", "n1"))

    assert cluster.flagged() == set()
    assert swept(cluster) == {"web"}
    [[found]] = plugin().sweep(cluster.view)
    assert found.message == golden()
    assert found.details["topologyValue"] == ""

    cluster.apply(main_node("n1"))
    assert cluster.flagged() == {"web"}
    cluster.apply(node("n1"))
    assert cluster.flagged() == set()


def test_a_pod_of_the_same_name_in_another_namespace_is_another_pod_but_not_in_a_sweep() -> None:
    everywhere = anti_affinity_term("app=db", REGION, namespaces=("default", "shop"))
    web = pod_avoiding_db("web", "n1", everywhere)
    cluster = Scenario(
        plugin(), main_node("n1"), web, db_pod("web", "n1", uid="x", namespace="shop")
    )

    assert cluster.flagged() == {"web"}
    assert swept(cluster) == set()


def test_namespaces_that_are_labelled_otherwise_flag_pods_at_once() -> None:
    term = anti_affinity_term("app=db", REGION, namespace_selector="team=b")
    db, own = db_pod("db", "n1", namespace="b"), db_pod("own", "n1")
    cluster = Scenario(plugin(), main_node("n1"), pod_avoiding_db("web", "n1", term), db, own)
    assert cluster.flagged() == set()

    cluster.apply(Namespace("b", labels={"team": "b"}))
    assert cluster.flagged() == {"web"}

    cluster.apply(Namespace("b", labels={"team": "c"}))
    assert cluster.flagged() == set()


def test_pods_of_a_node_that_the_policy_does_not_select_are_in_the_way() -> None:
    cluster = Scenario(plugin(), main_node("n1"), pod_avoiding_db("web", "n1"), db_pod("db", "n2"))
    cluster.select("pool")
    cluster.apply(node("n1", labels={**MAIN, "pool": "x"}))
    assert cluster.flagged() == set()

    cluster.apply(main_node("n2"))
    assert cluster.flagged() == {"web"}

    cluster.apply(main_node("n2", ready="False"))
    assert cluster.flagged() == set()


@pytest.mark.parametrize(
    ("terms", "namespace", "flagged"),
    [
        pytest.param(
            [anti_affinity_term("app=db", REGION)], "shop", set(), id="its own namespace is meant"
        ),
        pytest.param(
            [anti_affinity_term("app=db", REGION, namespaces=("shop",))],
            "shop",
            {"web"},
            id="a listed one is",
        ),
        pytest.param(
            [anti_affinity_term("app=db", REGION, namespaces=("shop",))],
            "default",
            set(),
            id="its own is not if others are listed",
        ),
        pytest.param(
            [anti_affinity_term("app=db", REGION, namespace_selector="")],
            "shop",
            {"web"},
            id="an empty namespaceSelector means all namespaces",
        ),
        pytest.param(
            [anti_affinity_term("app=db", REGION, namespace_selector="team")],
            "default",
            set(),
            id="with a namespaceSelector its own is not meant",
        ),
        pytest.param(
            [anti_affinity_term(None, REGION)], "default", set(), id="no selector means nobody"
        ),
        pytest.param(
            [anti_affinity_term("", REGION)], "default", {"web"}, id="an empty one means everybody"
        ),
        pytest.param([INVALID_TERM], "default", set(), id="a broken one means nobody"),
        pytest.param(
            [INVALID_TERM, anti_affinity_term("app=db", REGION)],
            "default",
            {"web"},
            id="terms after a broken one matter as well",
        ),
        pytest.param(
            [anti_affinity_term("app=db", REGION), INVALID_TERM],
            "default",
            {"web"},
            id="terms before a broken one do",
        ),
        pytest.param(
            [anti_affinity_term("app=x", REGION), anti_affinity_term("app=db", REGION)],
            "default",
            {"web"},
            id="any term will do",
        ),
    ],
)
def test_which_pods_a_term_matches(
    terms: list[PodAffinityTerm], namespace: str, flagged: set[str]
) -> None:
    cluster = Scenario(
        plugin(),
        main_node("n1"),
        pod_avoiding_db("web", "n1", *terms),
        db_pod("db", "n1", namespace=namespace),
    )

    assert cluster.flagged() == flagged


@pytest.mark.parametrize(
    ("terms", "namespace", "flagged"),
    [
        pytest.param(
            [anti_affinity_term("app=db", REGION, namespace_selector="")],
            "shop",
            set(),
            id="a namespaceSelector is not looked at",
        ),
        pytest.param(
            [INVALID_TERM, anti_affinity_term("app=db", REGION)],
            "default",
            set(),
            id="terms after a broken one do not matter",
        ),
        pytest.param(
            [anti_affinity_term("app=db", REGION), INVALID_TERM],
            "default",
            {"web"},
            id="terms before a broken one do",
        ),
        pytest.param(
            [replace(anti_affinity_term("app=db", REGION), match_label_keys=("app",))],
            "default",
            {"web"},
            id="label keys are not looked at",
        ),
    ],
)
def test_which_pods_a_term_matches_in_a_sweep(
    terms: list[PodAffinityTerm], namespace: str, flagged: set[str]
) -> None:
    cluster = Scenario(
        plugin(),
        main_node("n1"),
        pod_avoiding_db("web", "n1", *terms, labels={"app": "web"}),
        db_pod("db", "n1", namespace=namespace),
    )

    assert swept(cluster) == flagged


def test_a_terminating_pod_is_still_in_the_way() -> None:
    leaving = replace(db_pod("db", "n1"), deletion_s=1)

    assert Scenario(plugin(), main_node("n1"), pod_avoiding_db("web", "n1"), leaving).flagged() == {
        "web"
    }


@pytest.mark.parametrize(
    "partner",
    [
        pytest.param(db_pod("db", "n1", status=PodStatus("Succeeded")), id="has ended"),
        pytest.param(pod("db", labels=DB), id="is not bound"),
        pytest.param(db_pod("db", "n2"), id="sits on a node that does not count"),
        pytest.param(db_pod("db", "n3"), id="sits on a node nobody knows"),
    ],
)
def test_a_pod_is_not_in_the_way_that(partner: Pod) -> None:
    nodes = main_node("n1"), main_node("n2", ready="False")

    assert Scenario(plugin(), *nodes, pod_avoiding_db("web", "n1"), partner).flagged() == set()


@pytest.mark.parametrize(
    ("args", "flagged"),
    [
        pytest.param({}, {"web", "api"}, id="all, by default"),
        pytest.param({"namespaces": Namespaces(include=("shop",))}, {"api"}, id="one namespace"),
        pytest.param({"namespaces": Namespaces(exclude=("shop",))}, {"web"}, id="all but one"),
        pytest.param({"label_selector": LabelSelector({"tier": "x"})}, {"api"}, id="by label"),
    ],
)
def test_only_pods_that_the_arguments_cover_are_judged(
    args: dict[str, Any], flagged: set[str]
) -> None:
    x = {"tier": "x"}
    cluster = Scenario(
        plugin(**args),
        main_node("n1"),
        pod_avoiding_db("web", "n1"),
        db_pod("db", "n1"),
        pod_avoiding_db("api", "n1", namespace="shop", labels=x),
        pod("db", uid="db2", on="n1", namespace="shop", labels={**DB, **x}),
    )

    assert cluster.flagged() == flagged


def test_pods_that_the_arguments_leave_out_are_not_flagged_for_those_they_cover() -> None:
    labelled = pod("db", on="n1", labels={**DB, "tier": "x"})
    only_x = plugin(label_selector=LabelSelector({"tier": "x"}))

    assert (
        Scenario(only_x, main_node("n1"), pod_avoiding_db("web", "n1"), labelled).flagged() == set()
    )


def test_pods_that_the_arguments_leave_out_are_in_the_way_but_not_in_a_sweep() -> None:
    everywhere = anti_affinity_term("app=db", REGION, namespaces=("default", "shop"))
    things = (
        main_node("n1"),
        pod_avoiding_db("web", "n1", everywhere),
        db_pod("db", "n1", namespace="shop"),
    )

    only_here = plugin(namespaces=Namespaces(exclude=("shop",)))
    cluster = Scenario(only_here, *things)

    assert cluster.flagged() == {"web"}
    assert swept(cluster, only_here) == set()
    assert swept(cluster) == {"web"}


def test_many_pods_are_named_least_important_first_and_sorted_in_steps() -> None:
    """A step sorts a hundred of them, and then one names a hundred."""
    pods = [pod_avoiding_db(f"p{n:03}", "n1", priority=n * 7 % 250) for n in range(250)]
    cluster = Scenario(plugin(), main_node("n1"), db_pod("db", "n1"), *pods)

    named = plugin().subjects(NodeLabelsChanged("n1", frozenset({REGION})), cluster.view)

    assert isinstance(named, InPortions)
    steps = [[each.pod for each in portion] for portion in named.portions]
    assert list(map(len, steps)) == [0, 0, 0, 100, 100, 50]
    by_priority = sorted(pods, key=lambda each: each.spec.priority or 0)
    assert [pod for step in steps for pod in step] == [each.uid for each in by_priority]
