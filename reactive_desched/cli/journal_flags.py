"""The flags that say which journal a command reads, and how it is found without them."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.cli.commands import print_warning
from reactive_desched.errors import ConfigError

if TYPE_CHECKING:
    from reactive_desched.journal.choice import KubeconfigCluster
    from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions

ASK_S: Final = 3.0
"""So long the API server may take to say which cluster it is, a credential plugin included."""


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
        "--kubeconfig", metavar="FILE", help="default: $KUBECONFIG or ~/.kube/config"
    )
    command.add_argument("--context", metavar="NAME", help="context of the kubeconfig")


def journal_directory(arguments: argparse.Namespace) -> Path:
    """Return the journal's folder; say on stderr where it may be another cluster's.

    Raises ConfigError, which lists the journals, where it is not clear which is meant.
    """
    directory, notice = _choose(arguments)
    if notice:
        print_warning(notice)
    return directory


def certain_journal_directory(arguments: argparse.Namespace) -> Path:
    """Return the journal's folder; raises ConfigError where it may be another cluster's."""
    directory, notice = _choose(arguments)
    if notice:
        raise ConfigError(f"{notice}; name the one that is meant with --cluster NAME")
    return directory


def _choose(arguments: argparse.Namespace) -> tuple[Path, str]:
    """Return the journal's folder, and what to say where it may be another cluster's."""
    cluster = getattr(arguments, "cluster", None)  # not every command has that flag
    if arguments.journal:
        if cluster:
            raise ConfigError("--journal and --cluster each name a journal: leave one of them out")
        return Path(arguments.journal), ""
    from reactive_desched.journal import choice, paths
    from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions

    journals = paths.known_journals(os.environ)
    if cluster:
        return choice.journal_of_named(journals, cluster).directory, ""
    options = KubeConfigOptions(arguments.kubeconfig, arguments.context)
    is_service = bool(os.environ.get("STATE_DIRECTORY"))  # one controller has it for itself
    chosen = choice.journal_of_kubeconfig(
        journals, lambda: None if is_service else _read_cluster(options)
    )
    if chosen is None:
        return paths.shared_journal_directory(os.environ), ""
    return chosen.journal.directory, chosen.notice


def _read_cluster(options: "KubeConfigOptions") -> "KubeconfigCluster | None":
    """Return the cluster of the kubeconfig; None without one, and in a pod.

    Raises ConfigError for a kubeconfig or context that a flag names and that cannot be used.
    """
    from reactive_desched.journal.choice import KubeconfigCluster
    from reactive_desched.kube.auth.kubeconfig import InCluster, locate_config
    from reactive_desched.kube.auth.kubeconfig_merge import choose_context

    is_named = bool(options.kubeconfig or options.context)
    try:
        source = locate_config(options, os.environ)
    except ConfigError:
        if is_named:
            raise
        return None
    if isinstance(source, InCluster):
        return None
    try:
        context = choose_context(source)
    except ConfigError as error:
        if is_named:
            raise
        return KubeconfigCluster(fault=str(error))
    uid = _ask_uid(options)
    return KubeconfigCluster(context=context.name, server=context.server, uid=uid)


def _ask_uid(options: "KubeConfigOptions") -> str:
    """Return the uid of the namespace kube-system; empty where the API server does not say."""
    import anyio

    from reactive_desched.app.cluster import identify_cluster
    from reactive_desched.errors import ClusterError
    from reactive_desched.kube.client.session import open_session

    async def ask() -> str:
        with anyio.move_on_after(ASK_S):
            async with open_session(options) as session:
                return (await identify_cluster(session, "")).uid
        return ""

    uid = ""
    try:
        uid = anyio.run(ask)
    except* (ClusterError, ConfigError):
        pass  # it does not answer, or not this account
    return uid
