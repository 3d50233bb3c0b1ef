"""Every reason is a declared code; no code reads a message; messages never decide."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from msgspec import Struct

from reactive_desched.api.event import DATA_TYPES
from reactive_desched.controller.coverage import UNAFFECTED_REASONS
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.outcomes import RESULTS, OutcomeReason
from reactive_desched.model.scheduling import FitReason
from reactive_desched.model.wakes import (
    WakeOn,
    WakeOnCapacity,
    WakeOnGroupCapacity,
    WakeOnPod,
    awaited,
)
from reactive_desched.testing.builders import pod
from tests.support.syntax import PACKAGE, nodes_of, package_trees
from tools.declared import declared

pytestmark = pytest.mark.syntax_trees

CAMEL_CASE = re.compile(r"^[A-Z][A-Za-z]+$")
GATE_REASONS = declared(GateReason)
OUTCOME_REASONS = declared(OutcomeReason)
TEXT_FIELDS = {"message"}
BUILDERS = {"decisions.py", "outcomes.py", "scenario.py"}


class Sources(NamedTuple):
    """What the package's code declares and uses, found in one walk over its syntax trees."""

    declarations: dict[str, Path]
    used: set[str]
    calls: dict[str, list[str]]
    decisions_by_text: list[str]
    texts_logged_as_reasons: list[str]


@cache
def sources() -> Sources:
    found = Sources({}, set(), defaultdict(list), [], [])
    for path, tree in package_trees().items():
        if "sim" in path.relative_to(PACKAGE).parts:
            continue
        for node in nodes_of(tree):
            found.decisions_by_text.extend(decisions_by_text(path, node))
            found.texts_logged_as_reasons.extend(texts_logged_as_reasons(path, node))
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=ast.Name(id=of))):
                    if of in ("GateReason", "OutcomeReason", "FitReason"):
                        found.declarations[name] = path
                case ast.Name(id=name, ctx=ast.Load()):
                    found.used.add(name)
                case ast.Call(func=ast.Name(id=name)) if path.name not in BUILDERS:
                    found.calls[name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    return found


def test_every_reason_is_a_camel_case_code() -> None:
    gates = {reason.code for reason in GATE_REASONS} | {reason.gate for reason in GATE_REASONS}
    codes = gates | {reason.code for reason in OUTCOME_REASONS} | set(UNAFFECTED_REASONS)
    codes |= {reason.code for reason in declared(FitReason)}

    assert len(codes) > 40
    assert [code for code in sorted(codes) if not CAMEL_CASE.match(code)] == []


def test_a_code_is_declared_once_for_its_gate_or_result() -> None:
    gates = [(reason.gate, reason.code) for reason in GATE_REASONS]
    outcomes = [reason.code for reason in OUTCOME_REASONS]

    assert len(gates) == len(set(gates))
    assert len(outcomes) == len(set(outcomes))


def test_every_result_has_a_reason_and_every_reason_a_result() -> None:
    assert {reason.result for reason in OUTCOME_REASONS} == RESULTS


def test_every_reason_has_a_meaning_that_is_a_sentence() -> None:
    meanings = [reason.meaning for reason in GATE_REASONS]
    meanings += [reason.meaning for reason in OUTCOME_REASONS]
    meanings += UNAFFECTED_REASONS.values()

    assert [text for text in meanings if not re.match(r"^[A-Z`].+\.$", text)] == []


def test_every_declared_reason_is_used() -> None:
    assert len(sources().declarations) > 40
    assert sources().declarations.keys() - sources().used == set()


@pytest.mark.parametrize("built", ["Defer", "Refuse", "Outcome"])
def test_decisions_and_outcomes_are_built_from_declared_reasons(built: str) -> None:
    assert sources().calls[built] == []


def test_no_code_decides_by_a_message() -> None:
    """A message is neither compared, matched, searched nor looked up."""
    assert sources().decisions_by_text == []


def decisions_by_text(path: Path, node: ast.AST) -> Iterator[str]:
    reads: list[ast.expr] = []
    match node:
        case ast.Compare(left=left, comparators=others):
            reads = [left, *others]
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
            if name in ("startswith", "endswith", "find", "index", "split", "partition"):
                reads = [value]
            elif name in ("match", "fullmatch", "search", "findall"):
                reads = args
        case ast.Match(subject=subject):
            reads = [subject]
    for part in (inner for read in reads for inner in ast.walk(read)):
        if isinstance(part, ast.Attribute) and part.attr in TEXT_FIELDS:
            yield f"{path.relative_to(PACKAGE)}:{part.lineno}"


def texts_logged_as_reasons(path: Path, node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr="info" | "warning" | "error" | "debug")):
            for given in (each.value for each in node.keywords if each.arg == "reason"):
                parts = given.values if isinstance(given, ast.BoolOp) else [given]
                match parts[0]:
                    case ast.Attribute(attr="reason") | ast.Name(id="code"):
                        pass
                    case _:
                        yield f"{path.relative_to(PACKAGE)}:{node.lineno}"


