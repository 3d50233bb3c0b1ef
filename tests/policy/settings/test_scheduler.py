"""A KubeSchedulerConfiguration in the settings becomes the profiles of node fit."""

from typing import Any

import pytest
from pydantic import ValidationError

from reactive_desched.model.objects import PodSpec
from reactive_desched.model.scheduler_profile import FILTERS, SchedulerProfile
from reactive_desched.policy.settings.scheduler import SchedulerSettings
from tests.support.golden import Golden

Written = dict[str, Any]  # YAML as it is read


def read(*profiles: Written, **more: Any) -> SchedulerSettings:  # any YAML value
    return SchedulerSettings.model_validate({"config": [{"profiles": list(profiles), **more}]})


def only(profile: Written, **more: Any) -> SchedulerProfile:  # any YAML value
    (found,) = read(profile, **more).profiles().by_name.values()
    return found


def named(*names: str) -> list[Written]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("plugins", "missing"),
    [
        pytest.param({}, set(), id="all by default"),
        pytest.param(
            {"filter": {"disabled": named("NodePorts")}}, {"NodePorts"}, id="one filter off"
        ),
        pytest.param(
            {"multiPoint": {"disabled": named("NodePorts")}}, {"NodePorts"}, id="off everywhere"
        ),
        pytest.param(
            {"score": {"disabled": named("NodePorts", "*")}}, set(), id="scores reject no node"
        ),
        pytest.param({"multiPoint": {"disabled": named("*")}}, set(FILTERS), id="all off"),
        pytest.param({"filter": {"disabled": named("*")}}, set(FILTERS), id="all filters off"),
        pytest.param(
            {"multiPoint": {"disabled": named("*"), "enabled": named("NodePorts")}},
            FILTERS - {"NodePorts"},
            id="one is enabled again everywhere",
        ),
        pytest.param(
            {"filter": {"disabled": named("*"), "enabled": named("NodePorts")}},
            FILTERS - {"NodePorts"},
            id="one is enabled again as a filter",
        ),
        pytest.param(
            {
                "multiPoint": {"disabled": named("NodePorts")},
                "filter": {"enabled": named("NodePorts")},
            },
            set(),
            id="off everywhere but as a filter",
        ),
    ],
)
def test_the_filters_are_merged_as_the_kube_scheduler_does(
    plugins: Written, missing: set[str]
) -> None:
    assert only({"plugins": plugins}).filters == FILTERS - missing


@pytest.mark.parametrize(
    ("profile", "scores"),
    [
        pytest.param({}, "default", id="the default plugins"),
        pytest.param(
            {"plugins": {"filter": {"disabled": named("NodePorts")}}}, "default", id="filters"
        ),
        pytest.param({"plugins": {"score": {"disabled": named("*")}}}, "other", id="scores off"),
        pytest.param(
            {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {}}}]},
            "other",
            id="a strategy",
        ),
        pytest.param(
            {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": []}}]},
            "default",
            id="arguments of the filter",
        ),
    ],
)
def test_other_scores_than_the_default_ones_are_noticed(profile: Written, scores: str) -> None:
    assert only(profile).has_default_scores is (scores == "default")


@pytest.mark.parametrize(
    ("profile", "more", "not_known"),
    [
        ({}, {"extenders": [{"urlPrefix": "http://x"}]}, ("extenders",)),
        (
            {"plugins": {"filter": {"enabled": named("Mine")}}},
            {},
            ("plugins Mine",),
        ),
        (
            {
                "pluginConfig": [
                    {"name": "PodTopologySpread", "args": {"defaultConstraints": [{"maxSkew": 1}]}}
                ]
            },
            {},
            ("default constraints of PodTopologySpread",),
        ),
    ],
)
def test_what_may_reject_nodes_and_is_not_known_is_named(
    profile: Written, more: Written, not_known: tuple[str, ...]
) -> None:
    assert only(profile, **more).not_known == not_known


def test_several_schedulers_have_profiles_by_their_names() -> None:
    settings = SchedulerSettings.model_validate(
        {"config": [{}, {"profiles": [{"schedulerName": "packing"}]}], "unknownScheduler": "hold"}
    )

    profiles = settings.profiles()

    assert profiles.by_name.keys() == {"default-scheduler", "packing"}
    assert [profiles.holds(PodSpec(scheduler_name=name)) for name in ("packing", "other")] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    "profiles",
    [
        pytest.param([{}, {}], id="one name twice"),
        pytest.param(
            [{"plugins": {"filter": {"disabled": named("NodePort")}}}],
            id="a slip in a plugin's name",
        ),
        pytest.param(
            [{"pluginConfig": [{"name": "NodePorts"}, {"name": "NodePorts"}]}],
            id="arguments twice",
        ),
        pytest.param(
            [{"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAfinity": {}}}]}],
            id="an unknown argument",
        ),
        pytest.param(
            [
                {
                    "pluginConfig": [
                        {"name": "NodeResourcesFit", "args": {"ignoredResourceGroups": ["a/b"]}}
                    ]
                }
            ],
            id="a resource for a group",
        ),
        pytest.param([{"schedulerNames": "x"}], id="an unknown field"),
    ],
)
def test_what_is_wrong_is_refused(profiles: list[Written], golden: Golden) -> None:
    with pytest.raises(ValidationError) as refused:
        read(*profiles)

    (problem,) = refused.value.errors()
    assert problem["msg"] == golden()
