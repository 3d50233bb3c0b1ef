"""A slip in an annotation that steers the simulator is answered, as kubectl shows warnings."""

from typing import Any

import pytest

from reactive_desched.sim.annotation_warnings import annotation_warnings
from reactive_desched.sim.profiles import PREFIX
from tests.support.golden import Golden


def noted(**notes: str) -> dict[str, Any]:
    """Return an object with these annotations of the simulator, and one of another program."""
    named = {PREFIX + name.replace("_", "-"): text for name, text in notes.items()}
    return {"metadata": {"annotations": {"example.org/profile": "x", **named}}}


def workload(**notes: str) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"template": noted(**notes)}}


RIGHT = {
    "profile": "crash-loop",
    "start_seconds": "0.5",
    "exit_code": "137",
    "reason": "OOMKilled",
    "usage_cpu": "250m",
    "usage_memory": "1Gi",
}


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("Pod", noted(**RIGHT)),
        ("Deployment", workload(**RIGHT)),
        ("CronJob", {"metadata": {}, "spec": {"jobTemplate": {"spec": workload(**RIGHT)["spec"]}}}),
        ("Node", noted(kubelet="down")),
        ("Node", noted(eviction_hard="memory.available<1Gi,nodefs.available<12.5%")),
        ("Node", noted(eviction_soft_grace_period="memory.available=1m30s")),
        ("Pod", {"metadata": {"annotations": {"sim.reactive-desched/metric.hits": "1500m"}}}),
        ("ConfigMap", noted(profile="x")),
        ("Deployment", {"metadata": {}}),
    ],
)
def test_what_is_read_is_no_warning(kind: str, obj: dict[str, Any]) -> None:
    assert list(annotation_warnings(kind, obj)) == []


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        pytest.param("Pod", noted(profile="crash-lop"), id="profile"),
        pytest.param("StatefulSet", workload(start_second="3"), id="name"),
        pytest.param("Pod", noted(run_seconds="soon"), id="number"),
        pytest.param("Pod", noted(exit_code="inf"), id="infinite"),
        pytest.param("Pod", noted(usage_memory="1 GB"), id="quantity"),
        pytest.param("Deployment", noted(profile="fail"), id="no template"),
        pytest.param("CronJob", noted(profile="fail"), id="no template of jobs"),
        pytest.param("Node", noted(kubelet="off"), id="switch"),
        pytest.param("Node", noted(usage_cpu="1"), id="node"),
    ],
)
def test_what_has_no_effect_is_said(kind: str, obj: dict[str, Any], golden: Golden) -> None:
    assert list(annotation_warnings(kind, obj)) == [golden()]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("Pod", "metric.hits", "many"),
        ("Namespace", "metric.hits", ""),
        ("Node", "eviction-hard", "memory.available<much"),
        ("Node", "eviction-soft", "imagefs.available<10%"),
        ("Node", "eviction-soft-grace-period", "memory.available=90"),
        ("Node", "eviction-max-pod-grace-period", "1m"),
    ],
)
def test_a_metric_or_threshold_that_cannot_be_read_is_said(
    kind: str, name: str, value: str
) -> None:
    obj = {"metadata": {"annotations": {f"sim.reactive-desched/{name}": value}}}

    (said,) = annotation_warnings(kind, obj)
    assert said.startswith(f"sim.reactive-desched/{name}: ")
