from pathlib import Path

import pytest

from reactive_desched.audit.reader import AuditReader
from reactive_desched.errors import JournalError
from reactive_desched.journal.segments import segment_at


def test_a_folder_that_cannot_be_looked_into_is_named(tmp_path: Path) -> None:
    reader = AuditReader(tmp_path / "nowhere")

    with pytest.raises(JournalError, match="nowhere: cannot read the journal here: No such file"):
        reader.segments()
    with pytest.raises(JournalError, match="nowhere: cannot read the journal here: No such file"):
        reader.read(0, 0, 1)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    segment_at(tmp_path, 1).path.mkdir()

    with pytest.raises(
        JournalError, match=r"journal-0*1\.jsonl: cannot read the journal here: Is a"
    ):
        AuditReader(tmp_path).read(0, 0, 1)
