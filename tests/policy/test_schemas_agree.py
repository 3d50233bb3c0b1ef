"""What the strict reader takes, the JSON Schemas take: an editor never marks a sound policy."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st
from pydantic import BaseModel

from reactive_desched.cli.policy_schema import FORMATS, text
from reactive_desched.model.labels import LabelSelector, Selector
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.document import PolicyDocument
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.legacy.strategies import STRATEGIES
from reactive_desched.policy.legacy.v1alpha1 import LegacyPolicy, StrategyParameters
from reactive_desched.policy.load import check_source
from reactive_desched.policy.registry import with_evictor
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.yaml.decode import fields_by_key
from tests.support.json_schema import JsonSchema

Json = Any  # JSON is whatever it is

VALID = {name: JsonSchema(json.loads(text(name))) for name in FORMATS}
PLUGINS = with_evictor(plugin_registry())
SLOW = profile(deadline=None, suppress_health_check=[HealthCheck.too_slow])

NEEDED: Mapping[str, Json] = {
    "HighNodeUtilization": {"thresholds": {"cpu": 20}},
    "LowNodeUtilization": {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}},
    "PodLifeTime": {"maxPodLifeTimeSeconds": 5},
    "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 5},
    "RemovePodsViolatingNodeAffinity": {
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]
    },
}
"""Arguments without which a plugin does not do."""

DURATIONS = ("5m", "0", "+1h30m", "-5m", "-0s", "1.5h", ".5s", "1d", "5")
WORDS = (
    "",
    "Running",
    "Mandatory",
    "DoNotSchedule",
    "KubernetesMetrics",
    "Prometheus",
    "PodsWithPVC",
    "DaemonSetPods",
    "OnlyThresholdingResources",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "http://prom:9090",
    "a=b,c in (d)",
    "127.0.0.1:80",
    "info",
    "x",
)
NUMBERS = (0, 1, 5, 3.0, 2.5, 100, 101, -1, 2_000_000_001, 2**63)
SELECTORS: tuple[Json, ...] = (
    {},
    {"matchLabels": {"a": "b"}, "matchExpressions": None},
    {"matchLabels": None},
    {"matchLabels": {"a.b/c": ""}},
    {"matchLabels": {"-": "b"}},
    {"matchLabels": {"a": 1}},
    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
    {"matchExpressions": [{"key": "a", "operator": "Exists", "values": None}]},
    {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
    {"matchExpressions": [{"key": "a", "operator": "NotIn"}]},
    "a=b",
)
KEYS = ("cpu", "memory", "MetricResource", "RemoveDuplicates", "RemovePodsViolatingNodeTaints")


def values(annotation: object) -> st.SearchStrategy[Json]:
    """Give what someone might write for a field of a type: mostly of that type, often right."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return st.none() | fields(annotation)
    if annotation is object:
        return st.sampled_from(({}, 5))
    if annotation is LabelSelector:
        return st.sampled_from((None, *SELECTORS))
    if annotation in (str, Selector):
        return st.sampled_from((*WORDS, None))
    if annotation is float:
        return st.sampled_from((*NUMBERS, *DURATIONS, None))
    if annotation is int:
        return st.sampled_from((*NUMBERS, None))
    if annotation is bool:
        return st.sampled_from((True, False, None, "yes"))
    return _composed(annotation)


def _composed(annotation: object) -> st.SearchStrategy[Json]:
    """Give values of a type made of others."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return values(parts[0])
    if origin is Literal:
        return st.sampled_from((*parts, "x"))
    if origin in (Union, UnionType):
        return st.one_of(*(values(part) for part in parts if part is not NoneType), st.none())
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(st.sampled_from(KEYS), values(parts[1]), max_size=2)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return st.none() | st.lists(values(parts[0]), max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return st.sampled_from([*annotation, "other"])
    raise TypeError(annotation)


def fields(model: type[BaseModel]) -> st.SearchStrategy[Json]:
    """Give some of a model's fields."""
    optional = {name: values(annotation) for name, annotation in fields_by_key(model).items()}
    names = st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True)
    return names.flatmap(
        lambda some: st.fixed_dictionaries({name: optional[name] for name in some})
    )


def agrees(document: Mapping[str, Json], name: str) -> None:
    """Check that what the reader takes is valid; settings need a policy beside them to be read."""
    result = check_source(SourceText(json.dumps(document), "p.yaml"), plugin_registry())
    assert result.errors or VALID[name].accepts(document), document


def policy(**parts: Json) -> Json:
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", **parts}


def arguments(plugin: str) -> st.SearchStrategy[tuple[str, Json]]:
    """Give a plugin and arguments that may do for it."""
    needed = NEEDED.get(plugin, {})
    return fields(PLUGINS[plugin].args).map(lambda some: (plugin, {**needed, **some}))


@SLOW
@given(st.one_of(*map(arguments, PLUGINS)))
def test_arguments_that_are_read_are_valid(entry: tuple[str, Json]) -> None:
    plugin, args = entry

    agrees(policy(profiles=[{"pluginConfig": [{"name": plugin, "args": args}]}]), "v1alpha2")


@SLOW
@given(fields(PolicyDocument))
def test_a_policy_that_is_read_is_valid(parts: Json) -> None:
    agrees(policy(**{key: parts[key] for key in parts.keys() - {"apiVersion", "kind"}}), "v1alpha2")


@SLOW
@given(
    st.lists(st.sampled_from([*PLUGINS, "x"]), max_size=3),
    st.sampled_from(("deschedule", "balance", "filter", "preevictionfilter", "sort")),
    st.lists(st.sampled_from(sorted(PLUGINS)), max_size=2),
)
def test_enabled_plugins_that_are_read_are_valid(
    enabled: list[str], point: str, configured: list[str]
) -> None:
    entries = [{"name": name, "args": NEEDED.get(name)} for name in configured]
    profile = {"plugins": {point: {"enabled": enabled}}, "pluginConfig": entries}

    agrees(policy(profiles=[profile]), "v1alpha2")


def needed_by(strategy: str) -> Json:
    """Give the parameters without which a strategy does not do."""
    params: Json = {}
    for argument, value in NEEDED.get(strategy, {}).items():
        *blocks, name = STRATEGIES[strategy].copied_params[argument]
        inner = params
        for block in blocks:
            inner = inner.setdefault(block, {})
        inner[name] = value
    return params


@SLOW
@given(
    st.sampled_from(sorted(STRATEGIES)),
    fields(StrategyParameters),
    st.sampled_from((True, True, False, None)),
)
def test_a_strategy_that_is_read_is_valid(strategy: str, params: Json, enabled: Json) -> None:
    body = {"enabled": enabled, "params": {**params, **needed_by(strategy)}}
    head = {"apiVersion": "descheduler/v1alpha1", "kind": "DeschedulerPolicy"}

    agrees({**head, "strategies": {strategy: body}}, "v1alpha1")


@SLOW
@given(fields(LegacyPolicy))
def test_a_policy_in_the_legacy_format_that_is_read_is_valid(parts: Json) -> None:
    head = {"apiVersion": "descheduler/v1alpha1", "kind": "DeschedulerPolicy"}

    agrees({**parts, **head}, "v1alpha1")


@SLOW
@given(fields(ReactiveSettings))
def test_settings_that_are_read_are_valid(parts: Json) -> None:
    head = {"apiVersion": "reactive-desched/v1alpha1", "kind": "ReactiveSettings"}

    agrees({**parts, **head}, "settings")
