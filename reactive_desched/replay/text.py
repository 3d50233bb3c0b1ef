"""Writes what a replay found: for people line by line, and as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from reactive_desched._version import __version__
from reactive_desched.replay.comparison import Difference
from reactive_desched.replay.recorded_decisions import MadeDecision
from reactive_desched.replay.replaying import ReplayReport
from reactive_desched.text.ages import format_duration
from reactive_desched.text.counts import and_more, format_count
from reactive_desched.text.times import format_moment, format_second

MAX_DIFFERENCES: Final = 20
"""So many differences are shown with both stories; -o json has all of them."""

MAX_GAPS: Final = 5
"""So many gaps are shown with their times; -o json has all of them."""


def report_lines(report: ReplayReport) -> Iterator[str]:
    """Yield a report line by line: the answer first."""
    yield _answer(report)
    shown = report.differences[:MAX_DIFFERENCES]
    for each in shown:
        yield ""
        yield from _difference_lines(each)
    if more := len(report.differences) - len(shown):
        yield f"{and_more(more)}: see -o json"
    yield ""
    for life in report.lives:
        count = life.comparison.equal + len(life.comparison.differences)
        yield (
            f"compared    {format_second(life.began_s)} to {format_second(life.ended_s)}: "
            f"{format_count(count, 'decision')}, recorded by version {life.version or 'unknown'}"
        )
        if left_out := life.comparison.not_recorded:
            yield f"            not recorded above journal.verdicts: {left_out}"
    if report.shortfall:
        yield f"recorded    {report.shortfall}"
    yield from _gap_lines(report.gaps)
    if report.unrecorded:
        last = format_count(report.unrecorded, "decision")
        yield (
            f"left out    the journal's last {last}: not recorded, or not yet, as the controller"
            " still runs or was killed"
        )
    yield f"replayed by version {__version__}"
    for text in report.not_compared:
        yield f"not compared: {text}"
    for damage in report.damages:
        yield f"{'torn end' if damage.is_torn_end else 'damaged'}: {damage}"


def _gap_lines(gaps: Sequence[tuple[float, float]]) -> Iterator[str]:
    for begins_s, ends_s in gaps[:MAX_GAPS]:
        length = format_duration(ends_s - begins_s)
        yield f"a gap       {format_second(begins_s)} to {format_second(ends_s)}, {length}"
    if more := gaps[MAX_GAPS:]:
        yield f"            {and_more(len(more), 'gap')}: see -o json"


def _answer(report: ReplayReport) -> str:
    if not report.lives:
        return "nothing was compared: the recording and the journal have nothing of this time"
    equal = format_count(report.equal, "decision")
    if not report.differences:
        return f"{equal}, all equal"
    return f"{equal} equal, {len(report.differences)} of the journal or of the replay alone:"


def _difference_lines(difference: Difference) -> Iterator[str]:
    decision = difference.decision
    key = decision.key
    whose = "the journal" if difference.is_of_journal else "the replay"
    yield (
        f"{format_moment(decision.at.wall_s)}  {decision.pod}, {key.plugin} of profile "
        f"{key.profile}: {whose} alone has {decision.verdict}"
    )
    yield from _story("journal", difference.journal)
    yield from _story("replay", difference.replay)


def _story(whose: str, decisions: Iterable[MadeDecision]) -> Iterator[str]:
    rows = [f"{format_moment(each.at.wall_s)}  {each}" for each in decisions]
    for row in rows or ["nothing about then"]:
        yield f"  {whose:8} {row}"


def as_builtins(report: ReplayReport) -> dict[str, Any]:
    """Return a report as JSON has it."""
    return {
        "equal": report.equal,
        "differences": [
            {
                "of": "journal" if each.is_of_journal else "replay",
                "decision": _decision(each.decision),
                "journal": [_decision(one) for one in each.journal],
                "replay": [_decision(one) for one in each.replay],
            }
            for each in report.differences
        ],
        "compared": [
            {
                "from": format_moment(life.began_s),
                "to": format_moment(life.ended_s),
                "version": life.version,
                "equal": life.comparison.equal,
                "differences": len(life.comparison.differences),
                "notRecorded": life.comparison.not_recorded,
            }
            for life in report.lives
        ],
        "shortfall": report.shortfall,
        "gaps": [
            {"from": format_moment(begins_s), "to": format_moment(ends_s)}
            for begins_s, ends_s in report.gaps
        ],
        "unrecorded": report.unrecorded,
        "notCompared": list(report.not_compared),
        "damages": [str(each) for each in report.damages],
        "pluginFaults": list(report.plugin_faults),
        "version": __version__,
    }


def _decision(decision: MadeDecision) -> dict[str, str]:
    fields = {
        "time": format_moment(decision.at.wall_s),
        "pod": decision.pod,
        "uid": decision.key.pod,
        "profile": decision.key.profile,
        "plugin": decision.key.plugin,
        "verdict": decision.verdict,
        "gate": decision.gate,
        "reason": decision.reason,
        "message": decision.message,
    }
    return {name: value for name, value in fields.items() if value}
