"""Signed checkpoints: the note form, and the key they are signed with."""

import base64
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import ConfigError, JournalError, ReactiveDeschedError
from reactive_desched.journal.signing.signed_note import (
    PublicKey,
    SignatureStatus,
    is_key_name,
    parse_key,
    parse_note,
    verify_note,
)
from reactive_desched.journal.signing.signer import Ed25519Signer, open_signer
from tests.support.golden import Golden

ORIGIN = "kubernetes/descheduler/reactive-desched-0/01j9"
ROOT = hashlib.sha256(b"the last record").hexdigest()
SIGNER = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))), ORIGIN)
KEY = parse_key(SIGNER.public_key)
NOTE = SIGNER.sign(1234, ROOT)

# A checkpoint of the Go checksum database and its key, as the world knows them.
GO_KEY = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"
GO_NOTE = """\
go.sum database tree
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— sum.golang.org Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
"""  # noqa: E501 -- a line of a note cannot be folded


# --- the form ---------------------------------------------------------------------------------


def test_a_note_is_three_lines_an_empty_one_and_the_signature() -> None:
    root = base64.b64encode(bytes.fromhex(ROOT)).decode()
    text, _, signature = NOTE.partition("\n\n")

    assert text == f"{ORIGIN}\n1234\n{root}"
    name, encoded = signature.removesuffix("\n").removeprefix("— ").split(" ")
    assert name == ORIGIN
    raw = base64.b64decode(encoded)
    assert len(raw) == 4 + 64
    assert raw[:4] == hashlib.sha256(f"{ORIGIN}\n\x01".encode() + KEY.public).digest()[:4]
    Ed25519PublicKey.from_public_bytes(KEY.public).verify(raw[4:], f"{text}\n".encode())


def test_a_note_that_was_signed_elsewhere_in_the_world_is_verified() -> None:
    note = parse_note(GO_NOTE)

    assert (note.origin, note.size) == ("go.sum database tree", 20852163)
    assert note.root == "0ac5186a91863e8e1d90c808014aa89bf5da8e3ee1d9f07630f0378f68f1ab62"
    assert verify_note(note, parse_key(GO_KEY)) is SignatureStatus.VALID


def test_a_note_read_again_says_what_was_signed() -> None:
    note = parse_note(NOTE)

    assert (note.origin, note.size, note.root) == (ORIGIN, 1234, ROOT)
    assert verify_note(note, KEY) is SignatureStatus.VALID


@given(at=st.integers(0, len(NOTE.encode()) - 1), mask=st.integers(1, 255))
def test_no_byte_of_a_note_can_be_changed(at: int, mask: int) -> None:
    raw = bytearray(NOTE.encode())
    raw[at] ^= mask
    try:
        note = parse_note(raw.decode())
    except (JournalError, UnicodeDecodeError):
        return
    assert verify_note(note, KEY) is not SignatureStatus.VALID


def test_another_key_is_distinguished_from_a_bad_signature() -> None:
    stranger = PublicKey(ORIGIN, bytes(32))
    forged = parse_note(NOTE.replace("\n1234\n", "\n1235\n"))

    assert verify_note(parse_note(NOTE), stranger) is SignatureStatus.OTHER_KEY
    assert verify_note(forged, KEY) is SignatureStatus.INVALID


def test_signatures_of_others_beside_ours_are_not_looked_at() -> None:
    line = "— witness.example/w " + base64.b64encode(b"1234 of any kind").decode() + "\n"
    text, _, ours = NOTE.partition("\n\n")

    for lines in (ours + line, line + ours, line * 99 + ours):
        assert verify_note(parse_note(f"{text}\n\n{lines}"), KEY) is SignatureStatus.VALID


def test_one_right_signature_does_not_heal_a_wrong_one_of_the_same_key() -> None:
    text, _, ours = NOTE.partition("\n\n")
    wrong = SIGNER.sign(1, ROOT).partition("\n\n")[2]

    assert verify_note(parse_note(f"{text}\n\n{ours}{wrong}"), KEY) is SignatureStatus.INVALID


