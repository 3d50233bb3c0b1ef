import json
import os
import pty
import re
import select
import signal
import sys
import time
import urllib.request
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from reactive_desched.cli import main
from tests.support.golden import Golden
from tests.support.limits import UNLIMITED
from tests.system.conftest import wait_until

NODE = "node-1"


@pytest.fixture
def settings() -> str:
    """Allow one eviction in an hour."""
    return UNLIMITED.replace("cluster: null", "cluster: {evictions: 1, per: 1h, burst: 1}", 1)


def test_status_why_and_pending_show_what_a_running_controller_did_and_what_waits(
    cluster: Any, controller: Callable[..., Any], capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    movable = [uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"]
    assert len(movable) > 1
    cluster.taint(NODE, "gpu")

    def ask(*words: str) -> str:
        assert main([*words, "--server", program.url]) == 0
        return capsys.readouterr().out

    check_status(program, ask, len(movable) - 1)
    waiting = check_pending(ask)
    assert len(waiting) == len(movable) - 1
    check_why(ask, waiting[0])
    check_one_forecast(program, ask)
    check_why_of_the_evicted(program, ask)
    assert main(["why", "no/such", "--server", program.url]) == 2
    assert "there is no pod" in capsys.readouterr().err
    assert main(["status", "--server", "http://127.0.0.1:1"]) == 1
    assert main(["status", "--server", program.url.replace("http:", "https:")]) == 1
    assert golden() in capsys.readouterr().err


def check_status(program: Any, ask: Callable[..., str], waiting: int) -> None:
    def answer() -> Any:
        found = json.loads(ask("status", "-o", "json"))
        by_reason = {each["reason"]: each["findings"] for each in found["pending"]["reasons"]}
        limited = by_reason.get("EvictionRateLimited") == waiting
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
    identity = json.loads(urllib.request.urlopen(f"{program.url}/debug/cluster").read())
    assert identity["uid"] == found["clusterUid"] != ""
    assert identity["apiServer"] == found["apiServer"] != ""

    table = ask("status")
    pending = found["pending"]
    count = pending["total"] - pending["kept"] - pending["leaving"]
    assert f"waiting         {count} finding" in table
    assert table.index("state ") < table.index(found["state"]["summary"][:20])
    assert found["recent"][0]["pod"] in table


def check_pending(ask: Callable[..., str]) -> list[Any]:
    """Return the findings that the rate limit blocks."""
    waiting = json.loads(ask("pending", "-o", "json", "--gate", "EvictionRateLimit"))["findings"]
    assert {row["reason"] for row in waiting} == {"EvictionRateLimited"}
    assert {row["node"] for row in waiting} == {NODE}

    assert all(1 <= row["turn"]["place"] <= row["turn"]["of"] for row in waiting)

    assert f"[setting: {waiting[0]['setting']}]" in ask("pending")
    table = ask("pending", "--each")
    assert all(f"{row['namespace']}/{row['pod']}" in table for row in waiting)
    assert "EvictionRateLimited" in table
    cluster, none = ask("pending", "--plugin", "PodLifeTime").splitlines()
    assert cluster.startswith("cluster kubeconfig (uid ")
    assert none == "no finding waits"
    return list(waiting)


def check_why(ask: Callable[..., str], waiting: Any) -> None:  # a finding of `pending`
    def pods(*words: str) -> Any:
        return json.loads(ask("why", *words, "-o", "json"))

    name, namespace = waiting["pod"], waiting["namespace"]
    of_node = pods("--node", NODE)["pods"]
    limited = {each["name"] for each in of_node if each["reason"] == "EvictionRateLimited"}
    assert name in limited
    found = pods(f"{namespace}/{name}")
    assert (found["state"], found["node"]) == ("waits", NODE)
    [profile] = found["profiles"]
    assert profile["gates"][-1]["gate"] == "EvictionRateLimit"
    assert profile["gates"][-1]["setting"].startswith("budgets.")
    owner = found["owners"][-1]
    listed = pods("--owner", f"{namespace}/{owner}")["pods"]
    assert name in {each["name"] for each in listed}


def check_one_forecast(program: Any, ask: Callable[..., str]) -> None:
    """Every answer, and the log, says of a pod the same limit and place, and nearly the same ETA.

    The page shows what `/debug/status` and `/debug/pending` answer.
    """

    def at(turn: Any) -> float:
        return datetime.fromisoformat(turn["at"]).timestamp()

    def place(message: str) -> str:
        found = re.search(r"(\d+)(?:st|nd|rd|th)(?: of \d+)? in the queue of[^:]*", message)
        assert found is not None, message
        return found[0]

    status = json.loads(ask("status", "-o", "json"))["pending"]
    [group] = [each for each in status["reasons"] if each["reason"] == "EvictionRateLimited"]
    pending = json.loads(ask("pending", "-o", "json", "--gate", "EvictionRateLimit"))
    rows = {f"{each['namespace']}/{each['pod']}": each for each in pending["findings"]}
    assert pending["reasons"][0]["message"].split(":")[0] == group["message"].split(":")[0]
    assert place(rows[group["example"]]["message"]) == place(group["message"])
    assert place(group["message"]) in " ".join(ask("status").split())
    logged = {}
    for line in program.output.splitlines():
        if "in the queue of" in line:
            found = json.loads(line)
            logged[found["pod"]] = found["message"]
    for pod, row in rows.items():
        why = json.loads(ask("why", pod, "-o", "json"))
        gate = why["profiles"][0]["gates"][-1]
        names = ("scope", "name", "place", "of", "perMinute")
        assert [why["turn"][each] for each in names] == [row["turn"][each] for each in names]
        assert abs(at(why["turn"]) - at(row["turn"])) < 10
        assert place(row["message"]) == place(why["summary"]) == place(gate["message"])
        assert place(row["message"]) in " ".join(ask("why", pod).split())
    ordered = sorted(rows.values(), key=lambda each: at(each["turn"]))
    assert [each["turn"]["place"] for each in ordered] == list(range(1, len(rows) + 1))
    assert group["nextTurn"][:15] == ordered[0]["turn"]["at"][:15]
    assert logged.keys() >= rows.keys()
    first = {pod: place(message).split()[0] for pod, message in logged.items() if pod in rows}
    assert first == {pod: place(each["message"]).split()[0] for pod, each in rows.items()}


def check_why_of_the_evicted(program: Any, ask: Callable[..., str]) -> None:
    [evicted] = json.loads(ask("status", "-o", "json"))["recent"]
    replacement, pod = (
        evicted["followUp"]["replacement"],
        f"{evicted['namespace']}/{evicted['pod']}",
    )

    def gone() -> Any:
        found = json.loads(ask("why", pod, "-o", "json"))
        return found if found["phase"] == "Gone" else None

    found = wait_until(gone, program)
    assert (found["state"], found["node"]) == ("moved", NODE)
    assert f"; {replacement} took its place on " in found["summary"]
    assert [each["replacement"] for each in found["history"]] == [replacement]


def test_top_refreshes_in_place_and_leaves_the_terminal_as_it_was(
    cluster: Any, controller: Callable[..., Any]
) -> None:
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    pid, fd = pty.fork()
    if not pid:  # pragma: no cover -- the child
        command = (sys.executable, "-m", "reactive_desched", "top", "--interval", "0.2s")
        os.execvpe(command[0], [*command, "--server", program.url], {**os.environ, "TERM": "xterm"})
    seen = b""
    give_up = time.monotonic() + 30
    while seen.count(b"evaluating: ") < 3:
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
