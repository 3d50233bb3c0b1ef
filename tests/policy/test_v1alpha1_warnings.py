"""What is known in the legacy format and has no effect, told where it was written."""

from textwrap import indent

import pytest

from tests.support.legacy_policies import (
    AFFINITY,
    LEGACY_HEADER,
    RESTARTS,
    TAINTS,
    load_text,
    strategy,
    warning_lines,
)


def test_every_policy_in_this_format_gets_a_notice() -> None:
    (notice,) = load_text(strategy(TAINTS)).warnings
    assert str(notice) == (
        "p.yaml:1:1: apiVersion: descheduler/v1alpha1 is the legacy format; it is converted on "
        "load; `reactive-desched policy convert` writes the new one"
    )


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(
            LEGACY_HEADER,
            ["1:1: strategies: no strategy is enabled; nothing will be evicted"],
            id="nothing",
        ),
        pytest.param(
            f"{LEGACY_HEADER}strategies:\n  {TAINTS}: {{params: {{}}}}\n  PodLifeTime:\n"
            "  RemoveDuplicates: {enabled: false}",
            [
                "3:1: strategies: no strategy is enabled; nothing will be evicted",
                f"4:3: strategies.{TAINTS}: is not enabled; it runs only with enabled: true",
                "5:3: strategies.PodLifeTime: is not enabled; it runs only with enabled: true",
            ],
            id="not enabled, but for the one that says so",
        ),
        pytest.param(
            strategy("PodLifeTime", "nodeFit: true\npodLifeTime: {maxPodLifeTimeSeconds: 5}"),
            [
                (
                    "7:7: strategies.PodLifeTime.params.nodeFit: has no effect; "
                    "PodLifeTime does not read it"
                )
            ],
            id="fit for the one strategy that had none",
        ),
        pytest.param(
            strategy("RemoveDuplicates", "labelSelector: {matchLabels: {a: b}}"),
            [
                (
                    "7:7: strategies.RemoveDuplicates.params.labelSelector: has no effect; "
                    "RemoveDuplicates does not read it"
                ),
            ],
            id="a label selector for a plugin without one",
        ),
        pytest.param(
            strategy(TAINTS, "podLifeTime: {maxPodLifeTimeSeconds: 5, states: [Xyz]}"),
            [
                (
                    f"7:21: strategies.{TAINTS}.params.podLifeTime.maxPodLifeTimeSeconds: has no "
                    f"effect; {TAINTS} does not read it, PodLifeTime would"
                ),
                (
                    f"7:47: strategies.{TAINTS}.params.podLifeTime.states: has no "
                    f"effect; {TAINTS} does not read it, PodLifeTime would"
                ),
            ],
            id="the block of another strategy",
        ),
        pytest.param(
            strategy(
                "HighNodeUtilization",
                """\
                nodeResourceUtilizationThresholds:
                  thresholds: {cpu: 20}
                  targetThresholds: {cpu: 50}
                  useDeviationThresholds: true
                """,
            ),
            [
                (
                    "9:9: strategies.HighNodeUtilization.params.nodeResourceUtilizationThresholds."
                    "targetThresholds: has no effect; HighNodeUtilization does not read it, "
                    "LowNodeUtilization would"
                ),
                (
                    "10:9: strategies.HighNodeUtilization.params.nodeResourceUtilizationThresholds."
                    "useDeviationThresholds: has no effect; HighNodeUtilization does not read it, "
                    "LowNodeUtilization would"
                ),
            ],
            id="half of a block",
        ),
        pytest.param(
            f"{LEGACY_HEADER}strategies: {{{TAINTS}: {{enabled: true, weight: 3}}}}",
            [f"3:61: strategies.{TAINTS}.weight: has no effect; it never had one: remove it"],
            id="a weight",
        ),
        pytest.param(
            strategy(
                "PodLifeTime",
                """\
                podLifeTime: {maxPodLifeTimeSeconds: 5}
                nodeFit: false
                failedPods: {reasons: []}
                nodeAffinityType: []
                removeDuplicates:
                """,
            ),
            [],
            id="what says nothing",
        ),
    ],
)
def test_what_is_known_and_has_no_effect_is_warned_of(text: str, lines: list[str]) -> None:
    assert warning_lines(text) == lines


def test_what_is_disabled_is_checked_for_types_alone() -> None:
    text = f"""\
        {indent(LEGACY_HEADER, " " * 8).strip()}
        strategies:
          PodLifeTime: {{enabled: false, params: {{podLifeTime: {{states: [Xyz]}}}}}}
          {RESTARTS}: {{enabled: false, params: {{labelSelector: {{matchExpressions: [{{}}]}}}}}}
          {AFFINITY}:
            params: {{thresholdPriority: 1, thresholdPriorityClassName: x}}
            enabled: false
        """
    assert warning_lines(text) == [
        "3:1: strategies: no strategy is enabled; nothing will be evicted"
    ]
