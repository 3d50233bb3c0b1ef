"""The example of a plugin is a package of its own; installed, a policy can name it."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.golden import Golden

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "plugin"
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: own
  pluginConfig:
  - name: RemovePodsFromRetiringNodes
    args: {label: LABEL}
  plugins: {deschedule: {enabled: [RemovePodsFromRetiringNodes]}}
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Put the module and its metadata into a folder, as an installer does."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / f"retiring_nodes-{project['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    for group, entries in project["entry-points"].items():
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    shutil.copy(EXAMPLE / "retiring_nodes.py", tmp_path)
    return tmp_path


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )


def check(installed: Path, label: str) -> subprocess.CompletedProcess[str]:
    (installed / "policy.yaml").write_text(POLICY.replace("LABEL", label))
    return run(installed, "reactive_desched", "policy", "check", str(installed / "policy.yaml"))


def test_a_policy_can_name_the_plugin_once_it_is_installed(installed: Path) -> None:
    done = check(installed, "example.org/old")

    assert (done.returncode, done.stderr) == (0, "")


def test_its_arguments_are_checked_as_ours_are(installed: Path) -> None:
    done = check(installed, '""')

    assert done.returncode == 2
    assert "profiles[0].pluginConfig[0].args.label: must not be empty" in done.stdout


def test_a_broken_plugin_is_named_with_its_package_and_a_remedy(
    installed: Path, golden: Golden
) -> None:
    (installed / "retiring_nodes.py").write_text("import no_such_library\n")

    done = check(installed, "a")

    assert done.returncode == 2
    assert "of retiring-nodes 0.1.0 cannot be loaded: ModuleNotFoundError" in done.stderr
    assert golden() in done.stderr


def test_without_the_package_the_name_is_unknown(tmp_path: Path) -> None:
    done = check(tmp_path, "a")

    assert done.returncode == 2
    assert 'there is no plugin "RemovePodsFromRetiringNodes"' in done.stdout


def test_the_example_has_a_test_that_passes(installed: Path) -> None:
    shutil.copy(EXAMPLE / "test_retiring_nodes.py", installed)

    done = run(installed, "pytest", "-q", "-p", "no:cacheprovider", str(installed))

    assert done.returncode == 0, done.stdout
