"""The page on events: its tables are the code's, its sample is an event, its programs work."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from reactive_desched.api.event import DATA_TYPES
from reactive_desched.model.event_types import TYPE_PREFIX
from tools.event_schemas import definitions, envelope
from tools.write_event_schemas import PAGE

Tampering = Callable[[list[bytes]], list[bytes]]
TEXT = PAGE.read_text(encoding="utf-8")


def block(language: str) -> str:
    """Return the page's only block in a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return str(found)


def test_the_page_names_every_type_attribute_and_field() -> None:
    fields = [name for schema in definitions().values() for name in schema["properties"]]

    assert [name for name in [*envelope()["properties"], *fields] if f"`{name}`" not in TEXT] == []
    assert [t for t in DATA_TYPES if f"| `{t.removeprefix(TYPE_PREFIX)}` |" not in TEXT] == []


def test_every_type_in_a_table_leads_to_its_fields() -> None:
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", TEXT, re.MULTILINE)}

    assert set(re.findall(r"\]\(#(\w+)\)", TEXT)) <= headings


def test_the_sample_on_the_page_is_an_event() -> None:
    Draft202012Validator(envelope()).validate(json.loads(block("json")))


def verify(program: str, lines: list[bytes], tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    """Run the page's program on lines."""
    (tmp_path / "verify.py").write_text(program, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "verify.py")]
    return subprocess.run(
        command, input=b"\n".join(lines) + b"\n", capture_output=True, timeout=60, check=False
    )


def test_the_program_on_the_page_verifies_a_chain(lines: list[bytes], tmp_path: Path) -> None:
    assert verify(block("python"), lines, tmp_path).returncode == 0
    assert verify(block("python"), lines[70:], tmp_path).returncode == 0


@pytest.mark.parametrize(
    "tampered",
    [
        pytest.param(lambda lines: lines[:70] + lines[71:], id="one removed"),
        pytest.param(lambda lines: lines[:70] + lines[69:], id="one put in"),
        pytest.param(
            lambda lines: [*lines[:70], lines[70].replace(b"1", b"2", 1), *lines[71:]],
            id="one changed",
        ),
        pytest.param(
            lambda lines: [*lines[:70], lines[71], lines[70], *lines[72:]], id="two swapped"
        ),
    ],
)
def test_the_program_on_the_page_finds_tampering(
    lines: list[bytes], tmp_path: Path, tampered: Tampering
) -> None:
    done = verify(block("python"), tampered(lines), tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith(b"broken before ")
