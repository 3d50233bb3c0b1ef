"""A KubeSchedulerConfiguration in the settings becomes the profiles of node fit."""

from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from reactive_desched.api.args import FieldError
from reactive_desched.model.labels import Requirement
from reactive_desched.model.node_affinity import NodeSelectorTerm, PreferredTerm
from reactive_desched.model.node_scores import Allocation, ScoreRules
from reactive_desched.model.objects import PodSpec, TopologySpreadConstraint
from reactive_desched.model.scheduler_profile import FILTERS, UNKNOWN_SCHEDULER, SchedulerProfile
from reactive_desched.policy.settings.scheduler import SchedulerSettings
from tests.support.golden import Golden
from tests.support.scheduler_files import (
    REFUSED,
    TAKEN,
    Written,
    added,
    configured,
    extender,
    listed,
    named,
    required,
    spread,
    strategy,
)


def read(*profiles: Written, **more: Any) -> SchedulerSettings:  # any YAML value
    return SchedulerSettings.model_validate({"config": [{"profiles": list(profiles), **more}]})


def only(profile: Written, **more: Any) -> SchedulerProfile:  # any YAML value
    (found,) = read(profile, **more).profiles().by_name.values()
    return found


PREFERRED = {
    "weight": 1,
    "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
}
LIKED = PreferredTerm(1, NodeSelectorTerm((Requirement("disk", "Exists"),)))
NEEDED = ("PrioritySort", "DefaultBinder")
"""A scheduler has one plugin that sorts its queue, and one that binds."""


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
        pytest.param(
            {"multiPoint": {"disabled": named("*"), "enabled": named(*NEEDED)}},
            set(FILTERS),
            id="all off",
        ),
        pytest.param({"filter": {"disabled": named("*")}}, set(FILTERS), id="all filters off"),
        pytest.param(
            {"multiPoint": {"disabled": named("*"), "enabled": named("NodePorts", *NEEDED)}},
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


ONLY_RESOURCES = ScoreRules(
    balanced_allocation=0,
    taint_toleration=0,
    node_affinity=0,
    inter_pod_affinity=0,
    topology_spread=0,
    dynamic_resources=0,
    image_locality=0,
)


@pytest.mark.parametrize(
    ("profile", "scores"),
    [
        pytest.param({}, ScoreRules(), id="the default plugins"),
        pytest.param(
            {"plugins": {"filter": {"disabled": named("NodePorts")}}}, ScoreRules(), id="filters"
        ),
        pytest.param(
            {"plugins": {"score": {"disabled": named("*")}}},
            replace(ONLY_RESOURCES, resources_fit=0),
            id="scores off",
        ),
        pytest.param(
            {
                "plugins": {
                    "score": {
                        "disabled": named("*"),
                        "enabled": [{"name": "NodeResourcesFit", "weight": 7}],
                    }
                }
            },
            replace(ONLY_RESOURCES, resources_fit=7),
            id="one score alone",
        ),
        pytest.param(
            {
                "plugins": {
                    "multiPoint": {
                        "enabled": [
                            {"name": "NodeAffinity", "weight": 5},
                            {"name": "TaintToleration"},
                        ]
                    }
                }
            },
            replace(ScoreRules(), node_affinity=5, taint_toleration=1),
            id="weights at all points, of which none is 1",
        ),
        pytest.param(
            {
                "plugins": {
                    "multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 5}]},
                    "score": {"enabled": [{"name": "NodeAffinity", "weight": 9}]},
                }
            },
            replace(ScoreRules(), node_affinity=9),
            id="the weight at score counts",
        ),
        pytest.param(
            {"plugins": {"multiPoint": {"disabled": named("PodTopologySpread", "ImageLocality")}}},
            replace(ScoreRules(), topology_spread=0, image_locality=0),
            id="off everywhere",
        ),
        pytest.param(
            {"plugins": {"multiPoint": {"enabled": named("NodePorts")}}},
            ScoreRules(),
            id="a plugin without scores",
        ),
        pytest.param(strategy(type="LeastAllocated"), ScoreRules(), id="the default strategy"),
        pytest.param(
            strategy(
                type="MostAllocated",
                resources=[{"name": "cpu", "weight": 3}, {"name": "example.com/gpu"}],
            ),
            ScoreRules(Allocation("MostAllocated", (("cpu", 3), ("example.com/gpu", 1)))),
            id="packs",
        ),
        pytest.param(
            strategy(
                type="RequestedToCapacityRatio",
                requestedToCapacityRatio={
                    "shape": [{"utilization": 0}, {"utilization": 80, "score": 10}]
                },
            ),
            ScoreRules(
                Allocation(
                    "RequestedToCapacityRatio", (("cpu", 1), ("memory", 1)), ((0, 0), (80, 100))
                )
            ),
            id="a shape",
        ),
        pytest.param(
            configured("PodTopologySpread", defaultingType="List"),
            replace(ScoreRules(), default_spread=(), spread_needs_labels=True),
            id="spread by nothing",
        ),
        pytest.param(
            configured(
                "PodTopologySpread",
                defaultingType="List",
                defaultConstraints=[spread("rack"), spread("zone", "DoNotSchedule")],
            ),
            replace(
                ScoreRules(),
                default_spread=(TopologySpreadConstraint(2, "rack", "ScheduleAnyway"),),
                spread_needs_labels=True,
            ),
            id="spread by others",
        ),
        pytest.param(
            configured(
                "PodTopologySpread",
                defaultingType="List",
                defaultConstraints=[
                    spread("rack", nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor")
                ],
            ),
            replace(
                ScoreRules(),
                default_spread=(
                    TopologySpreadConstraint(
                        2,
                        "rack",
                        "ScheduleAnyway",
                        node_affinity_policy="Ignore",
                        node_taints_policy="Honor",
                    ),
                ),
                spread_needs_labels=True,
            ),
            id="spread among some nodes",
        ),
        pytest.param(
            {"plugins": {"score": {"enabled": named("Mine")}}}, None, id="a plugin of their own"
        ),
        pytest.param(
            {"plugins": {"preScore": {"disabled": named("*")}}}, None, id="what scores need is off"
        ),
        pytest.param(
            configured("InterPodAffinity", hardPodAffinityWeight=5),
            replace(ScoreRules(), hard_pod_affinity=5),
            id="required affinity of others weighs more",
        ),
        pytest.param(
            configured("InterPodAffinity", ignorePreferredTermsOfExistingPods=True),
            replace(ScoreRules(), ignore_others_affinity=True),
            id="affinity of others does not count",
        ),
        pytest.param(
            configured("NodeResourcesBalancedAllocation", resources=named("cpu", "example.com/x")),
            replace(ScoreRules(), balanced=("cpu", "example.com/x")),
            id="other resources are balanced",
        ),
        pytest.param(
            configured("NodeResourcesBalancedAllocation", resources=[]),
            ScoreRules(),
            id="no resources stand for the default ones",
        ),
        pytest.param(
            configured(
                "NodeAffinity",
                addedAffinity={"preferredDuringSchedulingIgnoredDuringExecution": [PREFERRED]},
            ),
            replace(ScoreRules(), added_preferred=(LIKED,)),
            id="preferred nodes of all pods",
        ),
        pytest.param(
            configured("NodeResourcesFit", ignoredResources=[]), ScoreRules(), id="filter arguments"
        ),
        pytest.param(
            {"plugins": {"score": {"enabled": [{"name": "DynamicResources", "weight": 5}]}}},
            replace(ScoreRules(), dynamic_resources=5),
            id="alternatives of devices weigh more",
        ),
        pytest.param(
            {"plugins": {"multiPoint": {"disabled": named("DynamicResources")}}},
            replace(ScoreRules(), dynamic_resources=0),
            id="devices do not count",
        ),
    ],
)
def test_scores_are_read_or_not_known(profile: Written, scores: ScoreRules | None) -> None:
    assert only(profile).scores == scores


def test_with_extenders_no_scores_are_known() -> None:
    assert only({}, extenders=[{"urlPrefix": "http://x"}]).scores is None


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
                    {
                        "name": "PodTopologySpread",
                        "args": {
                            "defaultingType": "List",
                            "defaultConstraints": [spread("zone", "DoNotSchedule")],
                        },
                    }
                ]
            },
            {},
            ("default constraints of Services' pods",),
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
    assert profiles.holds(PodSpec(scheduler_name="packing")) is None
    assert profiles.holds(PodSpec(scheduler_name="other")) == UNKNOWN_SCHEDULER.about("other")


