"""The commands read the journal of the kubeconfig's cluster, as it says which it is."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reactive_desched.cli import main
from reactive_desched.journal.cluster import ClusterIdentity, mark_cluster, recorded_title
from reactive_desched.journal.paths import journal_directory_of
from reactive_desched.sim.server import kubeconfig
from tests.support.golden import Golden
from tests.support.http_server import answer_request, serving
from tests.support.journals import some_events, write_journal


@contextmanager
def api_server(uid: str, status: int = 200) -> Iterator[str]:
    """An API server that shows its namespaces; yields its address."""

    namespaces = {"items": [{"metadata": {"name": "kube-system", "uid": uid}}]}
    body = json.dumps(namespaces).encode()
    with serving(lambda request: answer_request(request, status, body)) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A home of its own, without a kubeconfig."""
    values = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    for name in ("STATE_DIRECTORY", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return values


def journal_of(environ: dict[str, str], uid: str, seen_as: str) -> Path:
    cluster = ClusterIdentity(uid, uid, seen_as=seen_as)
    folder = journal_directory_of(environ, cluster)
    write_journal(folder, some_events(3))
    mark_cluster(folder, cluster)
    return folder


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    def use_kubeconfig(url: str, context: str) -> None:
        path = tmp_path / "kubeconfig"
        path.write_text(kubeconfig(url, context))
        monkeypatch.setenv("KUBECONFIG", str(path))

    return use_kubeconfig


COMMANDS = (
    ["audit", "status"],
    ["audit", "query"],
    ["audit", "export"],
    ["audit", "report"],
    ["audit", "tail"],
    ["events", "tail"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_reads_the_journal_of_the_cluster_that_answers(
    command: list[str],
    environ: dict[str, str],
    use: Callable[[str, str], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    journal_of(environ, "1111-aaaa", "context kind, http://127.0.0.1:1")
    journal_of(environ, "2222-bbbb", "context kind, http://127.0.0.1:2")
    with api_server("2222-bbbb") as url:
        use(url, "kind")
        assert main(command) == 0

    found = capfd.readouterr()
    assert main([*command, "--cluster", "2222"]) == 0
    named = capfd.readouterr()
    assert named.out.splitlines()[-1] == found.out.splitlines()[-1]
    assert found.err == named.err == "cluster kind (uid 2222-bbbb, http://127.0.0.1:2)\n"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_where_there_is_one_cluster_nothing_is_said_of_it(
    command: list[str],
    environ: dict[str, str],
    use: Callable[[str, str], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    journal_of(environ, "2222-bbbb", "context kind, http://127.0.0.1:2")
    with api_server("2222-bbbb") as url:
        use(url, "kind")
        assert main(command) == 0
    assert capfd.readouterr().err == ""


def test_the_flags_of_the_kubeconfig_choose_as_those_of_run(
    environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal_of(environ, "1111-aaaa", "context a, http://127.0.0.1:1")
    folder = journal_of(environ, "2222-bbbb", "context b, http://127.0.0.1:2")
    path = tmp_path / "other"
    with api_server("2222-bbbb") as url:
        path.write_text(kubeconfig(url, "b"))
        assert main(["audit", "status", "--kubeconfig", str(path), "--context", "b"]) == 0

    assert capsys.readouterr().out.startswith(f"{folder}\n")


@pytest.mark.parametrize("status", [403, 503])
def test_a_cluster_that_does_not_show_its_uid_is_known_by_its_address(
    environ: dict[str, str],
    use: Callable[[str, str], None],
    capsys: pytest.CaptureFixture[str],
    status: int,
) -> None:
    journal_of(environ, "1111-aaaa", "context kind, http://127.0.0.1:1")
    with api_server("", status) as url:
        folder = journal_of(environ, "2222-bbbb", f"context kind, {url}")
        use(url, "kind")
        assert main(["audit", "status"]) == 0

    assert capsys.readouterr().out.startswith(f"{folder}\n")


def test_a_server_that_never_answers_is_not_waited_for(
    environ: dict[str, str],
    use: Callable[[str, str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reactive_desched.cli.kubeconfig_cluster.ASK_S", 0.1)
    journal_of(environ, "1111-aaaa", "context kind, http://127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        folder = journal_of(environ, "2222-bbbb", f"context kind, {url}")
        use(url, "kind")
        assert main(["audit", "status"]) == 0

    assert capsys.readouterr().out.startswith(f"{folder}\n")


def test_the_only_journal_of_another_cluster_is_named_on_stderr(
    environ: dict[str, str],
    use: Callable[[str, str], None],
    capsys: pytest.CaptureFixture[str],
    golden: Golden,
) -> None:
    journal_of(environ, "1111-aaaa", "context kind, http://127.0.0.1:1")
    with api_server("2222-bbbb") as url:
        use(url, "prod")
        assert main(["audit", "query"]) == 0

    assert golden(url=url) in capsys.readouterr().err


def test_without_a_choice_the_journals_are_listed(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    journal_of(environ, "1111-aaaa", "context a, http://127.0.0.1:1")
    journal_of(environ, "2222-bbbb", "context b, http://127.0.0.1:2")

    assert main(["audit", "query"]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert "  --cluster a  # " in said.err
    assert "  --cluster b  # " in said.err


def test_a_context_that_is_not_there_is_no_reason_to_take_another(
    environ: dict[str, str], use: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    journal_of(environ, "1111-aaaa", "context a, http://127.0.0.1:1")
    use("http://127.0.0.1:1", "a")

    assert main(["audit", "query", "--context", "typo"]) == 2

    assert "no context 'typo'" in capsys.readouterr().err


def test_the_cluster_of_records_that_have_its_uid_alone_is_named_by_the_journals_mark(
    environ: dict[str, str],
) -> None:
    folder = journal_of(environ, "1111-aaaa", "context kind, http://127.0.0.1:1")
    assert recorded_title(folder, "1111-aaaa", "1111-aaaa") == "kind"
    assert recorded_title(folder, "1111-aaaa", "1111-aaaa", "renamed") == "renamed"
    assert recorded_title(folder, "prod", "1111-aaaa") == "prod"
    assert recorded_title(folder, "2222", "2222") == "2222"
    assert recorded_title(folder, "", "") == ""
