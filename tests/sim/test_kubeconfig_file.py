"""The kubeconfig of a simulated cluster: one that is in use, or a person's, is never replaced."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.kubeconfig import KubeconfigFiles
from reactive_desched.kube.auth.kubeconfig_merge import choose_context
from reactive_desched.sim.kubeconfig_file import KubeconfigFile
from reactive_desched.sim.server import kubeconfig


def test_a_running_clusters_kubeconfig_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "lab.kubeconfig"
    with closing(KubeconfigFile(path)) as first:
        first.write("http://127.0.0.1:1001")

        with pytest.raises(
            ConfigError, match=r"at http://127\.0\.0\.1:1001 that still runs.*--write"
        ):
            KubeconfigFile(path)

        assert path.read_text() == kubeconfig("http://127.0.0.1:1001", "lab")


def test_two_clusters_that_begin_at_once_do_not_both_get_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lab.kubeconfig"
    with closing(KubeconfigFile(path)) as first, closing(KubeconfigFile(path)) as second:
        first.write("http://127.0.0.1:1001")

        with pytest.raises(ConfigError, match="still runs"):
            second.write("http://127.0.0.1:1002")

    assert path.read_text() == kubeconfig("http://127.0.0.1:1001", "lab")
    assert list(tmp_path.iterdir()) == [path]


def test_a_kubeconfig_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "lab.kubeconfig"
    for url in ("http://127.0.0.1:1001", "http://127.0.0.1:1002"):
        with closing(KubeconfigFile(path)) as file:
            file.write(url)

    assert path.read_text() == kubeconfig("http://127.0.0.1:1002", "lab")


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
    [
        ("large.kubeconfig", "large"),
        ("a b.yaml", "a-b"),
        ("sim.kubeconfig", "sim-x"),
        ("..", "sim-x"),
    ],
)
def test_the_cluster_is_called_after_the_file(tmp_path: Path, file: str, name: str) -> None:
    """So that two can be merged, and the answers about them tell them apart."""
    assert KubeconfigFile(tmp_path / "x" / file).name == name


@pytest.mark.parametrize(
    ("folder", "name"), [("my lab", "sim-my-lab"), ("...", "sim"), ("sim", "sim-sim")]
)
def test_without_a_name_of_its_own_the_cluster_is_called_after_the_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str
) -> None:
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    assert KubeconfigFile(Path("sim.kubeconfig")).name == name


def test_the_default_files_of_two_folders_can_be_merged(tmp_path: Path) -> None:
    servers = {}
    for number, folder in enumerate(("a", "b"), 1):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "sim.kubeconfig"
        with closing(KubeconfigFile(path)) as file:
            file.write(f"http://127.0.0.1:100{number}")
        servers[f"sim-{folder}"] = (path, f"http://127.0.0.1:100{number}")
    paths = tuple(str(path) for path, _ in servers.values())
    for name, (_, server) in servers.items():
        context = choose_context(KubeconfigFiles(paths, name))
        assert (context.name, context.cluster["server"]) == (name, server)


def test_a_file_system_without_hard_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with closing(KubeconfigFile(tmp_path / "k")) as file:
        file.write("http://127.0.0.1:1001")

    assert (tmp_path / "k").exists()
