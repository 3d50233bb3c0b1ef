"""The section `brakes`: what is refused, what `null` means, and how thresholds grow."""

import pytest
from pydantic import ValidationError

from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from tests.support.golden import Golden


def read(brakes: object) -> BrakeSettings:
    """Read the section as a file has it."""
    return ReactiveSettings.model_validate({"brakes": brakes}).brakes


@pytest.mark.parametrize(
    "brakes",
    [
        pytest.param({"zones": {"unhealthyPercent": 0}}, id="no share of nodes"),
        pytest.param({"zones": {"unhealthyPercent": 101}}, id="more than all nodes"),
        pytest.param({"zones": {"largeZoneRate": {"evictions": 0}}}, id="no evictions"),
        pytest.param({"storm": {"pods": 0}}, id="no pods are a storm"),
        pytest.param({"storm": {"window": "60"}}, id="a time without a unit"),
        pytest.param({"storm": {"window": "0s"}}, id="no time"),
        pytest.param({"pending": {"percent": "1%"}}, id="a share as a text"),
        pytest.param({"gusts": None}, id="an unknown brake"),
    ],
)
def test_what_makes_no_sense_is_refused(brakes: object) -> None:
    with pytest.raises(ValidationError):
        read(brakes)


@pytest.mark.parametrize("brake", ["zones", "storm", "pending"])
def test_null_switches_one_brake_off(brake: str) -> None:
    settings = read({brake: None})

    assert {name for name in ("zones", "storm", "pending") if getattr(settings, name) is None} == {
        brake
    }


@pytest.mark.parametrize(
    ("pods", "storm", "pending"),
    [(40, 100, 10), (1500, 150, 15), (150_000, 15_000, 1500)],
)
def test_thresholds_grow_with_the_cluster_and_are_shown_so(
    pods: int, storm: int, pending: int, golden: Golden
) -> None:
    assert BrakeSettings().describe(pods) == {
        "zone": golden(),
        "storm": f"from {storm} pods found within 60 s",
        "pending": f"from {pending} unschedulable pods",
        "health": "off",
        "pause_file": "none",
    }


def test_a_brake_that_is_off_is_shown_as_off() -> None:
    shown = read({"zones": None, "storm": None, "pending": None}).describe(10)

    assert {shown[name] for name in ("zone", "storm", "pending")} == {"off"}
