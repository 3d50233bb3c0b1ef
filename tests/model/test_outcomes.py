"""Every reply to an eviction, and every reading after silence, has one outcome."""

import pytest

from reactive_desched.model.eviction_options import EvictionOptions
from reactive_desched.model.evictors.soft_eviction import ANNOTATION, SOFT_EVICTION_REQUESTED
from reactive_desched.model.outcomes import (
    BY_EVICTION_API,
    DRY_RUN_NOT_SENT,
    EVICTION_ACCEPTED,
    EVICTION_IN_BACKGROUND,
    PDB_REFUSED_EVICTION,
    POD_CONFLICT,
    POD_NOT_FOUND,
    REQUEST_DENIED,
    REQUEST_NOT_SENT,
    SERVER_BUSY,
    SERVER_FAILED,
    Accepted,
    Conflict,
    Denied,
    DryRun,
    EffectUnknown,
    EvictionRequest,
    EvictionResponse,
    LeavesLater,
    NotFound,
    NotSent,
    Outcome,
    PdbRefused,
    PodFound,
    PodLookup,
    PodNotFound,
    RequestTime,
    ServerError,
    TooManyRequests,
    outcome_from_response,
)
from reactive_desched.model.read_back import outcome_from_lookup
from tests.support.golden import Golden


def soft_at(second: int) -> dict[str, str]:
    """Return the annotation of a soft eviction that was asked for so many seconds after 0:00."""
    minutes, seconds = divmod(second, 60)
    return {ANNOTATION: f'{{"timestamp":"1970-01-01T00:{minutes:02}:{seconds:02}Z"}}'}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(Accepted(), EVICTION_ACCEPTED.outcome(), id="2xx"),
        pytest.param(
            PdbRefused("web needs 2", 10.0),
            PDB_REFUSED_EVICTION.outcome("web needs 2", 10.0),
            id="429 of a budget",
        ),
        pytest.param(
            NotSent("cannot connect to h:1"),
            REQUEST_NOT_SENT.outcome("cannot connect to h:1"),
            id="no connection",
        ),
        pytest.param(
            TooManyRequests("slow down", 1.5),
            SERVER_BUSY.outcome("slow down", 1.5),
            id="429 of the server",
        ),
        pytest.param(
            LeavesLater("evacuation"),
            EVICTION_IN_BACKGROUND.outcome("evacuation"),
            id="429 of a program that moves the pod",
        ),
        pytest.param(
            LeavesLater("annotated", SOFT_EVICTION_REQUESTED),
            SOFT_EVICTION_REQUESTED.outcome("annotated"),
            id="2xx of a soft eviction",
        ),
        pytest.param(
            Conflict("the uid differs"), POD_CONFLICT.outcome("the uid differs"), id="409"
        ),
        pytest.param(
            Denied(403, "a webhook said no"),
            REQUEST_DENIED.outcome("403: a webhook said no"),
            id="403",
        ),
        pytest.param(
            ServerError(500, "two budgets"), SERVER_FAILED.outcome("500: two budgets"), id="500"
        ),
        pytest.param(DryRun(), DRY_RUN_NOT_SENT.outcome(), id="a dry run"),
        pytest.param(EffectUnknown("timed out"), None, id="silence is no outcome"),
    ],
)
def test_each_answer_has_its_outcome(answer: EvictionResponse, outcome: Outcome | None) -> None:
    assert outcome_from_response(answer) == outcome


def test_a_pod_that_did_not_exist_any_more_is_not_found(golden: Golden) -> None:
    assert outcome_from_response(NotFound()) == POD_NOT_FOUND.outcome(golden())


def test_no_answer_is_without_a_row_above() -> None:
    assert {kind.__name__ for kind in EvictionResponse.__subclasses__()} == {
        "Accepted",
        "LeavesLater",
        "PdbRefused",
        "TooManyRequests",
        "NotFound",
        "NotSent",
        "DryRun",
        "Conflict",
        "Denied",
        "ServerError",
        "EffectUnknown",
    }


@pytest.mark.parametrize(
    ("pod", "result", "reason"),
    [
        pytest.param(PodNotFound(), "unknown", "FoundGone", id="it is gone"),
        pytest.param(
            PodFound("u2", terminating=False), "unknown", "FoundGone", id="another has its name"
        ),
        pytest.param(
            PodFound("u2", terminating=True), "unknown", "FoundGone", id="and is leaving too"
        ),
        pytest.param(
            PodFound("u1", terminating=True),
            "unknown",
            "FoundTerminating",
            id="it terminates, and nothing says by whom",
        ),
        pytest.param(
            PodFound("u1", terminating=True, disruption=BY_EVICTION_API),
            "evicted",
            "FoundEvicted",
            id="the eviction endpoint marked it",
        ),
        *[
            pytest.param(
                PodFound("u1", terminating=True, disruption=other),
                "unknown",
                "FoundDisrupted",
                id=f"it terminates: {other}",
            )
            for other in (
                *("PreemptionByScheduler", "DeletionByTaintManager", "TerminationByKubelet"),
                *("DeletionByPodGC", "DeletionByDeviceTaintManager"),
            )
        ],
        pytest.param(
            PodFound("u1", terminating=False, disruption=BY_EVICTION_API),
            "failed",
            "FoundRunning",
            id="it is marked and still there",
        ),
        pytest.param(
            PodFound("u1", terminating=False), "failed", "FoundRunning", id="it is still there"
        ),
        pytest.param(
            PodFound("u1", terminating=False, annotations={ANNOTATION: "{}"}),
            "failed",
            "FoundRunning",
            id="it is still there, and another program annotated it",
        ),
    ],
)
def test_reading_the_pod_resolves_an_unknown_effect(
    pod: PodLookup, result: str, reason: str
) -> None:
    outcome = outcome_from_lookup(EvictionRequest("shop", "web", "u1"), pod, 60.0)

    assert (outcome.result, outcome.reason) == (result, reason)


