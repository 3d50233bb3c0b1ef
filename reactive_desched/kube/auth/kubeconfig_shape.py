"""The types of a kubeconfig file, and how one file is read."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.shortage import lacking

__all__ = ["ClusterEntry", "ContextEntry", "Kubeconfig", "Scalar", "UserEntry", "read_kubeconfig"]

Scalar = str | int | float | bool | None
"""A text; a number in its place was written without quotes."""

_REMEDY = "correct it, or pass another file with --kubeconfig"


class ClusterEntry(Struct, rename="kebab", omit_defaults=True):
    """The address and certificates of a cluster; an `extensions` list is for plugins."""

    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    disable_compression: bool | None = None  # for plugins: no response here is compressed
    extensions: list[Any] | None = None  # each is the owner's own


class NamedCluster(Struct):
    """An entry of `clusters`."""

    name: Scalar = ""
    cluster: ClusterEntry | None = None


class ContextEntry(Struct):
    """A cluster and a user, by their names."""

    cluster: Scalar = None
    user: Scalar = None


class NamedContext(Struct):
    """An entry of `contexts`."""

    name: Scalar = ""
    context: ContextEntry | None = None


class UserEntry(Struct, rename="kebab", omit_defaults=True):
    """A user of a kubeconfig: its credentials, and the user that it impersonates."""

    token: Scalar = None
    token_file: str | None = field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    username: Scalar = None
    password: Scalar = None
    auth_provider: dict[str, Any] | None = None  # each provider has its own fields
    exec: dict[str, Any] | None = None  # exec_plugin reads it
    as_: Scalar = field(default=None, name="as")
    as_uid: Scalar = None
    as_groups: list[Scalar] | None = None
    as_user_extra: dict[str, list[Scalar] | None] | None = None


class NamedUser(Struct):
    """An entry of `users`."""

    name: Scalar = ""
    user: UserEntry | None = None


class Kubeconfig(Struct, rename="kebab"):
    """One file."""

    clusters: list[NamedCluster] | None = None
    contexts: list[NamedContext] | None = None
    users: list[NamedUser] | None = None
    kind: Scalar = None
    api_version: Scalar = field(default=None, name="apiVersion")
    current_context: Scalar = None


def read_kubeconfig(path: str) -> Kubeconfig:
    """Read one file; an empty one is a kubeconfig without entries, as for kubectl.

    Raises FileNotFoundError, and ConfigError with the file, the member and the remedy. The error
    repeats no value of the file: it may be a secret.
    """
    found = _read(path) or Kubeconfig()
    if found.kind not in (None, "", "Config"):
        raise _not_a_kubeconfig(path, f"it is a {quote(str(found.kind))}")
    if found.api_version not in (None, "", "v1"):
        raise _not_a_kubeconfig(path, f"its apiVersion is {quote(str(found.api_version))}, not v1")
    return found


def _not_a_kubeconfig(path: str, reason: str) -> ConfigError:
    return ConfigError(f"{path} is not a kubeconfig: {reason}: pass another file with --kubeconfig")


def _read(path: str) -> Kubeconfig | None:
    try:
        content = Path(path).read_bytes()
        if (found := _read_json(content)) is not None:
            return found
        return _read_first_document(content)
    except FileNotFoundError:
        raise
    except OSError as error:
        if lacking(error):
            raise
        remedy = "let this process read it, or pass another file with --kubeconfig"
        raise ConfigError(
            f"kubeconfig {path} cannot be read: {error.strerror}: {remedy}"
        ) from error
    except msgspec.ValidationError as error:
        if " - at `$" not in str(error):  # nothing below the top level was reached
            raise _not_a_kubeconfig(path, "it is not a mapping of fields") from None
        raise ConfigError(f"kubeconfig {path} cannot be used: {error}: {_REMEDY}") from None
    except msgspec.DecodeError as error:
        mark = getattr(error.__context__, "problem_mark", None)
        position = f"at line {mark.line + 1}, column {mark.column + 1}" if mark else "at all"
        raise ConfigError(f"kubeconfig {path} is not valid YAML {position}: {_REMEDY}") from None
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 -- the YAML loader raises whatever making a number or date does
        raise ConfigError(
            f"kubeconfig {path} holds a number, date or tag that YAML cannot read:"
            " put texts that look like one in quotes"
        ) from None


def _read_first_document(content: bytes) -> Kubeconfig | None:
    """Read the first YAML document of a file; kubectl reads no other. Raises msgspec's errors."""
    try:
        return msgspec.yaml.decode(content, type=Kubeconfig | None)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        found: Any = error.__context__  # PyYAML has no types
        if "single document" not in (getattr(found, "context", None) or ""):
            raise
        lines = content.splitlines(keepends=True)[: found.problem_mark.line]
    return msgspec.yaml.decode(b"".join(lines), type=Kubeconfig | None)


def _read_json(content: bytes) -> Kubeconfig | None:
    """Read a file that is JSON, with its tabs, which no YAML may have; None for any other."""
    if not content.lstrip().startswith(b"{"):
        return None
    try:
        return msgspec.json.decode(content, type=Kubeconfig)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return None
