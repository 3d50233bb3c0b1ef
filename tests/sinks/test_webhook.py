import asyncio
import base64
import hashlib
import hmac
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import SSLContext
from typing import NamedTuple

import anyio
import pytest
from aiohttp import web

from reactive_desched.api import event as api
from reactive_desched.errors import ConfigError, EventRefused, SinkUnavailable
from reactive_desched.journal.records import Entry
from reactive_desched.policy.recording import Webhook
from reactive_desched.sinks.sink import Sink
from reactive_desched.sinks.webhook import PORTION, WebhookSink
from reactive_desched.testing.authority import Authority
from reactive_desched.testing.entries import decided, ended, entry, evictions

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

NOW = 1_790_000_000.7
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Post(NamedTuple):
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    peer: object


class Receiver:
    """A server that keeps what it is sent and answers as scripted, at last with 204."""

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.script: list[Answer] = []
        self.url = ""

    def answer(self, *statuses: int, **headers: str) -> None:
        """Answer the next requests like this."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.script += [answering(status, named) for status in statuses]

    @asynccontextmanager
    async def serving(self, tls: SSLContext | None = None) -> AsyncIterator["Receiver"]:
        runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"{'https' if tls else 'http'}://{host}:{port}/in?a=b"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        headers = {name.lower(): value for name, value in request.headers.items()}
        peer = transport.get_extra_info("peername")
        self.posts.append(Post(request.path_qs, headers, await request.read(), peer))
        answer = self.script.pop(0) if self.script else answering(204, {})
        return await answer(request)


def answering(status: int, headers: dict[str, str]) -> Answer:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, headers=headers)

    return answer


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    """Close the connection instead of an answer."""
    assert isinstance(request.transport, asyncio.Transport)
    request.transport.abort()
    return web.Response()


async def reset(request: web.BaseRequest) -> web.StreamResponse:
    """Close the connection as a machine does that knows nothing of it."""
    assert request.transport is not None
    line = request.transport.get_extra_info("socket")
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return await cut(request)


async def never(_: web.BaseRequest) -> web.StreamResponse:
    """Wait for ever."""
    await anyio.sleep_forever()
    raise AssertionError


class Endless:
    """Succeeds, with words that never end, and counts how many got away."""

    def __init__(self) -> None:
        self.sent_bytes = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * 65_536)
            self.sent_bytes += 65_536


async def wordy(request: web.BaseRequest) -> web.StreamResponse:
    """Succeed, with some words that come a little later."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    await anyio.sleep(0.01)
    await answer.write(b"x" * 9000)
    return answer


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().serving() as serving:
        yield serving


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def sinks(clock: Clock) -> AsyncIterator[Callable[[Webhook], WebhookSink]]:
    """Return a way to make sinks that are closed in the end."""
    made: list[WebhookSink] = []

    def make(settings: Webhook) -> WebhookSink:
        made.append(WebhookSink(settings, wall=lambda: NOW, clock=clock))
        return made[-1]

    yield make
    for sink in made:
        await sink.close()


@pytest.fixture
def sink(receiver: Receiver, sinks: Callable[[Webhook], WebhookSink]) -> WebhookSink:
    return sinks(Webhook(url=receiver.url))


Sinks = Callable[[Webhook], WebhookSink]


def signed(key: bytes, post: Post) -> str:
    """Sign a request as its receiver would."""
    text = f"{post.headers['webhook-id']}.{post.headers['webhook-timestamp']}.".encode()
    return (
        "v1," + base64.b64encode(hmac.new(key, text + post.body, hashlib.sha256).digest()).decode()
    )


async def test_every_event_is_posted_in_order_as_the_very_bytes_of_its_record(
    receiver: Receiver, sink: WebhookSink
) -> None:
    some = evictions(3)
    as_sink: Sink = sink

    assert await as_sink.deliver(some) == 3
    assert [post.body for post in receiver.posts] == [one.raw for one in some]
    assert (as_sink.name, as_sink.from_start) == ("webhook", False)


async def test_a_request_is_a_structured_cloud_event_and_names_event_and_time(
    receiver: Receiver, sink: WebhookSink
) -> None:
    await sink.deliver([entry(api.EVICTION_SUCCEEDED, ended("evicted"), id_="case-7.outcome.1")])

    [post] = receiver.posts
    assert post.path == "/in?a=b"
    assert post.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert post.headers["webhook-id"] == "case-7.outcome.1"
    assert post.headers["webhook-timestamp"] == "1790000000"
    assert post.headers["user-agent"].startswith("reactive-desched/")
    assert not {"webhook-signature", "authorization", "cookie"} & set(post.headers)


