"""The types of a kubeconfig file, and how one file is read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml  # type: ignore[import-untyped]  # PyYAML ships no types
from msgspec import Struct, field

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.sigs_yaml import decode_yaml
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.shortage import lacking

__all__ = ["ClusterEntry", "ContextEntry", "Kubeconfig", "UserEntry", "entries", "read_kubeconfig"]

T = TypeVar("T")

_QUOTE = "put it in quotes"
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

    name: str | None = ""
    cluster: ClusterEntry | None = None


class ContextEntry(Struct):
    """A cluster and a user, by their names."""

    cluster: str | None = None
    user: str | None = None


class NamedContext(Struct):
    """An entry of `contexts`."""

    name: str | None = ""
    context: ContextEntry | None = None


class UserEntry(Struct, rename="kebab", omit_defaults=True):
    """A user of a kubeconfig: its credentials, and the user that it impersonates."""

    token: str | None = None
    token_file: str | None = field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    username: str | None = None
    password: str | None = None
    auth_provider: dict[str, Any] | None = None  # each provider has its own fields
    exec: dict[str, Any] | None = None  # exec_plugin reads it
    as_: str | None = field(default=None, name="as")
    as_uid: str | None = None
    as_groups: list[str | None] | None = None
    as_user_extra: dict[str, list[str | None] | None] | None = None


class NamedUser(Struct):
    """An entry of `users`."""

    name: str | None = ""
    user: UserEntry | None = None


class Kubeconfig(Struct, rename="kebab"):
    """One file."""

    clusters: list[NamedCluster | None] | None = None
    contexts: list[NamedContext | None] | None = None
    users: list[NamedUser | None] | None = None
    kind: str | None = None
    api_version: str | None = field(default=None, name="apiVersion")
    current_context: str | None = None


def entries(section: list[T | None] | None) -> Iterator[T]:
    """Yield the entries of a section; one that is null has no name to be chosen by."""
    return (each for each in section or () if each is not None)


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
        remedy = f"{_QUOTE}, or {_REMEDY}" if _is_no_text(error) else _REMEDY
        raise ConfigError(f"kubeconfig {path} cannot be used: {error}: {remedy}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f"at line {mark.line + 1}, column {mark.column + 1}" if mark else "at all"
        raise ConfigError(f"kubeconfig {path} is not valid YAML {position}: {_REMEDY}") from None
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 -- the YAML loader raises whatever making a number or date does
        raise ConfigError(
            f"kubeconfig {path} holds a number, date or tag that YAML cannot read:"
            " put texts that look like one in quotes"
        ) from None


def _is_no_text(error: msgspec.ValidationError) -> bool:
    """Say whether a number or a boolean stands in the place of a text."""
    return str(error).startswith(("Expected `str`", "Expected `str | null`")) and any(
        f"got `{each}`" in str(error) for each in ("int", "float", "bool")
    )


def _read_first_document(content: bytes) -> Kubeconfig | None:
    """Read the first YAML document of a file; kubectl reads no other."""
    try:
        return msgspec.convert(decode_yaml(content), Kubeconfig | None)
    except yaml.YAMLError as error:
        if "single document" not in (getattr(error, "context", None) or ""):
            raise
        lines = content.splitlines(keepends=True)[: error.problem_mark.line]
    return msgspec.convert(decode_yaml(b"".join(lines)), Kubeconfig | None)


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
