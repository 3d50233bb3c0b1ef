"""The tables of the index, so that every connection to it starts out alike."""

import os
import sqlite3
from pathlib import Path
from typing import Final

INDEX_FILE: Final = "index.sqlite"
"""The index's file in the folder of its journal."""

APPLICATION_ID: Final = 0x72644458
"""What a SQLite file says of itself when it is such an index."""

SCHEMA_VERSION: Final = 2
"""Raised with every change of the tables: an index of another version is built anew."""

BUSY_TIMEOUT_S: Final = 10.0
"""So long one waits for another process that writes."""

_TABLES: Final = (
    # Where the last record stands (`start`), and where the next line begins (`next`).
    """CREATE TABLE place (
        one INTEGER PRIMARY KEY CHECK (one = 1), segment INTEGER NOT NULL, next INTEGER NOT NULL,
        holder INTEGER NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL,
        seq INTEGER NOT NULL, n INTEGER NOT NULL, digest TEXT NOT NULL)""",
    """CREATE TABLE segments (
        first_seq INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL,
        damaged INTEGER NOT NULL, broken INTEGER NOT NULL,
        oldest INTEGER NOT NULL, newest INTEGER NOT NULL)""",
    # `n` counts records in the order of the files: it rises even where sequences were forged.
    """CREATE TABLE records (
        n INTEGER PRIMARY KEY, seq INTEGER NOT NULL, start INTEGER NOT NULL,
        length INTEGER NOT NULL, time INTEGER NOT NULL, type INTEGER NOT NULL,
        subject INTEGER NOT NULL, outcome INTEGER NOT NULL, reason INTEGER NOT NULL,
        id INTEGER NOT NULL)""",
    # What all records of a case have in common, and therefore stands here once.
    """CREATE TABLE subjects (
        subject INTEGER PRIMARY KEY, correlation TEXT NOT NULL, uid TEXT NOT NULL,
        name TEXT NOT NULL, namespace INTEGER NOT NULL, node INTEGER NOT NULL,
        plugin INTEGER NOT NULL, chain INTEGER NOT NULL)""",
    "CREATE TABLE owners (word TEXT, chain INTEGER, PRIMARY KEY (word, chain)) WITHOUT ROWID",
    "CREATE TABLE words (word INTEGER PRIMARY KEY, text TEXT NOT NULL)",
)
_INDEXES: Final = {
    "records_type": "records (type)",
    "records_subject": "records (subject)",
    "records_outcome": "records (outcome) WHERE outcome > 0",
    "records_reason": "records (reason) WHERE reason > 0",
    "records_id": "records (id)",
    "subjects_correlation": "subjects (correlation)",
    "subjects_uid": "subjects (uid)",
    "subjects_name": "subjects (name, namespace)",
    "subjects_namespace": "subjects (namespace)",
    "subjects_node": "subjects (node)",
    "subjects_plugin": "subjects (plugin)",
    "subjects_chain": "subjects (chain)",
    "owners_chain": "owners (chain)",
    "words_text": "words (text)",
}
_REFERENCES: Final = (
    ("subjects", "subject", (("records", "subject"),)),
    ("owners", "chain", (("subjects", "chain"),)),
    (
        "words",
        "word",
        (
            ("records", "type"),
            ("records", "outcome"),
            ("records", "reason"),
            ("subjects", "namespace"),
            ("subjects", "node"),
            ("subjects", "plugin"),
        ),
    ),
)
"""Which numbers are referred to from where, in the order to tidy up."""


def connect(path: Path, *, cache_kib: int) -> sqlite3.Connection:
    """Open an index to write to, made if it is not there; raises sqlite3.Error or OSError."""
    if not path.exists():
        _create_file(path)
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        _set_pragmas(connection, cache_kib)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def connect_read_only(path: Path, *, cache_kib: int) -> sqlite3.Connection:
    """Open an index that must not be written to; raises sqlite3.Error.

    Without its -wal file no process writes to it either, so it needs no locks.
    """
    is_unused = not path.with_name(path.name + "-wal").exists()
    how = "mode=ro&immutable=1" if is_unused else "mode=ro"
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?{how}", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None
    )
    try:
        _set_pragmas(connection, cache_kib)
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def has_current_schema(connection: sqlite3.Connection) -> bool:
    """Say whether the tables are there, in the version that is known here."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return (application, version) == (APPLICATION_ID, SCHEMA_VERSION)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables, empty, in place of whatever is there; within a transaction."""
    rows = connection.execute(
        "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite_%'"
    )
    for kind, name in rows.fetchall():
        connection.execute(f'DROP {kind} "{name.replace(chr(34), chr(34) * 2)}"')
    for table in _TABLES:
        connection.execute(table)
    add_indexes(connection)
    connection.execute("INSERT INTO place VALUES (1, 0, 0, 0, 0, 0, 0, 0, '')")
    connection.execute("INSERT INTO subjects VALUES (0, '', '', '', 0, 0, 0, 0)")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def add_indexes(connection: sqlite3.Connection) -> None:
    """Make the columns quick to search; what is quick already stays."""
    for name, columns in _INDEXES.items():
        connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {columns}")


def drop_indexes(connection: sqlite3.Connection) -> None:
    """Make it quicker to fill than to search, until `add_indexes`."""
    for name in _INDEXES:
        connection.execute(f"DROP INDEX IF EXISTS {name}")


def _create_file(path: Path) -> None:
    """Give the file to the folder's owner: a root that reads must not lock out the writer."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))
    if os.geteuid() == 0:
        folder = path.parent.stat()
        os.chown(path, folder.st_uid, folder.st_gid)


def _set_pragmas(connection: sqlite3.Connection, cache_kib: int) -> None:
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    connection.execute("PRAGMA temp_store = MEMORY")


def remove_unreferenced(connection: sqlite3.Connection) -> None:
    """Remove what no record refers to any more.

    Numbers rise, and what is removed is never referred to again (see `Rows.forget`): all that is
    below the smallest number in use may go.
    """
    for table, column, users in _REFERENCES:
        smallest = [
            connection.execute(f"SELECT min({used}) FROM {user} WHERE {used} > 0").fetchone()[0]  # noqa: S608 -- names from above
            for user, used in users
        ]
        least = min((each for each in smallest if each is not None), default=None)
        unused = f"{column} > 0" if least is None else f"{column} > 0 AND {column} < {least}"
        connection.execute(f"DELETE FROM {table} WHERE {unused}")  # noqa: S608 -- names and a number of ours
