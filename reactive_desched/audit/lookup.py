"""Finds in the index where the records that match a query are."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import Struct

from reactive_desched.audit.index import AuditIndex
from reactive_desched.audit.rows import MAX_SQLITE_INT, id_number, id_range, micros
from reactive_desched.errors import ConfigError
from reactive_desched.journal.summary import EventFilter, EventSummary, is_pattern
from reactive_desched.primitives.timestamps import parse_flag_moment

MAX_INDEXED_SUBJECTS: Final = 20_000
"""Up to so many pods the records of each are looked up; of more, all records are gone through."""

_COLUMNS: Final = "r.n, r.seq, r.start, r.length"


class RecordQuery(Struct, frozen=True, kw_only=True):
    """Selects records: `since` is included and `until` is not, in microseconds since 1970."""

    filter: EventFilter = EventFilter()
    since: int | None = None
    until: int | None = None

    @property
    def matches_all(self) -> bool:
        """Say whether there is nothing to choose."""
        return self.filter.is_empty and self.since is None and self.until is None


class RecordSpan(NamedTuple):
    """The place of a record in a file: its line without its end, `length` bytes from `start`."""

    n: int
    seq: int
    start: int
    length: int


class _Conditions:
    """Conditions that must all hold, with their values."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.values: list[object] = []

    def add(self, text: str, *values: object) -> None:
        """Add a condition."""
        self.texts.append(text)
        self.values += values

    def add_one_of(self, column: str, numbers: Iterable[int]) -> None:
        """Add that a column holds one of these."""
        self.add(f"{column} IN ({', '.join(map(str, numbers))})")

    def add_fitting(self, column: str, words: Iterable[str]) -> None:
        """Add that a column holds one of these words, or fits one that is a pattern."""
        tests = []
        for word in words:
            tests.append(f"{column} GLOB ?" if is_pattern(word) else f"{column} = ?")
            self.values.append(word.replace("[", "[[]") if is_pattern(word) else word)
        self.texts.append(f"({' OR '.join(tests)})")

    @property
    def where(self) -> str:
        """All of them, as SQL."""
        return " AND ".join(self.texts) or "1"


def find_newest(
    index: AuditIndex, query: RecordQuery, *, limit: int | None = None
) -> list[RecordSpan]:
    """Return where the wanted records are, the newest first, at most so many."""
    with _read_transaction(index.connection) as connection:
        return list(_select_matching(connection, query, "DESC", limit))


def find_oldest(index: AuditIndex, query: RecordQuery) -> RecordSpan | None:
    """Return where the first of the wanted records is; None without any."""
    with _read_transaction(index.connection) as connection:
        return next(iter(_select_matching(connection, query, "ASC", 1)), None)


def iter_matching(index: AuditIndex, query: RecordQuery) -> Iterator[RecordSpan]:
    """Yield where the wanted records are, in order, however many there are."""
    with _read_transaction(index.connection) as connection:
        yield from _select_matching(connection, query, "ASC", None)


def _select_matching(
    connection: sqlite3.Connection, query: RecordQuery, order: str, limit: int | None
) -> Iterator[RecordSpan]:
    terms = _Conditions()
    _add_time_range(connection, query, terms)
    _add_types(connection, query.filter, terms)
    index_hint = _add_subjects(connection, query.filter, terms)
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM records r {index_hint} WHERE {terms.where}"  # noqa: S608 -- written above, values apart
        f" ORDER BY r.n {order} LIMIT ?",
        (*terms.values, -1 if limit is None else limit),
    )
    return map(RecordSpan._make, rows)


def find_case(index: AuditIndex, correlation: str) -> list[RecordSpan]:
    """Return where the records of a case are, in order; only pods have cases."""
    return _select_ordered(
        index,
        "r.subject IN (SELECT subject FROM subjects WHERE correlation = ? AND uid != '')",
        correlation,
    )


def find_id(index: AuditIndex, id_: str) -> list[RecordSpan]:
    """Return the spans of events that may have this id; the caller compares the full id."""
    return _select_ordered(index, "r.id = ?", id_number(id_))


def find_id_prefix(index: AuditIndex, prefix: str, *, limit: int) -> list[RecordSpan]:
    """Return the spans of events whose id may begin so; the caller compares the full id."""
    return _select_ordered(index, "r.id BETWEEN ? AND ?", *id_range(prefix), limit=limit)


def case_ids_with_prefix(index: AuditIndex, prefix: str, *, limit: int) -> list[str]:
    """Return the cases whose id begins like this."""
    rows = index.connection.execute(
        "SELECT DISTINCT correlation FROM subjects WHERE correlation >= ? AND correlation < ?"
        " AND uid != '' LIMIT ?",
        (prefix, prefix + "\U0010ffff", limit),
    )
    return [correlation for (correlation,) in rows]


