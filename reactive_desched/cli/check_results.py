"""Prints the results of `policy check`: line by line for people, one object for programs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from reactive_desched._version import __version__
from reactive_desched.policy.load import PolicyCheckResult
from reactive_desched.policy.report import MarkedText, Report, Severity
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.tree import SourceMark
from reactive_desched.text.counts import format_count

if TYPE_CHECKING:
    from reactive_desched.policy.corrections import Correction
    from reactive_desched.policy.rule_pages import RulePage

PolicyCheckResults = Mapping[str, PolicyCheckResult]
"""What was found, by the name of the file on the command line."""

Notes = Mapping[str, Sequence[str]]
"""What a sound policy does that its author may not expect, by the name of the file."""

_LENIENT: Final = "--lenient-policy"
_JSON_FIELDS: Final = (*("line", "column", "path", "message", "hint", "context", "forgivable"),)


class Findings(NamedTuple):
    """Errors and warnings, notes on sound policies, and the corrections that were made."""

    results: PolicyCheckResults
    notes: Notes
    corrections: "Sequence[Correction]" = ()


class _RankedDiagnostic(NamedTuple):
    """A problem, and how much it matters."""

    diagnostic: Diagnostic
    severity: Severity


def has_no_errors(results: PolicyCheckResults) -> bool:
    """Say whether there is nothing wrong in any file."""
    return not any(result.errors for result in results.values())


def as_text(found: Findings, *, colours: bool = False) -> str:
    """Give each problem with its line, as compilers write them, each note, and one that sums up."""
    results, notes, corrections = found
    report = Report(_texts(results), colours=colours)
    lines = [*map(str, corrections)]
    lines += [line for ranked in _ranked_diagnostics(results) for line in report.lines(*ranked)]
    cut = [name for name, result in results.items() if not result.complete]
    lines += [f"{name}: error: there are more problems than these" for name in cut]
    lines += [f"{name}: note: {text}" for name, texts in notes.items() for text in texts]
    return "\n".join((*lines, _summary(found))) + "\n"


def _texts(results: PolicyCheckResults) -> Mapping[str, str | bytes]:
    """Return the texts that were read, by the names that problems have for them."""
    sources = (result.source for result in results.values())
    return {source.name: source.text for source in sources if source is not None}


def as_github(found: Findings) -> str:
    """Return a workflow command of GitHub Actions for each problem, which marks its line."""
    marked = _marked_texts(found.results)
    commands = []
    for problem, severity in _ranked_diagnostics(found.results):
        place = f"file={_github(problem.source, in_property=True)}"
        if problem.line:
            place += f",line={problem.line},col={problem.column}"
            place += f",endColumn={_end_column(problem, marked)}"
        place += f",title={problem.rule}"
        commands.append(f"::{severity} {place}::{_github(problem.text())}\n")
    return "".join(commands)


def _marked_texts(results: PolicyCheckResults) -> Mapping[str, MarkedText]:
    return {name: MarkedText(text) for name, text in _texts(results).items()}


def _end_column(problem: Diagnostic, texts: Mapping[str, MarkedText]) -> int:
    """Return the column after what a problem with a place is about, on the same line."""
    mark = SourceMark(problem.line, problem.column)
    text = texts.get(problem.source)
    is_shown = text is not None and problem.line <= len(text.lines)
    return problem.column + (text.width_at(mark) if text is not None and is_shown else 1)


def _github(text: str, *, in_property: bool = False) -> str:
    """Escape a text as the commands of GitHub Actions need it."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if in_property else text


