"""Which cluster a journal is of, and where the journals of several clusters lie."""

import os
from pathlib import Path

import pytest

from reactive_desched.errors import JournalError
from reactive_desched.journal.cluster import (
    MARK,
    ClusterIdentity,
    check_cluster,
    kept_cluster,
    mark_cluster,
)
from reactive_desched.journal.paths import journal_directory_of, known_journals

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
        "this one is kind (uid uid-2",
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


def test_the_journals_of_all_clusters_are_found_the_one_written_last_first(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    assert known_journals(environ) == ()

    for number, each in enumerate((PROD, OTHER)):
        folder = begin(journal_directory_of(environ, each), each)
        os.utime(folder / "journal-00000000000000000001.jsonl", (number, number))

    assert [each.cluster for each in known_journals(environ)] == [OTHER, PROD]


def test_a_service_has_one_journal_whatever_lies_beside_it(tmp_path: Path) -> None:
    own = begin(tmp_path / "journal", PROD)
    begin(tmp_path / "clusters/uid-2/journal", OTHER)

    found = known_journals({"STATE_DIRECTORY": str(tmp_path)})

    assert [each.directory for each in found] == [own]


@pytest.mark.parametrize(
    ("cluster", "title", "text"),
    [
        (PROD, "prod", "prod (uid uid-1)"),
        (OTHER, "kind", "kind (uid uid-2, https://10.0.0.1)"),
        (ClusterIdentity("u", "u", seen_as="https://10.0.0.1"), "u", "u (https://10.0.0.1)"),
        (UNREADABLE, "kubernetes", "kubernetes"),
    ],
)
def test_a_cluster_is_called_by_its_name_else_by_its_context(
    cluster: ClusterIdentity, title: str, text: str
) -> None:
    assert (cluster.title, str(cluster)) == (title, text)
