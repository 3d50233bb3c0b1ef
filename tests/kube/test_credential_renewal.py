"""Credentials that are renewed while we run: when, how often, and what is said of failures."""

import base64
import json
import socket
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any  # kubeconfig files are free-form

import anyio
import pytest

from reactive_desched.errors import ConfigError, Unreachable
from reactive_desched.kube.auth.client_config import ClientConfigLoader
from reactive_desched.kube.auth.credentials import IN_THE_HANDSHAKE, Credentials
from reactive_desched.kube.auth.kubeconfig import InCluster, KubeconfigFiles, KubeConfigOptions
from reactive_desched.kube.client.session import open_session
from reactive_desched.telemetry.metrics import Metric
from tests.support.authority import CertificateAuthority
from tests.support.fake_resource import FakeCodec
from tests.support.golden import Golden
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.scripted_api import ScriptedApi, failing

EMPTY = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(EMPTY), EMPTY)
)


@contextmanager
def mutual_tls(context: ssl.SSLContext) -> Iterator[str]:
    """Answer every request with an empty list while the block lasts; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, context), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with suppress(OSError), context.wrap_socket(connection, server_side=True) as wrapped:
            if wrapped.recv(65536):  # a request of ours comes in one piece
                wrapped.sendall(ANSWER)
        connection.close()


pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

VERSION = "client.authentication.k8s.io/v1"


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    path = folder / "config"
    document = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"} | cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document))
    return path


class Plugin:
    """A credential plugin whose n-th run answers with the token `run-n`."""

    def __init__(self, folder: Path, end: str = "") -> None:
        self._runs, self._answer = folder / "runs", folder / "answer"
        self._runs.write_text("")
        self._script = folder / "plugin"
        self._script.write_text(
            f"#!/bin/sh\necho x >> {self._runs}\n"
            f'n=$(wc -l < {self._runs}); sed "s/@/$n/" {self._answer}\n'
        )
        self._script.chmod(0o700)
        self.answer({"token": "run-@"} | ({"expirationTimestamp": end} if end else {}))

    def answer(self, status: object) -> None:
        self._answer.write_text(json.dumps({"apiVersion": VERSION, "status": status}))

    def fail(self) -> None:
        """End with exit status 2, and no answer, until there is one."""
        self._answer.unlink()

    def hang(self, until: Path) -> None:
        """Answer once there is this file."""
        waits = f"while [ ! -e {until} ]; do sleep 0.05; done\n"
        self._script.write_text(
            self._script.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{waits}")
        )

    @property
    def user(self) -> dict[str, Any]:
        return {"exec": {"apiVersion": VERSION, "command": str(self._script)}}

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines())


def samples(metrics: list[Metric]) -> dict[str, dict[tuple[str, ...], Any]]:
    return {each.family.name: dict(each.samples) for each in metrics}


class Running:
    """Credentials that are renewed in the background, on a clock of ours."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.clock = clock
        self.said: list[str | None] = []
        source = KubeconfigFiles((str(path),), None)
        self.credentials = Credentials(source, clock, {}, self.said.append)

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator["Running"]:
        await self.credentials.load()
        async with anyio.create_task_group() as group:
            group.start_soon(self.credentials.refresh_forever)
            await wait_until(lambda: self.clock.pending_waits_s != [])
            yield self
            group.cancel_scope.cancel()

    @property
    def token(self) -> str:
        return self.credentials.config.headers["Authorization"].removeprefix("Bearer ")

    def loads(self) -> int:
        found = samples(list(self.credentials.collect()))
        return int(sum(found["credential_loads"].values()))

    async def wait_s(self, seconds: float) -> None:
        """Let the time pass, and wait for the loads that are due in it."""
        until = self.clock.now() + seconds
        while (left := until - self.clock.now()) > 0:
            step = min([left, *self.clock.pending_waits_s])
            is_due = step in self.clock.pending_waits_s
            loads = self.loads()
            self.clock.advance(step)
            if is_due:
                await wait_until(lambda loads=loads: self.loads() > loads)  # type: ignore[misc]
                await wait_until(lambda: self.clock.pending_waits_s != [])

    async def reject(self) -> None:
        """Have the API server answer 401, and wait until they were read again."""
        loads = self.loads()
        self.credentials.invalidate(self.credentials.config)
        await wait_until(
            lambda: self.clock.pending_waits_s not in ([60.0], []) or self.loads() > loads
        )
        if self.loads() == loads:
            self.clock.advance(self.clock.pending_waits_s[0])
        await wait_until(lambda: self.loads() > loads)
        await wait_until(lambda: self.clock.pending_waits_s != [])


