"""`pending`: what a running controller would evict and does not yet, and what each waits for."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from reactive_desched.cli import controller_client, record_filters
from reactive_desched.cli.commands import Commands
from reactive_desched.primitives.ages import format_span
from reactive_desched.primitives.counts import format_count

_FILTERS: Final = ("namespace", "pod", "plugin", "gate", "reason")


def add(commands: Commands) -> None:
    """Describe `pending` to the parser."""
    command = commands.add_parser("pending", help="list the evictions that wait, and for what")
    command.describe(
        "Ask a running controller which findings a gate blocks, since when, and what each waits "
        f"for: each is evaluated afresh when that happens. {controller_client.WHERE}",
        epilog=controller_client.STATUS,
        examples=(
            "reactive-desched pending -n shop",
            "reactive-desched pending --reason DisruptionBudget -o json",
        ),
    )
    for name in _FILTERS:
        names = ("-n", "--namespace") if name == "namespace" else (f"--{name}",)
        command.add_argument(*names, metavar="NAME", help=f"only findings of this {name}")
    controller_client.add_server(command)
    command.add_argument("-o", "--output", choices=["table", "json"], default="table")
    command.set_defaults(command=_call)


def _check(query: Mapping[str, str]) -> None:
    """Raise ConfigError for the name of a plugin, gate or reason that there is not."""
    from reactive_desched.api.reason_codes import GATES
    from reactive_desched.errors import ConfigError
    from reactive_desched.primitives.hints import not_one_of

    if plugin := query.get("plugin"):
        record_filters.check_plugins([plugin])
    if reason := query.get("reason"):
        record_filters.check_reasons([reason])
    if (gate := query.get("gate")) and gate not in GATES:
        raise ConfigError(f"--gate {not_one_of(gate, GATES)}")


def _call(arguments: argparse.Namespace) -> int:
    query = {name: value for name in _FILTERS if (value := getattr(arguments, name)) is not None}
    _check(query)
    answer = controller_client.client_of(arguments).read_page("pending", query)
    if arguments.output == "json":
        sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _table(answer, datetime.now(UTC)))
    return 0


def _table(answer: Mapping[str, Any], now: datetime) -> Iterator[str]:
    from reactive_desched.audit.layout import layout_for
    from reactive_desched.plan.columns import align

    if answer["pause"]:
        yield f"nothing is evaluated now: {answer['pause']}"
    for each in answer["flapping"]:
        yield f"{each['object']} flaps: its {each['field']} changed {each['changes']} times of late"
    findings = answer["findings"]
    if not findings:
        yield "no finding waits"
    else:
        rows: list[tuple[str, ...]] = [
            ("POD", "NODE", "PLUGIN", "SINCE", "NEXT LOOK", "REASON", "MESSAGE")
        ]
        rows += (_row(finding, now) for finding in findings)
        yield from align(rows, width=layout_for(sys.stdout).width, indent="")
    if (unlisted := answer["total"] - len(findings)) > 0:
        more = format_count(unlisted, "more finding", "waits", "wait")
        yield f"{more}; filter them, for example by --namespace"
    if answer["subjects"]:
        yield describe_subjects(answer["subjects"])


def describe_subjects(waiting: int) -> str:
    """Say how many subjects wait to be evaluated."""
    turn = "its turn" if waiting == 1 else "their turn"
    return f"{format_count(waiting, 'subject', 'waits', 'wait')} for quiet, or for {turn}"


def next_look(until: str | None, now: datetime) -> str:
    """Say when a blocked finding is evaluated again: by a time, else only at a change."""
    if until is None:
        return "at a change"
    return f"in {format_span(datetime.fromisoformat(until) - now)}"


def _row(finding: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    return (
        f"{finding['namespace']}/{finding['pod']}",
        finding["node"],
        finding["plugin"],
        format_span(now - datetime.fromisoformat(finding["since"])),
        next_look(finding.get("until"), now),
        finding["reason"],
        _message(finding),
    )


def _message(finding: Mapping[str, Any]) -> str:
    """Return the gate's message, and what would let the finding pass: time, changes, a setting."""
    notes = []
    if awaited := finding["waitsFor"]:
        waits = awaited if finding.get("until") is None else ("time", *awaited)
        notes.append(f"waits for {' or '.join(waits)}")
    if setting := finding.get("setting"):
        notes.append(f"setting: {setting}")
    return f"{finding['message']} [{'; '.join(notes)}]" if notes else str(finding["message"])