def test_lines_that_others_add_to_the_text_are_signed_with_it() -> None:
    text = NOTE.partition("\n\n")[0] + "\nmore\n"
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    signature = base64.b64encode(KEY.id + key.sign(text.encode())).decode()

    note = parse_note(f"{text}\n— {ORIGIN} {signature}\n")

    assert verify_note(note, KEY) is SignatureStatus.VALID


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda note: note[:-1], id="its last line has no end"),
        pytest.param(lambda note: note + "\n", id="something follows"),
        pytest.param(lambda note: note.replace("— ", "- "), id="a short dash"),
        pytest.param(lambda note: note.partition("\n\n")[0] + "\n", id="no signature"),
        pytest.param(lambda note: note.partition("\n\n")[0] + "\n\n", id="no signature line"),
        pytest.param(lambda note: note.replace("\n1234\n", "\n01234\n"), id="a leading zero"),
        pytest.param(lambda note: note.replace("\n1234\n", "\n-1234\n"), id="a sign"),
        pytest.param(lambda note: note.replace("\n1234\n", "\n\u0661\u0662\n"), id="other digits"),
        pytest.param(lambda note: note.replace("\n1234\n", "\n\n1234\n"), id="an empty line"),
        pytest.param(lambda note: note.replace("\n1234\n", "\n1234\r\n"), id="control characters"),
        pytest.param(lambda note: note.replace("=\n\n", "\n\n"), id="base64 without its padding"),
        pytest.param(lambda note: note.replace("\n1234\n", "\n1234\nQUJD\n"), id="a short root"),
        pytest.param(lambda note: note.replace(ORIGIN, "", 1), id="no origin"),
        pytest.param(
            lambda note: note.replace("\n\n", "\n\n" + note.partition("\n\n")[2] * 100),
            id="too many signatures",
        ),
        pytest.param(lambda note: "x" * (1 << 16) + note, id="too long"),
        pytest.param(lambda _: "", id="nothing"),
        pytest.param(lambda note: note.replace(ORIGIN, "\ud800", 1), id="no Unicode"),
    ],
)
def test_what_is_not_exactly_a_note_is_refused(edit: Callable[[str], str]) -> None:
    with pytest.raises(JournalError, match="not a checkpoint's note"):
        parse_note(edit(NOTE))


def test_base64_in_another_form_is_refused() -> None:
    # the last letter before the padding holds bits that mean nothing: only one letter is right
    root = base64.b64encode(bytes.fromhex(ROOT)).decode()
    other = root[:-2] + chr(ord(root[-2]) + 1) + "="
    assert base64.b64decode(other) == base64.b64decode(root)

    with pytest.raises(JournalError, match="base64"):
        parse_note(NOTE.replace(root, other))


@given(st.text())
def test_any_text_is_a_note_or_an_error_of_ours(text: str) -> None:
    for each in (text, NOTE + text, text + NOTE):
        try:
            parse_note(each)
        except JournalError:
            continue


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        GO_KEY[:-1],
        GO_KEY.replace("033de0ae", "033de0af"),
        GO_KEY.replace("033de0ae", "033DE0AE"),
        GO_KEY.replace("sum.golang.org", "sum.golang.com"),
        GO_KEY.replace("+Ac4", "+Bc4"),
    ],
)
def test_a_key_that_was_copied_wrongly_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_key(text)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u00a0b", "a\nb", "a\x00"])
def test_what_cannot_name_a_key_cannot_name_a_journal(name: str) -> None:
    assert not is_key_name(name)
    with pytest.raises(ConfigError, match="cannot name a journal"):
        Ed25519Signer(Ed25519PrivateKey.generate(), name)


# --- the key ----------------------------------------------------------------------------------


def test_a_journal_makes_its_own_key_once(tmp_path: Path) -> None:
    first = open_signer(tmp_path, "", ORIGIN)
    again = open_signer(tmp_path, "", ORIGIN)

    assert again.sign(1, ROOT) == first.sign(1, ROOT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.key", "checkpoint.pub"]
    assert (tmp_path / "checkpoint.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "checkpoint.pub").read_text() == f"{first.public_key}\n"


def test_two_journals_have_two_keys(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    one, two = (open_signer(tmp_path / name, "", ORIGIN) for name in ("one", "two"))

    assert one.public_key != two.public_key


def test_of_two_that_make_the_key_at_once_one_key_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_signer(tmp_path, "", ORIGIN)
    monkeypatch.setattr(Path, "exists", lambda _: False)  # as it was a moment before

    assert open_signer(tmp_path, "", ORIGIN).public_key == first.public_key


def test_a_draft_that_was_left_behind_is_written_over(tmp_path: Path) -> None:
    (tmp_path / f"checkpoint.key.{os.getpid()}.tmp").write_text("half a k")

    signer = open_signer(tmp_path, "", ORIGIN)

    assert (
        verify_note(parse_note(signer.sign(1, ROOT)), parse_key(signer.public_key))
        is SignatureStatus.VALID
    )


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda raw: raw,
        lambda raw: raw.replace(b"\n", b"\r\n"),
        lambda raw: b"the key of our journal\n" + raw,
        lambda raw: raw.rstrip(),
    ],
    ids=["as openssl writes it", "with the line ends of Windows", "below a text", "cut at the end"],
)
def test_a_given_key_is_read_however_its_pem_is_written(
    tmp_path: Path, rewrite: Callable[[bytes], bytes]
) -> None:
    key = tmp_path / "given.pem"
    key.write_bytes(rewrite(pem(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))))

    assert open_signer(tmp_path, str(key), ORIGIN).public_key == SIGNER.public_key