def test_a_log_line_has_a_code_as_its_reason_and_a_text_as_its_message() -> None:
    assert sources().texts_logged_as_reasons == []

    (statement,) = ast.parse('log.warning("stopped", reason=str(error))').body
    assert isinstance(statement, ast.Expr)
    assert list(texts_logged_as_reasons(PACKAGE / "x.py", statement.value))


def test_the_lint_bites() -> None:
    for text in (
        'x = decision.message == "no"',
        'x = outcome.message.startswith("settled")',
        "x = re.search(PATTERN, decision.message)",
        'x = "limit" in why.message',
    ):
        (statement,) = ast.parse(text).body
        assert isinstance(statement, ast.Assign)
        assert list(decisions_by_text(PACKAGE / "x.py", statement.value))


def test_every_reason_on_the_wire_is_a_code_with_a_message_beside_it() -> None:
    structs = {one for data in DATA_TYPES.values() for one in _with_parts(data)}
    with_reason = {one for one in structs if "reason" in one.__struct_fields__}

    assert {one.__name__ for one in with_reason} == {"Verdict", "Ending"}
    assert all("message" in one.__struct_fields__ for one in with_reason)


def _with_parts(struct: type[Struct]) -> Iterator[type[Struct]]:
    yield struct
    for field in msgspec.structs.fields(struct):
        if isinstance(field.type, type) and issubclass(field.type, Struct):
            yield from _with_parts(field.type)


def test_every_wake_says_in_words_what_is_awaited() -> None:
    wakes = [wake for wake in _subclasses(WakeOn) if wake.__module__.startswith(PACKAGE.name)]

    assert len(wakes) > 15
    for wake in wakes:
        made = wake(*("NAME" for _ in wake.__struct_fields__))
        words = made.description
        assert re.fullmatch(r"(a|an|the|one|another|room) [A-Za-z/ ]+", words), wake
        shown = {
            name
            for name in wake.__struct_fields__
            if name not in ("uid", "owner_uid", "group", "scope")
        }
        assert ("NAME" in words) is bool(shown), f"{wake}: a uid or a number says nothing"


def test_every_wake_is_fulfilled_by_each_change_that_it_lists() -> None:
    for kind in _subclasses(WakeOn):
        for change_type in kind.changes:
            fields = msgspec.structs.fields(change_type)
            change = change_type(
                *(pod("web", on="n1") if field.name == "pod" else "NAME" for field in fields)
            )
            assert kind.fulfilled_by(change).matches(change), f"{kind} by {change_type}"


def test_a_finding_waits_for_its_own_pod_or_another_and_names_each_wait_once() -> None:
    wakes = (WakeOnCapacity(), WakeOnGroupCapacity(3), WakeOnPod("own"), WakeOnPod("other"))

    assert awaited(wakes, "own") == (
        *("room on a node", "a change of the pod", "a change of another pod"),
    )


def _subclasses(kind: type[WakeOn]) -> Iterator[type[WakeOn]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
