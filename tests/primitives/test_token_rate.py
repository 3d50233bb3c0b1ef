import pytest

from reactive_desched.primitives.token_bucket import TokenRate


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (TokenRate(0.5, 10), "30 a minute, 10 at once"),
        (TokenRate(1 / 3600, 1), "1 an hour, 1 at once"),
        (TokenRate(1.5 / 86_400, 1), "1.5 a day, 1 at once"),
        (TokenRate(5 / 3, 33), "100 a minute, 33 at once"),
    ],
)
def test_rates_are_written_as_people_say_them(rate: TokenRate, text: str) -> None:
    assert str(rate) == text
