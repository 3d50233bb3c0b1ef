"""The flags that say which cluster to look at, for every command that takes a snapshot of one."""

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from reactive_desched.cli import controller_client, flag_values
from reactive_desched.errors import ConfigError

if TYPE_CHECKING:
    from reactive_desched.plan.inputs import PlanOptions
    from reactive_desched.plan.mode import RunBounds

_MAX_EVICTIONS = 100_000


def add(command: argparse.ArgumentParser) -> None:
    """Describe them to a command's parser."""
    command.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        action="append",
        default=[],
        help="what kubectl get -o json (or yaml, slower) wrote: a file, a folder of such files, or"
        " - for standard input; may be repeated",
    )
    command.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="without -f, the kubeconfig of the cluster;"
        " default: $KUBECONFIG, ~/.kube/config, or the pod's own account",
    )
    command.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")


def add_at(command: argparse.ArgumentParser) -> None:
    """Describe the flags by which a command looks at an earlier moment."""
    command.add_argument(
        "--at",
        metavar="TIME",
        help=f"as of this moment of a recording: {flag_values.TIME_HELP}",
    )
    command.add_argument(
        "--recording",
        metavar="PATH",
        help="with --at: a recording's folder, an exported file, or the folder of a journal"
        " (default: that of --journal, or of the kubeconfig's cluster)",
    )


def _add_server(command: argparse.ArgumentParser) -> None:
    """Describe the flags by which a running controller looks at an earlier moment."""
    command.add_argument(
        "--server",
        metavar="URL",
        help="with --at: a running controller, on this machine or through kubectl port-forward,"
        " which reads its own recording",
    )
    controller_client.add_trust(command)


def recording_of(arguments: argparse.Namespace) -> str | None:
    """Return where the recording of --at is; None without that flag. Raises ConfigError."""
    if arguments.at is None:
        if arguments.recording is not None:
            raise ConfigError("--recording needs --at TIME: the moment to look at")
        return None
    if arguments.recording is not None:
        return str(arguments.recording)
    from reactive_desched.cli.journal_flags import journal_directory
    from reactive_desched.primitives.timestamps import parse_flag_moment

    parse_flag_moment("--at", arguments.at, datetime.now(UTC))  # before a cluster is asked for
    return str(journal_directory(arguments))


def add_preview(command: argparse.ArgumentParser) -> None:
    """Describe whose decisions to preview, and in which form to write them."""
    command.add_argument(
        "--as",
        dest="mode",
        choices=["run", "once", "upstream"],
        help="whose decisions: run, the controller (the default); once, `run --once`; upstream, a"
        " dry run of the SIG descheduler (the default with --passes)",
    )
    command.add_argument(
        "--now", metavar="TIME", help="judge as of this RFC 3339 time (default: the present)"
    )
    add_at(command)
    _add_server(command)
    command.add_argument(
        "--passes",
        metavar="N",
        type=flag_values.parse_passes,
        help="with --as upstream: sweep the same objects N times and report the last sweep",
    )
    ahead = command.add_argument_group("how far to look ahead, with --as run")
    ahead.add_argument(
        "--horizon",
        metavar="DURATION",
        type=flag_values.parse_positive_duration,
        help="show the evictions of this time (default 1h)",
    )
    ahead.add_argument(
        "--max-evictions",
        metavar="N",
        type=_count,
        help="end after so many evictions (default 1000)",
    )
    ahead.add_argument(
        "--ready-after",
        metavar="DURATION",
        type=_duration,
        help="take each replacement to be Ready so long after it is bound to a node (default 10s)",
    )
    ahead.add_argument(
        "--journal",
        metavar="DIR",
        help="count the earlier evictions that this journal records (default: none)",
    )
    command.add_argument(
        "-o", "--output", choices=["table", "wide", "json", "yaml"], default="table"
    )


def _count(text: str) -> int:
    return flag_values.parse_whole_number(text, 1, _MAX_EVICTIONS)


def _duration(text: str) -> float:
    return 0.0 if text in ("0", "0s") else flag_values.parse_positive_duration(text)


def options_of(arguments: argparse.Namespace, **more: Any) -> "PlanOptions":  # its other fields
    """Return what these flags and those of a policy say, with more of the options' fields."""
    from reactive_desched.plan.inputs import PlanOptions

    if arguments.policy is None and arguments.at is None:
        raise ConfigError("--policy FILE is missing; with --at TIME the recorded one counts")
    return PlanOptions(
        policy=arguments.policy,
        settings=arguments.settings,
        lenient=arguments.lenient_policy,
        files=tuple(arguments.filename),
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        now=arguments.now,
        at=arguments.at,
        recording=None if _is_of_server(arguments) else recording_of(arguments),
        journal=arguments.journal,
        **more,
    )


_OF_OTHERS: Final = {
    "policy": "--policy",
    "settings": "--settings",
    "lenient_policy": "--lenient-policy",
    "filename": "-f",
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "now": "--now",
    "recording": "--recording",
    "journal": "--journal",
}
"""The flags that say where else a preview's policy and cluster are."""


def _is_of_server(arguments: argparse.Namespace) -> bool:
    """Say whether a running controller is asked; raises ConfigError for flags that contradict."""
    if getattr(arguments, "server", None) is None:
        return False
    if arguments.at is None:
        raise ConfigError("--server needs --at TIME: the moment that the controller looks at")
    if given := [flag for name, flag in _OF_OTHERS.items() if getattr(arguments, name, None)]:
        raise ConfigError(
            f"{given[0]} means nothing with --server: the controller reads its own recording, with"
            " the policy of that moment; leave one of them out"
        )
    return True


def preview_options_of(
    arguments: argparse.Namespace,
    **more: Any,  # its other fields
) -> "PlanOptions":
    """Return the same for a command that previews decisions; raises ConfigError."""
    from reactive_desched.plan.mode import PlanMode

    mode = _mode_of(arguments)
    return options_of(
        arguments,
        mode=PlanMode(mode),
        bounds=_bounds_of(arguments, mode),
        passes=arguments.passes or 1,
        profile=arguments.profile,
        output=arguments.output,
        **more,
    )


def _mode_of(arguments: argparse.Namespace) -> str:
    """Return whose decisions to preview: passes are something that only upstream has."""
    if arguments.passes is None:
        return str(arguments.mode or "run")
    if arguments.mode not in (None, "upstream"):
        raise ConfigError(
            f"--passes: --as {arguments.mode} looks once; take it away, or write --as upstream"
        )
    return "upstream"


def _bounds_of(arguments: argparse.Namespace, mode: str) -> "RunBounds":
    """Return how far to look ahead; raises ConfigError where a sweep is to be shown."""
    from reactive_desched.plan.mode import RunBounds

    given = {
        "horizon_s": arguments.horizon,
        "max_evictions": arguments.max_evictions,
        "ready_after_s": arguments.ready_after,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if (given or arguments.journal) and mode != "run":
        flags = "--horizon, --max-evictions, --ready-after and --journal"
        raise ConfigError(f"{flags} are for --as run, and not for {mode}")
    return RunBounds(**given)
