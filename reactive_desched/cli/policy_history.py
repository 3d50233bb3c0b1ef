"""`policy history` and `policy show`: which policies were loaded, and the text of each."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from reactive_desched.cli import audit_flags
from reactive_desched.cli.commands import Commands, print_warning
from reactive_desched.cli.policy_texts import exact_text, hidden_places, named_texts
from reactive_desched.errors import JournalError
from reactive_desched.text.counts import and_more

if TYPE_CHECKING:
    from reactive_desched.audit.policy_loads import FileChange, FileText, HistoryEntry

_NOT_FOUND: Final = 1
_LIMIT: Final = 20
_TIME_CHARS: Final = 19
_ROLLBACK_HINT: Final = "`policy rollback` takes it from the file in use"
_HISTORY: Final = """\
List which policies and settings were loaded, by which the controller decided from then on, the
newest last: at a start, when another replica became the leader, or because a file changed while it
ran. Each line says what the load changed. Files that were rejected are listed, too: the revision
that stays is in their line."""
_HISTORY_JSON: Final = """\
with -o json, an array of objects: "sequence" (the record), "id", "time", "how" (start, reload or
rejected), "revision", "source", "mode", "version", "files", "isFirst" (nothing is known of what was
before), "changes" (each with "name", "change", "insteadOf", "added" and
"removed" lines), "others" (another mode or version), and "problems" of rejected files

exit status: 0 shown, 1 nothing was loaded or the journal cannot be read, 2 the arguments are
wrong"""
LOAD_HELP: Final = """\
REV is a load as `policy history` lists it: the number of its record, its revision or the start of
one, which stands for the latest load with it, or the id of its event"""
_SHOW: Final = f"""\
Print the text of a policy, and of the settings beside it, as they were loaded.

{LOAD_HELP}"""
_SHOW_EXITS: Final = """\
with -o patch, a merge patch for the ConfigMap with these files, for `kubectl patch --patch-file`

exit status: 0 printed, 1 no record has the text, 2 the arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `policy history` and `policy show` to the parser of `policy`."""
    command = commands.add_parser("history", help="list which policies were loaded, and when")
    command.describe(
        _HISTORY,
        epilog=_HISTORY_JSON,
        examples=("reactive-desched policy history", "reactive-desched policy history --limit 5"),
    )
    audit_flags.add_limit(command, _LIMIT)
    audit_flags.add_journal(command)
    command.add_argument("-o", "--output", choices=["table", "json"], default="table")
    command.set_defaults(command=_history)

    command = commands.add_parser("show", help="print a policy as it was loaded")
    command.describe(
        _SHOW,
        epilog=_SHOW_EXITS,
        examples=(
            "reactive-desched policy show 7d1a42f448bb",
            "reactive-desched policy show 17 settings.yaml",
        ),
    )
    add_load(command)
    audit_flags.add_journal(command)
    command.add_argument("-o", "--output", choices=["text", "patch"], default="text")
    command.set_defaults(command=_show)


def add_load(command: argparse.ArgumentParser) -> None:
    """Describe which load is meant, and which of its files."""
    command.add_argument("load", metavar="REV", help="a record, a revision or an id")
    command.add_argument(
        "files", metavar="FILE", nargs="*", default=[], help="only these of its files"
    )


def _history(arguments: argparse.Namespace) -> int:
    from reactive_desched.audit.policy_loads import PolicyLoads

    with audit_flags.open_catalogue(arguments) as catalogue:
        entries = PolicyLoads(catalogue).history(arguments.limit or None)
        is_whole = catalogue.first_seq <= 1
    if arguments.output == "json":
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(entries), indent=1)
        sys.stdout.write(text.decode() + "\n")
    elif entries:
        _print(entries, is_whole=is_whole)
    else:
        sys.stderr.write("no policy was loaded in the time that the journal covers\n")
    return 0 if entries else _NOT_FOUND


def _print(entries: "Sequence[HistoryEntry]", *, is_whole: bool) -> None:
    from reactive_desched.primitives.bounded_text import printable
    from reactive_desched.text.layout import align, layout_for

    header = ("TIME (UTC)", "RECORD", "HOW", "REVISION", "MODE", "WHAT CHANGED")
    rows = [
        (
            each.time[:_TIME_CHARS].replace("T", " "),
            str(each.sequence),
            each.how,
            each.revision,
            each.mode or "-",
            printable("; ".join(_described(each, is_whole=is_whole))),
        )
        for each in entries
    ]
    sys.stdout.writelines(
        f"{line}\n"
        for line in align([header, *rows], width=layout_for(sys.stdout).width, indent="")
    )


def _described(entry: "HistoryEntry", *, is_whole: bool) -> Iterator[str]:
    if entry.problems:
        more = len(entry.problems) - 1
        yield entry.problems[0] + (f"; {and_more(more)}" if more else "")
        return
    if entry.is_first:
        files = ", ".join(entry.files) or entry.source
        yield f"{'the first' if is_whole else 'the oldest in this journal'}: {files}"
        return
    yield from map(_change, entry.changes)
    yield from entry.others
    if not (entry.changes or entry.others):
        yield "nothing"


def _change(change: "FileChange") -> str:
    text = change.name if change.added is not None else f"{change.name}: {change.change}"
    if change.instead_of:
        text += f" instead of {change.instead_of}"
    if change.added is not None:
        text += f" +{change.added} -{change.removed}"
    return f"{text}: {' → '.join(change.lines)}" if change.lines else text


def _show(arguments: argparse.Namespace) -> int:
    from reactive_desched.audit.policy_loads import PolicyLoads

    with audit_flags.open_catalogue(arguments) as catalogue:
        loads = PolicyLoads(catalogue)
        record = loads.find(arguments.load)
        texts = named_texts(record, loads.texts(record), arguments.files)
        if missing := next((each for each in texts if each.missing), None):
            raise JournalError(f"there is no text of {missing.file.name}: {missing.missing}")
        if arguments.output == "patch":
            _print_patch(texts)
        else:
            _print_texts(texts)
    return 0


def _print_texts(texts: "Sequence[FileText]") -> None:
    for each in texts:
        if len(texts) > 1:
            sys.stdout.write(f"# {each.file.name}, SHA-256 {each.file.sha256}\n")
        sys.stdout.flush()
        sys.stdout.buffer.write(each.text.encode(errors="replace"))
        sys.stdout.buffer.flush()
        if not each.is_exact:
            print_warning(f"{each.file.name}: {hidden_places(each)}: {_ROLLBACK_HINT}")


def _print_patch(texts: "Sequence[FileText]") -> None:
    """Print a merge patch for the ConfigMap of these files; raises JournalError."""
    data = {PurePath(each.file.name).name: exact_text(each) for each in texts}
    sys.stdout.write(json.dumps({"data": data}, indent=1, ensure_ascii=False) + "\n")
