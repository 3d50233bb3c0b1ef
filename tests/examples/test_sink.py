"""The example of a sink is a package of its own; an event that comes again is one file."""

import json
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from reactive_desched.api.event import Record
from reactive_desched.api.sink import SinkHost
from reactive_desched.errors import EventRejected, SinkUnavailable
from tests.support.entries import eviction_entries
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples" / "sink"
PAGE = EXAMPLE.parents[1] / "docs" / "howto" / "write-a-sink.md"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(EXAMPLE)
    yield import_module("spool_sink")
    del sys.modules["spool_sink"]


def make(module: Any, folder: Path, **settings: Any) -> Any:
    host = SinkHost(name="spool", log=RecordingLogger(), clock=lambda: 0.0, wall=lambda: 0.0)
    return module.SpoolSink.open(module.SpoolSettings(directory=str(folder), **settings), host)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_its_package_offers_it_by_the_name_of_its_section() -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["reactive_desched.sinks"] == {"spool": "spool_sink:SpoolSink"}


async def test_a_record_that_comes_again_is_in_the_same_file(module: Any, tmp_path: Path) -> None:
    records = eviction_entries(3)
    sink = make(module, tmp_path)

    assert await sink.deliver(records) == 3
    assert await sink.deliver(records[1:]) == 2
    ids = sorted(f"{json.loads(record.raw)['id']}.json" for record in records)
    assert names(tmp_path) == ids
    assert (tmp_path / ids[0]).read_bytes() == records[0].raw + b"\n"


async def test_it_counts_what_is_on_disk_from_the_first_record(module: Any, tmp_path: Path) -> None:
    records = eviction_entries(3)
    sink = make(module, tmp_path)

    assert await sink.deliver([records[0], Record(9, b"{}"), records[1]]) == 1
    with pytest.raises(EventRejected):
        await sink.deliver([Record(9, b"{}"), records[1]])
    assert len(names(tmp_path)) == 1


async def test_a_full_folder_and_a_missing_one_are_waited_for(module: Any, tmp_path: Path) -> None:
    records = eviction_entries(3)
    sink = make(module, tmp_path, max_files=2)

    assert await sink.deliver(records) == 2
    with pytest.raises(SinkUnavailable, match="full"):
        await sink.deliver(records[2:])
    with pytest.raises(SinkUnavailable, match="takes no file"):
        await make(module, tmp_path / "none").deliver(records)


def test_the_page_shows_the_example_as_it_is() -> None:
    page = PAGE.read_text(encoding="utf-8")
    code = (EXAMPLE / "spool_sink.py").read_text(encoding="utf-8")
    shown = page.partition("```python\n")[2].partition("```")[0]

    assert shown
    assert _without_blank_lines(indent(shown, "    ")) in _without_blank_lines(code)


def _without_blank_lines(code: str) -> str:
    return "\n".join(filter(str.strip, code.splitlines()))
