import gzip
import json
from datetime import timedelta
from pathlib import Path

from reactive_desched.api import event as api
from reactive_desched.audit.opening import open_catalogue
from reactive_desched.audit.status import JournalStatus, as_json, journal_status
from reactive_desched.audit.status_text import format_bytes, status_lines
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.summary import parse_summary
from reactive_desched.journal.upkeep import limits
from reactive_desched.journal.upkeep.limits import RetentionLimits
from reactive_desched.text.layout import TextLayout
from tests.support.golden import Golden
from tests.support.journals import STARTED_AT, some_events, write_journal

NOW = STARTED_AT + timedelta(hours=1)


def stands(folder: Path) -> JournalStatus:
    with open_catalogue(folder, folder) as catalogue:
        return journal_status(catalogue, NOW)


def text(found: JournalStatus) -> str:
    return "\n".join(status_lines(found, TextLayout()))


def test_files_and_their_ends_are_reported(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(250), per_segment=100, compress=True)
    sizes = [one.path.stat().st_size for one in list_segments(tmp_path)]

    found = stands(tmp_path)

    assert (found.files.segments, found.files.compressed) == (3, 2)
    assert (found.files.bytes, found.files.compressed_bytes) == (sum(sizes), sum(sizes[:2]))
    assert found.first is not None
    assert found.last is not None
    assert (found.first.sequence, found.last.sequence) == (1, entries[-1].seq)
    assert found.last.recorded_time == "2026-03-29T01:34:13.000000Z"
    assert found.index.sequence == entries[-1].seq
    assert found.index.own


def test_records_after_the_last_checkpoint_are_counted(tmp_path: Path) -> None:
    write_journal(tmp_path, some_events(47), checkpoint_every=40)

    found = stands(tmp_path)

    assert found.checkpoint is not None
    assert (found.checkpoint.sequence, found.checkpoint.size) == (42, 41)
    assert found.checkpoint.records_after == 7
    assert "checkpoint in record 42 of" in text(found)


def test_evictions_without_an_end_are_named(tmp_path: Path) -> None:
    told = some_events(300)
    asked = next(i for i, each in enumerate(told) if each.type == api.EVICTION_REQUESTED)
    entries = write_journal(tmp_path, told[: asked + 1])
    last = parse_summary(entries[-1].raw)
    assert last is not None

    found = stands(tmp_path)

    assert [(each.id, each.sequence) for each in found.open] == [(last.id, last.seq)]
    assert found.open_count == 1
    assert f"{last.data.who.namespace}/{last.data.who.name}" in text(found)


def test_an_eviction_with_its_end_is_not_open(tmp_path: Path) -> None:
    told = some_events(300)
    ended = next(i for i, each in enumerate(told) if each.type in api.EVICTION_OUTCOME_TYPES)
    write_journal(tmp_path, told[: ended + 1])

    assert stands(tmp_path).open == ()


def test_each_sink_is_reported_with_what_it_lacks_and_rejected(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(50))
    kept = (NOW - timedelta(seconds=90)).isoformat().replace("+00:00", "Z")
    Cursors(tmp_path / "positions").save("kafka", 20, kept)
    letters = tmp_path / "dead-letters"
    letters.mkdir()
    (letters / "kafka.jsonl").write_bytes(b"{}\n{}\n")
    (letters / "kafka.jsonl.1").write_bytes(b"{}\n")
    (letters / "webhook.jsonl").write_bytes(b"{}\n")

    kafka, webhook = stands(tmp_path).sinks

    assert (kafka.name, kafka.sequence, kafka.lag) == ("kafka", 20, entries[-1].seq - 20)
    assert (kafka.age_s, kafka.dead_letters) == (90.0, 3)
    assert (webhook.name, webhook.age_s, webhook.dead_letters) == ("webhook", None, 1)


def test_damaged_lines_and_a_torn_end_are_reported(tmp_path: Path) -> None:
    write_journal(tmp_path, some_events(50), per_segment=20)
    first, *_, last = (one.path for one in list_segments(tmp_path))
    first.write_bytes(first.read_bytes().replace(b'"sequence":"00', b'"sequence":"xx', 1))
    last.write_bytes(last.read_bytes() + b'{"half a li')
    (tmp_path / f"{first.name}.torn").write_bytes(b"x")

    found = stands(tmp_path)

    assert (found.damaged_lines, found.files.torn_bytes) == (1, 11)
    assert found.files.set_aside == (f"{first.name}.torn",)
    told = text(found)
    assert "damaged" in told
    assert "11 bytes without an end" in told


def test_a_damaged_compressed_file_is_reported(tmp_path: Path) -> None:
    write_journal(tmp_path, some_events(50), per_segment=20, compress=True)
    path = list_segments(tmp_path)[0].path
    raw = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(raw)[:-20])

    assert stands(tmp_path).damaged_lines == 1


def test_retention_is_reported_when_it_is_known(tmp_path: Path, golden: Golden) -> None:
    write_journal(tmp_path, some_events(5))

    assert "kept" not in text(stands(tmp_path))
    limits.write(tmp_path, RetentionLimits(1024**3, 30 * 86_400.0, 4 * 1024**3, compress=True))
    assert golden() in text(stands(tmp_path))


def test_the_object_has_the_names_that_help_promises(tmp_path: Path) -> None:
    write_journal(tmp_path, some_events(5))

    found = json.loads(as_json(stands(tmp_path)))

    assert list(found) == [
        "journal",
        "source",
        "files",
        "first",
        "last",
        "checkpoint",
        "open",
        "openCount",
        "damagedLines",
        "sinks",
        "index",
        "retention",
        "epochs",
        "policy",
    ]


def test_sizes_are_written_for_people() -> None:
    assert [format_bytes(count) for count in (0, 1023, 1024, 3 * 2**29, 2**50)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 GiB",
        "1024.0 TiB",
    ]
