"""A scripted API server, a session to it, and a mirror of it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from reactive_desched.kube.client.rate_limiter import RateLimit
from reactive_desched.kube.client.session import KubeConfigOptions, Session, open_session
from tests.support.authority import CertificateAuthority
from tests.support.fake_resource import FakeCodec
from tests.support.manual_clock import ManualClock
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi


@pytest.fixture
async def api() -> AsyncIterator[ScriptedApi]:
    async with ScriptedApi(FakeCodec.path).serving() as serving:
        yield serving


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[..., Path]:
    """Return a way to write a kubeconfig for a plain server."""

    def write(url: str, user: str = "token: secret") -> Path:
        path = tmp_path / "kubeconfig"
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
            f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
            f"users: [{{name: u, user: {{{user}}}}}]\n"
            "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
        )
        return path

    return write


@pytest.fixture
async def session(api: ScriptedApi, kubeconfig: Callable[..., Path]) -> AsyncIterator[Session]:
    config = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))
    async with open_session(config, rate_limit=RateLimit(qps=10_000, burst=10_000)) as opened:
        yield opened


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def mirror(session: Session) -> ReflectorHarness:
    return ReflectorHarness(session)


@pytest.fixture(scope="session")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


@pytest.fixture
def ca_file(authority: CertificateAuthority, tmp_path: Path) -> Path:
    return authority.write(tmp_path / "authority.crt")


@pytest.fixture
def other_ca_file(tmp_path: Path) -> Path:
    return CertificateAuthority().write(tmp_path / "other-authority.crt")
