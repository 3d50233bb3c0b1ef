"""What `pending` prints of the controller's answer."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reactive_desched.cli import controller_client, main
from tests.support.golden import Golden


def finding(pod: str, waits_for: list[str], until: str | None = None) -> dict[str, Any]:
    return {
        "namespace": "shop",
        "pod": pod,
        "node": "n1",
        "plugin": "PodLifeTime",
        "since": "2026-01-01T00:00:00Z",
        "reason": "DisruptionBudget",
        "message": "PodDisruptionBudget web allows none",
        "waitsFor": waits_for,
        "until": until,
    }


def test_each_finding_says_when_it_is_looked_at_again_and_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    soon = (datetime.now(UTC) + timedelta(days=4.5)).isoformat()
    waits_for = ["a change of the pod", "room on a node"]
    answer = {
        "pause": "",
        "flapping": [],
        "subjects": 0,
        "total": 3,
        "findings": [
            finding("a", waits_for),
            finding("b", [], soon),
            finding("c", waits_for, soon) | {"setting": "budgets.node"},
        ],
    }
    monkeypatch.setattr(controller_client.ControllerClient, "read_page", lambda *_: answer)

    assert main(["pending"]) == 0

    head, first, second, third = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "POD"
    assert "NEXT LOOK" in head
    assert "at a change" in first
    assert first.endswith(golden("a budget"))
    assert "in 4d" in second
    assert "waits for" not in second
    assert third.endswith(golden())


@pytest.mark.parametrize(
    ("subjects", "total", "said"),
    [
        (1, 1, ["1 more finding waits; ", "1 subject waits for quiet, or for its turn"]),
        (2, 2, ["2 more findings wait; ", "2 subjects wait for quiet, or for their turn"]),
    ],
)
def test_one_is_counted_as_one(
    subjects: int,
    total: int,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = {"pause": "", "flapping": [], "subjects": subjects, "total": total, "findings": []}
    monkeypatch.setattr(controller_client.ControllerClient, "read_page", lambda *_: answer)

    assert main(["pending"]) == 0

    out = capsys.readouterr().out
    assert all(words in out for words in said)
