import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reactive_desched.journal.records import GENESIS
from reactive_desched.journal.signing.signed_note import PublicKey, checkpoint_text, format_note
from tests.support.example_programs import ExampleResult, run_in_process
from tests.support.golden import Golden
from tests.support.journals import SOURCE, new_signer, some_events, write_journal

SOUND, NOT_SOUND, CANNOT = 0, 1, 2


@dataclass
class Evidence:
    """A journal's lines, its public key, and the verifier."""

    folder: Path
    lines: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        records = write_journal(self.folder, some_events(60), per_segment=20)
        self.lines = [record.raw for record in records]

    @property
    def key(self) -> tuple[str, str]:
        return ("--key", str(self.folder / "checkpoint.pub"))

    def at(self, sequence: int) -> bytes:
        return self.lines[sequence - 1]

    def checkpoints(self) -> list[int]:
        return [n for n, line in enumerate(self.lines, 1) if b"audit.checkpoint" in line]

    def keep(self, sequence: int) -> Path:
        """Write the note of a checkpoint to a file, as somebody outside would."""
        path = self.folder / "kept.note"
        path.write_text(json.loads(self.at(sequence))["data"]["note"])
        return path

    def verify(self, lines: Sequence[bytes], *options: str) -> ExampleResult:
        return run_in_process("verify_topic.py", joined(lines), *options)


