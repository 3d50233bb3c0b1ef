"""What DefaultEvictor's arguments are refused for: in upstream's words and ours, all at once."""

import json
from collections.abc import Callable

import pytest

from reactive_desched.api.args import LENIENT_CONTEXT
from reactive_desched.model.labels import NOTHING
from reactive_desched.policy.evictor import DefaultEvictorArgs

Ask = Callable[[str], list[str]]
WithArgs = Callable[[str, str], str]

TOO_HIGH = (
    "priority threshold can't be greater than 2000000000; "
    "system-critical pods have a protection of their own: SystemCriticalPods"
)
TWO = "priority threshold misconfigured, only one of priorityThreshold fields can be set"
FORCES = 'noEvictionPolicy accepts only ["Preferred" "Mandatory"] values'
MIXED = (
    "cannot use Deprecated fields alongside PodProtections.ExtraEnabled or "
    "PodProtections.DefaultDisabled"
)
IN_DEFAULTS = "[PodsWithLocalStorage SystemCriticalPods FailedBarePods DaemonSetPods]"
IN_EXTRAS = "[PodsWithPVC PodsWithoutPDB PodsWithResourceClaims]"
CLASSES = "podProtections.config.PodsWithPVC.protectedStorageClasses"
OFF = "it is off by default; only extraEnabled changes that"
ON = "it is active by default; only defaultDisabled changes that"


def misplaced(name: str, which: str, options: str) -> str:
    return f'invalid pod protection policy in {which}: "{name}". Valid options are: {options}'


def unnamed(index: int) -> str:
    return (
        f"{CLASSES}[{index}]: PodProtections.Config.PodsWithPVC.ProtectedStorageClasses[{index}] "
        "name cannot be empty; write name: and its name"
    )