async def test_a_rejection_runs_the_plugin_again_though_its_token_has_not_ended(
    tmp_path: Path, clock: ManualClock
) -> None:
    plugin = Plugin(tmp_path, "2999-01-01T00:00:00Z")
    async with Running(kubeconfig(tmp_path, plugin.user), clock).renewing() as running:
        await running.wait_s(600)
        assert (running.token, plugin.runs) == ("run-1", 1)
        await running.reject()
        assert (running.token, plugin.runs) == ("run-2", 2)


async def test_while_rejections_go_on_the_plugin_runs_less_and_less_often(
    tmp_path: Path, clock: ManualClock
) -> None:
    plugin = Plugin(tmp_path)
    runs_at: list[float] = []
    async with Running(kubeconfig(tmp_path, plugin.user), clock).renewing() as running:
        begin = clock.now()
        while clock.now() - begin < 1500:
            before = plugin.runs
            await running.reject()
            if plugin.runs > before:
                runs_at.append(clock.now() - begin)
    pauses = [after - before for before, after in pairwise(runs_at)]
    assert pauses == sorted(pauses)
    assert pauses[:2] == [5.0, 10.0]
    assert pauses[-1] >= 300.0


async def test_after_a_quarter_of_an_hour_without_rejections_the_plugin_runs_at_once_again(
    tmp_path: Path, clock: ManualClock
) -> None:
    plugin = Plugin(tmp_path)
    async with Running(kubeconfig(tmp_path, plugin.user), clock).renewing() as running:
        for _ in range(20):
            await running.reject()
        await running.wait_s(960)
        runs = plugin.runs
        await running.reject()
        assert plugin.runs == runs + 1


async def test_a_rejection_of_earlier_credentials_changes_nothing(
    tmp_path: Path, clock: ManualClock
) -> None:
    plugin = Plugin(tmp_path)
    async with Running(kubeconfig(tmp_path, plugin.user), clock).renewing() as running:
        earlier = running.credentials.config
        await running.reject()
        running.credentials.invalidate(earlier)
        await running.wait_s(120)
        assert plugin.runs == 2


async def test_a_token_that_ends_within_the_minute_is_renewed_before(
    tmp_path: Path, clock: ManualClock
) -> None:
    end = datetime.fromtimestamp(clock.wall() + 40, UTC).isoformat()
    plugin = Plugin(tmp_path, end)
    async with Running(kubeconfig(tmp_path, plugin.user), clock).renewing() as running:
        assert clock.pending_waits_s == [20.0]
        plugin.answer({"token": "renewed"})
        await running.wait_s(21)
        assert running.token == "renewed"


async def test_a_plugin_that_fails_at_the_end_of_its_token_runs_less_and_less_often(
    tmp_path: Path, clock: ManualClock
) -> None:
    end = datetime.fromtimestamp(clock.wall() + 40, UTC).isoformat()
    plugin = Plugin(tmp_path, end)
    waits: list[float] = []
    async with Running(kubeconfig(tmp_path, plugin.user), clock).renewing() as running:
        plugin.answer({})
        for _ in range(6):
            waits += clock.pending_waits_s
            await running.wait_s(clock.pending_waits_s[0])
    assert waits == [20.0, 10.0, 20.0, 40.0, 60.0, 60.0]


async def test_a_certificate_of_a_plugin_is_renewed_with_a_tls_context_of_its_own(
    tmp_path: Path, clock: ManualClock
) -> None:
    authority = CertificateAuthority()
    authority.now = datetime.fromtimestamp(clock.wall(), UTC) - timedelta(hours=23)
    plugin = Plugin(tmp_path)

    def answer(name: str) -> None:
        certificate, key = (each.read_text() for each in authority.issue(tmp_path, name))
        plugin.answer({"clientCertificateData": certificate, "clientKeyData": key})

    answer("first")
    path = kubeconfig(tmp_path, plugin.user, server="https://127.0.0.1:1")
    async with Running(path, clock).renewing() as running:
        first = running.credentials.config.tls
        authority.now += timedelta(hours=1)
        answer("second")
        await running.wait_s(3200)
        assert (plugin.runs, running.credentials.config.tls is first) == (1, True)
        await running.wait_s(200)
        assert (plugin.runs, running.credentials.config.tls is first) == (2, False)