@pytest.mark.parametrize(
    ("pod", "result", "reason"),
    [
        pytest.param(
            PodFound("u1", terminating=False, annotations=soft_at(100)),
            "evicted",
            "SoftEvictionRequested",
            id="it has the annotation",
        ),
        pytest.param(
            PodFound("u1", terminating=True, annotations=soft_at(100)),
            "evicted",
            "SoftEvictionRequested",
            id="it has the annotation, and leaves",
        ),
        pytest.param(
            PodFound("u1", terminating=False, annotations=soft_at(99)),
            "failed",
            "FoundRunning",
            id="it has an earlier one of another program",
        ),
        pytest.param(
            PodFound("u1", terminating=True), "unknown", "FoundTerminating", id="it only leaves"
        ),
        pytest.param(PodFound("u1", terminating=False), "failed", "FoundRunning", id="it has none"),
        pytest.param(
            PodFound("u2", terminating=False, annotations={ANNOTATION: "{}"}),
            "unknown",
            "FoundGone",
            id="another pod of its name has it",
        ),
    ],
)
def test_reading_the_pod_resolves_a_soft_eviction_of_unknown_effect(
    pod: PodLookup, result: str, reason: str
) -> None:
    options = EvictionOptions("SoftEviction")
    request = EvictionRequest("shop", "web", "u1", options=options, sent=RequestTime(own_s=100.4))
    outcome = outcome_from_lookup(request, pod, 60.0)

    assert (outcome.result, outcome.reason) == (result, reason)


@pytest.mark.parametrize(
    ("found", "asked_grace_s", "reason"),
    [
        pytest.param({}, None, "FoundEvicted", id="nothing to compare"),
        pytest.param(
            {"deleted_s": 1_000, "disrupted_s": 1_000}, None, "FoundEvicted", id="at that moment"
        ),
        pytest.param({"deleted_s": 998}, None, "FoundEvicted", id="dates are cut"),
        pytest.param({"deleted_s": 997}, None, "FoundDisrupted", id="before it was sent"),
        pytest.param({"deleted_s": 1_062}, None, "FoundEvicted", id="as it could still arrive"),
        pytest.param({"deleted_s": 1_063}, None, "FoundDisrupted", id="when it could no longer"),
        pytest.param(
            {"deleted_s": 1_011, "disrupted_s": 1_000},
            None,
            "FoundDisrupted",
            id="deleted long after it was marked",
        ),
        pytest.param({"grace": 30, "own": 30}, None, "FoundEvicted", id="the pod's grace period"),
        pytest.param({"grace": 5, "own": 30}, None, "FoundDisrupted", id="with another one"),
        pytest.param({"grace": 5, "own": 30}, 5, "FoundEvicted", id="the one asked for"),
        pytest.param({"grace": 30, "own": 30}, 5, "FoundDisrupted", id="not the one asked for"),
        pytest.param({"grace": 0, "own": 30}, 0, "FoundEvicted", id="none, as asked for"),
    ],
)
def test_another_clients_eviction_differs_by_its_time_or_its_grace_period(
    found: dict[str, int], asked_grace_s: int | None, reason: str
) -> None:
    options = EvictionOptions().or_grace_period(asked_grace_s)
    request = EvictionRequest("shop", "web", "u1", options=options, sent=RequestTime(1_000.0))
    pod = PodFound(
        "u1",
        terminating=True,
        disruption=BY_EVICTION_API,
        disrupted_s=found.get("disrupted_s"),
        deleted_s=found.get("deleted_s"),
        grace_period_s=found.get("grace"),
        own_grace_period_s=found.get("own"),
    )

    assert outcome_from_lookup(request, pod, 60.0).reason == reason


@pytest.mark.parametrize(
    ("mark", "reason"),
    [("", "FoundTerminating"), (BY_EVICTION_API, "FoundDisrupted")],
)
def test_who_deleted_a_pod_is_never_known_where_the_request_was_a_deletion(
    mark: str, reason: str
) -> None:
    options = EvictionOptions("Delete")
    request = EvictionRequest("shop", "web", "u1", options=options)
    found = PodFound("u1", terminating=True, disruption=mark)
    outcome = outcome_from_lookup(request, found, 60.0)

    assert (outcome.result, outcome.reason) == ("unknown", reason)
