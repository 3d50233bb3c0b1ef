import json

import pytest

from reactive_desched.model.findings import Finding, LookAgain
from reactive_desched.model.objects import Pod, PodStatus
from reactive_desched.model.subjects import OnNode
from reactive_desched.plugins.pod_life_time import PodLifeTime, PodLifeTimeArgs
from reactive_desched.testing.builders import condition, container, faring, node, pod
from reactive_desched.testing.scenario import Scenario

NOW = 1_000_000
HOUR = 3600
MAX: dict[str, object] = {"maxPodLifeTimeSeconds": 600}


def plugin(**args: object) -> PodLifeTime:
    """Build the plugin with arguments as a policy writes them."""
    return PodLifeTime(PodLifeTimeArgs.model_validate_json(json.dumps(args), strict=True))


def scenario(plugin: PodLifeTime, *pods: Pod) -> Scenario:
    return Scenario(plugin, node("n1"), *pods, now_s=NOW)


def old(status: PodStatus | None = None, **changed: int) -> Pod:
    return pod(
        "web", on="n1", created=NOW - HOUR, status=status or faring("Running"), changed=changed
    )


# --- states ------------------------------------------------------------------------------------


def waits(reason: str) -> PodStatus:
    return faring("Pending", container(waits=reason))


def states(*names: str, **more: object) -> dict[str, object]:
    return {"states": list(names), **more}


INIT = {"includingInitContainers": True}
EPHEMERAL = {"includingEphemeralContainers": True}
CREATE_ERROR = "CreateContainerError"


@pytest.mark.parametrize(
    ("args", "status", "is_flagged"),
    [
        *(
            pytest.param(states(phase), faring(phase), True, id=f"phase {phase}")
            for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown")
        ),
        *(
            pytest.param(states(reason), waits(reason), True, id=f"waits for {reason}")
            for reason in (
                *("ContainerCreating", "PodInitializing", "ImagePullBackOff"),
                *("CrashLoopBackOff", "CreateContainerConfigError", "ErrImagePull"),
                *("CreateContainerError", "InvalidImageName"),
            )
        ),
        *(
            pytest.param(
                states(reason), faring("Failed", reason=reason), True, id=f"the pod's {reason}"
            )
            for reason in ("NodeLost", "NodeAffinity", "Shutdown", "UnexpectedAdmissionError")
        ),
        pytest.param(
            states("NodeAffinity"),
            faring("Failed", container(ended="NodeAffinity")),
            True,
            id="why a container ended",
        ),
        pytest.param(
            states("ContainerCreating"), waits("ImagePullBackOff"), False, id="another reason"
        ),
        pytest.param(states("ContainerCreating"), faring("Pending"), False, id="another phase"),
        pytest.param(
            states("Failed", "ErrImagePull"), waits("ErrImagePull"), True, id="one of several"
        ),
        pytest.param(
            states(CREATE_ERROR),
            faring("Pending", init=[container(waits=CREATE_ERROR)]),
            False,
            id="init, not asked for",
        ),
        pytest.param(
            states(CREATE_ERROR, **INIT),
            faring("Pending", init=[container(waits=CREATE_ERROR)]),
            True,
            id="init, asked for",
        ),
        pytest.param(
            states(CREATE_ERROR, **EPHEMERAL),
            faring("Pending", init=[container(waits=CREATE_ERROR)]),
            False,
            id="init, ephemeral ones asked for",
        ),
        pytest.param(
            states("OOMKilled", **INIT),
            faring("Pending", init=[container(ended="OOMKilled")]),
            True,
            id="init ended, asked for",
        ),
        pytest.param(
            states("OOMKilled"),
            faring("Running", ephemeral=[container(ended="OOMKilled")]),
            False,
            id="ephemeral, not asked for",
        ),
        pytest.param(
            states("OOMKilled", **INIT),
            faring("Running", ephemeral=[container(ended="OOMKilled")]),
            False,
            id="ephemeral, init ones asked for",
        ),
        pytest.param(
            states("OOMKilled", **EPHEMERAL),
            faring("Running", ephemeral=[container(ended="OOMKilled")]),
            True,
            id="ephemeral, asked for",
        ),
        pytest.param(
            states(CREATE_ERROR, **EPHEMERAL),
            faring("Running", ephemeral=[container(waits=CREATE_ERROR)]),
            True,
            id="ephemeral waits, asked for",
        ),
    ],
)
def test_which_states_count(
    args: dict[str, object],
    status: PodStatus,
    is_flagged: bool,  # noqa: FBT001 -- a row's verdict
) -> None:
    cluster = scenario(plugin(**args), old(status))

    assert cluster.flagged() == ({"web"} if is_flagged else set())


# --- conditions --------------------------------------------------------------------------------


def wanted(*conditions: dict[str, object], **more: object) -> dict[str, object]:
    return {"conditions": list(conditions), **more}