async def test_requests_go_on_with_the_new_certificate_and_connections_of_the_old_one_are_not_used(
    tmp_path: Path, authority: CertificateAuthority, clock: ManualClock
) -> None:
    plugin = Plugin(tmp_path)

    def answer(name: str) -> None:
        certificate, key = (each.read_text() for each in authority.issue(tmp_path, name))
        plugin.answer({"clientCertificateData": certificate, "clientKeyData": key})

    answer("first")
    tls = authority.server_context(tmp_path, "127.0.0.1", ask_clients=True)
    async with ScriptedApi(FakeCodec.path).serving(tls) as api:
        ca_file = str(authority.write(tmp_path / "ca.pem"))
        cluster = {"server": api.url, "certificate-authority": ca_file}
        options = KubeConfigOptions(kubeconfig=str(kubeconfig(tmp_path, plugin.user, **cluster)))
        async with open_session(options, clock=clock) as session:
            assert (await session.request("GET", FakeCodec.path)).ok
            answer("second")
            api.answer_next("list", failing(401))
            assert not (await session.request("GET", FakeCodec.path)).ok
            await wait_until(lambda: clock.pending_waits_s == [5.0])
            clock.advance(5)
            await wait_until(lambda: plugin.runs == 2)
            await wait_until(lambda: clock.pending_waits_s == [60.0])
            before = set(api.connections)
            assert (await session.request("GET", FakeCodec.path)).ok
            assert set(api.connections) - before


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("is_foreign", "sends_alerts"), [(True, True), (False, True), (False, False)]
)
async def test_a_certificate_that_is_refused_in_the_handshake_has_the_plugin_run_again_and_is_named(
    tmp_path: Path,
    authority: CertificateAuthority,
    clock: ManualClock,
    version: ssl.TLSVersion,
    *,
    is_foreign: bool,
    sends_alerts: bool,
) -> None:
    plugin, old = Plugin(tmp_path), CertificateAuthority() if is_foreign else authority
    now = datetime.fromtimestamp(clock.wall(), UTC)

    def answer(name: str, signer: CertificateAuthority, at: datetime) -> None:
        before, signer.now = signer.now, at
        certificate, key = (each.read_text() for each in signer.issue(tmp_path, name))
        signer.now = before
        end = (now + timedelta(hours=8)).strftime("%Y-%m-%dT%H:%M:%SZ") if is_foreign else None
        answered = {"clientCertificateData": certificate, "clientKeyData": key}
        plugin.answer(answered | ({"expirationTimestamp": end} if end else {}))

    tls = authority.server_context(tmp_path, "127.0.0.1", ask_clients=True)
    tls.maximum_version = version
    answer("old", old, old.now - timedelta(days=0 if is_foreign else 300))
    async with AsyncExitStack() as stack:
        if sends_alerts:
            url = stack.enter_context(mutual_tls(tls))
        else:
            api = ScriptedApi(FakeCodec.path)
            url = (await stack.enter_async_context(api.serving(tls))).url
        ca_file = str(authority.write(tmp_path / "ca.pem"))
        cluster = {"server": url, "certificate-authority": ca_file}
        path = kubeconfig(tmp_path, plugin.user, **cluster)
        said: list[str | None] = []
        session = await stack.enter_async_context(
            open_session(
                KubeConfigOptions(kubeconfig=str(path)), clock=clock, on_credentials=said.append
            )
        )

        async def fail_and_reload(runs: int) -> str:
            with pytest.raises(Unreachable) as caught:
                await session.request("GET", FakeCodec.path)
            await wait_until(lambda: plugin.runs == runs or clock.pending_waits_s == [5.0])
            clock.advance(5)
            await wait_until(lambda: plugin.runs == runs)
            await wait_until(lambda: clock.pending_waits_s not in ([5.0], []))
            return str(caught.value)

        text = await fail_and_reload(2)
        assert IN_THE_HANDSHAKE in str(said[0])
        assert str(tmp_path / "plugin") in str(said[0])
        assert ("in the TLS handshake" in text) is sends_alerts
        answer("new", authority, authority.now)
        clock.advance(5)
        await fail_and_reload(3)
        assert (await session.request("GET", FakeCodec.path)).ok
        assert said[1:] == [None]


