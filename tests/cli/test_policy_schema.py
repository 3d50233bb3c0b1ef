"""`policy schema` prints what an editor can use."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from reactive_desched._version import __version__
from reactive_desched.cli import policy_schema
from reactive_desched.cli.commands import CommandParser
from tests.support.packages import write_package


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    parser = CommandParser()
    policy_schema.add(parser.add_subparsers())
    arguments = parser.parse_args(["schema", *words])
    assert arguments.command(arguments) == 0
    schema = json.loads(capsys.readouterr().out)
    assert isinstance(schema, dict)
    return schema


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("v1alpha2", "descheduler/v1alpha2"),
        ("v1alpha1", "descheduler/v1alpha1"),
        ("settings", "reactive-desched/v1alpha1"),
    ],
)
def test_the_schema_of_a_format_asks_for_its_api_version(
    name: str, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = printed(capsys, name)

    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert properties["apiVersion"]["const"] == version
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_without_a_format_every_document_is_described_by_its_api_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    schema = printed(capsys)

    assert schema["properties"] == {
        "apiVersion": {
            "enum": ["descheduler/v1alpha2", "descheduler/v1alpha1", "reactive-desched/v1alpha1"]
        }
    }


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("v1alpha2", "DeschedulerPolicy.v1alpha2"),
        ("v1alpha1", "DeschedulerPolicy.v1alpha1"),
        ("settings", "ReactiveSettings.v1alpha1"),
        ("any", "any"),
    ],
)
def test_a_schema_has_an_id_of_its_format_and_names_its_release(
    name: str, id_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = printed(capsys, name)

    assert schema["$id"] == f"urn:reactive-desched:schemas:{id_}"
    assert schema["$comment"] == f"reactive-desched {__version__}"
    assert json.dumps(schema).count('"$id"') == 1, "another would change what references mean"


def test_the_section_of_an_installed_sink_can_be_among_the_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (Path(__file__).parents[2] / "examples/sink/spool_sink.py").read_text()
    write_package(tmp_path, "reactive_desched.sinks", {"spool": "SpoolSink"}, code, "spool_sink")
    monkeypatch.syspath_prepend(tmp_path)
    settings: dict[str, Any] = {
        "apiVersion": "reactive-desched/v1alpha1",
        "kind": "ReactiveSettings",
        "sinks": {"spool": {"directory": "a"}, "additionalSpool": [{"name": "b"}]},
    }
    for name in ("any", "settings"):
        schema = printed(capsys, name, "--sink", "spool")
        Draft7Validator.check_schema(schema)
        [missing] = Draft7Validator(schema).iter_errors(settings)
        assert "directory" in str(missing)
        settings["sinks"].pop("additionalSpool")
        Draft7Validator(schema).validate(settings)
        settings["sinks"]["additionalSpool"] = [{"name": "b"}]


@pytest.mark.parametrize(
    "words",
    [
        ("v1alpha2", "--sink", "stdout"),
        ("any", "--sink", "none"),
        ("v1alpha1", "--source", "Prometheus"),
        ("any", "--source", "none"),
        ("v1alpha1", "--plugin", "RemoveDuplicates"),
        ("any", "--plugin", "RemoveDuplicate"),
    ],
)
def test_what_has_no_place_there_is_refused(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        printed(capsys, *words)

    assert stopped.value.code == 2
    assert words[1] in capsys.readouterr().err


def test_an_installed_source_has_its_section_and_may_be_named_by_policies(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (Path(__file__).parents[2] / "examples/usage/node_file.py").read_text()
    offered = {"NodeFile": "NodeFile"}
    write_package(tmp_path, "reactive_desched.usage_sources", offered, code, "node_file")
    monkeypatch.syspath_prepend(tmp_path)
    settings = {
        "apiVersion": "reactive-desched/v1alpha1",
        "kind": "ReactiveSettings",
        "usage": {"nodeFile": {"path": "/run/use.json", "interval": "30s"}},
    }
    policy = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "metricsProviders": [{"source": "NodeFile"}],
        "profiles": [{"name": "p"}],
    }
    for name, documents in (
        ("any", (settings, policy)),
        ("settings", (settings,)),
        ("v1alpha2", (policy,)),
    ):
        schema = Draft7Validator(printed(capsys, name, "--source", "NodeFile"))
        Draft7Validator.check_schema(schema.schema)
        for each in documents:
            schema.validate(each)
            assert not Draft7Validator(printed(capsys, name)).is_valid(each)
    wrong = {**settings, "usage": {"nodeFile": {"pth": "x"}}}
    assert not Draft7Validator(printed(capsys, "any", "--source", "NodeFile")).is_valid(wrong)


def test_an_installed_plugin_may_be_named_with_its_arguments(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (Path(__file__).parents[2] / "examples/plugin/retiring_nodes.py").read_text()
    plugin = "RemovePodsFromRetiringNodes"
    offered = {plugin: "RetiringNodesPlugin"}
    write_package(tmp_path, "reactive_desched.plugins", offered, code, "retiring_nodes")
    monkeypatch.syspath_prepend(tmp_path)

    def policy(args: object, point: str = "deschedule") -> dict[str, object]:
        profile = {
            "name": "p",
            "pluginConfig": [{"name": plugin, "args": args}],
            "plugins": {point: {"enabled": [plugin]}},
        }
        return {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "profiles": [profile],
        }

    settings = {
        "apiVersion": "reactive-desched/v1alpha1",
        "kind": "ReactiveSettings",
        "debounce": {"perPlugin": {plugin: {"quiet": "2s"}}},
        "guards": {"ignoredBy": {plugin: ["Rollouts"]}},
    }
    right = policy({"label": "retiring"})
    for name, documents in (
        ("any", (settings, right)),
        ("settings", (settings,)),
        ("v1alpha2", (right,)),
    ):
        words = ("--plugin", plugin, "--plugin", "RemoveDuplicates", "--plugin", plugin)
        schema = Draft7Validator(printed(capsys, name, *words))
        Draft7Validator.check_schema(schema.schema)
        for each in documents:
            schema.validate(each)
            assert not Draft7Validator(printed(capsys, name)).is_valid(each)
    schema = Draft7Validator(printed(capsys, "any", "--plugin", plugin))
    assert not schema.is_valid(policy({"lable": "retiring"}))
    assert not schema.is_valid(policy({"label": "retiring"}, "balance"))


def test_another_format_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        printed(capsys, "v1beta1")

    assert stopped.value.code == 2
    assert "v1beta1" in capsys.readouterr().err
