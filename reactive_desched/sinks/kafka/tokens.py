"""Bearer tokens for OAUTHBEARER: from a file, an OIDC token endpoint, or signed for Amazon MSK."""

import os
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote_plus

import aiohttp
import msgspec
from anyio import fail_after
from anyio.to_thread import run_sync
from msgspec import Struct
from yarl import URL

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.recording import AwsIamSettings, OidcSettings, SaslSettings
from reactive_desched.primitives.bounded_text import truncate
from reactive_desched.primitives.client_tls import client_tls_context
from reactive_desched.primitives.http_failures import (
    CONNECTION_ERRORS,
    describe_error,
)
from reactive_desched.primitives.proxies import Proxy, ProxyError, environment_proxy

FETCH_TIMEOUT_S: Final = 10.0
MAX_RESPONSE_BYTES: Final = 256 * 1024
REUSED_SHARE: Final = 0.8
"""A token is reused for this share of its lifetime, as librdkafka does."""
DEFAULT_LIFETIME_S: Final = 60.0
AWS_REUSED_S: Final = 60.0
AWS_TIMEOUT_S: Final = 30.0
MAX_CAUSE_CHARS: Final = 300
_AWS_PACKAGE: Final = "aws-msk-iam-sasl-signer-python"
_AWS_MODULE: Final = "aws_msk_iam_sasl_signer"
_AWS_CREDENTIALS: Final = (
    "give the ServiceAccount a role (IRSA or EKS Pod Identity), and check sasl.awsIam"
)
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,40}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")


class BearerTokens(Protocol):
    """Fetches tokens; `forget` is called when brokers did not accept the last one."""

    async def token(self) -> str:
        """Return a token that has not expired; raises SinkUnavailable."""
        ...

    def forget(self) -> None:
        """Make the next call return a new token."""
        ...


class _TokenResponse(Struct):
    """The response of a token endpoint, RFC 6749 sections 5.1 and 5.2."""

    access_token: str = ""
    expires_in: float = DEFAULT_LIFETIME_S
    error: str = ""


_decoder: Final = msgspec.json.Decoder(_TokenResponse, strict=False)


