"""What these tests share: a build of the working tree, and its installation as a user has it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = (ROOT / os.environ.get("RELEASE_TOOLS", ".venv/release") / "bin").absolute()
UV = Path(sys.executable).parent / "uv"
OURS = ("PYTHON", "VIRTUAL_ENV", "PYTEST", "SOURCE_DATE_EPOCH")


def ran(*words: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command as in a shell where no environment of Python is active; return its output."""
    kept = {name: os.environ[name] for name in os.environ if not name.startswith(OURS)}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def hatchling(source: Path, out: Path, **environment: str) -> None:
    """Build a folder as `make dist` does, without what else that makes."""
    code = "from pathlib import Path; from tools.release import build; import sys;"
    code += "build(*map(Path, sys.argv[1:]))"
    ran(TOOLS / "python", "-c", code, source, out, cwd=ROOT, **environment)


def source_files() -> Sequence[Path]:
    """Return the files of the working tree that git tracks, or would if they were added."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).exists()]


def copy_sources(to: Path) -> Path:
    """Copy the working tree's files to a folder that is no git checkout."""
    for file in source_files():
        (to / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, to / file)
    return to


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels and the source distribution of the working tree."""
    folder = tmp_path_factory.mktemp("release")
    hatchling(copy_sources(folder / "sources"), folder / "dist")
    return folder / "dist"


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    """The controller's wheel."""
    (path,) = dist.glob("reactive_desched-*.whl")
    return path


@pytest.fixture(scope="session")
def sim_wheel(dist: Path) -> Path:
    """The simulator's wheel."""
    (path,) = dist.glob("reactive_desched_sim-*.whl")
    return path


@pytest.fixture(scope="session")
def sdist(dist: Path) -> Path:
    (path,) = dist.glob("*.tar.gz")
    return path
