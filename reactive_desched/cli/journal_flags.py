"""The flags that say which journal a command reads, and how it is found without them."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reactive_desched.cli.commands import print_warning
from reactive_desched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reactive_desched.journal.choice import KubeconfigCluster
    from reactive_desched.journal.paths import KnownJournal
    from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions


def add_journal(
    command: argparse.ArgumentParser, where: "argparse._MutuallyExclusiveGroup | None" = None
) -> None:
    """Describe where the journal is; `where` has further places, of which one may be named."""
    (where or command).add_argument(
        "--journal",
        metavar="DIR",
        help="the journal's folder (default: where `run` keeps that of the kubeconfig's cluster)",
    )
    command.add_argument(
        "--cluster",
        metavar="NAME",
        help="read the journal of this cluster: its name, its context in the kubeconfig, or the"
        " beginning of the uid of its namespace kube-system",
    )
    command.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="names the cluster; default: $KUBECONFIG or ~/.kube/config",
    )
    command.add_argument("--context", metavar="NAME", help="context of the kubeconfig")


def journal_directory(arguments: argparse.Namespace) -> Path:
    """Return the journal's folder; say on stderr whose it is where there are those of several.

    A journal that may be another cluster's is named with a warning. Raises ConfigError, which lists
    the journals, where it is not clear which is meant.
    """
    chosen = _choose(arguments)
    if chosen.notice:
        print_warning(chosen.notice)
    elif chosen.whose:
        sys.stderr.write(f"{chosen.whose}\n")
    return chosen.directory


def certain_journal_directory(arguments: argparse.Namespace) -> Path:
    """Return the journal's folder; raises ConfigError where it may be another cluster's."""
    chosen = _choose(arguments)
    if chosen.notice:
        raise ConfigError(f"{chosen.notice}; name the one that is meant with --cluster NAME")
    return chosen.directory


class _Chosen(NamedTuple):
    """A journal's folder, what to say where it may be another cluster's, and else whose it is.

    `whose` is empty where there is but one cluster.
    """

    directory: Path
    notice: str = ""
    whose: str = ""


def _choose(arguments: argparse.Namespace) -> _Chosen:
    cluster = getattr(arguments, "cluster", None)  # not every command has that flag
    if arguments.journal:
        if cluster:
            raise ConfigError("--journal and --cluster each name a journal: leave one of them out")
        return _Chosen(Path(arguments.journal))
    from reactive_desched.journal import choice, paths
    from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions

    journals = paths.known_journals(os.environ)
    if cluster:
        named = choice.journal_of_named(journals, cluster)
        return _Chosen(named.directory, whose=_whose(named, journals))
    options = KubeConfigOptions(arguments.kubeconfig, arguments.context)
    is_service = bool(os.environ.get("STATE_DIRECTORY"))  # one controller has it for itself
    chosen = choice.journal_of_kubeconfig(
        journals, lambda: None if is_service else _read_cluster(options)
    )
    if chosen is None:
        return _Chosen(paths.shared_journal_directory(os.environ))
    journal = chosen.journal
    return _Chosen(journal.directory, chosen.notice, _whose(journal, journals))


def _whose(journal: "KnownJournal", journals: "Sequence[KnownJournal]") -> str:
    return f"cluster {journal.cluster}" if len(journals) > 1 else ""


def _read_cluster(options: "KubeConfigOptions") -> "KubeconfigCluster | None":
    """Return the cluster of the kubeconfig; None without one, and in a pod.

    Raises ConfigError for a kubeconfig or context that a flag names and that cannot be used.
    """
    from msgspec.structs import replace

    from reactive_desched.cli.kubeconfig_cluster import CurrentCluster

    named = CurrentCluster(options)
    if named.place is None or named.place.fault:
        return named.place
    return replace(named.place, uid=named.uid)
