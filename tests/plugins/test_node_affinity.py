import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.plugins.node_affinity import (
    PREFERRED,
    REQUIRED,
    NodeAffinityArgs,
    NodeAffinityPlugin,
)
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario
from tests.support.golden import Golden


def plugin(*types: str) -> NodeAffinityPlugin:
    return NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=types))


SSD = {"disk": "ssd"}


def test_a_label_change_flags_the_pods_whose_required_affinity_it_breaks() -> None:
    cluster = Scenario(
        plugin(REQUIRED),
        node("n1", labels=SSD),
        pod("db", on="n1", requires="disk=ssd"),
        pod("web", on="n1"),
    )
    assert cluster.flagged() == set()

    cluster.apply(node("n1", labels={"disk": "hdd"}))

    assert cluster.flagged() == {"db"}


def test_a_finding_asks_for_a_node_that_fits() -> None:
    cluster = Scenario(plugin(REQUIRED), node("n1"), pod("db", on="n1", requires="disk=ssd"))

    [finding] = plugin(REQUIRED).judge(PodSubject("db"), cluster.view)

    assert finding.needs_fit


def test_a_bare_node_selector_does_not_qualify_a_pod() -> None:
    import msgspec

    web = pod("web", on="n1")
    spec = msgspec.structs.replace(web.spec, node_selector={"disk": "ssd"})
    cluster = Scenario(plugin(REQUIRED), node("n1"), msgspec.structs.replace(web, spec=spec))

    assert cluster.flagged() == set()


def test_a_node_selector_counts_once_there_is_required_affinity() -> None:
    import msgspec

    web = pod("web", on="n1", requires="kubernetes.io/hostname")
    spec = msgspec.structs.replace(web.spec, node_selector={"disk": "ssd"})
    cluster = Scenario(plugin(REQUIRED), node("n1"), msgspec.structs.replace(web, spec=spec))

    assert cluster.flagged() == {"web"}


def test_a_better_node_that_joins_flags_the_pods_that_prefer_it() -> None:
    cluster = Scenario(plugin(PREFERRED), node("n1"), pod("db", on="n1", prefers={"disk=ssd": 10}))
    assert cluster.flagged() == set()

    cluster.apply(node("n2", labels=SSD))

    assert cluster.flagged() == {"db"}


def test_the_better_node_leaving_clears_the_finding() -> None:
    better = node("n2", labels=SSD)
    cluster = Scenario(
        plugin(PREFERRED), node("n1"), better, pod("db", on="n1", prefers={"disk=ssd": 10})
    )
    assert cluster.flagged() == {"db"}

    cluster.remove(better)

    assert cluster.flagged() == set()


def test_a_node_elsewhere_that_gets_better_labels_flags_the_pods_that_prefer_it() -> None:
    cluster = Scenario(
        plugin(PREFERRED), node("n1"), node("n2"), pod("db", on="n1", prefers={"disk=ssd": 10})
    )
    assert cluster.flagged() == set()

    cluster.apply(node("n2", labels=SSD))
    assert cluster.flagged() == {"db"}
    cluster.apply(node("n2", labels={"disk": "hdd"}))
    assert cluster.flagged() == set()


def test_the_better_node_that_is_no_longer_ready_clears_the_finding() -> None:
    cluster = Scenario(
        plugin(PREFERRED),
        node("n1"),
        node("n2", labels=SSD),
        pod("db", on="n1", prefers={"disk=ssd": 10}),
    )
    cluster.apply(node("n2", labels=SSD, ready="False"))

    assert cluster.flagged() == set()


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param([], pod("db", on="n1", requires="disk=ssd"), id="a pod lands on it"),
        pytest.param(
            [pod("db", requires="disk=ssd")],
            pod("db", on="n1", requires="disk=ssd"),
            id="a waiting pod is bound to it",
        ),
        pytest.param(
            [pod("db", on="n1", requires="!disk")],
            pod("db", on="n1", requires="disk=ssd"),
            id="a pod's affinity differs",
        ),
    ],
)
def test_on_a_node_it_must_not_be_on_a_pod_is_flagged_as_soon_as(
    before: list[Pod], change: Pod
) -> None:
    cluster = Scenario(plugin(REQUIRED), node("n1"), *before)
    assert cluster.flagged() == set()

    cluster.apply(change)

    assert cluster.flagged() == {"db"}


def test_a_node_that_becomes_ready_with_wrong_labels_flags_its_pods() -> None:
    cluster = Scenario(
        plugin(REQUIRED), node("n1", ready="False"), pod("db", on="n1", requires="disk=ssd")
    )
    assert cluster.flagged() == set()

    cluster.apply(node("n1"))

    assert cluster.flagged() == {"db"}


def test_a_pods_labels_may_bring_it_under_the_selector() -> None:
    args = NodeAffinityArgs(
        node_affinity_type=(REQUIRED,), label_selector=LabelSelector({"tier": "front"})
    )
    cluster = Scenario(
        NodeAffinityPlugin(args), node("n1"), pod("db", on="n1", requires="disk=ssd")
    )
    assert cluster.flagged() == set()

    cluster.apply(pod("db", on="n1", requires="disk=ssd", labels={"tier": "front"}))

    assert cluster.flagged() == {"db"}


