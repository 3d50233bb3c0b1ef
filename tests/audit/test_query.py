from datetime import UTC, datetime
from pathlib import Path

import pytest

from reactive_desched.audit.catalogue import SearchResult, search
from reactive_desched.audit.lookup import RecordQuery, parse_query
from reactive_desched.audit.opening import open_catalogue
from reactive_desched.audit.rows import micros
from reactive_desched.errors import ConfigError
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.summary import EventFilter, parse_summary
from reactive_desched.text.layout import TextLayout, align
from tests.support.golden import Golden
from tests.support.journals import some_events, write_journal

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def found(folder: Path, wanted: RecordQuery, limit: int = 100) -> SearchResult:
    with open_catalogue(folder, folder) as catalogue:
        return search(catalogue, wanted, limit)


def test_the_newest_few_are_shown_in_order_and_older_ones_mentioned(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(50))

    assert found(tmp_path, RecordQuery(), 5) == SearchResult(entries[-5:], has_more=True)


@pytest.mark.parametrize("limit", [0, 51, 100])
def test_when_all_are_shown_none_are_mentioned(tmp_path: Path, limit: int) -> None:
    entries = write_journal(tmp_path, some_events(50))

    assert found(tmp_path, RecordQuery(), limit) == SearchResult(entries, has_more=False)


@pytest.mark.parametrize(
    "word",
    [
        *(
            "web",
            "Deployment/web",
            "shop/Deployment/web",
            "Deployment shop/web",
            "shop/ReplicaSet/*",
        ),
        *(
            "Deployment b*/*",
            "*/*/web",
            "shop/*",
            "*",
            "sh*",
            "moon/Deployment/web",
            "//",
            "nobody",
        ),
    ],
)
def test_the_index_finds_owners_as_a_filter_of_events_does(tmp_path: Path, word: str) -> None:
    entries = write_journal(tmp_path, some_events(200))
    wanted = EventFilter(owners=(word, "Node worker"))

    events = ((each, parse_summary(each.raw)) for each in entries)
    expected = [each for each, event in events if event is not None and wanted.matches(event)]
    assert found(tmp_path, RecordQuery(filter=wanted), 0).records == expected
    assert bool(expected) == (word not in {"shop/*", "sh*", "moon/Deployment/web", "//", "nobody"})


def test_a_record_changed_since_the_index_saw_it_is_not_shown_as_what_it_was(
    tmp_path: Path,
) -> None:
    write_journal(tmp_path, some_events(50), per_segment=20)
    wanted = RecordQuery(filter=EventFilter(nodes=("n1",)))
    before = found(tmp_path, wanted).records
    path = list_segments(tmp_path)[0].path
    path.write_bytes(path.read_bytes().replace(b'"node":"n1"', b'"node":"n9"'))

    after = found(tmp_path, wanted).records

    assert 0 < len(after) < len(before)
    for entry in after:
        seen = parse_summary(entry.raw)
        assert seen is not None
        assert seen.data.who.node == "n1"


def test_a_table_folds_its_last_column_into_the_width() -> None:
    rows = [("A", "B"), ("one", "word " * 20)]

    folded = list(align(rows, width=TextLayout(width=60).width, indent=""))

    assert max(map(len, folded)) <= 60
    assert [line[:5] for line in folded[2:]] == ["     "] * len(folded[2:])
    assert (
        list(align(rows, width=TextLayout().width, indent=""))[1] == f"one  {'word ' * 20}".rstrip()
    )


def test_a_row_whose_first_columns_have_no_room_is_folded_too() -> None:
    rows = [("A", "B", "C"), ("one " * 12, "two " * 12, "three")]

    shown = list(align(rows, width=TextLayout(width=60).width, indent=""))

    assert max(map(len, shown)) <= 60
    assert " ".join(shown).split() == ["A", "B", "C", *["one"] * 12, *["two"] * 12, "three"]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param("10m", "2026-05-01T11:50:00+00:00", id="how long ago"),
        pytest.param("2h ago", "2026-05-01T10:00:00+00:00", id="how long ago, with the word"),
        pytest.param("2026-05-01T12:00:00Z", "2026-05-01T12:00:00+00:00", id="a time"),
        pytest.param("2026-05-01T12:00:00+02:00", "2026-05-01T10:00:00+00:00", id="with a zone"),
        pytest.param("1w1d", "2026-04-23T12:00:00+00:00", id="weeks and days"),
        pytest.param("2026-04-30", "2026-04-30T00:00:00+00:00", id="a day"),
    ],
)
def test_a_moment_is_written_as(text: str, moment: str) -> None:
    assert parse_query(EventFilter(), text, "", NOW).since == micros(moment)


@pytest.mark.parametrize(
    ("since", "until"),
    [
        pytest.param("soon", "", id="no time"),
        pytest.param("5y", "", id="years"),
        pytest.param("-1d", "", id="how long ahead"),
        pytest.param("", "2026-13-01", id="no month"),
        pytest.param("10m", "20m", id="backwards"),
    ],
)
def test_a_wrong_moment_is_refused_with_a_remedy(since: str, until: str, golden: Golden) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_query(EventFilter(), since, until, NOW)

    assert str(caught.value) == golden()
