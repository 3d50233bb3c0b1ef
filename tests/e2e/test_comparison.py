"""The measurements of docs/explain/comparison.md, as a reader repeats them, on a small cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]


def test_the_comparison_measures_rest_and_reactions(tmp_path: Path) -> None:
    size = ("--nodes", "14", "--pods", "80", "--settle", "1", "--rest", "2", "--gap", "0")
    done = subprocess.run(
        (sys.executable, "-m", "tools.compare", "reactive-desched", *size, "--taints", "1"),
        cwd=ROOT,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    rest = figures["at rest, an hour"]

    assert figures["first look"]["requests"]["watch"] >= 10
    assert "list" not in rest["requests"]
    assert "evict" not in rest["requests"]
    assert {"nodes", "pods"} <= set(rest["watched"])
    assert rest["rss_mb"] > 10
    assert len(figures["taint to eviction request, s"]) == 1
