from datetime import UTC, datetime

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.plan.inputs import parse_timestamp
from reactive_desched.text.times import format_timestamp


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-05-01T12:00:00Z", "2026-05-01T12:00:00Z"),
        ("2026-05-01t12:00:00z", "2026-05-01T12:00:00Z"),
        ("2026-05-01T14:30:00+02:30", "2026-05-01T12:00:00Z"),
        ("2026-05-01T12:00:00.25Z", "2026-05-01T12:00:00.250000Z"),
    ],
)
def test_a_moment_is_read_and_written_in_utc(text: str, written: str) -> None:
    assert format_timestamp(parse_timestamp(text)) == written


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("2026-05-01T12:00:00", id="no zone"),
        pytest.param("2026-05-01", id="a day"),
        pytest.param("yesterday", id="a word"),
        pytest.param("2026-13-01T12:00:00Z", id="no such month"),
        pytest.param("0001-01-01T00:00:00+10:00", id="before all time"),
        pytest.param("1714564800", id="seconds"),
        pytest.param("2026-05-01T12:00:00Z\n", id="a line too many"),
    ],
)
def test_what_is_no_rfc_3339_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--now: .*write for example 2026-05-01T12:00:00Z"):
        parse_timestamp(text)


def test_a_moment_of_another_zone_is_written_in_utc() -> None:
    assert format_timestamp(datetime(2026, 5, 1, tzinfo=UTC)) == "2026-05-01T00:00:00Z"