async def test_an_authority_that_is_exchanged_after_its_server_is_read_when_that_is_not_trusted(
    tmp_path: Path, authority: CertificateAuthority, clock: ManualClock
) -> None:
    plugin, successor = Plugin(tmp_path), CertificateAuthority()
    ca_file = authority.write(tmp_path / "ca.pem")
    tls = successor.server_context(tmp_path, "127.0.0.1")
    async with ScriptedApi(FakeCodec.path).serving(tls) as api:
        cluster = {"server": api.url, "certificate-authority": str(ca_file)}
        options = KubeConfigOptions(kubeconfig=str(kubeconfig(tmp_path, plugin.user, **cluster)))
        async with open_session(options, clock=clock) as session:
            with pytest.raises(Unreachable):
                await session.request("GET", FakeCodec.path)
            await wait_until(lambda: clock.pending_waits_s == [5.0])
            successor.write(ca_file)
            clock.advance(5)
            await wait_until(lambda: clock.pending_waits_s == [60.0])
            assert (await session.request("GET", FakeCodec.path)).ok
    assert plugin.runs == 1


def test_nothing_is_needed_of_the_folder_of_temporary_files(
    tmp_path: Path, authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none such"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none such"))
    certificate, key = (each.read_bytes() for each in authority.issue(tmp_path, "me"))
    path = kubeconfig(
        tmp_path,
        {
            "client-certificate-data": base64.b64encode(certificate).decode(),
            "client-key-data": base64.b64encode(key).decode(),
        },
        **{
            "server": "https://127.0.0.1:1",
            "certificate-authority-data": base64.b64encode(
                authority.write(tmp_path / "ca.pem").read_bytes()
            ).decode(),
        },
    )
    loader = ClientConfigLoader(KubeconfigFiles((str(path),), None), {})
    first = loader.load(0.0)
    assert first.tls is not None
    assert loader.load(60.0).tls is first.tls


async def test_a_rotated_certificate_file_counts_once_its_key_is_there_as_well(
    tmp_path: Path, clock: ManualClock, authority: CertificateAuthority, golden: Golden
) -> None:
    certificate, key = authority.issue(tmp_path, "me")
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    path = kubeconfig(tmp_path, user, server="https://127.0.0.1:1")
    async with Running(path, clock).renewing() as running:
        first = running.credentials.config.tls
        new_certificate, new_key = authority.issue(tmp_path, "new")
        certificate.write_bytes(new_certificate.read_bytes())
        await running.wait_s(60)
        assert running.credentials.config.tls is first
        assert running.said == [golden(path=path)]
        key.write_bytes(new_key.read_bytes())
        await running.wait_s(60)
        assert running.credentials.config.tls is not first
        assert running.said[1:] == [None]


async def test_a_certificate_that_has_ended_is_named_as_the_cause_of_a_rejection(
    tmp_path: Path, clock: ManualClock, golden: Golden
) -> None:
    authority = CertificateAuthority()
    authority.now = datetime(1950, 1, 2, tzinfo=UTC)
    certificate, key = authority.issue(tmp_path, "me")
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    path = kubeconfig(tmp_path, user, server="https://127.0.0.1:1")
    async with Running(path, clock).renewing() as running:
        assert running.said == []
        for _ in range(3):
            await running.reject()
        assert running.said == [golden(path=path)]


async def test_credentials_that_are_not_accepted_are_reported_until_they_are(
    tmp_path: Path, clock: ManualClock, golden: Golden
) -> None:
    (tmp_path / "token").write_text("first")
    path = kubeconfig(tmp_path, {"tokenFile": str(tmp_path / "token")})
    async with Running(path, clock).renewing() as running:
        await running.reject()
        await running.reject()
        assert running.said == [golden(path=path)]
        failing_now = samples(list(running.credentials.collect()))
        assert failing_now["credentials_failing"] == {(): 1.0}
        running.credentials.accept(running.credentials.config)
        assert running.said[1:] == [None], "at once"
        assert samples(list(running.credentials.collect()))["credentials_failing"] == {(): 0.0}


async def test_of_a_plugin_whose_token_is_not_accepted_the_plugin_is_named(
    tmp_path: Path, clock: ManualClock, golden: Golden
) -> None:
    plugin = Plugin(tmp_path)
    plugin.answer({"token": "always the same"})
    path = kubeconfig(tmp_path, plugin.user)
    async with Running(path, clock).renewing() as running:
        await running.reject()
        await running.reject()
        assert running.said == [golden(path=path, plugin=tmp_path / "plugin")]


