"""What the SIG descheduler did on recorded clusters, `plan` would do as well.

The recordings stand beside the repository; where they do not, one test is skipped and says so.
"""

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.plan.command import PlanOptions, build_report
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.progress import Progress

FOLDER = Path(__file__).parent.parent.parent / "shared" / "conformance"

WHOLE_COMMAND = (
    "DefaultEvictor-00-0",
    "InvalidPolicy-00-0",
    "Limits-00-0",
    "PolicyV1Alpha1-taints-0-0",
    "RemovePodsViolatingNodeTaints-00-0",
)
"""The cases that also run through the command as it is started from a shell."""

Case = dict[str, Any]  # a recording, as its JSON line has it
Answer = Callable[[ModuleType, Case, Path], tuple[Any, int, str]]


@cache
def check() -> ModuleType:
    """Load what compares an answer with a recording, from beside the recordings."""
    spec = importlib.util.spec_from_file_location("conformance_check", FOLDER / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answered(comparing: ModuleType, case: Case, folder: Path) -> tuple[Any, int, str]:
    """Answer as the command does: what it prints, its exit status, what it complains of."""
    written = comparing.write(case, str(folder))
    options = PlanOptions(
        policy=written["policy"],
        files=(written["cluster"],),
        mode=PlanMode.UPSTREAM,
        now=written["now"],
        passes=int(written["passes"]),
    )
    try:
        return json.loads(msgspec.json.encode(build_report(options, Progress()))), 0, ""
    except ConfigError as error:
        return None, 2, str(error)


def answered_by_the_command(comparing: ModuleType, case: Case, _: Path) -> Any:
    """Answer as the command does, by running it."""
    command = (
        f"{sys.executable} -m reactive_desched plan --as upstream -f {{cluster}}"
        " --policy {policy} --now {now} --passes {passes} -o json"
    )
    return comparing.run(case, command)


def recorded() -> Iterator[Any]:
    """Yield every case; expected to fail is one that a plugin to come would have to decide."""
    if not (FOLDER / "check.py").is_file():
        reason = f"there are no recordings: looked for check.py and *.jsonl in {FOLDER}"
        yield pytest.param({}, answered, id="none", marks=pytest.mark.skip(reason=reason))
        return
    for case in check().load([str(FOLDER)]):
        yield pytest.param(case, answered, id=case["name"])
        if case["name"] in WHOLE_COMMAND:
            yield pytest.param(case, answered_by_the_command, id=f"{case['name']}-as-a-program")


@pytest.mark.parametrize(("case", "answer"), tuple(recorded()))
def test_what_was_recorded_is_what_plan_says(case: Case, answer: Answer, tmp_path: Path) -> None:
    comparing = check()

    assert comparing.compare(case, *answer(comparing, case, tmp_path)) == []
