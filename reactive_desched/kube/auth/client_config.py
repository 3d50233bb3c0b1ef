"""Reads server, credentials and TLS settings from files and plugins; every call blocks."""

import asyncio
import re
import ssl
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.certificates import certificate_end
from reactive_desched.kube.auth.credential import WRITE_ANEW, Credential, CredentialSource
from reactive_desched.kube.auth.impersonation import Header
from reactive_desched.kube.auth.kubeconfig import (
    InCluster,
    KubeconfigFiles,
    KubeConfigSource,
    describe_files,
)
from reactive_desched.kube.auth.kubeconfig_merge import ChosenContext, choose_context
from reactive_desched.kube.auth.user_credentials import (
    credential_source,
    file_or_data,
    read_token,
)
from reactive_desched.primitives.client_tls import client_tls_context, load_client_certificate
from reactive_desched.primitives.proxies import Proxy, ProxyError, environment_proxy, make_proxy
from reactive_desched.primitives.shortage import lacking
from reactive_desched.primitives.url import split_url

__all__ = ["CancellableRunner", "ClientConfig", "ClientConfigLoader", "describe_source"]


class CancellableRunner:
    """Runs coroutines in event loops of their own, one at a time, until it is stopped."""

    def __init__(self) -> None:
        self._cancelled = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None

    def run(self, work: Coroutine[None, None, None], timeout_s: float) -> None:
        """Block until the coroutine ends; raises TimeoutError, or CancelledError after `cancel`."""
        asyncio.run(asyncio.wait_for(self._run_cancellable(work), timeout_s))

    def cancel(self) -> None:
        """Cancel the running coroutine, from any thread, and every later one."""
        self._cancelled = True
        if self._running is not None:
            loop, task = self._running
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(task.cancel)

    async def _run_cancellable(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._running = asyncio.get_running_loop(), task
        if self._cancelled:  # before there was anything to cancel
            task.cancel()
        await task


_STAYS = "this process goes on with the address and the credentials that it has"
_USER_INFO = re.compile(r"//[^/]*@")


class ClientConfig(Struct, frozen=True):
    """The address, TLS and headers of a request; `tls` is None for a plain http server.

    `context` is the kubeconfig's; None for the service account of a pod. `impersonation` has the
    headers, some of them perhaps more than once, by which requests are sent as another user. At
    `renew_at_s`, in seconds since the epoch, the credentials are to be loaded again, before they
    end; None where they name no end. `certificate_end_s` is when the client certificate ends.
    """

    server: str
    headers: dict[str, str]
    tls: ssl.SSLContext | None
    tls_server_name: str | None
    proxy: Proxy | None
    context: str | None = None
    impersonation: tuple[Header, ...] = ()
    renew_at_s: float | None = None
    certificate_end_s: float | None = None


class ClientConfigLoader:
    """Reads one configuration source repeatedly; used by one thread at a time.

    Context, server and impersonated user are those of the first load: later loads follow neither
    another current-context nor another address or user to act as, and no user that has lost its
    credentials. `rejection` says why the last load left a changed kubeconfig or certificate
    authority aside and read the credentials anew with the earlier one; empty where it did not.
    """

    def __init__(self, source: KubeConfigSource, environ: Mapping[str, str]) -> None:
        self.rejection = ""
        self._source = source
        self._environ = environ
        self._runner = CancellableRunner()
        self._kubeconfig: _LoadedKubeconfig | None = None
        self._authority = b""
        self._tls_cache: tuple[object, ssl.SSLContext] | None = None

    def load(self, now_s: float, *, is_rejected: bool = False) -> ClientConfig:
        """Read all settings; raises ConfigError with the file and the error.

        `now_s` is the time of day. After a rejection (401) a credential plugin runs again,
        whatever it said of the end of its credential.
        """
        self.rejection = ""
        try:
            if isinstance(self._source, InCluster):
                return self._in_cluster(self._source.service_account)
            self._kubeconfig = self._read_kubeconfig(self._source)
            credential = self._kubeconfig.load(self._runner, now_s, is_rejected=is_rejected)
            return self._client_config(self._kubeconfig.context, credential)
        except ConfigError:
            raise
        except OSError as error:
            raise ConfigError(f"{self._name} cannot be used: {_os_error_text(error)}") from error
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise ConfigError(f"{self._name} cannot be used: {reason}") from error

    @property
    def refused_hint(self) -> str:
        """Say what to do where the API server does not accept the credentials."""
        return WRITE_ANEW if self._kubeconfig is None else self._kubeconfig.refused_hint

    @property
    def may_keep(self) -> bool:
        """Say whether a load may return the credential of an earlier one."""
        return self._kubeconfig is not None and self._kubeconfig.may_keep

    def describe_wait(self, waited_s: float) -> str:
        """Say that the load that runs has had no answer for so long, and for how long it waits."""
        if self._kubeconfig is None:
            return f"{self._name}: no answer in {waited_s:.0f} s"
        return self._kubeconfig.describe_wait(waited_s)

    def cancel(self) -> None:
        """Cancel, from another thread, the load that runs and every later one."""
        self._runner.cancel()

    @property
    def _name(self) -> str:
        return describe_source(self._source)

    def _in_cluster(self, folder: Path) -> ClientConfig:
        host = self._environ.get("KUBERNETES_SERVICE_HOST", "")
        port = self._environ.get("KUBERNETES_SERVICE_PORT") or "443"
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        credential = Credential(f"Bearer {read_token(str(folder / 'token'))}")
        return self._complete(server, {"certificate-authority": str(folder / "ca.crt")}, credential)

    def _read_kubeconfig(self, source: KubeconfigFiles) -> "_LoadedKubeconfig":
        """Return the files as they are now, or as they were while they lead elsewhere or nowhere.

        Raises ConfigError where they cannot be used and were not read before.
        """
        before = self._kubeconfig
        if before is None:
            return _LoadedKubeconfig(source, self._environ)
        if not before.changed:
            return before
        try:
            context = replace(source, context=before.context.name)
            found = _LoadedKubeconfig(context, self._environ, before)
        except ConfigError as error:
            self.rejection = f"{error}; {_STAYS}"
            return before
        if reason := _why_left_aside(before.context, found.context):
            self.rejection = f"{describe_source(source)}: {reason}"
            return before
        return found

    def _client_config(self, context: ChosenContext, credential: Credential) -> ClientConfig:
        found = self._complete(context.server, context.cluster, credential)
        return replace(found, context=context.name, impersonation=context.impersonation)

    def _complete(
        self, server: str, cluster: Mapping[str, Any], credential: Credential
    ) -> ClientConfig:
        authorization = credential.authorization
        if not authorization.isprintable():
            raise ConfigError(
                f"{self._name}: the token holds a line break or another control character: have it"
                " written anew, on one line"
            )
        self._require_http_url("server", server)
        is_tls, is_checked = (
            server.startswith("https:"),
            not cluster.get("insecure-skip-tls-verify"),
        )
        return ClientConfig(
            server=server,
            headers={"Authorization": authorization} if authorization else {},
            tls=self._tls_context(cluster, credential, verify=is_checked) if is_tls else None,
            tls_server_name=cluster.get("tls-server-name"),
            proxy=self._proxy(server, cluster.get("proxy-url")),
            renew_at_s=credential.renew_at_s,
            certificate_end_s=certificate_end(credential.certificate),
        )

    def _require_http_url(self, field: str, url: str) -> str:
        if not _is_http(url):
            shown = _USER_INFO.sub("//", url)
            raise ConfigError(
                f"{describe_source(self._source)}: the {field} {shown!r} is not a http address:"
                " write https://HOST:PORT"
            )
        return url

    def _proxy(self, server: str, configured: str | None) -> Proxy | None:
        """Return the kubeconfig's proxy, or else the environment's, as kubectl does."""
        try:
            if configured:
                return make_proxy(configured, "the kubeconfig's proxy-url")
            return environment_proxy(server, self._environ)
        except ProxyError as error:
            raise ConfigError(f"{describe_source(self._source)}: {error}") from None

    def _tls_context(
        self, cluster: Mapping[str, Any], credential: Credential, *, verify: bool
    ) -> ssl.SSLContext:
        """Build the TLS context, or return the present one while what it holds is the same."""
        authority = self._usable_authority(cluster)
        seen = (authority, credential.certificate, credential.key, verify)
        if self._tls_cache is None or self._tls_cache[0] != seen:
            self._tls_cache = (seen, self._make_tls_context(authority, credential, verify=verify))
        return self._tls_cache[1]

    def _usable_authority(self, cluster: Mapping[str, Any]) -> bytes:
        """Return the authority as it is now, or the earlier one while it cannot be used.

        Credentials that are renewed must not fail for a file that was taken away. Raises OSError
        or ConfigError where there was no earlier one.
        """
        try:
            found = file_or_data(cluster, "certificate-authority")
            if found != self._authority:
                self._require_authority(found)
        except (OSError, ConfigError) as error:
            if not self._authority or lacking(error):
                raise
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"{self._name}: its certificate authority is gone: {_os_error_text(error)}"
            self.rejection = self.rejection or f"{reason}; the one that was read before is trusted"
            return self._authority
        self._authority = found
        return found

    def _require_authority(self, authority: bytes) -> None:
        """Raise ConfigError for what is no certificate; an empty one is none after another."""
        if not authority and self._authority:
            raise ConfigError(
                f"{self._name}: its certificate authority cannot be used: it is empty"
            )
        try:
            client_tls_context(ca_data=authority or None)
        except OSError as error:
            if lacking(error):
                raise
            raise ConfigError(
                f"{self._name}: its certificate authority cannot be used: {_os_error_text(error)}:"
                " it is PEM, with CERTIFICATE in its first line"
            ) from error

    def _make_tls_context(
        self, authority: bytes, credential: Credential, *, verify: bool
    ) -> ssl.SSLContext:
        context = client_tls_context(ca_data=authority or None)
        try:
            if credential.certificate:
                load_client_certificate(context, credential.certificate, credential.key)
        except OSError as error:
            if lacking(error):
                raise
            raise ConfigError(
                f"{self._name}: its client certificate and key cannot be used:"
                f" {_os_error_text(error)}: they are PEM, belong together, and the key is not"
                " encrypted"
            ) from error
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class _LoadedKubeconfig:
    """One version of the merged kubeconfig files, and the source of the user's credentials.

    That of the version `before` goes on where the user's entry is the same: it may have a token
    that was renewed, where the file has one that counts no more.
    """

    credentials: CredentialSource

    def __init__(
        self,
        source: KubeconfigFiles,
        environ: Mapping[str, str],
        before: "_LoadedKubeconfig | None" = None,
    ) -> None:
        self._source = source
        self._file_stamps = _stamp_files(source.paths)
        self.context = choose_context(source)
        if before is not None and self.context.has_login_of(before.context):
            self.credentials = before.credentials
        else:
            self.credentials = credential_source(self.context, environ)

    @property
    def refused_hint(self) -> str:
        """Say what to do where the API server does not accept the user's credentials."""
        return self.credentials.refused_hint

    @property
    def may_keep(self) -> bool:
        """Say whether a load may return the credential of an earlier one."""
        return self.credentials.is_kept

    @property
    def changed(self) -> bool:
        """Say whether a kubeconfig file was written since it was read."""
        return _stamp_files(self._source.paths) != self._file_stamps

    def load(self, runner: CancellableRunner, now_s: float, *, is_rejected: bool) -> Credential:
        """Return the user's credential; a plugin, an identity provider or a person has a limit."""
        found: list[Credential] = []

        async def load() -> None:
            found.append(await self.credentials.load(now_s, is_rejected=is_rejected))

        limit_s = self.credentials.limit_s
        try:
            runner.run(load(), limit_s)
        except TimeoutError as error:
            raise ConfigError(self._unanswered(limit_s)) from error
        return found[0]

    def describe_wait(self, waited_s: float) -> str:
        """Say what the load that runs waits for, and for how long."""
        return (
            f"{self._unanswered(waited_s)}; it is given up after {self.credentials.limit_s:.0f} s"
        )

    def _unanswered(self, waited_s: float) -> str:
        hint = self.credentials.wait_hint
        return f"{describe_files(self._source)}: no answer in {waited_s:.0f} s{hint}"


def describe_source(source: KubeConfigSource) -> str:
    """Name the configuration source, for error messages."""
    if isinstance(source, InCluster):
        return f"the service account in {source.service_account}"
    return describe_files(source)


def _why_left_aside(before: ChosenContext, found: ChosenContext) -> str:
    """Say why a context as it is now is not used by a process that began with it; or empty.

    A file that is half written may be a valid one, in which a user has lost its last fields.
    """
    if found.server != before.server:
        return (
            f"the context {before.name!r} leads to another server, {found.server}: this process"
            f" began with {before.server} and stays there; restart it to have it go to the other"
            " one, or restore the address"
        )
    if sorted(found.impersonation) != sorted(before.impersonation):
        return (
            f"the fields by which {found.user_name!r} acts as another user (as, as-uid, as-groups,"
            " as-user-extra) have changed: this process sends its requests as it did at the start;"
            " restart it to have it follow, or restore these fields"
        )
    if before.has_credentials and not found.has_credentials:
        return f"the user {found.user_name!r} has no credentials any more; {_STAYS}"
    return ""


def _stamp_files(paths: tuple[str, ...]) -> list[tuple[int, int, int] | None]:
    return [_stamp_file(Path(path)) for path in paths]


def _stamp_file(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is written or replaced; None where there is none."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _os_error_text(error: OSError) -> str:
    """Return the system's words, with the file that they are about."""
    if isinstance(error, ssl.SSLError):
        return error.reason.replace("_", " ").lower() if error.reason else "not PEM"
    reason = error.strerror or type(error).__name__
    return reason if error.filename is None else f"{error.filename}: {reason}"


def _is_http(url: str) -> bool:
    parts = split_url(url)
    if parts is None or not url.startswith(("http://", "https://")):
        return False
    return bool(parts.hostname) and parts.port != 0
