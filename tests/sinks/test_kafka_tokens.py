"""Tokens for OAUTHBEARER: read anew from a file, or asked for at an endpoint, and never shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.recording import KafkaSettings, OidcSettings, SaslSettings
from reactive_desched.sinks.kafka.connection import producer_settings
from reactive_desched.sinks.kafka.tokens import FileToken, OidcToken, token_source
from tests.support.golden import Golden
from tests.support.http_proxy import HttpProxy
from tests.support.kafka_way import TOPIC, KafkaPipeline
from tests.support.mock_kafka import MockKafka
from tests.support.token_endpoint import TokenEndpoint, token_endpoint

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint() as serving:
        yield serving


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("canary 4711\n")
    return path


def oidc_token(endpoint: TokenEndpoint, secret: Path, now: list[float]) -> OidcToken:
    oidc = OidcSettings(
        token_endpoint_url=endpoint.url,
        client_id="descheduler:1",
        client_secret_file=str(secret),
        scope="kafka",
    )
    return OidcToken(oidc, lambda: now[0], {})


async def test_a_token_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for text in ("first.token", "second.token"):
        path.write_text(text + "\n")
        assert await FileToken(str(path)).token() == text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"\n", "is empty"),
        (b"canary-\xff", "UnicodeDecodeError"),
        (b"Bearer canary", "no bearer token"),
        (b"canary\x01auth=Bearer x", "no bearer token"),
    ],
    ids=["missing", "empty", "not text", "two words", "a control character"],
)
async def test_a_token_file_that_is_no_good_is_named(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SinkUnavailable, match=said) as caught:
        await FileToken(str(path)).token()
    assert str(path) in str(caught.value)
    assert "canary" not in str(caught.value)


async def test_a_token_is_asked_for_as_client_credentials(
    endpoint: TokenEndpoint, secret: Path
) -> None:
    assert await oidc_token(endpoint, secret, [0.0]).token() == "token-1"
    assert endpoint.logins == ["descheduler%3A1:canary+4711"]
    assert endpoint.forms == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]


async def test_a_token_is_reused_for_most_of_its_lifetime(
    endpoint: TokenEndpoint, secret: Path
) -> None:
    now = [0.0]
    source = oidc_token(endpoint, secret, now)
    await source.token()
    endpoint.answer = {"access_token": "token-2", "expires_in": "100"}
    now[0] = 79.0
    assert await source.token() == "token-1"
    now[0] = 80.0
    assert await source.token() == "token-2"
    endpoint.answer = {"access_token": "token-3"}
    source.forget()
    assert await source.token() == "token-3"


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (401, {"error": "invalid_client", "error_description": "canary"}, "401, invalid_client"),
        (400, {"error": "canary <b>"}, "HTTP 400"),
        (200, {"token_type": "bearer"}, "HTTP 200"),
        (500, ["canary"], "HTTP 500"),
        (200, {"access_token": "canary \n"}, "no bearer token"),
    ],
)
async def test_an_endpoint_that_gives_no_token_is_named_without_what_it_answered(
    endpoint: TokenEndpoint, secret: Path, status: int, answer: object, said: str
) -> None:
    endpoint.status, endpoint.answer = status, answer
    with pytest.raises(SinkUnavailable) as caught:
        await oidc_token(endpoint, secret, [0.0]).token()
    assert endpoint.url in str(caught.value)
    assert said in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("login", "status"), [("me:right", 0), ("", 403), ("", 502)], ids=["407", "403", "502"]
)
async def test_a_proxy_that_refuses_is_named_with_the_remedy(
    secret: Path, login: str, status: int, golden: Golden
) -> None:
    url = "https://idp.example/token"
    async with HttpProxy(login, status).serving() as proxy:
        told = await refusal(secret, url, proxy.url.replace("//", "//me:canary@"))
    assert told == golden(proxy=proxy.url, url=url)


async def test_a_proxy_that_is_away_or_cannot_be_used_is_named(
    secret: Path, golden: Golden
) -> None:
    url = "https://idp.example/token"
    async with HttpProxy().serving() as proxy:
        pass
    told = await refusal(secret, url, proxy.url.replace("//", "//me:canary@"))
    assert told == golden("away", proxy=proxy.url.removeprefix("http://"))
    assert await refusal(secret, url, "socks5://me:canary@p:1") == golden("SOCKS")


async def refusal(secret: Path, url: str, proxy: str) -> str:
    oidc = OidcSettings(token_endpoint_url=url, client_id="c", client_secret_file=str(secret))
    environ = {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy}
    with pytest.raises(SinkUnavailable) as caught:
        await OidcToken(oidc, lambda: 0.0, environ).token()
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


async def test_an_endpoint_that_is_down_keeps_records_waiting_and_is_named(
    kafka: MockKafka, tmp_path: Path, secret: Path
) -> None:
    with token_endpoint() as gone:
        url = gone.url
    sasl = SaslSettings(
        mechanism="OAUTHBEARER",
        oidc=OidcSettings(token_endpoint_url=url, client_id="c", client_secret_file=str(secret)),
    )
    way = KafkaPipeline(tmp_path, KafkaSettings(brokers=kafka.brokers, topic=TOPIC, sasl=sasl))
    way.record(1)
    async with way.running():
        trouble = await way.wait_for_failure()
    assert f"no token from {url}" in trouble
    assert "canary" not in f"{trouble} {way.logger.lines}"


async def test_the_client_is_given_tokens_and_extensions(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a.token")
    extensions = {"logicalCluster": "lkc-1"}
    sasl = SaslSettings(mechanism="OAUTHBEARER", token_file=str(path), extensions=extensions)
    kafka = KafkaSettings(brokers=("kafka:9092",), sasl=sasl)
    settings = producer_settings(kafka, token_source(sasl, lambda: 0.0))
    provider = settings["sasl_oauth_token_provider"]
    assert settings["sasl_mechanism"] == "OAUTHBEARER"
    assert await provider.token() == "a.token"
    assert provider.extensions() == extensions
    path.unlink()
    with pytest.raises(OSError, match="No such file"):  # which the client takes for an outage
        await provider.token()
