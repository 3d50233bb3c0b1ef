from pathlib import Path

from reactive_desched.audit.index import AuditIndex
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.opening import open_catalogue
from reactive_desched.journal.records import JournalRecord
from tests.support.journals import some_events, write_journal

NAME = "index.sqlite"


def small(folder: Path, count: int = 60, per_segment: int = 20) -> list[JournalRecord]:
    return write_journal(folder, some_events(count), per_segment=per_segment)


def opened(folder: Path) -> AuditIndex:
    return AuditIndex.open(folder, folder / NAME)


def test_a_folder_that_is_not_ours_is_searched_with_its_index_and_the_rest(
    tmp_path: Path,
) -> None:
    journal, cache = tmp_path / "journal", tmp_path / "cache"
    small(journal, 40)
    index = opened(journal)
    index.index_all()
    index.close()
    entries = small(journal, 60)
    before = (journal / NAME).read_bytes()

    with open_catalogue(journal, cache, writable=lambda _: False) as catalogue:
        found = list(catalogue.fetch(catalogue.find(RecordQuery())))
        newest = list(catalogue.fetch(catalogue.find(RecordQuery(), limit=2)))

    assert found == entries
    assert newest == entries[-2:]
    assert (journal / NAME).read_bytes() == before
    assert not cache.exists()


def test_a_folder_that_is_not_ours_and_has_no_index_gets_one_in_the_cache(tmp_path: Path) -> None:
    journal, cache = tmp_path / "journal", tmp_path / "cache"
    entries = small(journal)

    with open_catalogue(journal, cache, writable=lambda _: False) as catalogue:
        found = list(catalogue.fetch(catalogue.find(RecordQuery())))

    assert found == entries
    assert not (journal / NAME).exists()
    assert len(list(cache.glob("index-*.sqlite"))) == 1


def test_without_any_place_for_an_index_the_journal_is_searched_all_the_same(
    tmp_path: Path,
) -> None:
    journal, cache = tmp_path / "journal", tmp_path / "a-file"
    entries = small(journal)
    cache.touch()

    with open_catalogue(journal, cache, writable=lambda _: False) as catalogue:
        found = list(catalogue.fetch(catalogue.find(RecordQuery())))

    assert found == entries


def test_a_search_that_does_not_write_sees_no_later_write(tmp_path: Path) -> None:
    journal, cache = tmp_path / "journal", tmp_path / "cache"
    small(journal, 40)
    writer = opened(journal)
    writer.index_all()

    with open_catalogue(journal, cache, writable=lambda _: False) as catalogue:
        before = catalogue.find(RecordQuery())
        entries = small(journal, 60)
        writer.index_all()
        after = list(catalogue.fetch(catalogue.find(RecordQuery())))

    assert len(after) == len(before) < len(entries)
    writer.close()
