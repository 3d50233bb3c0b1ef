import json
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


def test_pending_says_what_a_running_controller_waits_for(
    cluster: Any, controller: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    program = controller("--log-format", "json")
    program.wait_for('"synced"')
    server = program.url
    movable = [uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"]
    assert len(movable) > 1
    cluster.taint(NODE, "gpu")

    def answer() -> Any:
        limited = "--gate", "EvictionRateLimit"
        assert main(["pending", "--server", server, "-o", "json", *limited]) == 0
        found = json.loads(capsys.readouterr().out)
        return found if found["total"] == len(movable) - 1 else None

    waiting = wait_until(answer, program)["findings"]
    assert {row["reason"] for row in waiting} == {"EvictionRateLimited"}
    assert {row["node"] for row in waiting} == {NODE}

    assert main(["pending", "--server", server]) == 0
    table = capsys.readouterr().out
    assert all(f"{row['namespace']}/{row['pod']}" in table for row in waiting)
    assert "EvictionRateLimited" in table
    assert main(["pending", "--server", server, "--plugin", "PodLifeTime"]) == 0
    assert capsys.readouterr().out.startswith("no finding waits\n")


@pytest.mark.parametrize(
    ("server", "status", "message"),
    [
        ("http://127.0.0.1:1", 1, "is a controller running there?"),
        ("ftp://there", 2, "is not the address of a controller"),
        ("127.0.0.1:x", 2, "is not the address of a controller"),
    ],
)
def test_without_a_controller_the_error_names_the_place(
    server: str, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pending", "--server", server]) == status
    assert message in capsys.readouterr().err
