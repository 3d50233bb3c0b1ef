"""Migration jobs of the recorded controller are no part of another policy's world."""

from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.controller.readiness import sync_pause
from reactive_desched.model.migration_jobs import (
    PLACEHOLDER_OF,
    RESOURCE,
    JobStatus,
    MigrationJob,
    Mode,
    Phase,
    PodReference,
)
from reactive_desched.model.objects import Pod
from reactive_desched.policy_diff.recorded_facts import FactsReader
from reactive_desched.recording.items import NothingChanged, ObjectChanged, PauseSet, Verb
from reactive_desched.testing.builders import node, pod
from tests.policy_diff.test_world import (
    CLUSTER,
    QUIET,
    START_S,
    TAINTED,
    TAINTS,
    WEB,
    at,
    changed,
    moved,
    picture,
    policy,
    run,
)

MIGRATING = (
    f"{QUIET}evictions: {{evictor: migration}}\n"
    "migration: {skipCheckExpectedReplicas: true, placeholder: {}}\n"
)
LARGE = {"cpu": "4"}
PLACEHOLDER = pod("placeholder", on="n2", labels={PLACEHOLDER_OF: "job"}, requests=LARGE)
SMALL = node("n2", allocatable={"cpu": "4", "pods": "10"})


def job(name: str, trigger: str = "", mode: str = Mode.RESERVATION_FIRST) -> Any:
    """Return a change that adds a job for the pod."""
    pod, created_s = PodReference.to(WEB), START_S + 60
    made = MigrationJob(
        name=name,
        uid=name,
        pod=pod,
        created_s=created_s,
        trigger=trigger,
        mode=mode,
    )
    return ObjectChanged(at(60), RESOURCE, Verb.ADDED, made)


@pytest.mark.parametrize("is_in_picture", [True, False])
def test_a_placeholder_takes_no_room(*, is_in_picture: bool) -> None:
    found = (node("n1"), SMALL, pod("web", on="n1", created=START_S - 3600, requests=LARGE))
    placeholder = (PLACEHOLDER,) if is_in_picture else ()
    later = () if is_in_picture else (changed(30, PLACEHOLDER, Verb.ADDED),)

    made = run(
        policy(TAINTS), picture(*found, *placeholder), *later, changed(60, TAINTED), end_at(90)
    )

    assert [each.replacement_node for each in made.evictions] == ["n2"]


def end_at(seconds: float) -> NothingChanged:
    return NothingChanged(at(seconds))


def test_a_job_for_what_the_recorded_policy_found_is_not_carried_out() -> None:
    config = policy(TAINTS, settings=MIGRATING)
    found = job(f"{WEB.uid}-{START_S + 60}", "PodLifeTime", "")

    assert moved(run(config, picture(*CLUSTER), found, end_at(90))) == []


def test_a_job_that_a_person_made_is_carried_out_by_each_policy() -> None:
    config, made = policy(TAINTS, settings=MIGRATING), job("by-hand")
    status = JobStatus(phase=Phase.SUCCEEDED)
    ended = replace(made, at=at(61), verb=Verb.MODIFIED, obj=replace(made.obj, status=status))

    assert moved(run(config, picture(*CLUSTER), made, end_at(90))) == [(WEB.uid, 60)]
    assert moved(run(config, picture(*CLUSTER), made, ended, end_at(90))) == [(WEB.uid, 60)]
    assert moved(run(policy(TAINTS), picture(*CLUSTER), made, ended, end_at(90))) == []


def test_a_job_that_a_person_pauses_waits_in_each_world() -> None:
    config, made = policy(TAINTS, settings=MIGRATING), job("by-hand")
    paused = replace(made, obj=replace(made.obj, is_paused=True))
    goes_on = replace(made, at=at(75), verb=Verb.MODIFIED)

    assert moved(run(config, picture(*CLUSTER), paused, goes_on, end_at(90))) == [(WEB.uid, 75)]


def test_a_kind_that_the_policy_does_not_read_holds_it_not() -> None:
    name = sync_pause(RESOURCE)
    pauses = (PauseSet(at(10), name, "it is listed"), PauseSet(at(200), name, ""))

    made = run(policy(TAINTS), picture(*CLUSTER), *pauses, changed(60, TAINTED), end_at(300))

    assert moved(made) == [(WEB.uid, 60)]


def ending(one: Pod, began: int, gone: int) -> list[Any]:
    leaving = replace(one, deletion_s=START_S + began)
    return [changed(began, leaving), changed(gone, leaving, Verb.DELETED)]


@pytest.mark.parametrize("down_at", [5, 15])
def test_how_long_pods_wait_for_a_kubelet_says_nothing_of_others(down_at: int) -> None:
    others = [pod(f"web-{number}", on="n1") for number in range(2)]
    slow = pod("slow", on="n2")
    down = replace(node("n2"), ready_status="Unknown")
    items = [
        *picture(*CLUSTER, *others, slow),
        changed(down_at, down),
        *ending(slow, 10, 900),
        *ending(others[0], 20, 22),
    ]
    items.sort(key=lambda item: item.at.wall_s)

    assert FactsReader().read(items).end_s(others[1]) == pytest.approx(2)
