"""What is wrong in the legacy format, word for word and where it was written."""

import pytest

from tests.support.legacy_policies import (
    AFFINITY,
    LEGACY_HEADER,
    REQUIRED,
    RESTARTS,
    TAINTS,
    error_lines,
    strategy,
)

P = "strategies.PodLifeTime.params"
USE = "nodeResourceUtilizationThresholds"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(
            f"{LEGACY_HEADER}strategies:\n  lowNodeUtilization: {{enabled: false}}",
            [
                (
                    "4:3: strategies.lowNodeUtilization: there is no strategy "
                    '"lowNodeUtilization"; did you mean LowNodeUtilization?'
                )
            ],
            id="a strategy in another case, even disabled",
        ),
        pytest.param(
            f"{LEGACY_HEADER}strategies:\n  LowNodeLoad: {{enabled: true}}\n  Xyz:",
            [
                (
                    '4:3: strategies.LowNodeLoad: there is no strategy "LowNodeLoad"; '
                    "remove it: there are only the ten"
                ),
                (
                    '5:3: strategies.Xyz: there is no strategy "Xyz"; '
                    "remove it: there are only the ten"
                ),
            ],
            id="a plugin that never was a strategy",
        ),
        pytest.param(
            f"{LEGACY_HEADER}strategies:\n  DefaultEvictor: {{enabled: true}}",
            [
                (
                    "4:3: strategies.DefaultEvictor: DefaultEvictor is no strategy; "
                    "write its options at the top level of the policy"
                )
            ],
            id="the evictor",
        ),
        pytest.param(
            strategy(
                "PodLifeTime",
                """\
                podLifeTime: {maxPodLifeTimeSeconds: 5}
                thresholdPriorityClassName: high
                thresholdPriority: 0
                """,
            ),
            [
                (
                    f"9:7: {P}.thresholdPriority: priority threshold misconfigured for plugin "
                    "PodLifeTime; keep one of thresholdPriority and thresholdPriorityClassName"
                )
            ],
            id="two thresholds",
        ),
        pytest.param(
            strategy(TAINTS, "thresholdPriority: 2000000001"),
            [
                (
                    f"7:7: strategies.{TAINTS}.params.thresholdPriority: priority threshold can't "
                    "be greater than 2000000000; system-critical pods have a protection of their "
                    "own: SystemCriticalPods"
                )
            ],
            id="a threshold above the highest",
        ),
        pytest.param(
            strategy(AFFINITY),
            [
                (
                    f"6:5: strategies.{AFFINITY}.params.nodeAffinityType: is required; "
                    f"{REQUIRED} and/or preferredDuringSchedulingIgnoredDuringExecution"
                )
            ],
            id="no type of affinity",
        ),
        pytest.param(
            strategy("PodLifeTime", "podLifeTime: {states: [Pending]}"),
            [
                (
                    f"7:7: {P}.podLifeTime.maxPodLifeTimeSeconds: is required in this format; "
                    "v1alpha2 does without where states are given"
                )
            ],
            id="states without an age",
        ),
        pytest.param(
            strategy(
                "PodLifeTime",
                """\
                podLifeTime:
                  maxPodLifeTimeSeconds: 5
                  podStatusPhases: [Pendin]
                  states: [Running, Succeeded]
                """,
            ),
            [
                (
                    f'9:27: {P}.podLifeTime.podStatusPhases[0]: "Pendin" is not a state v1alpha1 '
                    "knows; did you mean Pending?"
                ),
                (
                    f'10:27: {P}.podLifeTime.states[1]: "Succeeded" is not a state v1alpha1 knows; '
                    "known are ContainerCreating, CrashLoopBackOff, CreateContainerConfigError, "
                    "CreateContainerError, ErrImagePull, ImagePullBackOff, InvalidImageName, "
                    "NodeAffinity, NodeLost, Pending, PodInitializing, Running, Shutdown, "
                    "UnexpectedAdmissionError, Unknown"
                ),
            ],
            id="states of the day after",
        ),
    ],
)
def test_what_is_wrong_is_told_where_it_was_written(text: str, lines: list[str]) -> None:
    assert error_lines(text) == lines


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param(
            strategy(RESTARTS, "podsHavingTooManyRestarts: {podRestartThreshold: -3}"),
            [f"7:35: strategies.{RESTARTS}.params.podsHavingTooManyRestarts.podRestartThreshold"],
            id="a value out of bounds",
        ),
        pytest.param(
            strategy(RESTARTS, "nodeFit: true"),
            [f"6:5: strategies.{RESTARTS}.params.podsHavingTooManyRestarts.podRestartThreshold"],
            id="a block left out",
        ),
        pytest.param(
            f"{LEGACY_HEADER}strategies:\n  {RESTARTS}: {{enabled: true}}",
            [f"4:3: strategies.{RESTARTS}.params.podsHavingTooManyRestarts.podRestartThreshold"],
            id="params left out",
        ),
        pytest.param(
            strategy(
                "LowNodeUtilization",
                f"""\
                namespaces:
                  include: [a]
                {USE}:
                  thresholds: {{cpu: 120}}
                """,
            ),
            [
                "8:9: strategies.LowNodeUtilization.params.namespaces.include",
                f"9:7: strategies.LowNodeUtilization.params.{USE}.targetThresholds",
                f"10:22: strategies.LowNodeUtilization.params.{USE}.thresholds.cpu",
            ],
            id="namespaces and thresholds",
        ),
        pytest.param(
            strategy(
                TAINTS,
                """\
                namespaces: {include: [a], exclude: [b]}
                labelSelector: {matchExpressions: [{key: a, operator: Near}]}
                """,
            ),
            [
                f"7:7: strategies.{TAINTS}.params.namespaces",
                f"8:51: strategies.{TAINTS}.params.labelSelector.matchExpressions[0].operator",
            ],
            id="namespaces and labels",
        ),
        pytest.param(
            strategy(AFFINITY, "nodeAffinityType: [required, preferred]"),
            [
                f"7:26: strategies.{AFFINITY}.params.nodeAffinityType[0]",
                f"7:36: strategies.{AFFINITY}.params.nodeAffinityType[1]",
            ],
            id="an item of a list",
        ),
        pytest.param(
            strategy(TAINTS, "includedTaints: [a]\nexcludedTaints: [b]"),
            [f"6:5: strategies.{TAINTS}.params"],
            id="two lists of taints",
        ),
        pytest.param(
            f"{LEGACY_HEADER}nodeSelector: pool in a\nmaxNoOfPodsToEvictPerNode: -1",
            ["3:1: nodeSelector", "4:1: maxNoOfPodsToEvictPerNode"],
            id="the top level",
        ),
        pytest.param(
            f"{LEGACY_HEADER}nodeSelector: {{a: b}}\nignorePvcPods: 1\nstrategies:\n"
            f"  {TAINTS}: {{enabled: true}}\n  RemoveFailedPods: {{enabled: true}}",
            ["3:1: nodeSelector", "4:1: ignorePvcPods"],
            id="what goes to several profiles, once",
        ),
        pytest.param(
            strategy(RESTARTS, "podsHavingTooManyRestarts: {podRestartThreshold: '9'}"),
            [f"7:35: strategies.{RESTARTS}.params.podsHavingTooManyRestarts.podRestartThreshold"],
            id="a wrong type, once",
        ),
        pytest.param(
            strategy("PodLifeTime", "podLifeTime: 5"),
            [f"7:7: {P}.podLifeTime"],
            id="a block that is none, and not what it lacks",
        ),
        pytest.param(
            f"{LEGACY_HEADER}strategies: [{{name: {TAINTS}}}]",
            ["3:1: strategies"],
            id="strategies as a list",
        ),
        pytest.param(
            f"{LEGACY_HEADER}strategies: {{{TAINTS}: true, RemoveFailedPods: {{enabled: 'true'}}}}",
            [f"3:14: strategies.{TAINTS}", "3:70: strategies.RemoveFailedPods.enabled"],
            id="bodies that are none",
        ),
        pytest.param(
            f"{LEGACY_HEADER}strategies:\n  {RESTARTS}:\n    params:\n"
            "      podsHavingTooManyRestarts: {podRestartThreshold: many}\n      nodeFit: 1",
            [
                f"6:35: strategies.{RESTARTS}.params.podsHavingTooManyRestarts.podRestartThreshold",
                f"7:7: strategies.{RESTARTS}.params.nodeFit",
            ],
            id="types, even of what is disabled",
        ),
    ],
)
def test_a_problem_of_a_plugin_is_told_at_the_parameter(text: str, places: list[str]) -> None:
    assert [": ".join(line.split(": ")[:2]) for line in error_lines(text)] == places


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param(
            "nodeSelector: {pool: a}",
            'write labels as one text, for example "pool=blue,zone in (a,b)"',
            id="a node selector as a mapping",
        ),
        pytest.param(
            "strategies: [PodLifeTime]",
            "write each strategy as a key with what it is below: PodLifeTime: {…}",
            id="strategies as a list",
        ),
        pytest.param(
            f"strategies: {{{TAINTS}: true}}", f"write {TAINTS}: {{enabled: true}}", id="a switch"
        ),
        pytest.param(
            f"strategies: {{{TAINTS}: {{params: {{thresholdPriority: high}}}}}}",
            "write thresholdPriorityClassName: high",
            id="a class for a number",
        ),
        pytest.param(
            f"strategies: {{{TAINTS}: {{params: {{namespaces: [a]}}}}}}",
            "write include: […] or exclude: […] below it",
            id="namespaces as a list",
        ),
        pytest.param(
            f"strategies: {{{TAINTS}: {{enabled: 'yes'}}}}", "remove the quotes", id="in quotes"
        ),
    ],
)
def test_a_wrong_type_is_told_with_what_to_write(text: str, hint: str) -> None:
    (line,) = error_lines(LEGACY_HEADER + text)
    assert line.endswith(f"; {hint}")
