"""Which phases, reasons and exit codes make a pod one that should not stay."""

import pytest

from reactive_desched.model.objects import PodStatus
from reactive_desched.plugins.pod_life_time import PodLifeTimeArgs, PodLifeTimePlugin
from reactive_desched.testing.aging import scenario_at_now
from reactive_desched.testing.builders import container, pod, pod_status
from reactive_desched.testing.scenario import plugin_from_policy

INIT = {"includingInitContainers": True}
EPHEMERAL = {"includingEphemeralContainers": True}
CREATE_ERROR = "CreateContainerError"
INIT_WAITS = pod_status("Pending", init=[container(waits=CREATE_ERROR)])
INIT_ENDED = pod_status("Pending", init=[container(ended="OOMKilled")])
EPHEMERAL_WAITS = pod_status("Running", ephemeral=[container(waits=CREATE_ERROR)])
EPHEMERAL_ENDED = pod_status("Running", ephemeral=[container(ended="OOMKilled")])


def plugin(**args: object) -> PodLifeTimePlugin:
    return plugin_from_policy(PodLifeTimePlugin, PodLifeTimeArgs, **args)


def waits(reason: str) -> PodStatus:
    return pod_status("Pending", container(waits=reason))


def states(*names: str, **more: object) -> dict[str, object]:
    return {"states": list(names), **more}


@pytest.mark.parametrize(
    ("args", "status", "is_flagged"),
    [
        *(
            pytest.param(states(phase), pod_status(phase), True, id=f"phase {phase}")
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
                states(reason), pod_status("Failed", reason=reason), True, id=f"the pod's {reason}"
            )
            for reason in ("NodeLost", "NodeAffinity", "Shutdown", "UnexpectedAdmissionError")
        ),
        pytest.param(
            states("NodeAffinity"),
            pod_status("Failed", container(ended="NodeAffinity")),
            True,
            id="why a container ended",
        ),
        pytest.param(
            states("ContainerCreating"), waits("ImagePullBackOff"), False, id="another reason"
        ),
        pytest.param(states("ContainerCreating"), pod_status("Pending"), False, id="another phase"),
        pytest.param(
            states("Failed", "ErrImagePull"), waits("ErrImagePull"), True, id="one of several"
        ),
        pytest.param(states(CREATE_ERROR), INIT_WAITS, False, id="init, not asked for"),
        pytest.param(states(CREATE_ERROR, **INIT), INIT_WAITS, True, id="init, asked for"),
        pytest.param(
            states(CREATE_ERROR, **EPHEMERAL),
            INIT_WAITS,
            False,
            id="init, ephemeral ones asked for",
        ),
        pytest.param(states("OOMKilled", **INIT), INIT_ENDED, True, id="init ended, asked for"),
        pytest.param(states("OOMKilled"), EPHEMERAL_ENDED, False, id="ephemeral, not asked for"),
        pytest.param(
            states("OOMKilled", **INIT), EPHEMERAL_ENDED, False, id="ephemeral, init ones asked for"
        ),
        pytest.param(
            states("OOMKilled", **EPHEMERAL), EPHEMERAL_ENDED, True, id="ephemeral, asked for"
        ),
        pytest.param(
            states(CREATE_ERROR, **EPHEMERAL),
            EPHEMERAL_WAITS,
            True,
            id="ephemeral waits, asked for",
        ),
    ],
)
def test_which_states_count(
    args: dict[str, object],
    status: PodStatus,
    is_flagged: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    cluster = scenario_at_now(plugin(**args), pod("web", on="n1", status=status))

    assert cluster.flagged() == ({"web"} if is_flagged else set())


@pytest.mark.parametrize(
    ("args", "status", "is_flagged"),
    [
        pytest.param({}, pod_status("Failed", container(code=1)), True, id="the code"),
        pytest.param({}, pod_status("Failed", container(code=2)), False, id="another code"),
        pytest.param({}, pod_status("Failed", container()), False, id="no code"),
        pytest.param(
            {}, pod_status("Running", init=[container(code=1)]), False, id="init, not asked for"
        ),
        pytest.param(
            INIT, pod_status("Running", init=[container(code=1)]), True, id="init, asked for"
        ),
        pytest.param(
            EPHEMERAL,
            pod_status("Running", ephemeral=[container(code=1)]),
            False,
            id="ephemeral containers never count",
        ),
        pytest.param(
            {"states": ["Failed"]},
            pod_status("Failed", container(code=1)),
            True,
            id="and the state",
        ),
        pytest.param(
            {"states": ["Failed"]},
            pod_status("Running", container(code=1)),
            False,
            id="not the state",
        ),
        pytest.param(
            {"states": ["Failed"]},
            pod_status("Failed", container(code=2)),
            False,
            id="only the state",
        ),
    ],
)
def test_which_exit_codes_count(
    args: dict[str, object],
    status: PodStatus,
    is_flagged: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    cluster = scenario_at_now(plugin(exitCodes=[1, 7], **args), pod("web", on="n1", status=status))

    assert cluster.flagged() == ({"web"} if is_flagged else set())
