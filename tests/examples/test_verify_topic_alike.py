"""The verifier among the examples and `audit verify` judge every journal alike.

Two things are no faults to the example alone, since a topic may hold them: another order, and
records that come again.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import anyio
import msgspec
import pytest

from reactive_desched.api.event import Checkpoint
from reactive_desched.audit.pinned_checkpoint import parse_pinned
from reactive_desched.audit.verification import verify
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.journal import open_journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig
from reactive_desched.journal.records import GENESIS, digest
from reactive_desched.journal.signing.signed_note import parse_key
from reactive_desched.journal.signing.signer import Ed25519Signer
from tests.support.example_programs import ExampleResult, run_in_process
from tests.support.journals import new_signer, some_events
from tests.support.tampering import (
    SampleJournal,
    compressed,
    decompressed,
    in_base64,
    in_files,
    make_journal,
    re_checkpointed,
    resigned_by,
    rewritten,
    verify_files,
    with_edited_lines,
    with_flipped_byte,
    without_files,
)


@dataclass
class Judged:
    """Files of a journal, the keys to judge them by, and the record that they begin with."""

    files: dict[str, bytes]
    keys: tuple[Ed25519Signer, ...]
    since: int = 1


@dataclass
class Workshop:
    """A journal to tamper with, another key of the same name, and the key of another journal."""

    made: SampleJournal
    other: Ed25519Signer
    elsewhere: Ed25519Signer

    def judged(self, files: dict[str, bytes], *keys: Ed25519Signer, since: int = 1) -> Judged:
        return Judged(files, keys or (self.made.signer,), since)

    def raws(self) -> list[bytes]:
        return [entry.raw for entry in self.made.records]

    def edited(self, edit: Callable[[list[bytes]], object], start: int = 8) -> Judged:
        return self.judged(with_edited_lines(self.made, self.made.file_of(start), edit))

    def rewritten(self) -> list[bytes]:
        return rewritten(self.made, 10, lambda raw: raw.replace(b"shop", b"bank"))

    def sealed_by_both(self) -> dict[str, bytes]:
        return in_files(self.made, resigned_by(self.other, self.raws(), since=12))

    def resealed(self, change: Callable[[Checkpoint, str], Checkpoint]) -> Judged:
        return self.judged(in_files(self.made, re_checkpointed(self.raws(), change)))

    def with_a_byte_of(self, seq: int) -> Judged:
        name, offset = self.made.file_and_offset(seq)
        at = offset + self.made.raw(seq).index(b"message")
        return self.judged({**self.made.files, name: with_flipped_byte(self.made.files[name], at)})

    def alone(self, change: Callable[[Checkpoint], Checkpoint]) -> Judged:
        """Return a journal of one record, a checkpoint that was changed."""
        raws = re_checkpointed(self.raws()[:1], lambda data, _: change(data))
        return self.judged({self.made.file_of(1): raws[0] + b"\n"})


def with_its_note(data: Checkpoint, prev: str) -> Checkpoint:
    """Make a checkpoint say what is, without the key."""
    note = data.note.replace(in_base64(data.root), in_base64(prev))
    return msgspec.structs.replace(data, root=prev, note=note)


def respelt(note: str) -> str:
    """Change bits that the last character of base64 has and does not need."""
    assert note.endswith("=\n")
    return f"{note[:-3]}{chr(ord(note[-3]) + 1)}=\n"


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    other = new_signer(tmp_path_factory.mktemp("other"))
    elsewhere = new_signer(tmp_path_factory.mktemp("elsewhere"), "//elsewhere/descheduler/x/1")
    return Workshop(make_journal(tmp_path_factory.mktemp("journal")), other, elsewhere)


ALIKE: dict[str, tuple[bool, Callable[[Workshop], Judged]]] = {
    "whole": (True, lambda w: w.judged(w.made.files)),
    "compressed": (True, lambda w: w.judged(compressed(w.made))),
    "removed in front": (True, lambda w: w.judged(without_files(w.made, 1, 8), since=15)),
    "cut off at its end": (True, lambda w: w.judged(without_files(w.made, 22))),
    "torn": (True, lambda w: w.edited(lambda lines: lines.append(lines.pop()[:70]), 22)),
    "without a file": (False, lambda w: w.judged(without_files(w.made, 8))),
    "without a record": (False, lambda w: w.edited(lambda lines: lines.pop(3))),
    "with an empty line": (False, lambda w: w.edited(lambda lines: lines.insert(3, b"\n"))),
    "one byte": (False, lambda w: w.with_a_byte_of(10)),
    "one byte of what nothing covers": (True, lambda w: w.with_a_byte_of(23)),
    "chained anew": (False, lambda w: w.judged(in_files(w.made, w.rewritten()))),
    "chained anew with its notes": (
        False,
        lambda w: w.judged(in_files(w.made, re_checkpointed(w.rewritten(), with_its_note))),
    ),
    "signed anew by another": (
        False,
        lambda w: w.judged(in_files(w.made, resigned_by(w.other, w.rewritten(), since=12))),
    ),
    "signed by two, both known": (
        True,
        lambda w: w.judged(w.sealed_by_both(), w.made.signer, w.other),
    ),
    "signed by two, the later known": (True, lambda w: w.judged(w.sealed_by_both(), w.other)),
    "signed by two, the earlier known": (
        False,
        lambda w: w.judged(w.sealed_by_both(), w.made.signer),
    ),
    "signed by an unknown key": (False, lambda w: w.judged(w.made.files, w.other)),
    "another size": (
        False,
        lambda w: w.alone(lambda data: msgspec.structs.replace(data, size=data.size + 1)),
    ),
    "another root": (
        False,
        lambda w: w.alone(lambda data: msgspec.structs.replace(data, root="ab" * 32)),
    ),
    "no note": (False, lambda w: w.alone(lambda data: msgspec.structs.replace(data, note="none"))),
    "a signature in another spelling": (
        False,
        lambda w: w.alone(lambda data: msgspec.structs.replace(data, note=respelt(data.note))),
    ),
    "a note of another journal": (
        False,
        lambda w: w.judged(
            in_files(w.made, resigned_by(w.elsewhere, w.raws(), since=5)),
            w.made.signer,
            w.elsewhere,
        ),
    ),
    "a note of another place": (
        False,
        lambda w: w.resealed(
            lambda data, prev: msgspec.structs.replace(
                data, note=w.made.signer.sign(data.size + 1, prev)
            )
        ),
    ),
}


def asked(text: bytes, *options: str) -> ExampleResult:
    """Let the example judge these lines."""
    done = run_in_process("verify_topic.py", text, *options)
    assert done.status in (0, 1), done.errors
    return done


def called_sound(text: bytes, *options: str) -> bool:
    """Say whether the example calls these lines sound; records may be missing all the same."""
    done = asked(text, *options)
    return done.status == 0 or done.output.splitlines()[-1].startswith("RECORDS MISSING: ")


def judged_by_the_example(judged: Judged, *options: str) -> bool:
    """Say whether it calls sound what zcat makes of the files."""
    files = judged.files.items()
    texts = (decompressed(raw) if name.endswith("gz") else raw for name, raw in files)
    keys = [f"--key={key.public_key}" for key in judged.keys]
    text = b"".join(text or b"" for text in texts)
    return called_sound(text, *keys, f"--since={judged.since}", *options)


@pytest.mark.parametrize("kind", ALIKE)
def test_a_tampered_journal_is_judged_alike(workshop: Workshop, kind: str) -> None:
    is_sound, build = ALIKE[kind]
    judged = build(workshop)

    ours = verify_files(judged.files, *judged.keys).ok

    assert (ours, judged_by_the_example(judged)) == (is_sound, is_sound)


@dataclass
class KeptAt:
    """A kept checkpoint, the first record that is left, and what is to be said of it."""

    size: int
    is_sound: bool
    since: int = 1
    root: str = ""
    by_another: bool = False


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(KeptAt(0, is_sound=True), id="of nothing"),
        pytest.param(KeptAt(7, is_sound=True), id="within"),
        pytest.param(KeptAt(23, is_sound=True), id="of all"),
        pytest.param(KeptAt(7, is_sound=False, root="ab" * 32), id="another hash within"),
        pytest.param(KeptAt(23, is_sound=False, root="ab" * 32), id="another hash at the end"),
        pytest.param(KeptAt(24, is_sound=False, root="ab" * 32), id="of more than there is"),
        pytest.param(KeptAt(14, is_sound=True, since=15), id="where retention ended"),
        pytest.param(KeptAt(13, is_sound=False, since=15), id="of what retention removed"),
        pytest.param(KeptAt(21, is_sound=True, by_another=True), id="of a key not given"),
    ],
)
def test_a_kept_checkpoint_is_held_against_it_alike(
    workshop: Workshop, tmp_path: Path, kept: KeptAt
) -> None:
    made = workshop.made
    files = without_files(made, 1, 8) if kept.since > 1 else made.files
    judged = workshop.judged(files, since=kept.since)
    root = kept.root or (digest(made.raw(kept.size)) if kept.size else GENESIS)
    note = (workshop.other if kept.by_another else made.signer).sign(kept.size, root)
    (tmp_path / "note").write_text(note)

    ours = verify_files(judged.files, *judged.keys, kept=parse_pinned(note)).ok
    theirs = judged_by_the_example(judged, f"--kept={tmp_path / 'note'}")

    assert (ours, theirs) == (kept.is_sound, kept.is_sound)


@dataclass
class Lives:
    """A journal that lost its end twice, and went on under another source behind what was left."""

    folder: Path
    lost: list[bytes] = field(default_factory=list)

    async def live(self, records: int) -> None:
        making = JournalConfig(Rotation(1 << 24, 86400.0))
        async with open_journal(self.folder, making, clock=lambda: datetime.now(UTC)) as journal:
            events = some_events(60, source=journal.source)
            for event in [one for one in events if "eviction" not in one.type][:records]:
                await journal.append(event)
            last = journal.tail.last_seq
        Cursors(self.folder / "positions").save("kafka", last, "2026-01-01T00:00:00Z")

    def lose(self, left: int) -> None:
        lines = self.lines()
        self.lost += lines[left:]
        self.file.write_bytes(b"".join(lines[:left]))

    def lines(self) -> list[bytes]:
        return self.file.read_bytes().splitlines(keepends=True)

    @property
    def file(self) -> Path:
        (file,) = self.folder.glob("journal-*")
        return file

    @property
    def keys(self) -> list[str]:
        """The newest key, and those before."""
        return (self.folder / "checkpoint.pub").read_text().split()


async def losing_its_end_twice(folder: Path) -> Lives:
    lives = Lives(folder)
    await lives.live(10)
    lives.lose(6)
    await lives.live(3)
    lives.lose(8)
    await lives.live(4)
    return lives


@pytest.fixture
def lives(tmp_path: Path) -> Lives:
    return anyio.run(losing_its_end_twice, tmp_path / "lives")


def both_judge(
    folder: Path, lines: list[bytes], keys: list[str], note: str = ""
) -> tuple[bool, bool]:
    """Return whether `audit verify`, and whether the example, call these lines sound."""
    folder.mkdir()
    (folder / f"journal-{1:020}.jsonl").write_bytes(b"".join(lines))
    ours = verify(
        folder, [parse_key(key) for key in keys], "", parse_pinned(note) if note else None
    )
    options = [f"--key={key}" for key in keys]
    if note:
        (folder / "note").write_text(note)
        options.append(f"--kept={folder / 'note'}")
    return ours.bad is None, called_sound(b"".join(lines), *options)


@pytest.mark.parametrize(
    ("edit", "choose", "is_sound"),
    [
        (lambda lines: lines, lambda keys: keys, True),
        (lambda lines: lines[:11], lambda keys: keys, True),
        (lambda lines: lines, lambda keys: keys[:1], True),
        (lambda lines: lines, lambda keys: keys[1:], False),
        (lambda lines: lines[:5] + lines[6:], lambda keys: keys, False),
        (lambda lines: lines[:6] + lines[7:], lambda keys: keys, False),
        (lambda lines: lines[:3] + lines[4:], lambda keys: keys, False),
        (
            lambda lines: [*lines[:5], lines[5].replace(b"1.0", b"1.1"), *lines[6:]],
            lambda keys: keys,
            False,
        ),
    ],
    ids=[
        "whole",
        "nothing is signed behind the cut",
        "the last key alone",
        "without the last key",
        "without what the second goes on behind",
        "without the first record of the second",
        "without a record of the first",
        "what the second goes on behind was changed",
    ],
)
def test_a_journal_that_went_on_behind_what_was_left_is_judged_alike(
    lives: Lives,
    tmp_path: Path,
    edit: Callable[[list[bytes]], list[bytes]],
    choose: Callable[[list[str]], list[str]],
    *,
    is_sound: bool,
) -> None:
    lines, keys = edit(lives.lines()), choose(lives.keys)

    assert both_judge(tmp_path / "copy", lines, keys) == (is_sound, is_sound)


def note_of(line: bytes) -> str:
    note: str = json.loads(line)["data"]["note"]
    return note


def is_checkpoint(line: bytes) -> bool:
    return b"audit.checkpoint" in line


def test_a_kept_checkpoint_of_any_source_is_held_against_all_that_is_left_alike(
    lives: Lives, tmp_path: Path
) -> None:
    lines = lives.lines()
    left = [note_of(line) for line in filter(is_checkpoint, lines)]
    lost = [note_of(line) for line in filter(is_checkpoint, lives.lost)]
    assert left
    assert lost
    for number, (note, is_sound) in enumerate(
        [*((note, True) for note in left), *((note, False) for note in lost)]
    ):
        folder = tmp_path / f"copy-{number}"
        assert both_judge(folder, lines, lives.keys, note) == (is_sound, is_sound)


def test_a_topic_that_holds_what_the_journal_lost_is_sound(
    lives: Lives,
) -> None:
    options = [f"--key={key}" for key in lives.keys]

    text = b"".join([*lives.lines(), *lives.lost])
    assert called_sound(text, *options)
    for gone in lives.lost:
        if not is_checkpoint(gone):  # those were the last of their source
            assert not called_sound(text.replace(gone, b""), *options)


def test_what_the_journal_lost_is_missing_alike_unless_the_topic_holds_it(
    lives: Lives,
) -> None:
    options = [f"--key={key}" for key in lives.keys]
    text = b"".join(lives.lines())

    ours = verify(lives.folder, [parse_key(key) for key in lives.keys], "", None)
    theirs = asked(text, *options)
    of_topic = asked(b"".join([text, *lives.lost]), *options)

    assert [(one.first_missing, one.last_missing) for one in ours.epochs] == [(7, 11), (9, 11)]
    assert (ours.ok, theirs.status) == (False, 1)
    assert "records 7 to 11" in theirs.output
    assert of_topic.status == 0, of_topic.output
