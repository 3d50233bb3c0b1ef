import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from reactive_desched.api import event as api
from reactive_desched.api.sink import Sink
from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import WebhookSettings
from reactive_desched.sinks.webhook.sink import MAX_BATCH_RECORDS, WebhookSink
from tests.support.authority import CertificateAuthority
from tests.support.entries import decision_data, entry, eviction_entries, outcome_data
from tests.support.golden import Golden
from tests.support.ports import free_port
from tests.support.receiver import (
    EndlessBody,
    ScriptedAnswer,
    WebhookReceiver,
    close_connection,
    never_answer,
    reset_connection,
    slow_body,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Sinks = Callable[[WebhookSettings], WebhookSink]


async def test_every_event_is_posted_in_order_as_the_very_bytes_of_its_record(
    receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    some = eviction_entries(3)
    as_sink: Sink = webhook

    assert await as_sink.deliver(some) == 3
    assert [post.body for post in receiver.posts] == [one.raw for one in some]
    assert (as_sink.name, as_sink.from_start) == ("webhook", False)


async def test_a_request_is_a_structured_cloud_event_and_names_event_and_time(
    receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    await webhook.deliver(
        [entry(api.EVICTION_SUCCEEDED, outcome_data("evicted"), id_="case-7.outcome.1")]
    )

    [post] = receiver.posts
    assert post.path == "/in?a=b"
    assert post.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert post.headers["webhook-id"] == "case-7.outcome.1"
    assert post.headers["webhook-timestamp"] == "1790000000"
    assert post.headers["user-agent"].startswith("reactive-desched/")
    assert not {"webhook-signature", "authorization", "cookie"} & set(post.headers)


async def test_one_connection_serves_all_of_them(
    receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    receiver.script.append(slow_body)
    await webhook.deliver(eviction_entries(3))

    assert len({post.peer for post in receiver.posts}) == 1


async def test_only_the_types_asked_for_are_sent_and_the_others_are_done_with(
    receiver: WebhookReceiver, webhooks: Sinks
) -> None:
    webhook = webhooks(WebhookSettings(url=receiver.url, types=("eviction",)))
    left_out, wanted = (
        entry(api.DECISION_DEFER, decision_data("defer"), 1),
        eviction_entries(1, first=2),
    )

    assert await webhook.deliver([left_out, *wanted, left_out]) == 3
    assert [post.body for post in receiver.posts] == [wanted[0].raw]


async def test_no_redirect_is_followed(
    receiver: WebhookReceiver, webhooks: Sinks, tmp_path: Path
) -> None:
    (token := tmp_path / "token").write_text("canary")
    async with WebhookReceiver().serving() as elsewhere:
        receiver.answer(307, Location=elsewhere.url)
        with pytest.raises(SinkUnavailable):
            await webhooks(WebhookSettings(url=receiver.url, token_file=str(token))).deliver(
                eviction_entries(1)
            )
        assert elsewhere.posts == []
    assert len(receiver.posts) == 1


async def test_cookies_are_not_kept(receiver: WebhookReceiver, webhook: WebhookSink) -> None:
    receiver.answer(204, Set_Cookie="a=b")
    await webhook.deliver(eviction_entries(2))

    assert "cookie" not in receiver.posts[1].headers


async def test_what_is_done_with_counts_and_the_failure_is_raised_next(
    receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    some = eviction_entries(3)
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
    receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    some = eviction_entries(3)
    receiver.answer(204, 503)

    assert await webhook.deliver(some[:2]) == 1
    assert await webhook.deliver(some[2:]) == 1


async def test_a_record_that_cannot_be_read_is_refused_and_order_continues(
    receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    good, bad = eviction_entries(1), JournalRecord(2, b"{")

    assert await webhook.deliver([*good, bad]) == 1
    with pytest.raises(EventRejected, match="the record cannot be read"):
        await webhook.deliver([bad])


async def test_an_id_that_no_header_takes_is_refused(
    receiver: WebhookReceiver, webhook: WebhookSink, golden: Golden
) -> None:
    bad = entry(api.EVICTION_SUCCEEDED, outcome_data("evicted"), id_="a\r\nx-evil: 1")
    with pytest.raises(EventRejected) as caught:
        await webhook.deliver([bad])

    assert golden() in str(caught.value)
    assert receiver.posts == []


async def test_a_slow_receiver_does_not_keep_what_is_done_from_being_counted(
    receiver: WebhookReceiver,
) -> None:
    now = 0.0

    async def slowly(_: web.BaseRequest) -> web.StreamResponse:
        nonlocal now
        now += 0.6
        return web.Response(status=204)

    receiver.script = [slowly] * 5
    webhook = WebhookSink(WebhookSettings(url=receiver.url), wall=lambda: 0.0, clock=lambda: now)
    assert await webhook.deliver(eviction_entries(5)) == 2
    await webhook.close()


async def test_no_more_than_a_portion_is_looked_at_in_one_go(
    receiver: WebhookReceiver, webhooks: Sinks
) -> None:
    webhook = webhooks(WebhookSettings(url=receiver.url, types=("eviction",)))
    left_out = entry(api.DECISION_DEFER, decision_data("defer"), 1)

    assert await webhook.deliver([left_out] * (MAX_BATCH_RECORDS + 1)) == MAX_BATCH_RECORDS


# --- the way there ---


async def test_an_answer_without_end_is_not_listened_to(
    receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    endless = EndlessBody()
    receiver.script.append(endless)
    assert await webhook.deliver(eviction_entries(2)) == 2
    assert endless.sent_bytes < 32 << 20  # what fits into the buffers on the way, and no more


async def test_an_answer_that_never_comes_is_not_waited_for(
    receiver: WebhookReceiver, webhooks: Sinks
) -> None:
    receiver.script.append(never_answer)
    webhook = webhooks(WebhookSettings(url=receiver.url, timeout_s=0.05))
    with pytest.raises(SinkUnavailable, match=r"http://127\.0\.0\.1:\d+: no answer within 0\.05s"):
        await webhook.deliver(eviction_entries(1))


@pytest.mark.parametrize("end", [close_connection, reset_connection])
async def test_a_line_that_is_cut_is_reported_and_not_tried_twice(
    end: ScriptedAnswer, receiver: WebhookReceiver, webhook: WebhookSink, golden: Golden
) -> None:
    receiver.script.append(end)
    with pytest.raises(SinkUnavailable) as caught:
        await webhook.deliver(eviction_entries(1))

    assert golden() in str(caught.value)
    assert len(receiver.posts) == 1


@pytest.mark.parametrize("end", [close_connection, reset_connection])
async def test_a_connection_closed_while_it_was_idle_is_no_failure(
    end: ScriptedAnswer, receiver: WebhookReceiver, webhook: WebhookSink
) -> None:
    some = eviction_entries(2)
    await webhook.deliver(some[:1])
    receiver.script.append(end)  # what a request meets that crosses the end of its connection

    assert await webhook.deliver(some[1:]) == 1
    assert [post.body for post in receiver.posts] == [some[0].raw, some[1].raw, some[1].raw]


async def test_a_refused_connection_is_reported_with_the_address_alone(webhooks: Sinks) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    webhook = webhooks(WebhookSettings(url=f"{address}/path?key=canary"))
    with pytest.raises(SinkUnavailable) as caught:
        await webhook.deliver(eviction_entries(1))
    assert str(caught.value).startswith(f"{address}: no connection: ")
    assert "canary" not in str(caught.value)


async def test_what_does_not_speak_http_is_reported(webhooks: Sinks) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SinkUnavailable, match="no proper answer"):
            await webhooks(WebhookSettings(url=f"http://127.0.0.1:{port}")).deliver(
                eviction_entries(1)
            )


async def test_to_this_machine_no_proxy_of_the_environment_is_used(
    receiver: WebhookReceiver, webhook: WebhookSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with WebhookReceiver().serving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        await webhook.deliver(eviction_entries(1))
        assert proxy.posts == []
    assert len(receiver.posts) == 1


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[tuple[WebhookReceiver, Path]]:
    """Return a receiver that speaks TLS, and the authority to trust."""
    authority = CertificateAuthority()
    tls = authority.server_context(tmp_path, "127.0.0.1")
    async with WebhookReceiver().serving(tls) as serving:
        yield serving, authority.write(tmp_path / "authority.pem")


async def test_a_certificate_is_checked_and_nothing_is_sent_before(
    secure: tuple[WebhookReceiver, Path], webhooks: Sinks, golden: Golden
) -> None:
    receiver, _ = secure
    with pytest.raises(SinkUnavailable) as caught:
        await webhooks(WebhookSettings(url=receiver.url)).deliver(eviction_entries(1))

    assert golden() in str(caught.value)
    assert receiver.posts == []


async def test_the_authority_of_the_settings_is_trusted(
    secure: tuple[WebhookReceiver, Path], webhooks: Sinks
) -> None:
    receiver, ca_file = secure
    assert (
        await webhooks(WebhookSettings(url=receiver.url, ca_file=str(ca_file))).deliver(
            eviction_entries(2)
        )
        == 2
    )


async def test_an_authority_of_the_system_is_trusted(
    secure: tuple[WebhookReceiver, Path], webhooks: Sinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, ca_file = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    assert await webhooks(WebhookSettings(url=receiver.url)).deliver(eviction_entries(1)) == 1


@pytest.mark.parametrize("text", [None, "no certificate"])
async def test_an_authority_that_cannot_be_read_is_reported(
    text: str | None, receiver: WebhookReceiver, webhooks: Sinks, tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    webhook = webhooks(WebhookSettings(url=receiver.url, ca_file=str(path)))
    with pytest.raises(SinkUnavailable, match=f"caFile {path} cannot be used: "):
        await webhook.deliver(eviction_entries(1))