@pytest.mark.parametrize(
    "profiles",
    [
        pytest.param([{"schedulerName": "default-scheduler"}] * 2, id="one name twice"),
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
        pytest.param([strategy(type="RequestedToCapacityRatio")], id="a line without points"),
        pytest.param(
            [
                strategy(
                    type="RequestedToCapacityRatio",
                    requestedToCapacityRatio={"shape": [{"utilization": 9}, {"utilization": 9}]},
                )
            ],
            id="points that do not rise",
        ),
        pytest.param(
            [strategy(type="LeastAllocated", resources=[{"name": "cpu", "weight": 101}])],
            id="a weight that is too high",
        ),
        pytest.param(
            [configured("PodTopologySpread", defaultConstraints=[spread("zone")])],
            id="default constraints beside those of the system",
        ),
        pytest.param(
            [
                configured(
                    "PodTopologySpread",
                    defaultingType="List",
                    defaultConstraints=[spread("zone", labelSelector={})],
                )
            ],
            id="a default constraint with a selector",
        ),
    ],
)
def test_what_is_wrong_is_refused(profiles: list[Written], golden: Golden) -> None:
    with pytest.raises(ValidationError) as refused:
        read(*profiles)

    (problem,) = refused.value.errors()
    assert problem["msg"] == golden()


