"""Chooses the journal that a command reads: that of the kubeconfig's cluster, or of a named one."""

import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.journal.paths import KnownJournal
from reactive_desched.primitives.hints import quote

MIN_UID_CHARS: Final = 4
"""The beginning of a uid must have so many characters to name a cluster."""

_UID_CHARS: Final = 8


class KubeconfigCluster(Struct, frozen=True, kw_only=True):
    """The cluster that the kubeconfig names; `uid` is empty where it did not say which it is.

    `fault` says why the kubeconfig names none.
    """

    context: str = ""
    server: str = ""
    uid: str = ""
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.context} ({self.server})"


class ChosenJournal(NamedTuple):
    """A journal, and what to say where it may not be of the kubeconfig's cluster."""

    journal: KnownJournal
    notice: str = ""


def journal_of_named(journals: Sequence[KnownJournal], name: str) -> KnownJournal:
    """Return the journal of the cluster with this name or start of a uid; raises ConfigError."""
    found = [each for each in journals if name in _names(each)]
    if not found and len(name) >= MIN_UID_CHARS:
        found = [each for each in journals if each.cluster.uid.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        head = f"--cluster {quote(name)} fits the journals of {len(found)} clusters"
        raise ConfigError(_listed(head, found, journals))
    raise ConfigError(_listed(f"there is no journal of a cluster {quote(name)}", journals))


def journal_of_kubeconfig(
    journals: Sequence[KnownJournal], read_cluster: Callable[[], KubeconfigCluster | None]
) -> ChosenJournal | None:
    """Return the journal of the kubeconfig's cluster, or the only one there is.

    `read_cluster` returns None where there is no kubeconfig. A cluster that does not answer is
    taken for the one that was last reached at its address. None where there is no journal. Raises
    ConfigError, which lists the journals, where it is not clear which is meant.
    """
    if not journals:
        return None
    current = read_cluster()
    if current is None:
        if len(journals) == 1:
            return ChosenJournal(journals[0])
        raise ConfigError(_listed("there is no kubeconfig to go by", journals))
    found = _journals_of(journals, current)
    if found:
        which = f"{current} does not answer; this is the cluster that was last reached there: "
        is_certain = current.uid or len(found) == 1
        return ChosenJournal(found[0], "" if is_certain else f"{which}{found[0].cluster}")
    if len(journals) > 1:
        raise ConfigError(_listed(_why_none(current), journals))
    shown = str(journals[0].cluster) or f"a cluster that {journals[0].directory} does not name"
    return ChosenJournal(journals[0], f"{_why_none(current)}; this is that of {shown}")


def _journals_of(
    journals: Sequence[KnownJournal], current: KubeconfigCluster
) -> Sequence[KnownJournal]:
    """Return those that fit best, the one written last first."""
    if current.uid and (same := [each for each in journals if each.cluster.uid == current.uid]):
        return same
    at_server = [
        each
        for each in journals
        if current.server
        and each.cluster.server == current.server
        and not (current.uid and each.cluster.uid)  # else it was another cluster then
    ]
    return [each for each in at_server if each.cluster.context == current.context] or at_server


def _why_none(current: KubeconfigCluster) -> str:
    if current.fault:
        return f"the kubeconfig names no cluster: {current.fault}"
    answers = "" if current.uid else ", which does not answer"
    return f"there is no journal of the kubeconfig's cluster, {current}{answers}"


def _names(journal: KnownJournal) -> set[str]:
    cluster = journal.cluster
    return {each for each in (cluster.title, cluster.name, cluster.context) if each}


def _listed(
    head: str, listed: Sequence[KnownJournal], among: Sequence[KnownJournal] | None = None
) -> str:
    """Return the head, and the flag that names each of these journals."""
    if not listed:
        return f"{head}; there is none of any cluster yet: name a folder with --journal DIR"
    flags = [_flag(each, among or listed) for each in listed]
    width = max(map(len, flags))
    lines = [
        f"  {flag:<{width}}  # {str(each.cluster) or each.directory}, written {_day(each)}"
        for flag, each in zip(flags, listed, strict=True)
    ]
    return "\n".join((f"{head}: add one of these", *lines))


def _day(journal: KnownJournal) -> str:
    return f"{datetime.fromtimestamp(journal.written_at, UTC):%Y-%m-%d %H:%M} UTC"


def _flag(journal: KnownJournal, among: Sequence[KnownJournal]) -> str:
    """Return the shortest flag that names this journal alone: by its name, uid or folder."""
    title, uid = journal.cluster.title, journal.cluster.uid
    if title and sum(title in _names(each) for each in among) == 1:
        return f"--cluster {shlex.quote(title)}"
    others = [each.cluster.uid for each in among if each is not journal]
    for length in range(_UID_CHARS, len(uid) + 1):
        if not any(other.startswith(uid[:length]) for other in others):
            return f"--cluster {shlex.quote(uid[:length])}"
    return f"--journal {shlex.quote(str(journal.directory))}"
