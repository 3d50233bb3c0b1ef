"""A text is known by its SHA-256, whichever code computes it."""

import hashlib
import sys

import pytest

from reactive_desched.policy.documents import SourceText


@pytest.mark.parametrize("missing", [(), ("_sha2", "_sha256")], ids=["Python's", "OpenSSL's"])
def test_a_text_and_its_bytes_have_the_revision_that_sha256sum_shows(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    raw = "größe: 1\n".encode()

    expected = hashlib.sha256(raw).hexdigest()
    assert SourceText(raw, "policy.yaml").sha256 == expected
    assert SourceText(raw.decode(), "policy.yaml").revision == expected[:12]
