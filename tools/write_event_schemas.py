"""Writes the schemas of events, which ship, the tables of their page, and the list of an example.

Tests hold all of it equal to the code. `--freeze` also keeps a copy of the schemas, and a sample
of each type, as those of this release.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory
from typing import Any, Final

import reactive_desched
from reactive_desched import api
from reactive_desched._version import __version__
from reactive_desched.api.event import DATA_TYPES
from reactive_desched.journal.records import JournalRecord, parse_header
from reactive_desched.model.changes import Change
from reactive_desched.model.evaluation import SWEEP
from reactive_desched.model.outcomes import RESULTS
from tests.support.journals import some_events, write_journal
from tools.event_page import fill_kinds, fill_tables
from tools.event_schemas import ENVELOPE, envelope, index, type_schemas

SCHEMAS: Final = Path(api.__file__).parent / "schemas"
PAGE: Final = Path(__file__).parent.parent / "docs" / "reference" / "events.md"
PAST: Final = Path(__file__).parent.parent / "tests" / "api" / "past"
EXAMPLE: Final = Path(__file__).parent.parent / "examples" / "events.html"
SAMPLES: Final = "samples.jsonl"
WORDS: Final = "words.json"


def file_texts() -> dict[str, str]:
    """Return the text of every file by its name."""
    files = {**type_schemas(), ENVELOPE: envelope(), "index": index()}
    return {f"{name}.json": _format_json(schema) for name, schema in files.items()}


def words() -> dict[str, list[str]]:
    """Return the words that events use in fields whose lists are open, and that must keep them."""
    modules = walk_packages(reactive_desched.__path__, "reactive_desched.")
    for module in modules:
        if not module.name.endswith("__main__"):
            import_module(module.name)
    changes = {kind.published_as or kind.__name__ for kind in _leaves(Change)}
    return {
        "trigger.change": sorted({*changes, SWEEP.change}),
        "outcome.result": sorted(RESULTS),
    }


def _leaves(kind: type[Change]) -> Iterator[type[Change]]:
    """Yield the changes of the package that are no base of others."""
    subclasses = [each for each in kind.__subclasses__() if each.__module__.startswith("reactive_")]
    if not subclasses:
        yield kind
    for each in subclasses:
        yield from _leaves(each)


def samples() -> bytes:
    """Return a line of a journal for each type."""
    with TemporaryDirectory() as folder:
        entries = write_journal(Path(folder), some_events(100))
    return b"".join(entry.raw + b"\n" for entry in _one_sample_per_type(entries))


def freeze(release: Path) -> None:
    """Keep what this release publishes; raises FileExistsError when it has been kept already."""
    release.mkdir(parents=True)
    for name, text in file_texts().items():
        (release / name).write_text(text, encoding="utf-8")
    (release / SAMPLES).write_bytes(samples())
    (release / WORDS).write_text(_format_json(words()), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Write every schema, the page and the list of the example; raises SystemExit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--freeze", action="store_true", help="keep what the version of this tree publishes"
    )
    release = PAST / __version__ if parser.parse_args(argv).freeze else None
    if release is not None and release.exists():
        parser.error(
            f"{release} is kept already, and stays as it was published; `make version"
            " VERSION=…` writes the next version"
        )
    SCHEMAS.mkdir(exist_ok=True)
    for name, text in file_texts().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
    PAGE.write_text(fill_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    EXAMPLE.write_text(fill_kinds(EXAMPLE.read_text(encoding="utf-8")), encoding="utf-8")
    if release is not None:
        freeze(release)


def _one_sample_per_type(entries: Iterable[JournalRecord]) -> list[JournalRecord]:
    samples_by_type: dict[str, JournalRecord] = {}
    for entry in entries:
        if marked := parse_header(entry.raw):
            samples_by_type.setdefault(marked.type, entry)
    return [samples_by_type[type_] for type_ in DATA_TYPES]


def _format_json(schema: dict[str, Any]) -> str:  # a schema is JSON
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
