"""`drain`: what it writes to nodes, what it prints of those that are left, and its exit status."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest

from reactive_desched.cli import controller_client, drain, following
from reactive_desched.cli.controller_client import Answer
from reactive_desched.kube.client.responses import ApiResponse
from tests.cli.conftest import Run

UID = "7f0c1a52-0000"
CLUSTER = f"prod (uid {UID}, https://10.0.0.1:443)"
KUBE_SYSTEM = {"items": [{"metadata": {"name": "kube-system", "uid": UID}}]}
POD = {
    "namespace": "shop",
    "pod": "web",
    "state": "waits",
    "message": "its budget allows none",
    "until": "2026-01-01T00:01:00Z",
}


def status(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "time": "2026-01-01T00:00:09Z",
        "hold": "",
        "profiles": ["drains"],
        "nodes": list(nodes),
        **more,
    }


def row(name: str, state: str, **more: Any) -> dict[str, Any]:
    return {"node": name, "state": state, "message": "a sentence", "states": {}, **more}


DRAINED = status(row("n1", "drained"))
DRAINING = status(row("n1", "draining", states={"waits": 1}, pods=[POD]))
BLOCKED = status(row("n1", "blocked", states={"stays": 1}, pods=[POD | {"state": "stays"}]))


class Edges:
    """A controller that answers from a script, and an API server that keeps what is written."""

    description = "https://10.0.0.1:443"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = [DRAINED]
        self.queries: list[Any] = []
        self.patches: list[tuple[str, Any]] = []
        self.refusals: dict[str, HTTPStatus] = {}
        self.now = 0.0
        client = controller_client.ControllerClient
        monkeypatch.setattr(client, "ask", lambda _, __, query: self.ask(query))
        monkeypatch.setattr(client, "read_page", lambda _, __, query: self.ask(query).value)
        monkeypatch.setattr("time.sleep", self.sleep)
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr("reactive_desched.kube.client.session.open_session", self.session)

    def ask(self, query: Any) -> Answer:
        self.queries.append(query)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Answer(found, CLUSTER)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @asynccontextmanager
    async def session(self, _: object) -> AsyncIterator["Edges"]:
        yield self

    async def request(self, method: str, path: str, **parts: Any) -> ApiResponse:
        if method == "GET":
            return ApiResponse(HTTPStatus.OK, {}, json.dumps(KUBE_SYSTEM).encode())
        refusal = self.refusals.get(path.rpartition("/")[2])
        if refusal is None:
            self.patches.append((path, json.loads(parts["body"])))
        return ApiResponse(refusal or HTTPStatus.OK, {}, b"{}")


@pytest.fixture
def edges(monkeypatch: pytest.MonkeyPatch) -> Edges:
    return Edges(monkeypatch)


def test_a_node_is_cordoned_and_says_who_wants_it_drained_and_why(edges: Edges, run: Run) -> None:
    code, out, _ = run("drain", "node/n1", "--by", "ada", "--reason", "a new kernel")

    assert code == 0
    assert edges.patches == [
        (
            "/api/v1/nodes/n1",
            {
                "metadata": {
                    "annotations": {
                        "reactive-desched/drain": "ada: a new kernel",
                        "reactive-desched/drained": None,
                    }
                },
                "spec": {"unschedulable": True},
            },
        )
    ]
    assert edges.queries == [{"nodes": "n1"}] * 2
    assert "node/n1 cordoned" in out


def test_stop_takes_all_of_it_back(edges: Edges, run: Run) -> None:
    code, _, _ = run("drain", "--stop", "n1", "n2")

    taken_back = {"reactive-desched/drain": None, "reactive-desched/drained": None}
    assert code == 0
    assert [patch for _, patch in edges.patches] == [
        {"metadata": {"annotations": taken_back}, "spec": {"unschedulable": False}}
    ] * 2


@pytest.mark.parametrize(
    ("last", "code"), [(DRAINED, 0), (BLOCKED, drain.NOT_DRAINED)], ids=["drained", "blocked"]
)
def test_wait_ends_when_each_node_is_drained_or_blocked(
    last: dict[str, Any], code: int, edges: Edges, run: Run
) -> None:
    edges.answers = [DRAINING, DRAINING, DRAINING, last]

    found, out, _ = run("drain", "n1", "--wait")

    assert found == code
    assert edges.now == 3 * following.POLL_S
    assert out.count("1 waits") == 1  # the same twice is said once


@pytest.mark.parametrize("state", ["not_asked", "not_cordoned", "no_plugin"])
def test_wait_ends_when_the_drain_is_taken_back(state: str, edges: Edges, run: Run) -> None:
    unseen = status(row("n1", "not_asked"))  # the controller has not seen the request yet
    edges.answers = [DRAINING, unseen, unseen, DRAINING, status(row("n1", state)), DRAINED]

    code, _, _ = run("drain", "n1", "--wait")

    assert code == drain.NOT_DRAINED
    assert edges.now == 4 * following.POLL_S


def test_what_is_not_drained_in_time_is_named_with_its_reason(edges: Edges, run: Run) -> None:
    edges.answers = [DRAINING]

    code, out, _ = run("drain", "n1", "--wait", "--timeout", "10s")

    assert code == drain.NOT_DRAINED
    assert edges.now == 10
    assert "its budget allows none" in out
    assert "00:01:00" in out


@pytest.mark.parametrize(("answer", "code"), [(DRAINED, 0), (BLOCKED, 3), (DRAINING, 3)])
def test_show_changes_nothing(answer: dict[str, Any], code: int, edges: Edges, run: Run) -> None:
    edges.answers = [answer]

    assert run("drain", "--show")[0] == code
    assert edges.patches == []
    assert edges.queries == [{}]


def test_without_the_plugin_no_node_is_changed(edges: Edges, run: Run) -> None:
    edges.answers = [status(row("n1", "not_asked"), profiles=[])]

    code, _, err = run("drain", "n1")

    assert code == 2
    assert "DrainNodes" in err
    assert edges.patches == []


def test_a_kubeconfig_of_another_cluster_changes_no_node(
    edges: Edges, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.CLUSTER", "staging (uid 11111111, https://10.9.9.9)")

    code, _, err = run("drain", "n1")

    assert code == 2
    assert "--context" in err
    assert edges.patches == []


def test_a_node_that_is_refused_is_named_and_those_before_it_are_said(
    edges: Edges, run: Run
) -> None:
    edges.refusals["n2"] = HTTPStatus.FORBIDDEN

    code, out, err = run("drain", "n1", "n2")

    assert code == 1
    assert "node/n1 cordoned" in out
    assert "node n2: 403" in err


@pytest.mark.parametrize(
    "words", [(), ("--stop",), ("--plan", "n1"), ("n1", "--policy", "p.yaml")], ids=" ".join
)
def test_a_wrong_command_line_changes_no_node(
    words: tuple[str, ...], edges: Edges, run: Run
) -> None:
    assert run("drain", *words)[0] == 2
    assert edges.patches == []


def test_json_is_the_last_answer_alone(edges: Edges, run: Run) -> None:
    _, out, _ = run("drain", "n1", "--wait", "-o", "json")

    assert json.loads(out) == DRAINED
