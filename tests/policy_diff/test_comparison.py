"""A comparison says where its old policy did otherwise than the recorded controller."""

import pytest

from reactive_desched.policy_diff.comparison import compare_policies
from reactive_desched.policy_diff.decisions import FoundPod, MadeEviction, PolicyDecisions
from reactive_desched.policy_diff.report import RecordedTime
from tests.support.golden import Golden


def decisions(count: int) -> PolicyDecisions:
    about = "shop", "Deployment shop/web", "n1", "default", "NodeTaints", ""
    pods = (FoundPod(f"u{number}", f"web-{number}", *about) for number in range(count))
    return PolicyDecisions(
        version="1",
        files=(),
        revision="",
        plugins=("NodeTaints",),
        began_s=0.0,
        ended_s=3600.0,
        evictions=tuple(MadeEviction(60.0, each, was_ready=True) for each in pods),
        held=(),
        blocked=(),
    )


def warnings(calculated: int, made: int, named: int | None) -> tuple[str, ...]:
    recorded = RecordedTime("r", "", "", 3600.0, "", "1", made, 0, named, 0)
    return compare_policies(decisions(calculated), decisions(0), recorded, ["a gap"]).warnings


@pytest.mark.parametrize(
    ("calculated", "made", "named"), [(0, 0, 0), (10, 10, 10), (10, 10, 8), (9, 20, None)]
)
def test_a_calculation_that_is_near_the_record_has_no_warning(
    calculated: int, made: int, named: int | None
) -> None:
    assert warnings(calculated, made, named) == ("a gap",)


@pytest.mark.parametrize(("calculated", "made", "named"), [(10, 10, 7), (3, 10, 3), (30, 10, 10)])
def test_one_that_is_far_from_it_says_so_first(
    calculated: int, made: int, named: int, golden: Golden
) -> None:
    first, *others = warnings(calculated, made, named)

    assert others == ["a gap"]
    assert first == golden()
