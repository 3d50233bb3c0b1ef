"""Which failed pods are meant, as soon as what happens, and what is said of them."""

import pytest
from pydantic import ValidationError

from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod, PodStatus
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.testing.aging import HOUR, NOW, scenario_at_now
from reactive_desched.testing.builders import container, node, pod, pod_status
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from tests.support.golden import Golden

BROKEN = pod_status("Failed", container(ended="Error", code=1))
FRONT = {"labelSelector": {"matchLabels": {"tier": "front"}}}
NO_JOBS = {"excludeOwnerKinds": ["Job"]}
INIT: dict[str, object] = {"includingInitContainers": True}
ERROR: dict[str, object] = {"reasons": ["Error"]}
ONE: dict[str, object] = {"exitCodes": [1]}


def plugin(**args: object) -> FailedPodsPlugin:
    """Build the plugin; any age will do."""
    return plugin_from_policy(
        FailedPodsPlugin, FailedPodsArgs, **{"minPodLifetimeSeconds": 0, **args}
    )


def failed(*, ended: str = "", waits: str = "", code: int | None = None) -> PodStatus:
    return pod_status("Failed", container(ended=ended, waits=waits, code=code))


def failed_init(*, ended: str = "", waits: str = "", code: int | None = None) -> PodStatus:
    return pod_status("Failed", init=[container(ended=ended, waits=waits, code=code)])


@pytest.mark.parametrize(
    ("phase", "is_flagged"),
    [("Failed", True), ("Succeeded", False), ("Running", False), ("Pending", False), ("", False)],
)
def test_only_failed_pods_are_flagged(phase: str, is_flagged: bool) -> None:  # noqa: FBT001 -- what a row expects
    cluster = scenario_at_now(plugin(), pod("job", on="n1", status=pod_status(phase)))

    assert cluster.flagged() == ({"job"} if is_flagged else set())


