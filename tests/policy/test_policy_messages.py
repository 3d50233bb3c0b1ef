"""What the reader says of the top level of a policy, and of several problems at once."""

from collections.abc import Callable

import pytest

from reactive_desched.api.rules import Rule
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source

Ask = Callable[[str], list[str]]

TAINTS = "RemovePodsViolatingNodeTaints"


def test_all_errors_are_reported_at_once_in_the_order_of_the_lines(problems: Ask) -> None:
    lines = problems(
        """\
        apiVersion: descheduler/v1
        kind: DeschedulerPolicy
        maxNoOfPodsToEvictTotal: x
        profiles:
        - name: alpha
          plugins: {deschedule: {enabled: [Nope]}}
          pluginConfig:
          - name: DefaultEvictor
            args: {minReplicas: -1, nodeFit: 3}
        - name: beta
          bogus: 1
          pluginConfig:
          - name: RemovePodsViolatingNodeTaints
            args: {most: x}
        """
    )
    assert [line.split(": ")[:2] for line in lines] == [
        ["p.yaml:1:13", "apiVersion"],
        ["p.yaml:3:26", "maxNoOfPodsToEvictTotal"],
        ["p.yaml:6:36", "profiles[0].plugins.deschedule.enabled[0]"],
        ["p.yaml:9:25", "profiles[0].pluginConfig[0].args.minReplicas"],
        ["p.yaml:9:38", "profiles[0].pluginConfig[0].args.nodeFit"],
        ["p.yaml:11:3", "profiles[1].bogus"],
        ["p.yaml:14:18", "profiles[1].pluginConfig[0].args.most"],
    ]
    assert lines[2].endswith("(in profile alpha)")
    assert lines[6].endswith(f"(in profile beta, {TAINTS})")


def test_reading_stops_at_the_hundredth_problem(problems: Ask, head: str) -> None:
    lines = problems(head + "".join(f"key{i}: 1\n" for i in range(500)))
    assert lines[99].startswith("p.yaml:102:1: key99: unknown field")
    assert lines[100:] == ["stopped after 100 problems"]


def test_what_a_person_wrote_is_shown_on_one_line_and_within_bounds(
    problems: Ask, head: str
) -> None:
    (line,) = problems(head + f'"a\\nb\\u202e{"x" * 900}": 1\n')
    assert line.startswith('p.yaml:3:1: ["a\\nb\\u202exxx')
    assert len(line) < 200


def test_a_long_message_is_cut(problems: Ask, head: str) -> None:
    (line,) = problems(f"{head}nodeSelector: pool in {'x' * 5000}")
    assert line.endswith("x…")
    assert len(line) < 400


@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        pytest.param(
            "  - {name: RemovePodsViolatingNodeAffinity, args: {nodeAffinityTypes: []}}",
            [Rule.UNKNOWN_FIELD],
            id="a required field, misspelt",
        ),
        pytest.param(
            "  - {name: RemovePodsViolatingNodeAffinity, nodeAffinityType: []}",
            [Rule.MISPLACED_FIELD],
            id="a required field, a level too high",
        ),
        pytest.param(
            "  - {name: PodLifeTime, args: {maxPodLifeTimeSecond: 5, namespaces: {}}}",
            [Rule.UNKNOWN_FIELD],
            id="the only criterion, misspelt",
        ),
        pytest.param(
            "  - {name: RemovePodsViolatingNodeAffinity, args: {bogus: []}}",
            [Rule.MISSING_FIELD, Rule.UNKNOWN_FIELD],
            id="another field",
        ),
        pytest.param(
            "  - {name: RemovePodsViolatingNodeAffinity}\n"
            "  - {name: RemovePodsViolatingNodeTaints, args: {nodeAffinityType: []}}",
            [Rule.MISSING_FIELD, Rule.MISPLACED_FIELD],
            id="another plugin",
        ),
        pytest.param(
            "  - {name: PodLifetime, args: {maxPodLifeTimeSeconds: 5}}\n"
            "  plugins: {deschedule: {enabled: [PodLifeTime]}}",
            [Rule.UNKNOWN_PLUGIN],
            id="the arguments of a plugin, misspelt",
        ),
    ],
)
def test_one_mistake_is_one_error(head: str, policy: str, rules: list[Rule]) -> None:
    text = f"{head}profiles:\n- name: p\n  pluginConfig:\n{policy}\n"
    found = check_source(SourceText(text, "p.yaml"), plugin_registry())
    assert [each.rule for each in found.errors] == rules


@pytest.mark.parametrize(
    ("plugins", "configured", "warned"),
    [
        pytest.param(f"{{deschedule: [{TAINTS}]}}", TAINTS, [], id="a list of plugins"),
        pytest.param(f"{{deschedule: {TAINTS}}}", TAINTS, [], id="a plugin"),
        pytest.param(f"{{deschedule: {{enabled: {TAINTS}}}}}", TAINTS, [], id="no list"),
        pytest.param(f"{{deschedule: {{enabled: [{TAINTS[:-1]}]}}}}", TAINTS, [], id="a slip"),
        pytest.param(
            f"{{deschedule: {{enabled: [{TAINTS[:-1]}]}}}}",
            "RemovePodsViolatingInterPodAntiAffinity",
            [Rule.NOT_ENABLED],
            id="a slip in another",
        ),
        pytest.param(
            "{deschedule: {enabled: [Sweeper]}}",
            TAINTS,
            [Rule.NOT_ENABLED],
            id="no plugin at all",
        ),
    ],
)
def test_what_an_error_says_of_a_plugin_no_warning_says_again(
    head: str, plugins: str, configured: str, warned: list[Rule]
) -> None:
    config = f"[{{name: {configured}}}]"
    text = f"{head}profiles: [{{name: p, plugins: {plugins}, pluginConfig: {config}}}]\n"
    found = check_source(SourceText(text, "p.yaml"), plugin_registry())
    assert len(found.errors) == 1
    assert [each.rule for each in found.warnings if each.rule] == warned