def test_labels_without_preferences_wake_no_pod_elsewhere() -> None:
    cluster = Scenario(
        plugin(PREFERRED), node("n1"), node("n2"), pod("db", on="n1", prefers={"disk=ssd": 10})
    )

    assert cluster.subjects_evaluated(node("n2", labels={"rack": "7"})) == {NodeSubject("n2")}


@pytest.mark.parametrize(
    ("types", "flagged"),
    [
        pytest.param((REQUIRED,), {"strict"}, id="required only"),
        pytest.param((PREFERRED,), {"wishful"}, id="preferred only"),
        pytest.param((PREFERRED, REQUIRED), {"strict", "wishful"}, id="both"),
        pytest.param(("nonsense",), set(), id="an unknown type is skipped"),
    ],
)
def test_only_the_configured_types_count(types: tuple[str, ...], flagged: set[str]) -> None:
    cluster = Scenario(
        plugin(*types),
        node("n1"),
        node("n2", labels=SSD),
        pod("strict", on="n1", requires="disk=ssd"),
        pod("wishful", on="n1", prefers={"disk=ssd": 10}),
        pod("content", on="n2", requires="disk=ssd", prefers={"disk=ssd": 1}),
    )

    assert cluster.flagged() == flagged


def test_a_pod_that_fails_in_both_types_is_flagged_once_for_the_first(golden: Golden) -> None:
    both = plugin(REQUIRED, PREFERRED)
    cluster = Scenario(
        both,
        node("n1"),
        node("n2", labels=SSD),
        pod("db", on="n1", requires="disk=ssd", prefers={"disk=ssd": 10}),
    )

    [finding] = both.judge(PodSubject("db"), cluster.view)
    assert finding.message == golden()
    assert finding.details == {"affinityType": REQUIRED}


def test_a_finding_says_how_much_better_the_best_node_is(golden: Golden) -> None:
    cluster = Scenario(
        plugin(PREFERRED),
        node("n1", labels={"gpu": "a"}),
        node("n2", labels=SSD),
        pod("db", on="n1", prefers={"disk=ssd": 10, "gpu=a": 3}),
    )

    [finding] = plugin(PREFERRED).judge(PodSubject("db"), cluster.view)

    assert finding.message == golden()
    assert finding.details == {
        "affinityType": PREFERRED,
        "weight": 3,
        "bestWeight": 10,
        "betterNodes": 1,
    }


def test_a_sweep_judges_everything_for_one_type_and_then_for_the_next() -> None:
    both = plugin(PREFERRED, REQUIRED)
    wishes = pod("wishes", on="n2", prefers={"disk=ssd": 5})
    cluster = Scenario(
        both,
        node("n1"),
        node("n2"),
        node("n3", labels={"disk": "ssd"}),
        pod("needs", on="n1", requires="gpu=a"),
        wishes,
    )

    portions = [[found.pod.name for found in portion] for portion in both.sweep(cluster.view)]

    assert [portion for portion in portions if portion] == [["wishes"], ["needs"]]


def test_the_type_must_be_given(golden: Golden) -> None:
    with pytest.raises(ValueError, match=re.escape(golden())):
        plugin()


# A tiny world that is full from the start, so that generated objects collide often.
labels = st.dictionaries(st.sampled_from(["disk", "rack"]), st.sampled_from(["a", "b"]))
nodes = st.builds(
    lambda name, labels, ready: node(name, labels=labels, ready=ready),
    st.sampled_from(["n1", "n2", "n3"]),
    labels,
    st.sampled_from(["True", "True", "True", "False"]),
)
selectors = st.sampled_from(
    ["disk=a", "disk", "!rack", "rack in (a,b)", "kubernetes.io/hostname=n2"]
)
pods = st.builds(
    lambda name, on, requires, prefers: pod(name, on=on, requires=requires, prefers=prefers),
    st.sampled_from(["p1", "p2", "p3"]),
    st.sampled_from([None, "n1", "n1", "n2"]),
    st.none() | selectors,
    st.dictionaries(selectors, st.integers(1, 3), max_size=2),
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
START = (node("n1"), node("n2"), pod("p1", on="n1", requires="!disk", prefers={"rack=a": 2}))
types = st.sampled_from([(REQUIRED,), (PREFERRED,), (REQUIRED, PREFERRED)])


@given(steps, types)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[tuple[str, object]], types: tuple[str, ...]
) -> None:
    cluster = Scenario(plugin(*types), *START)
    for step, thing in steps:
        getattr(cluster, step)(thing)

        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == Scenario(plugin(*types), *all_things(cluster)).flagged()


def all_things(cluster: Scenario) -> Iterator[ClusterObject]:
    """Return what there is, for another cluster to see for the first time."""
    for resource in ("nodes", "pods"):
        for key in cluster.state.keys(resource):
            if (thing := cluster.state.get(resource, key)) is not None:
                yield thing
