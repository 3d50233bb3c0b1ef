"""`status`: what a running controller does now, on one screen."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final

from reactive_desched.cli import controller_client, recorded_controller
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.migrations import JOB_COLUMNS, job_row
from reactive_desched.cli.pending import (
    GROUP_COLUMNS,
    describe_subjects,
    group_row,
    headline,
)
from reactive_desched.model.modes import mode_text
from reactive_desched.text.ages import age_of, format_age, format_span, time_until
from reactive_desched.text.causes import shared_causes
from reactive_desched.text.counts import and_more, format_count
from reactive_desched.text.terminal import BOLD, GREEN, RED, YELLOW
from reactive_desched.text.workloads import name_of_key

MAX_ROWS: Final = 10
"""Rows of one section of the screen; -o json has all that the controller lists."""

_HEAD_WIDTH: Final = 16
_SEVERITIES: Final = {"good": GREEN, "warn": YELLOW, "bad": RED}
_STANDBY: Final = "standby"
_PAUSES_OF_STANDBY: Final = ("startup", "journal")
"""What a replica that stands by does not begin with: it is no trouble, and ends when it leads."""

_EVICTED: Final = frozenset({"evicted", "dry_run"})
_ENDED: Final = ("Succeeded", "Failed", "Aborted")
_LARGE: Final = 1000
"""From here on three digits would be written with an exponent."""

Answer = Mapping[str, Any]


def add(commands: Commands) -> None:
    """Describe `status` to the parser."""
    command = commands.add_parser("status", help="show what a running controller does now")
    command.describe(
        "Ask a running controller for its cluster, mode, policy, sync, pauses and brakes; how much "
        "each limit leaves, what is moving, its migration jobs, what waits and for what, its last "
        "evictions, its journal and its sinks. With --at it is as it was at that moment, of a "
        f"recording and its journal. {controller_client.WHERE}",
        epilog=controller_client.STATUS,
        examples=(
            "reactive-desched status",
            "reactive-desched status --server http://127.0.0.1:10258 -o json",
            "reactive-desched status --at 2026-05-01T03:12:00Z",
        ),
    )
    controller_client.add_server(command)
    recorded_controller.add(command)
    controller_client.add_output(command)
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    if recorded_controller.is_asked(arguments):
        answer, _, heading = recorded_controller.ask(arguments, "status", {})
        lines = chain((heading, ""), _lines(answer, ""))
        controller_client.write_answer(arguments.output, answer, lines)
        return 0
    client = controller_client.client_of(arguments)
    answer = client.read_page("status")
    controller_client.write_answer(arguments.output, answer, _lines(answer, client.server))
    return 0


def _lines(answer: Answer, server: str) -> Iterator[str]:
    from reactive_desched.text.layout import layout_for

    yield from StatusScreen(answer, layout_for(sys.stdout), server).lines()


class StatusScreen:
    """The answer of `/debug/status` as lines; ages count to the moment of the answer.

    `server` is the address that gave it.
    """

    def __init__(
        self,
        answer: Answer,
        layout: Any,
        server: str = "",  # layout: TextLayout, loaded late
    ) -> None:
        self._server = server
        self._answer = answer
        self._layout = layout
        self._now = datetime.fromisoformat(answer["time"])

    def lines(self) -> Iterator[str]:
        """Yield each section: a line for what is well, a table for what there is to look at."""
        answer = self._answer
        yield from self._heading(answer)
        yield from self._condition(answer)
        yield from self._limits(answer["limits"])
        for each in answer.get("calendars", ()):
            style = YELLOW if each["problem"] or not each.get("read") else ""
            yield from self._line("calendar", self._calendar(each), style)
        for each in answer.get("measuredUse", ()):
            if each["problem"]:
                text = f"{each['source']}: {each['problem']}"
                yield from self._line("measured use", text, YELLOW)
        yield from self._moves(answer["moves"])
        yield from self._jobs(answer["migrations"])
        yield from self._pending(answer["pending"])
        yield from self._recent(answer["recent"])
        yield from self._record(answer)

    def _heading(self, answer: Answer) -> Iterator[str]:
        uptime = age_of(answer["started"], self._now)
        cluster = _cluster(answer)
        at = f" at {self._server}" if self._server else ""
        style = YELLOW if answer["mode"] == "dry_run" else ""
        credentials = answer.get("credentials")
        where = f" on {answer['host']}{at}" if answer["host"] else ", as recorded"
        yield from self._line("controller", f"{answer['version']}{where}, up {uptime}")
        yield from self._line("cluster", f"{cluster}: {_size(answer)}")
        if credentials:
            yield from self._line("credentials", f"not renewed: {credentials}", RED)
        mode = mode_text(
            is_dry_run=answer["mode"] == "dry_run",
            no_plugin_acts=answer.get("noPluginActs", False),
            is_standby=answer["state"]["name"] == _STANDBY,
        )
        yield from self._line("mode", f"{mode}; {answer['leadership']}", style)
        yield from self._modes(answer.get("modes", ()))
        policy = answer["policy"]
        profiles = ", ".join(policy["profiles"]) or "none"
        text = f"{policy['file']} revision {policy['revision']}, profiles: {profiles}"
        yield from self._line("policy", text)
        for problem in policy["problems"]:
            yield from self._line("", f"newer files are rejected: {problem}", RED)

    def _modes(self, modes: Sequence[Answer]) -> Iterator[str]:
        """Name the plugins of another mode, those of a mode in one line."""
        by_mode: dict[str, list[str]] = {}
        for each in modes:
            by_mode.setdefault(each["mode"], []).append(f"{each['profile']}/{each['plugin']}")
        for mode, names in by_mode.items():
            yield from self._line("", f"{mode}: {', '.join(names)}", YELLOW)

    def _condition(self, answer: Answer) -> Iterator[str]:
        state = answer["state"]
        usual = _PAUSES_OF_STANDBY if state["name"] == _STANDBY else ()
        pauses = {each["name"]: each["reason"] for each in answer["pauses"] if each["reason"]}
        held = {name: reason for name, reason in pauses.items() if name not in usual}
        text = f"{state['name']}: {state['summary']}"
        yield from self._line("state", text, _SEVERITIES[state["severity"]])
        for names, cause in shared_causes(held):
            if cause not in state["summary"]:
                yield from self._line("", f"paused by {', '.join(names)}: {cause}", RED)
        if long_parts := answer.get("longParts"):
            yield from self._line("large pods", long_parts, YELLOW)
        for each in answer["pauses"]:
            if each["note"] and not each["reason"]:
                yield from self._line("", f"{each['name']}: {each['note']}", YELLOW)
        for at, each in enumerate(answer.get("failingPlugins", ())):
            text = f"{each['plugin']} of profile {each['profile']}: {each['message']}"
            yield from self._line("" if at else "plugins", text, RED if each["off"] else YELLOW)
        engaged = [each for each in answer["brakes"] if each["reason"]]
        if not engaged:
            yield from self._line("brakes", "none engaged")
        for at, each in enumerate(engaged):
            text = brake_text(each, self._now)
            yield from self._line("brakes" if at == 0 else "", text, RED)

    def _limits(self, limits: Answer) -> Iterator[str]:
        full = [
            f"{each['scope']} {_brief(each['perMinute'])}/min, burst {each['burst']}"
            for each in limits["rates"]
        ]
        yield from self._line("rates", "; ".join(full) or "not limited")
        if (ratio := limits["warmUpRatio"]) < 1:
            yield from self._line("", f"warming up: rates and bursts are at {ratio:.0%}", YELLOW)
        rows = [_bucket_row(each) for each in limits["buckets"]]
        rows += [_window_row(each) for each in limits["windows"]]
        header = ("SCOPE", "NAME", "LEFT", "HELD", "NEXT")
        yield from self._table("limits in use", header, rows)
        for each in limits["schedules"]:
            yield from self._line("schedule", _schedule(each, self._now))

    def _moves(self, moves: Answer) -> Iterator[str]:
        header = ("SINCE", "OWNER", "POD", "FROM", "TO", "STATE")
        rows = [
            (
                self._age(each["since"]),
                name_of_key(each["owner"]),
                each["pod"],
                each["fromNode"],
                each.get("toNode") or "-",
                _move_state(each),
            )
            for each in moves["oldest"]
        ]
        yield from self._table("moving", header, rows, format_count(moves["moving"], "pod"))

    def _jobs(self, found: Answer) -> Iterator[str]:
        """Show the jobs that have not ended; those that have are only counted."""
        if not found["enabled"]:
            return
        counts = found["byPhase"]
        ended = ", ".join(f"{counts[each]:,} {each}" for each in _ENDED if counts.get(each))
        is_open = sum(counts.values()) - sum(counts.get(each, 0) for each in _ENDED)
        rows = [job_row(each, self._now) for each in found["jobs"] if each["phase"] not in _ENDED]
        if not rows:
            yield from self._line("migration jobs", f"none open; {ended}" if ended else "none")
            return
        count = f"{is_open:,} open" + (f"; {ended}" if ended else "")
        yield from self._table("migration jobs", JOB_COLUMNS, rows, count)

    def _pending(self, pending: Answer) -> Iterator[str]:
        rows = [group_row(each, self._now) for each in pending["reasons"]]
        if rows:
            yield ""
            lines = headline(pending)
            yield from self._line("waiting", next(lines))
            for line in lines:
                yield from self._line("", line)
            from reactive_desched.text.layout import align

            yield from align([GROUP_COLUMNS, *rows[:MAX_ROWS]], width=self._layout.width)
            if len(rows) > MAX_ROWS:
                yield f"  {and_more(len(rows) - MAX_ROWS, 'row')} (-o json lists them)"
        else:
            yield from self._line("waiting", "none")
        for each in pending["flapping"]:
            yield f"  {each['object']} flaps: its {each['field']} changed {each['changes']} times"
        if pending["subjects"]:
            yield f"  {describe_subjects(pending['subjects'])}"

    def _recent(self, recent: Iterable[Answer]) -> Iterator[str]:
        header = ("AGE", "POD", "FROM", "PLUGIN", "RESULT", "WHAT BECAME OF IT")
        rows = [
            (
                self._age(each["time"]),
                f"{each['namespace']}/{each['pod']}",
                each["node"],
                each["plugin"],
                each["result"],
                _became(each),
            )
            for each in recent
        ]
        if rows:
            yield from self._table("last evictions", header, rows)
        else:
            earlier = "none since this start; `audit query` lists those of earlier processes"
            yield from self._line("last evictions", earlier)

    def _record(self, answer: Answer) -> Iterator[str]:
        if not answer["host"]:
            return  # a recording has nothing of the journal and the sinks
        if (journal := answer["journal"]) is None:
            is_standby = answer["leadership"] == "standby"
            why = "this process does not lead" if is_standby else "the controller starts or stops"
            yield from self._line("journal", f"not open: {why}")
            return
        text = f"{journal['directory']}, {format_count(journal['sequence'], 'record')}"
        if journal["openEvictions"]:
            text += f", {format_count(journal['openEvictions'], 'eviction')} without outcome"
        yield from self._line("journal", text)
        if journal["fault"]:
            yield from self._line("", journal["fault"], RED)
        if recording := answer.get("recording"):
            yield from self._line("recording", recording["directory"])
            if recording["fault"]:
                yield from self._line("", f"not written: {recording['fault']}", YELLOW)
        header = ("SINK", "LAG", "OLDEST", "DEAD LETTERS", "LOST", "STATE")
        rows = [
            (
                each["name"],
                str(each["lagRecords"]),
                format_span(timedelta(seconds=each["lagSeconds"])),
                str(each["deadLetters"]),
                str(each["lost"]),
                _sink_state(each),
            )
            for each in answer["sinks"]
        ]
        yield from self._table("sinks", header, rows)

    def _line(self, head: str, text: str, style: str = "") -> Iterator[str]:
        from reactive_desched.text.layout import titled

        yield from titled(head, text, self._layout, width=_HEAD_WIDTH, style=style)

    def _table(
        self,
        title: str,
        header: tuple[str, ...],
        rows: Sequence[tuple[str, ...]],
        count: str = "",
    ) -> Iterator[str]:
        from reactive_desched.text.layout import align

        if not rows:
            yield from self._line(title, "none")
            return
        yield ""
        yield self._layout.styled(BOLD, f"{title}: {count}" if count else title)
        yield from align([header, *rows[:MAX_ROWS]], width=self._layout.width)
        if len(rows) > MAX_ROWS:
            yield f"  {and_more(len(rows) - MAX_ROWS, 'row')} (-o json lists them)"

    def _calendar(self, each: Answer) -> str:
        """Say how old a calendar is, which process read it, and its problem."""
        said = f"read {self._age(each['read'])} ago" if each.get("read") else "never read"
        if each["isKept"]:
            said += ", by an earlier process"
        return f"{each['name']}: {said}" + (f"; {each['problem']}" if each["problem"] else "")

    def _age(self, time: str) -> str:
        return age_of(time, self._now)


def brake_text(brake: Answer, now: datetime) -> str:
    """Say which pods a brake holds, why, since when, and what ends that."""
    scope = "the whole cluster" if brake["scope"] == "cluster" else brake["scope"]
    since = age_of(brake["since"], now)
    text = f"{brake['name']}: has held {scope} for {since}: {brake['reason']}; {brake['release']}"
    if (until := brake.get("until")) is None:
        return text
    at = datetime.fromisoformat(until)
    left = format_age(max(0.0, (at - now).total_seconds()))
    least = ", at the earliest" if brake.get("isLeast") else ""
    return f"{text} (in {left}, at {at:%H:%M:%S} UTC{least})"


def _cluster(answer: Answer) -> str:
    """Name the cluster with its uid and the address of its API server."""
    name, uid, server = answer["cluster"], answer["clusterUid"], answer.get("apiServer", "")
    also = ", ".join(part for part in (uid != name and uid and f"uid {uid}", server) if part)
    return f"{name} ({also})" if name and also else name or "not known yet"


def _size(answer: Answer) -> str:
    nodes, pods = format_count(answer["nodes"], "node"), format_count(answer["pods"], "pod")
    return f"{nodes} that the policy selects, {pods}"


def _brief(number: float) -> str:
    """Write a number with three digits at least, and without an exponent."""
    return f"{number:.3g}" if number < _LARGE else f"{number:.0f}"


def _bucket_row(each: Answer) -> tuple[str, ...]:
    left, per_second = each["available"], each["perMinute"] / 60
    wait = "now" if left >= 1 else "never"
    if left < 1 and per_second > 0:
        left_s = (1 - left) / per_second
        wait = f"in {format_span(timedelta(seconds=max(1.0, left_s)))}"
    free = f"{int(left)} of {each['burst']}"
    return each["scope"], each["name"] or "-", free, str(each["held"]), wait


def _window_row(each: Answer) -> tuple[str, ...]:
    left = max(0, each["limit"] - each["counted"])
    return each["scope"], each["name"] or "-", f"{left} of {each['limit']}", "", "in the window"


def _schedule(each: Answer, now: datetime) -> str:
    """Say whether a schedule lets pods go now, and until when."""
    next_one, until = each.get("next"), each.get("until")
    if each.get("unread"):
        says = "open" if each.get("counted") is None else "no evictions"
        return f"{each['schedule']}: {says} until its calendar is read"
    if each.get("counted") is None:
        opens = f"opens in {time_until(next_one, now)}" if next_one else "opens never again"
        if each.get("allow"):
            return f"{each['schedule']}: no evictions, {opens}"
        return f"{each['schedule']}: closed, {opens}"
    left = "for good" if until is None else f"{time_until(until, now)} left"
    if each.get("limit") is None:
        return f"{each['schedule']}: evictions allowed, {left}"
    if each["limit"] == 0:
        return f"{each['schedule']}: no evictions, {left}"
    return f"{each['schedule']}: {each['counted']} of {each['limit']} evictions, {left}"


def _move_state(each: Answer) -> str:
    if not each["accepted"]:
        return "eviction requested, not answered yet"
    if not each.get("replacement"):
        return "no replacement yet" if each.get("awaitsReplacement") else "leaves, not replaced"
    where = "Ready" if each.get("ready") else "not Ready yet"
    return f"{each['replacement']} is {where}" if each.get("toNode") else "replacement is Pending"


def _sink_state(each: Answer) -> str:
    rejection = each.get("lastRejection")
    return each["error"] or (f"ok; last dead letter: {rejection}" if rejection else "ok")


def _became(each: Answer) -> str:
    if each["result"] not in _EVICTED:
        return str(each.get("message") or each.get("reason") or "")
    if (follow_up := each.get("followUp")) is None:
        if each["result"] != "evicted":
            return ""
        return "replacement awaited" if each.get("awaitsReplacement") else "leaves, not replaced"
    text = follow_up.get("summary") or str(follow_up["result"])
    if node := follow_up.get("node"):
        from reactive_desched.model.moves import end_with_node

        text = end_with_node(str(follow_up["result"]), text, str(node))
    if (ready_s := follow_up.get("readySeconds")) is not None:
        text += f", Ready after {ready_s:.1f} s"
    return f"{text}; it did not help" if follow_up.get("isFutile") else text
