import pytest

from reactive_desched.primitives.ages import format_age


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        pytest.param(0, "0s", id="nothing"),
        pytest.param(0.9, "0s", id="less than a second"),
        pytest.param(-5, "0s", id="less than nothing"),
        pytest.param(59.9, "59s", id="only whole seconds count"),
        pytest.param(60, "1m", id="a whole minute"),
        pytest.param(601, "10m 1s", id="minutes and seconds"),
        pytest.param(7200, "2h", id="whole hours"),
        pytest.param(276_125, "3d 4h", id="what is smaller than two units is left out"),
        pytest.param(172_801, "2d 1s", id="units that are zero are left out"),
        pytest.param(400 * 86_400, "400d", id="days are the largest unit"),
    ],
)
def test_a_time_is_written_with_its_two_largest_units(seconds: float, words: str) -> None:
    assert format_age(seconds) == words
