"""The auth-provider `oidc`: its id token, and new ones from an identity provider."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from reactive_desched.kube.auth.oidc import OidcCredentials
from tests.support.golden import Golden
from tests.support.http_proxy import HttpProxy
from tests.support.identity_provider import ENDED, FRESH, NOW_S, SECRET, Provider, jwt

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    async with Provider().serving(tmp_path) as serving:
        yield serving


async def load(source: OidcCredentials, now_s: float = NOW_S, *, rejected: bool = False) -> str:
    return (await source.load(now_s, is_rejected=rejected)).authorization


async def refusal(source: OidcCredentials) -> str:
    with pytest.raises(ValueError, match="auth-provider oidc") as caught:
        await load(source)
    assert SECRET not in str(caught.value)
    return str(caught.value)


async def test_an_id_token_that_has_not_ended_is_used_as_it_is(provider: Provider) -> None:
    source = provider.credentials(id_token=FRESH)
    assert await load(source) == f"Bearer {FRESH}"
    assert provider.forms == []
    assert (await source.load(NOW_S, is_rejected=False)).renew_at_s == NOW_S + 3540


@pytest.mark.parametrize("old", [{"id_token": ENDED}, {}], ids=["ended", "none"])
async def test_a_new_one_comes_by_the_refresh_token_and_the_next_by_the_next_one(
    provider: Provider, old: dict[str, str]
) -> None:
    source = provider.credentials(environ={}, **old)
    assert await load(source) == f"Bearer {FRESH}"
    await load(source, rejected=True)
    assert [form["refresh_token"] for form in provider.forms] == [f"first-{SECRET}", "next"]
    assert {form["grant_type"] for form in provider.forms} == {"refresh_token"}


async def test_a_rejection_has_a_new_one_asked_for_though_the_old_has_not_ended(
    provider: Provider,
) -> None:
    source = provider.credentials(id_token=jwt(NOW_S + 9000))
    assert await load(source, rejected=True) == f"Bearer {FRESH}"


async def test_one_that_ends_soon_is_used_on_while_the_provider_is_away(provider: Provider) -> None:
    soon = jwt(NOW_S + 30)
    provider.status = 503
    assert await load(provider.credentials(id_token=soon)) == f"Bearer {soon}"


async def test_a_provider_that_wants_the_password_in_the_form_gets_it_there(
    provider: Provider,
) -> None:
    provider.takes_headers = False
    assert await load(provider.credentials()) == f"Bearer {FRESH}"
    assert provider.forms[-1]["client_secret"] == SECRET
    assert [bool(login) for login in provider.logins] == [True, False]


async def test_a_client_without_a_password_is_named_in_the_form(provider: Provider) -> None:
    provider.takes_headers = False
    assert await load(provider.credentials(client_secret="")) == f"Bearer {FRESH}"
    assert (provider.forms[-1]["client_id"], "client_secret" in provider.forms[-1]) == ("us", False)


async def test_the_authority_may_stand_in_the_kubeconfig(provider: Provider) -> None:
    data = base64.b64encode(provider.ca_file.read_bytes()).decode()
    source = provider.credentials(idp_certificate_authority="", idp_certificate_authority_data=data)
    assert await load(source) == f"Bearer {FRESH}"


async def test_the_provider_is_asked_through_the_environments_proxy(provider: Provider) -> None:
    url = provider.url.replace("127.0.0.1", "idp.example")
    async with HttpProxy().serving() as proxy:
        source = provider.credentials(environ={"HTTPS_PROXY": proxy.url}, idp_issuer_url=url)
        assert await load(source) == f"Bearer {FRESH}"
    assert set(proxy.asked) == {f"CONNECT {url.removeprefix('https://')}"}


@pytest.mark.parametrize(
    ("login", "status"), [("me:right", 0), ("", 403), ("", 502)], ids=["407", "403", "502"]
)
async def test_a_proxy_that_refuses_is_named_with_the_remedy(
    provider: Provider, login: str, status: int, golden: Golden
) -> None:
    async with HttpProxy(login, status).serving() as proxy:
        environ = {"HTTPS_PROXY": proxy.url.replace("//", f"//me:{SECRET}@")}
        url = provider.url.replace("127.0.0.1", "idp.example")
        told = await refusal(provider.credentials(environ=environ, idp_issuer_url=url))
    assert told == golden(proxy=proxy.url, url=url)


async def test_over_http_a_proxy_that_wants_a_password_is_no_identity_provider(
    golden: Golden,
) -> None:
    async with HttpProxy("me:right").serving() as proxy:
        config = {
            "idp-issuer-url": "http://idp.example",
            "client-id": "us",
            "refresh-token": SECRET,
        }
        told = await refusal(OidcCredentials(config, {"HTTP_PROXY": proxy.url}))
    assert told == golden(proxy=proxy.url)


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (400, {"error": "invalid_grant", "error_description": SECRET}),
        (400, {"error": f"no word {SECRET}"}),
        (200, {"access_token": SECRET}),
        (503, {}),
    ],
    ids=["ended", "odd", "no id token", "away"],
)
async def test_a_refusal_is_named_with_the_remedy(
    provider: Provider, status: int, answer: dict[str, str], golden: Golden
) -> None:
    provider.status, provider.answer = status, answer
    told = await refusal(provider.credentials(id_token=ENDED))
    assert told == golden(url=provider.url)


async def test_a_provider_that_is_not_trusted_is_named(provider: Provider) -> None:
    told = await refusal(provider.credentials(idp_certificate_authority=""))
    assert provider.url.rpartition(":")[0] in told


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"id_token": ENDED, "refresh_token": ""}, id="ended"),
        pytest.param({"refresh_token": ""}, id="nothing"),
        pytest.param({"id_token": f"{SECRET}.{SECRET}"}, id="no JWT"),
        pytest.param({"id_token": f"a.{SECRET}.b"}, id="no claims"),
        pytest.param({"idp_certificate_authority_data": f"{SECRET}!"}, id="no base64"),
    ],
)
async def test_a_kubeconfig_without_a_usable_token_says_to_log_in(
    provider: Provider, config: dict[str, str], golden: Golden
) -> None:
    assert await refusal(provider.credentials(environ={}, **config)) == golden()


async def test_what_is_no_identity_provider_is_named(golden: Golden, tmp_path: Path) -> None:
    async def page(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0)
        return web.Response(text="<html>")

    runner = web.ServerRunner(web.Server(page), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        config = {"idp-issuer-url": url, "client-id": "us", "refresh-token": SECRET}
        assert await refusal(OidcCredentials(config, {})) == golden()
    finally:
        await runner.cleanup()
