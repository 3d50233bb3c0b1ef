"""The types of a kubeconfig, checked before the client library reads it."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.hints import quote

__all__ = ["validate_kubeconfig"]

_Scalar = str | int | float | bool | None  # kubectl takes a number for a text, too
_REMEDY = "correct it, or pass another file with --kubeconfig"


class _Cluster(Struct, rename="kebab"):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _NamedCluster(Struct):
    name: _Scalar
    cluster: _Cluster | None = None


class _Context(Struct):
    cluster: _Scalar = None
    user: _Scalar = None


class _NamedContext(Struct):
    name: _Scalar
    context: _Context | None = None


class _User(Struct, rename="kebab"):
    token: _Scalar = None
    token_file: str | None = field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    auth_provider: dict[str, Any] | None = None  # each provider has its own fields
    exec: dict[str, Any] | None = None  # exec_plugin reads it


class _NamedUser(Struct):
    name: _Scalar
    user: _User | None = None


class _KubeconfigShape(Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    contexts: list[_NamedContext] | None = None
    users: list[_NamedUser] | None = None
    kind: _Scalar = None
    current_context: _Scalar = None


def validate_kubeconfig(path: str) -> None:
    """Validate one file; raises ConfigError with the file, the member and the remedy.

    The error repeats no value of the file: it may be a secret.
    """
    found = _read(path)
    if found is None:
        raise ConfigError(f"kubeconfig {path} is empty: pass another file with --kubeconfig")
    if found.kind not in (None, "Config"):
        raise _not_a_kubeconfig(path, f"it is a {quote(str(found.kind))}")


def _not_a_kubeconfig(path: str, reason: str) -> ConfigError:
    return ConfigError(f"{path} is not a kubeconfig: {reason}: pass another file with --kubeconfig")


def _read(path: str) -> _KubeconfigShape | None:
    try:
        return msgspec.yaml.decode(Path(path).read_bytes(), type=_KubeconfigShape | None)
    except OSError as error:
        remedy = "let this process read it, or pass another file with --kubeconfig"
        raise ConfigError(
            f"kubeconfig {path} cannot be read: {error.strerror}: {remedy}"
        ) from error
    except msgspec.ValidationError as error:
        if " - at `$" not in str(error):  # nothing below the top level was reached
            raise _not_a_kubeconfig(path, "it is not a mapping of fields") from None
        raise ConfigError(f"kubeconfig {path} cannot be used: {error}: {_REMEDY}") from None
    except msgspec.DecodeError as error:
        if "single document" in (getattr(error.__context__, "context", None) or ""):
            raise _not_a_kubeconfig(path, "it holds more than one YAML document") from None
        mark = getattr(error.__context__, "problem_mark", None)
        position = f"at line {mark.line + 1}, column {mark.column + 1}" if mark else "at all"
        raise ConfigError(f"kubeconfig {path} is not valid YAML {position}: {_REMEDY}") from None
    except Exception:  # noqa: BLE001 -- the YAML loader raises whatever making a number or date does
        raise ConfigError(
            f"kubeconfig {path} holds a number, date or tag that YAML cannot read:"
            " put texts that look like one in quotes"
        ) from None