def test_a_key_of_ours_signs_and_lies_beside_no_other(tmp_path: Path) -> None:
    key = tmp_path / "given.pem"
    key.write_bytes(pem(Ed25519PrivateKey.from_private_bytes(bytes(range(32)))))
    key.chmod(0o640)  # as a Secret is mounted
    journal = tmp_path / "journal"
    journal.mkdir()

    signer = open_signer(journal, str(key), ORIGIN)

    assert signer.public_key == SIGNER.public_key
    assert [path.name for path in journal.iterdir()] == ["checkpoint.pub"]


def test_after_a_change_of_keys_the_earlier_public_keys_stay_behind_the_new_one(
    tmp_path: Path,
) -> None:
    given = tmp_path / "given.pem"
    given.write_bytes(pem(Ed25519PrivateKey.generate()))
    own = open_signer(tmp_path, "", ORIGIN)
    other = open_signer(tmp_path, str(given), ORIGIN)
    public = tmp_path / "checkpoint.pub"
    assert public.read_text().split() == [other.public_key, own.public_key]

    open_signer(tmp_path, "", ORIGIN)

    assert public.read_text().split() == [own.public_key, other.public_key]


def pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


def of_equal_length() -> bytes:
    return X25519PrivateKey.generate().private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    )


def wrong_kind() -> bytes:
    return generate_private_key(SECP256R1()).private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    )


def encrypted() -> bytes:
    secret = form.BestAvailableEncryption(b"secret")
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, secret)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (wrong_kind, "another kind"),
        (of_equal_length, "another kind"),
        (encrypted, "encrypted"),
        (lambda: b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "PEM"),
        (lambda: b"", "PEM"),
        (lambda: os.urandom(1 << 17), "PEM"),
    ],
    ids=[
        "a key of another kind",
        "one of the same length",
        "an encrypted key",
        "not a key",
        "nothing",
        "endless",
    ],
)
def test_a_file_that_holds_no_such_key_is_named_and_the_remedy_too(
    tmp_path: Path, make: Callable[[], bytes], reason: str
) -> None:
    own, given = tmp_path / "checkpoint.key", tmp_path / "given.pem"
    raw = make()
    for path, named, kind, remedy in (
        (own, "", JournalError, "move it away"),
        (given, str(given), ConfigError, "openssl genpkey"),
    ):
        path.write_bytes(raw)
        with pytest.raises(kind, match=reason) as caught:
            open_signer(tmp_path, named, ORIGIN)
        assert str(path) in str(caught.value)
        assert remedy in str(caught.value)
        assert "c2VjcmV0" not in str(caught.value)


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path, golden: Golden) -> None:
    with pytest.raises(ConfigError) as caught:
        open_signer(tmp_path, str(tmp_path / "nix.pem"), ORIGIN)

    assert golden() in str(caught.value)


@pytest.mark.parametrize("name", ["checkpoint.key", "checkpoint.pub"])
def test_a_folder_that_cannot_hold_the_key_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()

    with pytest.raises(ReactiveDeschedError, match=f"{name}: cannot keep"):
        open_signer(tmp_path, "", ORIGIN)


def test_the_journal_is_imported_without_cryptography() -> None:
    code = (
        "import sys; import reactive_desched.journal.signing.signer;"
        "import reactive_desched.cli.audit_verify;"
        "sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def test_what_a_crash_left_beside_the_key_goes_at_the_next_start(tmp_path: Path) -> None:
    open_signer(tmp_path, "", "a/b")
    key = tmp_path / "checkpoint.key"
    (tmp_path / "checkpoint.key.4711.tmp").hardlink_to(key)

    open_signer(tmp_path, "", "a/b")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.key", "checkpoint.pub"]
    assert key.stat().st_nlink == 1
