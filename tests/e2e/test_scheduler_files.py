"""The real kube-scheduler refuses the files that we refuse, and takes those that we take."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.control_plane import RealTools
from tests.support.scheduler_files import REFUSED, TAKEN, Written

pytestmark = pytest.mark.real

NOBODY = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "none", "context": {"cluster": "none"}}],
    "current-context": "none",
}
"""A server that is not asked: the scheduler reads its file first."""


def refusal(tools: RealTools, folder: Path, configuration: Written) -> str:
    """Return why the kube-scheduler does not write down the configuration that it has read."""
    kubeconfig, file, written = (folder / name for name in ("kubeconfig", "file", "written"))
    kubeconfig.write_text(json.dumps(NOBODY))
    connection = {**configuration.get("clientConnection", {}), "kubeconfig": str(kubeconfig)}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(json.dumps({**head, **configuration, "clientConnection": connection}))
    scheduler = tools.paths["kube-scheduler"]
    flags = ("--config", str(file), "--secure-port", "0", "--write-config-to", str(written))
    done = subprocess.run(
        (scheduler, *flags), capture_output=True, text=True, timeout=60, check=False
    )
    return "" if written.exists() else done.stderr


@pytest.mark.parametrize(("profiles", "more", "path"), REFUSED)
def test_a_file_that_we_refuse_is_refused(
    real_tools: RealTools,
    tmp_path: Path,
    profiles: list[Written],
    more: Written,
    path: tuple[str | int, ...],
) -> None:
    assert "command failed" in refusal(real_tools, tmp_path, {"profiles": profiles, **more}), path


@pytest.mark.parametrize("more", TAKEN)
def test_a_file_that_we_take_is_taken(real_tools: RealTools, tmp_path: Path, more: Written) -> None:
    assert refusal(real_tools, tmp_path, more) == ""
