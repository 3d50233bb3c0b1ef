"""Reads server, credentials and TLS settings from files and plugins; every call blocks."""

import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.cancellable import CancellableRunner
from reactive_desched.kube.auth.impersonation import Header
from reactive_desched.kube.auth.kubeconfig import (
    InCluster,
    KubeconfigFiles,
    KubeConfigSource,
    describe_files,
)
from reactive_desched.kube.auth.kubeconfig_merge import ChosenContext, choose_context
from reactive_desched.kube.auth.lean_import import LibraryLoaders, library_loaders
from reactive_desched.primitives.client_tls import client_tls_context
from reactive_desched.primitives.proxies import Proxy, ProxyError, environment_proxy, make_proxy
from reactive_desched.primitives.url import split_url

__all__ = ["ClientConfig", "ClientConfigLoader", "describe_source"]

_LOAD_TIMEOUT_S = 60.0
_STAYS = "this process goes on with the address and the credentials that it has"
_USER_INFO = re.compile(r"//[^/]*@")


class ClientConfig(Struct, frozen=True):
    """The address, TLS and headers of a request; `tls` is None for a plain http server.

    `context` is the kubeconfig's; None for the service account of a pod. `impersonation` has the
    headers, some of them perhaps more than once, by which requests are sent as another user.
    """

    server: str
    headers: dict[str, str]
    tls: ssl.SSLContext | None
    tls_server_name: str | None
    proxy: Proxy | None
    context: str | None = None
    impersonation: tuple[Header, ...] = ()


