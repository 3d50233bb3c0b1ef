"""How a pod behaves is written on it."""

from typing import Any

import pytest

from reactive_desched.sim.profiles import Pace, profile_of

PREFIX = "sim.reactive-desched/"


def pod(kind: str = "", owner: str = "", restarts: str = "Always", **notes: str) -> dict[str, Any]:
    """Return a pod with these annotations."""
    annotations = {PREFIX + name.replace("_", "-"): text for name, text in notes.items()}
    if kind:
        annotations[PREFIX + "profile"] = kind
    owners = [{"kind": owner, "controller": True}] if owner else []
    metadata = {"annotations": annotations, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"restartPolicy": restarts}}


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (pod(), "steady"),
        (pod("crash-loop"), "crash-loop"),
        (pod("no-such-thing"), "steady"),
        (pod(owner="Job"), "complete"),
        (pod("steady", owner="Job"), "steady"),
        (pod(restarts="Never"), "complete"),
        (pod(restarts="OnFailure", owner="Workflow"), "complete"),
        (pod("steady", restarts="Never"), "steady"),
    ],
    ids=[
        "plain",
        "as told",
        "unknown",
        "of a job",
        "of a job, but told",
        "a test of Helm",
        "of another controller",
        "never restarted, but told",
    ],
)
def test_the_kind_of_a_pods_run(made: dict[str, Any], kind: str) -> None:
    assert profile_of(made, Pace()).kind == kind


def test_times_come_from_the_pod_or_else_from_the_pace() -> None:
    profile = profile_of(pod(start_seconds="7.5", run_seconds="soon"), Pace(start_s=1, run_s=9))

    assert (profile.start_s, profile.run_s) == (7.5, 9)


def test_a_completing_pod_ends_well_and_others_do_not() -> None:
    assert profile_of(pod("complete"), Pace()).exit_code == 0
    assert profile_of(pod("fail"), Pace()).exit_code == 1


@pytest.mark.parametrize("endless", ["inf", "nan", "1e300"])
def test_a_number_without_an_end_counts_as_absent(endless: str) -> None:
    profile = profile_of(pod("fail", exit_code=endless, run_seconds=endless), Pace(run_s=9))

    assert (profile.exit_code, profile.run_s) == (1, 9)
