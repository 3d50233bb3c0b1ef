"""A webhook is reached through the environment's proxy, as the API server is."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.recording import WebhookSettings
from reactive_desched.sinks.webhook.sink import WebhookSink
from tests.support.authority import CertificateAuthority
from tests.support.entries import eviction_entries
from tests.support.golden import Golden
from tests.support.http_proxy import HttpProxy
from tests.support.receiver import WebhookReceiver
from tests.support.tls_handshake import check_strictly

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

SECRET = "c4n4ry"


class Behind(NamedTuple):
    """A receiver whose name only a proxy resolves, and a way to make sinks that post there."""

    receiver: WebhookReceiver
    sink: Callable[..., WebhookSink]


@pytest.fixture
async def behind(tmp_path: Path) -> AsyncIterator[Behind]:
    authority = CertificateAuthority(is_lax=True)
    ca_file = authority.write(tmp_path / "ca.pem")
    made: list[WebhookSink] = []
    tls = authority.server_context(tmp_path, "hooks.example")
    async with WebhookReceiver().serving(tls) as receiver:
        url = f"https://hooks.example:{urlsplit(receiver.url).port}/in"

        def sink(**environ: str) -> WebhookSink:
            settings = WebhookSettings(url=url, ca_file=str(ca_file))
            made.append(WebhookSink(settings, wall=lambda: 0.0, clock=lambda: 0.0, environ=environ))
            return made[-1]

        yield Behind(receiver, sink)
        for each in made:
            await each.close()


async def refusal(sink: WebhookSink) -> str:
    with pytest.raises(SinkUnavailable) as caught:
        await sink.deliver(eviction_entries(1))
    assert SECRET not in str(caught.value)
    return str(caught.value).partition(": ")[2]


async def test_events_are_posted_through_it_and_a_private_authority_is_trusted_on_every_python(
    behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_strictly(monkeypatch)
    async with HttpProxy("me:pw").serving() as proxy:
        sink = behind.sink(HTTPS_PROXY=proxy.url.replace("//", "//me:pw@"))
        assert await sink.deliver(eviction_entries(2)) == 2
        await sink.close()
    assert len(behind.receiver.posts) == 2
    assert proxy.asked == [f"CONNECT hooks.example:{urlsplit(behind.receiver.url).port}"]


async def test_what_no_proxy_names_is_reached_without_it(behind: Behind) -> None:
    async with HttpProxy().serving() as proxy:
        sink = behind.sink(HTTPS_PROXY=proxy.url, NO_PROXY="*.example")
        assert "proxy" not in await refusal(sink)  # the name leads nowhere
    assert proxy.asked == []


@pytest.mark.parametrize(("login", "status"), [("me:right", 0), ("", 403), ("", 502)])
async def test_a_proxy_that_refuses_is_named_with_the_remedy(
    login: str, status: int, behind: Behind, golden: Golden
) -> None:
    async with HttpProxy(login, status).serving() as proxy:
        told = await refusal(behind.sink(HTTPS_PROXY=proxy.url.replace("//", f"//me:{SECRET}@")))
    assert told == golden(proxy=proxy.url)


async def test_a_proxy_that_is_away_is_named(behind: Behind, golden: Golden) -> None:
    async with HttpProxy().serving() as proxy:
        pass
    told = await refusal(behind.sink(HTTPS_PROXY=proxy.url.replace("//", f"//me:{SECRET}@")))
    assert told == golden(place=proxy.url.removeprefix("http://"))


async def test_a_proxy_that_cannot_be_used_is_refused(behind: Behind, golden: Golden) -> None:
    assert await refusal(behind.sink(HTTPS_PROXY=f"socks5://me:{SECRET}@p:1")) == golden()


async def test_what_goes_wrong_behind_a_proxy_names_it(behind: Behind, tmp_path: Path) -> None:
    opens_tls = CertificateAuthority().server_context(tmp_path, "hooks.example")
    async with WebhookReceiver().serving(opens_tls) as instead:
        proxy = HttpProxy()
        proxy.leads_to = urlsplit(instead.url).port
        async with proxy.serving():
            told = await refusal(behind.sink(HTTPS_PROXY=proxy.url))
    assert "certificate" in told
    assert told.endswith(f"the proxy {proxy.url} of $HTTPS_PROXY")
