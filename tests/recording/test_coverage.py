"""How much of a time that was asked for a recording has."""

import pytest

from reactive_desched.recording.coverage import RecordingSummary

HOUR_S = 3600.0
FIRST_S = 1_800_000_000.0


def summary(*gaps: tuple[float, float], hours: float = 1.0) -> RecordingSummary:
    return RecordingSummary(
        first_s=FIRST_S,
        last_s=FIRST_S + hours * HOUR_S,
        bytes=0,
        segments=1,
        version="",
        cluster="",
        interruptions=tuple((FIRST_S + begins, FIRST_S + ends) for begins, ends in gaps),
        damages=(),
    )


@pytest.mark.parametrize(
    ("since_s", "until_s", "gaps", "said"),
    [
        pytest.param(None, None, (), "", id="all, and nothing is missing"),
        pytest.param(0, 3600, (), "", id="what is recorded"),
        pytest.param(600, 1200, ((1800, 2400),), "", id="beside a gap"),
        pytest.param(-59, 3600, (), "", id="less than a minute more"),
        pytest.param(-9 * 3600, None, (), "1 h of the 10 h", id="since before it begins"),
        pytest.param(None, 3 * 3600, (), "1 h of the 3 h", id="until after it ends"),
        pytest.param(None, None, ((600, 1200),), "50 min of the 1 h", id="a gap"),
        pytest.param(900, None, ((600, 1200),), "40 min of the 45 min", id="a part of a gap"),
        pytest.param(
            -3600, None, ((600, 1200), (1800, 2400)), "40 min of the 2 h", id="begin and gaps"
        ),
        pytest.param(-7200, -3600, (), "", id="nothing of it, which commands say themselves"),
    ],
)
def test_how_much_of_what_was_asked_for_is_recorded(
    since_s: float | None,
    until_s: float | None,
    gaps: tuple[tuple[float, float], ...],
    said: str,
) -> None:
    since_s = None if since_s is None else FIRST_S + since_s
    until_s = None if until_s is None else FIRST_S + until_s

    text = summary(*gaps).shortfall(since_s, until_s)

    assert text.partition(" asked for")[0] == said


def test_a_gap_that_the_clock_was_set_back_over_takes_no_time() -> None:
    assert list(summary((1200, 600)).gaps_between(FIRST_S, FIRST_S + HOUR_S)) == []
