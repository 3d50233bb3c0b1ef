"""`recording import`: what other programs record of a cluster, as a recording of ours."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from reactive_desched.cli import flag_values, recording_files
from reactive_desched.cli.commands import Commands, print_warning
from reactive_desched.errors import ConfigError, RecordingError

if TYPE_CHECKING:
    from reactive_desched.recording.items import Item

_DESCRIPTION = """\
Write what another program recorded of a cluster as a recording of ours, so that a policy can be
tried on it: a file of `kwokctl snapshot export --record`, or a trace of SimKube. What such a file
lacks is said. One of kwokctl does not say when it was begun: --began does."""
_EPILOG = """\
exit status: 0 written, 1 it cannot be read or written, 2 the arguments are wrong"""

KWOK, SIMKUBE = "kwok", "simkube"
_FIRST_OF_TRACE: Final = frozenset({*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF})
"""How a MessagePack array or map begins, and no text of YAML does."""


def add(commands: Commands) -> None:
    """Describe `recording import` to the parser of `recording`."""
    command = commands.add_parser("import", help="read a file of kwokctl, or a trace of SimKube")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched recording import kwok.yaml out.rdrec --began 2026-05-01T03:00:00Z",
            "reactive-desched recording import trace.sktrace out.rdrec",
        ),
    )
    command.add_argument("file", metavar="FILE", help="what kwokctl or skctl wrote")
    recording_files.add_output(command, "OUT")
    command.add_argument(
        "--began",
        metavar="TIME",
        help=f"when kwokctl began to record: {flag_values.TIME_HELP}",
    )
    command.add_argument(
        "--format", choices=[KWOK, SIMKUBE], help="which it is (default: by its first byte)"
    )
    command.set_defaults(command=_import)


def _import(arguments: argparse.Namespace) -> int:
    path = Path(arguments.file)
    try:
        with path.open("rb") as file:
            items = _some_objects(_items(file, arguments), arguments.file)
            recording_files.write(items, arguments.out)
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror or error}") from error
    return 0


def _some_objects(items: "Iterator[Item]", name: str) -> "Iterator[Item]":
    """Yield items; raises RecordingError where no object is among them."""
    from reactive_desched.recording.items import ObjectChanged, ObjectFound

    has_any = False
    for item in items:
        has_any = has_any or isinstance(item, ObjectFound | ObjectChanged)
        yield item
    if not has_any:
        raise RecordingError(
            f"{name} has no object of a kind that the controller watches; is it a file of kwokctl,"
            " or a trace of SimKube?"
        )


def _items(file: BinaryIO, arguments: argparse.Namespace) -> "Iterator[Item]":
    from reactive_desched.primitives.timestamps import parse_flag_moment
    from reactive_desched.recording.frames import MAGIC
    from reactive_desched.recording.imports.kwok import read_kwok
    from reactive_desched.recording.imports.simkube import read_simkube

    name, began = arguments.file, arguments.began
    head = file.read(len(MAGIC))
    file.seek(0)
    if head == MAGIC:
        raise ConfigError(
            f"{name} is a recording of this program: commands take it with --recording as it is"
        )
    is_trace = bool(head) and head[0] in _FIRST_OF_TRACE
    if (arguments.format or (SIMKUBE if is_trace else KWOK)) == SIMKUBE:
        if began is not None:
            raise ConfigError("--began: a trace of SimKube has its times; take the flag away")
        return read_simkube(file, name, print_warning)
    if began is None:
        raise ConfigError(
            f"{name} does not say when it was begun: write --began TIME, the time at which kwokctl"
            " began to record"
        )
    began_s = parse_flag_moment("--began", began, datetime.now(UTC)).timestamp()
    return read_kwok(file, name, began_s, print_warning)
