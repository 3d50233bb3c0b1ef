"""What `pending` prints of the controller's answer."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reactive_desched.cli import controller_client, main, pending
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


def answering(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Let a controller answer that nothing waits, but for this."""
    answer = {
        "pause": "",
        "hold": "",
        "flapping": [],
        "subjects": 0,
        "total": 0,
        "kept": 0,
        "leaving": 0,
        "bySetting": {},
        "reasons": [],
        "findings": [],
        "time": datetime.now(UTC).isoformat(),
    }
    said = controller_client.Answer(answer | more, "kind (uid u)")
    monkeypatch.setattr(controller_client.ControllerClient, "ask", lambda *_: said)


def test_each_finding_says_when_it_is_looked_at_again_and_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    soon = (datetime.now(UTC) + timedelta(days=4.5)).isoformat()
    waits_for = ["a change of the pod", "room on a node"]
    turn = {"at": soon, "place": 17, "of": 235}
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    answering(
        monkeypatch,
        total=7,
        findings=[
            finding("a", waits_for),
            finding("b", [], soon),
            finding("c", waits_for, soon) | {"setting": "budgets.node"},
            finding("d", waits_for, soon) | {"turn": turn},
            finding("e", waits_for) | {"keeps": True},
            finding("f", waits_for, soon) | {"turn": turn | {"isLeast": True}},
            finding("g", [], past),
        ],
    )

    assert main(["pending", "--each"]) == 0

    _, _, _, head, first, second, third, fourth, fifth, sixth, seventh = (
        capsys.readouterr().out.splitlines()
    )
    assert head.split("  ")[0] == "POD"
    assert "at a change" in first
    assert first.endswith(golden("a budget"))
    assert "in 4d" in second
    assert "waits for" not in second
    assert third.endswith(golden())
    assert "turn in 4d 12h" in fourth
    assert " stays " in fifth
    assert "turn after 4d 12h" in sixth
    assert " now " in seventh


def test_findings_of_one_reason_and_setting_are_one_row_and_the_largest_group_comes_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=130)).isoformat()
    group = {
        "gate": "EvictionRateLimit",
        "reason": "EvictionRateLimited",
        "findings": 200,
        "since": "2026-01-01T00:00:00Z",
        "example": "shop/web-1",
        "message": "17th of 235 in the queue",
        "setting": "budgets.plugin",
        "nextTurn": soon,
        "lastTurn": soon,
    }
    kept = {
        "gate": "DaemonSetPods",
        "reason": "DaemonSetPod",
        "findings": 2,
        "since": "2026-01-01T00:00:00Z",
        "example": "kube-system/log-1",
        "message": "the pod belongs to a DaemonSet",
        "keeps": True,
    }
    answering(
        monkeypatch,
        total=243,
        kept=2,
        leaving=1,
        bySetting={"budgets.plugin": 200, "budgets.node": 35},
        reasons=[group, group | {"findings": 35, "setting": "budgets.node", "isLeast": True}, kept],
        hold="storm: 150 pods",
    )

    assert main(["pending"]) == 0

    _, hold, *lines = capsys.readouterr().out.splitlines()
    assert hold == golden("a brake")
    assert "\n".join(lines[:3]) == golden("headline")
    _, first, second, third, hint = lines[4:]
    assert first.startswith("200 ")
    assert first.endswith(golden("a queue"))
    assert "in at least 2m 10s" in second
    assert third.startswith("2 ")
    assert " stays " in third
    assert hint.startswith("--each lists every finding")


def test_the_answer_names_the_cluster_and_the_controller_that_gave_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    answering(monkeypatch)

    assert main(["pending", "--server", "http://127.0.0.1:10358"]) == 0

    assert capsys.readouterr().out.splitlines()[0] == golden()


def test_json_has_every_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def ask(_: object, page: str, query: Any) -> controller_client.Answer:
        asked.append((page, query))
        return controller_client.Answer({"findings": []}, "")

    monkeypatch.setattr(controller_client.ControllerClient, "ask", ask)

    assert main(["pending", "-o", "json", "-n", "shop"]) == 0

    assert asked == [("pending", {"namespace": "shop", "all": "true"})]
    assert capsys.readouterr().out == '{\n "findings": []\n}\n'


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
    answering(monkeypatch, subjects=subjects, total=total)

    assert main(["pending", "--each"]) == 0

    out = capsys.readouterr().out
    assert all(words in out for words in said)


def test_what_is_held_is_looked_at_after_a_time() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    later, past = ((now + timedelta(seconds=each)).isoformat() for each in (3600, -9))

    assert pending.next_look(later, now, is_least=True) == "after 1h"
    assert pending.next_look(past, now, is_least=True) == "when it goes on"
    assert pending.next_look(later, now) == "in 1h"
    assert pending.next_look(past, now) == "now"
