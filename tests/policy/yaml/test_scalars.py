import pytest

from reactive_desched.policy.yaml.scalars import NotFiniteError, parse_scalar


@pytest.mark.parametrize("word", ["yes", "Yes", "on", "ON", "true", "y", "True"])
def test_the_yaml_1_1_words_for_yes_are_true(word: str) -> None:
    assert parse_scalar(word) is True


@pytest.mark.parametrize("word", ["no", "NO", "off", "Off", "false", "n", "False"])
def test_the_yaml_1_1_words_for_no_are_false(word: str) -> None:
    assert parse_scalar(word) is False


@pytest.mark.parametrize("word", ["", "~", "null", "Null", "NULL"])
def test_the_words_for_nothing_are_none(word: str) -> None:
    assert parse_scalar(word) is None


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("0", 0),
        ("3600", 3600),
        ("-7", -7),
        ("+7", 7),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("017", 15),
        ("08", 8),
        ("3.0", 3),
        ("2e3", 2000),
        ("-0.0", 0),
    ],
)
def test_whole_numbers_are_integers_however_they_are_written(word: str, number: int) -> None:
    assert parse_scalar(word) == number
    assert type(parse_scalar(word)) is int


@pytest.mark.parametrize(("word", "number"), [("2.5", 2.5), (".5", 0.5), ("1.25e1", 12.5)])
def test_fractions_are_floats(word: str, number: float) -> None:
    assert parse_scalar(word) == number


@pytest.mark.parametrize(
    "word",
    [
        "1h30m",
        "1:30",
        "2026-01-31",
        "1.2.3",
        "0x",
        "-",
        ".",
        "pool",
        "127.0.0.1",
        "tRUE",
        "1e999",
        "9" * 400,
    ],
)
def test_anything_else_is_the_text_it_looks_like(word: str) -> None:
    assert parse_scalar(word) == word


@pytest.mark.parametrize("word", [".inf", "-.Inf", ".NaN"])
def test_a_number_nothing_can_hold_is_refused(word: str) -> None:
    with pytest.raises(NotFiniteError):
        parse_scalar(word)
