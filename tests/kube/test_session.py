import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from reactive_desched.errors import ConfigError, RateLimited, Unreachable
from reactive_desched.kube.client.cluster_guard import ClusterGuard
from reactive_desched.kube.client.rate_limiter import RateLimit, RequestPriority
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.kube.client.session import (
    KubeConfigOptions,
    RequestLimits,
    ServerClock,
    Session,
    WatchStream,
    open_session,
)
from tests.support.authority import CertificateAuthority
from tests.support.echo_server import EchoServer
from tests.support.exposition import exposed
from tests.support.fake_resource import FakeCodec
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.ports import free_port
from tests.support.scripted_api import ScriptedApi, ScriptedReply

pytestmark = pytest.mark.anyio

QUICK = RequestLimits(connect_s=2.0, read_s=0.2, total_s=0.5, open_s=0.2)


def kubeconfig(folder: Path, cluster: str, user: str = "token: secret") -> KubeConfigOptions:
    path = folder / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
        f"clusters: [{{name: c, cluster: {{{cluster}}}}}]\n"
        f"users: [{{name: u, user: {{{user}}}}}]\n"
        "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
    )
    return KubeConfigOptions(kubeconfig=str(path))


@pytest.fixture
def closed_port() -> int:
    """A port that nobody listens on."""
    return free_port()


def requests_of(session: Session) -> dict[str, float]:
    return {name: n for name, n in exposed(session).items() if name.startswith("api_requests")}


@asynccontextmanager
async def sending_header_of(size: int) -> AsyncIterator[str]:
    """Serve an empty list whose response has a header of so many bytes."""
    body = b'{"items": [{"metadata": {"name": "kube-system", "uid": "a"}}]}'
    head = b"HTTP/1.1 200 OK\r\nX-Token: %s\r\nContent-Length: %d\r\n\r\n" % (
        b"x" * size,
        len(body),
    )

    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head + body)
        await writer.drain()

    async with EchoServer(answer).serving() as address:
        yield f"http://{address}"


async def test_a_response_may_have_headers_as_long_as_proxies_make_them(tmp_path: Path) -> None:
    async with (
        sending_header_of(60_000) as url,
        open_session(kubeconfig(tmp_path, f"server: '{url}'"), cluster=ClusterGuard()) as session,
    ):
        assert (await session.request("GET", "/version")).ok
        assert session.cluster.uid == "a"


@pytest.mark.parametrize("guard", [ClusterGuard(), None], ids=["guarded", ""])
async def test_a_header_that_is_too_long_is_named_and_not_quoted(
    guard: ClusterGuard | None, tmp_path: Path
) -> None:
    async with (
        sending_header_of(300_000) as url,
        open_session(kubeconfig(tmp_path, f"server: '{url}'"), cluster=guard) as session,
    ):
        with pytest.raises(Unreachable) as caught:
            await session.request("GET", "/version")
    assert "no valid HTTP" in str(caught.value)
    assert "xxx" not in str(caught.value)


