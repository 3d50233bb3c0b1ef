import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from reactive_desched.api import event as api
from reactive_desched.errors import EventRefused, SinkUnavailable
from reactive_desched.journal.records import Entry
from reactive_desched.policy.recording import Webhook
from reactive_desched.sinks.sink import Sink
from reactive_desched.sinks.webhook.sink import PORTION, WebhookSink
from tests.support.authority import Authority
from tests.support.entries import decided, ended, entry, evictions
from tests.support.receiver import Answer, Endless, Receiver, cut, never, reset, wordy

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Sinks = Callable[[Webhook], WebhookSink]


async def test_every_event_is_posted_in_order_as_the_very_bytes_of_its_record(
    receiver: Receiver, webhook: WebhookSink
) -> None:
    some = evictions(3)
    as_sink: Sink = webhook

    assert await as_sink.deliver(some) == 3
    assert [post.body for post in receiver.posts] == [one.raw for one in some]
    assert (as_sink.name, as_sink.from_start) == ("webhook", False)


async def test_a_request_is_a_structured_cloud_event_and_names_event_and_time(
    receiver: Receiver, webhook: WebhookSink
) -> None:
    await webhook.deliver([entry(api.EVICTION_SUCCEEDED, ended("evicted"), id_="case-7.outcome.1")])

    [post] = receiver.posts
    assert post.path == "/in?a=b"
    assert post.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert post.headers["webhook-id"] == "case-7.outcome.1"
    assert post.headers["webhook-timestamp"] == "1790000000"
    assert post.headers["user-agent"].startswith("reactive-desched/")
    assert not {"webhook-signature", "authorization", "cookie"} & set(post.headers)


async def test_one_connection_serves_all_of_them(receiver: Receiver, webhook: WebhookSink) -> None:
    receiver.script.append(wordy)
    await webhook.deliver(evictions(3))

    assert len({post.peer for post in receiver.posts}) == 1


async def test_only_the_types_asked_for_are_sent_and_the_others_are_done_with(
    receiver: Receiver, webhooks: Sinks
) -> None:
    webhook = webhooks(Webhook(url=receiver.url, types=("eviction",)))
    left_out, wanted = entry(api.DECISION_DEFER, decided("defer"), 1), evictions(1, first=2)

    assert await webhook.deliver([left_out, *wanted, left_out]) == 3
    assert [post.body for post in receiver.posts] == [wanted[0].raw]


async def test_nobody_is_followed_elsewhere(
    receiver: Receiver, webhooks: Sinks, tmp_path: Path
) -> None:
    (token := tmp_path / "token").write_text("canary")
    async with Receiver().serving() as elsewhere:
        receiver.answer(307, Location=elsewhere.url)
        with pytest.raises(SinkUnavailable):
            await webhooks(Webhook(url=receiver.url, token_file=str(token))).deliver(evictions(1))
        assert elsewhere.posts == []
    assert len(receiver.posts) == 1


async def test_cookies_are_not_kept(receiver: Receiver, webhook: WebhookSink) -> None:
    receiver.answer(204, Set_Cookie="a=b")
    await webhook.deliver(evictions(2))

    assert "cookie" not in receiver.posts[1].headers


async def test_what_is_done_with_counts_and_the_failure_is_raised_next(
    receiver: Receiver, webhook: WebhookSink
) -> None:
    some = evictions(3)
    receiver.answer(204, 204)
    receiver.answer(503, Retry_After="7")

    assert await webhook.deliver(some) == 2
    with pytest.raises(SinkUnavailable) as caught:
        await webhook.deliver(some[2:])
    assert caught.value.retry_after_s == 7
    assert len(receiver.posts) == 3
    assert await webhook.deliver(some[2:]) == 1
    assert [post.body for post in receiver.posts] == [one.raw for one in [*some, some[2]]]


async def test_a_failure_of_one_record_is_not_raised_for_another(
    receiver: Receiver, webhook: WebhookSink
) -> None:
    some = evictions(3)
    receiver.answer(204, 503)

    assert await webhook.deliver(some[:2]) == 1
    assert await webhook.deliver(some[2:]) == 1


async def test_a_record_that_cannot_be_read_is_refused_and_order_goes_on(
    receiver: Receiver, webhook: WebhookSink
) -> None:
    good, bad = evictions(1), Entry(2, b"{")

    assert await webhook.deliver([*good, bad]) == 1
    with pytest.raises(EventRefused, match="the record cannot be read"):
        await webhook.deliver([bad])


async def test_an_id_that_no_header_takes_is_refused(
    receiver: Receiver, webhook: WebhookSink
) -> None:
    bad = entry(api.EVICTION_SUCCEEDED, ended("evicted"), id_="a\r\nx-evil: 1")
    with pytest.raises(EventRefused, match="its id cannot stand in a header"):
        await webhook.deliver([bad])
    assert receiver.posts == []


