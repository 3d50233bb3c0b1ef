"""What the audit keeps is bounded, and no answer is changed by it."""

import os
from pathlib import Path

import pytest

from reactive_desched.audit import checkpoint_checks, opening, rows
from reactive_desched.audit.catalogue import IndexCatalogue
from reactive_desched.audit.index import AuditIndex
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.opening import open_catalogue
from tests.support.journals import new_signer, some_events, write_journal
from tests.support.tampering import in_files, make_journal, resigned_by, verify_files


def test_of_many_journals_that_cannot_be_written_to_the_last_used_have_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "MAX_CACHED_INDEXES", 2)
    cache = tmp_path / "cache"
    made: list[Path] = []

    for number in range(4):
        journal = tmp_path / f"journal-{number}"
        write_journal(journal, some_events(5))
        with open_catalogue(journal, cache, writable=lambda _: False):
            pass
        [new] = set(cache.glob("index-*.sqlite")) - set(made)
        os.utime(new, (number, number))
        made.append(new)

    assert set(cache.glob("index-*.sqlite")) == set(made[-2:])


def test_an_index_that_caches_nothing_answers_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("MAX_TEXTS", "MAX_SUBJECTS", "MAX_CHAINS"):
        monkeypatch.setattr(rows, bound, 0)
    entries = write_journal(tmp_path, some_events(60), per_segment=20)
    index = AuditIndex.open(tmp_path, tmp_path / "index.sqlite")
    index.index_all()

    batch = index._row_batch
    assert not batch._text_ids
    assert not batch._subject_ids
    assert not batch._chain_ids
    catalogue = IndexCatalogue(tmp_path, None, index)
    assert list(catalogue.fetch(catalogue.find(RecordQuery()))) == entries
    catalogue.close()


def test_only_so_many_unknown_keys_are_distinguished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_checks, "MAX_UNKNOWN_KEYS", 1)
    made = make_journal(tmp_path / "journal")
    raws = [entry.raw for entry in made.records]
    for name, since in (("second", 12), ("third", 17)):
        raws = resigned_by(new_signer(tmp_path / name), raws, since=since)

    report = verify_files(in_files(made, raws), made.signer)

    assert [use.first for use in report.unknown] == [12]