async def test_one_connection_serves_all_of_them(receiver: Receiver, sink: WebhookSink) -> None:
    receiver.script.append(wordy)
    await sink.deliver(evictions(3))

    assert len({post.peer for post in receiver.posts}) == 1


async def test_only_the_types_asked_for_are_sent_and_the_others_are_done_with(
    receiver: Receiver, sinks: Sinks
) -> None:
    sink = sinks(Webhook(url=receiver.url, types=("eviction",)))
    left_out, wanted = entry(api.DECISION_DEFER, decided("defer"), 1), evictions(1, first=2)

    assert await sink.deliver([left_out, *wanted, left_out]) == 3
    assert [post.body for post in receiver.posts] == [wanted[0].raw]


def test_a_type_nobody_knows_is_refused_with_the_field(clock: Clock) -> None:
    settings = Webhook(url="https://a", types=("evicted",))
    with pytest.raises(ConfigError, match=r"sinks\.webhook\.types: .*'evicted'"):
        WebhookSink(settings, wall=clock, clock=clock)


# --- proofs ---


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        pytest.param("MfKQ9r8GKYqrTwjU\n", [b"MfKQ9r8GKYqrTwjU"], id="plain"),
        pytest.param("whsec_AAECAwQ=", [b"\0\1\2\3\4"], id="as the standard writes it"),
        pytest.param("whsec_AAECAwQ", [b"\0\1\2\3\4"], id="without padding"),
        pytest.param("  new \r\n\n old\n", [b"new", b"old"], id="two, while they are exchanged"),
    ],
)
async def test_a_request_is_signed_with_each_secret_of_the_file(
    text: str, keys: list[bytes], receiver: Receiver, sinks: Sinks, tmp_path: Path
) -> None:
    (secret := tmp_path / "secret").write_bytes(text.encode())
    await sinks(Webhook(url=receiver.url, secret_file=str(secret))).deliver(evictions(1))

    [post] = receiver.posts
    assert post.headers["webhook-signature"] == " ".join(signed(key, post) for key in keys)


async def test_new_secrets_and_tokens_count_from_the_next_request_on(
    receiver: Receiver, sinks: Sinks, tmp_path: Path
) -> None:
    secret, token = tmp_path / "secret", tmp_path / "token"

    sink = sinks(Webhook(url=receiver.url, secret_file=str(secret), token_file=str(token)))
    for word in ("one", "two"):
        secret.write_text(f"secret-{word}\n")
        token.write_text(f"token-{word}\n")
        await sink.deliver(evictions(1))

    first, second = receiver.posts
    assert first.headers["webhook-signature"] == signed(b"secret-one", first)
    assert second.headers["webhook-signature"] == signed(b"secret-two", second)
    assert first.headers["authorization"] == "Bearer token-one"
    assert second.headers["authorization"] == "Bearer token-two"


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        pytest.param("secret_file", None, "secretFile {} cannot be read: No such file", id="none"),
        pytest.param("secret_file", "\n \n", "secretFile {} is empty", id="empty"),
        pytest.param("secret_file", "a\nb\nc", "secretFile {} has 3 lines", id="a third secret"),
        pytest.param("secret_file", "whsec_?", "secretFile {}: what follows whsec_ must", id="bad"),
        pytest.param("secret_file", "whsec_", "secretFile {}: what follows whsec_ must", id="half"),
        pytest.param("secret_file", "a" * 20_000, "secretFile {} is longer than", id="too long"),
        pytest.param(
            "token_file", None, "tokenFile {} cannot be read: No such file", id="no token"
        ),
        pytest.param("token_file", "a\nb", "tokenFile {} has 2 lines", id="two tokens"),
        pytest.param("token_file", "ä", "tokenFile {} holds signs that no header", id="no ASCII"),
    ],
)
async def test_what_is_wrong_with_a_file_is_told_and_nothing_is_sent_without_proof(
    field: str, text: str | None, says: str, receiver: Receiver, sinks: Sinks, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    if text is not None:
        path.write_text(text)
    sink = sinks(Webhook.model_validate({"url": receiver.url, field: str(path)}))

    with pytest.raises(SinkUnavailable) as caught:
        await sink.deliver(evictions(1))
    assert str(caught.value).startswith(says.format(path))
    assert receiver.posts == []


# --- answers ---


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_a_success_of_any_kind_will_do(
    status: int, receiver: Receiver, sink: WebhookSink
) -> None:
    receiver.answer(status)
    assert await sink.deliver(evictions(1)) == 1


@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_an_event_that_is_found_fault_with_is_refused_for_good(
    status: int, receiver: Receiver, sink: WebhookSink
) -> None:
    receiver.answer(status)
    with pytest.raises(EventRefused, match=rf"http://127\.0\.0\.1:\d+ answered {status} \w"):
        await sink.deliver(evictions(1))


@pytest.mark.parametrize(
    ("status", "says"),
    [
        *((status, f"answered {status} ") for status in (408, 425, 429, 500, 502, 503, 504)),
        (409, "answered 409 Conflict"),
        (599, "answered 599"),
        (301, "redirects are not followed, write the final address into url"),
        (304, "redirects are not followed"),
        (401, "look at tokenFile and secretFile"),
        (403, "look at tokenFile and secretFile"),
        (404, "look at the path of url"),
        (405, "POST is not for it"),
        (410, "it wants no events any more"),
    ],
)
async def test_everything_else_is_tried_again_and_says_what_to_look_at(
    status: int, says: str, receiver: Receiver, sink: WebhookSink
) -> None:
    receiver.answer(status)
    with pytest.raises(SinkUnavailable, match=says) as caught:
        await sink.deliver(evictions(1))
    assert caught.value.retry_after_s is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("120", 120.0, id="seconds"),
        pytest.param("Mon, 21 Sep 2026 14:14:20 GMT", 59.3, id="a date"),
        pytest.param("Mon, 21 Sep 2026 14:14:20 -0000", 59.3, id="a date without a zone"),
        pytest.param("Mon, 21 Sep 2026 16:14:20 +0200", 59.3, id="a date of another zone"),
        pytest.param("Mon, 21 Sep 2020 14:14:20 GMT", 0.0, id="a date long past"),
        pytest.param("9" * 400, 999_999_999.0, id="for ever"),
        pytest.param("soon", None, id="neither"),
        pytest.param("-5", None, id="before now"),
    ],
)
async def test_it_is_tried_again_when_the_receiver_says(
    text: str, seconds: float | None, receiver: Receiver, sink: WebhookSink
) -> None:
    receiver.answer(503, Retry_After=text)
    with pytest.raises(SinkUnavailable) as caught:
        await sink.deliver(evictions(1))
    assert caught.value.retry_after_s == (None if seconds is None else pytest.approx(seconds))


