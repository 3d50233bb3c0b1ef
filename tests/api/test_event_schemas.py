"""The schemas of events: those that ship are what the code says, and events are as they say."""

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder
from jsonschema import Draft202012Validator, FormatChecker

from reactive_desched.api.event import DATA_TYPES, EVENT_TYPES, dataschema, schema_name
from reactive_desched.model.event_types import TYPE_PREFIX
from tools.event_schemas import envelope, index, type_schemas
from tools.schema_compatibility import is_equivalent
from tools.write_event_schemas import PAST, SCHEMAS, file_texts

Json = dict[str, Any]  # an event or a schema

ROOT = Path(__file__).parents[2]
WHOLE = Draft202012Validator(envelope(), format_checker=FormatChecker())
TYPE_SCHEMAS = type_schemas()
OF_TYPE = {
    type_: Draft202012Validator(TYPE_SCHEMAS[schema_name(type_)], format_checker=FormatChecker())
    for type_ in DATA_TYPES
}


def test_a_schema_that_was_published_still_ships_and_says_the_same() -> None:
    for file in PAST.glob("*/*.v*.*.json"):
        shipped = json.loads((SCHEMAS / file.name).read_bytes())
        assert is_equivalent(json.loads(file.read_bytes()), shipped), file


def test_no_other_schema_ships() -> None:
    published = {file.name for file in PAST.glob("*/*.json")}

    assert {file.name for file in SCHEMAS.iterdir()} <= file_texts().keys() | published


def test_the_wheel_holds_the_schemas(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])

    with ZipFile(wheel) as archive:
        held = {Path(name).name for name in archive.namelist() if "api/schemas/" in name}
    assert held == {file.name for file in SCHEMAS.iterdir()}


def test_every_type_has_a_sample_and_a_meaning(lines: list[bytes]) -> None:
    sampled = {json.loads(raw)["type"] for raw in lines}

    assert sampled == DATA_TYPES.keys() == EVENT_TYPES.keys()
    assert all(type_.meaning for type_ in EVENT_TYPES.values())


def test_schemas_are_sound_and_have_their_id() -> None:
    for type_, validator in OF_TYPE.items():
        Draft202012Validator.check_schema(validator.schema)
        assert TYPE_SCHEMAS[schema_name(type_)]["$id"] == dataschema(type_)
    Draft202012Validator.check_schema(envelope())


def test_every_field_has_words() -> None:
    def wordless(node: Any, place: str) -> list[str]:
        if not isinstance(node, dict):
            return []
        fields = node.get("properties", {}) if isinstance(node.get("properties"), dict) else {}
        silent = [f"{place}.{n}" for n, s in fields.items() if not {"description", "$ref"} & {*s}]
        return silent + [gap for key, value in node.items() for gap in wordless(value, key)]

    assert wordless({"schemas": TYPE_SCHEMAS}, "") == []
    assert [name for name, s in envelope()["properties"].items() if "description" not in s] == []


def test_every_event_is_as_its_schemas_say(lines: list[bytes]) -> None:
    for raw in lines:
        event = json.loads(raw)
        WHOLE.validate(event)
        OF_TYPE[event["type"]].validate(event["data"])


def test_the_index_leads_from_a_type_to_its_schema(lines: list[bytes]) -> None:
    types = index()["types"]

    for raw in lines:
        event = json.loads(raw)
        entry = types[event["type"]]
        assert entry["dataschema"] == event["dataschema"]
        shipped = json.loads((SCHEMAS / f"{entry['schema']}.json").read_bytes())
        assert shipped["$id"] == event["dataschema"]


@pytest.fixture
def requested(lines: list[bytes]) -> Json:
    found = [json.loads(raw) for raw in lines]
    return next(event for event in found if event["type"] == TYPE_PREFIX + "eviction.requested.v1")


def test_what_a_later_version_adds_is_taken(requested: Json) -> None:
    requested["newattribute"] = "x"
    requested["data"] |= {"mode": "rehearsal", "new": {"deep": [1]}}
    requested["data"]["who"]["new"] = True
    requested["data"]["what"]["action"] = "migrate"

    assert WHOLE.is_valid(requested)
    assert OF_TYPE[requested["type"]].is_valid(requested["data"])


def test_a_type_of_a_later_version_may_hold_anything(requested: Json) -> None:
    requested |= {"type": TYPE_PREFIX + "pod.moved.v1", "data": {"to": "n2"}}

    assert WHOLE.is_valid(requested)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda e: e.pop("id"), id="no id"),
        pytest.param(lambda e: e.pop("prev"), id="no prev"),
        pytest.param(lambda e: e.update(prev="0" * 63), id="a short hash"),
        pytest.param(lambda e: e.update(sequence="12"), id="a sequence without zeros"),
        pytest.param(lambda e: e.update(specversion="0.3"), id="another CloudEvents"),
        pytest.param(lambda e: e["data"].pop("attempt"), id="data of another type"),
        pytest.param(lambda e: e["data"].update(attempt="1"), id="a text for a number"),
        pytest.param(lambda e: e["data"]["who"].pop("uid"), id="a pod without uid"),
        pytest.param(lambda e: e["data"]["who"].update(owners=[{}]), id="an owner of nothing"),
        pytest.param(lambda e: e["data"]["why"].update(numbers={"x": 1.5}), id="a fraction"),
        pytest.param(lambda e: e["data"]["what"].update(gracePeriodSeconds=None), id="a null"),
    ],
)
def test_what_is_no_event_is_not_taken(requested: Json, spoil: Any) -> None:
    assert WHOLE.is_valid(requested)

    spoil(requested)

    assert not WHOLE.is_valid(requested)
