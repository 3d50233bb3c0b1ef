"""Every reply to an eviction, and every reading after silence, has one outcome."""

import pytest

from reactive_desched.model.outcomes import (
    Accepted,
    Conflict,
    Denied,
    DryRun,
    EffectUnknown,
    EvictionResponse,
    NotFound,
    Outcome,
    PdbRefused,
    PodFound,
    PodLookup,
    PodNotFound,
    ServerError,
    TooManyRequests,
    outcome_from_lookup,
    outcome_from_response,
)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(Accepted(), Outcome("evicted"), id="2xx"),
        pytest.param(
            PdbRefused("web needs 2", 10.0),
            Outcome("refused by disruption budget", "web needs 2", 10.0),
            id="429 of a budget",
        ),
        pytest.param(
            TooManyRequests("slow down", 1.5),
            Outcome("deferred by overload", "slow down", 1.5),
            id="429 of the server",
        ),
        pytest.param(NotFound(), Outcome("gone", "the pod was already gone"), id="404"),
        pytest.param(Conflict("the uid differs"), Outcome("replaced", "the uid differs"), id="409"),
        pytest.param(
            Denied(403, "a webhook said no"), Outcome("denied", "403: a webhook said no"), id="403"
        ),
        pytest.param(
            ServerError(500, "two budgets"), Outcome("failed", "500: two budgets"), id="500"
        ),
        pytest.param(DryRun(), Outcome("rehearsed"), id="nobody was asked"),
        pytest.param(EffectUnknown("timed out"), None, id="silence is no outcome"),
    ],
)
def test_each_answer_has_its_outcome(answer: EvictionResponse, outcome: Outcome | None) -> None:
    assert outcome_from_response(answer) == outcome


def test_no_answer_is_without_a_row_above() -> None:
    assert {kind.__name__ for kind in EvictionResponse.__subclasses__()} == {
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
        pytest.param(PodNotFound(), "unknown", id="it is gone"),
        pytest.param(PodFound("u2", terminating=False), "unknown", id="another has its name"),
        pytest.param(PodFound("u2", terminating=True), "unknown", id="and is leaving too"),
        pytest.param(PodFound("u1", terminating=True), "evicted", id="it is on its way"),
        pytest.param(PodFound("u1", terminating=False), "failed", id="it is still there"),
    ],
)
def test_reading_the_pod_settles_an_unknown_call(pod: PodLookup, result: str) -> None:
    outcome = outcome_from_lookup("u1", pod)

    assert outcome.result == result
    assert outcome.message.startswith("settled by reading the pod: ")
