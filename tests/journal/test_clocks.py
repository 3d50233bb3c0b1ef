"""The uptime of the machine has the name of the boot; where there is none, there is no uptime."""

from pathlib import Path

import pytest

from reactive_desched.api.event import Uptime
from reactive_desched.journal import clocks as clocks_module
from reactive_desched.journal.clocks import machine_uptime, seconds_between
from reactive_desched.primitives.boottime import BOOT_ID_FILE, boottime, read_boot_id


@pytest.mark.skipif(not BOOT_ID_FILE.exists(), reason="this system does not name its boots")
def test_two_readings_of_this_machine_are_of_one_boot_and_as_far_apart_as_its_clock_says() -> None:
    before, now, after = boottime(), machine_uptime()(), boottime()

    assert now is not None
    assert now.boot_id == BOOT_ID_FILE.read_text().strip()
    assert round(before * 1000) <= now.milliseconds <= round(after * 1000)


def test_a_machine_whose_boots_have_no_names_has_no_uptime(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(clocks_module, "read_boot_id", lambda: read_boot_id(tmp_path / "none"))

    assert machine_uptime()() is None


def test_times_of_two_boots_have_no_distance() -> None:
    one, other = (Uptime(boot_id=each, milliseconds=5000) for each in ("one", "other"))
    later = Uptime(boot_id="one", milliseconds=6500)

    assert seconds_between(one, later) == 1.5
    assert [seconds_between(*pair) for pair in ((one, other), (None, one), (one, None))] == [
        None,
        None,
        None,
    ]
