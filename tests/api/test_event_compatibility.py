"""Readers of any release understand any other: what was published is held against today's."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from reactive_desched._version import __version__
from reactive_desched.api.event import DATA_TYPES, EVENT_TYPES, schema_name
from reactive_desched.journal.events import decode_event
from tests.support.golden import Golden
from tools import write_event_schemas
from tools.event_schemas import ENVELOPE, envelope, index, type_schemas
from tools.schema_compatibility import breaking_changes, revision_errors
from tools.write_event_schemas import PAST, SAMPLES, freeze, words

Json = dict[str, Any]  # an event or a schema


RETIRED: Final = {"NodeUsageChanged"}
"""Words that no event has had since before the first release: nothing of ours announced them."""


class Release(NamedTuple):
    """What a release published."""

    name: str
    schemas: dict[str, Json]
    types: dict[str, Json]
    samples: list[bytes]
    words: dict[str, list[str]] = {}  # noqa: RUF012 -- a NamedTuple's default, never changed


def read(folder: Path) -> Release:
    files = {path.stem: json.loads(path.read_bytes()) for path in folder.glob("*.json")}
    types, words = files.pop("index")["types"], files.pop("words")
    lines = (folder / SAMPLES).read_bytes().splitlines()
    return Release(folder.name, files, types, lines, words)


RELEASES = [read(folder) for folder in sorted(PAST.iterdir()) if folder.is_dir()]
every_release = pytest.mark.parametrize("past", RELEASES, ids=lambda release: release.name)


def complaints(schema: Json, value: Json) -> list[str]:
    """Return what a schema has against a document."""
    return [error.message for error in Draft202012Validator(schema).iter_errors(value)]


def structural(past: Release, types: dict[str, Json], schemas: dict[str, Json]) -> Iterator[str]:
    """Yield what is wrong between a past release and these types and schemas."""
    for type_, entry in past.types.items():
        if type_ in types:
            yield from breaking_changes(
                past.schemas[entry["schema"]], schemas[types[type_]["schema"]]
            )
    yield from revision_errors(past.types, past.schemas, schemas)


def test_the_first_release_is_kept() -> None:
    assert "0.1.0" in [release.name for release in RELEASES]


@every_release
def test_a_release_is_kept_whole(past: Release) -> None:
    assert [json.loads(raw)["type"] for raw in past.samples] == list(past.types)
    assert {entry["schema"] for entry in past.types.values()} | {ENVELOPE} == past.schemas.keys()


@every_release
def test_what_was_written_then_is_as_todays_schemas_say(past: Release) -> None:
    for raw in past.samples:
        old = json.loads(raw)
        assert complaints(type_schemas()[schema_name(old["type"])], old["data"]) == []
        assert complaints(envelope(), old) == []


@every_release
def test_what_was_written_then_is_read_today(past: Release) -> None:
    for raw in past.samples:
        type_ = json.loads(raw)["type"]
        found = decode_event(type_, raw)
        assert found is not None, type_
        assert type(found.data) is DATA_TYPES[type_]


@every_release
def test_what_is_written_today_is_as_the_schemas_then_say(
    past: Release, lines: list[bytes]
) -> None:
    for raw in lines:
        new = json.loads(raw)
        assert complaints(past.schemas[ENVELOPE], new) == []
        if new["type"] in past.types:
            schema = past.schemas[past.types[new["type"]]["schema"]]
            assert complaints(schema, new["data"]) == []


@every_release
def test_todays_schemas_go_together_with_those_of_then(past: Release) -> None:
    assert list(structural(past, index()["types"], type_schemas())) == []


@every_release
def test_words_that_were_published_are_still_used(past: Release) -> None:
    """A change is published under the name of its class; a renamed one has `published_as`."""
    now = words()
    assert {field: set(then) - set(now[field]) - RETIRED for field, then in past.words.items()} == {
        field: set() for field in past.words
    }


def test_a_change_that_is_no_base_is_a_published_word() -> None:
    changes = words()["trigger.change"]

    assert {"NodeTaintsChanged", "PodGone", "BestPreferenceChanged", "Sweep"} <= set(changes)
    assert {"Change", "PodChange", "NodeChange", "PodsChange"}.isdisjoint(changes)


@every_release
def test_the_envelope_only_grows(past: Release) -> None:
    then, now = past.schemas[ENVELOPE], envelope()

    assert [rule for rule in then["allOf"] if rule not in now["allOf"]] == []
    assert breaking_changes({**then, "allOf": []}, {**now, "allOf": []}) == []


def test_a_release_is_never_written_over(tmp_path: Path) -> None:
    freeze(tmp_path / "0.1.0")

    with pytest.raises(FileExistsError):
        freeze(tmp_path / "0.1.0")


def test_a_release_that_is_kept_already_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(write_event_schemas, "PAST", tmp_path)
    monkeypatch.setattr(write_event_schemas, "SCHEMAS", tmp_path / "schemas")
    release = tmp_path / __version__
    release.mkdir()
    with pytest.raises(SystemExit):
        write_event_schemas.main(["--freeze"])

    assert f"{release} is kept already" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [release]


def test_what_is_kept_of_a_release_goes_together_with_its_own_schemas(tmp_path: Path) -> None:
    freeze(tmp_path / "9.9.9")

    released = read(tmp_path / "9.9.9")

    assert list(structural(released, index()["types"], type_schemas())) == []
    assert breaking_changes(released.schemas[ENVELOPE], envelope()) == []


# --- each rule bites ------------------------------------------------------------------------------

REQUESTED = "io.reactive-desched.descheduler.eviction.requested.v1"
NAME, REVISION = schema_name(REQUESTED), EVENT_TYPES[REQUESTED].revision
NEXT = f"eviction.requested.v1.{REVISION + 1}"


def told(change: Callable[[Json], object], *, raised: bool = True) -> list[str]:
    """Return what is said against a changed copy of a schema, with its revision raised or not."""
    past = Release("then", type_schemas(), index()["types"], [])
    types, schemas = copy.deepcopy(index()["types"]), copy.deepcopy(type_schemas())
    changed = schemas.pop(NAME)
    change(changed)
    name = NEXT if raised else NAME
    schemas[name] = changed
    types[REQUESTED]["schema"] = name
    return list(structural(past, types, schemas))


def test_an_optional_field_may_come_with_a_higher_revision() -> None:
    new = {"type": "string", "description": "Where it goes."}

    assert told(lambda s: s["properties"].update(target=new)) == []
    assert told(lambda s: s["$defs"]["Who"]["properties"].update(rack=new)) == []


def test_words_may_change_at_any_time() -> None:
    assert told(lambda s: s.update(description="Better said."), raised=False) == []
    assert told(lambda s: s["properties"]["mode"].pop("examples"), raised=False) == []


def test_a_new_type_may_come() -> None:
    past = Release("then", type_schemas(), dict(list(index()["types"].items())[:-1]), [])

    assert list(structural(past, index()["types"], type_schemas())) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: s["properties"].pop("attempt"), "data.attempt is gone"),
        (lambda s: s["$defs"]["Who"]["properties"].pop("zone"), "data.who.zone is gone"),
        (
            lambda s: s["properties"]["attempt"].update(type="string"),
            "data.attempt: type 'integer' became 'string'",
        ),
        (
            lambda s: s["$defs"]["Owner"]["properties"]["uid"].update(type="integer"),
            "data.who.owners.items.uid: type 'string' became 'integer'",
        ),
        (
            lambda s: s["$defs"]["Why"]["properties"]["numbers"].update(
                additionalProperties={"type": "integer"}
            ),
            "data.why.numbers.additionalProperties: type ['integer', 'string'] became 'integer'",
        ),
        (lambda s: s["required"].remove("attempt"), "data.attempt is no longer required"),
        (lambda s: s["$defs"]["Who"]["required"].remove("uid"), "data.who.uid is no longer"),
        (
            lambda s: (
                s["properties"].update(target={"type": "string"}),
                s["required"].append("target"),
            ),
            "data.target is required now",
        ),
        (
            lambda s: s["$defs"]["What"]["required"].append("gracePeriodSeconds"),
            "data.what.gracePeriodSeconds is required now",
        ),
        (lambda s: s["properties"]["mode"].update(enum=["live"]), "data.mode: enum None became"),
        (lambda s: s.update(additionalProperties=False), "data.additionalProperties: True became"),
        (lambda s: s["properties"]["attempt"].update(maximum=9), "data.attempt: maximum None"),
        (
            lambda s: s["properties"]["attempt"].update(default=1),
            "data.attempt: default None became 1",
        ),
    ],
)
def test_what_breaks_readers_is_reported(change: Callable[[Json], object], complaint: str) -> None:
    found = told(change)

    assert len(found) == 1
    assert found[0].startswith(complaint)


def test_a_change_without_a_higher_revision_is_reported(golden: Golden) -> None:
    new = {"type": "string", "description": "Where it goes."}

    found = told(lambda s: s["properties"].update(target=new), raised=False)

    assert found == [golden(requested=REQUESTED, revision=REVISION)]


def test_a_field_called_like_a_word_of_schemas_still_counts(golden: Golden) -> None:
    found = told(lambda s: s["properties"].update(title={"type": "string"}), raised=False)

    assert found == [golden(requested=REQUESTED, revision=REVISION)]


def test_a_lower_revision_is_reported() -> None:
    past = Release("then", {NEXT: type_schemas()[NAME]}, {REQUESTED: {"schema": NEXT}}, [])

    found = list(structural(past, index()["types"], type_schemas()))

    assert found == [f"{REQUESTED} has a lower revision than {REVISION + 1}"]


def test_a_type_that_is_gone_is_reported(golden: Golden) -> None:
    past = Release("then", type_schemas(), index()["types"], [])
    types, schemas = index()["types"], type_schemas()
    del types[REQUESTED], schemas[NAME]

    assert list(structural(past, types, schemas)) == [golden(requested=REQUESTED)]


def test_the_name_of_a_type_cannot_be_used_for_something_else() -> None:
    other = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}

    def replaced(schema: Json) -> None:
        schema.clear()
        schema.update(other)

    found = told(replaced)

    assert "data.attempt is gone" in found
    assert "data.to is required now" in found
