"""Two runs of the tests on one machine, each with a folder of its own, share no port."""

import subprocess
import sys
from pathlib import Path

from tests.support.ports import free_ports

TAKES = "from tests.support.ports import free_ports; print(*free_ports(50))"


def taken_by_another_run(folder: Path) -> list[int]:
    folder.mkdir()
    found = subprocess.run(
        [sys.executable, "-c", TAKES],
        cwd=Path(__file__).parents[1],
        env={"TMPDIR": str(folder)},
        capture_output=True,
        check=True,
        text=True,
    )
    return [int(port) for port in found.stdout.split()]


def test_runs_with_folders_of_their_own_get_different_ports(tmp_path: Path) -> None:
    ports = [
        *taken_by_another_run(tmp_path / "a"),
        *taken_by_another_run(tmp_path / "b"),
        *free_ports(50),
    ]
    assert len(set(ports)) == len(ports)
