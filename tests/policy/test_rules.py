"""Every message has a code, and every code a page whose example is true."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactive_desched.api.rules import Rule
from reactive_desched.app.overrides import FlagOverrides
from reactive_desched.model.labels import parse_selector
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.convert.rewriting import ConvertOptions, convert_policy
from reactive_desched.policy.corrections import correct
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import PolicyCheckResult, check_source, load_sources
from reactive_desched.policy.rule_pages import GROUPS, RulePage, rule_pages
from reactive_desched.policy.yaml.diagnostics import Diagnostic

PACKAGE = Path(__file__).parents[2] / "reactive_desched"
SAYS_SOMETHING = {"FieldError", "Diagnostic", "diagnostic", "fatal_error", "fatal_error_at"}
WITH_EXAMPLE = [page for page in rule_pages().values() if page.example]
WITHOUT_EXAMPLE = [rule for rule, page in rule_pages().items() if not page.example]
ELSEWHERE = {
    Rule.UNREADABLE_FILE: "no text can show it",
    Rule.TOO_LARGE: "an example would be too large",
    Rule.ARGUMENT_REFUSED: "the arguments are those of a plugin of another package",
    Rule.FLAG_NOT_READ: "a flag is needed",
}
"""The rules without an example in a text; each has a test of its own below."""


def found(page: RulePage, text: str) -> PolicyCheckResult:
    """Run the command of an example on a text."""
    source = SourceText(text, "p.yaml")
    if not page.flags.startswith("convert"):
        lenient = page.flags == "--lenient-policy"
        return check_source(source, plugin_registry(), lenient=lenient)
    wishes = ConvertOptions(merge="--merge" in page.flags)
    return PolicyCheckResult(warnings=convert_policy(source, plugin_registry(), wishes).notices)


@pytest.mark.parametrize("page", WITH_EXAMPLE, ids=lambda page: str(page.rule))
def test_the_example_of_a_rule_gets_its_message_and_the_mended_one_no_error(page: RulePage) -> None:
    wrong, mended = found(page, page.example_text), found(page, page.mended_text)

    said = wrong.errors if page.severity == "error" else wrong.warnings
    others = wrong.warnings if page.severity == "error" else wrong.errors
    assert page.rule in {each.rule for each in said}, said
    assert page.rule not in {each.rule for each in others}
    assert mended.errors == ()
    assert page.rule not in {each.rule for each in mended.warnings}


@pytest.mark.parametrize("page", WITH_EXAMPLE, ids=lambda page: str(page.rule))
def test_a_rule_says_that_it_is_corrected_where_its_example_is(page: RulePage) -> None:
    lenient = page.flags == "--lenient-policy"
    corrected = correct(SourceText(page.example_text, "p.yaml"), plugin_registry(), lenient=lenient)

    is_corrected = page.rule in {each.diagnostic.rule for each in corrected.corrections}
    is_partly = page.rule == Rule.MISPLACED_FIELD  # only a name is corrected; the example is moved
    assert is_corrected == (bool(page.fix) and not is_partly)
    if is_corrected:
        assert corrected.text.decode() == page.mended_text


def test_the_name_of_an_argument_of_the_old_format_is_corrected() -> None:
    text = next(page for page in WITH_EXAMPLE if page.rule == Rule.NO_CRITERION).mended_text
    old = text.replace("maxPodLifeTimeSeconds: 604800", "podStatusPhases: [Pending]")

    corrected = correct(SourceText(old, "p.yaml"), plugin_registry())

    assert [each.diagnostic.rule for each in corrected.corrections] == [Rule.MISPLACED_FIELD]
    assert corrected.text.decode() == old.replace("podStatusPhases", "states")


def test_every_rule_has_a_page_and_its_group_a_heading() -> None:
    assert list(rule_pages()) == list(Rule)
    assert {rule[:3] for rule in Rule} == GROUPS.keys()
    assert len(Rule) == len(set(Rule)) == len(Rule.__members__)
    assert all(re.fullmatch("RD[0-9]{3}", rule) for rule in Rule)
    assert ELSEWHERE.keys() == set(WITHOUT_EXAMPLE)


def test_a_file_that_cannot_be_read_has_a_rule(tmp_path: Path) -> None:
    (error,) = check_source(tmp_path / "gone", plugin_registry()).errors
    assert error.rule == Rule.UNREADABLE_FILE


@pytest.mark.parametrize(
    "text",
    ["#" * (1 << 20) + "#", "---\na: 1\n" * 21, "[" * 41 + "]" * 41, "[" + "a," * 20_001 + "]"],
    ids=["bytes", "documents", "levels", "values"],
)
def test_a_text_that_is_too_large_has_a_rule(text: str) -> None:
    (error,) = check_source(SourceText(text, "p.yaml"), plugin_registry()).errors
    assert error.rule == Rule.TOO_LARGE


def test_a_flag_that_does_not_count_has_a_rule() -> None:
    text = rule_pages()[Rule.UNKNOWN_FIELD].mended_text
    read = load_sources([SourceText(text, "p.yaml")], plugin_registry())
    flags = FlagOverrides(node_selector=parse_selector("pool=red"))
    assert [each.rule for each in flags.apply_to(read).warnings][-1] == Rule.FLAG_NOT_READ


def test_what_a_plugin_of_another_package_refuses_has_a_rule() -> None:
    assert Diagnostic("p.yaml", 0, 0, "", "no").rule == Rule.ARGUMENT_REFUSED


def sites() -> Iterator[tuple[str, ast.Call]]:
    """Yield every call in the package that makes a message about a policy or settings."""
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if not any(f"{name}(" in text for name in SAYS_SOMETHING):
            continue  # parsing the whole package takes two seconds
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                    if name in SAYS_SOMETHING:
                        yield f"{file.relative_to(PACKAGE)}:{node.lineno}", node


def test_every_place_that_makes_a_message_names_its_rule_and_every_rule_is_named() -> None:
    without = [
        place for place, call in sites() if "rule" not in {each.arg for each in call.keywords}
    ]
    assert without == []
    text = "\n".join(file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py"))
    named = set(re.findall(r"\bRule\.([A-Z_]+)\b", text))
    assert named == set(Rule.__members__)
