"""What a finding says: everything that was asked for, with its numbers."""

import pytest

from reactive_desched.model.findings import Finding
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.plugins.pod_life_time import PodLifeTimeArgs, PodLifeTimePlugin
from reactive_desched.testing.aging import HOUR, NOW, scenario_at_now
from reactive_desched.testing.builders import condition, container, pod, pod_status
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.golden import Golden


@pytest.mark.parametrize(
    ("args", "numbers"),
    [
        pytest.param(
            {"maxPodLifeTimeSeconds": 2 * 24 * HOUR},
            {"maxAgeSeconds": 2 * 24 * HOUR},
            id="age",
        ),
        pytest.param(
            {"maxPodLifeTimeSeconds": 600, "states": ["OOMKilled"], "exitCodes": [137]},
            {"maxAgeSeconds": 600, "state": "OOMKilled", "exitCode": 137},
            id="age, state and exit code",
        ),
        pytest.param(
            {
                "conditions": [
                    {"type": "Ready", "status": "False", "minTimeSinceLastTransitionSeconds": 300}
                ]
            },
            {
                "conditionType": "Ready",
                "conditionStatus": "False",
                "conditionReason": "Broken",
                "conditionSeconds": 2 * HOUR,
                "minConditionSeconds": 300,
            },
            id="condition",
        ),
        pytest.param(
            {"conditions": [{"type": "Other"}]},
            {"conditionType": "Other", "conditionStatus": "True"},
            id="a condition without time",
        ),
    ],
)
def test_a_finding_says_everything_that_was_asked_for(
    args: dict[str, object], numbers: dict[str, int | str], golden: Golden
) -> None:
    status = pod_status(
        "Running",
        container(ended="OOMKilled", code=137),
        conditions=[condition("Ready=False", "Broken"), condition("Other")],
    )
    created = NOW - 76 * HOUR - 125
    web = pod("web", on="n1", status=status, created=created, changed={"Ready": NOW - 2 * HOUR})
    cluster = scenario_at_now(plugin_from_policy(PodLifeTimePlugin, PodLifeTimeArgs, **args), web)

    figures = {"ageSeconds": NOW - created, **numbers}
    assert cluster.evaluate(NodeSubject("n1")) == [
        Finding(web, "PodLifeTime", golden(), details=figures)
    ]
