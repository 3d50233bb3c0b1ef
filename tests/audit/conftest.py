"""What tests of the index share: they may leave it open."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactive_desched.audit.index import AuditIndex


@pytest.fixture(autouse=True)
def closed_indexes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the indexes that a test made, after it: Python 3.13 warns of those left open."""
    made: list[AuditIndex] = []
    original = AuditIndex.__init__

    def make(self: AuditIndex, directory: Path, connection: sqlite3.Connection) -> None:
        original(self, directory, connection)
        made.append(self)

    monkeypatch.setattr(AuditIndex, "__init__", make)
    yield
    for index in made:
        index.close()
