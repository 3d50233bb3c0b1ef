"""The wheel in an environment of its own, outside the repository, with the locked requirements."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from reactive_desched._version import __version__
from tests.release.conftest import ROOT, ran
from tests.support.golden import Golden

pytestmark = pytest.mark.timeout(600)  # pip fills the environment within a test's time

PAGE = re.compile(r"The live page is at http://127\.0\.0\.1:(\d+);")


@pytest.fixture(scope="module")
def without_simulator(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a bare environment, filled as a user does: with pip, by hashes."""
    folder = tmp_path_factory.mktemp("bare")
    base = getattr(sys, "_base_executable", sys.executable)
    ran(base, "-m", "venv", folder / "venv", cwd=folder)
    pip = (folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "--no-compile")
    ran(*pip, "--require-hashes", "-r", ROOT / "requirements/run.txt", cwd=folder)
    ran(*pip, "--no-index", wheel, cwd=folder)  # fails if a requirement is not locked
    return folder / "venv/bin"


@pytest.fixture(scope="module")
def refusals(without_simulator: Path) -> dict[str, tuple[int, str]]:
    """What `sim` and `demo` do before the simulator is installed."""
    done = {
        name: subprocess.run(
            [without_simulator / "reactive-desched", name],
            cwd=without_simulator,
            capture_output=True,
            text=True,
            check=False,
        )
        for name in ("demo", "sim")
    }
    return {name: (each.returncode, each.stderr) for name, each in done.items()}


@pytest.fixture(scope="module")
def bin_(without_simulator: Path, refusals: object, dist: Path) -> Path:
    """The programs after the simulator was installed as their refusal says."""
    python = without_simulator / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--no-compile", "--no-index")
    wanted = f"reactive-desched[sim]=={__version__}"
    ran(*pip, "--find-links", dist, wanted, cwd=without_simulator)
    return without_simulator


@pytest.mark.parametrize("command", ["demo", "sim"])
def test_without_the_simulator_its_commands_say_how_to_get_it(
    command: str, refusals: dict[str, tuple[int, str]], golden: Golden
) -> None:
    assert refusals[command] == (1, golden(version=__version__) + "\n")


@pytest.mark.parametrize("program", ["reactive-desched", "kubectl-desched"])
def test_both_names_say_the_version(program: str, bin_: Path, tmp_path: Path) -> None:
    assert ran(bin_ / program, "--version", cwd=tmp_path) == f"reactive-desched {__version__}\n"


def test_it_runs_from_the_environment_and_not_from_the_repository(
    bin_: Path, tmp_path: Path
) -> None:
    code = "import reactive_desched; print(reactive_desched.__file__)"

    assert ran(bin_ / "python", "-c", code, cwd=tmp_path).startswith(f"{bin_.parent}/lib/")


def test_it_plays_the_demo(bin_: Path, tmp_path: Path) -> None:
    ran(bin_ / "reactive-desched", "demo", "--keep", tmp_path / "journal", cwd=tmp_path)

    report = ran(
        bin_ / "reactive-desched", "audit", "report", "--journal", "journal", "-o", "html",
        cwd=tmp_path,
    )  # fmt: skip
    assert "<style>" in report


def test_it_has_every_plugin_the_schemas_and_the_rules(bin_: Path, tmp_path: Path) -> None:
    program = bin_ / "reactive-desched"
    ran(program, "init", "--aim", "spread", "--out", "policy.yaml", cwd=tmp_path)
    checked = ran(program, "policy", "check", "policy.yaml", "-o", "sarif", cwd=tmp_path)
    schema = json.loads(ran(program, "policy", "schema", "any", cwd=tmp_path))

    assert json.loads(checked)["runs"][0]["tool"]["driver"]["version"] == __version__
    assert schema["$id"] == "urn:reactive-desched:schemas:any"
    assert "LowNodeUtilization" in ran(program, "policy", "explain", cwd=tmp_path)


@contextmanager
def served(program: Path, folder: Path) -> Iterator[HTTPConnection]:
    """Run the demo with its live page; yield a connection to it, and end it."""
    words = [str(program), "demo", "--serve", "--listen", "127.0.0.1:0"]
    unbuffered = {"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=folder, env=unbuffered, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            (port,) = next(m.groups() for m in map(PAGE.search, process.stdout) if m)
            with closing(HTTPConnection("127.0.0.1", int(port), timeout=60)) as connection:
                yield connection
        finally:
            process.terminate()


def test_it_serves_the_live_page_and_the_schemas_of_events(bin_: Path, tmp_path: Path) -> None:
    with served(bin_ / "reactive-desched", tmp_path) as connection:
        for path, type_ in (
            ("/", "text/html"),
            ("/ui/app.js", "text/javascript"),
            ("/schemas/event.v1.json", "application/schema+json"),
        ):
            connection.request("GET", path, headers={"Accept": "text/html"})
            answer = connection.getresponse()
            body = answer.read()
            assert (path, answer.status) == (path, 200)
            assert (answer.getheader("Content-Type") or "").startswith(type_), path
            assert body
