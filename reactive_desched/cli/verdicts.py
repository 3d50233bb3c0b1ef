"""What `policy check` prints: for people line by line, for programs as one object."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import structs

from reactive_desched._version import __version__
from reactive_desched.policy.diagnostics import Diagnostic
from reactive_desched.policy.load import PolicyCheckResult

PolicyCheckResults = Mapping[str, PolicyCheckResult]
"""What was found, by the name of the file on the command line."""

Notes = Mapping[str, Sequence[str]]
"""What a sound policy does that its author may not expect, by the name of the file."""

_LENIENT: Final = "--lenient-policy"
_MAX_LINE_CHARS: Final = 200


class _RankedDiagnostic(NamedTuple):
    """A problem, and how much it matters."""

    diagnostic: Diagnostic
    severity: Literal["error", "warning"]


def has_no_errors(results: PolicyCheckResults) -> bool:
    """Say whether there is nothing wrong in any file."""
    return not any(verdict.errors for verdict in results.values())


def as_text(results: PolicyCheckResults, notes: Notes) -> str:
    """Give a line for each problem and note, as compilers write them, and one that sums up."""
    lines = []
    for verdict in results.values():
        for ranked in _ranked(verdict):
            lines.append(format_diagnostic(*ranked))
            lines += _excerpt(ranked.diagnostic, verdict)
    cut = [name for name, verdict in results.items() if not verdict.complete]
    lines += [f"{name}: error: there are more problems than these" for name in cut]
    lines += [f"{name}: note: {text}" for name, texts in notes.items() for text in texts]
    return "\n".join((*lines, _summary(results))) + "\n"


def _excerpt(problem: Diagnostic, verdict: PolicyCheckResult) -> Iterator[str]:
    """Yield the line of a text that is not valid YAML, and a caret under the place."""
    if problem.path or not problem.line or verdict.source is None:
        return
    text = verdict.source.text
    lines = (text if isinstance(text, str) else text.decode(errors="replace")).splitlines()
    if problem.line > len(lines):
        return
    line = lines[problem.line - 1].lstrip("\ufeff").replace("\t", " ")
    if len(line) > _MAX_LINE_CHARS or not line.isprintable():
        return
    number = str(problem.line)
    yield f"{number} | {line}"
    yield f"{'':{len(number)}} | {'':{problem.column - 1}}^"


def as_github(results: PolicyCheckResults, _: Notes) -> str:
    """Give a workflow command of GitHub Actions for each problem, which marks its line."""
    commands = []
    for problem, severity in _ranked_diagnostics(results):
        place = f"file={_github(problem.source, in_property=True)}"
        if problem.line:
            place += f",line={problem.line},col={problem.column}"
        where = f"{problem.source}:{problem.line}:{problem.column}: "
        text = str(problem).removeprefix(where if problem.line else f"{problem.source}: ")
        commands.append(f"::{severity} {place}::{_github(text)}\n")
    return "".join(commands)


def _github(text: str, *, in_property: bool = False) -> str:
    """Escape a text as the commands of GitHub Actions need it."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if in_property else text


def as_sarif(results: PolicyCheckResults, _: Notes) -> str:
    """Give a log of SARIF 2.1.0, which code scanning reads."""
    found = []
    for problem, severity in _ranked_diagnostics(results):
        location: dict[str, object] = {"artifactLocation": {"uri": problem.source}}
        if problem.line:
            location["region"] = {"startLine": problem.line, "startColumn": problem.column}
        text = ": ".join(filter(None, (problem.path, problem.message)))
        found.append(
            {
                "level": severity,
                "message": {"text": f"{text}; {problem.hint}" if problem.hint else text},
                "locations": [{"physicalLocation": location}],
            }
        )
    tool = {"driver": {"name": "reactive-desched", "version": __version__}}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    log = {"$schema": schema, "version": "2.1.0", "runs": [{"tool": tool, "results": found}]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def as_json(results: PolicyCheckResults, notes: Notes) -> str:
    """Give one object; `policy check --help` describes it."""
    ranked = list(_ranked_diagnostics(results))
    problems = [
        {"severity": severity, "file": problem.source, **structs.asdict(problem)}
        for problem, severity in ranked
    ]
    for problem in problems:
        del problem["source"]
    summary = {
        "ok": has_no_errors(results),
        "errors": sum(severity == "error" for _, severity in ranked),
        "warnings": sum(severity == "warning" for _, severity in ranked),
        "complete": all(verdict.complete for verdict in results.values()),
    }
    noted = [{"file": name, "message": text} for name, texts in notes.items() for text in texts]
    found = {**summary, "problems": problems, "notes": noted}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _ranked_diagnostics(results: PolicyCheckResults) -> Iterator[_RankedDiagnostic]:
    """Give everything found, file by file in the order of the lines."""
    for verdict in results.values():
        yield from _ranked(verdict)


def _ranked(verdict: PolicyCheckResult) -> list[_RankedDiagnostic]:
    """Give what was found in one file, in the order of the lines."""
    errors = (_RankedDiagnostic(problem, "error") for problem in verdict.errors)
    warnings = (_RankedDiagnostic(problem, "warning") for problem in verdict.warnings)
    return sorted((*errors, *warnings), key=_line_and_column)


def _line_and_column(ranked: _RankedDiagnostic) -> tuple[int, int]:
    return ranked.diagnostic.line, ranked.diagnostic.column


def format_diagnostic(diagnostic: Diagnostic, severity: Literal["error", "warning"]) -> str:
    """Write a problem with its severity between the place and the text."""
    where = (
        f"{diagnostic.source}:{diagnostic.line}:{diagnostic.column}"
        if diagnostic.line
        else diagnostic.source
    )
    return f"{where}: {severity}{str(diagnostic).removeprefix(where)}"


def _summary(results: PolicyCheckResults) -> str:
    """Count what was found, and say what a lenient reading would accept."""
    ranked = list(_ranked_diagnostics(results))
    errors = [problem for problem, severity in ranked if severity == "error"]
    counts = f"{_count(len(errors), 'error')}, {_count(len(ranked) - len(errors), 'warning')}"
    files = _count(len(results), "file")
    forgivable = sum(problem.forgivable for problem in errors)
    if not forgivable:
        return f"{files}: {counts}"
    only = "warnings" if forgivable > 1 else "a warning"
    return f"{files}: {counts}; {forgivable} of the errors would be {only} with {_LENIENT}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
