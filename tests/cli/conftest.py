"""What commands work on: a journal of several files, and programs that run beside the test."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from reactive_desched import cli
from reactive_desched.app import run as app_run
from reactive_desched.app import run_once
from reactive_desched.app.options import Options
from reactive_desched.cli import controller_client, main
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import parse_summary
from tests.safety.story import play_story
from tests.support.journals import some_events, write_journal

NO_SERVER = "http://127.0.0.1:1"

Run = Callable[..., tuple[int, str, str]]
"""Runs a command by its words; returns its exit status, and what it wrote."""


@pytest.fixture(autouse=True, scope="session")
def parsers_kept() -> Iterator[None]:
    """Describe the flags of each command once: that took a third of the time of all these tests."""
    described = cache(cli.parser)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "parser", lambda argv=(): described(tuple(argv[:1])))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_controller_of_the_developer() -> Iterator[None]:
    """Let commands without a server find none: the developer's own may run at the default one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(controller_client, "DEFAULT_SERVER", NO_SERVER)
        yield


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a journal with a recording: a controller wrote both in a short story."""
    folder = tmp_path_factory.mktemp("journal")
    steps = ("taint_some", "wait", "cordon")
    play_story(Random(4), folder, steps=6, records=True, actions=steps)
    return folder


@pytest.fixture
def journal(story: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(story, tmp_path / "journal"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a way to run a command."""

    def run(*words: str) -> tuple[int, str, str]:
        status = main(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def records(folder: Path) -> list[JournalRecord]:
    """A journal of several files, all but the last compressed."""
    return write_journal(folder, some_events(120), per_segment=50, compress=True)


@pytest.fixture
def lines(records: list[JournalRecord]) -> list[bytes]:
    """The lines of that journal."""
    return [record.raw for record in records]


@pytest.fixture
def lines_about(lines: list[bytes]) -> Callable[..., list[bytes]]:
    """Return a way to choose of these lines those whose type begins with one of the words."""

    def choose(*words: str) -> list[bytes]:
        found = ((line, parse_summary(line)) for line in lines)
        return [line for line, seen in found if seen is not None and seen.kind.startswith(words)]

    return choose


@pytest.fixture
def shown(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., list[bytes]]:
    """Return a way to run `events tail -o json` that returns the lines it wrote."""

    def run(*flags: str) -> list[bytes]:
        assert main(["events", "tail", "-o", "json", *flags]) == 0
        return capfdbinary.readouterr().out.splitlines()

    return run


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return a way to run `events tail` as a process of its own."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*flags: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "reactive_desched", "events", "tail", *flags]
        one = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        running.append(one)
        return one

    yield start
    for one in running:
        one.kill()
        one.communicate()


@pytest.fixture
def next_lines() -> Callable[[subprocess.Popen[bytes], int], list[bytes]]:
    """Return a way to read the next so many lines that such a process writes; it blocks."""

    def read(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
        assert process.stdout is not None
        return [line.rstrip(b"\n") for line in islice(process.stdout, count)]

    return read


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where anything is kept unless something else is said."""
    for name in ("STATE_DIRECTORY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def ran(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, Options]]:
    """Return a way to call the program that tells what would have run, `app` or `once`, and how."""

    def call(*words: str) -> tuple[str, Options]:
        found: list[tuple[str, Options]] = []

        def note(which: str, options: Options) -> int:
            found.append((which, options))
            return 0

        monkeypatch.setattr(app_run, "run", partial(note, "app"))
        monkeypatch.setattr(run_once, "run", partial(note, "once"))
        assert main(words) == 0
        [one] = found
        return one

    return call


@pytest.fixture
def asked(ran: Callable[..., tuple[str, Options]]) -> Callable[..., Options]:
    """Return a way to call the program that tells what it was asked to do."""
    return lambda *words: ran(*words)[1]