class FileToken:
    """A token in a file that is read at each connection, as a sidecar or the kubelet renews it."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def token(self) -> str:
        """Return what the file holds now."""
        return _check_token(await run_sync(_read_secret, "tokenFile", self._path), self._path)

    def forget(self) -> None:
        """Nothing is kept."""


class OidcToken:
    """A token by the grant `client_credentials`, kept for most of its lifetime.

    The secret is read for each request; no text of an answer but its error code is in an error.
    `clock` is monotonic.
    """

    def __init__(
        self, oidc: OidcSettings, clock: Callable[[], float], environ: Mapping[str, str]
    ) -> None:
        self._oidc = oidc
        self._clock = clock
        self._environ = environ
        self._token = ""
        self._reused_until = 0.0

    async def token(self) -> str:
        """Return the last token while it is young enough, else ask for another."""
        if not self._token or self._clock() >= self._reused_until:
            asked_at = self._clock()
            answer = await self._request()
            self._token = _check_token(answer.access_token, self._oidc.token_endpoint_url)
            self._reused_until = asked_at + REUSED_SHARE * answer.expires_in
        return self._token

    def forget(self) -> None:
        """Make the next call ask for another."""
        self._token = ""

    async def _request(self) -> _TokenResponse:
        url = self._oidc.token_endpoint_url
        secret = await run_sync(_read_secret, "clientSecretFile", self._oidc.client_secret_file)
        form = {"grant_type": "client_credentials"}
        if self._oidc.scope:
            form["scope"] = self._oidc.scope
        # RFC 6749 section 2.3.1: each half is encoded as in a form.
        login = aiohttp.encode_basic_auth(quote_plus(self._oidc.client_id), quote_plus(secret))
        proxy: Proxy | None = None
        try:
            proxy = environment_proxy(url, self._environ)
            tls = await run_sync(client_tls_context, self._oidc.ca_file)
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=tls),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    timeout=aiohttp.ClientTimeout(total=FETCH_TIMEOUT_S),
                ) as session,
                session.post(
                    URL(url),
                    data=form,
                    headers={"authorization": login, "accept": "application/json"},
                    allow_redirects=False,
                    proxy=None if proxy is None else proxy.url,
                ) as response,
            ):
                body = await response.content.read(MAX_RESPONSE_BYTES)
                return _parse_response(url, response.status, body)
        except ProxyError as error:
            raise SinkUnavailable(f"no token from {url}: {error}") from None
        except CONNECTION_ERRORS as error:
            text = describe_error(error, proxy)
            # Never raised from the client's own error, which holds our headers.
            raise SinkUnavailable(f"no token from {url}: {text}") from None


class AwsIamToken:
    """A token for Amazon MSK, signed by the library of AWS with the credentials of the pod.

    A broker accepts it for 15 minutes, but no longer than the credentials are valid: it is reused
    for the connections of one minute alone. `clock` is monotonic.
    """

    def __init__(self, settings: AwsIamSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._token = ""
        self._reused_until = 0.0

    async def token(self) -> str:
        """Return the last token while it is young, else sign another."""
        if not self._token or self._clock() >= self._reused_until:
            token = await self._sign()
            self._token = _check_token(token, _AWS_PACKAGE)
            self._reused_until = self._clock() + AWS_REUSED_S
        return self._token

    def forget(self) -> None:
        """Make the next call sign another."""
        self._token = ""

    async def _sign(self) -> str:
        try:
            with fail_after(AWS_TIMEOUT_S):
                return await run_sync(_sign_for_aws, self._settings, abandon_on_cancel=True)
        except TimeoutError:
            raise SinkUnavailable(
                f"no token for AWS IAM within {AWS_TIMEOUT_S:.0f} s: {_AWS_CREDENTIALS}"
            ) from None


def token_source(
    sasl: SaslSettings | None,
    clock: Callable[[], float],
    environ: Mapping[str, str] = os.environ,
) -> BearerTokens | None:
    """Return where the tokens for OAUTHBEARER come from; None for another mechanism."""
    if sasl is None or sasl.mechanism != "OAUTHBEARER":
        return None
    if sasl.aws_iam is not None:
        return AwsIamToken(sasl.aws_iam, clock)
    return FileToken(sasl.token_file) if sasl.oidc is None else OidcToken(sasl.oidc, clock, environ)


def token_provider(source: BearerTokens, extensions: Mapping[str, str]) -> Any:
    """Return the source as aiokafka, which has no types, wants it.

    What it raises is an OSError: aiokafka takes it for a connection that failed.
    """
    from aiokafka.abc import AbstractTokenProvider  # type: ignore[import-untyped]  # as above

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # as above
        async def token(self) -> str:
            try:
                return await source.token()
            except SinkUnavailable as error:
                raise OSError(str(error)) from None

        def extensions(self) -> dict[str, str]:
            return dict(extensions)

    return Provider()


def _sign_for_aws(settings: AwsIamSettings) -> str:
    """Return a new token; blocks, on the network where credentials come from there."""
    try:
        signer = import_module(f"{_AWS_MODULE}.MSKAuthTokenProvider")
    except ImportError:
        raise SinkUnavailable(
            f"sasl.awsIam needs the package {_AWS_PACKAGE}: install reactive-desched[aws], or build"
            " the image with REQUIREMENTS=aws"
        ) from None
    try:
        if settings.role_arn:
            token, _ = signer.generate_auth_token_from_role_arn(settings.region, settings.role_arn)
        else:
            token, _ = signer.generate_auth_token(settings.region)
    except Exception as error:  # noqa: BLE001 -- the library lets through whatever botocore raises
        # Without credentials it is an AttributeError of None.
        cause = "there are no credentials" if isinstance(error, AttributeError) else str(error)
        cause = truncate(" ".join(cause.split()), MAX_CAUSE_CHARS) or type(error).__name__
        raise SinkUnavailable(f"no token for AWS IAM: {cause}; {_AWS_CREDENTIALS}") from None
    return str(token)


def _parse_response(url: str, status: int, body: bytes) -> _TokenResponse:
    try:
        answer = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        answer = _TokenResponse()
    if status == HTTPStatus.OK and answer.access_token:
        return answer
    code = f", {answer.error}" if _ERROR_CODE.fullmatch(answer.error) else ""
    raise SinkUnavailable(
        f"{url} gives no token (HTTP {status}{code}): check tokenEndpointUrl, clientId, "
        "clientSecretFile and scope of sasl.oidc"
    )


def _read_secret(field: str, path: str) -> str:
    """Return a file's text without the space around it; blocks."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SinkUnavailable(f"{field} {path} cannot be read: {reason}") from None
    if not text:
        raise SinkUnavailable(f"{field} {path} is empty")
    return text


def _check_token(token: str, source: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise SinkUnavailable(f"what {source} gives is no bearer token: write the token alone")
    return token
