"""The deletion cost of a pod is read as the API server and the ReplicaSet controller read it."""

import pytest

from reactive_desched.model.deletion_cost import read_deletion_cost


@pytest.mark.parametrize(
    ("written", "cost"),
    [
        ("0", 0),
        ("-0", 0),
        ("7", 7),
        ("-7", -7),
        ("-08", -8),
        ("-" + "0" * 5000, 0),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
    ],
)
def test_a_number_of_32_bits_is_a_cost(written: str, cost: int) -> None:
    assert read_deletion_cost(written) == cost


NONE = ("+7", "08", "00", " 7", "7 ", "7.0", "1e3", "1_000", "0x7", "-", "--7", "-+7", "٣", "low")


@pytest.mark.parametrize("written", [None, "", *NONE, "2147483648", "-2147483649", "9" * 5000])
def test_anything_else_is_none(written: str | None) -> None:
    assert read_deletion_cost(written) is None
