"""For how long a pod must have had which condition."""

import pytest

from reactive_desched.model.findings import RequeueAfter
from reactive_desched.model.objects import Pod, PodCondition
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.plugins.pod_life_time import PodLifeTimeArgs, PodLifeTimePlugin
from reactive_desched.testing.aging import HOUR, NOW, scenario_at_now
from reactive_desched.testing.builders import condition, pod, pod_status
from reactive_desched.testing.scenario import plugin_from_policy

DONE = condition("Ready=True", "PodCompleted")
OTHER = condition("ContainersReady=False", "Other")
STATUS_AND_REASON = {"status": "True", "reason": "PodCompleted"}
SINCE_300 = {"minTimeSinceLastTransitionSeconds": 300}
SINCE_0 = {"minTimeSinceLastTransitionSeconds": 0}
Wanted = dict[str, object]  # a condition as a policy writes it


def plugin(*conditions: Wanted) -> PodLifeTimePlugin:
    return plugin_from_policy(PodLifeTimePlugin, PodLifeTimeArgs, conditions=conditions)


def having(*conditions: PodCondition, **since: int) -> Pod:
    """Build a pod with these conditions; `since` says how many seconds ago one changed, by type."""
    changed = {kind: NOW - ago for kind, ago in since.items()}
    status = pod_status("Running", conditions=conditions)
    return pod("web", on="n1", created=NOW - HOUR, status=status, changed=changed)


@pytest.mark.parametrize(
    ("wanted", "web", "is_flagged"),
    [
        pytest.param([STATUS_AND_REASON], having(DONE), True, id="status and reason"),
        pytest.param(
            [STATUS_AND_REASON],
            having(condition("Ready=True", "Other")),
            False,
            id="the status alone",
        ),
        pytest.param(
            [STATUS_AND_REASON],
            having(condition("Ready=False", "PodCompleted")),
            False,
            id="the reason alone",
        ),
        pytest.param(
            [{"reason": "Other", "status": "True"}],
            having(DONE, OTHER),
            False,
            id="each on another condition",
        ),
        pytest.param(
            [{"type": "Ready"}], having(condition("Ready=Unknown")), True, id="any status"
        ),
        pytest.param([{"type": "Ready"}], having(OTHER), False, id="another type"),
        pytest.param([{"type": "Ready"}], having(), False, id="no conditions"),
        pytest.param(
            [{"type": "Gone"}, {"type": "Ready"}], having(DONE), True, id="one of several"
        ),
        pytest.param(
            [{"type": "Ready", **SINCE_300}], having(DONE, Ready=300), True, id="long enough"
        ),
        pytest.param(
            [{"type": "Ready", **SINCE_300}], having(DONE, Ready=299), False, id="a second less"
        ),
        pytest.param(
            [{"type": "Ready", **SINCE_300}], having(DONE), False, id="nobody knows how long"
        ),
        pytest.param([SINCE_300], having(OTHER, ContainersReady=300), True, id="time is enough"),
        pytest.param(
            [{"reason": "PodCompleted", **SINCE_300}],
            having(DONE, OTHER, Ready=400, ContainersReady=5),
            True,
            id="an unrelated one changed lately",
        ),
        pytest.param(
            [{"reason": "PodCompleted", **SINCE_300}],
            having(DONE, OTHER, Ready=5, ContainersReady=400),
            False,
            id="only an unrelated one is old enough",
        ),
        pytest.param(
            [{"type": "Ready", **SINCE_0}], having(DONE, Ready=-5), False, id="in the future"
        ),
        pytest.param([{"type": "Ready", **SINCE_0}], having(DONE, Ready=0), True, id="just now"),
        pytest.param(
            [{"type": "Ready", **SINCE_0}],
            having(DONE),
            False,
            id="no time to compare with none",
        ),
    ],
)
def test_which_conditions_count(
    wanted: list[Wanted],
    web: Pod,
    is_flagged: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    assert scenario_at_now(plugin(*wanted), web).flagged() == ({"web"} if is_flagged else set())


@pytest.mark.parametrize(
    ("ready_for", "containers_ready_for"),
    [pytest.param(10, 200, id="the second one"), pytest.param(200, 10, id="the first one")],
)
def test_the_condition_that_is_reached_soonest_is_enough(
    ready_for: int, containers_ready_for: int
) -> None:
    either = plugin({"type": "Ready", **SINCE_300}, {"reason": "Other", **SINCE_300})
    web = having(DONE, OTHER, Ready=ready_for, ContainersReady=containers_ready_for)

    assert scenario_at_now(either, web).evaluate(NodeSubject("n1")) == [RequeueAfter(100)]


def test_of_a_nodes_pods_each_goes_by_its_own_conditions() -> None:
    conditions = {
        "none": [],
        "other": [OTHER],
        "second": [OTHER, DONE],
        "first": [DONE],
        "last": [OTHER],
    }
    cluster = scenario_at_now(
        plugin({"type": "Ready", "status": "True"}),
        *(
            pod(name, on="n1", status=pod_status("Running", conditions=has))
            for name, has in conditions.items()
        ),
    )

    assert cluster.flagged() == {"first", "second"}
