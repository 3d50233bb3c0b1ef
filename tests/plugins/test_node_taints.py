import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from reactive_desched.api.scope import Namespaces
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import ClusterObject, Node, Pod
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario
from tests.support.golden import Golden


def plugin(**args: object) -> NodeTaintsPlugin:
    return NodeTaintsPlugin(NodeTaintsArgs.model_validate(args))


def test_a_new_taint_flags_only_the_pods_that_do_not_tolerate_it() -> None:
    web, agent = pod("web", on="n1"), pod("agent", on="n1", tolerates="*")
    cluster = Scenario(plugin(), node("n1"), web, agent)
    assert cluster.flagged() == set()

    cluster.apply(node("n1", "gpu:NoSchedule"))

    assert cluster.flagged() == {"web"}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        pytest.param("gpu=a100:NoSchedule", "a100", id="value"),
        pytest.param("gpu:NoSchedule", "", id="no value"),
    ],
)
def test_a_finding_names_the_taint(written: str, value: str) -> None:
    cluster = Scenario(plugin(), node("n1", "other:NoExecute", written), pod("web", on="n1"))

    [finding] = plugin().judge(NodeSubject("n1"), cluster.view)

    assert finding.message == f"does not tolerate {written} on n1"
    assert finding.details == {"taintKey": "gpu", "taintValue": value, "taintEffect": "NoSchedule"}


def test_a_taint_that_goes_away_clears_the_finding() -> None:
    cluster = Scenario(plugin(), node("n1", "gpu:NoSchedule"), pod("web", on="n1"))
    assert cluster.flagged() == {"web"}

    cluster.apply(node("n1"))

    assert cluster.flagged() == set()


def test_a_taint_has_only_that_nodes_pods_judged() -> None:
    cluster = Scenario(
        plugin(), node("n1"), node("n2"), pod("a", on="n1"), pod("b", on="n1"), pod("c", on="n2")
    )

    assert cluster.subjects_evaluated(node("n1", "gpu:NoSchedule")) == {NodeSubject("n1")}


def test_a_new_pod_is_judged_only_on_a_node_with_taints() -> None:
    cluster = Scenario(plugin(), node("n1"), node("n2", "gpu:NoSchedule"))

    assert cluster.subjects_evaluated(pod("a", on="n1")) == set()
    assert cluster.subjects_evaluated(pod("b", on="n2")) == {PodSubject(pod("b").uid)}
    assert cluster.flagged() == {"b"}


def test_a_node_change_that_does_not_touch_its_taints_wakes_no_pod() -> None:
    cluster = Scenario(plugin(), node("n1"), pod("a", on="n1"))

    assert cluster.subjects_evaluated(node("n1", labels={"disk": "ssd"})) == set()


def test_a_pod_on_a_node_that_is_not_ready_is_left_alone() -> None:
    cluster = Scenario(plugin(), node("n1", "gpu:NoSchedule", ready="False"), pod("web", on="n1"))
    assert cluster.flagged() == set()

    cluster.apply(node("n1", "gpu:NoSchedule"))

    assert cluster.flagged() == {"web"}


NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("ready", "taint"), [("False", NOT_READY), ("Unknown", UNREACHABLE), (None, NOT_READY)]
)
def test_a_node_that_is_ready_again_keeps_its_pods_while_its_taint_lags_behind(
    ready: str | None, taint: str
) -> None:
    tainted = (f"{taint}:NoSchedule", f"{taint}:NoExecute", "gpu:NoSchedule")
    cluster = Scenario(
        plugin(), node("n1", *tainted[:2], ready=ready), pod("web", on="n1"), pod("db", on="n1")
    )

    cluster.apply(node("n1", *tainted[:2], ready="True"))
    assert cluster.flagged() == set()

    cluster.apply(node("n1", *tainted, ready="True"), pod("ml", on="n1", tolerates=("gpu",)))
    assert cluster.flagged() == {"web", "db"}

    cluster.apply(node("n1", ready="True"))
    assert cluster.flagged() == set()


FRONT = {"label_selector": LabelSelector({"tier": "front"})}


@pytest.mark.parametrize(
    ("args", "before", "change"),
    [
        pytest.param({}, [], pod("web", on="n1"), id="a pod lands on it"),
        pytest.param({}, [pod("web")], pod("web", on="n1"), id="a waiting pod is bound to it"),
        pytest.param(
            {},
            [pod("web", on="n1", tolerates="*")],
            pod("web", on="n1"),
            id="a pod's tolerations differ",
        ),
        pytest.param(
            FRONT,
            [pod("web", on="n1")],
            pod("web", on="n1", labels={"tier": "front"}),
            id="a pod's labels bring it under the selector",
        ),
    ],
)
def test_on_a_tainted_node_a_pod_is_flagged_as_soon_as(
    args: dict[str, object], before: list[Pod], change: Pod
) -> None:
    cluster = Scenario(plugin(**args), node("n1", "gpu:NoSchedule"), *before)
    assert cluster.flagged() == set()

    cluster.apply(change)

    assert cluster.flagged() == {"web"}


