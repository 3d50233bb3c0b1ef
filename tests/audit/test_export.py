import csv
import io
from datetime import timedelta
from pathlib import Path

import pytest

from reactive_desched.api import event as api
from reactive_desched.audit.export import COLUMNS, as_csv, as_jsonl, matching_records, write_file
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.opening import open_catalogue
from reactive_desched.audit.verification import verify
from reactive_desched.errors import JournalError
from reactive_desched.journal.event_builder import Correlation, build_event
from reactive_desched.journal.signing.signed_note import parse_key
from reactive_desched.journal.summary import EventFilter, parse_summary
from tests.support.golden import Golden
from tests.support.journals import (
    SOURCE,
    STARTED_AT,
    new_signer,
    some_events,
    write_journal,
)

POD = "web-6d4b75cb6d-00000"


def exported(folder: Path, wanted: RecordQuery, *, as_table: bool = False) -> bytes:
    form = as_csv if as_table else as_jsonl
    with open_catalogue(folder, folder) as catalogue:
        return b"".join(form(matching_records(catalogue, wanted)))


def table(folder: Path, wanted: RecordQuery) -> list[dict[str, str]]:
    text = exported(folder, wanted, as_table=True).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_everything_exported_can_still_be_verified(tmp_path: Path) -> None:
    journal, elsewhere = tmp_path / "journal", tmp_path / "elsewhere"
    entries = write_journal(journal, some_events(300), per_segment=100, compress=True)
    elsewhere.mkdir()

    lines = exported(journal, RecordQuery())
    (elsewhere / f"journal-{1:020}.jsonl").write_bytes(lines)

    key = parse_key(new_signer(journal).public_key)
    report = verify(elsewhere, [key], "test", None)
    assert (report.ok, report.records) == (True, len(entries))


def test_a_choice_is_exported_in_order(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(300), per_segment=100)

    lines = exported(tmp_path, RecordQuery(filter=EventFilter(pods=(POD,)))).splitlines()

    def is_of_pod(raw: bytes) -> bool:
        found = parse_summary(raw)
        return found is not None and found.data.who.name == POD

    assert lines == [entry.raw for entry in entries if is_of_pod(entry.raw)]


def test_a_table_has_a_row_for_each_record(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(30))

    rows = table(tmp_path, RecordQuery())

    assert [row["sequence"] for row in rows] == [str(entry.seq) for entry in entries]
    assert list(rows[0]) == list(COLUMNS)


def test_a_row_has_the_pod_the_decision_the_reason_and_the_outcome(
    tmp_path: Path, golden: Golden
) -> None:
    write_journal(tmp_path, some_events(300))

    wanted = EventFilter(types=("eviction.refused",))
    row = table(tmp_path, RecordQuery(filter=wanted))[0]

    told = ("event", "namespace", "pod", "node", "owners", "plugin")
    ended = ("result", "reason", "message", "attempt")
    assert [row[name] for name in (*told, *ended)] == [
        "eviction.refused",
        "shop",
        "zahlung-übersicht-6d4b75cb6d-00002",
        "n3",
        "ReplicaSet/zahlung-übersicht-6d4b75cb6d Deployment/zahlung-übersicht",
        "RemovePodsViolatingNodeTaints",
        "pdb_refused",
        "DisruptionBudget",
        golden(),
        "1",
    ]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_taken_for_a_formula(tmp_path: Path, start: str) -> None:
    holder = f'{start}cmd|" /C calc"!A0'
    data = api.LeaderChanged(holder=holder, previous="b", transitions=1)
    told = build_event(
        SOURCE,
        api.LEADER_CHANGED,
        Correlation(f"{start}1+1", "journal", "key"),
        STARTED_AT + timedelta(seconds=1),
        data,
        id_=f"{start}2+2",
        causation_id="x",
    )
    write_journal(tmp_path, [told])

    row = table(tmp_path, RecordQuery(filter=EventFilter(types=("leader",))))[0]

    assert row["id"] == f"'{start}2+2"
    assert row["case"] == f"'{start}1+1"


def test_lines_and_quotes_in_a_cell_are_kept_as_rfc_4180_says(tmp_path: Path) -> None:
    data = api.PolicyRejected(kept="1", problems=('line "one",\nline two',), source="p.yaml")
    told = build_event(
        SOURCE,
        api.POLICY_REJECTED,
        Correlation("e", "journal", "e"),
        STARTED_AT,
        data,
        id_="i",
        causation_id="x",
    )
    write_journal(tmp_path, [told])

    raw = exported(tmp_path, RecordQuery(filter=EventFilter(types=("policy",))), as_table=True)

    assert raw.count(b"\r\n") == 2
    assert b'"revision 1 stays: line ""one"", line two"' in raw


def test_a_file_that_cannot_be_written_whole_is_not_there(tmp_path: Path, golden: Golden) -> None:
    def parts() -> object:
        yield b"one"
        raise OSError(28, "No space left on device")

    path = tmp_path / "out.jsonl"
    path.write_bytes(b"the one before")

    with pytest.raises(JournalError) as caught:
        write_file(parts(), path)  # type: ignore[arg-type]  # a generator

    assert golden() in str(caught.value)

    assert [each.name for each in tmp_path.iterdir()] == ["out.jsonl"]
    assert path.read_bytes() == b"the one before"
