"""Whoever reads the output may leave before its end, and that is told by the exit status alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reactive_desched.cli import main
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import parse_summary
from reactive_desched.model.event_types import full_type


def ended(*words: str) -> tuple[bytes, int]:
    """Run a command whose output nobody reads; return what it said on stderr, and its status."""
    command = [sys.executable, "-m", "reactive_desched", *words]
    reader, writer = os.pipe()
    os.close(reader)  # before it begins: a quick one would be done sooner
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    return done.stderr, done.returncode


def some_case(records: list[JournalRecord]) -> str:
    """Return the id of a case in these records."""
    found = (parse_summary(entry.raw) for entry in records)
    return next(one.correlationid for one in found if one and one.type == full_type("finding.made"))


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "verify"],
        ["audit", "query"],
        ["audit", "show", "CASE"],
        ["audit", "status"],
        ["audit", "export"],
        ["events", "tail"],
    ],
    ids=" ".join,
)
def test_output_without_a_reader_is_no_failure(
    folder: Path, records: list[JournalRecord], words: list[str]
) -> None:
    said = [some_case(records) if word == "CASE" else word for word in words]
    assert main(["audit", "status", "--journal", str(folder)]) == 0  # else a slow one says so

    assert ended(*said, "--journal", str(folder)) == (b"", 141)


@pytest.mark.parametrize("words", [["version"], ["policy", "schema"]], ids=" ".join)
def test_so_it_is_for_every_command(words: list[str]) -> None:
    assert ended(*words) == (b"", 141)
