"""The legacy format as a tree, today's as a tree, and where each part of it came from."""

import json
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.api.args import Path
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.legacy.conversion import convert
from reactive_desched.policy.legacy.strategies import STRATEGIES
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.yaml.derived_tree import Conversion
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from reactive_desched.policy.yaml.reader import read_documents
from reactive_desched.policy.yaml.tree import MappingNode, find, to_plain

TEXT = """\
apiVersion: descheduler/v1alpha1
kind: DeschedulerPolicy
metadata: {name: x}
evictLocalStoragePods: true
maxNoOfPodsToEvictPerNode: 10
strategies:
  RemoveDuplicates:
    enabled: true
    bogus: 1
    params: {thresholdPriorityClassName: "", labelSelector: {matchLabels: {a: b}}}
  RemoveFailedPods: {enabled: false}
  PodLifeTime:
    enabled: true
    params:
      thresholdPriority: 500
      nodeFit: true
      podLifeTime:
        states: [Running]
        podStatusPhases: [Pending]
        maxPodLifeTimeSeconds: 3600
      namespaces: {exclude: [kube-system], only: [b]}
"""


def converted(text: str) -> Conversion:
    (root,) = read_documents(text, "p.yaml")
    assert isinstance(root, MappingNode)
    return convert(root)


def test_a_whole_document_is_converted() -> None:
    assert to_plain(converted(TEXT).tree) == {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "maxNoOfPodsToEvictPerNode": 10,
        "profiles": [
            {
                "name": "strategy-RemoveDuplicates-profile",
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": {"evictLocalStoragePods": True}},
                    {"name": "RemoveDuplicates"},
                ],
                "plugins": {
                    "filter": {"enabled": ["DefaultEvictor"]},
                    "preevictionfilter": {"enabled": ["DefaultEvictor"]},
                    "balance": {"enabled": ["RemoveDuplicates"]},
                },
            },
            {
                "name": "strategy-PodLifeTime-profile",
                "pluginConfig": [
                    {
                        "name": "DefaultEvictor",
                        "args": {
                            "evictLocalStoragePods": True,
                            "priorityThreshold": {"value": 500},
                        },
                    },
                    {
                        "name": "PodLifeTime",
                        "args": {
                            "maxPodLifeTimeSeconds": 3600,
                            "namespaces": {"exclude": ["kube-system"]},
                            "states": ["Pending", "Running"],
                        },
                    },
                ],
                "plugins": {
                    "filter": {"enabled": ["DefaultEvictor"]},
                    "preevictionfilter": {"enabled": ["DefaultEvictor"]},
                    "deschedule": {"enabled": ["PodLifeTime"]},
                },
            },
        ],
    }


LIFE = ("strategies", "PodLifeTime")
ARGS = ("profiles", 1, "pluginConfig", 1, "args")


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (("profiles", 1, "plugins", "deschedule", "enabled", 0), LIFE),
        ((*ARGS, "states", 0), (*LIFE, "params", "podLifeTime", "podStatusPhases", 0)),
        ((*ARGS, "states", 1), (*LIFE, "params", "podLifeTime", "states", 0)),
        ((*ARGS, "namespaces", "exclude", 0), (*LIFE, "params", "namespaces", "exclude", 0)),
        ((*ARGS, "labelSelector"), (*LIFE, "params", "labelSelector")),
        ((*ARGS, "nothing"), (*LIFE, "params", "nothing")),
        (
            ("profiles", 0, "pluginConfig", 0, "args", "evictLocalStoragePods"),
            ("evictLocalStoragePods",),
        ),
        (
            ("profiles", 1, "pluginConfig", 0, "args", "priorityThreshold"),
            (*LIFE, "params", "thresholdPriority"),
        ),
        (("maxNoOfPodsToEvictPerNode",), ("maxNoOfPodsToEvictPerNode",)),
    ],
    ids=lambda path: ".".join(map(str, path)),
)
def test_every_part_has_the_place_where_it_was_written(path: Path, written: Path) -> None:
    assert converted(TEXT).origin.original_path(path) == written


