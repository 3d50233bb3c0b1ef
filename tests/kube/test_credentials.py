"""Credentials that go bad while we run, and a load that is broken off."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from reactive_desched.errors import Unreachable
from reactive_desched.kube.auth.credentials import Credentials
from reactive_desched.kube.auth.kubeconfig import KubeconfigFiles, KubeConfigOptions
from reactive_desched.kube.client.session import open_session
from tests.support.golden import Golden
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.scripted_api import ScriptedApi

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

SECRET = "c4n4ry"

Write = Callable[..., Path]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(f"{SECRET}\n{SECRET}", id="two lines"),
        pytest.param(f"{SECRET}\0", id="a null"),
        pytest.param(f"\ufeff{SECRET}", id="a byte order mark"),
    ],
)
async def test_a_token_file_that_goes_bad_keeps_the_old_token_and_is_reported_without_the_new_one(
    bad: str, kubeconfig: Write, tmp_path: Path, clock: ManualClock, golden: Golden
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    path = kubeconfig("http://127.0.0.1:1", f"tokenFile: '{token}'")
    credentials = Credentials(KubeconfigFiles((str(path),), None), clock, {})
    await credentials.load()
    token.write_text(bad, encoding="utf-8")

    async with anyio.create_task_group() as group:
        group.start_soon(credentials.refresh_forever)
        await wait_until(lambda: clock.pending_waits_s == [60.0])
        clock.advance(60)
        await wait_until(lambda: credentials.last_error is not None)
        group.cancel_scope.cancel()

    assert golden(path=path) in str(credentials.last_error)
    assert SECRET not in str(credentials.last_error)
    assert credentials.config.headers == {"Authorization": "Bearer first"}


async def test_an_unexpected_error_of_a_reload_is_reported_without_its_words_and_tried_again(
    kubeconfig: Write,
    tmp_path: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    async def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError(SECRET)

    token = tmp_path / "token"
    token.write_text("first")
    path = kubeconfig("http://127.0.0.1:1", f"tokenFile: '{token}'")
    credentials = Credentials(KubeconfigFiles((str(path),), None), clock, {})
    await credentials.load()
    token.write_text("second")

    async with anyio.create_task_group() as group:
        group.start_soon(credentials.refresh_forever)
        await wait_until(lambda: clock.pending_waits_s == [60.0])
        with monkeypatch.context() as patched:
            patched.setattr(anyio.to_thread, "run_sync", no_thread)
            clock.advance(60)
            await wait_until(lambda: credentials.last_error is not None)
        told = golden(path=path)
        assert credentials.last_error == told
        assert credentials.config.headers == {"Authorization": "Bearer first"}
        await wait_until(lambda: clock.pending_waits_s == [60.0])
        clock.advance(60)
        await wait_until(lambda: credentials.last_error is None)
        group.cancel_scope.cancel()

    assert credentials.config.headers == {"Authorization": "Bearer second"}


async def test_what_the_client_library_will_not_send_is_a_server_out_of_reach_and_no_crash(
    api: ScriptedApi, kubeconfig: Write
) -> None:
    path = kubeconfig(api.url)
    async with open_session(KubeConfigOptions(kubeconfig=str(path))) as session:
        session.credentials.config.headers["Authorization"] = "Bearer a\nb"
        with pytest.raises(Unreachable, match="GET /x"):
            await session.request("GET", "/x")
        with pytest.raises(Unreachable, match="GET /x"):
            async with session.stream("/x", {}):
                pass
    assert api.requests == []


async def test_a_load_that_is_cancelled_ends_the_plugin(
    kubeconfig: Write, tmp_path: Path, clock: ManualClock
) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    version = "client.authentication.k8s.io/v1"
    script = f"exec > {held}; echo begun; exec sleep 1000"
    user = f"exec: {{apiVersion: {version}, command: sh, args: [-c, '{script}']}}"
    path = kubeconfig("http://127.0.0.1:1", user)
    credentials = Credentials(KubeconfigFiles((str(path),), None), clock, {})

    async with anyio.create_task_group() as group:
        group.start_soon(credentials.load)
        with await anyio.to_thread.run_sync(held.open, "rb") as output:
            assert await anyio.to_thread.run_sync(output.readline) == b"begun\n"
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):  # what is open until the plugin has ended
                assert await anyio.to_thread.run_sync(output.read) == b""
