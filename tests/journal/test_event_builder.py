"""Which cases are remembered, and which is forgotten when there are too many."""

import pytest

from reactive_desched.journal import event_builder as module
from reactive_desched.journal.event_builder import OpenCases
from reactive_desched.model.evaluation import DecisionContext, Trigger
from reactive_desched.model.findings import Finding
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE
from reactive_desched.model.objects import Pod


def about(uid: str, profile: str = "nightly", plugin: str = "PodLifeTime") -> DecisionContext:
    finding = Finding(Pod(namespace="shop", name=uid, uid=uid, node="n1"), plugin, "old")
    return DecisionContext(finding, profile, Trigger("Resynced"), (), "")


def test_of_too_many_cases_the_least_recently_used_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_PODS", 2)
    cases = OpenCases()
    first = cases.open(about("u1"), "case-1")
    cases.open(about("u2"), "case-2")

    assert cases.find(about("u1")) is first
    third = cases.open(about("u3"), "case-3")

    assert [cases.find(about(uid)) for uid in ("u1", "u2", "u3")] == [first, None, third]


def test_a_case_is_one_pod_under_one_plugin_of_one_profile() -> None:
    cases = OpenCases()
    case = cases.open(about("u1"), "case-1")

    assert cases.find(about("u1")) is case
    for other in (about("u2"), about("u1", "hourly"), about("u1", plugin="RemoveFailedPods")):
        assert cases.find(other) is None
    cases.close("u1", "nightly", "PodLifeTime")
    assert cases.find(about("u1")) is None


def test_the_job_that_a_finding_had_made_is_of_its_case() -> None:
    cases = OpenCases()
    cases.open(about("u1", "hourly"), "case-0")
    case = cases.open(about("u1"), "case-1")

    assert cases.find(about("u1", MIGRATION_PROFILE)) is case
    assert cases.find(about("u1", MIGRATION_PROFILE, "RemoveFailedPods")) is None
    assert cases.find(about("u2", MIGRATION_PROFILE)) is None
    cases.close("u1", MIGRATION_PROFILE, "PodLifeTime")
    assert cases.find(about("u1")) is None
    assert cases.find(about("u1", MIGRATION_PROFILE)) is None
    of_job = cases.open(about("u1", MIGRATION_PROFILE), "case-2")
    assert cases.find(about("u1", MIGRATION_PROFILE)) is of_job


def test_when_a_pod_is_gone_the_cases_of_every_plugin_end() -> None:
    cases = OpenCases()
    cases.open(about("u1"), "case-1")
    cases.open(about("u1", plugin="RemoveFailedPods"), "case-2")
    kept = cases.open(about("u2"), "case-3")

    assert cases.latest_of("u1").id == "case-2"  # type: ignore[union-attr]  # it is open
    cases.close_all("u1")

    assert cases.latest_of("u1") is None
    assert cases.find(about("u1")) is None
    assert cases.find(about("u2")) is kept
    assert len(cases) == 1


def test_when_a_case_of_a_pod_ends_those_of_other_plugins_stay_open() -> None:
    cases = OpenCases()
    cases.open(about("u1"), "case-1")
    other = cases.open(about("u1", plugin="RemoveFailedPods"), "case-2")

    cases.close("u1", "nightly", "PodLifeTime")

    assert cases.find(about("u1")) is None
    assert cases.find(about("u1", plugin="RemoveFailedPods")) is other
