"""What `eviction-loops list` prints of the controller's answer."""

from typing import Any

import pytest

from reactive_desched.cli import controller_client, main

SINCE, UNTIL = "2026-01-01T00:00:00Z", "2126-01-01T00:00:00Z"
NODE = {
    "node": "n1",
    "plugin": "LowNodeUtilization",
    "futileMoves": 2,
    "since": SINCE,
    "until": UNTIL,
}
OWNER = {
    "owner": "shop/Deployment/web",
    "plugin": "LowNodeUtilization",
    "futileMoves": 3,
    "parked": True,
    "since": SINCE,
    "until": UNTIL,
    "moves": [],
}
NONE = {"total": 0, "owners": [], "totalNodes": 0, "nodes": []}


@pytest.mark.parametrize("command", ["eviction-loops", "futile"])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(NONE, ["no", "workload"], id="nothing"),
        pytest.param({**NONE, "total": 1, "owners": [OWNER]}, ["OWNER"], id="an owner"),
        pytest.param({**NONE, "totalNodes": 1, "nodes": [NODE]}, ["NODE", "n1"], id="a node"),
        pytest.param(
            {"total": 1, "owners": [OWNER], "totalNodes": 9, "nodes": [NODE]},
            ["OWNER", "NODE", "n1", "8", "more:"],
            id="both, and more than are listed",
        ),
    ],
)
def test_owners_and_nodes_that_are_left_alone_are_listed(
    answer: dict[str, Any],
    words: list[str],
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(controller_client.ControllerClient, "read_page", lambda *_: answer)

    assert main([command, "list"]) == 0

    printed = capsys.readouterr().out.split()
    assert set(words) <= set(printed)
    assert ("NODE" in printed) is bool(answer["nodes"])
    assert ("OWNER" in printed) is bool(answer["owners"])
