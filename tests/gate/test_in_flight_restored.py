"""After a restart, a pod that was evicted a moment ago is not evicted again."""

import pytest
from msgspec.structs import replace

from reactive_desched.gate.in_flight import InFlightEvictions
from reactive_desched.model.evictors.eviction import EVICTION_API
from reactive_desched.model.evictors.soft_eviction import SOFT_EVICTION
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.objects import Annotations
from reactive_desched.model.outcomes import EVICTED, Outcome
from reactive_desched.testing.builders import pod
from tests.support.evictions import make_ledger
from tests.support.golden import Golden

NOW_S = 1_700_000_000.0


@pytest.mark.parametrize(
    ("ended_s", "result", "is_evicting"),
    [
        pytest.param(NOW_S - 10, "evicted", True, id="a moment ago"),
        pytest.param(NOW_S - 10, "unknown", True, id="perhaps"),
        pytest.param(NOW_S - 90, "evicted", False, id="long ago"),
        pytest.param(NOW_S + 90, "evicted", True, id="the clock was set back"),
        pytest.param(NOW_S - 10, "pdb_refused", False, id="refused"),
        pytest.param(None, "", False, id="without an outcome yet"),
    ],
)
def test_a_pod_evicted_within_a_minute_is_remembered(
    ended_s: float | None, result: str, *, is_evicting: bool
) -> None:
    ledger = make_ledger()
    in_flight = InFlightEvictions(ledger, lambda: 5.0)
    past = PastEviction(
        "r", NOW_S - 95, "uid-1", "shop", "web", "n1", ended_s=ended_s, result=result
    )

    ledger.restore([past], 5.0, NOW_S)

    assert in_flight.is_evicting("uid-1") is is_evicting


@pytest.mark.parametrize(
    ("age_s", "asked", "waits"),
    [
        pytest.param(90, "", True, id="asked just now"),
        pytest.param(90, None, False, id="a pod that no other program moves"),
        pytest.param(700, "", False, id="asked too long ago"),
    ],
)
def test_a_pod_that_another_program_was_asked_to_move_is_not_asked_for_again(
    age_s: float, asked: str | None, golden: Golden, *, waits: bool
) -> None:
    ledger = make_ledger()
    in_flight = InFlightEvictions(ledger, lambda: 5.0)
    ended_s = NOW_S - age_s
    past = PastEviction(
        "r", ended_s, "vm", "default", "vm", "n1", ended_s=ended_s, result="evicted"
    )
    ledger.restore([past], 5.0, NOW_S)
    moved = replace(pod("vm", on="n1"), annotations=Annotations(request_evict_only=asked))

    refusal = in_flight.check(Finding(moved, "Test", "why"), 0)

    assert (None if refusal is None else refusal.says(5.0)) == (golden() if waits else None)


def test_a_request_of_an_earlier_process_may_have_asked_another_program() -> None:
    ledger = make_ledger()
    in_flight = InFlightEvictions(ledger, lambda: 5.0)
    ledger.inherit("vm", 5.0, NOW_S)
    ledger.end_inherited("vm", Outcome(EVICTED), 5.0, NOW_S)
    moved = replace(pod("vm", on="n1"), annotations=Annotations(request_evict_only=""))

    refusal = in_flight.check(Finding(moved, "Test", "why"), 0)

    assert refusal is not None
    assert refusal.reason == "EvictionInBackground"


def test_the_time_to_begin_goes_on_over_a_restart() -> None:
    now = 5.0
    ledger = make_ledger()
    in_flight = InFlightEvictions(ledger, lambda: now)
    ended_s = NOW_S - 90
    past = PastEviction(
        "r", ended_s, "vm", "default", "vm", "n1", ended_s=ended_s, result="evicted"
    )
    ledger.restore([past], 5.0, NOW_S)
    moved = replace(pod("vm", on="n1"), annotations=Annotations(request_evict_only=""))
    now += EVICTION_API.begins_within_s - 80

    assert in_flight.check(Finding(moved, "Test", "why"), 0) is None


def test_what_an_earlier_process_evicted_softly_has_the_rest_of_its_time() -> None:
    now = 5.0
    ledger = make_ledger()
    in_flight = InFlightEvictions(ledger, lambda: now)
    ended_s = NOW_S - 90
    past = PastEviction(
        *("r", ended_s, "web", "default", "web", "n1"),
        ended_s=ended_s,
        result="evicted",
        evictor="SoftEviction",
    )
    ledger.restore([past], 5.0, NOW_S)

    refusal = in_flight.check(Finding(pod("web", on="n1"), "Test", "why"), 0)

    assert refusal is not None
    assert refusal.retry_at_s == 5.0 - 90 + SOFT_EVICTION.begins_within_s