@pytest.mark.parametrize(("profiles", "more", "path"), REFUSED)
def test_what_the_kube_scheduler_refuses_is_refused_at_its_place(
    profiles: list[Written], more: Written, path: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValidationError) as refused:
        read(*profiles, **more)

    found = {
        (*problem["loc"], *each.path)
        for problem in refused.value.errors()
        for each in getattr(problem.get("ctx", {}).get("error"), "errors", [FieldError("")])
    }
    assert any(each[-len(path) :] == path for each in found), found


@pytest.mark.parametrize("more", TAKEN)
def test_what_the_kube_scheduler_takes_is_taken(more: Written) -> None:
    settings = SchedulerSettings.model_validate({"config": [more]})

    assert settings.profiles().by_name.keys() == {"default-scheduler"}


@pytest.mark.parametrize(
    ("affinity", "matches"),
    [
        ({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}, False),
        (required(), False),
        (required(matchFields=[{"key": "other", "operator": "NotIn", "values": ["a"]}]), True),
        (required(matchFields=[{"key": "other", "operator": "In", "values": [""]}]), True),
        (required(matchFields=[{"key": "other", "operator": "In", "values": ["a"]}]), False),
        (required(matchFields=[{"key": "other", "operator": "NotIn", "values": [""]}]), False),
    ],
)
def test_affinity_that_the_api_server_would_not_take_means_what_the_scheduler_reads(
    affinity: Written, *, matches: bool
) -> None:
    selector = only(added(**affinity)).added_affinity

    assert selector is not None
    assert selector.matches("n1", {}) is matches


def test_a_policy_of_nodes_that_is_unknown_is_ignore() -> None:
    written = listed(
        spread("zone", "DoNotSchedule", nodeAffinityPolicy="honor", nodeTaintsPolicy="honor"),
        spread("host", "DoNotSchedule"),
    )

    policies = [
        (each.node_affinity_policy, each.node_taints_policy)
        for each in only(written).default_constraints
    ]

    assert policies == [("Ignore", "Ignore"), ("Honor", "Ignore")]


@pytest.mark.parametrize(
    ("profile", "more", "unknown"),
    [
        ({}, {}, ()),
        ({}, extender(), ("extenders",)),
        ({"plugins": {"score": {"enabled": named("Mine")}}}, {}, ("plugins Mine",)),
        ({"plugins": {"preScore": {"enabled": named("NodeAffinity")}}}, {}, ()),
        ({"plugins": {"preScore": {"disabled": named("NodeResourcesFit")}}}, {}, ()),
        (
            {"plugins": {"preScore": {"disabled": named("*")}}},
            {},
            ("InterPodAffinity, PodTopologySpread, TaintToleration without preScore",),
        ),
        (
            {
                "plugins": {
                    "preScore": {"disabled": named("*")},
                    "score": {"disabled": named("*"), "enabled": named("NodeResourcesFit")},
                }
            },
            {},
            (),
        ),
    ],
)
def test_what_is_not_known_of_scores_is_named(
    profile: Written, more: Written, unknown: tuple[str, ...]
) -> None:
    found = only(profile, **more)

    assert found.unknown_scores == unknown
    assert (found.scores is None) == bool(unknown)