def joined(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    return Evidence(tmp_path / "journal")


def changed(line: bytes) -> bytes:
    """Return the line with another subject, still in canonical form."""
    event = json.loads(line)
    event["subject"] += "-x"
    return canonical(event)


def canonical(event: dict[str, object]) -> bytes:
    return json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def chained_anew(lines: Sequence[bytes], behind: str = GENESIS) -> list[bytes]:
    """Return the lines with hashes that fit again, as a forger without the key would make them."""
    prev, found = behind, []
    for line in lines:
        event = json.loads(line)
        found.append(line.replace(event["prev"].encode(), prev.encode()))
        prev = hashlib.sha256(found[-1]).hexdigest()
    return found


def test_a_whole_record_is_sound_whatever_the_order_and_however_often_it_comes(
    evidence: Evidence,
    golden: Golden,
) -> None:
    shuffled = evidence.lines[::2] + evidence.lines[::-1] + evidence.lines[5:9]

    told = evidence.verify(shuffled, *evidence.key)

    last = len(evidence.lines)
    assert (told.status, told.errors) == (SOUND, "")
    assert told.output.startswith(golden(source=SOURCE, last=last))
    assert told.output.endswith(f"signed up to {evidence.checkpoints()[-1] - 1}\n")


def test_the_first_missing_record_is_named(evidence: Evidence) -> None:
    lines = [line for n, line in enumerate(evidence.lines, 1) if n not in (17, 40)]

    told = evidence.verify(lines)

    assert told.status == NOT_SOUND
    assert "record 17 is missing" in told.output


@pytest.mark.parametrize("sequence", [1, 2, 30, 61], ids=lambda n: f"record {n}")
def test_a_changed_record_is_named(evidence: Evidence, sequence: int) -> None:
    lines = list(evidence.lines)
    lines[sequence - 1] = changed(evidence.at(sequence))

    told = evidence.verify(lines)

    assert told.status == NOT_SOUND
    assert f"record {sequence} was changed" in told.output


def test_a_record_whose_hash_of_the_one_before_was_changed_is_the_one_named(
    evidence: Evidence,
) -> None:
    lines = list(evidence.lines)
    prev = json.loads(evidence.at(30))["prev"].encode()
    lines[29] = evidence.at(30).replace(prev, b"f" * 64)

    assert "record 30 was changed" in evidence.verify(lines).output


def test_a_record_that_does_not_begin_with_the_first_event_there_was_is_not_sound(
    evidence: Evidence,
) -> None:
    lines = chained_anew(evidence.lines, behind="f" * 64)

    assert "record 1 was changed" in evidence.verify(lines).output


def test_one_sequence_with_two_contents_is_not_sound(evidence: Evidence, golden: Golden) -> None:
    told = evidence.verify([*evidence.lines, changed(evidence.at(12))])

    assert told.status == NOT_SOUND
    assert golden() in told.output


def test_a_chain_that_was_written_anew_is_found_by_its_signatures_alone(
    evidence: Evidence,
    golden: Golden,
) -> None:
    lines = list(evidence.lines)
    lines[9] = changed(evidence.at(10))
    forged = chained_anew(lines)

    assert evidence.verify(forged).status == SOUND
    told = evidence.verify(forged, *evidence.key)
    assert told.status == NOT_SOUND
    behind = next(n for n in evidence.checkpoints() if n > 10)
    assert golden(behind=behind) in told.output


def test_a_checkpoint_that_the_key_did_not_sign_is_named(evidence: Evidence) -> None:
    lines = list(evidence.lines)
    at = evidence.checkpoints()[1]
    note = json.loads(evidence.at(at))["data"]["note"]
    signature = note.rpartition(" ")[2].strip()
    forged = signature[:20] + ("A" if signature[20] != "A" else "B") + signature[21:]
    lines[at - 1] = evidence.at(at).replace(signature.encode(), forged.encode())

    told = evidence.verify(chained_anew(lines), *evidence.key)

    assert told.status == NOT_SOUND
    assert f"checkpoint {at}: its signature is forged" in told.output


def test_another_key_of_the_same_name_is_not_enough(
    evidence: Evidence, tmp_path: Path, golden: Golden
) -> None:
    write_journal(tmp_path / "other", some_events(1))

    told = evidence.verify(evidence.lines, "--key", str(tmp_path / "other" / "checkpoint.pub"))

    assert told.status == NOT_SOUND
    assert golden() in told.output


def test_a_kept_checkpoint_finds_a_record_that_was_cut_short(
    evidence: Evidence, golden: Golden
) -> None:
    at = evidence.checkpoints()[-1]
    kept = ("--kept", str(evidence.keep(at)))
    short = evidence.lines[: evidence.checkpoints()[-2]]

    assert evidence.verify(evidence.lines, *kept, *evidence.key).status == SOUND
    assert evidence.verify(short, *evidence.key).status == SOUND
    told = evidence.verify(short, *kept)
    assert told.status == NOT_SOUND
    assert golden(missing=at - 1) in told.output


def test_what_was_removed_in_front_is_missing_unless_one_says_since_when(
    evidence: Evidence,
) -> None:
    rest = evidence.lines[10:]

    assert "record 1 is missing" in evidence.verify(rest).output
    told = evidence.verify(rest, "--since", "11", *evidence.key)
    assert told.status == SOUND
    assert "records 11 to" in told.output


def test_a_source_that_ended_before_what_is_asked_for_is_left_out(
    evidence: Evidence, tmp_path: Path, golden: Golden
) -> None:
    other = SOURCE.replace("desched-0", "desched-1")
    signer = new_signer(tmp_path / "other", other)
    records = write_journal(tmp_path / "other", some_events(5, source=other), signer=signer)
    both = [*evidence.lines[10:], records[-1].raw]

    told = evidence.verify(both, "--since", "11", *evidence.key)
    assert (told.status, told.output.count("\n")) == (SOUND, 1)
    assert "records 11 to" in told.output
    told = evidence.verify(both, "--since", "1000", *evidence.key)
    assert (told.status, told.output) == (
        NOT_SOUND,
        golden() + "\n",
    )


def test_each_source_is_a_record_of_its_own_and_needs_its_own_key(
    evidence: Evidence, tmp_path: Path, golden: Golden
) -> None:
    other = SOURCE.replace("desched-0", "desched-1")
    signer = new_signer(tmp_path / "other", other)
    records = write_journal(tmp_path / "other", some_events(5, source=other), signer=signer)
    both = [*evidence.lines, *(record.raw for record in records)]

    told = evidence.verify(both, *evidence.key, "--key", signer.public_key)

    assert told.status == SOUND
    assert [line.split(": ")[0] for line in told.output.splitlines()] == [SOURCE, other]
    told = evidence.verify(both, *evidence.key)
    assert told.status == NOT_SOUND
    assert golden(other=other) in told.output


def test_a_key_does_not_vouch_for_another_source(evidence: Evidence, golden: Golden) -> None:
    theirs = Ed25519PrivateKey.generate()
    key = PublicKey("another/source", theirs.public_key().public_bytes_raw())
    text = checkpoint_text(SOURCE.removeprefix("//"), 0, GENESIS)
    event = json.loads(evidence.at(1))
    event["data"]["note"] = format_note(text, key, theirs.sign(text.encode()))

    told = evidence.verify([canonical(event)], "--key", key.encoded)

    assert told.status == NOT_SOUND
    assert golden() in told.output


def test_without_checkpoints_nothing_is_signed(evidence: Evidence) -> None:
    told = evidence.verify(evidence.lines[1:5], "--since", "2", *evidence.key)

    assert told.status == NOT_SOUND
    assert "there is no checkpoint" in told.output


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([b"{}"], "line 1"),
        ([b"not json"], "line 1"),
        ([b'{"source":"a","prev":"","sequence":"x","type":"y"}'], "line 1"),
        ([b"[]"], "line 1"),
        ([b"[" * 3000], "line 1"),
        ([b'{"source":"a","prev":"","sequence":1e999,"type":"y"}'], "line 1"),
        ([b'{"source":"a","prev":"","sequence":"00000000000000000000","type":"y"}'], "line 1"),
        ([b'{"source":"a\\n//b","prev":"","sequence":"%020d","type":"y"}' % 1], "line 1"),
        ([b""], "line 1"),
    ],
    ids=[
        "an object that is no event",
        "no JSON",
        "a sequence that is no number",
        "an array",
        "an array too deep to be read",
        "a sequence without end",
        "a sequence before the first",
        "a source that would be shown as two lines",
        "an empty line",
    ],
)
def test_what_is_no_event_is_named_by_its_place(
    evidence: Evidence, lines: list[bytes], place: str
) -> None:
    told = evidence.verify(lines)

    assert told.status == NOT_SOUND
    assert told.output == f"NOT SOUND: {place}: no event of reactive-desched\n"