@pytest.mark.parametrize(
    ("args", "status", "is_flagged"),
    [
        pytest.param({}, failed(ended="NodeAffinity"), True, id="no filter, any reason"),
        pytest.param({}, pod_status("Failed"), True, id="no filter, nothing told"),
        pytest.param(ERROR, failed(ended="Error"), True, id="why a container ended"),
        pytest.param(ERROR, failed(waits="Error"), True, id="what a container waits for"),
        pytest.param(ERROR, failed(ended="NodeAffinity"), False, id="another reason"),
        pytest.param(
            {"reasons": ["Error", "OOMKilled"]}, failed(ended="Error"), True, id="one of several"
        ),
        pytest.param(
            {"reasons": ["Shutdown"]},
            pod_status("Failed", reason="Shutdown"),
            True,
            id="the pod's own reason",
        ),
        pytest.param({"reasons": []}, pod_status("Failed"), True, id="no reasons listed, any"),
        pytest.param({"reasons": [""]}, failed(), False, id="an empty reason is none"),
        pytest.param(ERROR, failed_init(ended="Error"), False, id="init, not asked for"),
        pytest.param({**INIT, **ERROR}, failed_init(ended="Error"), True, id="init ended for it"),
        pytest.param({**INIT, **ERROR}, failed_init(waits="Error"), True, id="init waits for it"),
        pytest.param(ONE, failed(code=1), True, id="exit code"),
        pytest.param(ONE, failed(code=2), False, id="another exit code"),
        pytest.param(ONE, failed(), False, id="no exit code"),
        pytest.param({"exitCodes": [1, 2, 3]}, failed(code=2), True, id="one of several codes"),
        pytest.param({"exitCodes": [0]}, failed(code=0), True, id="exit code zero counts"),
        pytest.param({"exitCodes": [0]}, failed(), False, id="exit code zero is not none"),
        pytest.param({"exitCodes": []}, failed(), True, id="no exit codes listed, any"),
        pytest.param(ONE, failed_init(code=1), False, id="init's exit code, not asked for"),
        pytest.param({**INIT, **ONE}, failed_init(code=1), True, id="init's exit code, asked for"),
        pytest.param({**INIT, **ONE}, failed(code=2), False, id="init asked for, app's is other"),
        pytest.param(
            {**ERROR, **ONE}, failed(ended="Error", code=1), True, id="both reason and exit code"
        ),
        pytest.param({**ERROR, **ONE}, failed(ended="Error", code=2), False, id="the reason alone"),
        pytest.param({**ERROR, **ONE}, failed(ended="Other", code=1), False, id="the code alone"),
        pytest.param({"excludeOwnerKinds": ["ReplicaSet"]}, BROKEN, False, id="an excluded owner"),
        pytest.param({"excludeOwnerKinds": ["DaemonSet"]}, BROKEN, True, id="another owner"),
    ],
)
def test_which_failed_pods_are_meant(
    args: dict[str, object],
    status: PodStatus,
    is_flagged: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    cluster = scenario_at_now(plugin(**args), pod("job", on="n1", status=status))

    assert cluster.flagged() == ({"job"} if is_flagged else set())


def test_a_pod_without_owners_is_not_excluded() -> None:
    cluster = scenario_at_now(plugin(**NO_JOBS), pod("bare", on="n1", status=BROKEN, owner=None))

    assert cluster.flagged() == {"bare"}


@pytest.mark.parametrize(
    ("args", "flagged"),
    [
        pytest.param({"namespaces": {"include": ["shop"]}}, {"shop"}, id="include"),
        pytest.param({"namespaces": {"exclude": ["shop"]}}, {"bank"}, id="exclude"),
        pytest.param(FRONT, {"shop"}, id="labels"),
    ],
)
def test_the_plugin_keeps_to_the_pods_it_was_given(
    args: dict[str, object], flagged: set[str]
) -> None:
    cluster = scenario_at_now(
        plugin(**args),
        pod("shop", on="n1", namespace="shop", labels={"tier": "front"}, status=BROKEN),
        pod("bank", on="n1", namespace="bank", status=BROKEN),
    )

    assert cluster.flagged() == flagged


@pytest.mark.parametrize(
    ("args", "before", "change"),
    [
        pytest.param({}, [], pod("job", on="n1", status=BROKEN), id="it appears on its node"),
        pytest.param(
            {}, [pod("job", status=BROKEN)], pod("job", on="n1", status=BROKEN), id="it is bound"
        ),
        pytest.param({}, [pod("job", on="n1")], pod("job", on="n1", status=BROKEN), id="it fails"),
        pytest.param(
            {"reasons": ["Evicted"]},
            [pod("job", on="n1", status=BROKEN)],
            pod("job", on="n1", status=pod_status("Failed", reason="Evicted")),
            id="the reason is told later",
        ),
        pytest.param(
            FRONT,
            [pod("job", on="n1", status=BROKEN)],
            pod("job", on="n1", status=BROKEN, labels={"tier": "front"}),
            id="its labels bring it under the selector",
        ),
        pytest.param(
            NO_JOBS,
            [pod("job", on="n1", status=BROKEN, owner="Job/j")],
            pod("job", on="n1", status=BROKEN, owner="ReplicaSet/r"),
            id="its owner is another",
        ),
    ],
)
def test_a_failed_pod_is_flagged_as_soon_as(
    args: dict[str, object], before: list[Pod], change: Pod
) -> None:
    cluster = scenario_at_now(plugin(**args), *before)
    assert cluster.flagged() == set()

    cluster.apply(change)

    assert cluster.flagged() == {"job"}


def test_the_failed_pods_of_a_node_are_flagged_when_it_becomes_ready() -> None:
    cluster = Scenario(plugin(), node("n1", ready="False"), pod("job", on="n1", status=BROKEN))
    assert cluster.flagged() == set()

    cluster.apply(node("n1"))

    assert cluster.flagged() == {"job"}


def test_a_node_change_that_leaves_its_pods_as_they_are_wakes_none() -> None:
    cluster = scenario_at_now(plugin(), pod("job", on="n1", status=BROKEN))

    assert cluster.subjects_evaluated(node("n1", "gpu:NoSchedule", labels={"disk": "ssd"})) == set()


@pytest.mark.parametrize(
    ("args", "status", "reason", "numbers"),
    [
        pytest.param(
            {},
            pod_status("Failed", container(ended="OOMKilled", code=137), reason="Evicted"),
            "failed: reason Evicted, exit code 137, 2h old",
            {"reason": "Evicted", "exitCode": 137},
            id="the first there is of each",
        ),
        pytest.param(
            {"reasons": ["OOMKilled"], "exitCodes": [2]},
            pod_status(
                "Failed",
                container("a", ended="OOMKilled", code=137),
                container("b", code=2),
                reason="Evicted",
            ),
            "failed: reason OOMKilled, exit code 2, 2h old",
            {"reason": "OOMKilled", "exitCode": 2},
            id="what was asked for, before others",
        ),
        pytest.param({}, pod_status("Failed"), "failed: 2h old", {}, id="nothing is told"),
        pytest.param(
            {},
            failed(code=0),
            "failed: exit code 0, 2h old",
            {"exitCode": 0},
            id="an exit code without a reason",
        ),
    ],
)
def test_a_finding_says_why_the_pod_failed_and_how_old_it_is(
    args: dict[str, object], status: PodStatus, reason: str, numbers: dict[str, int | str]
) -> None:
    old = pod("job", on="n1", status=status, created=NOW - 2 * HOUR)
    cluster = scenario_at_now(plugin(minPodLifetimeSeconds=60, **args), old)
    figures = {"ageSeconds": 2 * HOUR, "minAgeSeconds": 60, **numbers}

    assert cluster.evaluate(NodeSubject("n1")) == [
        Finding(old, "RemoveFailedPods", reason, details=figures)
    ]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(
            {"namespaces": {"include": ["a"], "exclude": ["b"]}},
            id="both namespace lists",
        ),
        pytest.param({"minPodLifetimeSeconds": -1}, id="age below 0"),
        pytest.param({"exitCodes": [2**31]}, id="33 bits"),
        pytest.param({"exitCodes": ["one"]}, id="an exit code as text"),
        pytest.param({"minPodLifeTimeSeconds": 5}, id="PodLifeTime's spelling"),
    ],
)
def test_wrong_arguments_are_refused(args: dict[str, object], golden: Golden) -> None:
    with pytest.raises(ValidationError) as caught:
        plugin(**args)

    assert golden() in str(caught.value)