class TestARequest:
    async def test_carries_method_parameters_body_and_content_type(
        self, api: ScriptedApi, session: Session
    ) -> None:
        api.answer_next("PATCH", ScriptedReply(200, b"done"))
        answer = await session.request(
            "PATCH",
            "/api/v1/nodes/n1",
            params={"fieldManager": "a b&c", "dryRun": "All"},
            body=b"{}",
            content_type="application/merge-patch+json",
        )
        assert (answer.status, answer.body, answer.ok) == (200, b"done", True)
        (asked,) = api.requests
        assert asked.path == "/api/v1/nodes/n1"
        assert asked.query == {"fieldManager": "a b&c", "dryRun": "All"}
        assert asked.body == b"{}"
        assert asked.headers["Content-Type"] == "application/merge-patch+json"

    async def test_brings_any_status_back_as_an_answer(
        self, api: ScriptedApi, session: Session
    ) -> None:
        api.answer_next("POST", ScriptedReply(503, b"plain text", {"Retry-After": "3"}))
        answer = await session.request("POST", "/x", body=b"{}")
        assert (answer.status, answer.ok, answer.body) == (503, False, b"plain text")
        assert answer.headers["retry-after"] == "3"

    async def test_is_counted_by_its_method_and_status_also_without_an_answer(
        self, api: ScriptedApi, session: Session, tmp_path: Path, closed_port: int
    ) -> None:
        for status in (200, 503, 503):
            api.answer_next("POST", ScriptedReply(status, b""))
            await session.request("POST", "/x", body=b"{}")
        assert requests_of(session) == {
            'api_requests_total{code="200",method="POST"}': 1,
            'api_requests_total{code="503",method="POST"}': 2,
        }

        nowhere = kubeconfig(tmp_path, f"server: 'http://127.0.0.1:{closed_port}'")
        async with open_session(nowhere) as unanswered:
            with pytest.raises(Unreachable):
                await unanswered.request("GET", "/x")
            assert requests_of(unanswered) == {'api_requests_total{code="none",method="GET"}': 1}

    async def test_does_not_follow_redirects(self, api: ScriptedApi, session: Session) -> None:
        api.answer_next("POST", ScriptedReply(307, b"", {"Location": "http://127.0.0.1:1/"}))
        assert (await session.request("POST", "/x", body=b"{}")).status == 307

    async def test_to_a_server_that_does_not_listen_was_surely_not_sent(
        self, tmp_path: Path, closed_port: int
    ) -> None:
        config = kubeconfig(tmp_path, f"server: 'http://127.0.0.1:{closed_port}'")
        async with open_session(config) as session:
            with pytest.raises(Unreachable, match="GET /x") as caught:
                await session.request("GET", "/x")
        assert not caught.value.sent
        assert caught.value.retryable

    async def test_that_is_never_answered_ends_and_may_have_been_sent(
        self, api: ScriptedApi, session: Session
    ) -> None:
        api.answer_next("POST", ScriptedReply(after_body="hang"))
        with pytest.raises(Unreachable) as caught:
            await session.request("POST", "/x", body=b"{}", limits=QUICK)
        assert caught.value.sent

    async def test_whose_connection_breaks_may_have_been_sent(
        self, api: ScriptedApi, session: Session
    ) -> None:
        api.answer_next("POST", ScriptedReply(after_body="cut"))
        with pytest.raises(Unreachable) as caught:
            await session.request("POST", "/x", body=b"{}")
        assert caught.value.sent
        assert api.count("POST") == 1

    async def test_brings_no_more_than_it_may(self, api: ScriptedApi, session: Session) -> None:
        api.answer_next("GET", ScriptedReply(body=b"x" * 5000))
        with pytest.raises(Unreachable, match="longer than 4000 bytes"):
            await session.request("GET", "/x", limits=RequestLimits(body_bytes=4000))

    async def test_is_read_into_a_buffer_whose_content_it_replaces(
        self, api: ScriptedApi, session: Session
    ) -> None:
        buffer = bytearray(b"before" * 1000)

        async def take() -> bytearray:
            return buffer

        for body in (b"a" * 5000, b"b" * 200_000, b"c", b""):
            api.answer_next("GET", ScriptedReply(body=body))
            answer = await session.request("GET", "/x", into=take)
            assert answer.body is buffer
            assert buffer == body

    async def test_of_many_uses_one_kept_alive_connection(
        self, api: ScriptedApi, session: Session
    ) -> None:
        for _ in range(5):
            await session.request("GET", "/x")
        connector = session._http.connector
        assert connector is not None
        assert sum(len(kept) for kept in connector._conns.values()) == 1

    async def test_of_later_pages_share_one_connection_however_many_others_wait(
        self, api: ScriptedApi, session: Session
    ) -> None:
        all_asked, asked = anyio.Event(), list[object]()

        async def wait_for_others() -> None:
            asked.append(None)
            if len(asked) == 4:
                all_asked.set()
            await all_asked.wait()

        api.before_answering = wait_for_others
        async with anyio.create_task_group() as calls:
            for _ in range(4):
                calls.start_soon(session.request, "GET", "/x")
        api.before_answering = None
        of_others = set(api.connections)
        assert len(of_others) == 4

        for token in ("a", "b", "c"):
            await session.request("GET", "/x", params={"limit": "500", "continue": token})
        assert len(set(api.connections) - of_others) == 1
        await session.request("GET", "/y", params={"limit": "500"})
        assert len(set(api.connections) - of_others) == 1

    async def test_for_a_further_list_of_several_pages_leaves_the_common_connections_alone(
        self, api: ScriptedApi, session: Session
    ) -> None:
        async def connection_of(
            method: str, path: str, params: dict[str, str] | None = None
        ) -> object:
            api.connections.clear()
            await session.request(method, path, params=params)
            (used,) = api.connections
            return used

        first, later = {"limit": "500"}, {"limit": "500", "continue": "a"}
        common = await connection_of("GET", "/x", first)
        of_pages = await connection_of("GET", "/x", later)
        assert of_pages != common

        assert await connection_of("GET", "/x", first) == of_pages
        assert await connection_of("GET", "/x") == of_pages
        assert await connection_of("GET", "/y", first) == common
        assert await connection_of("POST", "/x") == common
        api.connections.clear()
        async with session.stream("/x", {"watch": "true"}):
            assert [*api.connections] == [common]


