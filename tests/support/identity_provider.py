"""An identity provider over TLS, whose refresh tokens may count once."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from reactive_desched.kube.auth.oidc import OidcCredentials
from tests.support.authority import CertificateAuthority

__all__ = ["ENDED", "FRESH", "NOW_S", "SECRET", "Provider", "jwt"]

NOW_S = 1_800_000_000.0
SECRET = "c4n4ry"


def jwt(end_s: float, name: str = "x") -> str:
    """Return an id token that ends then."""
    claims = json.dumps({"exp": end_s, "sub": name, "odd": "???>>>"}).encode()
    payload = base64.urlsafe_b64encode(claims).decode().rstrip("=")
    return f"e30.{payload}.sig"


FRESH, ENDED = jwt(NOW_S + 3600), jwt(NOW_S + 9)


class Provider:
    """An identity provider that keeps what it is sent.

    One that `rotates` gives a new refresh token each time, and takes none twice.
    """

    def __init__(self) -> None:
        self.url = ""
        self.forms: list[dict[str, str]] = []
        self.logins: list[str] = []
        self.answer: dict[str, str] = {"id_token": FRESH, "refresh_token": "next"}
        self.status = 200
        self.takes_headers = True
        self.rotates = False
        self.ca_file = Path()

    @asynccontextmanager
    async def serving(self, folder: Path) -> AsyncIterator["Provider"]:
        """Listen on a free port until the block ends; its authority is in `ca_file`."""
        authority = CertificateAuthority(is_lax=True)
        self.ca_file = authority.write(folder / "idp.pem")
        runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await runner.setup()
        tls = authority.server_context(folder, "127.0.0.1", "idp.example")
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/.well-known/openid-configuration"):
            endpoint = f"https://{request.headers['Host']}/token"
            return web.json_response({"token_endpoint": endpoint})
        form = await request.post()
        self.forms.append({name: str(value) for name, value in form.items()})
        self.logins.append(request.headers.get("Authorization", ""))
        if self.logins[-1] and not self.takes_headers:
            return web.json_response({"error": "invalid_client"}, status=401)
        if self.rotates:
            return self._rotate(form["refresh_token"])
        return web.json_response(self.answer, status=self.status)

    def _rotate(self, token: object) -> web.StreamResponse:
        given = len(self.forms)
        if token in [each["refresh_token"] for each in self.forms[:-1]]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        tokens = {"id_token": jwt(NOW_S + 3600 * given), "refresh_token": f"refresh-{given}"}
        return web.json_response(tokens)

    def credentials(self, *, environ: Mapping[str, str] = {}, **config: str) -> OidcCredentials:
        """Return credentials with a section for this provider, and these fields in it."""
        whole = {
            "idp-issuer-url": self.url,
            "client-id": "us",
            "client-secret": SECRET,
            "idp-certificate-authority": str(self.ca_file),
            "refresh-token": f"first-{SECRET}",
            **{name.replace("_", "-"): value for name, value in config.items()},
        }
        return OidcCredentials(whole, environ)
