import pytest

from reactive_desched.text.counts import format_ordinal


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (13, "13th"),
        (21, "21st"),
        (111, "111th"),
        (1022, "1,022nd"),
    ],
)
def test_a_place_is_written_as_an_ordinal(number: int, written: str) -> None:
    assert format_ordinal(number) == written
