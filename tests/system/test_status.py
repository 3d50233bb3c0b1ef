import json
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from reactive_desched.cli import main
from tests.support.limits import ANY_MOVES
from tests.system.conftest import wait_until

NODE = "node-1"


@pytest.fixture
def settings() -> str:
    """Allow one eviction in an hour."""
    return f"budgets: {{cluster: {{evictions: 1, per: 1h, burst: 1}}}}\n{ANY_MOVES}"


def test_status_shows_what_a_running_controller_did_and_what_waits(
    cluster: Any, controller: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    program = controller("--log-format", "json")
    program.wait_for('"synced"')
    movable = [uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"]
    cluster.taint(NODE, "gpu")

    def answer() -> Any:
        assert main(["status", "--server", program.url, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        by_reason = {each["reason"]: each["findings"] for each in found["pending"]["reasons"]}
        limited = by_reason.get("EvictionRateLimited") == len(movable) - 1
        followed = found["recent"] and found["recent"][0].get("followUp")
        return found if limited and followed else None

    found = wait_until(answer, program)
    assert (found["mode"], found["leadership"], found["pause"]) == (
        "live",
        "no leader election",
        "",
    )
    assert [each["result"] for each in found["recent"]] == ["evicted"]
    assert found["recent"][0]["followUp"]["replacement"]
    empty = {each["scope"]: each["available"] for each in found["limits"]["buckets"]}
    assert empty["cluster"] < 1
    assert found["journal"]["sequence"] > 0
    assert {"index", "kubernetes-events"} <= {each["name"] for each in found["sinks"]}
    assert found["nodes"] > 1

    assert main(["status", "--server", program.url]) == 0
    table = capsys.readouterr().out
    assert f"waiting: {found['pending']['total']} findings" in table
    assert found["recent"][0]["pod"] in table
    assert main(["status", "--server", "http://127.0.0.1:1"]) == 1


def test_why_asks_the_running_controller_about_a_pod_a_node_and_a_workload(
    cluster: Any, controller: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    program = controller("--log-format", "json")
    program.wait_for('"synced"')
    cluster.taint(NODE, "gpu")

    def answer(*words: str) -> Any:
        assert main(["why", *words, "--server", program.url, "-o", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    def limited() -> Any:
        pods = answer("--node", NODE)["pods"]
        return [each for each in pods if each["reason"] == "EvictionRateLimited"]

    waiting = wait_until(limited, program)[0]
    found = answer(f"{waiting['namespace']}/{waiting['name']}")
    assert (found["state"], found["node"]) == ("waits", NODE)
    [profile] = found["profiles"]
    assert profile["gates"][-1]["gate"] == "EvictionRateLimit"
    assert profile["gates"][-1]["setting"].startswith("budgets.")
    owner = found["owners"][-1]
    listed = answer("--owner", f"{waiting['namespace']}/{owner}")["pods"]
    assert waiting["name"] in {each["name"] for each in listed}
    assert main(["why", "no/such", "--server", program.url]) == 2
    assert "there is no pod" in capsys.readouterr().err


def test_top_refreshes_in_place_and_leaves_the_terminal_as_it_was(
    cluster: Any, controller: Callable[..., Any]
) -> None:
    program = controller("--log-format", "json")
    program.wait_for('"synced"')
    pid, fd = pty.fork()
    if not pid:  # pragma: no cover -- the child
        command = (sys.executable, "-m", "reactive_desched", "top", "--interval", "0.2s")
        os.execvpe(command[0], [*command, "--server", program.url], {**os.environ, "TERM": "xterm"})
    seen = b""
    give_up = time.monotonic() + 30
    while seen.count(b"evaluating changes") < 3:
        assert time.monotonic() < give_up, seen
        if select.select([fd], [], [], 0.2)[0]:
            seen += os.read(fd, 65536)
    os.kill(pid, signal.SIGINT)
    while select.select([fd], [], [], 5)[0]:
        try:
            seen += os.read(fd, 65536)
        except OSError:  # the terminal's last user is gone
            break
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"\x1b[?1049h" in seen  # the other screen, and back again
    assert seen.rstrip().endswith((b"\x1b[?1049l", b"\x1b[?25h"))
    os.close(fd)
