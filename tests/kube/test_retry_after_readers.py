"""Each request that reads Retry-After reads it alike, in whatever form a server writes it."""

from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from time import time

import pytest

from reactive_desched.app.cluster import identify_cluster
from reactive_desched.errors import RequestRejected, Unreachable
from reactive_desched.kube.client import cluster_guard
from reactive_desched.kube.client.cluster_guard import NAMESPACES, ClusterGuard
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.client.patience import Patience
from reactive_desched.kube.client.session import (
    KubeConfigOptions,
    RequestLimits,
    Session,
    open_session,
)
from reactive_desched.kube.watch.initial_list import list_once
from reactive_desched.model.outcomes import EvictionRequest, TooManyRequests
from tests.support.fake_resource import FakeCodec
from tests.support.manual_clock import InstantClock
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, failing

pytestmark = pytest.mark.anyio

ASKED_S, MOST_S = 20.0, 600.0
PAGES = 600
KUBE_SYSTEM = b'{"items":[{"metadata":{"name":"kube-system","uid":"uid-1"}}]}'
WEB = EvictionRequest("shop", "web-1", "uid-1")

FORMS = pytest.mark.parametrize(
    ("write", "wait_s"),
    [
        pytest.param(lambda _: "20", ASKED_S, id="seconds"),
        pytest.param(lambda now: formatdate(now + 20, usegmt=True), ASKED_S, id="a date"),
        pytest.param(lambda now: formatdate(now - 20, usegmt=True), None, id="a date that is past"),
        pytest.param(lambda _: "0", None, id="0"),
        pytest.param(lambda _: "-20", None, id="negative"),
        pytest.param(lambda _: "soon", None, id="no number and no date"),
        pytest.param(lambda _: "", None, id="empty"),
        pytest.param(lambda _: "1000000000", MOST_S, id="thirty years"),
    ],
)
"""How a server writes the wait, by its time of day; and the wait, None where it asks for none."""

Write = Callable[[float], str]


def about(wait_s: float | None) -> object:
    """Return what equals this wait: dates have whole seconds."""
    return wait_s if wait_s is None else pytest.approx(wait_s, abs=2.0)


@FORMS
@pytest.mark.parametrize("kind", ["list", "watch"])
async def test_lists_and_watches(
    api: ScriptedApi, mirror: ReflectorHarness, kind: str, write: Write, wait_s: float | None
) -> None:
    asked = {"Retry-After": write(mirror.clock.wall())}
    api.answer_next(kind, failing(429, **asked))
    async with mirror.running():
        waited_s = await mirror.wait_for_backoff()
    if wait_s is None:
        assert 0.8 <= waited_s < 1.6
    else:
        assert waited_s == about(wait_s)


@FORMS
async def test_further_pages(
    api: ScriptedApi, session: Session, write: Write, wait_s: float | None
) -> None:
    api.objects.update({f"t{number}": "1" for number in range(PAGES)})
    clock = InstantClock()
    api.answer_next("list", None, failing(503, **{"Retry-After": write(clock.wall())}))
    listing = list_once(session, FakeCodec(), lambda _: None, clock=clock)
    if wait_s == MOST_S:  # the continue token would not live as long
        with pytest.raises(RequestRejected) as caught:
            await listing
        assert caught.value.retry_after_s == MOST_S
        assert clock.slept_s == []
        return
    assert len((await listing).items) == PAGES
    [slept_s] = clock.slept_s
    if wait_s is None:
        assert 0.2 <= slept_s < 0.4
    else:
        assert slept_s == about(wait_s)


@FORMS
async def test_evictions(
    api: ScriptedApi, session: Session, write: Write, wait_s: float | None
) -> None:
    api.answer_next("POST", failing(429, **{"Retry-After": write(time())}))
    answer = await ApiEvictor(session).evict(WEB)
    assert isinstance(answer, TooManyRequests)
    assert answer.retry_after_s == about(wait_s)


@FORMS
async def test_commands_that_ask_which_cluster_it_is(
    api: ScriptedApi, session: Session, write: Write, wait_s: float | None
) -> None:
    api.answer_next("GET", failing(503, **{"Retry-After": write(time())}))
    with pytest.raises(RequestRejected) as caught:
        await identify_cluster(session, "", "here")
    assert caught.value.retry_after_s == about(wait_s)

    clock = InstantClock()
    is_waited_for = await Patience(clock).waited_after(caught.value)
    assert is_waited_for is (wait_s != MOST_S)
    assert clock.slept_s == [about(wait_s or 0.5)] * is_waited_for


@FORMS
async def test_connections_that_are_asked_which_cluster_they_lead_to(
    kubeconfig: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    write: Write,
    wait_s: float | None,
) -> None:
    monkeypatch.setattr(cluster_guard, "_BUSY_S", 0.001)
    async with ScriptedApi(NAMESPACES).serving() as api:
        guard = ClusterGuard()
        guard.uid = "uid-1"
        options = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))
        limits = RequestLimits(connect_s=5.0)  # no wait that is longer is begun
        async with open_session(options, limits=limits, cluster=guard) as session:
            refusal = failing(429, **{"Retry-After": write(time())})
            api.answer_next("list", refusal, ScriptedReply(body=KUBE_SYSTEM))
            if wait_s is None:
                assert (await session.request("GET", "/x")).status == HTTPStatus.NOT_FOUND
            else:
                with pytest.raises(Unreachable, match="429"):
                    await session.request("GET", "/x")
