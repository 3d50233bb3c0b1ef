import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.model.changes import PodGone
from reactive_desched.model.findings import Finding, RequeueAfter
from reactive_desched.model.objects import Pod, PodStatus
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.plugins.pod_life_time import PodLifeTimeArgs, PodLifeTimePlugin
from reactive_desched.testing.aging import HOUR, NOW, scenario_at_now
from reactive_desched.testing.builders import condition, container, node, pod, pod_status
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from tests.support.random_steps import Step, random_steps, run_steps

MAX: dict[str, object] = {"maxPodLifeTimeSeconds": 600}


def plugin(**args: object) -> PodLifeTimePlugin:
    return plugin_from_policy(PodLifeTimePlugin, PodLifeTimeArgs, **args)


def of_age(seconds: int, name: str = "web", status: PodStatus | None = None) -> Pod:
    return pod(name, on="n1", created=NOW - seconds, status=status or pod_status("Running"))


# --- age ---------------------------------------------------------------------------------------


def test_a_pod_is_flagged_in_the_very_second_it_is_older_than_the_limit() -> None:
    cluster = scenario_at_now(plugin(**MAX), of_age(500))

    cluster.wait(100.9)
    assert cluster.flagged() == set()
    cluster.wait(0.1)
    assert cluster.flagged() == {"web"}


@pytest.mark.parametrize(
    ("age", "is_flagged"), [(595, False), (600, False), (601, True), (605, True), (-5, False)]
)
def test_only_pods_older_than_the_limit_are_flagged(age: int, is_flagged: bool) -> None:  # noqa: FBT001 -- what a row expects
    cluster = scenario_at_now(plugin(**MAX), of_age(age))

    assert cluster.flagged() == ({"web"} if is_flagged else set())


def test_a_limit_of_zero_leaves_a_pod_its_first_second() -> None:
    cluster = scenario_at_now(plugin(maxPodLifeTimeSeconds=0), of_age(0))
    assert cluster.flagged() == set()

    cluster.wait(1)

    assert cluster.flagged() == {"web"}


def test_what_was_created_in_the_future_is_young() -> None:
    cluster = scenario_at_now(plugin(maxPodLifeTimeSeconds=10), of_age(-5))

    cluster.wait(15)
    assert cluster.flagged() == set()
    cluster.wait(1)
    assert cluster.flagged() == {"web"}


def test_pods_in_any_phase_are_flagged() -> None:
    phases = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
    cluster = scenario_at_now(plugin(**MAX), *(of_age(601, it, pod_status(it)) for it in phases))

    assert cluster.flagged() == set(phases)


def test_only_the_soonest_of_a_nodes_pods_is_waited_for() -> None:
    cluster = scenario_at_now(
        plugin(**MAX), of_age(200, "young"), of_age(500, "older"), of_age(300, "middle")
    )

    assert cluster.evaluate(NodeSubject("n1")) == [RequeueAfter(101)]


def test_the_next_one_is_waited_for_after_the_soonest() -> None:
    cluster = scenario_at_now(plugin(**MAX), of_age(500, "older"), of_age(300, "young"))

    cluster.wait(300)
    assert cluster.flagged() == {"older"}
    cluster.wait(1)
    assert cluster.flagged() == {"older", "young"}


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"states": ["Pending"]}, id="its state"),
        pytest.param({"conditions": [{"type": "Done"}]}, id="its conditions"),
        pytest.param({"exitCodes": [1]}, id="its exit codes"),
        pytest.param({"ownerKinds": {"exclude": ["ReplicaSet"]}}, id="its owner"),
        pytest.param({"ownerKinds": {"include": ["Job"]}}, id="that it lacks an owner"),
        pytest.param({"namespaces": {"exclude": ["default"]}}, id="its namespace"),
        pytest.param({"labelSelector": {"matchLabels": {"a": "b"}}}, id="its labels"),
    ],
)
def test_no_timer_is_set_for_a_pod_that_is_kept_by(args: dict[str, object]) -> None:
    cluster = scenario_at_now(plugin(**MAX, **args), of_age(500))

    assert cluster.evaluate(NodeSubject("n1")) == []