@pytest.fixture
def said(problems: Ask, with_args: WithArgs) -> Callable[[str], list[str]]:
    """Give what is said of arguments, without place and context."""

    def ask(args: str) -> list[str]:
        start, end = "profiles[0].pluginConfig[0].args.", " (in profile p, DefaultEvictor)"
        lines = problems(with_args("DefaultEvictor", args))
        return [line.split(": ", 1)[1].removeprefix(start).removesuffix(end) for line in lines]

    return ask


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(
            "priorityThreshold: {value: 5, name: high}",
            f"priorityThreshold: {TWO}; keep value or name",
            id="a threshold by number and by name",
        ),
        pytest.param(
            "priorityThreshold: {value: 0, name: high}",
            f"priorityThreshold: {TWO}; keep value or name",
            id="a threshold of zero is one",
        ),
        pytest.param(
            "priorityThreshold: {value: 2000000001}",
            f"priorityThreshold.value: {TOO_HIGH}",
            id="a threshold above every priority of a user",
        ),
        pytest.param(
            "priorityThreshold: {value: 2147483648}",
            "priorityThreshold.value: must be at most 2147483647, not the number 2147483648",
            id="a threshold that is no int32",
        ),
        pytest.param(
            "noEvictionPolicy: mandatory",
            f'noEvictionPolicy: {FORCES}, not "mandatory"; did you mean Mandatory?',
            id="a force in lower case",
        ),
        pytest.param(
            "noEvictionPolicy: Never",
            f'noEvictionPolicy: {FORCES}, not "Never"',
            id="a force that does not exist",
        ),
        pytest.param(
            "evictLocalStoragePods: true\npodProtections: {defaultDisabled: [DaemonSetPods]}",
            f"evictLocalStoragePods: {MIXED}; "
            "write podProtections.defaultDisabled: [PodsWithLocalStorage] instead",
            id="a deprecated switch beside the list it became part of",
        ),
        pytest.param(
            "ignorePodsWithoutPDB: true\npodProtections: {defaultDisabled: [DaemonSetPods]}",
            f"ignorePodsWithoutPDB: {MIXED}; "
            "write podProtections.extraEnabled: [PodsWithoutPDB] instead",
            id="a deprecated switch beside the other list",
        ),
        pytest.param(
            "podProtections: {extraEnabled: [Nonsense]}",
            f"podProtections.extraEnabled[0]: {misplaced('Nonsense', 'ExtraEnabled', IN_EXTRAS)}",
            id="a protection that does not exist",
        ),
        pytest.param(
            "podProtections: {extraEnabled: [PodsWithPvc]}",
            f"podProtections.extraEnabled[0]: {misplaced('PodsWithPvc', 'ExtraEnabled', IN_EXTRAS)}"
            "; did you mean PodsWithPVC?",
            id="a mistyped protection",
        ),
        pytest.param(
            "podProtections: {extraEnabled: [DaemonSetPods]}",
            "podProtections.extraEnabled[0]: "
            f"{misplaced('DaemonSetPods', 'ExtraEnabled', IN_EXTRAS)}; {ON}",
            id="a default protection among the extras",
        ),
        pytest.param(
            "podProtections: {defaultDisabled: [PodsWithPVC]}",
            "podProtections.defaultDisabled[0]: "
            f"{misplaced('PodsWithPVC', 'DefaultDisabled', IN_DEFAULTS)}; {OFF}",
            id="an extra protection among the defaults",
        ),
        pytest.param(
            "podProtections: {defaultDisabled: [DaemonSetPods, DaemonSetPods]}",
            "podProtections.defaultDisabled[1]: PodProtections.DefaultDisabled contains duplicate "
            'entries: "DaemonSetPods" again; remove one',
            id="a protection switched off twice",
        ),
        pytest.param(
            "podProtections: {extraEnabled: [PodsWithPVC], config: {PodsWithPVC: "
            "{protectedStorageClasses: [{name: a}, {}]}}}",
            unnamed(1),
            id="a storage class without a name",
        ),
        pytest.param(
            "minPodAge: 60",
            "minPodAge: must be a duration such as 90s or 1h30m; write 60s for seconds",
            id="an age without a unit",
        ),
        pytest.param(
            "minPodAge: -5m",
            "minPodAge: must not be negative: no pod is younger than that; remove it",
            id="an age below zero",
        ),
        pytest.param(
            "NodeFit: true", "NodeFit: unknown field; did you mean nodeFit?", id="another case"
        ),
        pytest.param(
            "minReplicas: -1",
            "minReplicas: must be at least 0, not the number -1",
            id="replicas below zero",
        ),
        pytest.param(
            "nodeSelector: {a: b}",
            "nodeSelector: must be a label selector in text form; "
            'write labels as one text, for example "pool=blue,zone in (a,b)"',
            id="a node selector as an object",
        ),
        pytest.param(
            "namespaceLabelSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}",
            'namespaceLabelSelector.matchExpressions[0].operator: "Gt" is not an operator of label '
            "selectors; use In, NotIn, Exists, DoesNotExist",
            id="an operator of node affinity",
        ),
        pytest.param(
            "podProtections: {config: {podsWithPVC: {}}}",
            "podProtections.config.podsWithPVC: unknown field; did you mean PodsWithPVC?",
            id="a protection's details in another case",
        ),
        pytest.param(
            "maxPodLifeTimeSeconds: 5",
            "maxPodLifeTimeSeconds: unknown field; remove it: nothing reads it",
            id="not an argument",
        ),
    ],
)
def test_what_upstream_refuses_or_does_not_read_is_refused_at_its_place(
    args: str, told: str, said: Callable[[str], list[str]]
) -> None:
    assert said(args) == [told]


def test_everything_that_is_wrong_is_told_at_once(said: Callable[[str], list[str]]) -> None:
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


def test_each_deprecated_switch_that_is_on_is_told_beside_the_lists(
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


def test_a_lenient_reading_forgives_a_nameless_class_only_where_upstream_does_not_look() -> None:
    config: object = {"PodsWithPVC": {"protectedStorageClasses": [{}]}}

    forgiven = lenient(ignorePvcPods=True, podProtections={"config": config})

    assert forgiven.protected_storage_classes == {""}
    with pytest.raises(ValueError, match="name cannot be empty"):
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
