"""Merges kubeconfig files and chooses a context, by the rules of client-go's clientcmd."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from posixpath import normpath
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote, urlunsplit

import msgspec
from msgspec import Struct, field

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.impersonation import Header, impersonation_headers
from reactive_desched.kube.auth.kubeconfig import KubeconfigFiles, describe_files
from reactive_desched.kube.auth.kubeconfig_shape import (
    ClusterEntry,
    ContextEntry,
    Kubeconfig,
    UserEntry,
    entries,
    read_kubeconfig,
)
from reactive_desched.primitives.url import split_url

__all__ = ["ChosenContext", "choose_context"]

T = TypeVar("T")

_DATA: Final = ("certificate-authority", "client-certificate", "client-key")
_PATHS: Final = (*_DATA, "tokenFile")
_PATH_CHARS: Final = "/$&+,:;=@"
"""What the path of a URL has as it is, beside letters and digits, as Go writes it."""

_OWN_CREDENTIALS: Final = ("token", "tokenFile", "username", "client-certificate")
"""A user that has one of these needs no plugin, so none is run."""

_AUTHORIZATIONS: Final = ("token", "tokenFile", "username", "exec", "auth-provider")
"""What a user has an Authorization by."""

_ALL_CREDENTIALS: Final = (*_OWN_CREDENTIALS, "client-certificate-data", "exec", "auth-provider")


class ChosenContext(Struct, frozen=True):
    """A context, and the cluster and the user that it names, as dicts with absolute paths.

    `server` is the address with its scheme, without a slash at the end; `cluster` has it as it is
    written, as plugins get it. Empty fields are left out.
    What `token_file` holds counts before the token in `user`, while it can be read. The user's
    entry stands in `user_file`.
    """

    name: str
    user_name: str
    user_file: str
    server: str
    cluster: dict[str, Any]  # free-form, as the client library reads it
    user: dict[str, Any]
    token_file: str | None
    impersonation: tuple[Header, ...]

    @property
    def has_credentials(self) -> bool:
        """Say whether the user has credentials of any kind."""
        return any(each in self.user for each in _ALL_CREDENTIALS)

    def has_login_of(self, other: "ChosenContext") -> bool:
        """Say whether its credentials are had in the same way as those of another one."""
        return (self.user, self.token_file, self.cluster) == (
            other.user,
            other.token_file,
            other.cluster,
        )


def choose_context(source: KubeconfigFiles) -> ChosenContext:
    """Read the files and return the context that they are used with.

    Of several files the first one with an entry of a name has it, whole; the first current-context
    that is not empty counts; a file that is missing counts as empty. Relative paths begin at the
    folder of the file that they stand in. Raises ConfigError, which repeats no secret.
    """
    merged = _merge(source)
    where = describe_files(source)
    name = _context_name(merged, source)
    context = merged.contexts[name]
    cluster = _cluster(merged, name, context, where)
    server, login = _without_login(_server(cluster))
    user_name = context.user or ""
    found = _user(merged, name, user_name, where, is_tls=server.startswith("https:"))
    user = _credentials(found, where, user_name)
    if login:
        user = {each: user[each] for each in user if each not in _AUTHORIZATIONS} | login
    return ChosenContext(
        name,
        user_name,
        merged.user_files.get(user_name, ""),
        server,
        _checked_cluster(cluster, where, context.cluster or ""),
        user,
        user.pop("tokenFile", None) if "token" in user else None,
        _impersonation(merged.users.get(user_name), where, user_name),
    )


class _Merged(Struct):
    """The entries by their names; each dict of fields comes from one file."""

    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    contexts: dict[str, ContextEntry] = field(default_factory=dict)
    users: dict[str, UserEntry] = field(default_factory=dict)
    user_files: dict[str, str] = field(default_factory=dict)
    credentials: dict[str, dict[str, Any]] = field(default_factory=dict)
    current_context: str = ""
    is_empty: bool = True


def _merge(source: KubeconfigFiles) -> _Merged:
    merged, missing = _Merged(), 0
    for path in source.paths:
        try:
            found = read_kubeconfig(path)
        except FileNotFoundError:
            missing += 1
            continue
        _add(merged, found, path)
    if missing == len(source.paths):
        raise ConfigError(
            f"{describe_files(source)} does not exist: write it anew, or pass another file with"
            " --kubeconfig"
        )
    if merged.is_empty:
        raise ConfigError(f"{describe_files(source)} is empty: pass another file with --kubeconfig")
    return merged


def _add(merged: _Merged, found: Kubeconfig, path: str) -> None:
    """Add the entries of a file under names that no earlier file has."""
    folder = Path(path).absolute().parent
    clusters = ((it.name, it.cluster or ClusterEntry()) for it in entries(found.clusters))
    contexts = ((it.name, it.context or ContextEntry()) for it in entries(found.contexts))
    users = ((it.name, it.user or UserEntry()) for it in entries(found.users))
    for name, cluster in _unique(clusters, "clusters", path):
        merged.clusters.setdefault(name, _fields(cluster, folder))
    for name, context in _unique(contexts, "contexts", path):
        merged.contexts.setdefault(name, context)
    for name, user in _unique(users, "users", path):
        merged.users.setdefault(name, user)
        merged.user_files.setdefault(name, path)
        merged.credentials.setdefault(name, _fields(user, folder))
    merged.current_context = merged.current_context or found.current_context or ""
    merged.is_empty = merged.is_empty and found == Kubeconfig()


def _unique(
    named: Iterable[tuple[str | None, T]], section: str, path: str
) -> Iterator[tuple[str, T]]:
    seen: set[str] = set()
    for given, entry in named:
        name = given or ""
        if name in seen:
            raise ConfigError(
                f"kubeconfig {path} has two {section} named {name!r}: rename or remove one"
            )
        seen.add(name)
        yield name, entry


def _fields(entry: ClusterEntry | UserEntry, folder: Path) -> dict[str, Any]:
    """Return the fields that are not empty, with absolute paths."""
    fields = {name: each for name, each in msgspec.to_builtins(entry).items() if each}
    for name in _PATHS:
        if name in fields:
            fields[name] = str(folder / fields[name])
    plugin = fields.get("exec") or {}
    command = plugin.get("command")
    if isinstance(command, str) and "/" in command:  # any other is looked for in $PATH
        fields["exec"] = {**plugin, "command": str(folder / command)}
    return fields


def _context_name(merged: _Merged, source: KubeconfigFiles) -> str:
    where, contexts = describe_files(source), merged.contexts
    name = source.context or merged.current_context
    if name in contexts:  # it may be empty, as that of a cluster and a user
        return name
    available = ", ".join(sorted(contexts)) or "none"
    if not (name or contexts):
        raise ConfigError(
            f"{where} has no contexts, so it is no whole kubeconfig: pass another file with"
            " --kubeconfig"
        )
    if not name:
        raise ConfigError(
            f"{where} sets no current-context: pass --context NAME (it has: {available})"
        )
    raise ConfigError(f"{where} has no context {name!r}: it has {available}")


def _cluster(merged: _Merged, name: str, context: ContextEntry, where: str) -> dict[str, Any]:
    cluster = context.cluster or ""
    if cluster in merged.clusters:
        return merged.clusters[cluster]
    if not cluster:
        raise ConfigError(
            f"{where}: the context {name!r} names no cluster: correct it, or pass --context NAME"
        )
    available = ", ".join(sorted(merged.clusters)) or "none"
    raise ConfigError(
        f"{where}: the context {name!r} names the cluster {cluster!r}, and there is none of"
        f" this name (there is: {available}): correct it, or pass --context NAME"
    )


def _user(merged: _Merged, name: str, user: str, where: str, *, is_tls: bool) -> dict[str, Any]:
    """Return the user's fields; plain HTTP needs none, as with kubectl."""
    if user in merged.credentials:
        return merged.credentials[user]
    if not is_tls:
        return {}
    if not user:
        raise ConfigError(
            f"{where}: the context {name!r} names no user, so there are no credentials: correct it,"
            " or pass --context NAME"
        )
    available = ", ".join(sorted(merged.users)) or "none"
    raise ConfigError(
        f"{where}: the context {name!r} names the user {user!r}, and there is none of this name"
        f" (there is: {available}): correct it, or pass --context NAME"
    )


