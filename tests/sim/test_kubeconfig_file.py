"""The kubeconfig of a simulated cluster: one that is in use, or a person's, is never replaced."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.sim.kubeconfig_file import KubeconfigFile
from reactive_desched.sim.server import kubeconfig


def test_a_running_clusters_kubeconfig_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "sim.kubeconfig"
    with closing(KubeconfigFile(path)) as first:
        first.write("http://127.0.0.1:1001")

        with pytest.raises(
            ConfigError, match=r"at http://127\.0\.0\.1:1001 that still runs.*--write"
        ):
            KubeconfigFile(path)

        assert path.read_text() == kubeconfig("http://127.0.0.1:1001")


def test_two_clusters_that_begin_at_once_do_not_both_get_the_file(tmp_path: Path) -> None:
    path = tmp_path / "sim.kubeconfig"
    with closing(KubeconfigFile(path)) as first, closing(KubeconfigFile(path)) as second:
        first.write("http://127.0.0.1:1001")

        with pytest.raises(ConfigError, match="still runs"):
            second.write("http://127.0.0.1:1002")

    assert path.read_text() == kubeconfig("http://127.0.0.1:1001")
    assert list(tmp_path.iterdir()) == [path]


def test_a_kubeconfig_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "sim.kubeconfig"
    for url in ("http://127.0.0.1:1001", "http://127.0.0.1:1002"):
        with closing(KubeconfigFile(path)) as file:
            file.write(url)

    assert path.read_text() == kubeconfig("http://127.0.0.1:1002")


@pytest.mark.parametrize(
    "text", ["apiVersion: v1\nkind: Config\n", kubeconfig("https://prod") + "# mine\n"]
)
def test_a_file_that_a_person_wrote_is_not_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(ConfigError, match=f"{path} exists.*--write-kubeconfig"):
        KubeconfigFile(path)

    assert path.read_text() == text


def test_an_empty_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.touch()

    with closing(KubeconfigFile(path)) as file:
        file.write("http://127.0.0.1:1001")

    assert "1001" in path.read_text()


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write the kubeconfig to"):
        KubeconfigFile(tmp_path)


@pytest.mark.parametrize(
    ("file", "name"),
    [("sim.kubeconfig", "sim"), ("large.kubeconfig", "large"), ("a b.yaml", "a-b"), ("..", "sim")],
)
def test_the_cluster_is_called_after_the_file(tmp_path: Path, file: str, name: str) -> None:
    """So that two can be merged, and the answers about them tell them apart."""
    assert KubeconfigFile(tmp_path / "x" / file).name == name


def test_a_file_system_without_hard_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with closing(KubeconfigFile(tmp_path / "k")) as file:
        file.write("http://127.0.0.1:1001")

    assert (tmp_path / "k").exists()
