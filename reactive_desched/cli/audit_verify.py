"""`audit verify`: prove that a journal is as it was written."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.cli.commands import Commands

if TYPE_CHECKING:
    from reactive_desched.audit.findings import Report
    from reactive_desched.audit.pinned_checkpoint import Kept
    from reactive_desched.journal.signing.signed_note import Key

STDIN: Final = "-"
_BAD: Final = 1
_MAX_FILE_BYTES: Final = 1 << 20
_DESCRIPTION = """\
Read every record of a journal, also one that is being written, and prove that nothing was changed,
removed, added or moved: each record holds the SHA-256 of the one before, and checkpoints are
signed. Name the first record that is bad. Whoever has the key can still write a journal anew, and
anybody can cut off its end: only a checkpoint that was kept elsewhere shows that, so keep one now
and then (from Kafka, the event stream, or the metric) and name it with --checkpoint."""
_EPILOG = """\
a checkpoint is taken as a note, as an audit.checkpoint.v1 event (a line of `events tail`; of
several lines the last checkpoint counts), or as SIZE:HEX with at least 12 digits of the hash,
which is what the metrics show

with -o json, one object: "ok", "records", "first" and "last" ("sequence" and "time"), "segments",
"compressed", "verified" and "unknown" (keys, with how many checkpoints each signed), "keys_from",
"signed_to" and "unsigned" (records after the last signed checkpoint), "torn", "removed" (files that
retention removed meanwhile), "kept", and "bad": null, or the first bad record with "sequence",
"file", "offset" (in the uncompressed file), "time", "reason" and perhaps "suspects"

exit status: 0 the journal is whole, 1 something is bad, 2 the arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `audit verify` to the parser of `audit`."""
    command = commands.add_parser("verify", help="prove that nothing in the journal was changed")
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.description = _DESCRIPTION
    command.epilog = _EPILOG
    command.add_argument(
        "--journal", metavar="DIR", help="the journal's folder (default: where `run` keeps it)"
    )
    command.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="a checkpoint that was kept: a file, - for standard input, or SIZE:HEX",
    )
    command.add_argument(
        "--key",
        metavar="FILE",
        action="append",
        default=[],
        help="trust this public key, a file or NAME+HASH+BASE64; again for each key there was"
        " (default: checkpoint.pub beside the journal)",
    )
    command.add_argument("-o", "--output", choices=["text", "json"], default="text")
    command.set_defaults(command=_verify)


def _verify(arguments: argparse.Namespace) -> int:
    from reactive_desched.audit.verifying import verify
    from reactive_desched.journal.paths import default_directory

    named = arguments.journal
    directory = Path(named) if named else default_directory(os.environ)
    kept = _kept(arguments.checkpoint) if arguments.checkpoint else None
    if kept is None:
        _check(directory, arguments.key)
    keys, source = _keys(directory, arguments.key)
    report = verify(directory, keys, source, kept)
    sys.stdout.write(_as_json(report) if arguments.output == "json" else _as_text(report))
    return 0 if report.ok else _BAD


def _check(directory: Path, named: list[str]) -> None:
    """Make sure that there is a journal, before a key of none is asked for.

    With a key, a journal of which nothing can be read is for `verify` to judge.
    """
    from reactive_desched.audit.journal_check import check, has_records
    from reactive_desched.journal.signing.signer import PUBLIC_FILE

    files = check(directory)
    if not named and not (directory / PUBLIC_FILE).exists():
        has_records(files)


def _keys(directory: Path, named: list[str]) -> "tuple[list[Key], str]":
    """Return the keys to trust, and where they come from."""
    from reactive_desched.errors import ConfigError
    from reactive_desched.journal.signing.signer import PUBLIC_FILE

    if named:
        return [key for each in named for key in _keys_of(each)], "--key"
    beside = directory / PUBLIC_FILE
    if directory.is_dir() and not beside.exists():
        raise ConfigError(f"{beside} is not there: name the journal's public key with --key")
    return (_keys_in(beside) if beside.exists() else []), str(beside)


def _keys_of(named: str) -> "list[Key]":
    """Return the key that a word is, or those in the file that it names."""
    from reactive_desched.journal.signing.signed_note import parse_key

    is_key = named.count("+") > 1 and not Path(named).exists()
    return [parse_key(named)] if is_key else _keys_in(Path(named))


def _keys_in(path: Path) -> "list[Key]":
    from reactive_desched.errors import ConfigError
    from reactive_desched.journal.signing.signed_note import parse_key

    words = _text(path).split()
    if not words:
        raise ConfigError(f"{path}: there is no key in this file")
    try:
        return [parse_key(word) for word in words]
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}, as checkpoint.pub beside a journal does") from error


def _kept(named: str) -> "Kept":
    from reactive_desched.audit.pinned_checkpoint import parse_kept
    from reactive_desched.errors import ConfigError

    if named == STDIN:
        text, name = sys.stdin.buffer.read(_MAX_FILE_BYTES).decode(errors="replace"), "stdin"
    elif ":" in named and not Path(named).exists():
        return parse_kept(named)
    else:
        text, name = _text(Path(named)), named
    try:
        return parse_kept(text)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _text(path: Path) -> str:
    from reactive_desched.errors import ConfigError

    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE_BYTES).decode(errors="replace")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read it: {error.strerror}") from error


def _as_json(report: "Report") -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def _as_text(report: "Report") -> str:
    from reactive_desched.audit.layout import folded, look
    from reactive_desched.audit.verify_report import lines_of

    shown = look(sys.stdout)
    return "".join(f"{part}\n" for line in lines_of(report) for part in folded(line, shown))