async def test_nobody_is_followed_elsewhere(
    receiver: Receiver, sinks: Sinks, tmp_path: Path
) -> None:
    (token := tmp_path / "token").write_text("canary")
    async with Receiver().serving() as elsewhere:
        receiver.answer(307, Location=elsewhere.url)
        with pytest.raises(SinkUnavailable):
            await sinks(Webhook(url=receiver.url, token_file=str(token))).deliver(evictions(1))
        assert elsewhere.posts == []
    assert len(receiver.posts) == 1


async def test_cookies_are_not_kept(receiver: Receiver, sink: WebhookSink) -> None:
    receiver.answer(204, Set_Cookie="a=b")
    await sink.deliver(evictions(2))

    assert "cookie" not in receiver.posts[1].headers


async def test_what_is_done_with_counts_and_the_failure_is_raised_next(
    receiver: Receiver, sink: WebhookSink
) -> None:
    some = evictions(3)
    receiver.answer(204, 204)
    receiver.answer(503, Retry_After="7")

    assert await sink.deliver(some) == 2
    with pytest.raises(SinkUnavailable) as caught:
        await sink.deliver(some[2:])
    assert caught.value.retry_after_s == 7
    assert len(receiver.posts) == 3
    assert await sink.deliver(some[2:]) == 1
    assert [post.body for post in receiver.posts] == [one.raw for one in [*some, some[2]]]


async def test_a_failure_of_one_record_is_not_raised_for_another(
    receiver: Receiver, sink: WebhookSink
) -> None:
    some = evictions(3)
    receiver.answer(204, 503)

    assert await sink.deliver(some[:2]) == 1
    assert await sink.deliver(some[2:]) == 1


async def test_a_record_that_cannot_be_read_is_refused_and_order_goes_on(
    receiver: Receiver, sink: WebhookSink
) -> None:
    good, bad = evictions(1), Entry(2, b"{")

    assert await sink.deliver([*good, bad]) == 1
    with pytest.raises(EventRefused, match="the record cannot be read"):
        await sink.deliver([bad])


async def test_an_id_that_no_header_takes_is_refused(receiver: Receiver, sink: WebhookSink) -> None:
    bad = entry(api.EVICTION_SUCCEEDED, ended("evicted"), id_="a\r\nx-evil: 1")
    with pytest.raises(EventRefused, match="its id cannot stand in a header"):
        await sink.deliver([bad])
    assert receiver.posts == []


