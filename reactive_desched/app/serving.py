"""Opens the HTTP server: its addresses, its certificate and its access rules."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from anyio.lowlevel import checkpoint
from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.app.openings import background_task
from reactive_desched.app.options import Dependencies
from reactive_desched.kube.client.session import Transport
from reactive_desched.primitives.url import is_loopback_host
from reactive_desched.web.access import TokenAccess
from reactive_desched.web.listen_socket import ListenSocket, bound, bound_if_set
from reactive_desched.web.operator import Operator
from reactive_desched.web.server import Security, Served, serve_at, serve_probes_at


class ServedUrls(Struct, frozen=True):
    """The URLs of the servers; `page` is None where the live page has no address of its own."""

    main: str
    page: str | None


class Addresses(Struct, frozen=True):
    """The addresses of the server, bound and not served yet."""

    main: ListenSocket
    probes: ListenSocket | None
    page: ListenSocket | None


@asynccontextmanager
async def bound_addresses(deps: Dependencies) -> AsyncIterator[Addresses]:
    """Bind the addresses of the settings while the block lasts; raises ConfigError."""
    server = deps.configuration.settings.server
    async with (
        bound(deps.listen) as main,
        bound_if_set(server.probe_listen) as probes,
        bound_if_set(server.page_listen) as page,
    ):
        yield Addresses(main, probes, page)


@asynccontextmanager
async def open_server(
    deps: Dependencies, session: Transport, addresses: Addresses, served: Served
) -> AsyncIterator[ServedUrls]:
    """Serve while the block lasts; raises ConfigError for a certificate that cannot be used."""
    async with AsyncExitStack() as stack:
        security = await stack.enter_async_context(_open_security(deps, session))
        await stack.enter_async_context(serve_probes_at(addresses.probes, served.health))
        await checkpoint()  # to build each server takes a millisecond
        page_url = None
        if addresses.page is not None and served.live_page:
            read_only = Operator(served.operator.pages, cluster=served.operator.cluster)
            page = Served(served.health, None, served.events, read_only, live_page=True)
            page_url = await stack.enter_async_context(serve_at(addresses.page, page, security))
            served = replace(served, live_page=False)
        url = await stack.enter_async_context(serve_at(addresses.main, served, security))
        yield ServedUrls(url, page_url)


def log_serving(deps: Dependencies, urls: ServedUrls) -> None:
    """Log where clients are answered, and which of them."""
    deps.log.info("probes and metrics are served", url=urls.main, page=urls.page)
    requires_token = deps.configuration.settings.server.require_token
    if not requires_token and not is_loopback_host(deps.listen.host):
        deps.log.info(
            "every client may read metrics and events; /debug and /operator answer only this pod"
            " until server.requireToken is set"
        )


@asynccontextmanager
async def _open_security(deps: Dependencies, session: Transport) -> AsyncIterator[Security]:
    """Build TLS and authentication as set, and reload the certificate while the block lasts."""
    settings = deps.configuration.settings.server
    if not settings.require_token and not settings.tls.cert_file:
        yield Security()
        return
    async with AsyncExitStack() as stack:
        security = Security()
        if settings.tls.cert_file:
            from reactive_desched.web.tls import ServerCertificate

            certificate = ServerCertificate(settings.tls.cert_file, settings.tls.key_file, deps.log)
            await stack.enter_async_context(background_task(certificate.run))
            security = replace(security, tls=certificate.context)
        if settings.require_token:
            from reactive_desched.kube.client.access_reviews import AccessReviewer

            reviewer = AccessReviewer(session, time.monotonic)
            access = TokenAccess(reviewer.review, is_encrypted=security.tls is not None)
            deps.metrics.register(access)
            security = replace(security, access=access)
        yield security
