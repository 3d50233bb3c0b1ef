"""The alerts of deploy/monitoring: promtool checks and tests them, and each has a runbook.

That their metrics exist: tests/test_dashboards.py.
"""

import os
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from tests.e2e.conftest import do_without
from tools.real import prometheus

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
RULES = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0][
    "rules"
]
TESTS = (MONITORING / "alerts.test.yaml").read_text(encoding="utf-8")


def promtool(*arguments: str, stdin: str = "") -> str:
    """Run it in the folder of the rules; fails with what it printed."""
    program = prometheus.find(os.environ) or do_without(["Prometheus"])
    argv = (str(program.with_name("promtool")), *arguments)
    done = subprocess.run(
        argv, cwd=MONITORING, input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid_and_fire_when_they_should_and_only_then() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "alerts.yaml")
    assert "SUCCESS" in promtool("test", "rules", "alerts.test.yaml")


def test_every_alert_is_tested_and_has_a_runbook() -> None:
    for rule in RULES:
        name = rule["alert"]
        assert TESTS.count(f"alertname: {name}") >= 2, f"{name} is not seen to fire and not to"
        runbook = ROOT / rule["annotations"]["runbook"]
        assert runbook.read_text(encoding="utf-8").startswith(f"# {name}: ")
