"""The JSON Schemas that ship: equal to what the models say, and of use against common mistakes."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from reactive_desched.cli.policy_schema import FORMATS, text
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source
from reactive_desched.policy.registry import with_evictor
from tests.support.json_schema import JsonSchema
from tools.schema_rules import RULES
from tools.write_schemas import SCHEMAS

Json = dict[str, Any]  # a schema is JSON

POLICY = JsonSchema(json.loads(text("v1alpha2")))
LEGACY = JsonSchema(json.loads(text("v1alpha1")))
SETTINGS = JsonSchema(json.loads(text("settings")))
ANY = JsonSchema(json.loads(text("any")))
OF_VERSION = {
    "descheduler/v1alpha2": POLICY,
    "descheduler/v1alpha1": LEGACY,
    "reactive-desched/v1alpha1": SETTINGS,
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LOW = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}


def policy(**fields: object) -> Json:
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", **fields}


def legacy(**strategies: object) -> Json:
    head = {"apiVersion": "descheduler/v1alpha1", "kind": "DeschedulerPolicy"}
    return {**head, "strategies": strategies}


def settings(**fields: object) -> Json:
    return {"apiVersion": "reactive-desched/v1alpha1", "kind": "ReactiveSettings", **fields}


def with_args(plugin: str, args: object) -> Json:
    return policy(profiles=[{"name": "p", "pluginConfig": [{"name": plugin, "args": args}]}])


def is_sound(document: Json) -> bool:
    """Say what the strict reader makes of a document; settings are read beside a policy."""
    return not check_source(SourceText(json.dumps(document), "p.yaml"), plugin_registry()).errors


def is_valid(document: Json) -> bool:
    """Say what the schema of its format makes of a document; the joint one must agree."""
    answer = OF_VERSION[document["apiVersion"]].accepts(document)
    assert ANY.accepts(document) is answer
    return answer


def test_each_schema_that_ships_is_that_of_a_format() -> None:
    assert {path.stem for path in SCHEMAS.glob("*.json")} == {*FORMATS}


def test_every_rule_is_about_a_model_that_is_there() -> None:
    known = json.loads(text("any"))["definitions"].keys()

    assert RULES.keys() - known == set()


def of_koordinator(evict: str = "MigrationController", **args: object) -> Json:
    profile = {
        "name": "p",
        "pluginConfig": [{"name": "MigrationController", "args": args}],
        "plugins": {
            "evict": {"enabled": [evict]},
            "filter": {"enabled": ["MigrationController"]},
            "deschedule": {"enabled": ["RemoveFailedPods"]},
        },
    }
    return policy(profiles=[profile])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (of_koordinator(maxMigratingPerNode=3), True),
        (of_koordinator(maxMigratingPerNode="x"), False),
        (of_koordinator(maxMigrating=3), False),
        (of_koordinator(evict="DefaultEvictor"), False),
    ],
    ids=["sound", "wrong type", "unknown argument", "evicts nothing"],
)
def test_a_profile_of_koordinators_is_valid_where_it_is_sound(
    document: Json, *, expected: bool
) -> None:
    assert (is_sound(document), is_valid(document)) == (expected, expected)


def fields_of(schema: Json) -> Iterator[tuple[str, Json]]:
    for model, definition in {"": schema, **schema["definitions"]}.items():
        for field, shape in definition.get("properties", {}).items():
            yield f"{model}.{field}", shape


@pytest.mark.parametrize("name", ["v1alpha2", "v1alpha1", "settings"])
def test_every_field_is_explained(name: str) -> None:
    fields = dict(fields_of(json.loads(text(name))))
    strategies = {key for key in fields if key.startswith("LegacyPolicy.strategies")}

    assert [key for key in fields.keys() - strategies if not fields[key].get("description")] == []


@pytest.mark.parametrize("plugin", with_evictor(plugin_registry()))
@pytest.mark.parametrize("args", [{}, {"args": None}, {"args": {}}], ids=json.dumps)
def test_an_entry_without_arguments_is_valid_where_a_plugin_needs_none(
    plugin: str, args: Mapping[str, object]
) -> None:
    document = policy(profiles=[{"pluginConfig": [{"name": plugin, **args}]}])

    assert is_valid(document) is is_sound(document)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(policy(), id="no profiles"),
        pytest.param(policy(profiles=None, nodeSelector=None), id="nothing behind the fields"),
        pytest.param(policy(profiles=[None]), id="an empty profile"),
        pytest.param(policy(maxNoOfPodsToEvictTotal=0, gracePeriodSeconds=0), id="zeros"),
        pytest.param(policy(profiles=[{"plugins": {"sort": {"enabled": ["x"]}}}]), id="not read"),
        pytest.param(
            policy(profiles=[{"plugins": {"balance": {"enabled": None}, "deschedule": None}}]),
            id="nothing enabled",
        ),
        pytest.param(with_args("LowNodeUtilization", {**LOW, "kind": "x"}), id="a kind in args"),
        pytest.param(
            with_args("DefaultEvictor", {"minPodAge": "1h30m", "nodeSelector": "a in (b,c)"}),
            id="a duration and a selector",
        ),
        pytest.param(
            with_args("DefaultEvictor", {"minPodAge": "0", "noEvictionPolicy": ""}),
            id="what means nothing",
        ),
        pytest.param(
            with_args("DefaultEvictor", {"evictDaemonSetPods": True, "podProtections": {}}),
            id="a deprecated switch",
        ),
        pytest.param(
            with_args("RemoveDuplicates", {"namespaces": {"include": None, "exclude": ["a"]}}),
            id="one list of namespaces",
        ),
        pytest.param(legacy(), id="no strategies"),
        pytest.param(
            legacy(LowNodeUtilization={"enabled": False}, PodLifeTime=None, RemoveDuplicates={}),
            id="strategies that do not run",
        ),
        pytest.param(legacy(RemoveDuplicates={"enabled": True, "weight": 5}), id="a strategy"),
        pytest.param(settings(), id="default settings"),
        pytest.param(settings(budgets={"cluster": None}), id="no budget"),
    ],
)
def test_what_is_sound_is_valid(document: Json) -> None:
    if document["kind"] == "DeschedulerPolicy":
        assert is_sound(document)
    assert is_valid(document)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"apiVersion": "descheduler/v1alpha2"}, id="no kind"),
        pytest.param(policy(strategies={}), id="strategies left behind"),
        pytest.param(policy(ignorePvcPods=True), id="an evictor's option at the top"),
        pytest.param(policy(maxNoOfPodsToEvictPerNode=-1), id="a negative limit"),
        pytest.param(policy(maxNoOfPodsToEvictPerNode="5"), id="a limit in quotes"),
        pytest.param(policy(gracePeriodSeconds=-1), id="a negative grace period"),
        pytest.param(policy(nodeSelector={"a": "b"}), id="a selector as an object"),
        pytest.param(policy(profiles={"name": "p"}), id="a profile without its dash"),
        pytest.param(policy(profiles=[{"name": "p", "args": {}}]), id="args in a profile"),
        pytest.param(
            policy(profiles=[{"plugins": {"preEvictionFilter": {}}}]), id="upstream's spelling"
        ),
        pytest.param(
            policy(profiles=[{"plugins": {"deschedule": {"enabled": ["RemoveDuplicates"]}}}]),
            id="the wrong extension point",
        ),
        pytest.param(
            policy(profiles=[{"plugins": {"deschedule": {"enabled": [{"name": "PodLifeTime"}]}}}]),
            id="a plugin as an object",
        ),
        pytest.param(
            policy(profiles=[{"plugins": {"balance": {"enabled": ["LowNodeUtilization"]}}}]),
            id="enabled without the arguments it needs",
        ),
        pytest.param(with_args("PodLifetime", {}), id="a mistyped plugin"),
        pytest.param(with_args("PodLifeTime", {"maxPodLifeTimeSeconds": "1"}), id="in quotes"),
        pytest.param(with_args("PodLifeTime", {"states": []}), id="no criterion"),
        pytest.param(with_args("PodLifeTime", {"states": ["Sleeping"]}), id="an unknown state"),
        pytest.param(
            with_args("PodLifeTime", {"maxPodLifeTimeSeconds": 1, "podStatusPhases": ["Pending"]}),
            id="an argument of older releases",
        ),
        pytest.param(
            with_args("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 0}),
            id="no restarts",
        ),
        pytest.param(
            with_args("RemovePodsViolatingNodeAffinity", {"nodeAffinityType": []}), id="no types"
        ),
        pytest.param(
            with_args(
                "RemovePodsViolatingNodeTaints", {"includedTaints": ["a"], "excludedTaints": ["b"]}
            ),
            id="both lists of taints",
        ),
        pytest.param(
            with_args("RemoveFailedPods", {"namespaces": {"include": ["a"], "exclude": ["b"]}}),
            id="both lists of namespaces",
        ),
        pytest.param(
            with_args("RemovePodsViolatingTopologySpreadConstraint", {"constraints": ["Soft"]}),
            id="an unknown constraint",
        ),
        pytest.param(with_args("LowNodeUtilization", {"thresholds": {"cpu": 1}}), id="half a pair"),
        pytest.param(
            with_args("LowNodeUtilization", {**LOW, "thresholds": {"cpu": 101}}), id="101 per cent"
        ),
        pytest.param(
            with_args("LowNodeUtilization", {**LOW, "thresholds": {"cpu": "20"}}), id="a text"
        ),
        pytest.param(
            with_args("LowNodeUtilization", {**LOW, "evictableNamespaces": {"include": ["a"]}}),
            id="included namespaces",
        ),
        pytest.param(
            with_args("LowNodeUtilization", {**LOW, "metricsUtilization": {"source": "x"}}),
            id="an unknown source",
        ),
        pytest.param(
            with_args(
                "LowNodeUtilization",
                {
                    **LOW,
                    "metricsUtilization": {"source": "Prometheus", "prometheus": {"query": "up"}},
                },
            ),
            id="thresholds of what a query does not measure",
        ),
        pytest.param(
            with_args("HighNodeUtilization", {"thresholds": {"cpu": 20}, "evictionModes": ["x"]}),
            id="an unknown mode",
        ),
        pytest.param(
            with_args("LowNodeLoad", {"highThresholds": {"cpu": -1}}), id="less than none"
        ),
        pytest.param(
            with_args("LowNodeLoad", {"nodeSelector": {"matchLabel": {}}}), id="a mistyped selector"
        ),
        pytest.param(
            with_args(
                "DefaultEvictor",
                {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            ),
            id="a requirement without values",
        ),
        pytest.param(with_args("DefaultEvictor", {"minPodAge": 60}), id="seconds without unit"),
        pytest.param(with_args("DefaultEvictor", {"minPodAge": "1y"}), id="years"),
        pytest.param(with_args("DefaultEvictor", {"minPodAge": "-5m"}), id="a negative duration"),
        pytest.param(with_args("DefaultEvictor", {"NodeFit": True}), id="another case"),
        pytest.param(
            with_args("DefaultEvictor", {"priorityThreshold": {"value": 1, "name": "a"}}),
            id="two thresholds",
        ),
        pytest.param(
            with_args("DefaultEvictor", {"priorityThreshold": {"value": 2_000_000_001}}),
            id="a threshold too high",
        ),
        pytest.param(
            with_args("DefaultEvictor", {"podProtections": {"extraEnabled": ["DaemonSetPods"]}}),
            id="a protection in the wrong list",
        ),
        pytest.param(
            with_args(
                "DefaultEvictor",
                {"ignorePvcPods": True, "podProtections": {"extraEnabled": ["PodsWithPVC"]}},
            ),
            id="old and new switches",
        ),
        pytest.param(policy(metricsProviders=[{"source": "Prometheus"}]), id="no address"),
        pytest.param(policy(metricsProviders=[{}]), id="no source"),
        pytest.param(legacy(PodLifetime={"enabled": True}), id="a mistyped strategy"),
        pytest.param(legacy(PodLifeTime={"enabled": True}), id="a strategy without its params"),
        pytest.param(
            legacy(PodLifeTime={"enabled": True, "params": {"maxPodLifeTimeSeconds": 5}}),
            id="a parameter without its block",
        ),
        pytest.param(
            legacy(
                LowNodeUtilization={
                    "enabled": True,
                    "params": {"nodeResourceUtilizationThresholds": {"thresholds": {"cpu": 20}}},
                }
            ),
            id="half a pair in the legacy format",
        ),
        pytest.param(legacy(RemoveDuplicates={"enabled": "true"}), id="enabled in quotes"),
    ],
)
def test_a_common_mistake_is_marked(document: Json) -> None:
    assert not is_sound(document)
    assert not is_valid(document)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(settings(budget={}), id="a mistyped field"),
        pytest.param(settings(debounce={"quiet": 5}), id="a duration without unit"),
        pytest.param(settings(debounce={"perPlugin": {"PodLifetime": {}}}), id="a mistyped plugin"),
        pytest.param(settings(evictions={"maxInFlight": 0}), id="no eviction at all"),
        pytest.param(settings(logging={"level": "loud"}), id="an unknown level"),
        pytest.param(settings(client={"requestsPerSecond": 0}), id="no requests"),
    ],
)
def test_a_mistake_in_settings_is_marked(document: Json) -> None:
    assert not is_valid(document)
