"""Policies that people wrote: each is judged as the SIG descheduler did, and what it takes runs.

The collection stands beside the repository; where it does not, the tests are skipped and say so.
"""

import json
from functools import cache
from typing import Final

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from jsonschema import Draft7Validator

from reactive_desched.cli import policy_schema
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.corrections import correct
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source
from tests.support.wild_policies import FOLDER, Judged, collection, runs_upstream

ACCEPTED_HERE: Final = {"107.yaml": "RemoveDuplicates needs no entry in pluginConfig"}
"""What upstream refuses, or takes in name only, and we accept on purpose."""


@pytest.mark.parametrize("entry", tuple(collection()))
def test_a_lenient_reading_takes_what_a_release_of_upstream_takes(entry: Judged) -> None:
    errors = check_source(FOLDER / entry["file"], plugin_registry(), lenient=True).errors

    assert (not errors) == (runs_upstream(entry) or entry["file"] in ACCEPTED_HERE), errors


WHAT_NO_SCHEMA_SEES: Final = frozenset(
    {
        "103.yaml",  # targetThresholds below thresholds
        "158.yaml",  # two policies in one file
    }
)


@pytest.mark.parametrize("entry", tuple(collection()))
def test_an_editor_marks_the_policies_that_the_check_refuses_and_no_others(
    entry: Judged,
) -> None:
    text = (FOLDER / entry["file"]).read_text(encoding="utf-8")
    try:
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError:
        return  # an editor marks it without a schema

    marked = [error for each in documents for error in editor_schema().iter_errors(each)]

    errors = check_source(FOLDER / entry["file"], plugin_registry()).errors
    assert bool(marked) == bool(errors and entry["file"] not in WHAT_NO_SCHEMA_SEES), marked


@cache
def editor_schema() -> Draft7Validator:
    """Return what `policy schema` prints."""
    return Draft7Validator(json.loads(policy_schema.text("any")))


@pytest.mark.parametrize("entry", tuple(collection()))
def test_after_the_correction_nothing_is_left_to_correct_and_all_else_is_as_it_was(
    entry: Judged,
) -> None:
    source = SourceText((FOLDER / entry["file"]).read_bytes(), entry["file"])
    before = check_source(source, plugin_registry())

    corrected = correct(source, plugin_registry())

    left = (*corrected.left.errors, *corrected.left.warnings)
    assert [str(each) for each in left if each.fix is not None] == []
    assert correct(SourceText(corrected.text, source.name), plugin_registry()).corrections == ()
    assert len(corrected.left.errors) <= max(len(before.errors), 100)
    if not any(each.fix for each in (*before.errors, *before.warnings)):
        assert corrected.text == source.text
    if all(each.after for each in corrected.corrections):
        places = sorted({each.diagnostic.line for each in corrected.corrections})
        assert isinstance(source.text, bytes)
        pairs = zip(source.text.splitlines(), corrected.text.splitlines(), strict=True)
        assert [line for line, (old, new) in enumerate(pairs, 1) if old != new] == places
