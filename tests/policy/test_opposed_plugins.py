"""The checker names plugins of which one fills the nodes that the other takes pods from."""

import json
from typing import Any

import pytest

from reactive_desched.api.rules import Rule
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source
from tests.support.golden import Golden

HIGH, LOW, LOAD = "HighNodeUtilization", "LowNodeUtilization", "LowNodeLoad"
Args = dict[str, Any]


def high(**thresholds: float) -> Args:
    return {HIGH: {"thresholds": thresholds}}


def low(threshold: float, target: float, resource: str = "cpu", **more: Any) -> Args:
    limits = {"thresholds": {resource: threshold}, "targetThresholds": {resource: target}}
    return {LOW: {**limits, **more}}


DUPLICATES, CONSOLIDATE = "RemoveDuplicates", "ConsolidateNodes"


def soft_spread(action: str) -> Args:
    return {"RemovePodsViolatingTopologySpreadConstraint": {"constraints": [action]}}


def load(threshold: float, target: float, **more: Any) -> Args:
    limits = {"lowThresholds": {"cpu": threshold}, "highThresholds": {"cpu": target}}
    return {LOAD: {**limits, **more}}


def profile(name: str, plugins: Args, **evictor: Any) -> Any:
    configs = [{"name": each, "args": args} for each, args in plugins.items()]
    return {
        "name": name,
        "pluginConfig": [*configs, {"name": "DefaultEvictor", "args": evictor}],
        "plugins": {"balance": {"enabled": list(plugins)}},
    }


def warnings_of(*profiles: Any) -> list[str]:
    policy = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": profiles,
    }
    found = check_source(SourceText(json.dumps(policy), "p.yaml"), plugin_registry())
    assert found.errors == ()
    return [each.message for each in found.warnings if each.rule is Rule.OPPOSED_PLUGINS]


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param({**high(cpu=90), **low(30, 60)}, id="high above low"),
        pytest.param({**high(cpu=40), **low(30, 60)}, id="high between low and its target"),
        pytest.param({**high(cpu=40, memory=5), **low(30, 60)}, id="one resource in common"),
        pytest.param({**high(cpu=60), **load(45, 65)}, id="high above low load"),
        pytest.param({**low(70, 80), **load(45, 65)}, id="low fills what low load drains"),
        pytest.param({DUPLICATES: {}, CONSOLIDATE: {}}, id="duplicates and whole nodes"),
        pytest.param({**soft_spread("ScheduleAnyway"), **high(cpu=40)}, id="a soft spread"),
    ],
)
def test_plugins_that_undo_each_other_are_named(plugins: Args, golden: Golden) -> None:
    (message,) = warnings_of(profile("default", plugins))

    assert message == golden()


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param({**high(cpu=20), **low(30, 60)}, id="high below low"),
        pytest.param({**high(cpu=30), **low(30, 60)}, id="as high as low"),
        pytest.param({**high(memory=90), **low(30, 60)}, id="other resources"),
        pytest.param({**high(cpu=100), **low(30, 60)}, id="high that never evicts"),
        pytest.param(
            {**high(cpu=40), **low(10, 10, useDeviationThresholds=True)}, id="around the mean"
        ),
        pytest.param({**high(cpu=60), **load(45, 65, paused=True)}, id="one that is paused"),
        pytest.param({**low(30, 60), **load(45, 65)}, id="low and low load"),
        pytest.param(high(cpu=90), id="one alone"),
        pytest.param({**soft_spread("DoNotSchedule"), CONSOLIDATE: {}}, id="a spread that holds"),
        pytest.param({DUPLICATES: {}, "KeepNodesFree": {"nodes": 1}}, id="a node that is free"),
        pytest.param({DUPLICATES: {}, **low(30, 60)}, id="two that spread"),
    ],
)
def test_plugins_that_agree_are_not(plugins: Args) -> None:
    assert warnings_of(profile("default", plugins)) == []


def test_a_plugin_without_arguments_of_its_own_is_named_where_it_is_enabled() -> None:
    """ConsolidateNodes empties nodes by default."""
    both = profile("default", {**low(30, 60), "ConsolidateNodes": {}})
    both["pluginConfig"] = [each for each in both["pluginConfig"] if each["args"]]
    policy = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [both],
    }

    [found] = check_source(SourceText(json.dumps(policy), "p.yaml"), plugin_registry()).warnings

    assert found.rule is Rule.OPPOSED_PLUGINS
    assert found.path == "profiles[0].plugins.balance.enabled[1]"


def test_plugins_of_two_profiles_are_named_with_these(golden: Golden) -> None:
    crossing = warnings_of(profile("a", low(50, 80)), profile("b", low(10, 40)))

    assert warnings_of(profile("a", high(cpu=90)), profile("b", low(30, 60)))
    assert crossing == [golden()]


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(
            [{"labelSelector": {"matchLabels": {"team": team}}} for team in "ab"], id="labels"
        ),
        pytest.param(
            [
                {"labelSelector": {"matchExpressions": [each]}}
                for each in (
                    {"key": "pack", "operator": "Exists"},
                    {"key": "pack", "operator": "DoesNotExist"},
                )
            ],
            id="a label and its absence",
        ),
        pytest.param(
            [{"namespaceLabelSelector": {"matchLabels": {"team": team}}} for team in "ab"],
            id="namespaces",
        ),
        pytest.param(
            [{"nodeFit": True, "nodeSelector": f"pool={pool}"} for pool in "ab"], id="nodes"
        ),
    ],
)
def test_profiles_that_have_nothing_in_common_are_not_compared(pair: list[Args]) -> None:
    one, other = pair

    assert not warnings_of(profile("a", high(cpu=90), **one), profile("b", low(30, 60), **other))
    assert warnings_of(profile("a", high(cpu=90), **one), profile("b", low(30, 60), **one))


def test_pools_of_different_nodes_are_not_compared() -> None:
    pools = [
        {
            "name": name,
            "nodeSelector": {"matchLabels": {"pool": name}},
            "lowThresholds": {"cpu": low},
            "highThresholds": {"cpu": high},
        }
        for name, low, high in (("a", 10, 40), ("b", 50, 80))
    ]
    both = {LOAD: {"nodePools": pools, "nodeSelector": {"matchLabels": {"pool": "c"}}}}

    assert warnings_of(profile("one", both), profile("two", {**low(30, 60)})) == []
    assert warnings_of(profile("one", both), profile("two", {**high(cpu=30)}))


def consolidate(**args: Any) -> Args:
    return {"ConsolidateNodes": args}


def test_what_empties_nodes_whatever_they_use_is_opposed_to_what_fills_nodes(
    golden: Golden,
) -> None:
    [message] = warnings_of(profile("p", {**low(20, 50), **consolidate()}))
    assert golden() in message

    web, batch = ({"matchLabels": {"pool": pool}} for pool in ("web", "batch"))
    apart = {**load(45, 65, nodeSelector=web), **consolidate(nodeSelector=batch)}
    assert warnings_of(profile("p", apart)) == []
    assert warnings_of(profile("p", {**high(cpu=20), **consolidate()})) == []