async def test_a_slow_receiver_does_not_keep_what_is_done_from_being_counted(
    receiver: Receiver, sink: WebhookSink, clock: Clock
) -> None:
    async def slowly(_: web.BaseRequest) -> web.StreamResponse:
        clock.now += 0.6
        return web.Response(status=204)

    receiver.script = [slowly] * 5
    assert await sink.deliver(evictions(5)) == 2


async def test_no_more_than_a_portion_is_looked_at_in_one_go(sink: WebhookSink) -> None:
    left_out = entry(api.DECISION_DEFER, decided("defer"), 1)
    sink._wanted = type(sink._wanted)("webhook", ("eviction",))

    assert await sink.deliver([left_out] * (PORTION + 1)) == PORTION


# --- the way there ---


async def test_an_answer_without_end_is_not_listened_to(
    receiver: Receiver, sink: WebhookSink
) -> None:
    endless = Endless()
    receiver.script.append(endless)
    assert await sink.deliver(evictions(2)) == 2
    assert endless.sent_bytes < 32 << 20  # what fits into the buffers on the way, and no more


async def test_an_answer_that_never_comes_is_not_waited_for(
    receiver: Receiver, sinks: Sinks
) -> None:
    receiver.script.append(never)
    sink = sinks(Webhook(url=receiver.url, timeout_s=0.05))
    with pytest.raises(SinkUnavailable, match=r"http://127\.0\.0\.1:\d+: no answer within 0\.05s"):
        await sink.deliver(evictions(1))


@pytest.mark.parametrize("end", [cut, reset])
async def test_a_line_that_is_cut_is_told_and_not_tried_twice(
    end: Answer, receiver: Receiver, sink: WebhookSink
) -> None:
    receiver.script.append(end)
    with pytest.raises(SinkUnavailable, match="it closed the connection without an answer"):
        await sink.deliver(evictions(1))
    assert len(receiver.posts) == 1


@pytest.mark.parametrize("end", [cut, reset])
async def test_a_connection_closed_while_it_was_idle_is_no_failure(
    end: Answer, receiver: Receiver, sink: WebhookSink
) -> None:
    some = evictions(2)
    await sink.deliver(some[:1])
    receiver.script.append(end)  # what a request meets that crosses the end of its connection

    assert await sink.deliver(some[1:]) == 1
    assert [post.body for post in receiver.posts] == [some[0].raw, some[1].raw, some[1].raw]


async def test_nobody_there_is_told_with_the_address_alone(sinks: Sinks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    sink = sinks(Webhook(url=f"{address}/path?key=canary"))
    with pytest.raises(SinkUnavailable) as caught:
        await sink.deliver(evictions(1))
    assert str(caught.value).startswith(f"{address}: no connection: ")
    assert "canary" not in str(caught.value)


async def test_what_does_not_speak_http_is_told(sinks: Sinks) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SinkUnavailable, match="no proper answer"):
            await sinks(Webhook(url=f"http://127.0.0.1:{port}")).deliver(evictions(1))


async def test_proxies_of_the_environment_are_not_used(
    receiver: Receiver, sink: WebhookSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Receiver().serving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        await sink.deliver(evictions(1))
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
    secure: tuple[Receiver, Path], sinks: Sinks
) -> None:
    receiver, _ = secure
    with pytest.raises(SinkUnavailable, match=r"its certificate is not to be trusted: \w+"):
        await sinks(Webhook(url=receiver.url)).deliver(evictions(1))
    assert receiver.posts == []


async def test_the_authority_of_the_settings_is_trusted(
    secure: tuple[Receiver, Path], sinks: Sinks
) -> None:
    receiver, ca_file = secure
    assert await sinks(Webhook(url=receiver.url, ca_file=str(ca_file))).deliver(evictions(2)) == 2


async def test_an_authority_that_the_system_is_told_of_is_trusted(
    secure: tuple[Receiver, Path], sinks: Sinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, ca_file = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    assert await sinks(Webhook(url=receiver.url)).deliver(evictions(1)) == 1


@pytest.mark.parametrize("text", [None, "no certificate"])
async def test_an_authority_that_cannot_be_read_is_told(
    text: str | None, receiver: Receiver, sinks: Sinks, tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    sink = sinks(Webhook(url=receiver.url, ca_file=str(path)))
    with pytest.raises(SinkUnavailable, match=f"caFile {path} cannot be used: "):
        await sink.deliver(evictions(1))
