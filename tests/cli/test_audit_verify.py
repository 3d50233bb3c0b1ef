"""`audit verify` from the command line: arguments, what it says, and its exit status."""

import io
import json
from pathlib import Path

import pytest

from reactive_desched.api.event import EPOCH_BEGAN
from reactive_desched.cli import main
from reactive_desched.journal.records import JournalRecord, digest
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.signer import open_signer
from tests.support.golden import Golden
from tests.support.journals import SOURCE, new_signer, some_events, write_journal


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A folder for the journal of the records below."""
    return tmp_path / "state" / "journal"


@pytest.fixture
def records(journal: Path) -> list[JournalRecord]:
    """A journal of 11 records in two files, a change of epoch among them; checkpoints cover 8."""
    (epoch,) = (event for event in some_events(20) if event.type == EPOCH_BEGAN)
    events = [*some_events(7), epoch]
    return write_journal(journal, events, per_segment=5, checkpoint_every=4)


def damage(journal: Path, records: list[JournalRecord], seq: int) -> None:
    """Change a letter of a record."""
    path = list_segments(journal)[0].path
    raw = records[seq - 1].raw
    changed = raw.replace(b"reactive", b"Reactive", 1)
    path.write_bytes(path.read_bytes().replace(raw, changed))


def test_a_whole_journal_is_reported_with_what_no_signature_covers(
    journal: Path, records: list[JournalRecord], capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    assert main(["audit", "verify", "--journal", str(journal)]) == 0

    said = capsys.readouterr().out
    assert said.startswith(f"whole: {journal}\n")
    assert "\n11 records in 2 files\n" in said
    assert golden("records") in said  # at the change of epoch
    assert "from 1 of 2026-03-29T01:30:01.000000Z to 11 of 2026-03-29T01:30:11.000000Z" in said
    assert golden("checkpoints") in said
    assert golden("keys", key=journal / "checkpoint.pub") in said
    assert golden("not covered") in said
    assert golden("the end") in said


def test_the_first_bad_record_is_reported_and_the_status_is_1(
    journal: Path, records: list[JournalRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(journal, records, 3)

    assert main(["audit", "verify", "--journal", str(journal)]) == 1

    offset = sum(len(entry.raw) + 1 for entry in records[:2])
    said = capsys.readouterr().out
    assert said.startswith(f"BAD: {journal}\n")
    assert f"first bad record: 3 (journal-00000000000000000001.jsonl at byte {offset}" in said
    assert "written 2026-03-29T01:30:03.000000Z" in said
    assert "it was altered" in said


def test_json_says_the_same(
    journal: Path, records: list[JournalRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    root = digest(records[-1].raw)
    words = ["audit", "verify", "--journal", str(journal), "-o", "json"]
    assert main([*words, "--checkpoint", f"11:{root[:12]}"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["bad"], said["records"], said["signed_to"]) == (True, None, 11, 7)
    assert said["kept"] == {"size": 11, "root": root[:12], "key": "", "agrees": True}

    damage(journal, records, 3)

    assert main(words) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["bad"]["sequence"]) == (False, 3)


def test_a_kept_checkpoint_is_read_from_a_file_from_standard_input_and_as_it_is(
    journal: Path,
    records: list[JournalRecord],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    note = new_signer(journal).sign(9, digest(records[8].raw))
    (tmp_path / "kept").write_text(note)
    words = ["audit", "verify", "--journal", str(journal), "--checkpoint"]

    for named, text in (
        (str(tmp_path / "kept"), ""),
        ("-", note),
        ("-", records[7].raw.decode()),
        (f"9:{digest(records[8].raw)}", ""),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert main([*words, named]) == 0, named
        assert ": agrees\n" in capsys.readouterr().out


def test_an_end_that_was_cut_off_has_status_1(
    journal: Path, records: list[JournalRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    last = list_segments(journal)[-1].path
    last.write_bytes(last.read_bytes()[: -len(records[-1].raw) - 1])
    words = ["audit", "verify", "--journal", str(journal)]
    assert main(words) == 0

    assert main([*words, "--checkpoint", f"11:{digest(records[-1].raw)}"]) == 1

    assert "first bad record: 11 " in capsys.readouterr().out


def test_without_a_folder_the_default_one_is_verified(
    journal: Path,
    records: list[JournalRecord],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(journal.parent))

    assert main(["audit", "verify"]) == 0

    assert f"whole: {journal}" in capsys.readouterr().out


def test_a_given_key_is_trusted_instead_of_the_one_beside_the_journal(
    journal: Path, records: list[JournalRecord], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = (journal / "checkpoint.pub").read_text().strip()
    (tmp_path / "key.pub").write_text(key)
    (journal / "checkpoint.pub").write_text("somebody else's")
    words = ["audit", "verify", "--journal", str(journal)]

    for named in (key, str(tmp_path / "key.pub")):
        assert main([*words, "--key", named]) == 0
        assert "keys trusted: --key\n" in capsys.readouterr().out


def test_a_key_that_signed_nothing_proves_nothing(
    journal: Path,
    records: list[JournalRecord],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    golden: Golden,
) -> None:
    other = new_signer(tmp_path / "other").public_key
    words = ["audit", "verify", "--journal", str(journal), "--key", other]

    assert main(words) == 1

    said = capsys.readouterr().out
    assert "3 checkpoints NOT verified" in said
    assert golden() in said
    ours = (journal / "checkpoint.pub").read_text().strip()
    assert main([*words, "--key", ours]) == 0


def test_after_a_change_of_keys_the_keys_beside_the_journal_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal"
    write_journal(journal, some_events(3))
    (journal / "checkpoint.key").unlink()
    open_signer(journal, "", SOURCE.removeprefix("//"))

    assert main(["audit", "verify", "--journal", str(journal)]) == 0


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--key", "nobody+x+y"], id="--key nobody+x+y"),
        pytest.param(["--key", "/nowhere/key.pub"], id="--key /nowhere/key.pub"),
        pytest.param(["--checkpoint", "/nowhere/kept"], id="--checkpoint /nowhere/kept"),
        pytest.param(["--checkpoint", "5:0123"], id="--checkpoint 5:0123"),
        pytest.param(["--journal", "/nowhere"], id="--journal /nowhere"),
    ],
)
def test_wrong_arguments_have_status_2_and_are_named(
    journal: Path,
    records: list[JournalRecord],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    golden: Golden,
) -> None:
    assert main(["audit", "verify", "--journal", str(journal), *words]) == 2

    assert golden() in capsys.readouterr().err


def test_a_journal_without_its_public_key_asks_for_one(
    journal: Path, records: list[JournalRecord], capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    (journal / "checkpoint.pub").unlink()

    assert main(["audit", "verify", "--journal", str(journal)]) == 2

    assert golden() in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "readme.txt", "journal-2026.jsonl"])
def test_a_folder_without_a_journal_is_reported_before_any_key_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, golden: Golden
) -> None:
    if name:
        (tmp_path / name).write_text("hello")

    assert main(["audit", "verify", "--journal", str(tmp_path)]) == 2

    told = golden()
    assert capsys.readouterr().err == f"{tmp_path}: {told}\n"


def test_files_of_another_program_are_named_before_any_key_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    path = tmp_path / "journal-00000000000000000001.jsonl"
    path.write_text("hello\n")

    assert main(["audit", "verify", "--journal", str(tmp_path)]) == 1

    assert golden(path=path) in capsys.readouterr().err


def test_with_its_key_beside_it_a_journal_of_which_nothing_is_left_is_judged(
    journal: Path, records: list[JournalRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    for one in list_segments(journal):
        one.path.write_text("hello\n")

    assert main(["audit", "verify", "--journal", str(journal)]) == 1

    assert "first bad record: 1 " in capsys.readouterr().out


def test_an_end_that_is_gone_with_every_file_is_proved_by_a_kept_checkpoint(
    journal: Path, records: list[JournalRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    for one in list_segments(journal):
        one.path.unlink()
    kept = f"11:{digest(records[-1].raw)}"

    assert main(["audit", "verify", "--journal", str(journal), "--checkpoint", kept]) == 1

    assert "here they end: cut off" in capsys.readouterr().out


def test_one_of_something_is_written_in_the_singular(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    write_journal(tmp_path, some_events(1), per_segment=5)

    assert main(["audit", "verify", "--journal", str(tmp_path)]) == 0

    said = capsys.readouterr().out
    assert "\n2 records in 1 file\n" in said
    assert "\n" + golden() in said


def test_a_file_that_holds_no_key_is_named(
    journal: Path, records: list[JournalRecord], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "key.pub"
    for text in ("", "-----BEGIN PUBLIC KEY-----\nMCow\n"):
        path.write_text(text)
        assert main(["audit", "verify", "--journal", str(journal), "--key", str(path)]) == 2
        assert str(path) in capsys.readouterr().err
