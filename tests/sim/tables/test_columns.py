import pytest

from reactive_desched.sim.tables.columns import human_duration, or_none, selectors

MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (10 * MINUTE + 1, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (8 * DAY + 4 * HOUR, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (735 * DAY, "2y5d"),
        (3000 * DAY, "8y"),
    ],
)
def test_an_age_as_people_say_it(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_nothing_is_said_as_none() -> None:
    assert selectors({}) == "<none>"
    assert (or_none(None), or_none(""), or_none([]), or_none(["a", "b"])) == (
        "<none>",
        "<none>",
        "<none>",
        "a,b",
    )
