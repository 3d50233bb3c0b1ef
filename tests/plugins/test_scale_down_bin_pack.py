"""ScaleDownBinPack: in which order pods are to be deleted, by koordinator's facts."""

from collections.abc import Mapping
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.api.deletion_costs import MAX_COST, RanksForDeletion
from reactive_desched.draining.evacuation_ranks import RankedNode
from reactive_desched.model.changes import Resynced
from reactive_desched.model.objects import ClusterObject, Node, OwnerReference, Pod
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.plugins.scale_down_bin_pack import (
    ScaleDownBinPackArgs,
    ScaleDownBinPackPlugin,
)
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from tests.support.golden import verbatim
from tests.support.small_plugins import HEAD
from tests.support.swept import swept

WEB = {"podSelectors": [{"name": "web", "selector": {"matchLabels": {"app": "web"}}}]}
EVICT_TWO = {"strategy": "EvictDirectly", "maxPodsToEvict": 2}


def packing(**args: Any) -> ScaleDownBinPackPlugin:
    return plugin_from_policy(ScaleDownBinPackPlugin, ScaleDownBinPackArgs, **args)


def small(name: str, cpu: str = "10", memory: str = "10Gi", **more: Any) -> Node:
    return node(name, allocatable={"cpu": cpu, "memory": memory, "pods": "10"}, **more)


def web(name: str, on: str, cpu: str = "1", memory: str = "1Gi", **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, "memory": memory}, labels={"app": "web"}, **more)


def other(name: str, on: str, cpu: str = "1", memory: str = "1Gi") -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, "memory": memory})


def costs(plugin: ScaleDownBinPackPlugin, *objects: ClusterObject) -> dict[str, int]:
    cluster = Scenario(plugin, *objects)
    return {each.name: cost for each, cost in at_once(plugin.deletion_costs(cluster.view))}


N1, N2, N3 = (small(name) for name in ("n1", "n2", "n3"))


def test_the_node_of_which_least_is_left_comes_first() -> None:
    pods = [web("a", "n1"), other("x", "n1", "3", "3Gi"), web("b", "n2"), other("y", "n2")]

    assert costs(packing(**WEB), N1, N2, *pods) == {"b": 0, "a": 1}


def test_of_a_node_the_largest_pod_comes_first_and_of_equal_ones_the_newest() -> None:
    pods = [
        *(web("small", "n1"), web("large", "n1", "2")),
        *(web("old", "n1", "3", created=1), web("new", "n1", "3", created=9)),
        web("anew", "n1", "3", created=9),
    ]

    assert costs(packing(), N1, *pods) == {"anew": 0, "new": 1, "old": 2, "large": 3, "small": 4}


def test_of_nodes_with_one_score_that_with_fewer_pods_comes_first_and_then_by_name() -> None:
    pods = [web("a", "n1"), web("b", "n1"), web("c", "n3"), web("d", "n2")]

    assert costs(packing(), N1, N2, N3, *pods) == {"d": 0, "c": 1, "a": 2, "b": 3}


def test_nodes_whose_pods_request_the_same_in_other_parts_have_one_score() -> None:
    parts = [web(f"part-{each}", "n1", cpu, "0") for each, cpu in enumerate(("1", "2"))]
    pods = [*parts, web("whole", "n2", "3", "0")]
    others = [other("x", "n1", "1", "0"), other("y", "n2", "1", "0")]

    found = costs(packing(**WEB), N1, N2, *pods, *others)
    assert found == {"whole": 0, "part-1": 1, "part-0": 2}


def test_pods_that_request_nothing_beside_others_come_last() -> None:
    pods = [web("none", "n1", "0", "0"), other("x", "n1"), web("b", "n2"), other("y", "n2", "9")]

    assert costs(packing(**WEB), N1, N2, *pods) == {"b": 0, "none": 1}
    assert RankedNode(N1, (pods[0],), (), ()).score({"cpu": 1.0}) == 0
    assert RankedNode(N1, (pods[0],), (), (pods[1],)).score({"cpu": 1.0}) == inf


def test_weights_and_resources_say_what_counts() -> None:
    by_cpu = [web("a", "n1", "1", "1Gi"), other("x", "n1", "4", "0")]
    by_memory = [web("b", "n2", "1", "1Gi"), other("y", "n2", "0", "3Gi")]
    cluster: tuple[ClusterObject, ...] = (N1, N2, *by_cpu, *by_memory)

    assert costs(packing(**WEB), *cluster) == {"b": 0, "a": 1}
    assert costs(packing(**WEB, resourceWeights={"memory": 2}), *cluster) == {"a": 0, "b": 1}
    assert costs(packing(**WEB, resources=["memory"]), *cluster) == {"a": 0, "b": 1}
    again = packing(**WEB, resources=["memory"], resourceWeights={"cpu": 9.0})
    assert costs(again, *cluster) == {"b": 0, "a": 1}


def test_a_resource_that_a_node_has_none_of_does_not_count() -> None:
    pods = [web("a", "n1"), other("x", "n1", "9", "0"), web("b", "n2"), other("y", "n2", "1", "0")]

    assert costs(packing(**WEB), small("n1", cpu="0"), N2, *pods) == {"a": 0, "b": 1}


