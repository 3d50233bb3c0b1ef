"""Read the way into the cluster from files and plugins; everything here blocks."""

import asyncio
import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # no stub

from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.kube.kubeconfig import InCluster, KubeconfigFiles, Source
from reactive_desched.kube.lean_import import ConfigLoaders, config_loaders

__all__ = ["Access", "AccessReader"]

_PLUGIN_LIMIT_S = 60.0


class Access(Struct, frozen=True):
    """Everything a request needs to get in; `tls` is None for a plain http server."""

    server: str
    headers: dict[str, str]
    tls: ssl.SSLContext | None
    tls_server_name: str | None
    proxy: str | None


class AccessReader:
    """Reads one source again and again; to be used by one thread at a time.

    `repeatable` turns False when a repeat would run a credential plugin that names no end.
    """

    def __init__(self, source: Source, environ: Mapping[str, str]) -> None:
        self.repeatable = True
        self._source = source
        self._environ = environ
        self._loaders = config_loaders()
        self._files: _Kubeconfig | None = None
        self._tls: tuple[object, ssl.SSLContext] | None = None

    def read(self) -> Access:
        """Read everything; raises ConfigError naming the place and what is wrong there."""
        configuration = self._loaders.configuration()
        try:
            self._fill(configuration)
            return self._access(configuration)
        except ConfigError:
            raise
        except TimeoutError as error:
            raise ConfigError(
                f"{_place(self._source)}: the credential plugin gave no answer in"
                f" {_PLUGIN_LIMIT_S:.0f} s: run it by hand to see why"
            ) from error
        except Exception as error:  # the loaders raise nearly anything for a file they dislike
            reason = str(error) or type(error).__name__
            raise ConfigError(f"{_place(self._source)} cannot be used: {reason}") from error

    def _fill(self, configuration: Any) -> None:  # Any: the library ships no types
        if isinstance(self._source, InCluster):
            folder = self._source.service_account
            self._loaders.in_cluster.InClusterConfigLoader(
                str(folder / "token"), str(folder / "ca.crt"), environ=dict(self._environ)
            ).load_and_set(configuration)
            return
        if self._files is None or self._files.changed:
            self._files = _Kubeconfig(self._source, self._loaders)
        self._files.fill(configuration)
        self.repeatable = self._files.repeatable

    def _access(self, configuration: Any) -> Access:  # Any: the library ships no types
        authorization = configuration.api_key.get("BearerToken", "").strip()
        server = configuration.host.rstrip("/")
        return Access(
            server=server,
            headers={"Authorization": authorization} if authorization else {},
            tls=self._context(configuration) if server.startswith("https:") else None,
            tls_server_name=configuration.tls_server_name,
            proxy=configuration.proxy or _proxy(server, self._environ),
        )

    def _context(self, configuration: Any) -> ssl.SSLContext:  # Any: the library ships no types
        """Build the TLS side, or keep the present one while the files behind it are the same."""
        names = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        contents = tuple(Path(name).read_bytes() if name else b"" for name in names)
        seen = (configuration.verify_ssl, contents)
        if self._tls is None or self._tls[0] != seen:
            self._tls = (seen, _tls(*names, verify=configuration.verify_ssl))
        return self._tls[1]


class _Kubeconfig:
    """One state of the merged kubeconfig files and the loader made from it."""

    def __init__(self, source: KubeconfigFiles, loaders: ConfigLoaders) -> None:
        self._paths = source.paths
        self._stamp = _stamp(source.paths)
        merged = loaders.kubeconfig.KubeConfigMerger(":".join(source.paths)).config
        if merged is None or not isinstance(merged.value, dict):
            raise ConfigError(f"{_place(source)} is empty: pass another file with --kubeconfig")
        context = _context_name(merged.value, source)
        self._plugin = "exec" in _user(merged.value, context)
        self._loader: Any = loaders.kubeconfig.KubeConfigLoader(  # the library ships no types
            config_dict=merged, active_context=context, config_base_path=None
        )

    @property
    def changed(self) -> bool:
        """Whether somebody has rewritten a file since."""
        return _stamp(self._paths) != self._stamp

    @property
    def repeatable(self) -> bool:
        """Whether filling again runs no plugin before its credential nears its end."""
        return not self._plugin or hasattr(self._loader, "exec_plugin_expiry")

    def fill(self, configuration: Any) -> None:  # Any: the library ships no types
        """Load credentials (running a plugin if need be) and the cluster's address."""
        loading = self._loader.load_and_set(configuration)
        asyncio.run(asyncio.wait_for(loading, _PLUGIN_LIMIT_S))


def _place(source: Source) -> str:
    if isinstance(source, InCluster):
        return f"the service account in {source.service_account}"
    return "kubeconfig " + ", ".join(source.paths)


def _stamp(paths: tuple[str, ...]) -> list[tuple[int, int]]:
    facts = [Path(path).stat() for path in paths]
    return [(fact.st_mtime_ns, fact.st_size) for fact in facts]


def _named(config: dict[str, Any], section: str) -> dict[str, Any]:
    """List the entries of a section by name; the library wraps each in a node with a `value`."""
    return {entry.value["name"]: entry.value for entry in config.get(section) or ()}


def _context_name(config: dict[str, Any], source: KubeconfigFiles) -> str:
    contexts = _named(config, "contexts")
    name = source.context or config.get("current-context")
    known = ", ".join(sorted(contexts)) or "none"
    if not name:
        raise ConfigError(
            f"{_place(source)} sets no current-context: pass --context NAME (it has: {known})"
        )
    if name not in contexts:
        raise ConfigError(f"{_place(source)} has no context {name!r}: it has {known}")
    return str(name)


def _user(config: dict[str, Any], context: str) -> dict[str, Any]:
    name = _named(config, "contexts")[context]["context"].get("user")
    user = _named(config, "users").get(name, {}).get("user")
    return user if isinstance(user, dict) else {}


def _tls(
    ca_file: str | None, cert_file: str | None, key_file: str | None, *, verify: bool
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    # Cluster authorities often lack extensions that strict checking asks for; kubectl does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cert_file:
        context.load_cert_chain(cert_file, key_file)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _proxy(server: str, environ: Mapping[str, str]) -> str | None:
    """Read HTTPS_PROXY, HTTP_PROXY and NO_PROXY as kubectl does: never for this machine itself."""
    address = urlsplit(server)
    host = address.hostname or ""
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if _is_loopback(host) or proxy_bypass_environment(host, {"no": excluded}):
        return None
    name = f"{address.scheme}_proxy"
    return environ.get(name.upper()) or environ.get(name) or None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
