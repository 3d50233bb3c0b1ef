"""How many pods of a workload may move at a time: the table of koordinator's formula."""

import re

import pytest

from reactive_desched.migration.limits import workload_limit
from reactive_desched.migration.settings import WorkloadLimit
from tests.support.golden import Golden

WRITTEN: tuple[WorkloadLimit, ...] = (None, 0, 1, 2, 5, "10%", "25%", "50%", "100%")
TABLE = (
    (0, (0, 0, 0, 0, 0, 0, 0, 0, 0)),
    (1, (1, 1, 1, 1, 1, 1, 1, 1, 1)),
    (2, (1, 1, 1, 2, 2, 1, 1, 1, 2)),
    (3, (1, 1, 1, 2, 3, 1, 1, 1, 3)),
    (4, (2, 1, 1, 2, 4, 1, 1, 2, 4)),
    (8, (2, 1, 1, 2, 5, 1, 2, 4, 8)),
    (10, (2, 1, 1, 2, 5, 1, 2, 5, 10)),
    (11, (1, 1, 1, 2, 5, 1, 2, 5, 11)),
    (19, (1, 1, 1, 2, 5, 1, 4, 9, 19)),
    (20, (2, 1, 1, 2, 5, 2, 5, 10, 20)),
    (100, (10, 1, 1, 2, 5, 10, 25, 50, 100)),
)


@pytest.mark.parametrize(("replicas", "limits"), TABLE)
def test_the_limits_are_those_of_the_table(replicas: int, limits: tuple[int, ...]) -> None:
    assert tuple(workload_limit(replicas, written) for written in WRITTEN) == limits


@pytest.mark.parametrize(
    ("replicas", "written", "limit"),
    [(6, "80%", 4), (6, "150%", 6), (6, 7, 6), (50, "0%", 1), (6, -1, -1)],
)
def test_a_limit_is_rounded_down_and_never_above_the_replicas(
    replicas: int, written: WorkloadLimit, limit: int
) -> None:
    assert workload_limit(replicas, written) == limit


@pytest.mark.parametrize("written", ["10", "ten%", "", "1.5%"])
def test_a_text_that_is_no_whole_percentage_is_refused(written: str, golden: Golden) -> None:
    with pytest.raises(ValueError, match=re.escape(golden())):
        workload_limit(10, written)


def test_a_share_is_rounded_down() -> None:
    assert workload_limit(3, "66%") == 1
