"""Asks a controller as it was at an earlier moment, which is run up to then over a recording."""

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from reactive_desched.cli import controller_client, journal_flags, snapshot_flags
from reactive_desched.errors import ConfigError

_NO_SERVER: Final = "--server means nothing with --at: a recording answers; leave one out"


def add(command: argparse.ArgumentParser) -> None:
    """Describe the flags of a command that can ask it, beside those of a running controller."""
    snapshot_flags.add_at(command)
    journal_flags.add_journal(command)


def is_asked(arguments: argparse.Namespace) -> bool:
    """Say whether an earlier moment is asked about; raises ConfigError for flags that need it."""
    if arguments.at is not None:
        if arguments.server != controller_client.DEFAULT_SERVER:
            raise ConfigError(_NO_SERVER)
        return True
    names = ("recording", "journal", "cluster", "kubeconfig", "context")
    if given := [name for name in names if getattr(arguments, name, None) is not None]:
        raise ConfigError(f"--{given[0]} needs --at TIME; without it a running controller is asked")
    return False


def is_asked_alone(arguments: argparse.Namespace) -> bool:
    """Say the same of a command that has flags of a snapshot, too: --policy asks a new controller.

    Raises ConfigError for flags that mean nothing with --at.
    """
    if arguments.at is None:
        return False
    if arguments.server != controller_client.DEFAULT_SERVER:
        raise ConfigError(_NO_SERVER)
    return arguments.policy is None


def ask(
    arguments: argparse.Namespace, page: str, query: Mapping[str, str]
) -> tuple[Any, datetime, str]:
    """Return the answer of a page, such as `why`, its moment, and a line that names both.

    Raises ConfigError, and NotRecorded.
    """
    import anyio
    import msgspec

    from reactive_desched.controller.description import ControllerDescription
    from reactive_desched.controller.pending import PendingQuery
    from reactive_desched.plan.recorded_moment import (
        find_recording,
        journal_beside,
        read_moment,
    )
    from reactive_desched.plugins.registry import plugin_registry
    from reactive_desched.primitives.timestamps import parse_flag_moment
    from reactive_desched.replay.replaying import controller_at
    from reactive_desched.why.page import explain

    where = snapshot_flags.recording_of(arguments)
    assert where is not None, "a moment is asked about"
    at = parse_flag_moment("--at", arguments.at, datetime.now(UTC))
    moment = read_moment(find_recording(Path(where)), at.timestamp())
    journal = Path(arguments.journal) if arguments.journal else journal_beside(moment.path)
    try:
        run = controller_at(moment, journal, plugin_registry())
    except OSError as error:
        raise ConfigError(f"{journal} cannot be read: {error.strerror}") from error
    controller, clock = run.controller, run.clock
    description = ControllerDescription(controller, clock.monotonic, clock.wall)

    async def read() -> Any:  # the answer of any page
        if page == "status":
            from reactive_desched.app.recorded_status import recorded_status

            return await recorded_status(run)
        if page == "pending":
            return await description.pending(PendingQuery.parse(query))
        return await explain(controller, description, query)

    answer = msgspec.to_builtins(anyio.run(read))
    return answer, datetime.fromtimestamp(moment.at_s, UTC), moment.heading
