import errno
import os
from pathlib import Path

import pytest

from reactive_desched.errors import JournalError
from reactive_desched.journal import atomic_files
from reactive_desched.journal.signing import key_file
from tests.support.golden import Golden


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(errno.ENOSPC, id="full"),
        pytest.param(errno.EDQUOT, id="over the quota"),
        pytest.param(errno.EIO, id="broken"),
        pytest.param(errno.EACCES, id="closed"),
    ],
)
def test_what_to_do_about_a_key_that_cannot_be_kept_fits_the_reason(
    number: int, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(key_file, "_write", fail)
    with pytest.raises(JournalError) as caught:
        key_file.load_or_create(tmp_path / "key")
    assert f"cannot keep a key here: {os.strerror(number)}; {golden()}" in str(caught.value)

    monkeypatch.setattr(atomic_files, "replace", fail)
    with pytest.raises(JournalError) as caught:
        key_file.publish(tmp_path / "key.pub", "a key")
    assert f"the public key here: {os.strerror(number)}; {golden()}" in str(caught.value)
