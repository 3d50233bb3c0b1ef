"""`policy diff`: what each of two policies would have done over a recorded time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

import msgspec
from msgspec import Struct

from reactive_desched._version import __version__
from reactive_desched.errors import ReactiveDeschedError
from reactive_desched.policy_diff.comparison import compare_policies, recorded_evictions_named
from reactive_desched.policy_diff.configurations import is_in_force, read_side
from reactive_desched.policy_diff.decisions import PolicyDecisions
from reactive_desched.policy_diff.document import write_diff
from reactive_desched.policy_diff.report import PolicyDiff, RecordedTime
from reactive_desched.policy_diff.trying import RecordedPeriod, read_period, try_policies
from reactive_desched.text.ages import format_duration
from reactive_desched.text.counts import and_more, format_count
from reactive_desched.text.layout import layout_for
from reactive_desched.text.times import format_moment, format_second

__all__ = ["DiffOptions", "Side", "diff_policies", "run", "write_decisions", "write_report"]

_ROUNDING_S: Final = 0.001

_MAX_GAPS: Final = 5
"""So many gaps have a warning each, of the others there is one in all."""

_LONGEST_COMMENT: Final = 65_536
"""So many characters GitHub takes in a comment."""


class Side(Struct, frozen=True):
    """One of both sides: a file and settings, None for what was in force, and who decides.

    `program` is another version of this program, None for this one.
    """

    file: str | None = None
    settings: str | None = None
    program: str | None = None


class DiffOptions(Struct, frozen=True, kw_only=True):
    """The arguments of `policy diff`.

    `since` and `until` are as they were typed; an age counts back from the end of the recording.
    """

    old: Side
    new: Side
    recording: Path
    since: str | None = None
    until: str | None = None
    lenient: bool = False


def run(options: DiffOptions, form: str, limit: int, into: TextIO) -> int:
    """Compare, and write the report as `text`, `json`, `md` or `html`; return the exit status."""
    diff = diff_policies(options)
    write_report(diff, form, limit, into)
    return 1 if diff.old.plugin_faults or diff.new.plugin_faults else 0


def write_report(diff: PolicyDiff, form: str, limit: int, into: TextIO) -> None:
    """Write a report as `text`, `json`, `md` or `html`, with so many rows in a table, 0 for all."""
    into.writelines(_parts(diff, form, limit, into))


def write_decisions(options: DiffOptions, into: TextIO) -> int:
    """Write what the new side would have done, as another version of this program reads it.

    Return the exit status.
    """
    period = read_period(options.recording, options.since, options.until)
    side = options.new
    read = read_side(side.file, side.settings, period.in_force, lenient=options.lenient)
    [found] = try_policies(period, [read])
    into.write(msgspec.json.encode(found).decode() + "\n")
    return 1 if found.plugin_faults else 0


def _parts(diff: PolicyDiff, form: str, limit: int, into: TextIO) -> Iterator[str]:
    if form == "json":
        yield msgspec.json.format(msgspec.json.encode(diff), indent=2).decode() + "\n"
        return
    document = write_diff(diff, __version__, limit)
    if form == "html":
        from reactive_desched.audit.report.html_page import as_html

        yield from as_html(document)
    elif form == "md":
        yield _as_comment(diff, limit)
    else:
        from reactive_desched.policy_diff.text import as_text

        yield from (f"{line}\n" for line in as_text(document, layout_for(into)))


def _as_comment(diff: PolicyDiff, limit: int) -> str:
    """Return the report as Markdown, with fewer rows where it were too long for a comment.

    With a limit of 0 it has all rows, however long it is.
    """
    from reactive_desched.audit.report.markdown_page import as_markdown

    rows = limit
    while True:
        text = "".join(as_markdown(write_diff(diff, __version__, rows)))
        if rows <= 1 or len(text) < _LONGEST_COMMENT:
            return text
        rows //= 2


def diff_policies(options: DiffOptions) -> PolicyDiff:
    """Run both policies over the recording; raises ConfigError, PolicyErrors and NotRecorded."""
    period = read_period(options.recording, options.since, options.until)
    facts, summary = period.facts, period.summary
    sides = {"--old-program": options.old, "--new-program": options.new}
    decided = {
        flag: _ask(side, side.program, flag, period, options)
        for flag, side in sides.items()
        if side.program is not None
    }
    ours = {
        flag: read_side(side.file, side.settings, period.in_force, lenient=options.lenient)
        for flag, side in sides.items()
        if side.program is None
    }
    if ours:
        decided |= zip(ours, try_policies(period, list(ours.values())), strict=True)
    old, new = (decided[flag] for flag in sides)
    began_s, ended_s = new.began_s, new.ended_s
    time = RecordedTime(
        path=str(period.path),
        since=format_second(began_s),
        until=format_second(ended_s),
        seconds=round(ended_s - began_s, 1),
        cluster=summary.cluster,
        version=summary.version,
        evictions=len(facts.evicted),
        dry_run_evictions=facts.dry_run_answers,
        named=recorded_evictions_named(old, facts) if _old_is_in_force(options, period) else None,
        policy_changes=max(0, len(facts.configurations) - 1),
        asked_since=None if period.since_s is None else format_second(period.since_s),
        asked_until=None if period.until_s is None else format_second(period.until_s),
        gaps=tuple((format_second(begins), format_second(ends)) for begins, ends in facts.gaps),
        damages=tuple(map(str, period.damages)),
    )
    return compare_policies(old, new, time, _warnings(period))


def _ask(
    side: Side, program: str, flag: str, period: RecordedPeriod, options: DiffOptions
) -> PolicyDecisions:
    """Ask another version of this program what a side would have done; raises ConfigError."""
    from reactive_desched.policy_diff.other_program import ask_program

    files = [] if side.file is None else [side.file]
    given = {
        "--recording": str(period.path),
        "--settings": side.settings,
        "--since": None if period.since_s is None else format_moment(period.since_s),
        "--until": format_moment(period.until_s or period.facts.last_s + _ROUNDING_S),
    }
    flags = [word for name, value in given.items() if value is not None for word in (name, value)]
    return ask_program(
        program, flag, [*files, *flags, *(["--lenient-policy"] if options.lenient else [])]
    )


def _old_is_in_force(options: DiffOptions, period: RecordedPeriod) -> bool:
    """Say whether the old side has the configuration that was in force."""
    side, in_force = options.old, period.in_force
    if in_force is None:
        return False
    if side.file is None and side.settings is None:
        return True
    try:
        read, _ = read_side(side.file, side.settings, in_force, lenient=options.lenient)
        return is_in_force(read, in_force, lenient=options.lenient)
    except ReactiveDeschedError:  # another version reads it
        return False


def _warnings(period: RecordedPeriod) -> Iterator[str]:
    if shortfall := period.summary.shortfall(period.since_s, period.until_s):
        yield f"{shortfall}: what is counted is of that time alone"
    gaps = period.facts.gaps
    for begins, ends in gaps[:_MAX_GAPS]:
        yield (
            f"nothing is recorded from {format_second(begins)} to {format_second(ends)}: both"
            " policies begin anew after it, with the cluster as it was then"
        )
    if more := gaps[_MAX_GAPS:]:
        length = format_duration(sum(ends - begins for begins, ends in more))
        yield f"{and_more(len(more), 'gap')}, {length} in all; -o json has all of them"
    if period.damages:
        yield (
            f"the recording is damaged in {format_count(len(period.damages), 'place')}, first in"
            f" {period.damages[0]}"
        )
