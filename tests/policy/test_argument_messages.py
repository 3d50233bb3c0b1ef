"""What the reader says of wrong arguments, word for word: people use these messages."""

from collections.abc import Callable

import pytest

Ask = Callable[[str], list[str]]

TAINTS = "RemovePodsViolatingNodeTaints"
AFFINITY = "RemovePodsViolatingNodeAffinity"
IN_TAINTS = f"(in profile p, {TAINTS})"
ARGS = "profiles[0].pluginConfig[0].args"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(
            "includeTaints: [a]",
            f"p.yaml:9:7: {ARGS}.includeTaints: unknown field; did you mean includedTaints?",
            id="a name that is nearly right",
        ),
        pytest.param(
            "IncludedTaints: [a]",
            f"p.yaml:9:7: {ARGS}.IncludedTaints: unknown field; did you mean includedTaints?",
            id="another case",
        ),
        pytest.param(
            "included_taints: [a]",
            f"p.yaml:9:7: {ARGS}.included_taints: unknown field; did you mean includedTaints?",
            id="the name it has in code",
        ),
        pytest.param(
            "zzz: 1",
            f"p.yaml:9:7: {ARGS}.zzz: unknown field; known here: excludedTaints, "
            "includePreferNoSchedule, includedTaints, labelSelector, most, weight, window",
            id="no name at all",
        ),
        pytest.param(
            "window: {longst: 1s}",
            f"p.yaml:9:16: {ARGS}.window.longst: unknown field; did you mean longest?",
            id="deep inside",
        ),
        pytest.param(
            "evictLocalStoragePods: true",
            f"p.yaml:9:7: {ARGS}.evictLocalStoragePods: is not read here; "
            "move it to the args of DefaultEvictor",
            id="an option of the evictor",
        ),
        pytest.param(
            "ignorePVCPods: true",
            f"p.yaml:9:7: {ARGS}.ignorePVCPods: is not read here; "
            "move it to the args of DefaultEvictor, as ignorePvcPods",
            id="an option of the evictor in another case",
        ),
        pytest.param(
            "nodeAffinityType: [x]",
            f"p.yaml:9:7: {ARGS}.nodeAffinityType: is not read here; "
            f"it is an argument of {AFFINITY}: move it to args there",
            id="an argument of another plugin",
        ),
        pytest.param(
            "includeSoftConstraints: true",
            f"p.yaml:9:7: {ARGS}.includeSoftConstraints: is not read here; "
            "v1alpha1; write constraints: [DoNotSchedule, ScheduleAnyway]",
            id="a v1alpha1 name",
        ),
        pytest.param(
            'most: "20"',
            f'p.yaml:9:7: {ARGS}.most: must be a whole number, not the text "20"; '
            "remove the quotes",
            id="a number in quotes",
        ),
        pytest.param(
            "most: many",
            f'p.yaml:9:7: {ARGS}.most: must be a whole number, not the text "many"',
            id="a text for a number",
        ),
        pytest.param(
            "most: 2.5",
            f"p.yaml:9:7: {ARGS}.most: must be a whole number, not the number 2.5",
            id="a fraction for a whole number",
        ),
        pytest.param(
            "most: -1",
            f"p.yaml:9:7: {ARGS}.most: must be at least 0, not the number -1",
            id="below zero",
        ),
        pytest.param(
            "most: 18446744073709551616",
            f"p.yaml:9:7: {ARGS}.most: must be at most 18446744073709551615, "
            "not the number 18446744073709551616",
            id="more than 64 bits",
        ),
        pytest.param(
            "most: true",
            f"p.yaml:9:7: {ARGS}.most: must be a whole number, not the true-or-false value true",
            id="a boolean for a number",
        ),
        pytest.param(
            "weight: [1]",
            f"p.yaml:9:7: {ARGS}.weight: must be a number, not a list",
            id="a list for a number",
        ),
        pytest.param(
            'includePreferNoSchedule: "true"',
            f"p.yaml:9:7: {ARGS}.includePreferNoSchedule: must be true or false, not the text "
            '"true"; remove the quotes',
            id="a boolean in quotes",
        ),
        pytest.param(
            "includePreferNoSchedule: 1",
            f"p.yaml:9:7: {ARGS}.includePreferNoSchedule: must be true or false, not the number 1",
            id="a number for a boolean",
        ),
        pytest.param(
            "includedTaints: a",
            f'p.yaml:9:7: {ARGS}.includedTaints: must be a list, not the text "a"; '
            "write a list: [a]",
            id="one text for a list",
        ),
        pytest.param(
            "includedTaints: {a: 1}",
            f"p.yaml:9:7: {ARGS}.includedTaints: must be a list, not a mapping; "
            'begin each entry with "- "',
            id="a mapping for a list",
        ),
        pytest.param(
            "includedTaints:\n- a\n- on\n- 5\n- null",
            f"p.yaml:11:9: {ARGS}.includedTaints[1]: must be text, not the true-or-false value on; "
            'put it in quotes: "on"',
            id="a word that YAML takes for a boolean",
        ),
        pytest.param(
            "window: 5",
            f"p.yaml:9:7: {ARGS}.window: must be a mapping of fields, not the number 5",
            id="a number for a mapping",
        ),
        pytest.param(
            "window: {longest: 60}",
            f"p.yaml:9:16: {ARGS}.window.longest: must be a duration such as 90s or 1h30m; "
            "write 60s for seconds",
            id="a duration without a unit",
        ),
        pytest.param(
            "window: {longest: 1.5}",
            f"p.yaml:9:16: {ARGS}.window.longest: must be a duration such as 90s or 1h30m",
            id="a fraction for a duration",
        ),
        pytest.param(
            "window: {longest: 5d}",
            f'p.yaml:9:16: {ARGS}.window.longest: "5d" is not a duration; '
            "days and weeks have no unit: write 120h",
            id="days",
        ),
        pytest.param(
            "window: {longest: -5s}",
            f'p.yaml:9:16: {ARGS}.window.longest: must not be negative; got "-5s"',
            id="a negative duration",
        ),
        pytest.param(
            "labelSelector: app=web",
            f"p.yaml:9:7: {ARGS}.labelSelector: must be a label selector object; "
            "write matchLabels: {key: value} below it",
            id="a selector text where an object is read",
        ),
        pytest.param(
            "labelSelector: {matchLabel: {a: b}}",
            f"p.yaml:9:23: {ARGS}.labelSelector.matchLabel: unknown field; "
            "did you mean matchLabels?",
            id="an unknown part of a selector",
        ),
        pytest.param(
            "labelSelector: {matchLabels: [a]}",
            f"p.yaml:9:23: {ARGS}.labelSelector.matchLabels: must be a mapping of labels",
            id="a list for labels",
        ),
        pytest.param(
            "labelSelector: {matchLabels: {a: true}}",
            f"p.yaml:9:37: {ARGS}.labelSelector.matchLabels.a: a label value must be text; "
            "put it in quotes",
            id="a boolean for a label value",
        ),
        pytest.param(
            "labelSelector: {matchLabels: {a: b c}}",
            f"p.yaml:9:37: {ARGS}.labelSelector.matchLabels.a: 'b c' is not a label value",
            id="no label value",
        ),
        pytest.param(
            "labelSelector: {matchLabels: {-a: b}}",
            f"p.yaml:9:37: {ARGS}.labelSelector.matchLabels.-a: '-a' is not a label key",
            id="no label key",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: {key: a}}",
            f"p.yaml:9:23: {ARGS}.labelSelector.matchExpressions: must be a list of requirements",
            id="a mapping for expressions",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [a]}",
            f"p.yaml:9:42: {ARGS}.labelSelector.matchExpressions[0]: "
            "must be a mapping with key, operator and values",
            id="a text for an expression",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: a, operator: in, values: [b]}]}",
            f'p.yaml:9:51: {ARGS}.labelSelector.matchExpressions[0].operator: "in" is not an '
            "operator of label selectors; did you mean In?",
            id="an operator in another case",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: a, operator: Like, values: [b]}]}",
            f'p.yaml:9:51: {ARGS}.labelSelector.matchExpressions[0].operator: "Like" is not an '
            "operator of label selectors; use In, NotIn, Exists, DoesNotExist",
            id="no operator",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: a}]}",
            f"p.yaml:9:42: {ARGS}.labelSelector.matchExpressions[0]: "
            "a requirement needs an operator; one of In, NotIn, Exists, DoesNotExist",
            id="an operator left out",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{operator: Exists}]}",
            f"p.yaml:9:42: {ARGS}.labelSelector.matchExpressions[0]: "
            "a requirement needs a key, as text",
            id="a key left out",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: a, operator: In}]}",
            f"p.yaml:9:42: {ARGS}.labelSelector.matchExpressions[0]: "
            "operator In needs at least one value; add values",
            id="In without values",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}",
            f"p.yaml:9:69: {ARGS}.labelSelector.matchExpressions[0].values: "
            "operator Exists takes no values; remove them",
            id="Exists with values",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: a, operator: In, values: b}]}",
            f"p.yaml:9:65: {ARGS}.labelSelector.matchExpressions[0].values: values must be a list",
            id="values that are no list",
        ),
    ],
)
def test_a_wrong_argument_is_told_with_its_place_and_the_remedy(
    args: str, told: str, problems: Ask, with_args: Callable[[str, str], str]
) -> None:
    assert problems(with_args(TAINTS, args))[0] == f"{told} {IN_TAINTS}"
