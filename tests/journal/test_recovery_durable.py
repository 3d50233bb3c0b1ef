"""A torn end that is cut off is durable elsewhere before, whenever the power goes."""

import os
import stat
from pathlib import Path

import pytest

from reactive_desched.journal.recovery import recover
from tests.support.journals import some_events, write_journal


def test_nothing_is_cut_off_while_the_name_of_its_copy_is_not_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(tmp_path, some_events(5))
    [path] = tmp_path.glob("journal-*")
    with path.open("ab") as file:
        file.write(b'{"half')
    before, fsync = path.read_bytes(), os.fsync

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError("the folder cannot be written")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="the folder cannot be written"):
        recover(tmp_path)

    assert path.read_bytes() == before
