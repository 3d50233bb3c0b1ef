"""A scripted API server, a session to it, and a reflector on a clock that tests move."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random

import anyio
import pytest

from reactive_desched.kube.reflect import Reflector
from reactive_desched.kube.reflect_settings import ReflectSettings
from reactive_desched.kube.revival import Revival
from reactive_desched.kube.session import KubeConfig, Session, open_session
from reactive_desched.kube.throttle import Rate
from reactive_desched.testing.authority import Authority
from reactive_desched.testing.manual_clock import ManualClock
from reactive_desched.testing.scripted_api import ScriptedApi
from reactive_desched.testing.things import RememberingFeed, Thing, ThingCodec

Reflecting = Callable[..., AbstractAsyncContextManager[Reflector[Thing]]]


@pytest.fixture
async def api() -> AsyncIterator[ScriptedApi]:
    async with ScriptedApi(ThingCodec.path).serving() as serving:
        yield serving


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[[str], Path]:
    """Return a way to write a kubeconfig for a plain server."""

    def write(url: str) -> Path:
        path = tmp_path / "kubeconfig"
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
            f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
            "users: [{name: u, user: {token: secret}}]\n"
            "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
        )
        return path

    return write


@pytest.fixture
async def session(api: ScriptedApi, kubeconfig: Callable[[str], Path]) -> AsyncIterator[Session]:
    config = KubeConfig(kubeconfig=str(kubeconfig(api.url)))
    async with open_session(config, rate=Rate(per_s=10_000, burst=10_000)) as opened:
        yield opened


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def feed() -> RememberingFeed:
    return RememberingFeed()


@pytest.fixture
def reflecting(session: Session, feed: RememberingFeed, clock: ManualClock) -> Reflecting:
    """Return a way to have a reflector run beside a block."""

    @asynccontextmanager
    async def run(
        settings: ReflectSettings | None = None, seed: int = 1, revival: Revival | None = None
    ) -> AsyncIterator[Reflector[Thing]]:
        reflector = Reflector(
            session,
            ThingCodec(),
            feed,
            clock=clock,
            rng=Random(seed),
            settings=settings,
            revival=revival,
        )
        async with anyio.create_task_group() as beside:
            beside.start_soon(reflector.run)
            yield reflector
            beside.cancel_scope.cancel()

    return run


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def ca_file(authority: Authority, tmp_path: Path) -> Path:
    return authority.write(tmp_path / "authority.crt")


@pytest.fixture
def other_ca_file(tmp_path: Path) -> Path:
    return Authority().write(tmp_path / "other-authority.crt")
