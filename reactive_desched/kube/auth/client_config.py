"""Read the way into the cluster from files and plugins; everything here blocks."""

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # no stub

from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.cancellable import Stoppable
from reactive_desched.kube.auth.kubeconfig import InCluster, KubeconfigFiles, Source
from reactive_desched.kube.auth.kubeconfig_shape import check
from reactive_desched.kube.auth.lean_import import ConfigLoaders, config_loaders
from reactive_desched.primitives.url import is_this_machine, parts_of

__all__ = ["Access", "AccessReader", "place"]

_WAIT_LIMIT_S = 60.0
_SECTIONS = ("clusters", "contexts", "users")
_USER_INFO = re.compile(r"//[^/]*@")


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
        self._waits = Stoppable()
        self._files: _Kubeconfig | None = None
        self._tls: tuple[object, ssl.SSLContext] | None = None

    def read(self) -> Access:
        """Read everything; raises ConfigError naming the place and what is wrong there."""
        loaders = config_loaders()
        configuration = loaders.configuration()
        configuration.host = ""  # else a cluster that names no server would be one on this machine
        try:
            self._fill(configuration, loaders)
            return self._access(configuration)
        except ConfigError:
            raise
        except Exception as error:  # the loaders raise nearly anything for a file they dislike
            reason = str(error) or type(error).__name__
            raise ConfigError(f"{place(self._source)} cannot be used: {reason}") from error

    def stop(self) -> None:
        """Break off, from another thread, what a reading waits for, and every later one."""
        self._waits.stop()

    def _fill(self, configuration: Any, loaders: ConfigLoaders) -> None:  # Any: as in _access
        if isinstance(self._source, InCluster):
            folder = self._source.service_account
            loaders.in_cluster.InClusterConfigLoader(
                str(folder / "token"), str(folder / "ca.crt"), environ=dict(self._environ)
            ).load_and_set(configuration)
            return
        if self._files is None or self._files.changed:
            self._files = _Kubeconfig(self._source, loaders)
        self._wait_for(self._files, configuration)
        self.repeatable = self._files.repeatable

    def _wait_for(self, files: "_Kubeconfig", configuration: Any) -> None:  # Any: as in _access
        try:
            self._waits.run(files.filling(configuration), _WAIT_LIMIT_S)
        except TimeoutError as error:
            raise ConfigError(
                f"{place(self._source)}: no answer in {_WAIT_LIMIT_S:.0f} s{files.whom_to_ask}"
            ) from error

    def _access(self, configuration: Any) -> Access:  # Any: the library ships no types
        authorization = configuration.api_key.get("BearerToken", "").strip()
        if not authorization.isprintable():
            raise ConfigError(
                f"{place(self._source)}: the token holds a line break or another control"
                " character: have it written anew, on one line"
            )
        server = self._checked("server", configuration.host.rstrip("/"))
        proxy = configuration.proxy or _proxy(server, self._environ)
        return Access(
            server=server,
            headers={"Authorization": authorization} if authorization else {},
            tls=self._context(configuration) if server.startswith("https:") else None,
            tls_server_name=configuration.tls_server_name,
            proxy=self._checked("proxy", proxy) if proxy else None,
        )

    def _checked(self, what: str, url: str) -> str:
        if not _is_http(url):
            shown = _USER_INFO.sub("//", url)
            raise ConfigError(
                f"{place(self._source)}: the {what} {shown!r} is no http address:"
                " write https://HOST:PORT"
            )
        return url

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
        for path in source.paths:
            check(path)
        merged = loaders.kubeconfig.KubeConfigMerger(":".join(source.paths)).config
        _rename(merged.value)
        context = _context_name(merged.value, source)
        user = _user(merged.value, context)
        self._plugin = "exec" in user
        self._command = (user.get("exec") or {}).get("command")
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

    @property
    def whom_to_ask(self) -> str:
        """Name what a reading waits for, where it is known: the credential plugin."""
        if not self._plugin:
            return ": see whether what the user's auth-provider names can be reached"
        return f" from its credential plugin {self._command!r}: run it by hand to see why"

    async def filling(self, configuration: Any) -> None:  # Any: the library ships no types
        """Load credentials (running a plugin if need be) and the cluster's address."""
        await self._loader.load_and_set(configuration)


def place(source: Source) -> str:
    """Say where the way in is described, for whoever has to correct it."""
    if isinstance(source, InCluster):
        return f"the service account in {source.service_account}"
    return "kubeconfig " + ", ".join(source.paths)


def _stamp(paths: tuple[str, ...]) -> list[tuple[int, int]]:
    facts = [Path(path).stat() for path in paths]
    return [(fact.st_mtime_ns, fact.st_size) for fact in facts]


def _rename(config: dict[str, Any]) -> None:
    """Name the entries: the library does so by their content, tokens and all, in what it raises."""
    for section in _SECTIONS:
        for entry in config[section]:
            entry.name = f"{section}/{entry.value['name']}"


def _named(config: dict[str, Any], section: str) -> dict[object, Any]:
    """List the entries of a section by name; the library wraps each in a node with a `value`."""
    return {entry.value["name"]: entry.value for entry in config.get(section) or ()}


def _context_name(config: dict[str, Any], source: KubeconfigFiles) -> object:
    contexts = _named(config, "contexts")
    name = source.context or config.get("current-context")
    known = ", ".join(sorted(map(str, contexts))) or "none"
    if not name:
        raise ConfigError(
            f"{place(source)} sets no current-context: pass --context NAME (it has: {known})"
        )
    if name not in contexts:
        raise ConfigError(f"{place(source)} has no context {name!r}: it has {known}")
    return name


def _user(config: dict[str, Any], context: object) -> dict[str, Any]:
    name = (_named(config, "contexts")[context].get("context") or {}).get("user")
    user: dict[str, Any] | None = _named(config, "users").get(name, {}).get("user")
    return user or {}


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


def _is_http(url: str) -> bool:
    parts = parts_of(url)
    if parts is None or not url.startswith(("http://", "https://")):
        return False
    return bool(parts.hostname) and parts.port != 0


def _proxy(server: str, environ: Mapping[str, str]) -> str | None:
    """Read HTTPS_PROXY, HTTP_PROXY and NO_PROXY as kubectl does: never for this machine itself."""
    address = urlsplit(server)
    host = address.hostname or ""
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if is_this_machine(host) or proxy_bypass_environment(host, {"no": excluded}):
        return None
    name = f"{address.scheme}_proxy"
    return environ.get(name.upper()) or environ.get(name) or None