class TestAStream:
    async def test_gives_lines_and_counts_bytes(self, api: ScriptedApi, session: Session) -> None:
        api.answer_next("watch", ScriptedReply(body=b"one\ntwo\n"))
        async with session.stream(api.path, {"watch": "true"}) as reply:
            assert isinstance(reply, WatchStream)
            assert [await reply.readline() for _ in range(3)] == [b"one\n", b"two\n", b""]
            assert reply.received_bytes() == 8

    async def test_that_is_refused_is_an_answer(self, api: ScriptedApi, session: Session) -> None:
        api.answer_next("watch", ScriptedReply(429, b"later", {"Retry-After": "1"}))
        async with session.stream(api.path, {"watch": "true"}) as reply:
            assert isinstance(reply, ApiResponse)
            assert (reply.status, reply.body) == (429, b"later")

    async def test_that_never_opens_is_given_up(self, api: ScriptedApi, session: Session) -> None:
        release = anyio.Event()

        async def never(*_: object) -> None:
            await release.wait()

        api.before_answering = never
        with pytest.raises(Unreachable):
            async with session.stream(api.path, {"watch": "true"}, open_s=0.2):
                pass
        release.set()

    async def test_is_closed_when_the_block_ends(self, api: ScriptedApi, session: Session) -> None:
        async with session.stream(api.path, {"watch": "true", "resourceVersion": "100"}):
            await wait_until(lambda: api.open_watches == 1)
        await wait_until(lambda: api.open_watches == 0)


