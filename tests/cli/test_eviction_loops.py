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
    said = controller_client.Answer(answer, "prod")
    monkeypatch.setattr(controller_client.ControllerClient, "ask", lambda *_: said)

    assert main([command, "list"]) == 0

    heading, _, table = capsys.readouterr().out.partition("\n")
    printed = table.split()
    assert heading.split()[:2] == ["cluster", "prod,"]
    assert set(words) <= set(printed)
    assert ("NODE" in printed) is bool(answer["nodes"])
    assert ("OWNER" in printed) is bool(answer["owners"])
    assert ("Deployment shop/web" in " ".join(printed)) is bool(answer["owners"])


@pytest.mark.parametrize(
    ("words", "owner"),
    [
        (["Deployment", "shop/web"], "shop/Deployment/web"),
        (["shop/Deployment/web"], "shop/Deployment/web"),
        (["0a1b"], "0a1b"),
        (["--all"], ""),
    ],
)
def test_a_workload_is_cleared_by_the_name_that_the_list_shows(
    words: list[str], owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []

    def send(_: object, order: str, body: dict[str, Any]) -> controller_client.Answer:
        sent.append(body)
        return controller_client.Answer({"cleared": 1}, "")

    monkeypatch.setattr(controller_client.ControllerClient, "send_order", send)
    assert main(["eviction-loops", "clear", *words]) == 0

    assert [body["owner"] for body in sent] == [owner]


def test_clear_names_a_workload_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["eviction-loops", "clear"])
    with pytest.raises(SystemExit):
        main(["eviction-loops", "clear", "Deployment", "shop/web", "--all"])

    assert "--all" in capsys.readouterr().err
