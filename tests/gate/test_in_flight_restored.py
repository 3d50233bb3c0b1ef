"""After a restart, a pod that was evicted a moment ago is not evicted again."""

import pytest

from reactive_desched.gate.in_flight import InFlightEvictions
from reactive_desched.model.history import PastEviction

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
    in_flight = InFlightEvictions(lambda: 5.0)
    past = PastEviction(
        "r", NOW_S - 95, "uid-1", "shop", "web", "n1", ended_s=ended_s, result=result
    )

    in_flight.restore([past], NOW_S)

    assert in_flight.is_evicting("uid-1") is is_evicting