class TestTheThrottle:
    async def test_makes_lists_wait_but_not_evictions(
        self, api: ScriptedApi, tmp_path: Path, clock: ManualClock
    ) -> None:
        config = kubeconfig(tmp_path, f"server: '{api.url}'")
        rate = RateLimit(qps=1, burst=3, critical_reserve=1)
        async with (
            open_session(config, rate_limit=rate, clock=clock) as session,
            anyio.create_task_group() as calls,
        ):
            for _ in range(3):
                calls.start_soon(session.request, "GET", "/list")
            await wait_until(lambda: len(api.requests) == 2)
            await session.request("POST", "/evict", body=b"{}", priority=RequestPriority.CRITICAL)
            assert session.rate_limiter.waiting == 1
            await wait_until(lambda: 0 < clock.pending_waits_s[0] <= 2)
            clock.advance(2)
        assert [asked.path for asked in api.requests] == ["/list", "/list", "/evict", "/list"]

    async def test_lets_a_watch_go_before_lists_that_wait_already(
        self, api: ScriptedApi, tmp_path: Path, clock: ManualClock
    ) -> None:
        config = kubeconfig(tmp_path, f"server: '{api.url}'")
        rate = RateLimit(qps=1, burst=1, critical_reserve=0)

        async def watch(session: Session) -> None:
            async with session.stream(api.path, {"watch": "true", "resourceVersion": "100"}):
                pass

        async with (
            open_session(config, rate_limit=rate, clock=clock) as session,
            anyio.create_task_group() as calls,
        ):
            await session.request("GET", "/first")
            calls.start_soon(session.request, "GET", "/list")
            await wait_until(lambda: session.rate_limiter.waiting == 1)
            calls.start_soon(watch, session)
            await wait_until(lambda: session.rate_limiter.waiting == 2)
            clock.advance(1)
            await wait_until(lambda: len(api.requests) == 2)
            await wait_until(lambda: len(clock.pending_waits_s) == 2)
            clock.advance(2)
        assert [asked.path for asked in api.requests] == ["/first", api.path, "/list"]

    async def test_refuses_when_too_many_wait(
        self, api: ScriptedApi, tmp_path: Path, clock: ManualClock
    ) -> None:
        config = kubeconfig(tmp_path, f"server: '{api.url}'")
        rate = RateLimit(qps=1, burst=1, critical_reserve=0, max_waiting=0)
        async with open_session(config, rate_limit=rate, clock=clock) as session:
            await session.request("GET", "/x")
            with pytest.raises(RateLimited):
                await session.request("GET", "/x")


class TestCredentials:
    async def test_are_read_again_every_minute(
        self, api: ScriptedApi, tmp_path: Path, clock: ManualClock
    ) -> None:
        token = tmp_path / "token"
        token.write_text("first")
        config = kubeconfig(tmp_path, f"server: '{api.url}'", f"tokenFile: '{token}'")
        async with open_session(config, clock=clock) as session:
            token.write_text("second")
            await session.request("GET", "/x")
            await wait_until(lambda: clock.pending_waits_s == [60.0])
            clock.advance(60)
            await wait_until(lambda: session.credentials.config.headers != access_of("first"))
            await session.request("GET", "/x")
        assert [asked.headers["Authorization"] for asked in api.requests] == [
            "Bearer first",
            "Bearer second",
        ]

    async def test_are_read_again_after_a_401_but_not_more_than_once_in_five_seconds(
        self, api: ScriptedApi, tmp_path: Path, clock: ManualClock
    ) -> None:
        token = tmp_path / "token"
        token.write_text("first")
        config = kubeconfig(tmp_path, f"server: '{api.url}'", f"tokenFile: '{token}'")
        api.answer_next("GET", ScriptedReply(401))
        async with open_session(config, clock=clock) as session:
            token.write_text("second")
            assert (await session.request("GET", "/x")).status == 401
            await wait_until(lambda: clock.pending_waits_s == [5.0])
            assert session.credentials.config.headers == access_of("first")
            clock.advance(5)
            await wait_until(lambda: session.credentials.config.headers == access_of("second"))
            await wait_until(lambda: clock.pending_waits_s == [60.0])

    async def test_are_read_again_after_a_watch_was_answered_with_401(
        self, api: ScriptedApi, tmp_path: Path, clock: ManualClock
    ) -> None:
        config = kubeconfig(tmp_path, f"server: '{api.url}'")
        api.answer_next("watch", ScriptedReply(401))
        async with open_session(config, clock=clock) as session:
            await wait_until(lambda: clock.pending_waits_s == [60.0])
            async with session.stream(api.path, {"watch": "true"}):
                await wait_until(lambda: clock.pending_waits_s == [5.0])

    async def test_from_a_plugin_that_names_no_end_are_read_again_only_after_a_401(
        self, api: ScriptedApi, tmp_path: Path, clock: ManualClock
    ) -> None:
        runs = tmp_path / "runs"
        script = tmp_path / "plugin"
        answer = (
            '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
            '"status":{"token":"abc"}}'
        )
        script.write_text(f"#!/bin/sh\necho x >> {runs}\necho '{answer}'\n")
        script.chmod(0o700)
        user = f"exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{script}'}}"
        config = kubeconfig(tmp_path, f"server: '{api.url}'", user)
        async with open_session(config, clock=clock) as session:
            for _ in range(3):
                await wait_until(lambda: clock.pending_waits_s == [60.0])
                clock.advance(60)
            assert runs.read_text() == "x\n"
            session.credentials.invalidate(session.credentials.config)
            await wait_until(lambda: runs.read_text() == "x\nx\n")

    async def test_that_cannot_be_read_again_stay_as_they_are_and_say_why(
        self, api: ScriptedApi, tmp_path: Path, clock: ManualClock
    ) -> None:
        token = tmp_path / "token"
        token.write_text("first")
        config = kubeconfig(tmp_path, f"server: '{api.url}'", f"tokenFile: '{token}'")
        async with open_session(config, clock=clock) as session:
            token.unlink()
            await wait_until(lambda: clock.pending_waits_s == [60.0])
            clock.advance(60)
            await wait_until(lambda: session.credentials.last_error is not None)
            assert str(token) in str(session.credentials.last_error)
            assert session.credentials.config.headers == access_of("first")

    async def test_that_cannot_be_read_at_first_are_an_error(self, tmp_path: Path) -> None:
        config = kubeconfig(tmp_path, "server: 'http://127.0.0.1:1'", "tokenFile: /no/such/token")
        with pytest.raises(ConfigError, match="/no/such/token"):
            async with open_session(config):
                pass


