"""`policy check` warns of schedules that leave no time for evictions."""

from datetime import UTC, datetime

import pytest

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source
from tests.support.golden import Golden

NOW_S = datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp()  # a Saturday


def warned(*schedules: str) -> list[str]:
    lines = "".join(f"  - {each}\n" for each in schedules)
    head = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    text = f"{head}budgets:\n  schedules:\n{lines}"
    result = check_source(
        SourceText(text.encode(), "s.yaml"), plugin_registry(), wall_clock=lambda: NOW_S
    )
    assert result.errors == ()
    return [str(each) for each in result.warnings]


@pytest.mark.parametrize(
    "schedules",
    [
        ["{close: [mon-sun]}"],
        ["{schedule: 0 9 * * *, duration: 24h, evictions: 0}"],
        ["{allow: [2025-12-24]}"],
        ["{allow: [tue 10:00-12:00]}", "{close: [tue], name: Tuesdays}"],
        ["{allow: [tue 10:00-12:00], namespaces: [a]}", "{close: [tue 9:00-13:00]}"],
        ["{close: [00:00-12:00]}", "{close: [12:00-24:00]}", "{close: [sat]}"],
        ["{close: [2025-12-24 to 2026-01-06]}"],
    ],
)
def test_schedules_that_leave_no_time_are_named(schedules: list[str], golden: Golden) -> None:
    assert "\n".join(warned(*schedules)) == golden()


@pytest.mark.parametrize(
    "schedules",
    [
        ["{schedule: 0 9 * * *, duration: 23h, evictions: 0}"],
        ["{schedule: 0 9 * * *, duration: 24h, evictions: 5}"],
        ["{allow: [tue 10:00-12:00]}", "{allow: [fri]}", "{close: [tue]}"],
        ["{allow: [tue 10:00-12:00], namespaces: [a]}", "{close: [tue], namespaces: [b]}"],
        [
            "{allow: [tue 10:00-12:00], nodeSelector: pool=web}",
            "{close: [tue], nodeSelector: pool=batch}",
        ],
        ["{close: [00:00-12:00], profiles: [a]}", "{close: [12:00-24:00], plugins: [PodLifeTime]}"],
        ["{close: [2026-12-20 to 2027-01-06]}", "{allow: [2026-12-20 to 2027-01-07]}"],
    ],
)
def test_schedules_that_leave_some_time_to_each_are_fine(schedules: list[str]) -> None:
    assert warned(*schedules) == []


def test_where_some_evictions_are_never_allowed_that_is_said_of_the_narrower_schedule() -> None:
    [warning] = warned("{close: [tue]}", "{allow: [tue 10:00-12:00], nodeSelector: pool=batch}")

    assert "budgets.schedules[1]" in warning
