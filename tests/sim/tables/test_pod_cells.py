from typing import Any

import pytest

from reactive_desched.sim.tables.pod_cells import pod_cells

NOW = 1_800_000_000.0
CREATED = "2027-01-15T07:59:00Z"

RUNNING = {"ready": True, "state": {"running": {}}}
DONE = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}


def pod(containers: int = 1, *, deleted: bool = False, **status: Any) -> dict[str, Any]:
    meta = {"name": "p", "creationTimestamp": CREATED}
    if deleted:
        meta["deletionTimestamp"] = CREATED
    names = [{"name": f"c{i}"} for i in range(containers)]
    return {"metadata": meta, "spec": {"containers": names}, "status": status}


def waiting(reason: str) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason}}}


def ended(**terminated: Any) -> dict[str, Any]:
    return {"state": {"terminated": terminated}}


def condition(kind: str, status: str, reason: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason}


@pytest.mark.parametrize(
    ("described", "status"),
    [
        pytest.param(pod(phase="Pending"), "Pending", id="the phase"),
        pytest.param(pod(phase="Failed", reason="Evicted"), "Evicted", id="the reason"),
        pytest.param(
            pod(
                phase="Pending", conditions=[condition("PodScheduled", "False", "SchedulingGated")]
            ),
            "SchedulingGated",
            id="gated",
        ),
        pytest.param(
            pod(phase="Pending", containerStatuses=[waiting("ImagePullBackOff")]),
            "ImagePullBackOff",
            id="waiting",
        ),
        pytest.param(
            pod(
                phase="Running",
                containerStatuses=[waiting("CrashLoopBackOff"), waiting("ImagePullBackOff")],
            ),
            "CrashLoopBackOff",
            id="the first container speaks last",
        ),
        pytest.param(
            pod(phase="Failed", containerStatuses=[ended(exitCode=3)]), "ExitCode:3", id="exit code"
        ),
        pytest.param(
            pod(phase="Failed", containerStatuses=[ended(signal=9, exitCode=137)]),
            "Signal:9",
            id="signal",
        ),
        pytest.param(
            pod(phase="Running", containerStatuses=[DONE, RUNNING]),
            "NotReady",
            id="one done, one running, not ready",
        ),
        pytest.param(
            pod(
                phase="Running",
                containerStatuses=[DONE, RUNNING],
                conditions=[condition("Ready", "True")],
            ),
            "Running",
            id="one done, one running, ready",
        ),
        pytest.param(pod(phase="Running", deleted=True), "Terminating", id="being deleted"),
        pytest.param(
            pod(phase="Running", reason="NodeLost", deleted=True), "Unknown", id="node lost"
        ),
    ],
)
def test_the_status_cell(described: dict[str, Any], status: str) -> None:
    assert pod_cells(described, NOW)[2] == status


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        pytest.param([waiting("PodInitializing")], "Init:0/2", id="the first is starting"),
        pytest.param([DONE, {"state": {"running": {}}}], "Init:1/2", id="the second runs"),
        pytest.param([DONE, waiting("ErrImagePull")], "Init:ErrImagePull", id="it waits"),
        pytest.param([ended(exitCode=1)], "Init:ExitCode:1", id="it failed"),
        pytest.param([DONE, DONE], "Running", id="all are done"),
    ],
)
def test_the_status_cell_while_initializing(statuses: list[dict[str, Any]], status: str) -> None:
    described = pod(phase="Running")
    described["spec"]["initContainers"] = [{"name": "i0"}, {"name": "i1"}]
    named = [{**s, "name": f"i{i}"} for i, s in enumerate(statuses)]
    described["status"]["initContainerStatuses"] = named
    assert pod_cells(described, NOW)[2] == status


def test_ready_counts_running_containers_of_all() -> None:
    described = pod(3, phase="Running", containerStatuses=[RUNNING, RUNNING, waiting("x")])
    assert pod_cells(described, NOW)[1] == "2/3"


def test_restarts_say_when_the_last_one_was() -> None:
    last = {"terminated": {"finishedAt": "2027-01-15T07:59:30Z"}}
    described = pod(containerStatuses=[{**RUNNING, "restartCount": 4, "lastState": last}])
    assert pod_cells(described, NOW)[3] == "4 (30s ago)"


def test_while_initializing_the_restarts_are_those_of_init_containers() -> None:
    first = {"name": "i", "restartCount": 2, "state": {"running": {}}}
    main = {"name": "c0", "restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}
    described = pod(phase="Pending", initContainerStatuses=[first], containerStatuses=[main])
    described["spec"]["initContainers"] = [{"name": "i"}]
    assert pod_cells(described, NOW)[2:4] == ["Init:0/1", "2"]


def test_the_wide_cells() -> None:
    described = pod(podIP="10.0.0.1", conditions=[condition("a", "True")])
    described["spec"] |= {"nodeName": "n1"}
    described["spec"]["readinessGates"] = [{"conditionType": "a"}, {"conditionType": "b"}]
    assert pod_cells(described, NOW)[4:] == ["60s", "10.0.0.1", "n1", "<none>", "1/2"]