def _server(cluster: dict[str, Any]) -> str:
    """Return the server with its scheme, and without query and slash.

    One without a scheme has plain HTTP, as with client-go, unless its entry has a field of TLS:
    client-go sends no credentials in plain text, and this client does.
    Its path is the shortest that means the same, with its characters as a URL has them. What is no
    address stays as it is: the caller refuses it.
    """
    server = str(cluster.get("server", ""))
    if "://" not in server:
        parts = split_url(f"//{server}")
        if parts is None or not parts.hostname or parts.path not in ("", "/"):
            return server.rstrip("/")
        has_tls = bool(
            cluster.get("certificate-authority")
            or cluster.get("certificate-authority-data")
            or cluster.get("insecure-skip-tls-verify")
        )
        server = f"{'https' if has_tls else 'http'}://{server}"
    scheme, _, rest = server.partition("://")
    authority, _, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    if not path.isprintable():
        return server
    shortest = normpath(f"/{unquote(path)}").lstrip("/")
    return f"{scheme.lower()}://{authority}/{quote(shortest, safe=_PATH_CHARS)}".rstrip("/")


def _without_login(server: str) -> tuple[str, dict[str, str]]:
    """Return an address without the name and password in it, and these as fields of a user.

    As in Go's client they count before every other Authorization of the user. The address is named
    in messages, metrics and records; they are not.
    """
    parts = split_url(server)
    if parts is None or parts.username is None:
        return server, {}
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    login = {"username": unquote(parts.username), "password": unquote(parts.password or "")}
    return urlunsplit(address), login