class ClientConfigLoader:
    """Reads one configuration source repeatedly; used by one thread at a time.

    Context and server are those of the first load: later loads follow neither another
    current-context nor another address. `rejection` says why the last load left a changed
    kubeconfig aside and read the credentials of the earlier one anew; empty where it did not.
    `reloadable` turns False when a reload would run a credential plugin whose answer has no expiry.
    """

    def __init__(self, source: KubeConfigSource, environ: Mapping[str, str]) -> None:
        self.reloadable = True
        self.rejection = ""
        self._source = source
        self._environ = environ
        self._runner = CancellableRunner()
        self._kubeconfig: _LoadedKubeconfig | None = None
        self._tls_cache: tuple[object, ssl.SSLContext] | None = None

    def load(self) -> ClientConfig:
        """Read all settings; raises ConfigError with the file and the error."""
        loaders = library_loaders()
        configuration = loaders.configuration()
        configuration.host = ""  # else a cluster that names no server would be one on this machine
        try:
            self._load_into(configuration, loaders)
            return self._client_config(configuration)
        except ConfigError:
            raise
        except Exception as error:  # the loaders raise nearly anything for a file they dislike
            reason = str(error) or type(error).__name__
            raise ConfigError(
                f"{describe_source(self._source)} cannot be used: {reason}"
            ) from error

    def cancel(self) -> None:
        """Cancel, from another thread, the load that runs and every later one."""
        self._runner.cancel()

    def _load_into(self, configuration: Any, loaders: LibraryLoaders) -> None:  # Any: as in _access
        if isinstance(self._source, InCluster):
            folder = self._source.service_account
            loaders.in_cluster.InClusterConfigLoader(
                str(folder / "token"), str(folder / "ca.crt"), environ=dict(self._environ)
            ).load_and_set(configuration)
            return
        self._kubeconfig = self._read_kubeconfig(self._source, loaders)
        self._run_loader(self._kubeconfig, configuration)
        self.reloadable = self._kubeconfig.reloadable

    def _read_kubeconfig(
        self, source: KubeconfigFiles, loaders: LibraryLoaders
    ) -> "_LoadedKubeconfig":
        """Return the files as they are now, or as they were while they lead elsewhere or nowhere.

        Raises ConfigError where they cannot be used and were not read before.
        """
        before, self.rejection = self._kubeconfig, ""
        if before is None:
            return _LoadedKubeconfig(source, loaders)
        if not before.changed:
            return before
        try:
            found = _LoadedKubeconfig(replace(source, context=before.context.name), loaders)
        except ConfigError as error:
            self.rejection = f"{error}; {_STAYS}"
            return before
        if found.context.server != before.context.server:
            then, now = (_USER_INFO.sub("//", each.context.server) for each in (before, found))
            self.rejection = (
                f"{describe_source(source)}: the context {before.context.name!r} leads to another"
                f" server, {now}: this process began with {then} and stays there; restart it to"
                " have it go to the other one, or restore the address"
            )
            return before
        return found

    def _run_loader(
        self, kubeconfig: "_LoadedKubeconfig", configuration: Any
    ) -> None:  # Any: as in _access
        try:
            self._runner.run(kubeconfig.load_into(configuration), _LOAD_TIMEOUT_S)
        except TimeoutError as error:
            raise ConfigError(
                f"{describe_source(self._source)}: no answer in {_LOAD_TIMEOUT_S:.0f} "
                f"s{kubeconfig.wait_hint}"
            ) from error

    def _client_config(self, configuration: Any) -> ClientConfig:  # Any: the library ships no types
        authorization = configuration.api_key.get("BearerToken", "").strip()
        if not authorization.isprintable():
            raise ConfigError(
                f"{describe_source(self._source)}: the token holds a line break or another control"
                " character: have it written anew, on one line"
            )
        server = self._require_http_url("server", configuration.host.rstrip("/"))
        chosen = None if self._kubeconfig is None else self._kubeconfig.context
        return ClientConfig(
            server=server,
            headers={"Authorization": authorization} if authorization else {},
            tls=self._tls_context(configuration) if server.startswith("https:") else None,
            tls_server_name=configuration.tls_server_name,
            proxy=self._proxy(server, configuration.proxy),
            context=chosen.name if chosen else None,
            impersonation=chosen.impersonation if chosen else (),
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

    def _tls_context(self, configuration: Any) -> ssl.SSLContext:  # Any: the library ships no types
        """Build the TLS context, or return the present one while its files are the same."""
        names = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        contents = tuple(Path(name).read_bytes() if name else b"" for name in names)
        seen = (configuration.verify_ssl, contents)
        if self._tls_cache is None or self._tls_cache[0] != seen:
            self._tls_cache = (seen, _make_tls_context(*names, verify=configuration.verify_ssl))
        return self._tls_cache[1]


class _LoadedKubeconfig:
    """One version of the merged kubeconfig files, and the loader made from it."""

    def __init__(self, source: KubeconfigFiles, loaders: LibraryLoaders) -> None:
        self._paths = source.paths
        self._file_stamps = _stamp_files(source.paths)
        self.context = choose_context(source)
        user = self.context.user
        self._has_exec_plugin = "exec" in user
        self._command = (user.get("exec") or {}).get("command")
        self._loader: Any = loaders.kubeconfig.KubeConfigLoader(  # the library ships no types
            config_dict=_as_kubeconfig(self.context), config_base_path=""
        )

    @property
    def changed(self) -> bool:
        """Whether a kubeconfig file was written since it was read."""
        return _stamp_files(self._paths) != self._file_stamps

    @property
    def reloadable(self) -> bool:
        """Whether a reload runs no plugin before its credential is about to expire."""
        return not self._has_exec_plugin or hasattr(self._loader, "exec_plugin_expiry")

    @property
    def wait_hint(self) -> str:
        """Name the credential plugin or auth-provider that a load waits for."""
        if not self._has_exec_plugin:
            return ": see whether what the user's auth-provider names can be reached"
        return f" from its credential plugin {self._command!r}: run it by hand to see why"

    async def load_into(self, configuration: Any) -> None:  # Any: the library ships no types
        """Load the credentials, running a plugin if needed, and the server's address."""
        await self._loader.load_and_set(configuration)
        if token := _read_token(self.context.token_file):
            configuration.api_key["BearerToken"] = f"Bearer {token}"


def describe_source(source: KubeConfigSource) -> str:
    """Name the configuration source, for error messages."""
    if isinstance(source, InCluster):
        return f"the service account in {source.service_account}"
    return describe_files(source)


def _stamp_files(paths: tuple[str, ...]) -> list[tuple[int, int, int] | None]:
    return [_stamp_file(Path(path)) for path in paths]


def _stamp_file(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is written or replaced; None where there is none."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _read_token(file: str | None) -> str:
    """Return the token in a file; empty where the user's `token` is to count."""
    if file is not None:
        with suppress(OSError, UnicodeDecodeError):
            return Path(file).read_text(encoding="utf-8").strip()
    return ""


def _as_kubeconfig(chosen: ChosenContext) -> dict[str, Any]:
    """Return a kubeconfig with this context alone; the library's errors name the user."""
    user = chosen.user_name or "none"
    return {
        "current-context": chosen.name,
        "contexts": [{"name": chosen.name, "context": {"cluster": "its own", "user": user}}],
        "clusters": [{"name": "its own", "cluster": chosen.cluster}],
        "users": [{"name": user, "user": chosen.user}],
    }


def _make_tls_context(
    ca_file: str | None, cert_file: str | None, key_file: str | None, *, verify: bool
) -> ssl.SSLContext:
    context = client_tls_context(ca_file)
    if cert_file:
        context.load_cert_chain(cert_file, key_file)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _is_http(url: str) -> bool:
    parts = split_url(url)
    if parts is None or not url.startswith(("http://", "https://")):
        return False
    return bool(parts.hostname) and parts.port != 0
