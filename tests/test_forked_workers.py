"""`pytest --forks N` reports what pytest reports, also of a process that ends amid its tests."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGIN = ("-p", "tests.support.forked_workers", "-p", "no:cacheprovider")
TESTS = """\
import os, pytest

@pytest.fixture
def refused():
    raise ValueError("no")

@pytest.fixture
def ends_badly():
    yield
    raise ValueError("at the end")

@pytest.mark.parametrize("number", range(3))
def test_passes(number): pass
def test_fails(): print("said"); assert 1 == 2
def test_is_skipped(): pytest.skip("not here")
def test_is_not_begun(refused): pass
def test_ends_badly(ends_badly): pass
def test_of_a_process_that_ends(): os._exit(3)
def test_after_that_one(): pass
"""
WAITS = """\
import os, pathlib, time, pytest

@pytest.fixture(scope="session")
def file():
    path = pathlib.Path({folder!r}, str(os.getpid()))
    path.touch()
    yield
    path.unlink()

@pytest.mark.parametrize("number", range(4))
def test_waits(file, number): time.sleep(600)
"""


def run(folder: Path, tests: str, *options: str) -> "subprocess.Popen[str]":
    (folder / "test_one.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *PLUGIN, "-rA", "-q", *options, str(folder)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "400"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_each_test_is_run_and_reported_once_also_after_a_process_has_ended(tmp_path: Path) -> None:
    with run(tmp_path, TESTS, "--forks", "2") as process:
        said, _ = process.communicate(timeout=120)

    lines = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED \[1\]) \S+py:+(.*)$", said, re.MULTILINE)
    assert sorted(lines) == [
        ("ERROR", "test_ends_badly - ValueError: at the end"),
        ("ERROR", "test_is_not_begun - ValueError: no"),
        ("FAILED", "test_fails - assert 1 == 2"),
        ("FAILED", "test_of_a_process_that_ends - its process ended: exit status 3"),
        ("PASSED", "test_after_that_one"),
        ("PASSED", "test_ends_badly"),
        *(("PASSED", f"test_passes[{number}]") for number in range(3)),
        ("SKIPPED [1]", "15: not here"),
    ], said
    assert "Captured stdout call" in said
    assert process.returncode == 1


def test_what_was_begun_is_ended_in_each_process_when_the_run_is_interrupted(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "begun"
    folder.mkdir()
    with run(tmp_path, WAITS.format(folder=str(folder)), "--forks", "2") as process:
        give_up = time.monotonic() + 120
        while not (begun := [*folder.iterdir()]) and time.monotonic() < give_up:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)

    assert begun, said
    assert [*folder.iterdir()] == [], said
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    for path in begun:
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)