def test_values_that_are_carried_over_keep_their_marks() -> None:
    (root,) = read_documents(TEXT, "p.yaml")
    node = find(converted(TEXT).tree, (*ARGS, "maxPodLifeTimeSeconds"))
    assert node == find(root, (*LIFE, "params", "podLifeTime", "maxPodLifeTimeSeconds"))


def test_a_spread_strategy_says_what_counts_and_that_fit_does() -> None:
    name = "RemovePodsViolatingTopologySpreadConstraint"
    tree = converted(f"strategies: {{{name}: {{enabled: true}}}}").tree
    args = find(tree, ("profiles", 0, "pluginConfig", 1, "args"))
    assert args is not None
    assert to_plain(args) == {"constraints": ["DoNotSchedule"], "topologyBalanceNodeFit": True}


def test_a_class_is_the_place_of_a_threshold_without_a_number() -> None:
    text = "strategies: {PodLifeTime: {enabled: true, params: {thresholdPriorityClassName: x}}}"
    written = converted(text).origin.original_path(
        ("profiles", 0, "pluginConfig", 0, "args", "priorityThreshold")
    )
    assert written == (*LIFE, "params", "thresholdPriorityClassName")


def test_nulls_say_nothing_and_are_left_out() -> None:
    text = "{nodeSelector: , strategies: {PodLifeTime: {enabled: true, params: {namespaces: ~}}}}"
    tree = converted(text).tree
    assert tree.get("nodeSelector") is None
    assert find(tree, ("profiles", 0, "pluginConfig", 1, "args")) is None


def test_nothing_at_all_becomes_an_empty_policy() -> None:
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    assert to_plain(converted("{}").tree) == head
    assert to_plain(converted("strategies: {PodLifeTime: {enabled: yes please}}").tree) == head


NAMES = st.sampled_from(sorted(STRATEGIES))
PARAMS = st.fixed_dictionaries(
    {
        "nodeAffinityType": st.just(["requiredDuringSchedulingIgnoredDuringExecution"]),
        "podLifeTime": st.just({"maxPodLifeTimeSeconds": 5, "states": ["Pending"]}),
        "podsHavingTooManyRestarts": st.just({"podRestartThreshold": 3}),
        "nodeResourceUtilizationThresholds": st.just(
            {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
        ),
    },
    optional={
        "nodeFit": st.booleans(),
        "includeSoftConstraints": st.booleans(),
        "thresholdPriority": st.integers(0, 100),
        "excludedTaints": st.just(["a"]),
        "labelSelector": st.just({"matchLabels": {"a": "b"}}),
        "namespaces": st.just({"exclude": ["a"]}),
        "failedPods": st.just({"reasons": ["Evicted"]}),
    },
)
BODIES = st.none() | st.fixed_dictionaries({"enabled": st.booleans(), "params": PARAMS})


@given(st.dictionaries(NAMES, BODIES), st.booleans())
def test_the_converted_text_says_what_the_legacy_text_said(
    strategies: dict[str, object],
    flag: bool,  # noqa: FBT001 - drawn
) -> None:
    old = json.dumps(
        {
            "apiVersion": "descheduler/v1alpha1",
            "kind": "DeschedulerPolicy",
            "ignorePvcPods": flag,
            "strategies": strategies,
        }
    )
    new = json.dumps(to_plain(converted(old).tree))

    read = [
        load_sources([SourceText(text, "p")], plugin_registry()).policy.profiles
        for text in (old, new)
    ]
    assert read[0] == read[1]


def test_a_document_that_says_nothing_right_is_converted_all_the_same() -> None:
    text = dedent(
        """\
        apiVersion: descheduler/v1alpha1
        kind: DeschedulerPolicy
        evictLocalStoragePods: [1]
        strategies:
          PodLifeTime: {enabled: true, params: {podLifeTime: {states: {}}, namespaces: 5}}
        """
    )
    args = find(converted(text).tree, ("profiles", 0, "pluginConfig", 1, "args"))
    assert args is not None
    assert to_plain(args) == {"namespaces": 5}
    with pytest.raises(PolicyErrors, match=r"strategies\.PodLifeTime\.params\.namespaces"):
        load_sources([SourceText(text, "p")], plugin_registry())
