import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import BRAKE_ENGAGED, BRAKE_RELEASED, BrakeEngaged
from reactive_desched.cli import main
from reactive_desched.journal.events import read_events
from tests.support.golden import Golden
from tests.system.conftest import wait_until

NODE = "node-1"


def get(server: str, path: str) -> str:
    """Return a page; fails unless the status is 200."""
    with urllib.request.urlopen(f"{server}{path}", timeout=60) as reply:
        return str(reply.read().decode())


def test_a_pause_outlives_a_kill_and_resume_ends_it(
    cluster: Any,
    controller: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    server = program.url
    movable = {uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"}
    assert movable

    assert main(["pause", "--server", server, "--reason", "upgrade", "--by", "ann"]) == 0
    assert "paused by ann: upgrade" in capsys.readouterr().out
    cluster.taint(NODE, "gpu")
    page = get(server, "/readyz?verbose")
    assert "[!]manual: paused by ann: upgrade" in page
    assert "[+]brake/storm: released" in page
    assert 'reactive_desched_brake_engaged{brake="manual"} 1.0' in get(server, "/metrics")
    wait_until(
        lambda: [e for e in read_events(tmp_path / "journal") if e.type == BRAKE_ENGAGED], program
    )
    program.stop(signal.SIGKILL)

    program = controller("--log-format", "json")
    program.wait_for('"the controller is paused".*paused by ann: upgrade')
    server = program.url
    assert movable <= set(cluster.pods_on(NODE))

    assert main(["resume", "--server", server, "--reason", "done", "--by", "bob"]) == 0
    assert capsys.readouterr().out.endswith("\nevaluating: nothing holds evictions\n")
    program.wait_until(lambda: not movable & set(cluster.pods_on(NODE)))
    assert program.stop() == 0
    brakes = [
        (e.type, e.data.by, e.data.message)
        for e in read_events(tmp_path / "journal")
        if e.type in (BRAKE_ENGAGED, BRAKE_RELEASED)
    ]
    assert brakes == [(BRAKE_ENGAGED, "ann", "upgrade"), (BRAKE_RELEASED, "bob", "done")]


def test_a_pause_for_a_time_is_recorded_with_its_end(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    program = controller("--log-format", "json")
    assert main(["pause", "--server", program.url, "--for", "2h30m"]) == 0
    assert cluster.url
    assert program.stop() == 0

    [engaged] = [e for e in read_events(tmp_path / "journal") if e.type == BRAKE_ENGAGED]
    assert isinstance(engaged.data, BrakeEngaged)
    assert engaged.data.until is not None
    lag_s = 9000 - (engaged.data.until - engaged.time).total_seconds()
    assert 0 <= lag_s < 60  # from the order to its record, on a machine that is busy
    assert "@" in engaged.data.by


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["--for", "0s"], id="--for 0s"),
        pytest.param(["--for", "2y"], id="--for 2y"),
        pytest.param(["--server", "ftp://there"], id="--server ftp://there"),
    ],
)
def test_a_wrong_flag_is_refused(
    flags: list[str], golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["pause", *flags])
    except SystemExit as stopped:
        status = int(str(stopped.code))
    assert status == 2
    assert golden() in capsys.readouterr().err
