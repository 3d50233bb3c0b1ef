"""What the reader says of the top level of a policy, and of several problems at once."""

from collections.abc import Callable

import pytest

Ask = Callable[[str], list[str]]

TAINTS = "RemovePodsViolatingNodeTaints"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            "nodeSelector: {pool: blue}",
            "p.yaml:3:1: nodeSelector: must be a label selector in text form; "
            'write labels as one text, for example "pool=blue,zone in (a,b)"',
            id="a node selector as a mapping",
        ),
        pytest.param(
            "nodeSelector: pool in",
            "p.yaml:3:1: nodeSelector: label selector 'pool in': expected '(' before the values",
            id="a node selector cut short",
        ),
        pytest.param(
            "maxNoOfPodsToEvictPerNode: -1",
            "p.yaml:3:1: maxNoOfPodsToEvictPerNode: must be at least 0, not the number -1",
            id="a negative limit",
        ),
        pytest.param(
            'maxNoOfPodsToEvictTotal: "10"',
            'p.yaml:3:1: maxNoOfPodsToEvictTotal: must be a whole number, not the text "10"; '
            "remove the quotes",
            id="a limit in quotes",
        ),
        pytest.param(
            "maxNoOfPodsToEvictPerNamespace: 2.5",
            "p.yaml:3:1: maxNoOfPodsToEvictPerNamespace: must be a whole number, "
            "not the number 2.5",
            id="a limit with a fraction",
        ),
        pytest.param(
            "maxNoOfPodsToEvict: 5",
            "p.yaml:3:1: maxNoOfPodsToEvict: unknown field; did you mean maxNoOfPodsToEvictTotal?",
            id="a limit of nothing",
        ),
        pytest.param(
            "gracePeriodSeconds: -1",
            "p.yaml:3:1: gracePeriodSeconds: must not be negative: the API server takes it for 1; "
            "write 0 or more",
            id="a negative grace period",
        ),
        pytest.param(
            "evictionFailureEventNotification: please",
            "p.yaml:3:1: evictionFailureEventNotification: must be true or false, "
            'not the text "please"',
            id="a text for a switch",
        ),
        pytest.param(
            "strategies: {PodLifeTime: {enabled: true}, RemoveDuplicates: {enabled: true}}",
            "p.yaml:3:1: strategies: is v1alpha1 and not read under v1alpha2; "
            "2 strategies would not run; it is read with apiVersion: descheduler/v1alpha1, which "
            "`reactive-desched policy convert` brings up to date",
            id="strategies left behind",
        ),
        pytest.param(
            "strategies: {PodLifeTime: {enabled: true}, RemoveDuplicates: {enabled: false}}",
            "p.yaml:3:1: strategies: is v1alpha1 and not read under v1alpha2; "
            "1 strategy would not run; it is read with apiVersion: descheduler/v1alpha1, which "
            "`reactive-desched policy convert` brings up to date",
            id="one strategy left behind",
        ),
        pytest.param(
            "ignorePvcPods: true",
            "p.yaml:3:1: ignorePvcPods: is not read here; move it to the args of DefaultEvictor",
            id="an option of the evictor at the top",
        ),
        pytest.param(
            "pluginConfig: []",
            "p.yaml:3:1: pluginConfig: is not read here; "
            'it belongs in a profile: begin one with "- name: …" below profiles',
            id="a part of a profile at the top",
        ),
        pytest.param(
            "metadata: {name: x}",
            "p.yaml:3:1: metadata: is not read here; "
            "a policy is not a Kubernetes object: it has no metadata and no spec",
            id="metadata",
        ),
        pytest.param(
            "spec: {}",
            "p.yaml:3:1: spec: is not read here; a policy is not a Kubernetes object: "
            "write what is below spec at the top level",
            id="spec",
        ),
        pytest.param(
            "deschedulerPolicy: {}",
            "p.yaml:3:1: deschedulerPolicy: is not read here; "
            "this looks like Helm values: write what is below it at the top level",
            id="Helm values",
        ),
        pytest.param(
            "profiles: {name: x}",
            "p.yaml:3:1: profiles: must be a list, not a mapping; begin each profile with "
            '"- name: …"',
            id="profiles that are no list",
        ),
    ],
)
def test_a_wrong_top_level_is_told_with_its_place_and_the_remedy(
    text: str, told: str, problems: Ask, head: str
) -> None:
    assert problems(head + text + "\n") == [told]


def test_everything_wrong_is_told_at_once_in_the_order_of_the_lines(problems: Ask) -> None:
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
        ["p.yaml:1:1", "apiVersion"],
        ["p.yaml:3:1", "maxNoOfPodsToEvictTotal"],
        ["p.yaml:6:36", "profiles[0].plugins.deschedule.enabled[0]"],
        ["p.yaml:9:12", "profiles[0].pluginConfig[0].args.minReplicas"],
        ["p.yaml:9:29", "profiles[0].pluginConfig[0].args.nodeFit"],
        ["p.yaml:11:3", "profiles[1].bogus"],
        ["p.yaml:14:12", "profiles[1].pluginConfig[0].args.most"],
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
