"""The Dockerfile's instructions, carried out in order in a folder that stands for the image.

There is no container engine in it: `FROM` is the Python that runs the tests, and absolute paths
lie in the folder.
"""

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
"""


class Image:
    """Carries instructions out; stages share the folder, as each copies to where it copies from."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.arguments: dict[str, str] = {}
        self.entry_point: list[str] = []
        self.user = ""
        shims = root / "base"
        for folder in (shims, root / "tmp", root / "bin"):
            folder.mkdir(parents=True)
        (shims / "python").symlink_to(getattr(sys, "_base_executable", sys.executable))
        self.environment = {"PATH": f"{shims}:/usr/bin:/bin", "HOME": str(root / "tmp")}

    def build(self, dockerfile: Path) -> None:
        """Carry out every instruction."""
        for word, written in instructions(dockerfile):
            rest = re.sub(r"\$\{(\w+)\}", lambda name: self.arguments[name[1]], written)
            match word:
                case "ARG" if "=" in rest:
                    name, _, self.arguments[name] = rest.partition("=")
                case "ENV":
                    for pair in shlex.split(self._here(rest)):
                        name, _, value = pair.partition("=")
                        value = value.replace("$PATH", self.environment["PATH"])
                        self.environment[name] = value
                case "RUN":
                    self.run("sh", "-ec", self._here(rest))
                case "COPY" if not rest.startswith("--from=build "):
                    *sources, target = rest.split()
                    for source in sources:
                        self._copy(REPOSITORY / source, Path(self._here(target)), target)
                case "USER":
                    self.user = rest
                case "ENTRYPOINT":
                    self.entry_point = json.loads(rest)

    def run(self, *command: str) -> str:
        """Run a command as the image would; return what it prints."""
        ran = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def _here(self, text: str) -> str:
        return re.sub(r"(?<![\w!/.])/(?=(opt|tmp|bin)/)", f"{self.root}/", text)

    def _copy(self, source: Path, target: Path, written: str) -> None:
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
        else:
            target = target / source.name if written.endswith("/") else target
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def instructions(dockerfile: Path) -> Iterator[tuple[str, str]]:
    """Yield each instruction's name and the rest of it."""
    lines = dockerfile.read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    for line in text.replace("\\\n", "").splitlines():
        if line:
            word, _, rest = line.partition(" ")
            yield word, rest.strip()


OF_AN_EXTRA = [
    "reactive_desched.sinks.otlp.grpc_call grpclib",
    *(
        f"reactive_desched.sinks.otlp.{name} opentelemetry"
        for name in ("lines", "messages", "points", "spans")
    ),
]
"""The modules that the image cannot import, and what they need."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = Image(tmp_path_factory.mktemp("image"))
    made.build(REPOSITORY / "Dockerfile")
    return made


def test_the_entry_point_finds_its_plugins(image: Image, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")

    assert image.run(*image.entry_point, "version").startswith("reactive-desched ")
    said = image.run(*image.entry_point, "policy", "check", str(policy))
    assert "1 file: 0 errors, 0 warnings" in said


@pytest.mark.parametrize("name", ["reactive-desched", "descheduler"])
def test_both_names_of_the_command_start_it(image: Image, name: str) -> None:
    assert image.run(str(image.root / "bin" / name), "version").startswith("reactive-desched ")


def test_what_is_served_and_asked_needs_nothing_but_the_image(image: Image) -> None:
    """Every module imports, but those of an extra, and the files beside modules are there."""
    assert "usage:" in image.run(*image.entry_point, "run", "--help")
    image.run(*image.entry_point, "demo", "--help")
    code = (
        "import importlib, pkgutil, reactive_desched as package\n"
        "for each in pkgutil.walk_packages(package.__path__, 'reactive_desched.'):\n"
        "    if not each.name.endswith('__main__') and '.testing' not in each.name:\n"
        "        try:\n"
        "            importlib.import_module(each.name)\n"
        "        except ModuleNotFoundError as error:\n"
        "            print(each.name, error.name)\n"
    )
    assert image.run("python", "-c", code).splitlines() == OF_AN_EXTRA
    beside = {
        path.relative_to(REPOSITORY)
        for path in (REPOSITORY / "reactive_desched").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    (installed,) = (image.root / "opt").glob("**/site-packages/reactive_desched")
    missing = {path for path in beside if not (installed.parent / path).is_file()}
    assert {path.parts[1] for path in missing} == {"demo", "sim"}
    assert not {path.name for path in installed.iterdir()} & {"demo", "sim"}


def test_another_user_than_root_runs_it_and_can_read_all_of_it(image: Image) -> None:
    user, _, group = image.user.partition(":")
    assert min(int(user), int(group)) > 0
    closed = [
        path
        for path in (image.root / "opt").rglob("*")
        if not path.is_symlink()
        and not path.stat().st_mode & (stat.S_IXOTH if path.is_dir() else stat.S_IROTH)
    ]
    assert closed == []
    assert os.access(image.root / "bin" / "descheduler", os.X_OK)


def test_no_installer_is_left_in_it(image: Image) -> None:
    assert [path.name for path in (image.root / "opt/reactive-desched/bin").glob("pip*")] == []
