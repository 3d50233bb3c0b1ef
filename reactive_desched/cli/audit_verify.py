"""`audit verify`: prove that a journal is as it was written."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.cli import journal_flags
from reactive_desched.cli.commands import Commands

if TYPE_CHECKING:
    from reactive_desched.audit.findings import VerifyReport
    from reactive_desched.audit.pinned_checkpoint import PinnedCheckpoint
    from reactive_desched.journal.signing.signed_note import PublicKey

STDIN: Final = "-"
_VERIFICATION_FAILED: Final = 1
_MAX_FILE_BYTES: Final = 1 << 20
_DESCRIPTION = """\
Read every record of a journal, also one that is being written, and prove that nothing was
changed, removed, added or moved: each record holds the SHA-256 of the one before, and
checkpoints are signed. Name the first record that is bad. The owner of the key can still write a
journal anew, and any user who can write to the folder can cut off its end: only a checkpoint
that was kept elsewhere shows that, so keep one now and then (from Kafka, the event stream, or
the metric) and name it with --checkpoint."""
_EPILOG = """\
a checkpoint is taken as a note, as an audit.checkpoint.v1 event (a line of `events tail`; of
several lines the last checkpoint counts), or as SIZE:HEX with at least 12 digits of the hash,
which is what the metrics show

with -o json, one object: "ok", "records", "first" and "last" ("sequence" and "time"), "segments",
"compressed", "verified" and "unknown" (keys, with how many checkpoints each signed), "keys_from",
"signed_to" and "unsigned" (records after the last signed checkpoint), "torn", "removed" (files that
retention removed meanwhile), "kept", "bad": null, or the first bad record with "sequence",
"file", "offset" (in the uncompressed file), "time", "reason" and perhaps "suspects", and "epochs":
each change of epoch with "sequence", "time", "source", "previous", "first_missing", "last_missing"
and "reason"; without "is_recorded" only the name in the checkpoints changed

exit status: 0 the journal is whole, 1 something is bad, or a change of epoch lost records, 2 the
arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `audit verify` to the parser of `audit`."""
    command = commands.add_parser("verify", help="prove that nothing in the journal was changed")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched audit verify --journal ./journal",
            "reactive-desched audit verify --checkpoint kept.txt --key controller.pub",
        ),
    )
    journal_flags.add_journal(command)
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
    from reactive_desched.audit.verification import verify

    directory = journal_flags.journal_directory(arguments)
    kept = _pinned_checkpoint(arguments.checkpoint) if arguments.checkpoint else None
    if kept is None:
        _require_journal(directory, arguments.key)
    keys, source = _trusted_keys(directory, arguments.key)
    report = verify(directory, keys, source, kept)
    sys.stdout.write(_as_json(report) if arguments.output == "json" else _as_text(report))
    return 0 if report.ok else _VERIFICATION_FAILED


def _require_journal(directory: Path, named: list[str]) -> None:
    """Raise ConfigError where there is no journal, rather than ask for its public key.

    With a key given, `verify` reports a journal of which no line can be read.
    """
    from reactive_desched.audit.journal_check import has_records, require_journal
    from reactive_desched.journal.signing.signer import PUBLIC_FILE

    files = require_journal(directory)
    if not named and not (directory / PUBLIC_FILE).exists():
        has_records(files)


def _trusted_keys(directory: Path, named: list[str]) -> "tuple[list[PublicKey], str]":
    """Return the keys to trust, and where they come from."""
    from reactive_desched.errors import ConfigError
    from reactive_desched.journal.signing.signer import PUBLIC_FILE

    if named:
        return [key for each in named for key in _parse_keys(each)], "--key"
    beside = directory / PUBLIC_FILE
    if directory.is_dir() and not beside.exists():
        raise ConfigError(f"{beside} is not there: name the journal's public key with --key")
    return (_read_keys(beside) if beside.exists() else []), str(beside)


def _parse_keys(named: str) -> "list[PublicKey]":
    """Return the key that is written here, or the keys of the file that is named."""
    from reactive_desched.journal.signing.signed_note import parse_key

    is_key = named.count("+") > 1 and not Path(named).exists()
    return [parse_key(named)] if is_key else _read_keys(Path(named))


def _read_keys(path: Path) -> "list[PublicKey]":
    from reactive_desched.errors import ConfigError
    from reactive_desched.journal.signing.signed_note import parse_key

    texts = _read_text(path).split()
    if not texts:
        raise ConfigError(f"{path}: there is no key in this file")
    try:
        return [parse_key(text) for text in texts]
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}, as checkpoint.pub beside a journal does") from error


def _pinned_checkpoint(checkpoint: str) -> "PinnedCheckpoint":
    from reactive_desched.audit.pinned_checkpoint import parse_pinned
    from reactive_desched.errors import ConfigError

    if checkpoint == STDIN:
        text, name = sys.stdin.buffer.read(_MAX_FILE_BYTES).decode(errors="replace"), "stdin"
    elif ":" in checkpoint and not Path(checkpoint).exists():
        return parse_pinned(checkpoint)
    else:
        text, name = _read_text(Path(checkpoint)), checkpoint
    try:
        return parse_pinned(text)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _read_text(path: Path) -> str:
    from reactive_desched.errors import ConfigError

    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE_BYTES).decode(errors="replace")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read it: {error.strerror}") from error


def _as_json(report: "VerifyReport") -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def _as_text(report: "VerifyReport") -> str:
    from reactive_desched.audit.verify_report import report_lines
    from reactive_desched.text.layout import fold, layout_for

    shown = layout_for(sys.stdout)
    return "".join(f"{part}\n" for line in report_lines(report) for part in fold(line, shown))
