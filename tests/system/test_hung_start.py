"""A start that hangs does not keep the controller from ending."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: c}}]
"""


def test_a_journal_that_hangs_at_the_start_does_not_keep_the_controller_from_ending(
    start: Callable[..., Any], cluster: Any, policy: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    os.mkfifo(journal / "checkpoint.key")  # whoever reads it waits, as on a disk that is gone
    program = start(
        "run",
        *("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig)),
        *("--journal", str(journal), "--listen", "127.0.0.1:0"),
    )
    program.wait_until((journal / "lock").exists)
    assert program.stop() in (0, -15)
    assert "Traceback" not in program.output


def test_an_api_server_that_is_not_there_keeps_the_controller_neither_from_serving_nor_from_ending(
    start: Callable[..., Any], policy: Path, tmp_path: Path
) -> None:
    kubeconfig, journal = tmp_path / "kubeconfig", tmp_path / "journal"
    kubeconfig.write_text(KUBECONFIG, encoding="utf-8")
    program = start(
        "run",
        *("--policy", str(policy), "--kubeconfig", str(kubeconfig)),
        *("--journal", str(journal), "--listen", "127.0.0.1:0"),
    )
    program.wait_for(
        "(?s)probes and metrics are served .*waits for the API server; nothing is recorded yet"
    )
    assert not journal.exists()
    assert program.stop() in (0, -15)
    assert "Traceback" not in program.output
