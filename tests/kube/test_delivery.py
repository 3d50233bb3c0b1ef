"""Before an eviction a watch is opened whose first line is due at once."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import anyio
import pytest

from reactive_desched.kube.client.cluster_guard import NAMESPACES
from reactive_desched.kube.client.session import KubeConfigOptions, open_session
from reactive_desched.kube.watch.late_watches import LIVE, DeliveryCheck, LateWatches
from tests.support.manual_clock import ManualClock, run_clock
from tests.support.misbehaving_proxy import (
    Buffered,
    Compressed,
    CutAfter,
    Fault,
    Flushed,
    HeadersWithTheFirstByte,
    MisbehavingProxy,
    Refused,
    Truncated,
)
from tests.support.scripted_api import ScriptedApi, ScriptedReply

pytestmark = [pytest.mark.anyio, pytest.mark.waits]

PODS = "/api/v1/pods"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def late(clock: ManualClock) -> LateWatches:
    return LateWatches(clock)


@pytest.fixture
async def namespaces(clock: ManualClock) -> AsyncIterator[ScriptedApi]:
    """A server that ends watches by the test's clock, and begins them with what there is."""
    server = ScriptedApi(NAMESPACES)
    server.clock = clock
    async with server.serving():
        server.restore(0)
        server.put("kube-system", "a")
        yield server


@asynccontextmanager
async def checking(
    server: ScriptedApi,
    clock: ManualClock,
    late: LateWatches,
    kubeconfig: Callable[..., Path],
    fault: Fault | None,
) -> AsyncIterator[DeliveryCheck]:
    """Check behind a proxy, while the test's clock runs twice as fast as the machine's."""

    async with MisbehavingProxy(server.url, lambda _: fault).serving() as proxy:
        config = KubeConfigOptions(kubeconfig=str(kubeconfig(proxy.url)))
        async with open_session(config) as session, anyio.create_task_group() as beside:
            beside.start_soon(run_clock, clock, 2)
            yield DeliveryCheck(session, clock, late)
            beside.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("fault", "is_late"),
    [
        pytest.param(None, False, id="none"),
        pytest.param(HeadersWithTheFirstByte(), False, id="headers come with the first byte"),
        pytest.param(Buffered(), True, id="all is held"),
        pytest.param(Buffered(holds_headers=False), True, id="all but headers is held"),
        pytest.param(Buffered(4096, holds_headers=False), True, id="4 KiB are held"),
        pytest.param(Buffered(1, holds_headers=False), False, id="each byte is sent on"),
        pytest.param(Compressed(), True, id="a compressor holds it"),
        pytest.param(Buffered(64, holds_headers=False), True, id="the end of a line is held"),
        pytest.param(Refused(429), False, id="429"),
        pytest.param(Refused(403), False, id="403"),
        pytest.param(CutAfter(20), False, id="a line is cut"),
        pytest.param(Truncated(0), False, id="nothing comes"),
    ],
)
async def test_a_proxy_that_keeps_back_the_first_line_is_found_before_an_eviction(
    namespaces: ScriptedApi,
    clock: ManualClock,
    late: LateWatches,
    kubeconfig: Callable[..., Path],
    fault: Fault | None,
    *,
    is_late: bool,
) -> None:
    async with checking(namespaces, clock, late, kubeconfig, fault) as delivery:
        with anyio.fail_after(30):
            await delivery.caught_up()
    assert late.are_late is is_late
    assert ("came with its end" in late.message()) is is_late


async def test_a_process_that_stands_still_while_it_asks_takes_that_for_no_proxy(
    namespaces: ScriptedApi,
    clock: ManualClock,
    late: LateWatches,
    kubeconfig: Callable[..., Path],
) -> None:
    standstills = [4.0]

    async def stand_still() -> None:
        clock.advance(standstills.pop() if standstills else 0.0)

    namespaces.before_answering = stand_still
    async with checking(namespaces, clock, late, kubeconfig, None) as delivery:
        with anyio.fail_after(30):
            assert await delivery.caught_up()
    assert not standstills
    assert not late.are_late


@pytest.mark.parametrize(
    ("after_s", "is_late"),
    [
        pytest.param(0.3, False, id="soon"),
        pytest.param(1.7, True, id="shortly before the end"),
        pytest.param(3.0, True, id="after the end"),
    ],
)
async def test_a_proxy_that_sends_what_it_has_from_time_to_time_is_found_where_that_is_seldom(
    namespaces: ScriptedApi,
    clock: ManualClock,
    late: LateWatches,
    kubeconfig: Callable[..., Path],
    after_s: float,
    *,
    is_late: bool,
) -> None:
    fault = Flushed(after_s, clock.sleep)
    async with checking(namespaces, clock, late, kubeconfig, fault) as delivery:
        with anyio.fail_after(30):
            await delivery.caught_up()
    assert late.are_late is is_late


