"""A library can be kept from what it imports, and nothing else notices."""

import re
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from reactive_desched.primitives.lean_imports import (
    certificates_on_demand,
    install_stand_in,
    patterns_on_demand,
    without_package,
)
from tests.support.authority import CertificateAuthority


def test_a_package_is_missing_meanwhile_and_there_again_afterwards() -> None:
    import colorsys

    with without_package("colorsys"), pytest.raises(ImportError):
        import colorsys

    import colorsys as again

    assert again is colorsys


def test_a_package_that_was_not_loaded_is_loaded_afterwards() -> None:
    sys.modules.pop("colorsys", None)
    with without_package("colorsys"):
        assert sys.modules["colorsys"] is None

    import colorsys

    assert colorsys.rgb_to_hsv


def test_a_stand_in_gives_its_members_and_loads_the_module_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    install_stand_in("colorsys", rgb_to_hsv=tuple)

    from colorsys import rgb_to_hsv

    assert rgb_to_hsv is tuple  # type: ignore[comparison-overlap]  # the stand-in
    stand_in = sys.modules["colorsys"]
    assert not hasattr(stand_in, "__path__")
    assert sys.modules["colorsys"] is stand_in

    from colorsys import hsv_to_rgb

    assert hsv_to_rgb.__module__ == "colorsys"
    assert sys.modules["colorsys"] is not stand_in


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


def test_pydantic_keeps_its_own_loader_of_plugins_for_other_packages() -> None:
    script = (
        "from reactive_desched.__main__ import _disable_pydantic_plugins\n"
        "_disable_pydantic_plugins()\n"
        "from pydantic.plugin._loader import get_plugins, PYDANTIC_ENTRY_POINT_GROUP\n"
        "assert (get_plugins(), PYDANTIC_ENTRY_POINT_GROUP) == ((), 'pydantic')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> str | None:
    """Let two contexts meet; return what the client makes of the server's protocol."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for each in (ours, theirs):
            with suppress(ssl.SSLWantReadError):
                each.do_handshake()
    return ours.version()


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