def test_nothing_at_all_is_not_sound(evidence: Evidence) -> None:
    assert evidence.verify([]).status == NOT_SOUND


def test_a_key_that_is_none_is_no_verdict(evidence: Evidence) -> None:
    told = evidence.verify(evidence.lines, "--key", "name+00000000+AAAA")

    assert (told.status, told.output) == (CANNOT, "")
    assert "cannot verify" in told.errors


def test_a_file_without_a_key_is_no_verdict(evidence: Evidence, tmp_path: Path) -> None:
    (tmp_path / "empty.pub").touch()

    told = evidence.verify(evidence.lines, "--key", str(tmp_path / "empty.pub"))

    assert (told.status, told.output) == (CANNOT, "")
    assert "there is no key" in told.errors


def note_of(line: bytes) -> str:
    note: str = json.loads(line)["data"]["note"]
    return note


@pytest.mark.parametrize(
    "form",
    [
        lambda lines: note_of(lines[-1]) + "\n",
        lambda lines: note_of(lines[-1]).rstrip(),
        lambda lines: lines[-1].decode() + "\n",
        lambda lines: b"\n".join(lines).decode(),
    ],
    ids=["a note and a newline", "a note without its end", "its event", "lines of events"],
)
def test_a_kept_checkpoint_is_taken_in_every_form(
    evidence: Evidence, tmp_path: Path, form: Callable[[list[bytes]], str], golden: Golden
) -> None:
    at = evidence.checkpoints()[-1]
    kept = tmp_path / "kept"
    kept.write_text(form(evidence.lines[:at]))
    options = ("--kept", str(kept), *evidence.key)

    assert evidence.verify(evidence.lines, *options).status == SOUND
    told = evidence.verify(evidence.lines[: at - 2], *options)
    assert golden(missing=at - 1) in told.output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no checkpoint's note"),
        ("a note\n", "no checkpoint's note"),
        ("{}", "no checkpoint's note"),
        ('{"type":[]}\n' + "[" * 3000, "no checkpoint's note"),
        (None, "its signature is forged"),
    ],
    ids=["nothing", "words", "no event", "too deep", "another size"],
)
def test_what_is_no_kept_checkpoint_is_no_verdict(
    evidence: Evidence, tmp_path: Path, text: str | None, why: str
) -> None:
    kept = tmp_path / "kept"
    kept.write_text(note_of(evidence.at(1)).replace("\n0\n", "\n7\n") if text is None else text)

    told = evidence.verify(evidence.lines, "--kept", str(kept), *evidence.key)

    assert (told.status, told.output) == (CANNOT, "")
    assert why in told.errors


def test_as_a_program_it_reads_standard_input_and_ends_with_its_verdict(
    evidence: Evidence, examples: Path
) -> None:
    program = (sys.executable, str(examples / "verify_topic.py"), *evidence.key)
    for lines, status in ((evidence.lines, SOUND), (evidence.lines[1:], NOT_SOUND)):
        done = subprocess.run(
            program, input=joined(lines), stdout=subprocess.PIPE, check=False, timeout=30
        )

        assert (done.returncode, done.stdout.decode()) == (
            status,
            evidence.verify(lines, *evidence.key).output,
        )


def test_topics_without_brokers_are_a_wrong_call(evidence: Evidence) -> None:
    assert evidence.verify([], "a-topic").status == CANNOT


def test_it_stands_alone(examples: Path) -> None:
    text = (examples / "verify_topic.py").read_text()

    assert "import reactive_desched" not in text
    assert "from reactive_desched" not in text
