"""`migrations`: the migration jobs that a running controller watches, and what each waits for."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from reactive_desched.cli import controller_client
from reactive_desched.cli.commands import Commands
from reactive_desched.text.ages import age_of
from reactive_desched.text.counts import and_more

JOB_COLUMNS: Final = ("JOB", "POD", "NODE", "MADE BY", "PHASE", "AGE", "MESSAGE")


def add(commands: Commands) -> None:
    """Describe `migrations` to the parser."""
    command = commands.add_parser("migrations", help="list migration jobs, and what each waits for")
    command.describe(
        "Ask a running controller which pods migration jobs move, who made each job, how far it "
        "is, and what it waits for; jobs that have ended are listed until they are deleted. "
        f"{controller_client.WHERE}",
        epilog=controller_client.STATUS,
        examples=("reactive-desched migrations", "reactive-desched migrations -o json"),
    )
    controller_client.add_server(command)
    controller_client.add_output(command)
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    client = controller_client.client_of(arguments)
    answer = client.ask("migrations")
    lines = chain((answer.heading(client.server),), _table(answer.value, datetime.now(UTC)))
    controller_client.write_answer(arguments.output, answer.value, lines)
    return 0


def _table(answer: Mapping[str, Any], now: datetime) -> Iterator[str]:
    from reactive_desched.text.layout import align, layout_for

    if not answer["enabled"]:
        yield "migration jobs are off: write `migration: {}` into the settings"
        return
    if not answer["jobs"]:
        yield "there is no migration job"
        return
    rows: list[tuple[str, ...]] = [JOB_COLUMNS]
    rows += (job_row(job, now) for job in answer["jobs"])
    yield from align(rows, width=layout_for(sys.stdout).width, indent="")
    if (more := answer["total"] - len(answer["jobs"])) > 0:
        yield and_more(more)


def job_row(job: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    """Return what is shown of a job, in the order of JOB_COLUMNS."""
    reason, message = job.get("reason", ""), job.get("message", "")
    if setting := job.get("setting"):
        message = f"{message} [setting: {setting}]"
    return (
        job["name"],
        f"{job['namespace']}/{job['pod']}",
        job["node"],
        job["madeBy"],
        f"{job['phase']} (paused)" if job.get("isPaused") else job["phase"],
        age_of(job["created"], now),
        f"{reason}: {message}" if reason else message,
    )
