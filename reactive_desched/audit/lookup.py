"""Finds in the index where the wanted records stand; which are wanted is the Filter's to say."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from msgspec import Struct

from reactive_desched.audit.index import Index
from reactive_desched.audit.rows import LARGEST, id_number, id_range
from reactive_desched.journal.summary import Filter, Summary

FEW: Final = 20_000
"""Up to so many pods the records of each are looked up; of more, all records are gone through."""

_COLUMNS: Final = "r.n, r.seq, r.start, r.length"


class Wanted(Struct, frozen=True, kw_only=True):
    """Which records: `since` is included and `until` is not, in microseconds since 1970."""

    filter: Filter = Filter()
    since: int | None = None
    until: int | None = None

    @property
    def is_everything(self) -> bool:
        """Say whether there is nothing to choose."""
        return self.filter.is_empty and self.since is None and self.until is None


class Spot(NamedTuple):
    """Where a record stands: its line without its end, `length` bytes from `start`."""

    n: int
    seq: int
    start: int
    length: int


class _Terms:
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

    @property
    def where(self) -> str:
        """All of them, as SQL."""
        return " AND ".join(self.texts) or "1"


def spots(index: Index, wanted: Wanted, *, most: int | None = None) -> list[Spot]:
    """Return where the wanted records stand, the newest first, at most so many."""
    with _reading(index.connection) as connection:
        return list(_chosen(connection, wanted, "DESC", most))


def walk(index: Index, wanted: Wanted) -> Iterator[Spot]:
    """Yield where the wanted records stand, in order, however many there are."""
    with _reading(index.connection) as connection:
        yield from _chosen(connection, wanted, "ASC", None)


def _chosen(
    connection: sqlite3.Connection, wanted: Wanted, order: str, most: int | None
) -> Iterator[Spot]:
    terms = _Terms()
    _add_window(connection, wanted, terms)
    _add_types(connection, wanted.filter, terms)
    how = _add_subjects(connection, wanted.filter, terms)
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM records r {how} WHERE {terms.where}"  # noqa: S608 -- written above, values apart
        f" ORDER BY r.n {order} LIMIT ?",
        (*terms.values, -1 if most is None else most),
    )
    return map(Spot._make, rows)


def of_case(index: Index, correlation: str) -> list[Spot]:
    """Return where the records of a case stand, in order; only pods have cases."""
    return _in_order(
        index,
        "r.subject IN (SELECT subject FROM subjects WHERE correlation = ? AND uid != '')",
        correlation,
    )


def with_id(index: Index, id_: str) -> list[Spot]:
    """Return where events stand that may have this id: the line tells."""
    return _in_order(index, "r.id = ?", id_number(id_))


def with_id_like(index: Index, prefix: str, *, most: int) -> list[Spot]:
    """Return where events stand whose id may begin like this: the line tells."""
    return _in_order(index, "r.id BETWEEN ? AND ?", *id_range(prefix), most=most)


def cases_like(index: Index, prefix: str, *, most: int) -> list[str]:
    """Return the cases whose id begins like this."""
    rows = index.connection.execute(
        "SELECT DISTINCT correlation FROM subjects WHERE correlation >= ? AND correlation < ?"
        " AND uid != '' LIMIT ?",
        (prefix, prefix + "\U0010ffff", most),
    )
    return [correlation for (correlation,) in rows]


def pods_like(index: Index, prefix: str, *, most: int) -> list[str]:
    """Return the uids of pods that begin like this."""
    rows = index.connection.execute(
        "SELECT DISTINCT uid FROM subjects WHERE uid >= ? AND uid < ? AND uid != '' LIMIT ?",
        (prefix, prefix + "\U0010ffff", most),
    )
    return [uid for (uid,) in rows]


def of_type(
    index: Index,
    types: tuple[str, ...],
    *,
    after: int = 0,
    before: int = LARGEST,
    newest: bool = False,
    most: int | None = 1,
) -> list[Spot]:
    """Return where records of these types stand between two numbers, in order from one end."""
    order = "DESC" if newest else "ASC"
    found: list[Spot] = []
    for number in _words(index.connection, types):
        rows = index.connection.execute(
            f"SELECT {_COLUMNS} FROM records r WHERE r.type = ? AND r.n > ? AND r.n < ?"  # noqa: S608 -- written above
            f" ORDER BY r.n {order} LIMIT ?",
            (number, after, before, -1 if most is None else most),
        )
        found += map(Spot._make, rows)
    return sorted(found, reverse=newest)[:most]


def from_number(index: Index, n: int, *, most: int) -> list[Spot]:
    """Return where the first records from a number on stand."""
    return _in_order(index, "r.n >= ?", n, most=most)


def with_sequence(index: Index, seq: int) -> list[Spot]:
    """Return where the record with this sequence stands."""
    return _in_order(index, "r.n > ? AND r.seq = ?", number_before(index, seq), seq, most=1)


def number_before(index: Index, seq: int) -> int:
    """Return the number before that of the first record from this sequence on."""
    (first,) = index.connection.execute(
        "SELECT max(first) FROM segments WHERE first_seq <= ?", (seq,)
    ).fetchone()
    (number,) = index.connection.execute(
        "SELECT min(n) FROM (SELECT n FROM records WHERE n >= ? AND seq >= ? ORDER BY n LIMIT 1)",
        (first or 0, seq),
    ).fetchone()
    return LARGEST if number is None else int(number) - 1


def _in_order(index: Index, where: str, *values: object, most: int = -1) -> list[Spot]:
    rows = index.connection.execute(
        f"SELECT {_COLUMNS} FROM records r WHERE {where} ORDER BY r.n LIMIT ?",  # noqa: S608 -- written above
        (*values, most),
    )
    return [Spot(*row) for row in rows]


def _add_window(connection: sqlite3.Connection, wanted: Wanted, terms: _Terms) -> None:
    """Choose by time: the files' own times narrow it down to a stretch of the journal."""
    since = -LARGEST if wanted.since is None else wanted.since
    until = LARGEST if wanted.until is None else wanted.until
    if wanted.since is None and wanted.until is None:
        return
    first, last = connection.execute(
        "SELECT min(first), max(last) FROM segments"
        " WHERE newest >= ? AND oldest < ? AND first <= last",
        (since, until),
    ).fetchone()
    terms.add("r.n BETWEEN ? AND ?", first or 0, last or 0)
    terms.add("r.time >= ? AND r.time < ?", since, until)