def test_limits_may_be_as_long_as_upstreams_numbers() -> None:
    cluster = scenario_at_now(plugin(maxPodLifeTimeSeconds=2**64 - 1), of_age(500))

    assert cluster.flagged() == set()


def test_the_oldest_pod_goes_first() -> None:
    made = plugin(**MAX)
    cluster = scenario_at_now(made, of_age(900, "old"), of_age(999, "oldest"), of_age(700, "least"))
    cluster.apply(node("n2"), msgspec.structs.replace(of_age(950, "elsewhere"), node="n2"))

    found = [it for it in cluster.evaluate(NodeSubject("n1")) if isinstance(it, Finding)]
    [swept] = made.sweep(cluster.view)

    assert [finding.pod.name for finding in found] == ["oldest", "old", "least"]
    assert [finding.pod.name for finding in swept] == ["oldest", "elsewhere", "old", "least"]


def test_state_and_age_must_both_hold() -> None:
    cluster = scenario_at_now(
        plugin(**MAX, states=["Pending"]),
        of_age(700, "old-pending", pod_status("Pending")),
        of_age(700, "old-running", pod_status("Running")),
        of_age(500, "new-pending", pod_status("Pending")),
    )
    assert cluster.flagged() == {"old-pending"}

    cluster.wait(200)

    assert cluster.flagged() == {"old-pending", "new-pending"}


# --- what it reacts to -------------------------------------------------------------------------

FRONT: dict[str, object] = {"labelSelector": {"matchLabels": {"tier": "front"}}}
NO_JOBS: dict[str, object] = {"ownerKinds": {"exclude": ["Job"]}}
NOT_READY: dict[str, object] = {
    "conditions": [{"type": "Ready", "status": "False", "minTimeSinceLastTransitionSeconds": 300}]
}


def old(status: PodStatus | None = None, **changed: int) -> Pod:
    return pod(
        "web", on="n1", created=NOW - HOUR, status=status or pod_status("Running"), changed=changed
    )


UNREADY = pod_status("Running", conditions=[condition("Ready=False")])


@pytest.mark.parametrize(
    ("args", "before", "change"),
    [
        pytest.param(MAX, [], old(), id="it appears on its node"),
        pytest.param(MAX, [pod("web", created=NOW - HOUR)], old(), id="it is bound"),
        pytest.param(
            {"states": ["ImagePullBackOff"]},
            [old()],
            old(pod_status("Pending", container(waits="ImagePullBackOff"))),
            id="a container waits for the reason",
        ),
        pytest.param({"states": ["Failed"]}, [old()], old(pod_status("Failed")), id="it ends"),
        pytest.param(
            {"states": ["Error"]},
            [old(pod_status("Failed"))],
            old(pod_status("Failed", container(ended="Error"))),
            id="more is told after it ended",
        ),
        pytest.param(
            NOT_READY,
            [old(UNREADY, Ready=NOW - 10)],
            old(UNREADY, Ready=NOW - 400),
            id="its condition is dated otherwise",
        ),
        pytest.param(
            {**MAX, **FRONT},
            [pod("web", on="n1", created=NOW - HOUR)],
            pod("web", on="n1", created=NOW - HOUR, labels={"tier": "front"}),
            id="its labels bring it under the selector",
        ),
        pytest.param(
            {**MAX, **NO_JOBS},
            [pod("web", on="n1", created=NOW - HOUR, owner="Job/j")],
            pod("web", on="n1", created=NOW - HOUR, owner="ReplicaSet/r"),
            id="its owner is another",
        ),
    ],
)
def test_a_pod_is_flagged_as_soon_as(
    args: dict[str, object], before: list[Pod], change: Pod
) -> None:
    cluster = scenario_at_now(plugin(**args), *before)
    assert cluster.flagged() == set()

    cluster.apply(change)

    assert cluster.flagged() == {"web"}


def test_the_pods_of_a_node_are_flagged_when_it_becomes_ready() -> None:
    cluster = Scenario(plugin(**MAX), node("n1", ready="False"), of_age(700), now_s=NOW)
    assert cluster.flagged() == set()

    cluster.apply(node("n1"))

    assert cluster.flagged() == {"web"}


