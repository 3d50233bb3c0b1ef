"""Whom a kubeconfig impersonates is said in every request, whatever its way to the server."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.client.leases import ApiLeaseClient
from reactive_desched.kube.client.session import KubeConfigOptions, Session, open_session
from reactive_desched.model.outcomes import Accepted, EvictionRequest
from tests.support.fake_resource import FakeCodec
from tests.support.scripted_api import ReceivedRequest, ScriptedApi, ScriptedReply

pytestmark = pytest.mark.anyio

WEB = EvictionRequest("shop", "web-1", "uid-1")
USER = (
    "token: secret, as: 'jörg@shop', as-uid: '7', as-groups: [viewers, 'system:a b'],"
    " as-user-extra: {'scopes/x': ['1', '2']}"
)


@pytest.fixture
async def session(api: ScriptedApi, kubeconfig: Callable[..., Path]) -> AsyncIterator[Session]:
    path = kubeconfig(api.url, USER)
    async with open_session(KubeConfigOptions(kubeconfig=str(path))) as opened:
        yield opened


def is_impersonated(request: ReceivedRequest) -> bool:
    said = [
        (name, value.encode("utf-8", "surrogateescape").decode())
        for name, value in request.headers.items()
        if name.startswith("Impersonate-")
    ]
    return said == [
        ("Impersonate-User", "jörg@shop"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "viewers"),
        ("Impersonate-Group", "system:a b"),
        ("Impersonate-Extra-scopes%2Fx", "1"),
        ("Impersonate-Extra-scopes%2Fx", "2"),
    ]


async def test_every_way_to_the_server_says_whom_it_impersonates(
    api: ScriptedApi, session: Session
) -> None:
    api.answer_next("POST", *[ScriptedReply(201, b"{}")] * 2)
    assert await ApiEvictor(session).evict(WEB) == Accepted()
    await session.request("GET", FakeCodec.path)
    async with session.stream(FakeCodec.path, {"watch": "true", "resourceVersion": "100"}):
        pass
    assert await ApiLeaseClient(session, "kube-system", "l", timeout_s=5.0).get() is None
    for method in ("PATCH", "DELETE", "PUT"):
        await session.request(method, "/x", body=b"{}")

    asked = [request.kind for request in api.requests]
    assert asked == ["POST", "list", "watch", "GET", "PATCH", "DELETE", "PUT"]
    assert [request.kind for request in api.requests if not is_impersonated(request)] == []
