"""Values that are valid and mean nothing get a warning with a remedy, and nonsense an error."""

from collections import Counter
from collections.abc import Iterator
from typing import get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from tests.support.golden import Golden
from tests.support.small_plugins import HEAD

BALANCE = frozenset(
    (
        "ConsolidateNodes",
        "CustomPriority",
        "FragmentationAware",
        "HighNodeUtilization",
        "KeepNodesFree",
        "LowNodeLoad",
        "LowNodeUtilization",
        "MakeRoomForPending",
        "RemoveDuplicates",
        "RemovePodsViolatingTopologySpreadConstraint",
        "ScaleDownBinPack",
    )
)
BOUNDS = frozenset(("Ge", "Gt", "Le", "Lt", "MinLen", "MaxLen"))
SETTINGS = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


def said(text: str) -> str:
    found = check_source(SourceText(text, "p.yaml"), plugin_registry())
    errors = (f"error: {each}" for each in found.errors)
    return "\n".join((*errors, *(f"warning: {each}" for each in found.warnings)))


def policy(plugin: str, args: str) -> str:
    point = "balance" if plugin in BALANCE else "deschedule"
    return (
        f"{HEAD}profiles:\n- name: p\n  plugins: {{{point}: {{enabled: [{plugin}]}}}}\n"
        f"  pluginConfig:\n  - name: {plugin}\n    args: {args}\n"
    )


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        pytest.param("RemoveDuplicates", "{namespaces: {include: [shop, 'team-*']}}", id="pattern"),
        pytest.param(
            "PodLifeTime", "{states: [Pending], namespaces: {exclude: [Shop]}}", id="case"
        ),
        pytest.param(
            "LowNodeUtilization",
            "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, "
            "evictableNamespaces: {exclude: [kube_system]}}",
            id="below another section",
        ),
        pytest.param("RemoveFailedPods", "{excludeOwnerKinds: [job]}", id="kind in small letters"),
        pytest.param("RemoveDuplicates", "{excludeOwnerKinds: [Deployment]}", id="owner of owners"),
        pytest.param(
            "PodLifeTime",
            "{states: [Pending], ownerKinds: {include: [Job, cronjob]}}",
            id="owner of owners in small letters",
        ),
        pytest.param("PodLifeTime", "{conditions: [{type: Ready, status: 'false'}]}", id="status"),
        pytest.param(
            "LowNodeUtilization",
            "{thresholds: {memroy: 20}, targetThresholds: {memroy: 50}}",
            id="resource of thresholds",
        ),
        pytest.param(
            "HighNodeUtilization", "{thresholds: {cpu: 20, gpu: 10}}", id="resource without domain"
        ),
        pytest.param(
            "LowNodeLoad",
            "{lowThresholds: {CPU: 20}, highThresholds: {CPU: 50}, resourceWeights: {cpu: 0}}",
            id="resource of an optional map, weight",
        ),
        pytest.param(
            "LowNodeLoad",
            "{nodePools: [{lowThresholds: {pod: 20}, highThresholds: {pod: 50}}], "
            "podSelectors: [{name: a}]}",
            id="in a list of pools",
        ),
        pytest.param("FragmentationAware", "{resources: [cpu, mem]}", id="list of resources"),
        pytest.param("FragmentationAware", "{imbalanceThreshold: 50}", id="per cent"),
        pytest.param("FragmentationAware", "{minImprovementThreshold: 0.5}", id="a half"),
        pytest.param("ConsolidateNodes", "{headroom: {mem: 10}}", id="headroom of no resource"),
        pytest.param("MakeRoomForPending", "{maxMoves: 0}", id="no moves"),
        pytest.param("KeepNodesFree", "{resource: cpu, amount: 8}", id="no device"),
        pytest.param("KeepNodesFree", "{resource: nvidia.com/gpu}", id="a resource, no amount"),
        pytest.param("KeepNodesFree", "{amount: 8}", id="an amount of nothing"),
        pytest.param(
            "KeepNodesFree", "{resource: a.com/gpu, amount: 8, nodes: 1}", id="nodes and an amount"
        ),
        pytest.param(
            "ConsolidateNodes",
            "{minNodes: [{label: 'zone=a'}], priceLabel: 'price: 3'}",
            id="no label key",
        ),
        pytest.param("ConsolidateNodes", "{prices: {m5.large: 0, a: -1}}", id="no price"),
    ],
)
def test_an_argument_that_means_nothing_is_named(plugin: str, args: str, golden: Golden) -> None:
    assert said(policy(plugin, args)) == golden()


@pytest.mark.parametrize("level", ["PerNode", "PerNamespace", "Total"])
def test_a_limit_that_lets_no_pod_go_is_named(level: str, golden: Golden) -> None:
    text = policy("RemoveDuplicates", "{}") + f"maxNoOfPodsToEvict{level}: 0\n"
    assert said(text) == golden()


@pytest.mark.parametrize(
    "settings",
    [
        "budgets: {named: [{name: a, namespaces: ['team-*'], evictions: 1, per: 1m}]}",
        "budgets: {schedules: [{close: ['mon-fri 08:00-18:00'], namespaces: [shop, Prod]}]}",
    ],
)
def test_settings_whose_namespace_nothing_can_have_are_named(settings: str, golden: Golden) -> None:
    assert said(f"{SETTINGS}{settings}\n") == golden()


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        (
            "RemoveDuplicates",
            "{excludeOwnerKinds: [CloneSet], namespaces: {include: [a-1, kube-x]}}",
        ),
        (
            "LowNodeUtilization",
            "{thresholds: {n/gpu: 9, hugepages-2Mi: 9}, "  # noqa: ISC004 -- one text
            "targetThresholds: {n/gpu: 50, hugepages-2Mi: 50}}",
        ),
        (
            "FragmentationAware",
            "{imbalanceThreshold: 0.49, resources: [cpu, kubernetes.io/batch-cpu]}",
        ),
        ("PodLifeTime", "{conditions: [{type: Ready, status: Unknown}]}"),
        ("MakeRoomForPending", "{maxMoves: 1}"),
    ],
)
def test_names_that_something_may_have_pass_without_a_word(plugin: str, args: str) -> None:
    assert said(policy(plugin, args)) == ""


def test_no_field_has_two_bounds_of_one_kind() -> None:
    """Pydantic checks one of two such bounds: that of the type hides that of the field."""
    registry = plugin_registry()
    specs = map(registry.get, registry)
    arguments = [spec.args for spec in specs if spec is not None]
    assert not [
        f"{model.__name__}.{name}"
        for root in (*arguments, ReactiveSettings)
        for model in models_in(root)
        for name, field in model.model_fields.items()
        if any(count > 1 for count in Counter(bounds_of(field)).values())
    ]


def bounds_of(field: FieldInfo) -> Iterator[str]:
    kinds = (type(each).__name__ for each in field.metadata)
    yield from (kind for kind in kinds if kind in BOUNDS)


def models_in(model: object) -> Iterator[type[BaseModel]]:
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return
    yield model
    for field in model.model_fields.values():
        for option in (field.annotation, *get_args(field.annotation)):
            yield from models_in(option)