@pytest.mark.parametrize(
    ("args", "taint", "flagged"),
    [
        pytest.param({}, "a=x:NoSchedule", True, id="a hard taint counts"),
        pytest.param({}, "a=x:PreferNoSchedule", False, id="a soft taint does not count"),
        pytest.param(
            {"includePreferNoSchedule": True}, "a=x:PreferNoSchedule", True, id="unless asked for"
        ),
        pytest.param({}, "a=x:NoExecute", False, id="NoExecute is left to the cluster"),
        pytest.param(
            {"includePreferNoSchedule": True}, "a=x:NoExecute", False, id="NoExecute, always"
        ),
        pytest.param({"excludedTaints": ("a",)}, "a=x:NoSchedule", False, id="excluded by key"),
        pytest.param(
            {"excludedTaints": ("a=x",)}, "a=x:NoSchedule", False, id="excluded by key and value"
        ),
        pytest.param(
            {"excludedTaints": ("a=y",)}, "a=x:NoSchedule", True, id="another value is excluded"
        ),
        pytest.param(
            {"excludedTaints": ("a=",)}, "a:NoSchedule", True, id="an empty value has no entry"
        ),
        pytest.param({"includedTaints": ("a",)}, "a=x:NoSchedule", True, id="included by key"),
        pytest.param({"includedTaints": ("b",)}, "a=x:NoSchedule", False, id="not included"),
        pytest.param(
            {"includedTaints": ()}, "a=x:NoSchedule", False, id="an empty list includes nothing"
        ),
        pytest.param(
            {"excludedTaints": ()}, "a=x:NoSchedule", True, id="an empty list excludes none"
        ),
    ],
)
def test_which_taints_count(args: dict[str, object], taint: str, flagged: bool) -> None:  # noqa: FBT001 -- what a row expects
    cluster = Scenario(plugin(**args), node("n1", taint), node("n2"), pod("web", on="n1"))

    assert cluster.flagged() == ({"web"} if flagged else set())


SOFT = ("a:PreferNoSchedule", "b:PreferNoSchedule")


