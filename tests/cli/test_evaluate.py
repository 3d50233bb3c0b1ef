"""`evaluate`: what it asks a controller for, what it prints, and its exit status."""

from collections.abc import Callable
from typing import Any

import pytest

from reactive_desched.cli import controller_client, evaluate, following
from reactive_desched.errors import ConfigError

Run = Callable[..., tuple[int, str, str]]
STATUS: dict[str, Any] = {
    "number": 4,
    "scope": "node n1",
    "asked": "2026-01-01T00:00:00Z",
    "time": "2026-01-01T00:00:09Z",
    "selected": 2,
    "states": {},
    "reasons": [],
    "pods": [],
}
REASON = {
    "gate": "MirrorPods",
    "reason": "MirrorPod",
    "findings": 1,
    "since": "2026-01-01T00:00:00Z",
    "example": "shop/static",
    "message": "the pod is a mirror pod",
    "keeps": True,
}


class Controller:
    """Answers from a script, and keeps the orders."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.orders: list[dict[str, Any]] = []
        self.answers = [STATUS | {"evaluated": True, "hasEnded": True}]
        self.now = 0.0
        client = controller_client.ControllerClient
        monkeypatch.setattr(client, "send_order", lambda _, name, body: self.order(name, body))
        monkeypatch.setattr(client, "read_page", lambda *_: self.answer())
        monkeypatch.setattr("time.sleep", self.sleep)
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def order(self, name: str, body: dict[str, Any]) -> controller_client.Answer:
        assert name == "evaluate"
        self.orders.append(body)
        return controller_client.Answer(STATUS, "prod")

    def answer(self) -> dict[str, Any]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    return Controller(monkeypatch)


@pytest.mark.parametrize(
    ("words", "scope"),
    [
        (["node/n1"], {"node": "n1"}),
        (["--node", "n1", "--plugin", "X"], {"node": "n1", "plugin": "X"}),
        (["deploy/web", "-n", "shop"], {"owner": "shop/Deployment/web"}),
        (["shop/web-1"], {"pod": "shop/web-1"}),
        (["-n", "shop"], {"namespace": "shop"}),
        (["--node", "n1", "-n", "shop"], {"node": "n1", "namespace": "shop"}),
        (["--profile", "p"], {"profile": "p"}),
        (["--all"], {"all": True}),
    ],
)
def test_what_is_named_is_asked_for(
    words: list[str], scope: dict[str, Any], controller: Controller, run: Run
) -> None:
    status, out, _ = run("evaluate", *words, "--by", "ann", "--reason", "why not")

    assert status == 0
    assert controller.orders == [{**scope, "by": "ann", "reason": "why not"}]
    assert "evaluation 4 of node n1: 2 pods" in out


@pytest.mark.parametrize("words", [[], ["node/n1", "--node", "n2"], ["node/n1", "-n", "shop"]])
def test_nothing_or_two_of_a_kind_are_refused(words: list[str], controller: Controller) -> None:
    from reactive_desched.cli import parser

    with pytest.raises(ConfigError):
        evaluate.scope_of(parser(["evaluate"]).parse_args(["evaluate", *words]))
    assert controller.orders == []


def test_wait_prints_what_changes_and_what_stays(controller: Controller, run: Run) -> None:
    waits = STATUS | {"evaluated": True, "states": {"waits": 1, "stays": 1}}
    ended = STATUS | {"evaluated": True, "hasEnded": True, "reasons": [REASON]}
    controller.answers = [waits, waits, ended | {"states": {"ended": 1, "stays": 1}}]

    status, out, _ = run("evaluate", "node/n1", "--wait")

    assert status == 0
    assert out.count("1 waits") == 1  # the same twice is said once
    assert "MirrorPod" in out
    assert out.splitlines()[-1].endswith("1 left its node")
    assert controller.now == 3 * following.POLL_S


def test_what_has_not_ended_in_time_is_another_exit_status(
    controller: Controller, run: Run
) -> None:
    controller.answers = [STATUS | {"evaluated": True, "states": {"leaves": 2, "stays": 3}}]

    status, out, _ = run("evaluate", "node/n1", "--wait", "--timeout", "10s")

    assert status == evaluate.NOT_ENDED
    assert out.splitlines()[-1].startswith("2 pods ")
    assert controller.now == 10


def test_json_is_the_last_answer_alone(controller: Controller, run: Run) -> None:
    _, out, _ = run("evaluate", "--all", "--wait", "-o", "json")

    assert out.startswith("{")
    assert '"hasEnded": true' in out