DONE = condition("Ready=True", "PodCompleted")
OTHER = condition("ContainersReady=False", "Other")
SINCE_300: dict[str, object] = {"minTimeSinceLastTransitionSeconds": 300}


@pytest.mark.parametrize(
    ("args", "conditions", "changed", "is_flagged"),
    [
        pytest.param(
            wanted({"reason": "PodCompleted", "status": "True"}),
            [DONE],
            {},
            True,
            id="status and reason",
        ),
        pytest.param(
            wanted({"reason": "PodCompleted", "status": "True"}),
            [condition("Ready=True", "Other")],
            {},
            False,
            id="the status alone",
        ),
        pytest.param(
            wanted({"reason": "PodCompleted", "status": "True"}),
            [condition("Ready=False", "PodCompleted")],
            {},
            False,
            id="the reason alone",
        ),
        pytest.param(
            wanted({"reason": "Other", "status": "True"}),
            [DONE, OTHER],
            {},
            False,
            id="each on another condition",
        ),
        pytest.param(
            wanted({"type": "Ready"}), [condition("Ready=Unknown")], {}, True, id="any status"
        ),
        pytest.param(wanted({"type": "Ready"}), [OTHER], {}, False, id="another type"),
        pytest.param(wanted({"type": "Ready"}), [], {}, False, id="no conditions"),
        pytest.param(
            wanted({"type": "Gone"}, {"type": "Ready"}), [DONE], {}, True, id="one of several"
        ),
        pytest.param(
            wanted({"type": "Ready", **SINCE_300}), [DONE], {"Ready": 300}, True, id="long enough"
        ),
        pytest.param(
            wanted({"type": "Ready", **SINCE_300}),
            [DONE],
            {"Ready": 299},
            False,
            id="a second less",
        ),
        pytest.param(
            wanted({"type": "Ready", **SINCE_300}), [DONE], {}, False, id="nobody knows how long"
        ),
        pytest.param(wanted(SINCE_300), [OTHER], {OTHER.type: 300}, True, id="time is enough"),
        pytest.param(
            wanted({"reason": "PodCompleted", **SINCE_300}),
            [DONE, OTHER],
            {"Ready": 400, OTHER.type: 5},
            True,
            id="an unrelated one changed lately",
        ),
        pytest.param(
            wanted({"reason": "PodCompleted", **SINCE_300}),
            [DONE, OTHER],
            {"Ready": 5, OTHER.type: 400},
            False,
            id="only an unrelated one is old enough",
        ),
        pytest.param(
            wanted({"type": "Ready", "minTimeSinceLastTransitionSeconds": 0}),
            [DONE],
            {"Ready": -5},
            False,
            id="in the future",
        ),
        pytest.param(
            wanted({"type": "Ready", "minTimeSinceLastTransitionSeconds": 0}),
            [DONE],
            {"Ready": 0},
            True,
            id="just now",
        ),
        pytest.param(
            wanted({"type": "Ready", "minTimeSinceLastTransitionSeconds": 0}),
            [DONE],
            {},
            False,
            id="no time to compare with none",
        ),
    ],
)
def test_which_conditions_count(
    args: dict[str, object],
    conditions: list[object],
    changed: dict[str, int],
    is_flagged: bool,  # noqa: FBT001 -- a row's verdict
) -> None:
    """`changed` says how many seconds ago."""
    status = faring("Running", conditions=conditions)  # type: ignore[arg-type] # as the rows say
    web = old(status, **{kind: NOW - ago for kind, ago in changed.items()})

    assert scenario(plugin(**args), web).flagged() == ({"web"} if is_flagged else set())


@pytest.mark.parametrize(
    ("ready_for", "containers_ready_for"),
    [pytest.param(10, 200, id="the second one"), pytest.param(200, 10, id="the first one")],
)
def test_the_condition_that_is_reached_soonest_is_enough(
    ready_for: int, containers_ready_for: int
) -> None:
    args = wanted({"type": "Ready", **SINCE_300}, {"reason": "Other", **SINCE_300})
    status = faring("Running", conditions=[DONE, OTHER])
    web = old(status, Ready=NOW - ready_for, ContainersReady=NOW - containers_ready_for)

    assert scenario(plugin(**args), web).opinions(OnNode("n1")) == [LookAgain(100)]


def test_of_a_nodes_pods_each_goes_by_its_own_conditions() -> None:
    cluster = scenario(
        plugin(**wanted({"type": "Ready", "status": "True"})),
        pod("none", on="n1", status=faring("Running")),
        pod("other", on="n1", status=faring("Running", conditions=[OTHER])),
        pod("second", on="n1", status=faring("Running", conditions=[OTHER, DONE])),
        pod("first", on="n1", status=faring("Running", conditions=[DONE])),
        pod("last", on="n1", status=faring("Running", conditions=[OTHER])),
    )

    assert cluster.flagged() == {"first", "second"}