@pytest.mark.parametrize(
    ("own", "other", "tolerates", "is_better"),
    [
        pytest.param(SOFT[:1], (), (), True, id="the other has none"),
        pytest.param(SOFT[:1], SOFT[:1], (), False, id="the other has the same"),
        pytest.param(SOFT[:1], SOFT[1:], (), False, id="the other has as many"),
        pytest.param(SOFT, SOFT[1:], (), True, id="the other has fewer"),
        pytest.param(SOFT[:1], SOFT[1:], ("b",), True, id="that of the other is tolerated"),
        pytest.param(SOFT[:1], (), ("a",), False, id="its own is tolerated"),
        pytest.param(
            (*SOFT[:1], "c:NoSchedule"), SOFT, (), True, id="a hard taint needs no better node"
        ),
    ],
)
def test_for_a_soft_taint_a_pod_leaves_only_for_a_node_with_fewer(
    own: tuple[str, ...],
    other: tuple[str, ...],
    tolerates: tuple[str, ...],
    is_better: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    asked = plugin(includePreferNoSchedule=True)
    cluster = Scenario(
        asked, node("n1", *own), node("n2", *other), pod("web", on="n1", tolerates=tolerates)
    )

    assert cluster.flagged() == ({"web"} if is_better else set())
    for found in asked.judge(NodeSubject("n1"), cluster.view):
        hard = found.details["taintEffect"] == "NoSchedule"
        assert found.targets == (None if hard else frozenset({"n2"}))
        assert found.needs_fit is not hard


def test_a_better_node_that_comes_or_goes_decides_about_a_soft_taint() -> None:
    cluster = Scenario(
        plugin(includePreferNoSchedule=True),
        node("n1", SOFT[0]),
        node("n2", SOFT[0]),
        pod("web", on="n1"),
    )
    assert cluster.flagged() == set()

    cluster.apply(node("n2"))
    assert cluster.flagged() == {"web"}

    cluster.apply(node("n2", ready="False"))
    assert cluster.flagged() == set()


def test_a_sweep_asks_for_no_better_node_and_names_the_first_taint_of_the_node() -> None:
    asked = plugin(includePreferNoSchedule=True)
    cluster = Scenario(asked, node("n1", SOFT[0], "c:NoSchedule"), pod("web", on="n1"))

    [[found]] = asked.sweep(cluster.view)

    assert found.details["taintEffect"] == "PreferNoSchedule"
    assert found.targets is None


@pytest.mark.parametrize(
    ("args", "flagged"),
    [
        pytest.param({"namespaces": Namespaces(include=("shop",))}, {"shop"}, id="include"),
        pytest.param({"namespaces": Namespaces(exclude=("shop",))}, {"bank"}, id="exclude"),
        pytest.param({"label_selector": LabelSelector({"tier": "front"})}, {"shop"}, id="labels"),
    ],
)
def test_the_plugin_keeps_to_the_pods_it_was_given(
    args: dict[str, object], flagged: set[str]
) -> None:
    cluster = Scenario(
        plugin(**args),
        node("n1", "gpu:NoSchedule"),
        pod("shop", on="n1", namespace="shop", labels={"tier": "front"}),
        pod("bank", on="n1", namespace="bank"),
    )

    assert cluster.flagged() == flagged


def test_both_taint_lists_at_once_are_refused(golden: Golden) -> None:
    with pytest.raises(ValueError, match=re.escape(golden())):
        plugin(includedTaints=("a",), excludedTaints=("b",))


# A tiny world that is full from the start, so that generated objects collide often.
taints = st.lists(
    st.sampled_from(
        [
            "a:NoSchedule",
            "b:NoSchedule",
            "a:PreferNoSchedule",
            "b:PreferNoSchedule",
            f"{NOT_READY}:NoSchedule",
            f"{UNREACHABLE}:NoSchedule",
        ]
    ),
    max_size=2,
)
nodes = st.builds(
    lambda name, taints, ready: node(name, *taints, ready=ready),
    st.sampled_from(["n1", "n2"]),
    taints,
    st.sampled_from(["True", "True", "True", "False", "Unknown", None]),
)
pods = st.builds(
    lambda name, on, tolerates, labels: pod(name, on=on, tolerates=tolerates, labels=labels),
    st.sampled_from(["p1", "p2", "p3", "p4"]),
    st.sampled_from([None, "n1", "n1", "n2"]),
    st.sets(st.sampled_from("ab")),
    st.sampled_from([{}, {"tier": "front"}]),
)
apply, remove = st.just("apply"), st.just("remove")
steps = st.lists(
    st.tuples(apply, nodes)
    | st.tuples(apply, nodes)
    | st.tuples(apply, pods)
    | st.tuples(remove, nodes | st.just(pod("p3"))),
    min_size=6,
    max_size=30,
)
START = (node("n1", "a:NoSchedule"), node("n2"), pod("p1", on="n1"), pod("p2", on="n1"))
arguments = st.sampled_from(
    [
        {},
        {"includePreferNoSchedule": True},
        {"excludedTaints": ("a",)},
        {"includedTaints": ("b",)},
        {"label_selector": LabelSelector({"tier": "front"})},
    ]
)


@given(steps, st.sampled_from([{}, {"includedTaints": ("a",)}]))
def test_ignored_taints_are_as_good_as_not_there_unless_they_are_included_by_name(
    steps: list[tuple[str, object]], args: dict[str, object]
) -> None:
    cluster = Scenario(plugin(**args), *START, ignored_taints={"a"})
    for step, thing in steps:
        getattr(cluster, step)(thing)

        counted = "a" if args else "b"
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == with_taints(counted, cluster, args).flagged()


@given(steps, arguments)
@example([("apply", pod("p1", on="n2"))], {})  # it was flagged on n1, which has a taint
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[tuple[str, object]], args: dict[str, object]
) -> None:
    cluster = Scenario(plugin(**args), *START)
    for step, thing in steps:
        getattr(cluster, step)(thing)

        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == Scenario(plugin(**args), *all_things(cluster)).flagged()
        assert cluster.flagged() == without_lagging_taints(cluster, args).flagged()


def without_lagging_taints(cluster: Scenario, args: dict[str, object]) -> Scenario:
    """Build the same cluster as it is once the node lifecycle controller has caught up."""
    return with_taints("ab", cluster, args)


def with_taints(keys: str, cluster: Scenario, args: dict[str, object]) -> Scenario:
    """Build the same cluster with the taints of these keys alone."""
    things = [
        structs.replace(thing, taints=tuple(t for t in thing.taints if t.key in keys))
        if isinstance(thing, Node)
        else thing
        for thing in all_things(cluster)
    ]
    return Scenario(plugin(**args), *things)


def all_things(cluster: Scenario) -> Iterator[ClusterObject]:
    """Return what there is, for another cluster to see for the first time."""
    for resource in ("nodes", "pods"):
        for key in cluster.state.keys(resource):
            if (thing := cluster.state.get(resource, key)) is not None:
                yield thing
