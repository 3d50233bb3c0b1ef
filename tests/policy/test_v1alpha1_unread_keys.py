"""A key of the legacy format in the wrong place is told with the right one."""

import pytest

from tests.support.legacy_policies import LEGACY_HEADER, SPREAD, error_lines

USE = "nodeResourceUtilizationThresholds"
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
    assert error_lines(LEGACY_HEADER + text) == [line]