def as_sarif(found: Findings) -> str:
    """Return a log of SARIF 2.1.0, which code scanning reads."""
    from reactive_desched.policy.rule_pages import rule_pages

    marked = _marked_texts(found.results)
    ranked = list(_ranked_diagnostics(found.results))
    rules = sorted({problem.rule for problem, _ in ranked})
    results = []
    for problem, severity in ranked:
        location: dict[str, object] = {"artifactLocation": {"uri": quote(problem.source)}}
        if problem.line:
            location["region"] = {
                "startLine": problem.line,
                "startColumn": problem.column,
                "endColumn": _end_column(problem, marked),
            }
        text = ": ".join(filter(None, (problem.path, problem.message)))
        results.append(
            {
                "ruleId": problem.rule.value,
                "ruleIndex": rules.index(problem.rule),
                "level": severity,
                "message": {"text": f"{text}; {problem.hint}" if problem.hint else text},
                "locations": [{"physicalLocation": location}],
            }
        )
    described = [_as_sarif_rule(rule_pages()[rule]) for rule in rules]
    driver = {"name": "reactive-desched", "version": __version__, "rules": described}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    runs = [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}]
    log = {"$schema": schema, "version": "2.1.0", "runs": runs}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _as_sarif_rule(page: "RulePage") -> dict[str, object]:
    """Return the page of a rule as code scanning shows it beside a result."""
    return {
        "id": page.rule.value,
        "name": page.name,
        "shortDescription": {"text": page.summary},
        "fullDescription": {"text": page.meaning},
        "help": {"text": page.meaning, "markdown": page.markdown()},
        "helpUri": page.uri,
    }


def as_json(found: Findings) -> str:
    """Return one object; `policy check --help` describes it."""
    results, notes, corrections = found
    ranked = list(_ranked_diagnostics(results))
    problems = [
        {"severity": severity, "code": problem.rule.value, "file": problem.source}
        | {name: getattr(problem, name) for name in _JSON_FIELDS}
        | {"fixable": problem.fix is not None}
        for problem, severity in ranked
    ]
    summary = {
        "ok": has_no_errors(results),
        "errors": sum(severity == "error" for _, severity in ranked),
        "warnings": sum(severity == "warning" for _, severity in ranked),
        "complete": all(result.complete for result in results.values()),
    }
    noted = [{"file": name, "message": text} for name, texts in notes.items() for text in texts]
    made = [
        {
            "file": each.diagnostic.source,
            "line": each.diagnostic.line,
            "column": each.diagnostic.column,
            "code": each.diagnostic.rule.value,
            "before": each.before,
            "after": each.after,
        }
        for each in corrections
    ]
    answer = {**summary, "problems": problems, "notes": noted, "corrections": made}
    return json.dumps(answer, indent=2, ensure_ascii=False) + "\n"


def _ranked_diagnostics(results: PolicyCheckResults) -> Iterator[_RankedDiagnostic]:
    """Return everything found, file by file in the order of the lines."""
    for result in results.values():
        yield from _ranked(result)


def _ranked(result: PolicyCheckResult) -> list[_RankedDiagnostic]:
    """Return what was found in one file, in the order of the lines."""
    errors = (_RankedDiagnostic(problem, "error") for problem in result.errors)
    warnings = (_RankedDiagnostic(problem, "warning") for problem in result.warnings)
    return sorted((*errors, *warnings), key=_line_and_column)


def _line_and_column(ranked: _RankedDiagnostic) -> tuple[int, int]:
    return ranked.diagnostic.line, ranked.diagnostic.column


def _summary(found: Findings) -> str:
    """Count what was found, and say what a lenient reading would accept, and --fix correct."""
    ranked = list(_ranked_diagnostics(found.results))
    errors = [problem for problem, severity in ranked if severity == "error"]
    warnings = format_count(len(ranked) - len(errors), "warning")
    counts = f"{format_count(len(errors), 'error')}, {warnings}"
    files = format_count(len(found.results), "file")
    forgivable = sum(problem.forgivable for problem in errors)
    said = [f"{files}: {counts}"]
    if forgivable:
        only = "warnings" if forgivable > 1 else "a warning"
        said.append(f"{forgivable} of the errors would be {only} with {_LENIENT}")
    if found.corrections:
        said.append(f"{len(found.corrections)} corrected")
    elif fixable := sum(problem.fix is not None for problem, _ in ranked):
        said.append(f"--fix corrects {fixable} of them")
    return "; ".join(said)
