"""`pending`: what a running controller would evict and does not yet, and what each waits for."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any, Final

from reactive_desched.cli import controller_client, record_filters, recorded_controller
from reactive_desched.cli.commands import Commands
from reactive_desched.text.ages import age_of, format_age, left_until
from reactive_desched.text.counts import agree, format_count

_FILTERS: Final = ("namespace", "pod", "plugin", "gate", "reason")


def add(commands: Commands) -> None:
    """Describe `pending` to the parser."""
    command = commands.add_parser("pending", help="list the evictions that wait, and for what")
    command.describe(
        "Ask a running controller which findings a gate blocks, since when, and what each waits "
        "for: each is evaluated afresh when that happens. Those of one reason and setting are one "
        "row, the setting that holds most of them comes first, and what keeps pods for good last. "
        "Of a pod in the queue of a rate limit its place is said, and when its turn is. "
        "With --at it is what waited at that moment, of a recording and its journal. "
        f"{controller_client.WHERE}",
        epilog=controller_client.STATUS,
        examples=(
            "reactive-desched pending",
            "reactive-desched pending -n shop --each",
            "reactive-desched pending --reason DisruptionBudget -o json",
            "reactive-desched pending --at 2h",
        ),
    )
    for name in _FILTERS:
        names = ("-n", "--namespace") if name == "namespace" else (f"--{name}",)
        command.add_argument(*names, metavar="NAME", help=f"only findings of this {name}")
    controller_client.add_server(command)
    command.add_argument(
        "--each", action="store_true", help="a row for each finding, instead of one for each reason"
    )
    recorded_controller.add(command)
    controller_client.add_output(command)
    command.set_defaults(command=_call)


def _check(query: Mapping[str, str]) -> None:
    """Raise ConfigError for the name of a plugin, gate or reason that there is not."""
    from reactive_desched.api.reason_codes import GATES
    from reactive_desched.errors import ConfigError
    from reactive_desched.journal.summary import check_reasons
    from reactive_desched.primitives.hints import not_one_of

    if plugin := query.get("plugin"):
        record_filters.check_plugins([plugin])
    if reason := query.get("reason"):
        with record_filters.naming_flags():
            check_reasons([reason])
    if (gate := query.get("gate")) and gate not in GATES:
        raise ConfigError(f"--gate {not_one_of(gate, GATES)}")


def _call(arguments: argparse.Namespace) -> int:
    query = {name: value for name in _FILTERS if (value := getattr(arguments, name)) is not None}
    _check(query)
    if arguments.output == "json":
        query["all"] = "true"
    if recorded_controller.is_asked(arguments):
        value, _, heading = recorded_controller.ask(arguments, "pending", query)
    else:
        client = controller_client.client_of(arguments)
        answer = client.ask("pending", query)
        value, heading = answer.value, answer.heading(client.server)
    lines = chain((heading,), _table(value, each=arguments.each))
    controller_client.write_answer(arguments.output, value, lines)
    return 0


def _table(answer: Mapping[str, Any], *, each: bool) -> Iterator[str]:
    from reactive_desched.text.layout import layout_for

    if answer["pause"]:
        yield f"nothing is evaluated now: {answer['hold'] or answer['pause']}"
    elif answer["hold"]:
        yield f"no pod is evicted now: {answer['hold']}"
    for flapping in answer["flapping"]:
        yield (
            f"{flapping['object']} flaps: its {flapping['field']} changed "
            f"{flapping['changes']} times of late"
        )
    if not answer["total"]:
        yield "no finding waits"
    else:
        yield from headline(answer)
        now = datetime.fromisoformat(answer["time"])
        width = layout_for(sys.stdout).width
        yield from (_findings if each else _groups)(answer, now, width)
    if answer["subjects"]:
        yield describe_subjects(answer["subjects"])


def headline(answer: Mapping[str, Any]) -> Iterator[str]:
    """Say how many findings wait, for which settings, the one that holds most of them first."""
    total, kept, leaving = answer["total"], answer["kept"], answer["leaving"]
    waiting = total - kept - leaving
    text = format_count(waiting, "finding", "waits", "wait")
    settings = [f"{count:,} for {setting}" for setting, count in answer["bySetting"].items()]
    if settings:
        text += f": {', '.join(settings)}"
        if (others := waiting - sum(answer["bySetting"].values())) > 0:
            text += f", {others:,} for {'another reason' if others == 1 else 'other reasons'}"
    yield text
    if leaving:
        yield format_count(leaving, "more pod", "leaves already", "leave already")
    if kept:
        yield (
            f"{format_count(kept, 'more pod', 'stays', 'stay')} where "
            f"{agree(kept, 'it is', 'they are')} until a person changes that: see the last rows"
        )


def _groups(answer: Mapping[str, Any], now: datetime, width: int | None) -> Iterator[str]:
    """Yield a row for each reason and setting, with an example: next to leave, or the longest."""
    from reactive_desched.text.layout import align

    rows: list[tuple[str, ...]] = [GROUP_COLUMNS]
    rows += (group_row(each, now) for each in answer["reasons"])
    yield ""
    yield from align(rows, width=width, indent="")
    yield "--each lists every finding; -o json has all of them"


HELD: Final = "when it goes on"
"""When what is due is looked at while something holds all evictions, which has no known end."""

GROUP_COLUMNS: Final = ("FINDINGS", "REASON", "LONGEST", "NEXT", "EXAMPLE", "MESSAGE")


def group_row(each: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    """Return what is said of the findings of one reason and setting."""
    message = str(each["message"])
    if (last := each.get("lastTurn")) is not None and each["findings"] > 1:
        about = "at least" if each.get("isLeast") else "about"
        message += f"; all of them in {about} {_wait(last, now)}"
    if setting := each.get("setting"):
        message += f" [setting: {setting}]"
    return (
        str(each["findings"]),
        with_mode(each["reason"], each),
        age_of(each["since"], now),
        _next(each, now),
        each["example"],
        message,
    )


def with_mode(text: str, each: Mapping[str, Any]) -> str:
    """Add to a text the mode of a finding that is not carried out."""
    return f"{text} ({mode})" if (mode := each.get("mode")) else text


def _next(each: Mapping[str, Any], now: datetime) -> str:
    """Say when a pod leaves, or is evaluated again, or that none does."""
    from reactive_desched.model.approvals import NOT_APPROVED_CODE  # msgspec

    if each.get("keeps"):
        return "stays"
    if each.get("reason") == NOT_APPROVED_CODE:
        return "on approval"
    if (turn := each.get("nextTurn")) is not None:
        return f"turn {'after' if each.get('isLeast') else 'in'} {_wait(turn, now)}"
    return next_look(each.get("nextUntil"), now, is_least=bool(each.get("isLeast")))


def _wait(time: str, now: datetime) -> str:
    return format_age(max(1.0, round((datetime.fromisoformat(time) - now).total_seconds())))


def _findings(answer: Mapping[str, Any], now: datetime, width: int | None) -> Iterator[str]:
    from reactive_desched.text.layout import align

    findings = answer["findings"]
    rows: list[tuple[str, ...]] = [("POD", "NODE", "PLUGIN", "SINCE", "NEXT", "REASON", "MESSAGE")]
    rows += (_row(finding, now) for finding in findings)
    yield ""
    yield from align(rows, width=width, indent="")
    if (unlisted := answer["total"] - len(findings)) > 0:
        more = format_count(unlisted, "more finding", "waits", "wait")
        yield f"{more}; filter them, for example by --namespace"


def describe_subjects(waiting: int) -> str:
    """Say how many subjects wait to be evaluated."""
    turn = agree(waiting, "its turn", "their turn")
    return f"{format_count(waiting, 'subject', 'waits', 'wait')} for quiet, or for {turn}"


def next_look(until: str | None, now: datetime, *, is_least: bool = False) -> str:
    """Say when a blocked finding is evaluated again: by a time, else only at a change.

    While something holds all evictions the time `is_least`: what is due already waits for that.
    """
    if until is None:
        return "at a change"
    if not is_least:
        return left_until(until, now)
    return f"after {_wait(until, now)}" if datetime.fromisoformat(until) > now else HELD


def _row(finding: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    turn = finding.get("turn")
    each = {
        "keeps": finding.get("keeps"),
        "reason": finding["reason"],
        "nextTurn": turn and turn["at"],
        "isLeast": turn.get("isLeast") if turn else finding.get("isLeast"),
        "nextUntil": finding.get("until"),
    }
    return (
        f"{finding['namespace']}/{finding['pod']}",
        finding["node"],
        finding["plugin"],
        age_of(finding["since"], now),
        _next(each, now),
        with_mode(finding["reason"], finding),
        _message(finding),
    )


def _message(finding: Mapping[str, Any]) -> str:
    """Return the gate's message, and what would let the finding pass: time, changes, a setting."""
    notes = []
    if (awaited := finding["waitsFor"]) and not finding.get("turn"):
        waits = awaited if finding.get("until") is None else ("time", *awaited)
        notes.append(f"waits for {' or '.join(waits)}")
    if setting := finding.get("setting"):
        notes.append(f"setting: {setting}")
    return f"{finding['message']} [{'; '.join(notes)}]" if notes else str(finding["message"])