def pod_uids_with_prefix(index: AuditIndex, prefix: str, *, limit: int) -> list[str]:
    """Return the uids of pods that begin like this."""
    rows = index.connection.execute(
        "SELECT DISTINCT uid FROM subjects WHERE uid >= ? AND uid < ? AND uid != '' LIMIT ?",
        (prefix, prefix + "\U0010ffff", limit),
    )
    return [uid for (uid,) in rows]


def find_types(
    index: AuditIndex,
    types: tuple[str, ...],
    *,
    after: int = 0,
    before: int = MAX_SQLITE_INT,
    newest: bool = False,
    limit: int | None = 1,
) -> list[RecordSpan]:
    """Return where records of these types are between two numbers, in order from one end."""
    order = "DESC" if newest else "ASC"
    found: list[RecordSpan] = []
    for number in _text_ids(index.connection, types):
        rows = index.connection.execute(
            f"SELECT {_COLUMNS} FROM records r WHERE r.type = ? AND r.n > ? AND r.n < ?"  # noqa: S608 -- written above
            f" ORDER BY r.n {order} LIMIT ?",
            (number, after, before, -1 if limit is None else limit),
        )
        found += map(RecordSpan._make, rows)
    return sorted(found, reverse=newest)[:limit]


def find_first(index: AuditIndex) -> list[RecordSpan]:
    """Return where the first record is; none where there is none."""
    return _select_ordered(index, "r.n >= ?", 0, limit=1)


def find_sequence(index: AuditIndex, seq: int) -> list[RecordSpan]:
    """Return where the record with this sequence is."""
    return _select_ordered(index, "r.n > ? AND r.seq = ?", number_before(index, seq), seq, limit=1)


def number_before(index: AuditIndex, seq: int) -> int:
    """Return the number before that of the first record from this sequence on."""
    (first,) = index.connection.execute(
        "SELECT max(first) FROM segments WHERE first_seq <= ?", (seq,)
    ).fetchone()
    (number,) = index.connection.execute(
        "SELECT min(n) FROM (SELECT n FROM records WHERE n >= ? AND seq >= ? ORDER BY n LIMIT 1)",
        (first or 0, seq),
    ).fetchone()
    return MAX_SQLITE_INT if number is None else int(number) - 1


def _select_ordered(
    index: AuditIndex, where: str, *values: object, limit: int = -1
) -> list[RecordSpan]:
    rows = index.connection.execute(
        f"SELECT {_COLUMNS} FROM records r WHERE {where} ORDER BY r.n LIMIT ?",  # noqa: S608 -- written above
        (*values, limit),
    )
    return [RecordSpan(*row) for row in rows]


def _add_time_range(connection: sqlite3.Connection, query: RecordQuery, terms: _Conditions) -> None:
    """Choose by time: the files' own times narrow it down to a stretch of the journal."""
    since = -MAX_SQLITE_INT if query.since is None else query.since
    until = MAX_SQLITE_INT if query.until is None else query.until
    if query.since is None and query.until is None:
        return
    first, last = connection.execute(
        "SELECT min(first), max(last) FROM segments"
        " WHERE newest >= ? AND oldest < ? AND first <= last",
        (since, until),
    ).fetchone()
    terms.add("r.n BETWEEN ? AND ?", first or 0, last or 0)
    terms.add("r.time >= ? AND r.time < ?", since, until)


def _add_types(
    connection: sqlite3.Connection, event_filter: EventFilter, terms: _Conditions
) -> None:
    if event_filter.types:
        used = connection.execute(
            "WITH RECURSIVE used (word) AS (SELECT min(type) FROM records UNION ALL"
            " SELECT (SELECT min(type) FROM records WHERE type > word) FROM used"
            " WHERE word IS NOT NULL)"
            " SELECT word, text FROM words JOIN used USING (word)"
        )
        fits = EventFilter(types=event_filter.types).matches
        fitting = [number for number, text in used if fits(_summary_of_type(text))]
        terms.add_one_of("r.type", fitting)
    for column, texts in (
        ("r.outcome", event_filter.outcomes),
        ("r.reason", event_filter.reasons),
    ):
        if texts:
            if "" not in texts:
                terms.add(f"{column} > 0")
            terms.add_one_of(column, _text_ids(connection, texts))


def _summary_of_type(type_: str) -> EventSummary:
    return EventSummary(id="", type=type_, time="", sequence="")