async def test_a_slow_receiver_does_not_keep_what_is_done_from_being_counted(
    receiver: Receiver,
) -> None:
    now = 0.0

    async def slowly(_: web.BaseRequest) -> web.StreamResponse:
        nonlocal now
        now += 0.6
        return web.Response(status=204)

    receiver.script = [slowly] * 5
    webhook = WebhookSink(Webhook(url=receiver.url), wall=lambda: 0.0, clock=lambda: now)
    assert await webhook.deliver(evictions(5)) == 2
    await webhook.close()


async def test_no_more_than_a_portion_is_looked_at_in_one_go(
    receiver: Receiver, webhooks: Sinks
) -> None:
    webhook = webhooks(Webhook(url=receiver.url, types=("eviction",)))
    left_out = entry(api.DECISION_DEFER, decided("defer"), 1)

    assert await webhook.deliver([left_out] * (PORTION + 1)) == PORTION


# --- the way there ---


async def test_an_answer_without_end_is_not_listened_to(
    receiver: Receiver, webhook: WebhookSink
) -> None:
    endless = Endless()
    receiver.script.append(endless)
    assert await webhook.deliver(evictions(2)) == 2
    assert endless.sent_bytes < 32 << 20  # what fits into the buffers on the way, and no more


async def test_an_answer_that_never_comes_is_not_waited_for(
    receiver: Receiver, webhooks: Sinks
) -> None:
    receiver.script.append(never)
    webhook = webhooks(Webhook(url=receiver.url, timeout_s=0.05))
    with pytest.raises(SinkUnavailable, match=r"http://127\.0\.0\.1:\d+: no answer within 0\.05s"):
        await webhook.deliver(evictions(1))


@pytest.mark.parametrize("end", [cut, reset])
async def test_a_line_that_is_cut_is_told_and_not_tried_twice(
    end: Answer, receiver: Receiver, webhook: WebhookSink
) -> None:
    receiver.script.append(end)
    with pytest.raises(SinkUnavailable, match="it closed the connection without an answer"):
        await webhook.deliver(evictions(1))
    assert len(receiver.posts) == 1


@pytest.mark.parametrize("end", [cut, reset])
async def test_a_connection_closed_while_it_was_idle_is_no_failure(
    end: Answer, receiver: Receiver, webhook: WebhookSink
) -> None:
    some = evictions(2)
    await webhook.deliver(some[:1])
    receiver.script.append(end)  # what a request meets that crosses the end of its connection

    assert await webhook.deliver(some[1:]) == 1
    assert [post.body for post in receiver.posts] == [some[0].raw, some[1].raw, some[1].raw]


async def test_nobody_there_is_told_with_the_address_alone(webhooks: Sinks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    webhook = webhooks(Webhook(url=f"{address}/path?key=canary"))
    with pytest.raises(SinkUnavailable) as caught:
        await webhook.deliver(evictions(1))
    assert str(caught.value).startswith(f"{address}: no connection: ")
    assert "canary" not in str(caught.value)


async def test_what_does_not_speak_http_is_told(webhooks: Sinks) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SinkUnavailable, match="no proper answer"):
            await webhooks(Webhook(url=f"http://127.0.0.1:{port}")).deliver(evictions(1))


async def test_proxies_of_the_environment_are_not_used(
    receiver: Receiver, webhook: WebhookSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Receiver().serving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        await webhook.deliver(evictions(1))
        assert proxy.posts == []
    assert len(receiver.posts) == 1


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[tuple[Receiver, Path]]:
    """Return a receiver that speaks TLS, and the authority to trust."""
    authority = Authority()
    tls = authority.server_side(tmp_path, "127.0.0.1")
    async with Receiver().serving(tls) as serving:
        yield serving, authority.write(tmp_path / "authority.pem")


async def test_a_certificate_is_checked_and_nothing_is_sent_before(
    secure: tuple[Receiver, Path], webhooks: Sinks
) -> None:
    receiver, _ = secure
    with pytest.raises(SinkUnavailable, match=r"its certificate is not to be trusted: \w+"):
        await webhooks(Webhook(url=receiver.url)).deliver(evictions(1))
    assert receiver.posts == []


async def test_the_authority_of_the_settings_is_trusted(
    secure: tuple[Receiver, Path], webhooks: Sinks
) -> None:
    receiver, ca_file = secure
    assert (
        await webhooks(Webhook(url=receiver.url, ca_file=str(ca_file))).deliver(evictions(2)) == 2
    )


async def test_an_authority_that_the_system_is_told_of_is_trusted(
    secure: tuple[Receiver, Path], webhooks: Sinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, ca_file = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    assert await webhooks(Webhook(url=receiver.url)).deliver(evictions(1)) == 1


@pytest.mark.parametrize("text", [None, "no certificate"])
async def test_an_authority_that_cannot_be_read_is_told(
    text: str | None, receiver: Receiver, webhooks: Sinks, tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    webhook = webhooks(Webhook(url=receiver.url, ca_file=str(path)))
    with pytest.raises(SinkUnavailable, match=f"caFile {path} cannot be used: "):
        await webhook.deliver(evictions(1))
