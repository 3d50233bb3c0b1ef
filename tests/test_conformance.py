"""What the SIG descheduler did on recorded clusters, `plan` would do as well.

The recordings stand beside the repository; where they do not, one test is skipped and says so.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.plan.command import build_report
from reactive_desched.plan.inputs import PlanOptions
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.progress import Progress
from tests.support.conformance import (
    FOLDER,
    RecordedCase,
    case_parameters,
    check,
    read_cases,
    write_case,
)

WHOLE_COMMAND = (
    "DefaultEvictor-00-0",
    "InvalidPolicy-00-0",
    "Limits-00-0",
    "PolicyV1Alpha1-taints-0-0",
    "RemovePodsViolatingNodeTaints-00-0",
)
"""The cases that also run through the command as it is started from a shell."""

Answer = Callable[[ModuleType, RecordedCase, Path], tuple[Any, int, str]]


def answered(_: ModuleType, case: RecordedCase, folder: Path) -> tuple[Any, int, str]:
    """Answer as the command does: what it prints, its exit status, what it complains of."""
    written = write_case(case, folder)
    options = PlanOptions(
        policy=written["policy"],
        files=(written["cluster"],),
        mode=PlanMode.UPSTREAM,
        now=written["now"],
        passes=int(written["passes"]),
    )
    try:
        report = msgspec.json.encode(build_report(options, Progress()))
        return msgspec.json.decode(report), 0, ""
    except ConfigError as error:
        return None, 2, str(error)


def answered_by_the_command(comparing: ModuleType, case: RecordedCase, _: Path) -> Any:
    """Answer as the command does, by running it."""
    command = (
        f"{sys.executable} -m reactive_desched plan --as upstream -f {{cluster}}"
        " --policy {policy} --now {now} --passes {passes} -o json"
    )
    return comparing.run(case.read(), command)


RECORDED = [
    *case_parameters(FOLDER, answered),
    *(
        pytest.param(case, answered_by_the_command, id=f"{case.name}-as-a-program")
        for case in (read_cases(FOLDER) if FOLDER.exists() else ())
        if case.name in WHOLE_COMMAND
    ),
]


@pytest.mark.parametrize(("case", "answer"), RECORDED)
def test_what_was_recorded_is_what_plan_says(
    case: RecordedCase, answer: Answer, tmp_path: Path
) -> None:
    comparing = check()

    assert comparing.compare(case.read(), *answer(comparing, case, tmp_path)) == []
