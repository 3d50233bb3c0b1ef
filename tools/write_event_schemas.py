"""Writes the schemas of events, which ship, and the tables of their page; a test holds them equal.

`--freeze` also keeps a copy of the schemas, and a sample of each type, as those of this release.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from reactive_desched import api
from reactive_desched._version import __version__
from reactive_desched.api.event import DATA
from reactive_desched.journal.records import Entry, mark
from tests.support.journals import some_events, write_journal
from tools.event_page import filled
from tools.event_schemas import ENVELOPE, envelope, index, type_schemas

SCHEMAS: Final = Path(api.__file__).parent / "schemas"
PAGE: Final = Path(__file__).parent.parent / "docs" / "reference" / "events.md"
PAST: Final = Path(__file__).parent.parent / "tests" / "api" / "past"
SAMPLES: Final = "samples.jsonl"


def texts() -> dict[str, str]:
    """Return the text of every file by its name."""
    files = {**type_schemas(), ENVELOPE: envelope(), "index": index()}
    return {f"{name}.json": _text(schema) for name, schema in files.items()}


def samples() -> bytes:
    """Return a line of a journal for each type."""
    with TemporaryDirectory() as folder:
        entries = write_journal(Path(folder), some_events(100))
    return b"".join(entry.raw + b"\n" for entry in _one_of_each(entries))


def freeze(release: Path) -> None:
    """Keep what this release publishes; raises FileExistsError when it has been kept already."""
    release.mkdir(parents=True)
    for name, text in texts().items():
        (release / name).write_text(text, encoding="utf-8")
    (release / SAMPLES).write_bytes(samples())


def main() -> None:
    """Write every schema and the page."""
    SCHEMAS.mkdir(exist_ok=True)
    for name, text in texts().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    if "--freeze" in sys.argv[1:]:
        freeze(PAST / __version__)


def _one_of_each(entries: Iterable[Entry]) -> list[Entry]:
    found: dict[str, Entry] = {}
    for entry in entries:
        if marked := mark(entry.raw):
            found.setdefault(marked.type, entry)
    return [found[type_] for type_ in DATA]


def _text(schema: dict[str, Any]) -> str:  # a schema is JSON
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