# --- owners, exit codes, namespaces and labels -------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "flagged"),
    [
        pytest.param({"exclude": ["Job"]}, {"web", "bare"}, id="exclude lets the ownerless pass"),
        pytest.param({"include": ["Job"]}, {"job"}, id="include asks for an owner"),
        pytest.param({"include": ["Job", "ReplicaSet"]}, {"job", "web"}, id="include several"),
        pytest.param({}, {"job", "web", "bare"}, id="neither"),
    ],
)
def test_owners_are_told_by_kind(kinds: dict[str, object], flagged: set[str]) -> None:
    failed = faring("Failed")
    cluster = scenario(
        plugin(states=["Failed"], ownerKinds=kinds),
        pod("job", on="n1", owner="Job/j", status=failed),
        pod("web", on="n1", owner="ReplicaSet/r", status=failed),
        pod("bare", on="n1", owner=None, status=failed),
    )

    assert cluster.flagged() == flagged


@pytest.mark.parametrize(
    ("args", "status", "is_flagged"),
    [
        pytest.param({}, faring("Failed", container(code=1)), True, id="the code"),
        pytest.param({}, faring("Failed", container(code=2)), False, id="another code"),
        pytest.param({}, faring("Failed", container()), False, id="no code"),
        pytest.param(
            {}, faring("Running", init=[container(code=1)]), False, id="init, not asked for"
        ),
        pytest.param(INIT, faring("Running", init=[container(code=1)]), True, id="init, asked for"),
        pytest.param(
            EPHEMERAL,
            faring("Running", ephemeral=[container(code=1)]),
            False,
            id="ephemeral containers never count",
        ),
        pytest.param(
            {"states": ["Failed"]}, faring("Failed", container(code=1)), True, id="and the state"
        ),
        pytest.param(
            {"states": ["Failed"]}, faring("Running", container(code=1)), False, id="not the state"
        ),
        pytest.param(
            {"states": ["Failed"]}, faring("Failed", container(code=2)), False, id="only the state"
        ),
    ],
)
def test_which_exit_codes_count(
    args: dict[str, object],
    status: PodStatus,
    is_flagged: bool,  # noqa: FBT001 -- a row's verdict
) -> None:
    cluster = scenario(plugin(exitCodes=[1, 7], **args), old(status))

    assert cluster.flagged() == ({"web"} if is_flagged else set())


@pytest.mark.parametrize(
    ("args", "flagged"),
    [
        pytest.param({"namespaces": {"include": ["shop"]}}, {"shop"}, id="include"),
        pytest.param({"namespaces": {"exclude": ["shop"]}}, {"bank"}, id="exclude"),
        pytest.param({"labelSelector": {"matchLabels": {"tier": "front"}}}, {"shop"}, id="labels"),
    ],
)
def test_the_plugin_keeps_to_the_pods_it_was_given(
    args: dict[str, object], flagged: set[str]
) -> None:
    cluster = scenario(
        plugin(**MAX, **args),
        pod("shop", on="n1", namespace="shop", labels={"tier": "front"}),
        pod("bank", on="n1", namespace="bank", labels={"tier": "back"}),
    )

    assert cluster.flagged() == flagged


# --- what people read and write ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "reason", "numbers"),
    [
        pytest.param(
            {"maxPodLifeTimeSeconds": 2 * 24 * HOUR},
            "is 3d 4h old, the limit is 2d",
            {"maxAgeSeconds": 2 * 24 * HOUR},
            id="age",
        ),
        pytest.param(
            {**MAX, "states": ["OOMKilled"], "exitCodes": [137]},
            "is 3d 4h old, the limit is 10m; state OOMKilled; exit code 137",
            {"maxAgeSeconds": 600, "state": "OOMKilled", "exitCode": 137},
            id="age, state and exit code",
        ),
        pytest.param(
            wanted({"type": "Ready", "status": "False", **SINCE_300}),
            "condition Ready is False (Broken) for 2h",
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
            wanted({"type": "Other"}),
            "condition Other is True",
            {"conditionType": "Other", "conditionStatus": "True"},
            id="a condition without time",
        ),
    ],
)
def test_a_finding_says_everything_that_was_asked_for(
    args: dict[str, object], reason: str, numbers: dict[str, int | str]
) -> None:
    status = faring(
        "Running",
        container(ended="OOMKilled", code=137),
        conditions=[condition("Ready=False", "Broken"), condition("Other")],
    )
    created = NOW - 76 * HOUR - 125
    web = pod("web", on="n1", status=status, created=created, changed={"Ready": NOW - 2 * HOUR})
    cluster = scenario(plugin(**args), web)

    figures = {"ageSeconds": NOW - created, **numbers}
    assert cluster.opinions(OnNode("n1")) == [
        Finding(web, "PodLifeTime", reason, rank=(created,), numbers=figures)
    ]
