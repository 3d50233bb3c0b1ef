"""What DefaultEvictor's arguments are refused for: all at once."""

import json
import re
from collections.abc import Callable

import pytest

from reactive_desched.api.args import LENIENT_CONTEXT
from reactive_desched.model.labels import NOTHING
from reactive_desched.policy.evictor import DefaultEvictorArgs
from tests.support.golden import Golden

Ask = Callable[[str], list[str]]
WithArgs = Callable[[str, str], str]


@pytest.fixture
def said(problems: Ask, with_args: WithArgs) -> Callable[[str], list[str]]:
    """Give what is said of arguments, without place and context."""

    def ask(args: str) -> list[str]:
        start, end = "profiles[0].pluginConfig[0].args.", " (in profile p, DefaultEvictor)"
        lines = problems(with_args("DefaultEvictor", args))
        return [line.split(": ", 1)[1].removeprefix(start).removesuffix(end) for line in lines]

    return ask


def test_all_errors_are_reported_at_once(said: Callable[[str], list[str]]) -> None:
    lines = said(
        """\
        nodeFit: perhaps
        minPodAge: -5m
        noEvictionPolicy: Never
        priorityThreshold: {value: 2000000001, name: high}
        podProtections:
          defaultDisabled: [DaemonSetPods, DaemonSetPods]
          extraEnabled: [PodsWithPVC, Nonsense, PodsWithPVC]
        minReplicas: many
        """
    )
    assert [line.split(": ")[0] for line in lines] == [
        "nodeFit",
        "minPodAge",
        "noEvictionPolicy",
        "priorityThreshold",
        "priorityThreshold.value",
        "podProtections.defaultDisabled[1]",
        "podProtections.extraEnabled[1]",
        "podProtections.extraEnabled[2]",
        "minReplicas",
    ]


def test_each_deprecated_switch_that_is_on_is_reported_beside_the_lists(
    said: Callable[[str], list[str]],
) -> None:
    lines = said(
        """\
        evictDaemonSetPods: true
        evictFailedBarePods: false
        ignorePvcPods: true
        noEvictionPolicy: Never
        podProtections: {extraEnabled: [PodsWithoutPDB]}
        """
    )
    assert [line.split(": ")[0] for line in lines] == [
        "evictDaemonSetPods",
        "ignorePvcPods",
        "noEvictionPolicy",
    ]


def lenient(**args: object) -> DefaultEvictorArgs:
    return DefaultEvictorArgs.model_validate_json(
        json.dumps(args), strict=True, context=LENIENT_CONTEXT
    )


def test_a_lenient_reading_forgives_a_negative_age_which_every_pod_has_reached() -> None:
    assert lenient(minPodAge="-5m").min_pod_age_s == -300


def test_a_lenient_reading_forgives_a_node_selector_without_meaning_which_no_node_matches() -> None:
    selector = lenient(nodeSelector="a in (").node_selector

    assert selector == NOTHING
    assert not selector.matches({})
    assert not selector.matches({"a": "b"})


def test_a_lenient_reading_forgives_a_nameless_class_only_where_upstream_does_not_look(
    golden: Golden,
) -> None:
    config: object = {"PodsWithPVC": {"protectedStorageClasses": [{}]}}

    forgiven = lenient(ignorePvcPods=True, podProtections={"config": config})

    assert forgiven.protected_storage_classes == {""}
    with pytest.raises(ValueError, match=re.escape(golden())):
        lenient(podProtections={"config": config, "extraEnabled": ["PodsWithPVC"]})


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"noEvictionPolicy": "Never"}, id="a force that does not exist"),
        pytest.param({"priorityThreshold": {"value": 2000000001}}, id="a threshold too high"),
        pytest.param({"priorityThreshold": {"value": 1, "name": "a"}}, id="two thresholds"),
        pytest.param({"podProtections": {"extraEnabled": ["x"]}}, id="a protection unknown"),
        pytest.param({"nodeSelector": {"a": "b"}}, id="a node selector as an object"),
    ],
)
def test_a_lenient_reading_refuses_what_upstream_refuses(args: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="1 validation error"):
        lenient(**args)
