"""A library can be kept from what it imports, and nothing else notices."""

import re
import ssl
import typing
from pathlib import Path

import pytest

from reactive_desched.primitives.lean_imports import (
    certificates_on_demand,
    patterns_on_demand,
    unchecked_typed_dicts,
)
from tests.support.authority import CertificateAuthority
from tests.support.tls_handshake import shake_hands


def test_a_pattern_is_compiled_when_it_is_first_used_and_is_one_from_the_start() -> None:
    with patterns_on_demand():
        word, broken = re.compile(r"(\w+)!", re.IGNORECASE), re.compile("(")
        at_once = re.match("a(b)", "ab")

    assert isinstance(word, re.Pattern)
    assert re.fullmatch(word, "Hallo!")
    assert [each[1] for each in word.finditer("a! b c!")] == ["a", "c"]
    assert (word.pattern, word.groups, word.flags & re.IGNORECASE) == (r"(\w+)!", 1, re.IGNORECASE)
    assert word.sub(r"\1?", "a!") == "a?"
    assert at_once is not None
    with pytest.raises(re.error):
        broken.search("(")
    with pytest.raises(re.error):
        re.compile("(")


def test_a_typed_dict_of_that_time_is_a_dict_of_one_class_and_later_ones_are_as_ever() -> None:
    with unchecked_typed_dicts():

        class Early(typing.TypedDict, total=False):
            size: "no type at all ("  # type: ignore[valid-type]  # noqa: F722 -- read by nobody

        class Earlier(Early, total=False):
            name: str

    class Late(typing.TypedDict):
        size: int

    assert Early(size=1) == {"size": 1}
    assert isinstance(Earlier(size=1), dict)
    assert not typing.is_typeddict(Early)
    assert typing.is_typeddict(Late)


@pytest.fixture
def system_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CertificateAuthority:
    authority = CertificateAuthority()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.write(tmp_path / "system.pem")))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    return authority


def test_a_context_loads_the_systems_authorities_when_it_is_first_used(
    system_authority: CertificateAuthority, tmp_path: Path
) -> None:
    with certificates_on_demand():
        late = ssl.create_default_context()
    assert late.cert_store_stats()["x509_ca"] == 0

    assert shake_hands(late, system_authority.server_context(tmp_path, "127.0.0.1")) == "TLSv1.3"
    assert late.cert_store_stats()["x509_ca"] == 1
    assert shake_hands(late, system_authority.server_context(tmp_path, "127.0.0.1")) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(late, CertificateAuthority().server_context(tmp_path, "127.0.0.1"))


def test_such_a_context_differs_in_nothing_else_from_one_that_was_made_at_other_times(
    system_authority: CertificateAuthority,
) -> None:
    with certificates_on_demand():
        late = ssl.create_default_context()
    usual = ssl.create_default_context()

    assert usual.cert_store_stats()["x509_ca"] == 1
    for name in ("verify_mode", "check_hostname", "options", "verify_flags", "minimum_version"):
        assert getattr(late, name) == getattr(usual, name), name


def test_a_context_with_authorities_of_its_own_has_them_at_once_and_no_others(
    system_authority: CertificateAuthority, tmp_path: Path
) -> None:
    own = CertificateAuthority()
    ca_file = str(own.write(tmp_path / "own.pem"))
    with certificates_on_demand():
        context = ssl.create_default_context(cafile=ca_file)

    assert context.cert_store_stats()["x509_ca"] == 1
    assert shake_hands(context, own.server_context(tmp_path, "127.0.0.1")) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context, system_authority.server_context(tmp_path, "127.0.0.1"))
