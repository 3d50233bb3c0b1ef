"""`recording status`: which time a recording has, where it has gaps, and what is damaged."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from reactive_desched.cli import recording_files
from reactive_desched.cli.commands import Commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reactive_desched.recording.coverage import RecordingSummary

_DESCRIPTION = """\
Say which time a recording has, of which cluster, how large it is, between which times nothing is
recorded, and what of it is damaged. What lies behind a damaged place cannot be read up to the next
segment; everything else can."""
_EPILOG = """\
with -o json, one object: "recording", "first", "last", "bytes", "segments", "version", "cluster",
"gaps" (each "since", "until") and "damages" (each "file", "offset", "message", "isTornEnd")

the end of what a process wrote that was killed may be torn: it is cut off, which is said

exit status: 0 it can be read, 1 it is damaged or there is none, 2 the arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `recording status` to the parser of `recording`."""
    command = commands.add_parser("status", help="say which time is recorded, and its gaps")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched recording status",
            "reactive-desched recording status tuesday.rdrec -o json",
        ),
    )
    recording_files.add_recording(command, is_named=True)
    command.add_argument("-o", "--output", choices=["text", "json"], default="text")
    command.set_defaults(command=_status)


def _status(arguments: argparse.Namespace) -> int:
    import msgspec

    from reactive_desched.recording.coverage import summarize_recording
    from reactive_desched.text.layout import align, layout_for

    path = recording_files.recording_of(arguments)
    found = summarize_recording(path)
    if arguments.output == "json":
        text = msgspec.json.format(msgspec.json.encode(_as_json(str(path), found)), indent=1)
        sys.stdout.write(f"{text.decode()}\n")
    else:
        layout = layout_for(sys.stdout)
        rows = [("recording", str(path)), *_rows(found)]
        sys.stdout.writelines(f"{line}\n" for line in align(rows, width=layout.width))
    return 0 if all(each.is_torn_end for each in found.damages) else 1


def _as_json(path: str, found: "RecordingSummary") -> dict[str, Any]:
    from reactive_desched.text.times import format_moment

    return {
        "recording": path,
        "first": format_moment(found.first_s),
        "last": format_moment(found.last_s),
        "bytes": found.bytes,
        "segments": found.segments,
        "version": found.version,
        "cluster": found.cluster,
        "gaps": [
            {"since": format_moment(a), "until": format_moment(b)} for a, b in found.interruptions
        ],
        "damages": [
            {
                "file": each.file,
                "offset": each.offset,
                "message": each.message,
                "isTornEnd": each.is_torn_end,
            }
            for each in found.damages
        ],
    }


def _rows(found: "RecordingSummary") -> "Iterator[tuple[str, str]]":
    from reactive_desched.audit.status_text import format_bytes
    from reactive_desched.primitives.bounded_text import printable
    from reactive_desched.text.ages import format_age
    from reactive_desched.text.counts import format_count
    from reactive_desched.text.times import format_second

    yield "cluster", printable(found.cluster) or "-"
    yield "written by", f"version {printable(found.version)}" if found.version else "an import"
    yield "first", format_second(found.first_s)
    passed_s = found.last_s - found.first_s
    later = f"{format_age(passed_s)} later" if passed_s >= 0 else "as the clock was set back"
    yield "last", f"{format_second(found.last_s)}, {later}"
    yield "size", f"{format_bytes(found.bytes)} in {format_count(found.segments, 'segment')}"
    for since_s, until_s in found.interruptions:
        length = format_age(until_s - since_s)
        yield "gap", f"{format_second(since_s)} to {format_second(until_s)}, {length}"
    for damage in found.damages:
        if damage.is_torn_end:
            yield "torn end", str(damage)
        else:
            yield "damaged", f"{damage}; it cannot be read from there to the next segment"
