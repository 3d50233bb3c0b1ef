"""The page on `plan` says what the command does."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reactive_desched.cli import main, parser
from reactive_desched.plan import report, rule_table

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "plan.md").read_text(encoding="utf-8")


NODES_PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "nodes.md").read_text(
    encoding="utf-8"
)


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_example_is_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, policy = blocks("yaml")
    (answer,) = blocks("json")
    (line,) = re.findall(r"^`reactive-desched (plan .*)` prints$", PAGE, re.MULTILINE)
    (tmp_path / "cluster.yaml").write_text(cluster, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert main(line.split()) == 0
    assert capsys.readouterr().out == answer


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {*value, *(key for each in value.values() for key in keys(each))}
    return {key for each in value for key in keys(each)} if isinstance(value, list) else set()


def test_the_page_on_nodes_shows_what_the_command_prints_and_explains_every_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (cluster, policy), (answer,) = blocks("yaml", NODES_PAGE), blocks("json", NODES_PAGE)
    (line,) = re.findall(r"^`reactive-desched (nodes .*)` prints$", NODES_PAGE, re.MULTILINE)
    (tmp_path / "cluster.yaml").write_text(cluster, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert main(line.split()) == 0
    assert capsys.readouterr().out == answer
    explained = NODES_PAGE.partition("| field | meaning |")[2]
    parts = [getattr(rule_table, name) for name in rule_table.__all__]
    fields = {field.encode_name for part in parts for field in msgspec.structs.fields(part)}
    assert fields - keys(json.loads(answer)) == set()
    assert {name for name in fields if f"`{name}" not in explained} == set()


def test_the_example_has_every_field_of_the_model() -> None:
    (answer,) = blocks("json")
    shown = keys(json.loads(answer))
    parts = [getattr(report, name) for name in report.__all__]
    fields = {
        field.encode_name
        for part in parts
        if isinstance(part, type)
        for field in msgspec.structs.fields(part)
    }

    assert fields - shown == set()


def test_every_field_is_explained() -> None:
    explained = PAGE.partition("| field | meaning |")[2]
    (answer,) = blocks("json")
    read = json.loads(answer)
    names = keys({key: value for key, value in read.items() if key in ("decisions", "others")})
    names |= {*read["lookedAt"], *read["summary"], *read} - {"apiVersion", "kind"}

    assert [name for name in sorted(names) if not re.search(rf"[`.]{name}`", explained)] == []


def test_every_flag_is_explained() -> None:
    (commands,) = (action for action in parser()._actions if action.dest == "==SUPPRESS==")
    assert isinstance(commands.choices, dict)
    flags = commands.choices["plan"]._option_string_actions.values()
    longest = {max(flag.option_strings, key=len) for flag in flags} - {"--help"}
    spelled = {"--filename": "-f", "--output": "-o", "--policy-config-file": "--policy"}

    table = PAGE.partition("| flag | meaning |")[2].partition("\n\n")[0]
    assert [flag for flag in longest if f"`{spelled.get(flag, flag)}" not in table] == []
