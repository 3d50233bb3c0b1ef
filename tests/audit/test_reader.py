from pathlib import Path

import pytest

from reactive_desched.audit.reader import AuditReader
from reactive_desched.errors import JournalError
from reactive_desched.journal.segments import segment_at
from tests.support.golden import Golden


def test_a_folder_that_cannot_be_looked_into_is_named(tmp_path: Path, golden: Golden) -> None:
    reader = AuditReader(tmp_path / "nowhere")

    with pytest.raises(JournalError) as caught:
        reader.segments()

    assert golden() in str(caught.value)
    with pytest.raises(JournalError) as caught:
        reader.read(0, 0, 1)

    assert golden() in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, golden: Golden) -> None:
    path = segment_at(tmp_path, 1).path
    path.mkdir()

    with pytest.raises(JournalError) as caught:
        AuditReader(tmp_path).read(0, 0, 1)

    assert str(caught.value) == golden(path=path)
