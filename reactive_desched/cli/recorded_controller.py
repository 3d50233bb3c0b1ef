"""Asks a controller as it was at an earlier moment, which is run up to then over a recording."""

import argparse
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reactive_desched.cli import controller_client, journal_flags, snapshot_flags
from reactive_desched.cli.commands import print_warning
from reactive_desched.errors import ConfigError, ControllerUnavailable
from reactive_desched.text.times import format_second

if TYPE_CHECKING:
    from reactive_desched.plan.command import Build
    from reactive_desched.plan.inputs import PlanOptions

T = TypeVar("T")

PAST_TIMEOUT_S: Final = 120.0
"""So long a running controller may take to answer about an earlier moment."""

_OF_RECORDINGS: Final = ("recording", "journal", "cluster")
_OF_CLUSTERS: Final = ("kubeconfig", "context")
"""The flags that say of which cluster the controller, or its recording, is."""


def add(command: argparse.ArgumentParser) -> None:
    """Describe the flags of a command that can ask it, beside those of a running controller."""
    snapshot_flags.add_at(command)
    journal_flags.add_journal(command)


def is_asked(arguments: argparse.Namespace) -> bool:
    """Say whether an earlier moment is asked about; raises ConfigError for flags that need it."""
    if arguments.at is not None:
        return True
    if given := _given(arguments, _OF_RECORDINGS):
        raise ConfigError(f"--{given[0]} needs --at TIME; without it a running controller is asked")
    check_cluster_flags(arguments)
    return False


def check_cluster_flags(arguments: argparse.Namespace) -> None:
    """Raise ConfigError where a controller is named, and a cluster whose controller is meant."""
    if arguments.server is not None and (given := _given(arguments, _OF_CLUSTERS)):
        raise ConfigError(
            f"--{given[0]} means nothing with --server: it says whose controller is asked; leave "
            "one of them out"
        )


def _given(arguments: argparse.Namespace, among: Iterable[str]) -> list[str]:
    """Return which of these flags were given."""
    return [name for name in among if getattr(arguments, name, None) is not None]


def ask(
    arguments: argparse.Namespace, page: str, query: Mapping[str, str]
) -> tuple[Any, datetime, str]:
    """Return the answer of a page, such as `why`, its moment, and a line that names both.

    With --server a running controller reads its own recording. Raises ConfigError, NotRecorded,
    and ControllerUnavailable.
    """
    if arguments.server is None:
        return _read(arguments, page, query)
    if given := _given(arguments, (*_OF_RECORDINGS, *_OF_CLUSTERS)):
        raise ConfigError(
            f"--{given[0]} means nothing with --server: the controller reads its own recording;"
            " leave one of them out"
        )
    client = controller_client.client_of(arguments)._replace(timeout_s=PAST_TIMEOUT_S)
    answer = client.ask(page, {**query, "at": arguments.at})
    at = datetime.fromisoformat(answer.value["time"])
    heading = f"as of {format_second(at.timestamp())}: {answer.heading(client.server)}"
    return answer.value, at, heading


def build_of(arguments: argparse.Namespace, page: str, kind: type) -> "Build | None":
    """Return what has a running controller make a report of this kind; None makes it here."""
    if arguments.server is None:
        return None
    return lambda options, _: _ask_preview(arguments, page, options, kind)


def _ask_preview(
    arguments: argparse.Namespace, page: str, options: "PlanOptions", kind: type[T]
) -> T:
    """Return the report that a running controller makes of a moment; raises as `ask`."""
    import msgspec

    from reactive_desched.plan.inputs import PREVIEW, PreviewFlags

    client = controller_client.client_of(arguments)._replace(timeout_s=PAST_TIMEOUT_S)
    flags = msgspec.json.encode(PreviewFlags.of(options)).decode()
    answer = client.ask(page, {"at": arguments.at, PREVIEW: flags})
    try:
        return msgspec.convert(answer.value, kind)
    except msgspec.ValidationError as error:
        raise ControllerUnavailable(
            f"{client.server} answers as another version does, which cannot be read: {error}"
        ) from error


def _read(
    arguments: argparse.Namespace, page: str, query: Mapping[str, str]
) -> tuple[Any, datetime, str]:
    """Answer from a recording that is here."""
    import msgspec

    from reactive_desched.app.past_answers import past_answer
    from reactive_desched.plan.recorded_moment import find_recording
    from reactive_desched.primitives.collector import collector_off
    from reactive_desched.primitives.timestamps import parse_flag_moment

    where = snapshot_flags.recording_of(arguments)
    assert where is not None, "a moment is asked about"
    at = parse_flag_moment("--at", arguments.at, datetime.now(UTC))
    journal = Path(arguments.journal) if arguments.journal else None
    with collector_off():
        found = past_answer(find_recording(Path(where)), at.timestamp(), journal, page, query)
    if found.note:
        print_warning(found.note)
    answer = msgspec.to_builtins(found.answer)
    return answer, datetime.fromtimestamp(found.moment.at_s, UTC), found.moment.heading
