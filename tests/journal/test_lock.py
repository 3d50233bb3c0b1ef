import os
import subprocess
import sys
from pathlib import Path

import pytest

from reactive_desched.errors import JournalError
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.lock import DirectoryLock
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig
from tests.support.golden import Golden

OTHER_PROCESS = """
import sys
from pathlib import Path
from reactive_desched.errors import JournalError
from reactive_desched.journal.lock import DirectoryLock
try:
    DirectoryLock(Path(sys.argv[1]))
except JournalError as error:
    print(error)
"""


def test_a_second_process_learns_which_process_has_the_directory(
    tmp_path: Path, golden: Golden
) -> None:
    lock = DirectoryLock(tmp_path)

    other = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    lock.close()
    assert golden("in use", tmp_path=tmp_path, getpid=os.getpid()) in other.stdout
    assert golden("remedy") in other.stdout


def test_a_second_journal_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)

    with pytest.raises(JournalError, match=f"in use by process {os.getpid()}"):
        DirectoryLock(tmp_path)

    lock.close()


def test_a_closed_lock_can_be_taken_again(tmp_path: Path) -> None:
    first = DirectoryLock(tmp_path)
    first.close()
    first.close()

    second = DirectoryLock(tmp_path)

    second.close()


@pytest.mark.anyio
async def test_a_directory_that_cannot_be_made_is_named_with_the_remedy(
    tmp_path: Path, clock: object, golden: Golden
) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(JournalError) as caught:
        await Journal.open(file / "journal", JournalConfig(Rotation(1, 1)), clock=clock)  # type: ignore[arg-type]  # never asked

    assert golden() in str(caught.value)
