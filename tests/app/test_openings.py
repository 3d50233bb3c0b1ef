"""What the settings say of the API client reaches each request."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reactive_desched.app.openings import open_api_session
from reactive_desched.kube.client.evictor import WEBHOOK_TIMEOUT_S, ApiEvictor
from reactive_desched.kube.client.rate_limiter import RateLimit
from reactive_desched.kube.client.session import KubeConfigOptions, RequestLimits
from reactive_desched.policy.settings.reactive_settings import ClientSettings

pytestmark = pytest.mark.anyio

KUBECONFIG = (
    "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
    "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    "users: [{name: u, user: {}}]\ncontexts: [{name: here, context: {cluster: c, user: u}}]\n"
)
WRITTEN = ClientSettings.model_validate(
    {
        "requestsPerSecond": 7,
        "burst": 50,
        "connectTimeout": "1s",
        "readTimeout": "2s",
        "totalTimeout": "3s",
    }
)


def dependencies(tmp_path: Path) -> Any:  # as far as the session needs them
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    settings = SimpleNamespace(client=WRITTEN)
    return SimpleNamespace(
        configuration=SimpleNamespace(settings=settings), kube=KubeConfigOptions(str(path))
    )


async def test_the_session_has_the_timeouts_and_the_request_rate_of_the_settings(
    tmp_path: Path,
) -> None:
    async with open_api_session(dependencies(tmp_path)) as session:
        assert session.limits == RequestLimits(connect_s=1, read_s=2, total_s=3)
        assert session.rate_limiter.limit == RateLimit(qps=7, burst=50, critical_reserve=10)


async def test_a_request_of_unknown_effect_is_awaited_for_its_time_limit_and_a_webhooks(
    tmp_path: Path,
) -> None:
    async with open_api_session(dependencies(tmp_path)) as session:
        assert ApiEvictor(session).effect_timeout_s == 3 + WEBHOOK_TIMEOUT_S
