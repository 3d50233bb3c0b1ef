"""Files that people wrote for koordinator's descheduler: each is read, and differences are said.

The collection stands beside the repository; where it does not, the tests are skipped and say so.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from reactive_desched.api.rules import Rule
from reactive_desched.cli import main
from reactive_desched.errors import ConfigError
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.convert.rewriting import ConvertOptions, convert_policy
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source

FOLDER: Final = Path(__file__).parent.parent.parent / "shared/policies-in-the-wild/koordinator"
REFUSED: Final = {Rule.YAML_SYNTAX, Rule.UNKNOWN_FIELD, Rule.WRONG_EXTENSION_POINT}
"""The rules by which a file is refused that koordinator refuses, too."""

Judged = dict[str, Any]  # an entry of the collection's index


def collection() -> Iterator[Any]:
    """Yield the index's entries."""
    if not (FOLDER / "index.json").is_file():
        reason = f"there are no files of koordinator: looked for index.json in {FOLDER}"
        yield pytest.param({}, id="none", marks=pytest.mark.skip(reason=reason))
        return
    for entry in json.loads((FOLDER / "index.json").read_bytes()):
        yield pytest.param(entry, id=entry["file"])


PANIC = "panic: "
"""A program that ends by a fault of its own has refused nothing."""


def rules(entry: Judged) -> set[Rule]:
    """Return the rules of the errors about a file."""
    return {each.rule for each in check_source(FOLDER / entry["file"], plugin_registry()).errors}


@pytest.mark.parametrize("entry", tuple(collection()))
def test_what_koordinator_takes_is_refused_for_nothing_but_what_only_it_does(
    entry: Judged,
) -> None:
    found = rules(entry)
    verdict = entry["verdict"]["koord-descheduler"]

    if verdict["accepted"] or verdict["message"].startswith(PANIC):
        assert found <= {Rule.KOORDINATOR_ONLY}
    else:
        assert found & (REFUSED | {Rule.KOORDINATOR_ONLY})


@pytest.mark.parametrize("entry", tuple(collection()))
def test_the_check_and_run_refuse_a_file_for_the_same(
    entry: Judged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(FOLDER / entry["file"])
    checked = main(["policy", "check", file])
    errors = [line for line in capsys.readouterr().out.splitlines() if " error: " in line]

    where = ["--kubeconfig", str(tmp_path / "none"), "--listen", "127.0.0.1:0"]
    assert main(["run", "--policy", file, *where]) == 2
    refusal = capsys.readouterr().err
    assert checked == (2 if errors else 0)
    assert [line for line in refusal.splitlines() if " error: " in line] == errors
    assert ("kubeconfig" in refusal.splitlines()[-1]) == (not errors)


@pytest.mark.parametrize("entry", tuple(collection()))
def test_a_file_is_converted_to_one_that_runs_but_for_what_is_wrong_in_it(entry: Judged) -> None:
    source = SourceText((FOLDER / entry["file"]).read_bytes(), entry["file"])
    if Rule.YAML_SYNTAX in (found := rules(entry)):
        with pytest.raises(ConfigError, match="RD"):
            convert_policy(source, plugin_registry(), ConvertOptions())
        return
    new = convert_policy(source, plugin_registry(), ConvertOptions())
    assert check_source(SourceText(new.text, "new.yaml"), plugin_registry()).errors == ()
    assert {each.rule for each in new.left_out} == found - {Rule.KOORDINATOR_ONLY}
    told = " ".join(line.lstrip("# ") for line in new.text.decode().splitlines())
    for each in new.left_out:
        assert f"line {each.line}: {each.path}" in told
        assert each.hint in told
