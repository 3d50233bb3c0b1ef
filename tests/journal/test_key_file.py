import errno
import os
from pathlib import Path

import pytest

from reactive_desched.errors import JournalError
from reactive_desched.journal import durable
from reactive_desched.journal.signing import key_file


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        pytest.param(errno.ENOSPC, "free some space", id="full"),
        pytest.param(errno.EDQUOT, "raise the quota", id="over the quota"),
        pytest.param(errno.EIO, "the disk fails", id="broken"),
        pytest.param(errno.EACCES, "let this process write to its folder", id="closed"),
    ],
)
def test_what_to_do_about_a_key_that_cannot_be_kept_fits_the_reason(
    number: int, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(key_file, "_write", fail)
    with pytest.raises(JournalError) as caught:
        key_file.load_or_create(tmp_path / "key")
    assert f"cannot keep a key here: {os.strerror(number)}; {remedy}" in str(caught.value)

    monkeypatch.setattr(durable, "replace", fail)
    with pytest.raises(JournalError) as caught:
        key_file.publish(tmp_path / "key.pub", "a key")
    assert f"the public key here: {os.strerror(number)}; {remedy}" in str(caught.value)
