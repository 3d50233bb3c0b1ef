"""Which journal a command reads where there are those of several clusters."""

from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.journal.choice import (
    KubeconfigCluster,
    journal_of_kubeconfig,
    journal_of_named,
)
from reactive_desched.journal.cluster import UNKNOWN_CLUSTER, ClusterIdentity
from reactive_desched.journal.paths import KnownJournal
from tests.support.golden import Golden


def journal(name: str, cluster: ClusterIdentity, written_at: float = 0.0) -> KnownJournal:
    return KnownJournal(Path("/state") / name, cluster, written_at)


def seen(uid: str, context: str, port: int) -> ClusterIdentity:
    return ClusterIdentity(uid, uid, seen_as=f"context {context}, http://127.0.0.1:{port}")


PROD = journal("prod", ClusterIdentity("prod", "1111-aaaa", is_named=True), 60.0)
FIRST = journal("first", seen("2222-aaaa", "sim", 1001))
SECOND = journal("second", seen("2222-bbbb", "sim", 1002))
OLD = journal("old", UNKNOWN_CLUSTER)


def at(port: int, context: str = "sim", uid: str = "") -> KubeconfigCluster:
    return KubeconfigCluster(context=context, server=f"http://127.0.0.1:{port}", uid=uid)


def chosen(journals: list[KnownJournal], current: KubeconfigCluster | None) -> tuple[str, str]:
    found = journal_of_kubeconfig(journals, lambda: current)
    assert found is not None
    return found.journal.directory.name, found.notice


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        pytest.param(at(9, uid="2222-bbbb"), "second", id="it says which it is"),
        pytest.param(at(1001), "first", id="it does not answer: the address is remembered"),
        pytest.param(at(1001, "renamed"), "first", id="the context was renamed since"),
    ],
)
def test_the_journal_is_that_of_the_kubeconfigs_cluster(
    current: KubeconfigCluster, expected: str
) -> None:
    assert chosen([PROD, FIRST, SECOND], current) == (expected, "")


def test_of_clusters_that_were_at_one_address_the_last_counts_and_is_named(golden: Golden) -> None:
    again = journal("again", seen("3333", "sim", 1001), 100.0)

    name, notice = chosen([again, FIRST], at(1001))

    assert name == "again"
    assert notice == golden()


def test_a_cluster_made_anew_at_an_address_does_not_get_the_journal_of_the_one_before() -> None:
    with pytest.raises(ConfigError):
        chosen([FIRST, SECOND], at(1001, uid="4444"))


def test_a_journal_whose_cluster_did_not_show_its_uid_is_found_by_the_address() -> None:
    hidden = journal("hidden", ClusterIdentity("kubernetes", seen_as="context sim, http://h:1"))
    current = KubeconfigCluster(context="sim", server="http://h:1", uid="5555")

    assert chosen([hidden, SECOND], current) == ("hidden", "")


@pytest.mark.parametrize(
    ("current", "only"),
    [
        pytest.param(at(7, uid="9999"), FIRST, id="it is another cluster"),
        pytest.param(at(7), FIRST, id="it does not answer"),
        pytest.param(KubeconfigCluster(fault="no current-context"), FIRST, id="it names none"),
        pytest.param(at(7, uid="9999"), OLD, id="an earlier version's journal"),
    ],
)
def test_the_only_journal_is_shown_with_the_cluster_that_it_is_of(
    current: KubeconfigCluster, only: KnownJournal, golden: Golden
) -> None:
    assert chosen([only], current) == (only.directory.name, golden())


def test_without_a_kubeconfig_the_only_journal_is_shown() -> None:
    assert chosen([FIRST], None) == ("first", "")


@pytest.mark.parametrize(
    "current",
    [
        pytest.param(None, id="there is no kubeconfig"),
        pytest.param(at(7, uid="9999"), id="it has no journal"),
        pytest.param(at(7), id="it does not answer"),
    ],
)
def test_where_it_is_not_clear_the_journals_are_listed_with_the_flag_of_each(
    current: KubeconfigCluster | None, golden: Golden
) -> None:
    with pytest.raises(ConfigError) as asked:
        journal_of_kubeconfig([PROD, FIRST, SECOND, OLD], lambda: current)

    assert str(asked.value) == golden()


def test_the_cluster_is_not_asked_where_there_is_no_journal() -> None:
    def ask() -> KubeconfigCluster:
        raise AssertionError("it is asked")

    assert journal_of_kubeconfig([], ask) is None


@pytest.mark.parametrize(
    ("name", "expected"), [("prod", PROD), ("1111", PROD), ("2222-b", SECOND), ("2222-aaaa", FIRST)]
)
def test_a_cluster_is_named_by_its_name_or_the_beginning_of_its_uid(
    name: str, expected: KnownJournal
) -> None:
    assert journal_of_named([PROD, FIRST, SECOND, OLD], name) is expected


@pytest.mark.parametrize("name", ["sim", "2222", "222", "staging"])
def test_a_name_that_fits_several_or_none_is_refused_with_those_there_are(
    name: str, golden: Golden
) -> None:
    with pytest.raises(ConfigError) as refused:
        journal_of_named([PROD, FIRST, SECOND], name)

    assert str(refused.value) == golden()


def test_without_any_journal_a_name_is_refused(golden: Golden) -> None:
    with pytest.raises(ConfigError) as refused:
        journal_of_named([], "prod")

    assert str(refused.value) == golden()
