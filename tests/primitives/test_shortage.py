"""A process that lacks memory or open files takes nothing for missing, damaged or wrong."""

import errno
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from reactive_desched.cli import main
from reactive_desched.journal.cluster import ClusterIdentity, kept_cluster, mark_cluster
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.paths import known_journals, os_error_hint
from reactive_desched.journal.upkeep import limits
from reactive_desched.kube.auth.exec_plugin import ExecPlugin
from reactive_desched.kube.auth.kubeconfig_shape import read_kubeconfig
from reactive_desched.kube.auth.user_credentials import FileCredentials
from reactive_desched.plan.recorded_moment import journal_beside
from reactive_desched.policy.source_files import read_source
from reactive_desched.policy.yaml.diagnostics import DiagnosticList
from reactive_desched.policy.yaml.text import YamlText
from reactive_desched.primitives.client_tls import client_tls_context, load_client_certificate
from reactive_desched.primitives.cron import parse_time_zone
from reactive_desched.primitives.shortage import lacking, shortage_remedy
from reactive_desched.recording.items import Item
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.segments import recording_paths

CONTEXT = client_tls_context()


@contextmanager
def no_open_files() -> Iterator[None]:
    """Let this process open no further file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def hidden_behind(text: str) -> Iterator[None]:
    """Raise a ValueError with this text, and nothing of what was raised before."""
    try:
        yield
    except (OSError, MemoryError, ValueError):
        raise ValueError(text) from None


def made(path: Path, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a user's folder of state, which has the journal of a cluster with a recording."""
    made(tmp_path / "config")
    made(tmp_path / "policy.yaml")
    folder = tmp_path / "reactive-desched/journal"
    made(folder / "journal-00000000000000000001.jsonl", "")
    made(folder / "recording/0.rdrec")
    mark_cluster(folder, ClusterIdentity("prod", "uid"))
    Cursors(folder).save("kafka", 7, "")
    limits.write(folder, limits.RetentionLimits(1, 1.0, 1, compress=True))
    return tmp_path


def journal(state: Path) -> Path:
    return state / "reactive-desched/journal"


def items(state: Path) -> list[Item]:
    paths = [journal(state) / "recording/0.rdrec"]
    return list(read_items(paths, lambda damage: pytest.fail(str(damage))))


READERS: dict[str, Callable[[Path], object]] = {
    "which cluster a journal is of": lambda state: kept_cluster(journal(state)),
    "a sink's position": lambda state: Cursors(journal(state)).read("kafka"),
    "the positions of all sinks": lambda state: Cursors(journal(state)).all(),
    "the limits of retention": lambda state: limits.read(journal(state)),
    "the journals of a user": lambda state: known_journals({"XDG_STATE_HOME": str(state)}),
    "the journal beside a recording": lambda state: journal_beside(journal(state) / "recording"),
    "the segments of a recording": lambda state: recording_paths(journal(state) / "recording"),
    "the items of a recording": items,
    "a time zone": lambda _: parse_time_zone("Pacific/Chatham"),
    "a policy": lambda state: read_source(state / "policy.yaml", DiagnosticList()),
    "a kubeconfig": lambda state: read_kubeconfig(str(state / "config")),
    "the authorities of the system": lambda _: client_tls_context(),
    "a client certificate": lambda _: load_client_certificate(CONTEXT, b"", b""),
}


@pytest.mark.parametrize("what", READERS)
def test_what_cannot_be_opened_is_not_taken_for_missing_damaged_or_wrong(
    what: str, state: Path
) -> None:
    with no_open_files(), pytest.raises(OSError, match="open files") as raised:
        READERS[what](state)
    assert lacking(raised.value) == "open files"


def test_a_token_that_cannot_be_read_for_that_gives_way_to_no_stale_one(state: Path) -> None:
    source = FileCredentials({"token": "stale"}, str(made(state / "token", "fresh")))

    async def refused() -> bool:
        with no_open_files(), pytest.raises(OSError, match="open files"):
            await source.load(0.0, is_rejected=False)
        return (await source.load(0.0, is_rejected=False)).authorization == "Bearer fresh"

    assert anyio.run(refused)


def test_a_plugin_that_cannot_be_started_for_that_is_not_to_be_installed() -> None:
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/true"}

    async def start() -> None:
        with no_open_files():
            await ExecPlugin(spec, {}).run()

    with pytest.raises(OSError, match="open files") as raised:
        anyio.run(start)
    assert lacking(raised.value) == "open files"


def test_text_for_which_memory_lacks_is_not_said_to_be_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def parse(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("yaml.parse", parse)
    with pytest.raises(MemoryError):
        list(YamlText("a: b", "policy.yaml").events())


def test_a_command_says_what_the_process_lacks_and_finds_no_fault_with_its_input(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["policy", "check", str(state / "policy.yaml")]
    assert main(command) == 2
    capsys.readouterr()
    with no_open_files():
        assert main(command) == 1
    said = capsys.readouterr().err
    assert "policy.yaml" in said
    assert said.count("\n") == 1
    assert shortage_remedy(OSError(errno.EMFILE, "")) in said


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (OSError(errno.ENOMEM, "x"), "memory"),
        (OSError(errno.ENFILE, "x"), "open files"),
        (MemoryError(), "memory"),
        (FileNotFoundError(errno.ENOENT, "x"), ""),
        (ValueError("x"), ""),
    ],
)
def test_an_error_that_was_raised_from_a_shortage_shows_it(error: Exception, what: str) -> None:
    with pytest.raises(ValueError, match="wrong") as raised, hidden_behind("wrong"):
        raise error
    assert lacking(raised.value) == what


def test_a_journal_that_lacks_open_files_needs_no_other_folder() -> None:
    assert "ulimit -n" in os_error_hint(OSError(errno.EMFILE, "x"), "name another folder")