async def test_why_a_plugin_fails_is_said_until_it_gives_other_credentials(
    tmp_path: Path, clock: ManualClock, golden: Golden
) -> None:
    plugin = Plugin(tmp_path)
    path = kubeconfig(tmp_path, plugin.user)
    async with Running(path, clock).renewing() as running:
        plugin.fail()
        for _ in range(6):
            await running.reject()
        assert running.said == [golden(path=path, plugin=tmp_path / "plugin")]
        plugin.answer({"token": "another"})
        while running.token != "another":
            await running.reject()
        assert running.said[1:] == [None]


@pytest.mark.parametrize("lives_s", [600.0, None])
async def test_a_plugin_that_hangs_is_named_while_it_is_waited_for(
    lives_s: float | None,
    tmp_path: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    monkeypatch.setattr("reactive_desched.kube.auth.credentials.LATE_S", 0.6)
    end = datetime.fromtimestamp(clock.wall() + lives_s, UTC) if lives_s else None
    plugin = Plugin(tmp_path, end.isoformat() if end else "")
    path = kubeconfig(tmp_path, plugin.user)
    async with Running(path, clock).renewing() as running:
        plugin.hang(until=tmp_path / "go-on")
        if lives_s:
            clock.advance(301)
        else:
            running.credentials.invalidate(running.credentials.config)
            clock.advance(5)
        await wait_until(lambda: bool(running.said))
        names = {"path": path, "plugin": plugin.user["exec"]["command"]}
        assert running.credentials.last_error == golden(**names)
        assert running.token == "run-1"

        (tmp_path / "go-on").touch()
        await wait_until(lambda: running.said[-1] is None)
        assert running.token == "run-2"


async def test_why_a_plugin_failed_is_not_said_any_more_once_its_credentials_are_accepted(
    tmp_path: Path, clock: ManualClock
) -> None:
    plugin = Plugin(tmp_path)
    async with Running(kubeconfig(tmp_path, plugin.user), clock).renewing() as running:
        plugin.fail()
        await running.reject()
        await running.wait_s(60)
        running.credentials.accept(running.credentials.config)
        assert running.said[1:] == [None]
        await running.wait_s(600)
        assert running.said[1:] == [None]


async def test_a_plugin_that_fails_after_rejections_is_run_at_least_every_half_minute(
    tmp_path: Path, clock: ManualClock
) -> None:
    plugin = Plugin(tmp_path)
    async with Running(kubeconfig(tmp_path, plugin.user), clock).renewing() as running:
        plugin.fail()
        runs_at: list[float] = []
        while len(runs_at) < 12:
            before = plugin.runs
            await running.reject()
            if plugin.runs > before:
                runs_at.append(clock.now())
    pauses = [after - before for before, after in pairwise(runs_at)]
    assert pauses[:2] == [5.0, 10.0]
    assert max(pauses) == 30.0


async def test_an_empty_token_file_keeps_the_token_and_is_reported_once(
    tmp_path: Path, clock: ManualClock, golden: Golden
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    path = kubeconfig(tmp_path, {"tokenFile": str(token)})
    async with Running(path, clock).renewing() as running:
        token.write_text("\n")
        await running.wait_s(180)
        assert (running.token, running.said) == ("first", [golden(path=path, token=token)])


async def test_a_projected_token_that_is_exchanged_by_a_link_is_read_within_the_minute(
    tmp_path: Path, clock: ManualClock, authority: CertificateAuthority
) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
        authority.write(tmp_path / name / "ca.crt")
    (tmp_path / "..data").symlink_to("old")
    for name in ("token", "ca.crt"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    credentials = Credentials(InCluster(tmp_path), clock, environ)
    await credentials.load()
    async with anyio.create_task_group() as group:
        group.start_soon(credentials.refresh_forever)
        await wait_until(lambda: clock.pending_waits_s == [60.0])
        (tmp_path / "next").symlink_to("new")
        (tmp_path / "next").replace(tmp_path / "..data")
        clock.advance(60)
        await wait_until(lambda: credentials.config.headers["Authorization"] == "Bearer new")
        group.cancel_scope.cancel()


@pytest.mark.parametrize("name", ["gcp", "azure", "openstack"])
def test_an_auth_provider_that_kubectl_has_no_more_is_refused_with_its_successor(
    tmp_path: Path, name: str, golden: Golden
) -> None:
    path = kubeconfig(tmp_path, {"auth-provider": {"name": name, "config": {"x": "c4n4ry"}}})
    with pytest.raises(ConfigError) as caught:
        ClientConfigLoader(KubeconfigFiles((str(path),), None), {}).load(0.0)
    assert str(caught.value) == golden(path=path)