def _checked_cluster(cluster: dict[str, Any], where: str, name: str) -> dict[str, Any]:
    is_insecure = cluster.get("insecure-skip-tls-verify")
    has_ca = "certificate-authority" in cluster or "certificate-authority-data" in cluster
    if is_insecure and has_ca:
        raise ConfigError(
            f"{where}: the cluster {name!r} has a certificate-authority and"
            " insecure-skip-tls-verify: take one of them away"
        )
    return _without_both(cluster, where, f"the cluster {name!r}")


def _credentials(user: dict[str, Any], where: str, name: str) -> dict[str, Any]:
    """Check that the user's fields agree, and return those that count."""
    whose = f"the user {name!r}"
    fields = _without_both(user, where, whose)
    has_certificate = "client-certificate" in fields or "client-certificate-data" in fields
    if has_certificate and not ("client-key" in fields or "client-key-data" in fields):
        raise ConfigError(
            f"{where}: {whose} has a client certificate and no key for it: add client-key or"
            " client-key-data"
        )
    has_token = "token" in fields or "tokenFile" in fields
    if has_token and ("username" in fields or "password" in fields):
        raise ConfigError(
            f"{where}: {whose} has a token and a username or password: take one of them away"
        )
    if "exec" in fields and "auth-provider" in fields:
        raise ConfigError(f"{where}: {whose} has exec and auth-provider: take one of them away")
    if "username" in fields:
        fields.setdefault("password", "")
    else:
        fields.pop("password", None)  # client-go sends no login without a name
    if has_certificate or any(each in fields for each in _OWN_CREDENTIALS):
        fields.pop("exec", None)
    if has_token or "username" in fields:
        fields.pop("auth-provider", None)
    return fields


def _without_both(entry: dict[str, Any], where: str, whose: str) -> dict[str, Any]:
    """Check the fields that exist as a file and as data."""
    for name in _DATA:
        data = entry.get(f"{name}-data")
        if data is None:
            continue
        if name in entry:
            raise ConfigError(f"{where}: {whose} has {name} and {name}-data: take one of them away")
        try:
            base64.b64decode("".join(data.split("\n")).replace("\r", ""), validate=True)
        except (ValueError, binascii.Error):
            raise ConfigError(
                f"{where}: {name}-data of {whose} is no base64: write it anew, or name a file with"
                f" {name}"
            ) from None
    return dict(entry)


def _impersonation(user: UserEntry | None, where: str, name: str) -> tuple[Header, ...]:
    if user is None:
        return ()
    try:
        return impersonation_headers(
            user.as_ or "",
            user.as_uid or "",
            [group or "" for group in user.as_groups or ()],
            {
                key: [value or "" for value in values or ()]
                for key, values in (user.as_user_extra or {}).items()
            },
        )
    except ValueError as error:
        raise ConfigError(f"{where}: the user {name!r}: {error}") from None
