"""A command without --server asks the controller of the kubeconfig's cluster, and no other."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.cli import controller_client, main
from reactive_desched.sim.server import kubeconfig
from tests.support import http_server
from tests.support.golden import Golden
from tests.support.http_server import answer_request

pytestmark = pytest.mark.timeout(60)

STAGING, PROD = "1111-aaaa", "2222-bbbb"
ELSEWHERE = "https://10.96.0.1:443"

ORDERS = (
    ["pause"],
    ["resume"],
    ["approve", "--all"],
    ["reject", "--all"],
    ["evaluate", "--all"],
    ["eviction-loops", "clear", "--all"],
)
QUESTIONS = (
    ["pending"],
    ["migrations"],
    ["proposals"],
    ["eviction-loops", "list"],
    ["drain", "--show"],
)


class Serving:
    """Servers on this machine: a controller at the usual address, and API servers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self._monkeypatch = monkeypatch
        self.kubeconfig = home / "kubeconfig"
        self.orders: list[str] = []
        self.uids_asked = 0

    @contextmanager
    def api_server(self, uid: str) -> Iterator[str]:
        def answer(handler: BaseHTTPRequestHandler) -> Any:
            self.uids_asked += 1
            return {"items": [{"metadata": {"name": "kube-system", "uid": uid}}]}

        with _served(answer) as url:
            yield url

    @contextmanager
    def controller(self, uid: str, api_server: str) -> Iterator[None]:
        def answer(handler: BaseHTTPRequestHandler) -> Any:
            if handler.command == "POST":
                self.orders.append(handler.path)
            if handler.path == "/debug/cluster":
                return {"name": "staging", "uid": uid, "apiServer": api_server}
            return _ANYTHING

        with _served(answer) as url:
            self._monkeypatch.setattr("reactive_desched.cli.controller_client.DEFAULT_SERVER", url)
            yield

    def use(self, url: str) -> None:
        self.kubeconfig.write_text(kubeconfig(url, "prod"))
        self._monkeypatch.setenv("KUBECONFIG", str(self.kubeconfig))


_ANYTHING = {
    "cleared": 1,
    "hold": "",
    "time": "2026-05-01T00:00:00+00:00",
    "until": "2026-05-01T00:00:00+00:00",
    "state": {"name": "paused", "summary": ""},
    "brakes": {},
    "pause": "",
    "notKept": "",
    "number": 1,
    "hasEnded": True,
    "enabled": False,
    "groups": [],
    "total": 0,
    "totalNodes": 0,
    "owners": [],
    "nodes": [],
    "profiles": [],
    "proposals": [],
    "before": 0,
    "findings": [],
    "reasons": [],
    "flapping": [],
    "kept": 0,
    "leaving": 0,
    "subjects": None,
    "rejected": 0,
}


@contextmanager
def _served(answer: Callable[[BaseHTTPRequestHandler], Any]) -> Iterator[str]:
    of = {"Reactive-Desched-Cluster": "staging (uid 1111)"}

    def respond(request: BaseHTTPRequestHandler) -> None:
        answer_request(request, 200, json.dumps(answer(request)).encode(), headers=of)

    with http_server.serving(respond) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Serving:
    for name in ("STATE_DIRECTORY", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return Serving(monkeypatch, tmp_path)


@pytest.mark.parametrize("command", ORDERS, ids=" ".join)
def test_an_order_is_not_sent_to_the_controller_of_another_cluster(
    command: list[str],
    serving: Serving,
    capsys: pytest.CaptureFixture[str],
    golden: Golden,
) -> None:
    with serving.controller(STAGING, ELSEWHERE), serving.api_server(PROD) as url:
        serving.use(url)
        assert main(command) == 1

    assert serving.orders == []
    assert capsys.readouterr().err.strip() == golden(
        here=controller_client.DEFAULT_SERVER, prod=url
    )


@pytest.mark.parametrize("command", QUESTIONS, ids=" ".join)
def test_an_answer_about_another_cluster_has_a_warning_and_names_it(
    command: list[str],
    serving: Serving,
    capsys: pytest.CaptureFixture[str],
    golden: Golden,
) -> None:
    with serving.controller(STAGING, ELSEWHERE), serving.api_server(PROD) as url:
        serving.use(url)
        assert main(command) == 0

    said = capsys.readouterr()
    here = controller_client.DEFAULT_SERVER
    assert said.err.strip() == golden("stderr", here=here, prod=url)
    assert said.out.splitlines()[0] == golden("first line", here=here)


def test_an_address_that_is_given_is_meant(
    serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving.controller(STAGING, ELSEWHERE), serving.api_server(PROD) as url:
        serving.use(url)
        assert main(["pause", "--server", controller_client.DEFAULT_SERVER]) == 0

    assert (serving.orders, capsys.readouterr().err) == (["/operator/pause"], "")


@pytest.mark.parametrize("address", ["", ELSEWHERE])
def test_the_controller_of_the_kubeconfigs_cluster_is_sent_orders(
    address: str, serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a cluster it has another address of the API server than a laptop's kubeconfig."""
    with serving.api_server(PROD) as url:
        serving.use(url)
        with serving.controller(PROD, address or url):
            assert main(["pause"]) == 0

    assert (serving.orders, capsys.readouterr().err) == (["/operator/pause"], "")
    assert serving.uids_asked == bool(address)


def test_without_a_kubeconfig_or_an_answer_of_its_server_orders_are_sent(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the API server is away, a person must be able to pause what runs here."""
    monkeypatch.setattr("reactive_desched.cli.kubeconfig_cluster.ASK_S", 0.5)
    with serving.controller(STAGING, ELSEWHERE):
        assert main(["pause"]) == 0
        serving.use("http://127.0.0.1:1")
        assert main(["pause"]) == 0

    assert serving.orders == ["/operator/pause"] * 2


def test_a_kubeconfig_that_is_given_says_whose_controller_is_meant(
    serving: Serving, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving.api_server(PROD) as url:
        serving.use(url)
        monkeypatch.delenv("KUBECONFIG")
        with serving.controller(STAGING, ELSEWHERE):
            assert main(["pending", "--kubeconfig", str(serving.kubeconfig)]) == 0

    assert "kubeconfig names another one" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["pending", "status", "why shop/web"])
def test_a_kubeconfig_beside_an_address_is_one_too_many(
    command: str, serving: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--server", "http://127.0.0.1:1", "--kubeconfig", str(serving.kubeconfig)]
    assert main([*command.split(), *given]) == 2

    assert "--kubeconfig means nothing with --server" in capsys.readouterr().err