def _add_subjects(
    connection: sqlite3.Connection, event_filter: EventFilter, terms: _Conditions
) -> str:
    """Choose by what stands with the subjects; return how the table of records is best read."""
    about = _subject_conditions(connection, event_filter)
    if not about.texts:
        return ""
    connection.execute("DROP TABLE IF EXISTS temp.chosen")
    connection.execute("CREATE TEMP TABLE chosen (subject INTEGER PRIMARY KEY)")
    connection.execute(
        f"INSERT INTO chosen SELECT subject FROM subjects s WHERE {about.where}",  # noqa: S608 -- written below, values apart
        about.values,
    )
    (count,) = connection.execute("SELECT count(*) FROM chosen").fetchone()
    terms.add("r.subject IN (SELECT subject FROM chosen)")
    return "INDEXED BY records_subject" if count <= MAX_INDEXED_SUBJECTS else "NOT INDEXED"


def _subject_conditions(connection: sqlite3.Connection, event_filter: EventFilter) -> _Conditions:
    terms = _Conditions()
    for column, texts in (
        ("namespace", event_filter.namespaces),
        ("node", event_filter.nodes),
        ("plugin", event_filter.plugins),
    ):
        if texts:
            terms.add_one_of(f"s.{column}", _text_ids(connection, texts))
    if event_filter.pods:
        _add_pods(connection, event_filter.pods, terms)
    if event_filter.owners:
        _add_owners(connection, event_filter.owner_words, terms)
    return terms


def _add_owners(
    connection: sqlite3.Connection, owners: tuple[str, ...], terms: _Conditions
) -> None:
    """Choose by uid, name, kind and name, or namespace, kind and name."""
    alternatives = _Conditions()
    for owner in owners:
        is_key = owner.count("/") > 1
        namespace, _, name = owner.partition("/") if is_key else ("", "", owner)
        fits = _Conditions()
        fits.add_fitting("word", (name,))
        chosen = f"s.chain IN (SELECT chain FROM owners WHERE {fits.where})"  # noqa: S608 -- question marks
        if is_key:
            numbers = ", ".join(map(str, _text_ids(connection, (namespace,))))
            chosen = f"({chosen} AND s.namespace IN ({numbers}))"
        alternatives.add(chosen, *fits.values)
    terms.add(f"({' OR '.join(alternatives.texts)})", *alternatives.values)


def _add_pods(connection: sqlite3.Connection, pods: tuple[str, ...], terms: _Conditions) -> None:
    """Choose by uid, name, or namespace and name."""
    alternatives = _Conditions()
    for pod in pods:
        alternatives.add_fitting("s.uid", (pod,))
        alternatives.add_fitting("s.name", (pod,))
        namespace, slash, name = pod.partition("/")
        if slash:
            numbers = ", ".join(map(str, _text_ids(connection, (namespace,))))
            fits = _Conditions()
            fits.add_fitting("s.name", (name,))
            alternatives.add(f"({fits.where} AND s.namespace IN ({numbers}))", *fits.values)
    terms.add(f"({' OR '.join(alternatives.texts)}) AND s.uid != ''", *alternatives.values)


def _text_ids(connection: sqlite3.Connection, texts: tuple[str, ...]) -> list[int]:
    """Return the numbers of these texts, each of which may have several, or none."""
    fits = _Conditions()
    fits.add_fitting("text", texts)
    rows = connection.execute(f"SELECT word FROM words WHERE {fits.where}", fits.values)  # noqa: S608 -- question marks
    return [number for (number,) in rows] + [0] * ("" in texts)


@contextmanager
def _read_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """See the index as it is at one moment."""
    if connection.in_transaction:
        yield connection
        return
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        with suppress(sqlite3.ProgrammingError):  # closed before the reader came to the end
            connection.execute("COMMIT")


_DEFAULT_PERIOD_US: Final = 7 * 86_400 * 1_000_000


def parse_query(event_filter: EventFilter, since: str, until: str, now: datetime) -> RecordQuery:
    """Return what is asked for; an empty text sets no bound. Raises ConfigError."""
    first, last = _bound("--since", since, now), _bound("--until", until, now)
    if first is not None and last is not None and first >= last:
        raise ConfigError(
            f"--until {until} is not later than --since {since}: write a later --until"
        )
    return RecordQuery(filter=event_filter, since=first, until=last)


def parse_period(event_filter: EventFilter, since: str, until: str, now: datetime) -> RecordQuery:
    """Return the same with both bounds: until now, and from seven days before; raises ConfigError.

    What is later than now has not happened, whatever its time says.
    """
    found = parse_query(event_filter, since, until, now)
    last = micros(now.isoformat()) if found.until is None else found.until
    first = last - _DEFAULT_PERIOD_US if found.since is None else found.since
    if first >= last:
        raise ConfigError(f"--since {since} is not in the past: write an earlier --since")
    return RecordQuery(filter=found.filter, since=first, until=last)


def _bound(flag: str, text: str, now: datetime) -> int | None:
    """Return a moment in microseconds since 1970; None for an empty text."""
    return micros(parse_flag_moment(flag, text, now).isoformat()) if text else None
