"""A library can be kept from what it imports, and nothing else notices."""

import dataclasses
import re
import ssl
import subprocess
import sys
import typing
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.primitives.lean_imports import (
    certificates_on_demand,
    install_stand_in,
    patterns_on_demand,
    shared_dataclass_methods,
    unchecked_typed_dicts,
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


def test_a_typed_dict_of_that_time_is_a_dict_with_its_annotations_and_later_ones_are_as_ever() -> (
    None
):
    with unchecked_typed_dicts():

        class Early(typing.TypedDict, total=False):
            size: "no type at all ("  # type: ignore[valid-type]  # noqa: F722 -- read by nobody

    class Late(typing.TypedDict):
        size: int

    assert Early(size=1) == {"size": 1}
    assert Early.__annotations__ == {"size": "no type at all ("}
    assert not typing.is_typeddict(Early)
    assert typing.is_typeddict(Late)


def own_repr(_: object) -> str:
    return "mine"


def always_equal(_: object, __: object) -> bool:
    return True


DATACLASSES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {}),
    ({"frozen": True}, {}),
    ({"frozen": True, "slots": True}, {}),
    ({"slots": True, "kw_only": True}, {}),
    ({"order": True}, {}),
    ({"unsafe_hash": True}, {}),
    ({"eq": False}, {}),
    ({"repr": False, "frozen": True}, {}),
    ({}, {"__repr__": own_repr}),
    ({"frozen": True}, {"__eq__": always_equal}),
    ({"frozen": True}, {"__eq__": always_equal, "__hash__": lambda _: 7}),
    ({}, {"__hash__": lambda _: 7}),
    ({}, {"__hash__": None}),
)
"""Options of dataclasses, and methods that the class has of its own."""


def traits(options: dict[str, Any], methods: dict[str, Any]) -> list[object]:
    """Make a dataclass and one that derives from it; return what can be seen of their instances."""
    fields: list[Any] = [
        ("size", int),
        ("note", str, dataclasses.field(default="", compare=False)),
        ("key", int, dataclasses.field(default=1, hash=False)),
        ("hidden", Any, dataclasses.field(default=None, repr=False)),
    ]
    made = dataclasses.make_dataclass("Made", fields, namespace=dict(methods), **options)
    derived = dataclasses.make_dataclass("Derived", [("more", int, 0)], bases=(made,), **options)
    found: list[object] = []
    for each in (made, derived):
        one, same = each(size=1), each(size=1, note="other")
        unequal = each(size=2), each(size=1, key=2), each(size=1, hidden=3), made(size=1)
        shown = [repr(seen).partition(" at 0x")[0] for seen in (one, same)]  # without addresses
        found += [shown, one == same, [one == other for other in unequal], one == 1]
        hashable = vars(each).get("__hash__")
        found += [hashable is None]
        if hashable is not None:
            found += [hash(one), hash(same), hash(unequal[1])]
    looped = made(size=1, note="looped")
    with suppress(dataclasses.FrozenInstanceError):
        looped.size = looped
        found.append(repr(looped))
    return found


@pytest.mark.parametrize(("options", "methods"), DATACLASSES)
def test_dataclasses_with_shared_methods_differ_in_nothing_else(
    options: dict[str, Any], methods: dict[str, Any]
) -> None:
    usual = traits(options, methods)
    with shared_dataclass_methods():
        assert traits(options, methods) == usual


def test_dataclasses_of_that_time_share_the_code_of_their_methods_and_later_ones_do_not() -> None:
    with shared_dataclass_methods():

        @dataclasses.dataclass(frozen=True)
        class Early:
            size: int

        @dataclasses.dataclass
        class Other:
            name: str

    @dataclasses.dataclass
    class Late:
        name: str

    assert Early.__eq__.__code__ is Other.__eq__.__code__
    assert Late.__eq__.__code__ is not Other.__eq__.__code__
    assert Other("a") == Other("a") != Other("b")


def test_pydantic_keeps_its_own_loader_of_plugins_for_other_packages() -> None:
    script = (
        "from reactive_desched.__main__ import _keep_unused_modules_out\n"
        "_keep_unused_modules_out()\n"
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
