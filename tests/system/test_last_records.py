"""What is recorded while the controller stops reaches those who follow its stream."""

import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import CHECKPOINT
from reactive_desched.journal.events import read_events


@pytest.fixture
def settings() -> str:
    return "sinks: {stream: {}}\n"


def test_an_open_stream_gets_every_record_up_to_the_checkpoint_of_the_stop(
    controller: Callable[..., Any], tmp_path: Path
) -> None:
    program = controller()
    url = program.url
    program.wait_for("the cluster is synced")
    request = urllib.request.Request(
        f"{url}/events?from=oldest", headers={"Accept": "application/x-ndjson"}
    )
    with urllib.request.urlopen(request, timeout=60) as stream:
        assert program.stop() == 0
        streamed = [line for line in stream.read().split(b"\n") if line]

    files = sorted((tmp_path / "journal").glob("*.jsonl"))
    assert streamed == [line for file in files for line in file.read_bytes().splitlines()]
    assert list(read_events(tmp_path / "journal"))[-1].type == CHECKPOINT
    assert "the journal is closed" not in program.output
