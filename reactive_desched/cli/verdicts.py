"""What `policy check` prints: for people line by line, for programs as one object."""

import json
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from msgspec import structs

from reactive_desched.policy.diagnostics import Problem
from reactive_desched.policy.load import Verdict

Verdicts = Mapping[str, Verdict]
"""What was found, by the name of the file on the command line."""

_LENIENT: Final = "--lenient-policy"


class _Told(NamedTuple):
    """A problem, and how much it matters."""

    problem: Problem
    severity: Literal["error", "warning"]


def is_sound(verdicts: Verdicts) -> bool:
    """Say whether there is nothing wrong in any file."""
    return not any(verdict.problems for verdict in verdicts.values())


def as_text(verdicts: Verdicts) -> str:
    """Give a line for each problem, as compilers write them, and one that sums up."""
    lines = [line(*told) for told in _all(verdicts)]
    cut = [name for name, verdict in verdicts.items() if not verdict.complete]
    lines += [f"{name}: error: there are more problems than these" for name in cut]
    return "\n".join((*lines, _summary(verdicts))) + "\n"


def as_json(verdicts: Verdicts) -> str:
    """Give one object; `policy check --help` describes it."""
    told = list(_all(verdicts))
    problems = [
        {"severity": severity, "file": problem.source, **structs.asdict(problem)}
        for problem, severity in told
    ]
    for problem in problems:
        del problem["source"]
    summary = {
        "ok": is_sound(verdicts),
        "errors": sum(severity == "error" for _, severity in told),
        "warnings": sum(severity == "warning" for _, severity in told),
        "complete": all(verdict.complete for verdict in verdicts.values()),
    }
    return json.dumps({**summary, "problems": problems}, indent=2, ensure_ascii=False) + "\n"


def _all(verdicts: Verdicts) -> Iterator[_Told]:
    """Give everything found, file by file in the order of the lines."""
    for verdict in verdicts.values():
        errors = (_Told(problem, "error") for problem in verdict.problems)
        warnings = (_Told(problem, "warning") for problem in verdict.warnings)
        yield from sorted((*errors, *warnings), key=_place)


def _place(told: _Told) -> tuple[int, int]:
    return told.problem.line, told.problem.column


def line(problem: Problem, severity: Literal["error", "warning"]) -> str:
    """Write a problem with its severity between the place and the text."""
    where = f"{problem.source}:{problem.line}:{problem.column}" if problem.line else problem.source
    return f"{where}: {severity}{str(problem).removeprefix(where)}"


def _summary(verdicts: Verdicts) -> str:
    """Count what was found, and say what a lenient reading would accept."""
    told = list(_all(verdicts))
    errors = [problem for problem, severity in told if severity == "error"]
    counts = f"{_count(len(errors), 'error')}, {_count(len(told) - len(errors), 'warning')}"
    files = _count(len(verdicts), "file")
    forgivable = sum(problem.forgivable for problem in errors)
    if not forgivable:
        return f"{files}: {counts}"
    only = "warnings" if forgivable > 1 else "a warning"
    return f"{files}: {counts}; {forgivable} of the errors would be {only} with {_LENIENT}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
