"""The auth-provider `oidc` of a kubeconfig: an id token, and a new one by the refresh token."""

import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote_plus

import aiohttp
import msgspec
from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.credential import LOAD_LIMIT_S, Credential
from reactive_desched.primitives.client_tls import client_tls_context
from reactive_desched.primitives.http_failures import (
    CONNECTION_ERRORS,
    check_proxy_login,
    describe_error,
)
from reactive_desched.primitives.proxies import ProxyError, environment_proxy
from reactive_desched.primitives.url import split_url

__all__ = ["OidcCredentials"]

_EXPIRY_DELTA_S: Final = 10.0
_RENEW_BEFORE_S: Final = 60.0
_TIMEOUT_S: Final = 20.0
_MAX_BODY_BYTES: Final = 2**20
_JWT_PARTS: Final = 3
_OUR_FAULTS: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_LOG_IN: Final = "log in again, so that the kubeconfig has a new refresh-token"


class _Discovery(Struct, frozen=True):
    token_endpoint: str = ""


class _Tokens(Struct, frozen=True):
    id_token: str = ""
    refresh_token: str = ""
    error: str = ""


class _Claims(Struct, frozen=True):
    exp: float = 0.0


class OidcCredentials:
    """The id token of the kubeconfig, or one that the identity provider gave for its refresh token.

    As in client-go a token counts until ten seconds before its end; a new one is asked for a minute
    before it, or after a 401. `write` gets the new tokens, by their fields, where the refresh token
    is a new one: the old one may count no more. What it raises is logged.
    """

    is_kept = True

    def __init__(
        self,
        config: Mapping[str, Any],
        environ: Mapping[str, str],
        write: Callable[[Mapping[str, str]], None] = lambda _: None,
    ) -> None:
        """Read the provider's section; raises ValueError where a field is missing."""
        self._write = write
        self.wait_hint = ": see whether what the user's auth-provider names can be reached"
        self.refused_hint = "the identity provider gives no others: log in again"
        self.limit_s = LOAD_LIMIT_S
        self._config = {name: str(value) for name, value in config.items() if value}
        self._environ = environ
        for field in ("idp-issuer-url", "client-id"):
            if field not in self._config:
                raise ValueError(f"its auth-provider oidc lacks {field}: add it, or log in again")
        self._id_token = self._config.get("id-token", "")
        self._refresh_token = self._config.get("refresh-token", "")

    async def load(self, now_s: float, *, is_rejected: bool) -> Credential:
        """Return the id token; asks the identity provider for a new one where it has ended."""
        end_s = _end(self._id_token) if self._id_token else 0.0
        is_good = now_s + _EXPIRY_DELTA_S < end_s
        is_due = not is_good or is_rejected or now_s + _RENEW_BEFORE_S >= end_s
        if is_due and self._refresh_token:
            try:
                await self._refresh()
            except ValueError:
                if not is_good or is_rejected:
                    raise
            end_s = _end(self._id_token)
        elif not is_good:
            ended = "its id-token has ended" if self._id_token else "there is no id-token"
            raise ValueError(
                f"auth-provider oidc: {ended} and there is no refresh-token: {_LOG_IN}"
            )
        renew_at_s = end_s - _RENEW_BEFORE_S if self._refresh_token else None
        return Credential(f"Bearer {self._id_token}", renew_at_s=renew_at_s)

    async def _refresh(self) -> None:
        context = client_tls_context(
            self._config.get("idp-certificate-authority"), ca_data=self._authority()
        )
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
            issuer = self._config["idp-issuer-url"].removesuffix("/")
            found = await self._ask(http, f"{issuer}/.well-known/openid-configuration")
            endpoint = _decode(found, _Discovery).token_endpoint
            if split_url(endpoint) is None or not endpoint.startswith(("https://", "http://")):
                raise ValueError(
                    f"auth-provider oidc: {_origin(issuer)} names no token_endpoint: correct"
                    " idp-issuer-url"
                )
            tokens = _decode(await self._ask_for_tokens(http, endpoint), _Tokens)
        if not tokens.id_token:
            raise ValueError(
                f"auth-provider oidc: {_origin(issuer)} gave no id_token for the refresh token:"
                f" {_LOG_IN}, with the scope openid"
            )
        self._id_token = tokens.id_token
        if tokens.refresh_token and tokens.refresh_token != self._refresh_token:
            self._refresh_token = tokens.refresh_token
            self._write_tokens()

    def _write_tokens(self) -> None:
        try:
            self._write({"id-token": self._id_token, "refresh-token": self._refresh_token})
        except (OSError, ValueError, ConfigError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            logging.getLogger(__name__).warning(
                "the identity provider gave a new refresh token, and it is not written to the"
                " kubeconfig: %s; other programs that use it may have to log in again",
                reason,
            )

    async def _ask_for_tokens(self, http: aiohttp.ClientSession, endpoint: str) -> bytes:
        """Send the refresh token: with the client's password in a header, or else in the body."""
        client, secret = self._config["client-id"], self._config.get("client-secret", "")
        form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
        login = base64.b64encode(f"{quote_plus(client)}:{quote_plus(secret)}".encode()).decode()
        with suppress(_RefusalError):
            return await self._ask(http, endpoint, form, {"Authorization": f"Basic {login}"})
        form |= {"client_id": client} | ({"client_secret": secret} if secret else {})
        return await self._ask(http, endpoint, form)

    async def _ask(
        self,
        http: aiohttp.ClientSession,
        url: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the body of an answer; raises ValueError without a word of it."""
        try:
            proxy = environment_proxy(url, self._environ)
        except ProxyError as error:
            raise ValueError(f"auth-provider oidc: {error}") from None
        way = "" if proxy is None else f", through {proxy}"
        try:
            async with http.request(
                "GET" if form is None else "POST",
                url,
                data=form,
                headers=headers,
                proxy=None if proxy is None else proxy.url,
                allow_redirects=form is None,
            ) as answer:
                check_proxy_login(answer, proxy)
                body = await answer.content.read(_MAX_BODY_BYTES)
                status = answer.status
        except CONNECTION_ERRORS as error:
            raise ValueError(
                f"auth-provider oidc: no answer of {_origin(url)}: {describe_error(error, proxy)}"
            ) from None
        except ValueError as error:
            raise ValueError(
                f"auth-provider oidc: no answer of {_origin(url)}{way}: {type(error).__name__}"
            ) from None
        if status == HTTPStatus.OK:
            return body
        remedy = _LOG_IN if status in _OUR_FAULTS else "it is tried again"
        raise _RefusalError(
            f"auth-provider oidc: {_origin(url)} answers {status}{_refusal(body)}{way}: {remedy}"
        )

    def _authority(self) -> bytes | None:
        data = self._config.get("idp-certificate-authority-data")
        if not data:
            return None
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error:
            raise ValueError(
                "auth-provider oidc: idp-certificate-authority-data is no base64: write it anew, or"
                " name a file with idp-certificate-authority"
            ) from None


class _RefusalError(ValueError):
    """An answer that is no 200."""


def _refusal(body: bytes) -> str:
    """Return the error code of OAuth, which is a word of its specification."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        code = msgspec.json.decode(body, type=_Tokens).error
        if code.isidentifier():
            return f" ({code[:40]})"
    return ""


def _origin(url: str) -> str:
    parts = split_url(url)
    return "" if parts is None else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _decode(body: bytes, type_: Any) -> Any:  # Any: a class, and an object of it
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ValueError(
            "auth-provider oidc: what idp-issuer-url leads to is no identity provider: correct it"
        ) from None


def _end(token: str) -> float:
    """Return when an id token ends, in seconds since the epoch."""
    parts = token.split(".")
    if len(parts) == _JWT_PARTS:
        with suppress(ValueError, msgspec.DecodeError):
            payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
            return msgspec.json.decode(payload, type=_Claims).exp
    raise ValueError(f"auth-provider oidc: its id-token is no JWT: {_LOG_IN}")
