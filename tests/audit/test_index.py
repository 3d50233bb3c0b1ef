import shutil
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reactive_desched.audit import lookup
from reactive_desched.audit.catalogue import IndexCatalogue
from reactive_desched.audit.index import AuditIndex
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.opening import open_catalogue
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.segments import list_segments
from tests.support.journals import some_events, write_journal

NAME = "index.sqlite"


def answer(index: AuditIndex, wanted: RecordQuery) -> list[JournalRecord]:
    catalogue = IndexCatalogue(index.directory, None, index)
    found = list(catalogue.fetch(catalogue.find(wanted)))
    assert catalogue.missing == 0
    assert found == list(catalogue.iter_matching(wanted))
    catalogue._fetcher.close()
    return found


def small(folder: Path, count: int = 60, per_segment: int = 20) -> list[JournalRecord]:
    return write_journal(folder, some_events(count), per_segment=per_segment)


def opened(folder: Path) -> AuditIndex:
    return AuditIndex.open(folder, folder / NAME)


def everything(index: AuditIndex) -> list[JournalRecord]:
    return answer(index, RecordQuery())


def test_a_newest_few_are_asked_for_and_given_the_newest_first(tmp_path: Path) -> None:
    entries = small(tmp_path)
    index = opened(tmp_path)
    index.index_all()

    found = [spot.seq for spot in lookup.find_newest(index, RecordQuery(), limit=3)]

    assert found == [entry.seq for entry in entries[:-4:-1]]


def test_an_up_to_date_index_reads_nothing_again(tmp_path: Path) -> None:
    small(tmp_path)
    opened(tmp_path).index_all()

    assert opened(tmp_path).index_all() == 0


def test_an_index_of_another_journal_is_made_anew(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    small(first, 60)
    entries = write_journal(second, some_events(60, seed=7), per_segment=20)
    opened(first).index_all()
    shutil.copy(first / NAME, second / NAME)

    index = opened(second)
    index.index_all()

    assert everything(index) == entries


def test_an_index_whose_last_record_was_rewritten_is_made_anew(tmp_path: Path) -> None:
    entries = small(tmp_path)
    opened(tmp_path).index_all()
    last = list_segments(tmp_path)[-1].path
    shorter = last.read_bytes().replace(b'"checkpoint in', b'"c').replace(b"kube", b"KUBE")
    last.write_bytes(shorter)

    index = opened(tmp_path)
    read = index.index_all()

    assert read == len(entries)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"no database at all, but a text that is long enough to be one", id="text"),
        pytest.param(b"", id="empty"),
        pytest.param(None, id="another program's database"),
    ],
)
def test_what_is_no_index_is_replaced(tmp_path: Path, content: bytes | None) -> None:
    entries = small(tmp_path)
    if content is None:
        other = sqlite3.connect(tmp_path / NAME)
        other.execute("CREATE TABLE records (something)")
        other.close()
    else:
        (tmp_path / NAME).write_bytes(content)

    index = opened(tmp_path)
    index.index_all()

    assert everything(index) == entries


def test_an_index_that_is_damaged_inside_is_made_anew(tmp_path: Path) -> None:
    entries = small(tmp_path, 2000, 500)
    index = opened(tmp_path)
    index.index_all()
    index.close()
    raw = bytearray((tmp_path / NAME).read_bytes())
    raw[4096:] = b"\x99" * (len(raw) - 4096)
    (tmp_path / NAME).write_bytes(raw)

    with open_catalogue(tmp_path, tmp_path / "cache") as catalogue:
        found = list(catalogue.fetch(catalogue.find(RecordQuery())))

    assert found == entries


def test_an_index_of_an_earlier_version_is_made_anew(tmp_path: Path) -> None:
    entries = small(tmp_path)
    index = opened(tmp_path)
    index.index_all()
    index.connection.execute("PRAGMA user_version = 0")
    index.close()

    index = opened(tmp_path)

    assert index.index_all() == len(entries)


def test_what_retention_removed_is_forgotten_with_its_words(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(3000, pods=900), per_segment=1000)
    index = opened(tmp_path)
    index.index_all()
    for one in list_segments(tmp_path)[:-1]:
        one.path.unlink()

    index.catch_up()

    kept = [entry for entry in entries if entry.seq >= list_segments(tmp_path)[0].first_seq]
    assert everything(index) == kept
    for table, used in {
        "subjects": "SELECT subject FROM records",
        "owners": "SELECT chain FROM subjects",
    }.items():
        column = "subject" if table == "subjects" else "chain"
        unused = f"SELECT count(*) FROM {table} WHERE {column} > 0 AND {column} NOT IN ({used})"
        assert index.connection.execute(unused).fetchone() == (0,), table


def test_a_line_that_is_not_whole_yet_is_read_when_it_is(tmp_path: Path) -> None:
    entries = small(tmp_path)
    path = list_segments(tmp_path)[-1].path
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    index = opened(tmp_path)
    index.index_all()
    assert everything(index) == entries[:-1]

    path.write_bytes(whole)
    index.index_all()

    assert everything(index) == entries
    assert [held.damaged for held in index.segments] == [0] * len(list_segments(tmp_path))


def test_damaged_lines_are_counted_once_and_the_rest_is_found(tmp_path: Path) -> None:
    entries = small(tmp_path)
    path = list_segments(tmp_path)[1].path
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3][:40] + b"\xff\xfe" + lines[3][42:]
    path.write_bytes(b"".join(lines))
    index = opened(tmp_path)
    index.index_all()
    index.index_all()

    gone = list_segments(tmp_path)[1].first_seq + 3
    assert everything(index) == [entry for entry in entries if entry.seq != gone]
    assert [held.damaged for held in index.segments] == [0, 1, 0]


def test_a_damaged_compressed_file_hides_only_its_own_rest(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(3000), per_segment=1000, compress=True)
    packed = list_segments(tmp_path)[0].path
    packed.write_bytes(packed.read_bytes()[:-5000])
    index = opened(tmp_path)
    index.index_all()

    found = [entry.seq for entry in everything(index)]
    behind = list_segments(tmp_path)[1].first_seq
    assert [seq for seq in found if seq >= behind] == [
        entry.seq for entry in entries if entry.seq >= behind
    ]
    assert [held.broken for held in index.segments] == [1, 0, 0]


@example("0" * 20)
@example("9" * 20)
@given(st.integers(2**63, 10**20 - 1).map(lambda number: f"{number:020}"))
@settings(max_examples=10, deadline=None)
def test_a_forged_sequence_neither_stops_the_index_nor_hides_what_follows(forged: str) -> None:
    with TemporaryDirectory() as made:
        folder = Path(made)
        entries = small(folder)
        path = list_segments(folder)[1].path
        at = list_segments(folder)[1].first_seq + 2
        path.write_bytes(path.read_bytes().replace(f"{at:020}".encode(), forged.encode()))
        index = opened(folder)
        index.index_all()

        rest = [entry.seq for entry in everything(index)]
        index.close()

    assert [seq for seq in rest if seq > at] == [entry.seq for entry in entries if entry.seq > at]


def test_two_writers_take_turns_and_store_nothing_twice(tmp_path: Path) -> None:
    entries = small(tmp_path, 400, 100)
    one, two = opened(tmp_path), opened(tmp_path)

    while one.catch_up(7) + two.catch_up(11):
        pass

    assert everything(one) == entries
    assert everything(two) == entries
