"""A command line as the SIG descheduler takes it, so that in a manifest only the image changes."""

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from reactive_desched.cli.upstream_flags import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    DEFAULT_SERVICE,
    LEADER_ELECTION_FLAGS,
    ignored_flag_notices,
)

IN_MEMORY_JOURNAL = Path("/dev/shm/reactive-desched")  # noqa: S108 -- a pod's own memory, not a shared /tmp
"""Where the journal goes in a pod that was given no volume: every container can write there."""


class UpstreamOptions(NamedTuple):
    """Our options for the SIG descheduler's flags, beyond those that pass through as they are."""

    once: bool
    listen: str | None
    default_listen: str | None
    default_journal_dir: str | None
    old_metric_names: bool
    leader_election: Mapping[str, object]
    traces: Mapping[str, object]
    notices: tuple[str, ...]


def read_upstream_options(arguments: argparse.Namespace) -> UpstreamOptions:
    """Work out what the flags come to; the environment says where the journal could go."""
    spare, once = _fallback_journal(arguments, os.environ), _once(arguments)
    traces = _traces(arguments)
    lacking = _lacking_package() if traces else ""
    return UpstreamOptions(
        once=once,
        listen=arguments.listen or _listen(arguments),
        default_listen=f"{DEFAULT_HOST}:{DEFAULT_PORT}" if arguments.bare else None,
        default_journal_dir=spare,
        old_metric_names=once or arguments.bare,
        leader_election=_leader_election(arguments),
        traces={} if lacking else traces,
        notices=(
            *ignored_flag_notices(arguments.idle),
            *_notices(arguments, spare),
            *([_lacking_notice(lacking)] if lacking else []),
        ),
    )


def _once(arguments: argparse.Namespace) -> bool:
    """Return whether to sweep once: by flag, or as the SIG descheduler would."""
    is_upstream_default = arguments.interval is None and arguments.bare
    return bool(arguments.once or is_upstream_default or arguments.interval == 0)


def _leader_election(arguments: argparse.Namespace) -> dict[str, object]:
    """Return what the flags of leader election say, by the fields of its settings."""
    values = {name: getattr(arguments, name) for name in LEADER_ELECTION_FLAGS}
    return {name: value for name, value in values.items() if value is not None}


def _traces(arguments: argparse.Namespace) -> dict[str, object]:
    """Return what the flags of traces say, by the fields of the sink; nothing without traces."""
    endpoint, ca_file = arguments.otel_endpoint, arguments.otel_ca_file or ""
    rate = 1.0 if arguments.otel_sample_rate is None else arguments.otel_sample_rate
    if not endpoint or rate == 0:
        return {}
    namespace = arguments.otel_namespace
    return {
        "url": f"{'https' if ca_file else 'http'}://{endpoint}",
        "protocol": "grpc",
        "insecure": True,  # so the SIG descheduler takes a collector without a certificate
        "ca_file": ca_file,
        "service_name": arguments.otel_service or DEFAULT_SERVICE,
        "resource_attributes": {"service.namespace": namespace} if namespace else {},
        "sample_ratio": rate,
    }


def _lacking_package() -> str:
    from reactive_desched.app.otel_environment import lacking_package

    return lacking_package("grpc")


def _lacking_notice(package: str) -> str:
    return (
        f"--otel-collector-endpoint does nothing without the package {package}: install"
        " reactive-desched[otlp], or build the image with REQUIREMENTS=otlp"
    )


def _listen(arguments: argparse.Namespace) -> str | None:
    host, port = arguments.bind_address, arguments.secure_port
    if host is None and port is None:
        return None
    if port == 0:
        return "127.0.0.1:0"
    host = DEFAULT_HOST if host is None else host
    return f"{f'[{host}]' if ':' in host else host}:{DEFAULT_PORT if port is None else port}"


def _notices(arguments: argparse.Namespace, spare: str | None) -> Iterator[str]:
    if arguments.interval and arguments.once:
        yield "--descheduling-interval does nothing here: --once sweeps once"
    elif arguments.interval:
        yield "--descheduling-interval does nothing here: changes are acted on as they come"
    if arguments.bare and arguments.interval is None:
        yield "no --descheduling-interval, so one sweep only; `run` keeps watching"
    if arguments.secure_port == 0:
        yield "--secure-port 0: health and metrics are served on loopback only, at any free port"
    if spare is not None:
        yield (
            f"nothing says where the journal goes and the usual place cannot be written: unless the"
            f" settings name one it goes to {spare} and ends with the pod; pass --journal DIR"
        )


def _fallback_journal(arguments: argparse.Namespace, environ: Mapping[str, str]) -> str | None:
    """Name a place for the journal where a manifest of the SIG descheduler leaves none."""
    from reactive_desched.journal.paths import shared_journal_directory

    if (
        not arguments.bare
        or arguments.journal_dir
        or _is_writable(shared_journal_directory(environ))
    ):
        return None
    return str(IN_MEMORY_JOURNAL) if _is_writable(IN_MEMORY_JOURNAL) else None


def _is_writable(folder: Path) -> bool:
    """Say whether a folder can be written, or made and then written."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return os.access(existing, os.W_OK | os.X_OK)