def _add_types(connection: sqlite3.Connection, chosen: Filter, terms: _Terms) -> None:
    if chosen.types:
        used = connection.execute(
            "WITH RECURSIVE used (word) AS (SELECT min(type) FROM records UNION ALL"
            " SELECT (SELECT min(type) FROM records WHERE type > word) FROM used"
            " WHERE word IS NOT NULL)"
            " SELECT word, text FROM words JOIN used USING (word)"
        )
        fits = Filter(types=chosen.types).wants
        fitting = [number for number, text in used if fits(_of_type(text))]
        terms.add_one_of("r.type", fitting)
    if chosen.outcomes:
        if "" not in chosen.outcomes:
            terms.add("r.outcome > 0")
        terms.add_one_of("r.outcome", _words(connection, chosen.outcomes))


def _of_type(type_: str) -> Summary:
    return Summary(id="", type=type_, time="", sequence="")


def _add_subjects(connection: sqlite3.Connection, chosen: Filter, terms: _Terms) -> str:
    """Choose by what stands with the subjects; return how the table of records is best read."""
    about = _about(connection, chosen)
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
    return "INDEXED BY records_subject" if count <= FEW else "NOT INDEXED"


def _about(connection: sqlite3.Connection, chosen: Filter) -> _Terms:
    terms = _Terms()
    for column, words in (
        ("namespace", chosen.namespaces),
        ("node", chosen.nodes),
        ("plugin", chosen.plugins),
    ):
        if words:
            terms.add_one_of(f"s.{column}", _words(connection, words))
    if chosen.pods:
        _add_pods(connection, chosen.pods, terms)
    if chosen.owners:
        marks = ", ".join("?" * len(chosen.owners))
        terms.add(
            f"s.chain IN (SELECT chain FROM owners WHERE word IN ({marks}))",  # noqa: S608 -- question marks
            *chosen.owners,
        )
    return terms


def _add_pods(connection: sqlite3.Connection, pods: tuple[str, ...], terms: _Terms) -> None:
    """Choose by uid, name, or namespace and name."""
    ways = _Terms()
    for pod in pods:
        ways.add("s.uid = ?", pod)
        ways.add("s.name = ?", pod)
        namespace, slash, name = pod.partition("/")
        if slash:
            numbers = ", ".join(map(str, _words(connection, (namespace,))))
            ways.add(f"(s.name = ? AND s.namespace IN ({numbers}))", name)
    terms.add(f"({' OR '.join(ways.texts)}) AND s.uid != ''", *ways.values)


def _words(connection: sqlite3.Connection, texts: tuple[str, ...]) -> list[int]:
    """Return the numbers of these texts, each of which may have several, or none."""
    marks = ", ".join("?" * len(texts))
    rows = connection.execute(f"SELECT word FROM words WHERE text IN ({marks})", texts)  # noqa: S608 -- question marks
    return [number for (number,) in rows] + [0] * ("" in texts)


@contextmanager
def _reading(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """See the index as it is at one moment."""
    if connection.in_transaction:
        yield connection
        return
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        with suppress(sqlite3.ProgrammingError):  # closed before whoever reads came to the end
            connection.execute("COMMIT")
