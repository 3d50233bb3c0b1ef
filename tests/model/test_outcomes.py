"""Every reply to an eviction, and every reading after silence, has one outcome."""

import pytest

from reactive_desched.model.outcomes import (
    Accepted,
    Answer,
    BudgetRefused,
    Denied,
    Gone,
    Outcome,
    Overloaded,
    PodAbsent,
    PodNow,
    PodPresent,
    Rehearsed,
    Replaced,
    ServerFailed,
    Unknown,
    outcome_of,
    settled,
)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(Accepted(), Outcome("evicted"), id="2xx"),
        pytest.param(
            BudgetRefused("web needs 2", 10.0),
            Outcome("refused by disruption budget", "web needs 2", 10.0),
            id="429 of a budget",
        ),
        pytest.param(
            Overloaded("slow down", 1.5),
            Outcome("deferred by overload", "slow down", 1.5),
            id="429 of the server",
        ),
        pytest.param(Gone(), Outcome("gone", "the pod was already gone"), id="404"),
        pytest.param(Replaced("the uid differs"), Outcome("replaced", "the uid differs"), id="409"),
        pytest.param(
            Denied(403, "a webhook said no"), Outcome("denied", "403: a webhook said no"), id="403"
        ),
        pytest.param(
            ServerFailed(500, "two budgets"), Outcome("failed", "500: two budgets"), id="500"
        ),
        pytest.param(Rehearsed(), Outcome("rehearsed"), id="nobody was asked"),
        pytest.param(Unknown("timed out"), None, id="silence is no outcome"),
    ],
)
def test_each_answer_has_its_outcome(answer: Answer, outcome: Outcome | None) -> None:
    assert outcome_of(answer) == outcome


def test_no_answer_is_without_a_row_above() -> None:
    assert {kind.__name__ for kind in Answer.__subclasses__()} == {
        "Accepted",
        "BudgetRefused",
        "Overloaded",
        "Gone",
        "Rehearsed",
        "Replaced",
        "Denied",
        "ServerFailed",
        "Unknown",
    }


@pytest.mark.parametrize(
    ("pod", "result"),
    [
        pytest.param(PodAbsent(), "unknown", id="it is gone"),
        pytest.param(PodPresent("u2", terminating=False), "unknown", id="another has its name"),
        pytest.param(PodPresent("u2", terminating=True), "unknown", id="and is leaving too"),
        pytest.param(PodPresent("u1", terminating=True), "evicted", id="it is on its way"),
        pytest.param(PodPresent("u1", terminating=False), "failed", id="it is still there"),
    ],
)
def test_reading_the_pod_settles_an_unknown_call(pod: PodNow, result: str) -> None:
    outcome = settled("u1", pod)

    assert outcome.result == result
    assert outcome.detail.startswith("settled by reading the pod: ")
