"""A preview of the controller reads the calendars of schedules, or says which it cannot read."""

from pathlib import Path
from typing import Any

import pytest

from reactive_desched.plan.mode import PlanMode
from tests.plan.test_assumed_cluster import POLICY, SETTINGS, UNPACED, evictions, preview
from tests.support.golden import Golden

FREEZE = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\n"
    "DTSTART;VALUE=DATE:{day}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)


def schedule(file: object, more: str = "") -> str:
    entry = f"{{name: freezes, calendar: {{file: {file}{more}}}}}"
    return UNPACED.replace("plugin: null}", f"plugin: null, schedules: [{entry}]}}")


def objects(world: Any) -> list[Any]:
    return [world.node("n1", "gpu"), world.node("n2"), world.pod("web")]


@pytest.mark.parametrize(
    ("day", "reasons"), [("20260501", ["ScheduleAllowsNone"]), ("20260502", [])]
)
def test_a_freeze_of_the_day_lets_no_pod_go(
    world: Any, tmp_path: Path, day: str, reasons: list[str]
) -> None:
    file = tmp_path / "freezes.ics"
    file.write_text(FREEZE.format(day=day))

    report = preview(world, *objects(world), settings=schedule(file))

    assert [each.reason for each in report.decisions if each.action != "Evict"] == reasons
    assert bool(evictions(report)) == (not reasons)
    assert "calendar" not in "\n".join(report.warnings)


@pytest.mark.parametrize(("unread", "holds"), [("hold", True), ("open", False)])
def test_a_calendar_that_cannot_be_read_is_named_with_what_follows(
    world: Any, unread: str, golden: Golden, *, holds: bool
) -> None:
    settings = schedule("gone.ics", f", whileUnread: {unread}")

    report = preview(world, *objects(world), settings=settings)

    assert bool(evictions(report)) != holds
    assert report.warnings[0] == golden()


def test_a_sweep_reads_none(world: Any) -> None:
    policy = POLICY + SETTINGS + schedule("gone.ics")
    cluster = world.file(world.listed(objects(world)))

    report = world.look(cluster, mode=PlanMode.ONCE, policy=policy)

    assert evictions(report)
    assert "calendar" not in "\n".join(report.warnings)