def access_of(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


Serving = Callable[..., AbstractAsyncContextManager[ScriptedApi]]


class TestTls:
    @pytest.fixture
    def serving(self, authority: CertificateAuthority, tmp_path: Path) -> Serving:
        """Return a way to serve some host over TLS."""

        @asynccontextmanager
        async def serve(*hosts: str, ask_clients: bool = False) -> AsyncIterator[ScriptedApi]:
            tls = authority.server_context(tmp_path, *hosts, ask_clients=ask_clients)
            async with ScriptedApi(FakeCodec.path).serving(tls) as api:
                yield api

        return serve

    async def ask(self, config: KubeConfigOptions) -> int:
        async with open_session(config) as session:
            return (await session.request("GET", FakeCodec.path)).status

    async def test_a_server_signed_by_the_given_authority_is_trusted(
        self, serving: Serving, tmp_path: Path, ca_file: Path
    ) -> None:
        async with serving("127.0.0.1") as api:
            cluster = f"server: '{api.url}', certificate-authority: '{ca_file}'"
            assert await self.ask(kubeconfig(tmp_path, cluster)) == 200

    async def test_a_server_signed_by_another_is_not_and_nothing_was_sent(
        self, serving: Serving, tmp_path: Path, other_ca_file: Path
    ) -> None:
        async with serving("127.0.0.1") as api:
            cluster = f"server: '{api.url}', certificate-authority: '{other_ca_file}'"
            with pytest.raises(Unreachable, match="certificate verify failed") as caught:
                await self.ask(kubeconfig(tmp_path, cluster))
        assert not caught.value.sent

    async def test_checking_can_be_given_up(self, serving: Serving, tmp_path: Path) -> None:
        async with serving("elsewhere.example") as api:
            cluster = f"server: '{api.url}', insecure-skip-tls-verify: true"
            assert await self.ask(kubeconfig(tmp_path, cluster)) == 200

    async def test_the_server_may_have_another_name_than_its_address(
        self, serving: Serving, tmp_path: Path, ca_file: Path
    ) -> None:
        async with serving("api.example") as api:
            cluster = f"server: '{api.url}', certificate-authority: '{ca_file}'"
            named = f"{cluster}, tls-server-name: api.example"
            assert await self.ask(kubeconfig(tmp_path, named)) == 200
            with pytest.raises(Unreachable):
                await self.ask(kubeconfig(tmp_path, cluster))

    async def test_a_pod_uses_its_account_and_a_rotated_token_within_a_minute(
        self, serving: Serving, tmp_path: Path, authority: CertificateAuthority, clock: ManualClock
    ) -> None:
        account = tmp_path / "serviceaccount"
        account.mkdir()
        authority.write(account / "ca.crt")
        (account / "token").write_text("first")
        async with serving("127.0.0.1") as api:
            environ = {
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": api.url.rpartition(":")[2],
                "HOME": "/nowhere",
            }
            config = KubeConfigOptions(service_account=account)
            async with open_session(config, environ=environ, clock=clock) as session:
                await session.request("GET", api.path)
                (account / "token").write_text("second")
                await wait_until(lambda: clock.pending_waits_s == [60.0])
                clock.advance(60)
                await wait_until(lambda: session.credentials.config.headers == access_of("second"))
                await session.request("GET", api.path)
        sent = [asked.headers["Authorization"] for asked in api.requests]
        assert sent == ["Bearer first", "Bearer second"]

    async def test_a_client_certificate_is_shown(
        self, serving: Serving, tmp_path: Path, ca_file: Path, authority: CertificateAuthority
    ) -> None:
        certificate, key = authority.issue(tmp_path, "client")
        async with serving("127.0.0.1", ask_clients=True) as api:
            cluster = f"server: '{api.url}', certificate-authority: '{ca_file}'"
            user = f"client-certificate: '{certificate}', client-key: '{key}'"
            assert await self.ask(kubeconfig(tmp_path, cluster, user)) == 200
            with pytest.raises(Unreachable):
                await self.ask(kubeconfig(tmp_path, cluster))


class TestTheServersClock:
    DATE = "Mon, 23 Nov 2026 12:00:0{} GMT"
    NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)

    def test_is_unknown_before_the_first_date(self) -> None:
        assert ServerClock(lambda: 0.0).now() is None

    def test_goes_on_between_two_responses(self) -> None:
        now = [100.0]
        clock = ServerClock(lambda: now[0])
        clock.read(self.DATE.format(0))
        now[0] += 90

        assert clock.now() == self.NOON + timedelta(seconds=90)

    def test_goes_by_the_response_that_came_soonest_after_its_second_began(self) -> None:
        now = [100.9]
        clock = ServerClock(lambda: now[0])
        clock.read(self.DATE.format(0))  # true: 12:00:00.9
        now[0] = 101.1
        clock.read(self.DATE.format(1))
        now[0] = 102.8
        clock.read(self.DATE.format(2))
        clock.read(self.DATE.format(2))

        assert clock.now() == self.NOON + timedelta(seconds=2.7)

    def test_follows_a_server_that_is_set_back_after_a_few_dates(self) -> None:
        now = [0.0]
        clock = ServerClock(lambda: now[0])
        clock.read(self.DATE.format(0))
        for second in range(1, 60):
            now[0] = second
            clock.read(f"Mon, 23 Nov 2026 11:00:{second:02d} GMT")

        assert clock.now() == self.NOON + timedelta(hours=-1, seconds=59)

    @pytest.mark.parametrize("date", ["", "noon", "Mon, 99 Nov 2026 12:00:00 GMT"])
    def test_leaves_out_what_is_no_date(self, date: str) -> None:
        clock = ServerClock(lambda: 0.0)
        clock.read(date)

        assert clock.now() is None

    async def test_is_read_from_every_response(self, api: ScriptedApi, session: Session) -> None:
        date = self.DATE.format(7)
        api.answer_next("GET", ScriptedReply(503, b"", {"Date": date}))
        await session.request("GET", "/x")

        now = session.server_clock.now()
        assert now is not None
        assert timedelta(0) <= now - self.NOON - timedelta(seconds=7) < timedelta(minutes=1)
