"""What is said of policies in the legacy format, word for word and where it was written."""

from textwrap import dedent, indent

import pytest

from reactive_desched.planning import registry
from reactive_desched.policy.documents import Source
from reactive_desched.policy.load import check

OLD = "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"
AFFINITY = "RemovePodsViolatingNodeAffinity"
TAINTS = "RemovePodsViolatingNodeTaints"
SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
RESTARTS = "RemovePodsHavingTooManyRestarts"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def strategy(name: str, params: str = "{}") -> str:
    """Write a policy with one strategy; its params begin on line 7."""
    return (
        f"{OLD}strategies:\n  {name}:\n    enabled: true\n    params:\n"
        f"{indent(dedent(params), ' ' * 6)}\n"
    )


def told(text: str) -> list[str]:
    problems = check(Source(dedent(text), "p.yaml"), registry()).problems
    return [str(problem).removeprefix("p.yaml:") for problem in problems]


P = "strategies.PodLifeTime.params"
USE = "nodeResourceUtilizationThresholds"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(
            f"{OLD}strategies:\n  lowNodeUtilization: {{enabled: false}}",
            [
                (
                    "4:3: strategies.lowNodeUtilization: there is no strategy "
                    '"lowNodeUtilization"; did you mean LowNodeUtilization?'
                )
            ],
            id="a strategy in another case, even disabled",
        ),
        pytest.param(
            f"{OLD}strategies:\n  LowNodeLoad: {{enabled: true}}\n  Xyz:",
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
            f"{OLD}strategies:\n  DefaultEvictor: {{enabled: true}}",
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
    assert told(text) == lines


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
            f"{OLD}strategies:\n  {RESTARTS}: {{enabled: true}}",
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
            f"{OLD}nodeSelector: pool in a\nmaxNoOfPodsToEvictPerNode: -1",
            ["3:1: nodeSelector", "4:1: maxNoOfPodsToEvictPerNode"],
            id="the top level",
        ),
        pytest.param(
            f"{OLD}nodeSelector: {{a: b}}\nignorePvcPods: 1\nstrategies:\n"
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
            f"{OLD}strategies: [{{name: {TAINTS}}}]",
            ["3:1: strategies"],
            id="strategies as a list",
        ),
        pytest.param(
            f"{OLD}strategies: {{{TAINTS}: true, RemoveFailedPods: {{enabled: 'true'}}}}",
            [f"3:14: strategies.{TAINTS}", "3:70: strategies.RemoveFailedPods.enabled"],
            id="bodies that are none",
        ),
        pytest.param(
            f"{OLD}strategies:\n  {RESTARTS}:\n    params:\n"
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
    assert [": ".join(line.split(": ")[:2]) for line in told(text)] == places


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
    (line,) = told(OLD + text)
    assert line.endswith(f"; {hint}")


UNKNOWN = "strategies.PodLifeTime"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            "profiles: [{name: a}, {name: b}]",
            "3:1: profiles: is v1alpha2 and not read under v1alpha1; 2 profiles would not run: "
            "write apiVersion: descheduler/v1alpha2",
            id="profiles",
        ),
        pytest.param(
            "spec: {strategies: {}}",
            "3:1: spec: is not read here; a policy is not a Kubernetes object: write what is below "
            "spec at the top level",
            id="spec",
        ),
        pytest.param(
            "podLifeTime: {enabled: true}",
            "3:1: podLifeTime: is not read here; move it below strategies, as PodLifeTime",
            id="a strategy at the top",
        ),
        pytest.param(
            "nodeFit: true",
            "3:1: nodeFit: is not read here; "
            "move it to the params of the strategies it is meant for",
            id="a parameter at the top",
        ),
        pytest.param(
            "podRestartThreshold: 5",
            "3:1: podRestartThreshold: is not read here; move it to the params of its strategy, "
            "below podsHavingTooManyRestarts",
            id="a part of a block at the top",
        ),
        pytest.param(
            "gracePeriodSeconds: 5",
            "3:1: gracePeriodSeconds: is not read here; only v1alpha2 has it: "
            "`reactive-desched policy convert` writes the policy in that format",
            id="what came later",
        ),
        pytest.param(
            "minReplicas: 2",
            "3:1: minReplicas: is not read here; only v1alpha2 has it: "
            "`reactive-desched policy convert` writes the policy in that format",
            id="what the evictor learned later",
        ),
        pytest.param(
            "ignorePVCPods: true",
            "3:1: ignorePVCPods: unknown field; did you mean ignorePvcPods?",
            id="a switch in another case",
        ),
        pytest.param(
            "filters: []", "3:1: filters: unknown field; remove it: nothing reads it", id="nothing"
        ),
        pytest.param(
            "strategies: {PodLifeTime: {args: {}}}",
            f"3:28: {UNKNOWN}.args: is not read here; v1alpha2; write params",
            id="args",
        ),
        pytest.param(
            "strategies: {PodLifeTime: {name: x}}",
            f"3:28: {UNKNOWN}.name: is not read here; the name is the key above",
            id="a name",
        ),
        pytest.param(
            "strategies: {PodLifeTime: {namespaces: {}}}",
            f"3:28: {UNKNOWN}.namespaces: is not read here; move it below params",
            id="a parameter beside params",
        ),
        pytest.param(
            "strategies: {PodLifeTime: {maxPodLifetimeSeconds: 5}}",
            f"3:28: {UNKNOWN}.maxPodLifetimeSeconds: is not read here; move it below "
            "params.podLifeTime, as maxPodLifeTimeSeconds",
            id="a part of a block beside params, in another case",
        ),
        pytest.param(
            "strategies: {PodLifeTime: {ignorePvcPods: true}}",
            f"3:28: {UNKNOWN}.ignorePvcPods: is not read here; move it to the top level of the "
            "policy",
            id="a switch of the whole policy",
        ),
        pytest.param(
            "strategies: {PodLifeTime: {params: {maxPodLifeTimeSeconds: 5}}}",
            f"3:37: {UNKNOWN}.params.maxPodLifeTimeSeconds: is not read here; "
            "move it below podLifeTime",
            id="a part of a block beside it",
        ),
        pytest.param(
            "strategies: {RemoveFailedPods: {params: {excludeOwnerKinds: []}}}",
            "3:42: strategies.RemoveFailedPods.params.excludeOwnerKinds: is not read here; "
            "move it below failedPods",
            id="the block of this strategy rather than another",
        ),
        pytest.param(
            "strategies: {LowNodeUtilization: {params: {cpu: 5}}}",
            "3:44: strategies.LowNodeUtilization.params.cpu: is not read here; move it below "
            f"{USE}.thresholds or targetThresholds",
            id="a resource in params",
        ),
        pytest.param(
            f"strategies: {{LowNodeUtilization: {{params: {{{USE}: {{cpu: 5}}}}}}}}",
            f"3:80: strategies.LowNodeUtilization.params.{USE}.cpu: is not read here; "
            "move it below thresholds or targetThresholds",
            id="a resource beside thresholds",
        ),
        pytest.param(
            "strategies: {PodLifeTime: {params: {podLifeTime: {labelSelector: {}}}}}",
            f"3:51: {UNKNOWN}.params.podLifeTime.labelSelector: is not read here; "
            "move it one level up, to params",
            id="one level too low",
        ),
        pytest.param(
            "strategies: {PodLifeTime: {params: {priorityThreshold: {}}}}",
            f"3:37: {UNKNOWN}.params.priorityThreshold: is not read here; v1alpha2; "
            "write thresholdPriority or thresholdPriorityClassName",
            id="today's name of a threshold",
        ),
        pytest.param(
            f"strategies: {{{SPREAD}: {{params: {{constraints: [ScheduleAnyway]}}}}}}",
            f"3:69: strategies.{SPREAD}.params.constraints: is not read here; v1alpha2; "
            "write includeSoftConstraints: true for soft ones too",
            id="today's name of soft constraints",
        ),
        pytest.param(
            "strategies: {PodLifeTime: {params: {namespaces: {Include: [a]}}}}",
            f"3:50: {UNKNOWN}.params.namespaces.Include: unknown field; did you mean include?",
            id="deep inside",
        ),
    ],
)
def test_a_key_that_would_not_be_read_is_told_with_the_remedy(text: str, line: str) -> None:
    assert told(OLD + text) == [line]
