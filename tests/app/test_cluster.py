"""A cluster is identified before anything is recorded."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
import trio.testing

from reactive_desched.app.cluster import identify_cluster, identify_within, wait_for_cluster
from reactive_desched.errors import ClusterError, RequestRejected, Unreachable
from reactive_desched.journal.cluster import ClusterIdentity
from reactive_desched.kube.client.clock import SystemClock
from reactive_desched.kube.client.patience import PATIENCE_S, Patience
from reactive_desched.kube.client.responses import ApiResponse
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio

FOUND = {"items": [{"metadata": {"name": "kube-system", "uid": "u1"}}]}
BY_UID = ClusterIdentity("u1", "u1")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Server:
    """Answers the same as long as there is one answer left, and keeps what it was asked."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, Mapping[str, str] | None]] = []

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None
    ) -> ApiResponse:
        self.asked.append((method, path, params))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        code, body = (200, answer) if isinstance(answer, dict) else (answer, {})
        assert isinstance(code, int)
        return ApiResponse(code, {}, json.dumps(body).encode())


def server(*answers: object) -> Any:  # a Transport, as far as it is used
    return Server(*answers)


async def test_a_cluster_is_called_as_the_settings_say_else_by_its_uid() -> None:
    assert await identify_cluster(server(FOUND), "") == BY_UID
    assert await identify_cluster(server(FOUND), "prod") == ClusterIdentity(
        "prod", "u1", is_named=True
    )


async def test_one_namespace_is_asked_for_with_the_right_to_list() -> None:
    api = server(FOUND)
    await identify_cluster(api, "")

    query = {"fieldSelector": "metadata.name=kube-system", "limit": "1"}
    assert api.asked == [("GET", "/api/v1/namespaces", query)]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(403, id="forbidden"),
        pytest.param({"items": []}, id="there is none"),
        pytest.param({"items": None}, id="none in Go's words"),
        pytest.param({"items": [{"metadata": {"name": "web", "uid": "u2"}}]}, id="another one"),
    ],
)
async def test_a_cluster_that_does_not_show_its_uid_has_none(answer: object) -> None:
    assert await identify_cluster(server(answer), "") == ClusterIdentity("kubernetes")


async def test_a_server_that_has_just_started_and_denies_all_is_asked_for_some_seconds() -> None:
    api = server(403, 403, FOUND)
    assert await wait_for_cluster(api, "", "", RecordingLogger()) == BY_UID


async def test_a_server_that_shows_no_uid_for_seconds_has_none() -> None:
    api = server(403)
    assert await wait_for_cluster(api, "", "", RecordingLogger()) == ClusterIdentity("kubernetes")
    assert len(api.asked) == 5


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Unreachable("GET /", "refused", sent=False), id="no connection"),
        pytest.param(503, id="not well"),
        pytest.param(401, id="the token expired"),
        pytest.param({"items": 3}, id="no API server"),
    ],
)
async def test_no_answer_is_no_identity(answer: object) -> None:
    with pytest.raises(ClusterError):
        await identify_cluster(server(answer), "prod")


async def test_a_controller_waits_for_the_answer_and_says_once_why() -> None:
    log, refused = RecordingLogger(), Unreachable("GET /", "refused", sent=False)

    found = await wait_for_cluster(server(refused, refused, refused, FOUND), "", "", log)

    assert found == BY_UID
    assert [line.values for line in log.lines] == [{"message": "GET /: refused"}]


def patience() -> Patience:
    return Patience(LoopClock())


class LoopClock(SystemClock):
    """The virtual time of the test."""

    now = staticmethod(anyio.current_time)


async def test_a_sweep_waits_for_a_server_that_restarts() -> None:
    refused = Unreachable("GET /", "refused", sent=False)
    api = server(*[refused] * 5, 503, 500, FOUND)

    assert await identify_within(patience(), api, "", "") == BY_UID
    assert anyio.current_time() > 20


async def test_a_sweep_gives_up_after_some_time() -> None:
    api = server(Unreachable("GET /", "refused", sent=False))

    with pytest.raises(Unreachable):
        await identify_within(patience(), api, "", "")

    assert PATIENCE_S - 5 < anyio.current_time() <= PATIENCE_S


async def test_a_sweep_gives_up_credentials_that_are_not_accepted_after_three_requests() -> None:
    api = server(401)

    with pytest.raises(RequestRejected):
        await identify_within(patience(), api, "", "")

    assert len(api.asked) == 3


async def test_a_sweep_takes_a_server_that_shows_no_uid_for_what_it_is() -> None:
    api = server(403)

    assert await identify_within(patience(), api, "", "") == ClusterIdentity("kubernetes")
    assert len(api.asked) == 1
