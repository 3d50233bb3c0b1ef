"""Quantities are read exactly, as apimachinery's resource.Quantity reads them."""

from decimal import ROUND_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import QuantityError
from reactive_desched.model.quantities import (
    canonical_quantity,
    integer_value,
    milli_value,
    parse_quantity,
)

MOST_BINARY = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "units", "thousandths"),
    [
        ("0.5", 1, 500),
        ("1.5", 2, 1500),
        ("1500m", 2, 1500),
        ("1000m", 1, 1000),
        ("1000", 1000, 1_000_000),
        ("1024", 1024, 1_024_000),
        ("1Ki", 1024, 1_024_000),
        ("1024Mi", 2**30, 2**30 * 1000),
        ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
        ("0.25Ki", 256, 256_000),
        ("1.5Ki", 1536, 1_536_000),
        ("0.1", 1, 100),
        ("0.1m", 1, 1),
        ("1u", 1, 1),
        ("1n", 1, 1),
        ("1e3", 1000, 1_000_000),
        ("1E3", 1000, 1_000_000),
        ("1e+3", 1000, 1_000_000),
        ("5e-1", 1, 500),
        ("1E", 10**18, 10**21),
        ("1k", 1000, 1_000_000),
        ("1M", 10**6, 10**9),
        ("1G", 10**9, 10**12),
        ("1T", 10**12, 10**15),
        ("1P", 10**15, 10**18),
        ("100Mi", 104_857_600, 104_857_600_000),
        ("128974848", 128_974_848, 128_974_848_000),
        ("1.2345678911", 2, 1235),
        ("0", 0, 0),
        ("0Gi", 0, 0),
        ("5.", 5, 5000),
        (".5", 1, 500),
        ("+2", 2, 2000),
        ("-1500m", -2, -1500),
        ("-0.1m", -1, -1),
        ("007", 7, 7000),
    ],
)
def test_a_quantity_has_these_whole_units_and_thousandths(
    text: str, units: int, thousandths: int
) -> None:
    assert (integer_value(text), milli_value(text)) == (units, thousandths)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("1.2345678911", Fraction(1_234_567_892, 10**9), id="rounds up at one nano"),
        pytest.param("0.0000000001", Fraction(1, 10**9), id="nothing positive rounds to zero"),
        pytest.param("-0.0000000001", Fraction(-1, 10**9), id="nor anything negative"),
        pytest.param("0.1n", Fraction(1, 10**9), id="a tenth of a nano is a nano"),
        pytest.param("0.3", Fraction(3, 10), id="three tenths are exact"),
    ],
)
def test_precision_ends_at_one_nano_away_from_zero(text: str, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    ("text", "units"),
    [
        pytest.param("8Ei", MOST_BINARY, id="a binary suffix ends at 2^63-1"),
        pytest.param("9999999Pi", MOST_BINARY, id="however large"),
        pytest.param("100.5Ei", MOST_BINARY, id="with a fraction too"),
        pytest.param("-8Ei", -MOST_BINARY, id="and below zero"),
        pytest.param("7Ei", 7 * 2**60, id="below it nothing changes"),
        pytest.param("10E", 10**19, id="a decimal suffix has no such end"),
    ],
)
def test_binary_quantities_end_where_upstream_caps_them(text: str, units: int) -> None:
    assert integer_value(text) == units
    assert parse_quantity(text) == units


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("1KB", id="bytes as in shops"),
        pytest.param("1K", id="an upper-case K alone"),
        pytest.param("1mi", id="a lower-case mebi"),
        pytest.param("1e", id="an exponent without digits"),
        pytest.param("1e3Ki", id="an exponent and a suffix"),
        pytest.param("1 Gi", id="a space inside"),
        pytest.param(" 1", id="a space before"),
        pytest.param("1\n", id="a newline after"),
        pytest.param(".", id="a point alone"),
        pytest.param("1.2.3", id="two points"),
        pytest.param("+-1", id="two signs"),
        pytest.param("1_000", id="an underscore"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("\u0661", id="a digit of another script"),
        pytest.param("²", id="a superscript"),
        pytest.param("1e31", id="an exponent no cluster has"),
        pytest.param("1e-31", id="nor such a small one"),
        pytest.param("1" * 65, id="longer than any quantity"),
        pytest.param("1" * 63 + "Ki", id="longer by its suffix"),
        pytest.param("1" * 5000, id="longer than Python converts"),
        pytest.param("true", id="a word"),
        pytest.param("inf", id="infinity"),
        pytest.param("NaN", id="not a number"),
    ],
)
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    for read in (parse_quantity, milli_value, integer_value):
        with pytest.raises(QuantityError) as refused:
            read(text)
        assert repr(text) in str(refused.value)


# --- properties --------------------------------------------------------------------------------

SCALES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "e3": Decimal("1e3"),
    "E-2": Decimal("1e-2"),
}
numbers = st.decimals(-99_999, 99_999, places=3).map(lambda number: format(number, "f"))
quantities = st.tuples(numbers, st.sampled_from(sorted(SCALES)))


def rounded_up(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_UP))


@given(quantities)
def test_units_and_thousandths_are_the_decimal_value_rounded_away_from_zero(
    quantity: tuple[str, str],
) -> None:
    number, suffix = quantity
    value = Decimal(number) * SCALES[suffix]

    assert integer_value(number + suffix) == rounded_up(value)
    assert milli_value(number + suffix) == rounded_up(value * 1000)


@given(
    st.integers(0, 10**15), st.sampled_from([*"mkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", ""])
)
def test_plain_integers_are_read_the_same_with_and_without_a_fraction(
    number: int, suffix: str
) -> None:
    assert integer_value(f"{number}{suffix}") == integer_value(f"{number}.0{suffix}")
    assert milli_value(f"{number}{suffix}") == milli_value(f"{number}.0{suffix}")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("0.0001", "100u"),
        ("2000k", "2M"),
        ("1500", "1500"),
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("0.3Gi", "322122547200m"),
        ("12e6", "12e6"),
        ("1200e3", "1200e3"),
        ("0Gi", "0"),
        ("-1500m", "-1500m"),
    ],
)
def test_a_quantity_is_written_as_the_api_server_writes_it(text: str, written: str) -> None:
    assert canonical_quantity(text) == written
    assert parse_quantity(written) == parse_quantity(text)


@given(st.fractions(0, 10**6, max_denominator=10**9))
def test_a_value_of_whole_nanos_survives_being_written_and_read(value: Fraction) -> None:
    nanos = -(-value.numerator * 10**9 // value.denominator)

    assert parse_quantity(f"{nanos}n") == Fraction(nanos, 10**9)
    assert parse_quantity(f"{nanos // 10**9}.{nanos % 10**9:09}") == Fraction(nanos, 10**9)


@given(st.text(max_size=80) | st.text("0123456789.eEinumkKMGTP+-", max_size=12))
def test_a_text_is_a_quantity_for_every_reader_or_for_none(text: str) -> None:
    answers = []
    for read in (parse_quantity, milli_value, integer_value):
        try:
            read(text)
        except QuantityError:
            answers.append(False)
        else:
            answers.append(True)

    assert len(set(answers)) == 1