def test_selected_pods_that_may_not_be_evicted_have_the_highest_cost() -> None:
    bare = web("bare", "n1", owner=None)
    alone = web("alone", "n2", owner=None)

    assert costs(packing(**WEB), N1, N2, web("a", "n1"), bare, alone) == {"a": 0, "bare": MAX_COST}


def test_pods_that_nothing_ranks_have_no_cost_and_count_against_their_node() -> None:
    owner = OwnerReference("DaemonSet", "agent", "uid-agent", controller=True)
    agent = replace(web("agent", "n1"), owners=(owner,))
    system = web("dns", "n1", namespace="kube-system")
    excluded = {"evictableNamespaces": {"exclude": ["kube-system"]}}

    found = costs(packing(**excluded), N1, N2, web("a", "n1"), agent, system, web("b", "n2", "1"))
    assert found == {"b": 0, "a": 1}


def test_nodes_that_the_arguments_leave_out_are_not_ranked() -> None:
    chosen = {"nodeSelector": {"matchLabels": {"pool": "a"}}}
    n1, n2 = small("n1", labels={"pool": "a"}), small("n2", labels={"pool": "b"})

    assert costs(packing(**chosen), n1, n2, web("a", "n1"), web("b", "n2")) == {"a": 0}


def test_a_plugin_that_is_paused_or_evicts_ranks_nothing() -> None:
    assert costs(packing(paused=True), N1, web("a", "n1")) == {}
    assert costs(packing(**EVICT_TWO), N1, web("a", "n1")) == {}


def test_a_sweep_evicts_the_first_pods_if_the_strategy_says_so() -> None:
    pods = [web("a", "n1"), web("b", "n1"), web("c", "n2")]

    assert swept(packing(), N1, N2, *pods) == []
    assert swept(packing(**EVICT_TWO), N1, N2, *pods) == ["c", "a"]
    assert swept(packing(**EVICT_TWO, paused=True), N1, N2, *pods) == []


def test_a_pod_that_is_not_evicted_does_not_count() -> None:
    pods = [web("a", "n1"), web("b", "n1"), web("c", "n2"), web("d", "n3", "2")]
    limits = {"maxNoOfPodsToEvictPerNode": 1}

    assert swept(packing(**{**EVICT_TWO, "maxPodsToEvict": 4}), N1, N2, N3, *pods, limits=limits)[
        :3
    ] == ["c", "d", "a"]


@pytest.mark.parametrize("args", [{}, EVICT_TWO])
def test_the_controller_evicts_nothing(args: Mapping[str, Any]) -> None:
    plugin = packing(**args)
    cluster = Scenario(plugin, N1, web("a", "n1"))

    assert list(plugin.subjects(Resynced(), cluster.view)) == []
    assert list(cluster.evaluate("n1")) == []
    assert isinstance(plugin, RanksForDeletion)


@given(
    st.lists(
        st.tuples(st.sampled_from("123"), st.sampled_from(["0", "1", "2"]), st.booleans()),
        max_size=8,
    )
)
def test_every_pod_that_may_go_has_a_rank_of_its_own(of: list[tuple[str, str, bool]]) -> None:
    pods = [
        web(f"p{at}", f"n{name}", cpu, owner="ReplicaSet/r" if owned else None)
        for at, (name, cpu, owned) in enumerate(of)
    ]
    found = costs(packing(), N1, N2, N3, *pods)

    ranked = [each.name for each in pods if each.owners]
    assert sorted(found[name] for name in ranked) == list(range(len(ranked)))
    assert {found[name] for name in found if name not in ranked} <= {MAX_COST}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("{strategy: evict}", verbatim('strategy: "evict" is not a strategy')),
        (
            "{strategy: EvictDirectly}",
            verbatim("maxPodsToEvict: must be above 0 with"),
        ),
        (
            "{strategy: EvictDirectly, maxPodsToEvict: 0}",
            verbatim("maxPodsToEvict: must be above 0"),
        ),
        (
            "{strategy: EvictDirectly, maxPodsToEvict: 1}",
            verbatim("strategy: the controller"),
        ),
        ("{maxPodsToEvict: 1}", verbatim("maxPodsToEvict: only the strategy EvictDirectly evicts")),
        (
            "{resourceWeights: {cpu: 0}}",
            verbatim("resourceWeights.cpu: must be a number above 0"),
        ),
        ("{resourceWeights: {cpu: -1}}", verbatim("resourceWeights.cpu: must be a number above 0")),
        ("{resources: [mem]}", verbatim('resources[0]: no resource of a node can be called "mem"')),
    ],
)
def test_what_is_said_of_arguments(args: str, words: str) -> None:
    text = (
        f"{HEAD}profiles:\n- name: p\n  plugins: {{balance: {{enabled: [ScaleDownBinPack]}}}}\n"
        f"  pluginConfig:\n  - name: ScaleDownBinPack\n    args: {args}\n"
    )
    found = check_source(SourceText(text, "p.yaml"), plugin_registry())

    [message] = [str(each) for each in (*found.errors, *found.warnings)]
    assert f".args.{words}" in message
