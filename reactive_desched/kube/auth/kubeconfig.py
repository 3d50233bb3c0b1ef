"""Finds the configuration source, in the order in which kubectl looks."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.shortage import lacking

__all__ = ["InCluster", "KubeConfigOptions", "KubeconfigFiles", "describe_files", "locate_config"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SERVICE_HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"


class KubeConfigOptions(Struct, frozen=True):
    """The command line options for the API server; None means: look where kubectl looks.

    `in_cluster` True requires the service account of our pod, False forbids it.
    """

    kubeconfig: str | None = None
    context: str | None = None
    in_cluster: bool | None = None
    service_account: Path = SERVICE_ACCOUNT


class InCluster(Struct, frozen=True):
    """Use the service account that is mounted into this pod."""

    service_account: Path


class KubeconfigFiles(Struct, frozen=True):
    """Use these kubeconfig files, merged; the first file with a value wins.

    `context` is the name of the context to use; None for the current-context of the files.
    """

    paths: tuple[str, ...]
    context: str | None


KubeConfigSource = InCluster | KubeconfigFiles


def describe_files(source: KubeconfigFiles) -> str:
    """Name the files, for error messages."""
    return "kubeconfig " + ", ".join(source.paths)


def locate_config(config: KubeConfigOptions, environ: Mapping[str, str]) -> KubeConfigSource:
    """Find the configuration source; raises ConfigError with every place that was searched."""
    if config.in_cluster:
        return _in_cluster(config, environ)
    if config.kubeconfig is not None:
        return _from_path(config.kubeconfig, config.context)
    if named := environ.get("KUBECONFIG"):
        return _from_environment(named, config.context)
    home = _home_file(environ)
    if _is_file(home):
        return KubeconfigFiles((str(home),), config.context)
    if config.in_cluster is None and environ.get(_SERVICE_HOST_VARIABLE):
        return _in_cluster(config, environ)
    raise ConfigError(
        f"no kubeconfig found: --kubeconfig is not given, $KUBECONFIG is not set, {home}"
        f" {_unusable_message(home)}, and ${_SERVICE_HOST_VARIABLE} is not set, so this "
        f"is not a pod; pass --kubeconfig FILE"
    )


def _home_file(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home()) / ".kube" / "config"


def _in_cluster(config: KubeConfigOptions, environ: Mapping[str, str]) -> InCluster:
    if config.context is not None:
        raise ConfigError(
            f"context {config.context!r} is asked for, but a pod's service account has none:"
            " pass --kubeconfig FILE as well, or leave the context out"
        )
    if not environ.get(_SERVICE_HOST_VARIABLE):
        raise ConfigError(
            f"in-cluster access is asked for, but ${_SERVICE_HOST_VARIABLE} is not set, so "
            f"this is not a pod:"
            " pass --kubeconfig FILE"
        )
    if not (config.service_account / "token").is_file():
        raise ConfigError(
            f"{config.service_account}/token does not exist: give the pod a service account"
            " (automountServiceAccountToken: true) or pass --kubeconfig FILE"
        )
    return InCluster(config.service_account)


def _from_path(name: str, context: str | None) -> KubeconfigFiles:
    path = Path(name).expanduser()
    if not _is_file(path):
        raise ConfigError(f"kubeconfig {path} {_unusable_message(path)}: check the path given")
    return KubeconfigFiles((str(path),), context)


def _from_environment(value: str, context: str | None) -> KubeconfigFiles:
    parts = dict.fromkeys(part for part in value.split(os.pathsep) if part)
    paths = [Path(part).expanduser() for part in parts]
    found = tuple(str(path) for path in paths if not _is_missing(path))
    if not any(map(_is_file, paths)):
        lacks = ", ".join(f"{path} {_unusable_message(path)}" for path in paths) or "it names none"
        raise ConfigError(
            f"none of the files in $KUBECONFIG can be used ({lacks}): correct or unset it,"
            " or pass --kubeconfig FILE"
        )
    return KubeconfigFiles(found, context)


def _is_file(path: Path) -> bool:
    """Say whether the path is a file, as far as our permissions show it."""
    try:
        return path.is_file()
    except OSError as error:  # a folder on the way is closed to us
        if lacking(error):
            raise
        return False


def _is_missing(path: Path) -> bool:
    """Say whether there is nothing at the path; what cannot be read is no such case."""
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _unusable_message(path: Path) -> str:
    """Say why the path cannot be read as a file."""
    try:
        path.stat()
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "is a directory" if path.is_dir() else "is not a file"
