"""CustomPriority: which pods leave expensive nodes for cheaper ones.

The cases of the sweep are the facts of koordinator's source, and their boundaries.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.changes import Resynced
from reactive_desched.model.consolidation import EMPTY, EMPTYING, consolidating_taint
from reactive_desched.model.decisions import Decision, Evict, GateReason
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import ClusterObject, Node, OwnerReference, Pod
from reactive_desched.plugins.custom_priority import CustomPriorityArgs, CustomPriorityPlugin
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from tests.support.small_plugins import HEAD
from tests.support.swept import swept

BLOCKED = GateReason("Test", "Blocked", "For a test.")


def level(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "nodeSelector": {"matchLabels": {"pool": name}}, **more}


TWO = [level("dear"), level("cheap")]
THREE = [level("dear"), level("middle"), level("cheap")]


def priority(**args: Any) -> CustomPriorityPlugin:
    given = {"evictionOrder": TWO, **args}
    return plugin_from_policy(CustomPriorityPlugin, CustomPriorityArgs, **given)


def draining(**args: Any) -> CustomPriorityPlugin:
    return priority(mode="DrainNode", **args)


def of(pool: str, name: str, *taints: str, cpu: str = "4", **more: Any) -> Node:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return node(name, *taints, labels={"pool": pool}, allocatable=room, **more)


def web(name: str, on: str, cpu: str = "1", memory: str = "1Gi", **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, "memory": memory}, **more)


D1, D2, M1, C1, C2 = (
    *(of("dear", "d1"), of("dear", "d2")),
    *(of("middle", "m1"), of("cheap", "c1"), of("cheap", "c2")),
)


def findings(plugin: CustomPriorityPlugin, *objects: ClusterObject, **more: Any) -> list[Finding]:
    cluster = Scenario(plugin, *objects, **more)
    return [
        each
        for subject in plugin.subjects(Resynced(), cluster.view)
        for each in cluster.evaluate(subject)
        if isinstance(each, Finding)
    ]


def found(plugin: CustomPriorityPlugin, *objects: ClusterObject, **more: Any) -> list[str]:
    return [each.pod.name for each in findings(plugin, *objects, **more)]


# --- a sweep, as koordinator ---


def test_pods_leave_dear_nodes_that_fit_on_cheap_ones_the_smallest_first() -> None:
    pods = [web("b", "d1", "2"), web("c", "d1", "1", "2Gi"), web("a", "d1"), web("x", "c1")]

    assert swept(priority(), D1, C1, *pods) == ["a", "c", "b"]


def test_a_pod_that_fits_on_no_cheaper_node_stays() -> None:
    pods = [web("big", "d1", "4"), web("small", "d1", "1"), web("x", "c1", "2")]

    assert swept(priority(), D1, C1, *pods) == ["small"]
    assert swept(priority(nodeFit=False), D1, C1, *pods) == ["small", "big"]


def test_after_five_misses_in_a_row_a_sweep_looks_no_further() -> None:
    misses = [web(f"m{n}", "d1", "100m", "9Gi") for n in range(5)]
    last = web("last", "d1", "200m")

    assert swept(priority(), D1, C1, *misses[:4], last) == ["last"]
    assert swept(priority(), D1, C1, *misses, last) == []


def test_a_node_is_of_the_first_level_that_selects_it() -> None:
    order = [level("dear"), {"name": "any", "nodeSelector": {}}, level("cheap")]
    pods = [web("a", "d1"), web("b", "c1")]

    assert swept(priority(evictionOrder=order), D1, C1, *pods) == ["a"]


def test_a_level_without_nodes_counts_for_nothing() -> None:
    assert swept(priority(evictionOrder=THREE), D1, C1, web("a", "d1")) == ["a"]
    assert swept(priority(evictionOrder=THREE), D1, D2, web("a", "d1")) == []


def test_nodes_of_no_level_neither_give_nor_take_pods() -> None:
    assert swept(priority(), of("other", "o1"), C1, web("a", "o1")) == []
    assert swept(priority(), D1, of("other", "o1"), web("a", "d1")) == []


def test_pods_of_the_middle_leave_for_the_cheap_alone() -> None:
    pods = [web("a", "m1"), web("x", "c1", "4")]

    assert swept(priority(evictionOrder=THREE), D1, M1, C1, *pods) == []
    assert swept(priority(evictionOrder=THREE), D1, M1, C1, C2, *pods) == ["a"]


OFF: list[Mapping[str, Any]] = [
    {"paused": True},
    {"dryRun": True},
    {"evictableNamespaces": {"exclude": ["default"]}},
    {"evictableNamespaces": {"include": ["other"]}},
    {"podSelectors": [{"name": "db", "selector": {"matchLabels": {"app": "db"}}}]},
    {"nodeSelector": {"matchLabels": {"pool": "dear"}}},
]


@pytest.mark.parametrize("args", OFF)
@pytest.mark.parametrize("mode", ["BestEffort", "DrainNode"])
def test_what_the_arguments_leave_out_stays(args: Mapping[str, Any], mode: str) -> None:
    assert swept(priority(mode=mode), D1, C1, web("a", "d1")) == ["a"]
    assert swept(priority(mode=mode, **args), D1, C1, web("a", "d1")) == []
    assert found(priority(mode=mode), D1, C1, web("a", "d1")) == ["a"]
    assert found(priority(mode=mode, **args), D1, C1, web("a", "d1")) == []


def test_a_sweep_drains_a_node_only_if_all_pods_have_places_beside_each_other() -> None:
    pods = [web("a", "d1", "2"), web("b", "d1", "2"), web("c", "d2", "3")]
    tight = of("cheap", "c1", cpu="3")

    assert swept(priority(), D1, D2, tight, *pods) != []
    assert swept(draining(), D1, D2, tight, *pods) == ["c"]
    assert swept(draining(), D1, D2, C1, *pods) == ["a", "b"]


def test_a_pod_that_requests_no_cpu_has_a_place_on_a_node_whose_cpu_is_overcommitted() -> None:
    full = [web("f1", "c1", cpu="3"), web("f2", "c1", cpu="2")]
    modest = pod("a", on="d1", requests={"memory": "1Gi"})

    assert swept(draining(), D1, C1, modest, *full) == ["a"]
    assert swept(draining(), D1, C1, web("a", "d1", cpu="1m"), *full) == []


def test_a_sweep_drains_no_node_that_would_have_to_be_closed() -> None:
    assert swept(draining(autoCordon=True), D1, C1, web("a", "d1")) == []


# --- the controller ---


def test_the_targets_are_the_nodes_of_all_cheaper_levels() -> None:
    [dear, middle] = findings(
        priority(evictionOrder=THREE), D1, M1, C1, C2, web("a", "d1"), web("b", "m1")
    )

    assert dear.targets == frozenset({"m1", "c1", "c2"})
    assert middle.targets == frozenset({"c1", "c2"})
    assert (dear.place_rank, middle.place_rank) == (0, 1)
    assert dear.by_score
    assert dear.needs_fit


def test_pods_that_are_to_leave_together_have_places_beside_each_other() -> None:
    pods = [web("a", "d1", "2"), web("b", "d1", "2"), web("c", "d2", "3")]

    assert found(draining(), D1, D2, of("cheap", "c1", cpu="3"), *pods) == ["c"]
    assert found(draining(), D1, D2, C1, *pods) == ["a", "b"]
    assert found(draining(), D1, D2, C1, C2, *pods) == ["a", "b", "c"]


def test_where_each_leaves_alone_none_waits_for_the_others() -> None:
    pods = [web("a", "d1", "2"), web("b", "d1", "2")]

    assert found(priority(), D1, of("cheap", "c1", cpu="3"), *pods) == ["a", "b"]


def test_a_node_that_takes_pods_is_not_drained_in_the_same_plan() -> None:
    pods = [web("a", "d1", "2"), web("b", "m1", "1"), web("x", "c1", "3")]

    drained = findings(draining(evictionOrder=THREE), D1, M1, C1, *pods)

    assert [(each.pod.name, each.details["place"]) for each in drained] == [("a", "m1")]


def test_the_cheapest_nodes_take_pods_first() -> None:
    [only] = findings(draining(evictionOrder=THREE), D1, M1, C1, web("a", "d1"))

    assert only.details["place"] == "c1"


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param(of("cheap", "c1", unschedulable=True), id="cordoned"),
        pytest.param(replace(of("cheap", "c1"), drain="ada"), id="to be drained"),
        pytest.param(of("cheap", "c1", "karpenter.sh/disrupted:NoSchedule"), id="removed"),
        pytest.param(replace(C1, taints=(consolidating_taint(EMPTY),)), id="emptied"),
    ],
)
def test_nodes_that_are_closed_or_emptied_take_no_pods(closed: Node) -> None:
    assert found(draining(), D1, closed, web("a", "d1")) == []


def test_a_pod_that_is_kept_keeps_the_pods_after_it() -> None:
    def keep_a(finding: Finding) -> Decision:
        if finding.pod.name == "a":
            return BLOCKED.refuse(finding, "for a test", ())
        return Evict(finding)

    pods = [web("a", "d1"), web("b", "d1", "2"), web("c", "d2", "3")]
    cluster = Scenario(draining(), D1, D2, C1, C2, *pods, decide=keep_a)

    assert cluster.flagged() == {"a", "c"}


# --- a node that is closed ---


def of_daemon_set(name: str, on: str) -> Pod:
    owner = OwnerReference("DaemonSet", "agent", "uid-agent", controller=True)
    return replace(web(name, on, "100m"), owners=(owner,))


def sets(of: Iterable[Finding]) -> dict[str, tuple[object, ...]]:
    return {each.move_set.node: each.move_set.pods for each in of if each.move_set}


def test_without_auto_cordon_pods_are_no_set_and_others_may_stay() -> None:
    pods = [web("a", "d1"), web("bare", "d1", owner=None), of_daemon_set("agent", "d1")]

    assert [each.move_set for each in findings(draining(), D1, C1, *pods)] == [None]


def test_a_closed_node_is_emptied_as_a_whole_or_not_at_all() -> None:
    mine = draining(autoCordon=True)
    pods = [web("b", "d1", "2"), web("a", "d1"), of_daemon_set("agent", "d1")]

    assert sets(findings(mine, D1, C1, *pods)) == {"d1": (pods[1].uid, pods[0].uid)}
    assert found(mine, D1, C1, *pods, web("bare", "d1", owner=None)) == []
    excluded = draining(autoCordon=True, evictableNamespaces={"exclude": ["kube-system"]})
    assert found(excluded, D1, C1, *pods, web("dns", "d1", namespace="kube-system")) == []


def test_a_set_that_has_begun_goes_on_before_others_though_a_pod_is_kept() -> None:
    def keep(finding: Finding) -> Decision:
        return BLOCKED.refuse(finding, "for a test", ())

    begun = replace(D2, taints=(consolidating_taint(EMPTYING),))
    pods = [web("a", "d1"), web("b", "d2"), web("c", "d2")]
    mine = draining(autoCordon=True)

    assert found(mine, D1, begun, C1, *pods) == ["b", "c", "a"]
    cluster = Scenario(mine, D1, begun, C1, *pods, decide=keep)
    assert cluster.flagged() == {"a", "b", "c"}


def test_pods_that_leave_a_begun_set_already_are_not_counted_again() -> None:
    begun = replace(D1, taints=(consolidating_taint(EMPTYING),))
    pods = [replace(web("a", "d1"), deletion_s=1), web("b", "d1")]

    assert sets(findings(draining(autoCordon=True), begun, C1, *pods)) == {"d1": (pods[1].uid,)}


@pytest.mark.parametrize(
    ("args", "closes"),
    [
        ({}, ""),
        ({"autoCordon": True}, ""),
        ({"mode": "DrainNode"}, ""),
        ({"mode": "DrainNode", "autoCordon": True}, "closes"),
        ({"mode": ""}, ""),
    ],
)
def test_only_draining_with_auto_cordon_closes_nodes(args: Any, closes: str) -> None:
    assert priority(**args).closes_nodes is (closes == "closes")


# --- arguments ---

LEVEL_A = "{name: a, nodeSelector: {matchLabels: {pool: a}}}"
LEVEL_B = "{name: b, nodeSelector: {matchLabels: {pool: b}}}"
ANY_NODE = "{name: any, nodeSelector: {}}"


def said(args: str) -> list[str]:
    text = (
        f"{HEAD}profiles:\n- name: p\n  plugins: {{balance: {{enabled: [CustomPriority]}}}}\n"
        f"  pluginConfig:\n  - name: CustomPriority\n    args: {args}\n"
    )
    found = check_source(SourceText(text, "p.yaml"), plugin_registry())
    errors = (f"error: {each}" for each in found.errors)
    return [*errors, *(f"warning: {each}" for each in found.warnings)]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("{}", "error: evictionOrder: is required [RD206]"),
        (
            f"{{evictionOrder: [{LEVEL_A}]}}",
            "error: evictionOrder: there must be two levels [RD308]",
        ),
        (
            f"{{evictionOrder: [{LEVEL_A}, {LEVEL_A}]}}",
            'error: evictionOrder[1].name: a level named "a" is there already [RD211]',
        ),
        (
            f"{{evictionOrder: [{LEVEL_A}, {{nodeSelector: {{}}}}]}}",
            "error: evictionOrder[1].name: is required [RD206]",
        ),
        (
            f"{{evictionOrder: [{LEVEL_A}, {{name: b}}]}}",
            "error: evictionOrder[1].nodeSelector: is required [RD206]",
        ),
        (
            f"{{mode: drainNode, evictionOrder: [{LEVEL_A}, {LEVEL_B}]}}",
            'error: mode: "drainNode" is not a mode; did you mean DrainNode? [RD208]',
        ),
        (
            f"{{evictionOrder: [{LEVEL_A}, {LEVEL_B[:-1]}, keepThreshold: {{cpu: 101}}}}]}}",
            "warning: evictionOrder[1].keepThreshold: does not use it, so no pod [RD412]",
        ),
        (
            f"{{evictionOrder: [{LEVEL_A}, {LEVEL_B[:-1]}, rejectThreshold: {{cpu: 80}}}}]}}",
            "warning: evictionOrder[1].rejectThreshold: does not use it, so no pod [RD412]",
        ),
        (
            f"{{evictionOrder: [{ANY_NODE}, {LEVEL_B}]}}",
            "warning: evictionOrder[0].nodeSelector: no later level has any [RD413]",
        ),
        (
            f"{{autoCordon: true, evictionOrder: [{LEVEL_A}, {LEVEL_B}]}}",
            "warning: autoCordon: only the mode DrainNode closes nodes [RD412]",
        ),
        (
            (
                "{evictableNamespaces: {include: [a], exclude: [b]}, "
                f"evictionOrder: [{LEVEL_A}, {LEVEL_B}]}}"
            ),
            "error: evictableNamespaces: only one of include and exclude can count [RD212]",
        ),
    ],
)
def test_what_is_said_of_arguments(args: str, words: str) -> None:
    [message] = said(args)

    parts = re.fullmatch(r"(\w+): (\S+): (.*) (\[\w+\])", words)
    assert parts is not None
    kind, place, text, code = parts.groups()
    assert message.startswith(f"{kind}: ")
    assert f".args.{place}: " in message
    assert text in message
    assert message.endswith(code)


def test_the_last_level_may_select_every_node() -> None:
    assert said(f"{{evictionOrder: [{LEVEL_A}, {ANY_NODE}]}}") == []
    assert said(f"{{evictionOrder: [{LEVEL_A}, {LEVEL_B}], mode: '', nodeFit: false}}") == []