def test_a_node_change_that_leaves_its_pods_as_they_are_wakes_none() -> None:
    cluster = scenario_at_now(plugin(**MAX), of_age(500))

    assert cluster.subjects_evaluated(node("n1", "gpu:NoSchedule", labels={"disk": "ssd"})) == set()


def test_of_pods_that_go_only_those_that_ended_are_looked_at() -> None:
    judging, running = plugin(**MAX), of_age(500)

    assert not judging.matters(PodGone(running))
    assert judging.matters(PodGone(of_age(500, status=pod_status("Failed"))))


def test_a_condition_is_waited_for_to_the_second() -> None:
    cluster = scenario_at_now(plugin(**NOT_READY), old(UNREADY, Ready=NOW - 100))

    cluster.wait(199.9)
    assert cluster.flagged() == set()
    cluster.wait(0.1)
    assert cluster.flagged() == {"web"}


def test_a_condition_that_changes_meanwhile_begins_anew() -> None:
    cluster = scenario_at_now(plugin(**NOT_READY), old(UNREADY, Ready=NOW - 100))
    cluster.wait(150)

    cluster.apply(old(UNREADY, Ready=NOW + 150))
    cluster.wait(299)
    assert cluster.flagged() == set()
    cluster.wait(1)

    assert cluster.flagged() == {"web"}


def test_age_and_condition_must_both_be_reached() -> None:
    young = pod("web", on="n1", created=NOW - 200, status=UNREADY, changed={"Ready": NOW - 100})
    cluster = scenario_at_now(plugin(**MAX, **NOT_READY), young)

    assert cluster.evaluate(NodeSubject("n1")) == [RequeueAfter(401)]
    cluster.wait(400)
    assert cluster.flagged() == set()
    cluster.wait(1)
    assert cluster.flagged() == {"web"}


def wanted(*conditions: dict[str, object], **more: object) -> dict[str, object]:
    return {"conditions": list(conditions), **more}


CREATED = {"p1": NOW - 9, "p2": NOW - 6, "p3": NOW, "p4": NOW + 3}  # and that never changes
PODS = {name: {"on": "n1", "status": UNREADY, "created": at} for name, at in CREATED.items()}
statuses = st.builds(
    lambda phase, ended, code, ready: pod_status(
        phase,
        container(ended=ended, code=code),
        conditions=[condition(ready), condition("PodScheduled")],
    ),
    st.sampled_from(["Running", "Running", "Pending", "Failed", "Succeeded"]),
    st.sampled_from(["", "OOMKilled"]),
    st.sampled_from([None, 0, 1]),
    st.sampled_from(["Ready=True", "Ready=False"]),
)
steps = random_steps(
    PODS,
    {
        "on": st.sampled_from([None, "n1", "n2"]),
        "status": statuses,
        "changed": st.sampled_from([{}, {"Ready": NOW - 3}, {"Ready": NOW}, {"Ready": NOW + 4}]),
        "owner": st.sampled_from(["ReplicaSet/r", "Job/j"]),
        "labels": st.sampled_from([{}, {"tier": "front"}]),
    },
    waits_s=(1, 2, 4, 10),
)
TEN = {"maxPodLifeTimeSeconds": 10}
UNREADY_5 = {"type": "Ready", "status": "False", "minTimeSinceLastTransitionSeconds": 5}
arguments = st.sampled_from(
    [
        TEN,
        {**TEN, "states": ["Failed", "OOMKilled"]},
        {**TEN, **FRONT},
        {**TEN, "ownerKinds": {"include": ["Job"]}},
        {**TEN, **NO_JOBS},
        {"exitCodes": [1]},
        wanted(UNREADY_5),
        wanted(UNREADY_5, {"type": "Ready", "status": "True"}, maxPodLifeTimeSeconds=10),
        wanted(UNREADY_5, states=["Running", "Succeeded"]),
    ]
)


@given(steps, arguments)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[Step], args: dict[str, object]
) -> None:
    for cluster in run_steps(steps, plugin(**args), PODS, now_s=NOW):
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == cluster.flagged_after_restart()
