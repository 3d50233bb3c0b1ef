"""Which cluster a journal is of, and where the journals of several clusters lie."""

from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError, JournalError
from reactive_desched.journal.cluster import (
    MARK,
    ClusterIdentity,
    check_cluster,
    kept_cluster,
    mark_cluster,
)
from reactive_desched.journal.paths import default_journal_directory, journal_directory_of
from tests.support.golden import Golden

PROD = ClusterIdentity("prod", "uid-1", is_named=True)
OTHER = ClusterIdentity("uid-2", "uid-2", seen_as="context kind, https://10.0.0.1")
UNREADABLE = ClusterIdentity("kubernetes")


def begin(directory: Path, cluster: ClusterIdentity | None = None) -> Path:
    """Begin a journal with a segment, without a mark where no cluster is named."""
    directory.mkdir(parents=True)
    (directory / "journal-00000000000000000001.jsonl").touch()
    if cluster is not None:
        mark_cluster(directory, cluster)
    return directory


def test_a_mark_says_which_cluster_it_was(tmp_path: Path) -> None:
    mark_cluster(tmp_path, PROD)

    assert kept_cluster(tmp_path) == PROD
    assert check_cluster(tmp_path, PROD) == ""


def test_the_journal_of_another_cluster_is_refused_with_both_named(tmp_path: Path) -> None:
    mark_cluster(tmp_path, PROD)

    with pytest.raises(JournalError) as refused:
        check_cluster(tmp_path, OTHER)

    for part in (
        str(tmp_path),
        "another cluster, prod (uid uid-1)",
        "this one is uid-2 (context kind",
        "--journal",
    ):
        assert part in str(refused.value)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(None, PROD, id="no mark: an earlier version's"),
        pytest.param(PROD, UNREADABLE, id="the uid may not be read now"),
        pytest.param(UNREADABLE, PROD, id="the uid could not be read before"),
        pytest.param(ClusterIdentity("uid-1", "uid-1"), PROD, id="a name was given since"),
    ],
)
def test_what_may_be_the_same_cluster_continues(
    tmp_path: Path, before: ClusterIdentity | None, now: ClusterIdentity
) -> None:
    if before is not None:
        mark_cluster(tmp_path, before)

    assert check_cluster(tmp_path, now) == ""


def test_a_cluster_built_anew_under_the_same_name_continues_and_says_so(tmp_path: Path) -> None:
    mark_cluster(tmp_path, PROD)

    said = check_cluster(tmp_path, ClusterIdentity("prod", "uid-9", is_named=True))

    assert "uid-1" in said
    assert "uid-9" in said


def test_a_uid_that_was_read_is_not_forgotten(tmp_path: Path) -> None:
    mark_cluster(tmp_path, PROD)
    mark_cluster(tmp_path, UNREADABLE)

    assert kept_cluster(tmp_path) == PROD


def test_a_damaged_mark_is_none(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text("{")

    assert check_cluster(tmp_path, OTHER) == ""


def test_each_cluster_of_a_user_has_a_default_folder_of_its_own(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}

    folders = [journal_directory_of(environ, each) for each in (PROD, OTHER)]

    assert folders == [
        tmp_path / "reactive-desched/clusters/uid-1/journal",
        tmp_path / "reactive-desched/clusters/uid-2/journal",
    ]


def test_a_service_has_one_folder_whatever_the_cluster(tmp_path: Path) -> None:
    environ = {"STATE_DIRECTORY": str(tmp_path), "XDG_STATE_HOME": "/elsewhere"}

    assert journal_directory_of(environ, PROD) == tmp_path / "journal"


@pytest.mark.parametrize("uid", ["", "../../etc", "a/b", ".hidden"])
def test_what_cannot_name_a_folder_names_none(tmp_path: Path, uid: str) -> None:
    found = journal_directory_of({"XDG_STATE_HOME": str(tmp_path)}, ClusterIdentity("prod", uid))

    assert found == tmp_path / "reactive-desched/journal"


def test_the_folder_of_an_earlier_version_is_used_on_by_one_cluster(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    earlier = begin(tmp_path / "reactive-desched/journal")
    assert journal_directory_of(environ, PROD) == earlier

    mark_cluster(earlier, PROD)

    assert journal_directory_of(environ, PROD) == earlier
    assert journal_directory_of(environ, OTHER) != earlier


def test_a_reader_finds_the_only_journal(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    assert default_journal_directory(environ) == tmp_path / "reactive-desched/journal"

    only = begin(journal_directory_of(environ, PROD), PROD)

    assert default_journal_directory(environ) == only


def test_of_several_journals_a_reader_has_to_name_one(tmp_path: Path, golden: Golden) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    folders = [begin(journal_directory_of(environ, each), each) for each in (PROD, OTHER)]

    with pytest.raises(ConfigError) as asked:
        default_journal_directory(environ)

    assert str(asked.value) == golden(folders=folders[0], folders2=folders[1])