@pytest.mark.parametrize(
    ("after_body", "says"),
    [
        pytest.param("hang", "not come in 5 s", id="nothing comes at all"),
        pytest.param("cut", "come before it broke off", id="it is cut"),
    ],
)
async def test_a_first_line_that_does_not_come_in_time_shows_that_watches_are_late(
    namespaces: ScriptedApi,
    clock: ManualClock,
    late: LateWatches,
    kubeconfig: Callable[..., Path],
    after_body: Literal["hang", "cut"],
    says: str,
) -> None:
    async def answer_later() -> None:
        await clock.sleep(1.5 if after_body == "cut" else 0)

    namespaces.before_answering = answer_later
    reply = ScriptedReply(body=b'{"type": "A', after_body=after_body)
    namespaces.answer_next("watch", *[reply] * (3 if after_body == "cut" else 2))
    async with checking(namespaces, clock, late, kubeconfig, None) as delivery:
        with anyio.fail_after(30):
            await delivery.caught_up()
    assert says in late.message()


async def test_a_watch_that_breaks_once_before_its_first_line_shows_nothing(
    namespaces: ScriptedApi, clock: ManualClock, late: LateWatches, kubeconfig: Callable[..., Path]
) -> None:
    async def answer_later() -> None:
        await clock.sleep(1.5 if namespaces.count("watch") == 1 else 0)

    namespaces.before_answering = answer_later
    namespaces.answer_next("watch", ScriptedReply(body=b'{"type": "A', after_body="cut"))
    async with checking(namespaces, clock, late, kubeconfig, None) as delivery:
        with anyio.fail_after(30):
            await delivery.caught_up()
    assert not late.are_late


async def test_a_slow_server_whose_watch_stays_open_after_its_first_line_keeps_nothing_back(
    namespaces: ScriptedApi, clock: ManualClock, late: LateWatches, kubeconfig: Callable[..., Path]
) -> None:
    async def answer_later() -> None:
        await clock.sleep(1.5)

    namespaces.before_answering = answer_later
    async with checking(namespaces, clock, late, kubeconfig, None) as delivery:
        with anyio.fail_after(30):
            await delivery.caught_up()
    assert not late.are_late


async def test_each_decision_waits_for_a_proxy_that_sends_what_it_has_from_time_to_time(
    namespaces: ScriptedApi, clock: ManualClock, late: LateWatches, kubeconfig: Callable[..., Path]
) -> None:
    fault = Flushed(0.3, clock.sleep)
    async with checking(namespaces, clock, late, kubeconfig, fault) as delivery:
        with anyio.fail_after(30):
            await delivery.caught_up()
            for _ in range(3):
                decided_at = clock.now()
                await delivery.caught_up()
                assert clock.now() - decided_at > 2 * 0.3 - 0.01
    assert not late.are_late


async def test_a_decision_waits_for_kinds_once_the_proxy_is_found(
    namespaces: ScriptedApi, clock: ManualClock, late: LateWatches, kubeconfig: Callable[..., Path]
) -> None:
    late.note_in_sync(PODS, LIVE)
    held = Buffered(4096, holds_headers=False)
    returned: list[float] = []

    async with checking(namespaces, clock, late, kubeconfig, held) as delivery:

        async def decide() -> None:
            await delivery.caught_up()
            returned.append(clock.now())

        async with anyio.create_task_group() as deciding:
            decided_at = clock.now()
            deciding.start_soon(decide)
            with anyio.fail_after(30):
                await late.noted.wait_past(0)
            late.note_in_sync(PODS, decided_at - 0.1)
            await clock.sleep(1)
            assert not returned
            late.note_in_sync(PODS, decided_at)
    assert returned


async def test_decisions_share_an_answer_until_it_is_old_or_a_watch_is_opened(
    namespaces: ScriptedApi, clock: ManualClock, late: LateWatches, kubeconfig: Callable[..., Path]
) -> None:
    async with checking(namespaces, clock, late, kubeconfig, None) as delivery:

        async def asked_by(decisions: int) -> int:
            before = len(namespaces.requests)
            async with anyio.create_task_group() as deciding:
                for _ in range(decisions):
                    deciding.start_soon(delivery.caught_up)
            return len(namespaces.requests) - before

        assert await asked_by(20) == 1
        assert await asked_by(1) == 0
        await clock.sleep(0.1)
        late.note_in_sync(PODS, LIVE)
        assert await asked_by(2) == 1
        await clock.sleep(10)
        assert await asked_by(2) == 1


async def test_nothing_is_asked_while_watches_are_known_to_be_late(
    namespaces: ScriptedApi, clock: ManualClock, late: LateWatches, kubeconfig: Callable[..., Path]
) -> None:
    late.note("watch of another kind: its changes arrive late")
    async with checking(namespaces, clock, late, kubeconfig, None) as delivery:
        await delivery.caught_up()
    assert namespaces.requests == []
