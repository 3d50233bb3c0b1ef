"""Numbers and percentages."""

import pytest

from reactive_desched.sim.controllers.rollout import share_of


@pytest.mark.parametrize(
    ("value", "up", "down"), [(3, 3, 3), ("25%", 3, 2), ("0%", 0, 0), ("100%", 10, 10)]
)
def test_a_percentage_is_rounded_as_asked(value: object, up: int, down: int) -> None:
    assert share_of(value, 10, round_up=True) == up
    assert share_of(value, 10, round_up=False) == down


@pytest.mark.parametrize("wrong", ["3", "x%", "%", "1.5%"])
def test_anything_else_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="IntOrString"):
        share_of(wrong, 10, round_up=True)
