"""Every flag of the SIG descheduler and what becomes of it here: one table for parser and docs."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from reactive_desched.cli import flag_values as read

ELECTION_FAMILY, TRACES_FAMILY = "leader election", "traces"
GROUP_TITLE = "flags of the SIG descheduler"
DEFAULT_SERVICE = "descheduler"
DEFAULT_HOST, DEFAULT_PORT = "0.0.0.0", 10258  # noqa: S104 -- where the SIG descheduler listens


class UpstreamFlag(NamedTuple):
    """A flag and what it does here; without a `metavar` it is a yes or no.

    `alias_of` is the flag of ours that it is another name of. One of a `family` has no line of its
    own in the help.
    """

    name: str
    metavar: str
    effect: str
    parse: Callable[[str], Any] = str  # what a flag's text turns into
    alias_of: str = ""
    dest: str = ""
    family: str = ""


class IgnoredFlags(NamedTuple):
    """Flags that do nothing here, for one reason; `switches` are those that are a yes or no.

    `family` names them all where there is little room.
    """

    family: str
    message: str
    switches: Sequence[str] = ()
    valued: Sequence[str] = ()


class RemovedFlag(NamedTuple):
    """A flag that releases of long ago had, and the place where it is said today."""

    name: str
    replacement: str


def as_typed(name: str) -> str:
    """Return a flag as it is typed."""
    return f"-{name}" if len(name) == 1 else f"--{name}"


SUPPORTED_FLAGS = (
    UpstreamFlag("policy-config-file", "FILE", "the same as `--policy`", alias_of="--policy"),
    UpstreamFlag("dry-run", "", "the same: everything but the evictions", alias_of="--dry-run"),
    UpstreamFlag(
        "kubeconfig",
        "FILE",
        "the same; without it `$KUBECONFIG` and `~/.kube/config` are looked at before the pod's"
        " own account",
        alias_of="--kubeconfig",
    ),
    UpstreamFlag(
        "client-connection-kubeconfig",
        "FILE",
        "the same as `--kubeconfig`",
        alias_of="--kubeconfig",
    ),
    UpstreamFlag(
        "descheduling-interval",
        "DURATION",
        "0 means `--once`; others are not needed: changes are acted on as they come",
        read.parse_interval,
        dest="interval",
    ),
    UpstreamFlag(
        "node-selector",
        "LABELS",
        "the policy's `nodeSelector`, if it has none (releases up to v0.22)",
        read.parse_selector_flag,
        dest="node_selector",
    ),
    UpstreamFlag(
        "client-connection-qps",
        "N",
        "`client.requestsPerSecond` of the settings; 0 leaves it",
        read.parse_rate,
        dest="requests_per_second",
    ),
    UpstreamFlag(
        "client-connection-burst",
        "N",
        "`client.burst` of the settings; 0 leaves it",
        read.parse_burst,
        dest="burst",
    ),
    UpstreamFlag(
        "bind-address",
        "ADDRESS",
        f"the host of `--listen`, {DEFAULT_HOST} if only the port is given",
        dest="bind_address",
    ),
    UpstreamFlag(
        "secure-port",
        "PORT",
        f"the port of `--listen`, {DEFAULT_PORT} if only the address is given; plain HTTP;"
        " 0 means any free port on loopback, which serves no other host",
        read.parse_port,
        dest="secure_port",
    ),
    UpstreamFlag(
        "disable-metrics",
        "",
        "the same: no `/metrics`",
        read.parse_bool,
        dest="disable_metrics",
    ),
    UpstreamFlag(
        "leader-elect",
        "",
        "`leaderElection.leaderElect` of the settings",
        read.parse_bool,
        dest="leader_elect",
    ),
    UpstreamFlag(
        "leader-elect-lease-duration",
        "DURATION",
        "`leaderElection.leaseDuration`, 15s if neither says so",
        dest="lease_duration_s",
        family=ELECTION_FAMILY,
    ),
    UpstreamFlag(
        "leader-elect-renew-deadline",
        "DURATION",
        "`leaderElection.renewDeadline`, 10s if neither says so",
        dest="renew_deadline_s",
        family=ELECTION_FAMILY,
    ),
    UpstreamFlag(
        "leader-elect-retry-period",
        "DURATION",
        "`leaderElection.retryPeriod`, 2s if neither says so",
        dest="retry_period_s",
        family=ELECTION_FAMILY,
    ),
    UpstreamFlag(
        "leader-elect-resource-lock",
        "LOCK",
        "the same: only `leases`",
        dest="resource_lock",
        family=ELECTION_FAMILY,
    ),
    UpstreamFlag(
        "leader-elect-resource-name",
        "NAME",
        "`leaderElection.resourceName`, descheduler",
        dest="resource_name",
        family=ELECTION_FAMILY,
    ),
    UpstreamFlag(
        "leader-elect-resource-namespace",
        "NAME",
        "`leaderElection.resourceNamespace`, kube-system",
        dest="resource_namespace",
        family=ELECTION_FAMILY,
    ),
    UpstreamFlag(
        "otel-collector-endpoint",
        "HOST:PORT",
        "`sinks.otlp` over gRPC, if the settings have none",
        dest="otel_endpoint",
    ),
    UpstreamFlag(
        "otel-transport-ca-cert",
        "FILE",
        "its `caFile`; without it nothing is encrypted",
        dest="otel_ca_file",
        family=TRACES_FAMILY,
    ),
    UpstreamFlag(
        "otel-service-name",
        "NAME",
        f"its `serviceName`, {DEFAULT_SERVICE} if it is not given",
        dest="otel_service",
        family=TRACES_FAMILY,
    ),
    UpstreamFlag(
        "otel-trace-namespace",
        "NAME",
        "the attribute `service.namespace` of its `resourceAttributes`",
        dest="otel_namespace",
        family=TRACES_FAMILY,
    ),
    UpstreamFlag(
        "otel-sample-rate",
        "RATE",
        "its `sampleRatio`; 1 and more is all, 0 and less sends nothing",
        read.parse_sample_rate,
        dest="otel_sample_rate",
        family=TRACES_FAMILY,
    ),
    UpstreamFlag(
        "otel-fallback-no-op-on-error",
        "",
        "nothing more: no controller ends because of a collector",
        read.parse_bool,
        dest="otel_fallback",
        family=TRACES_FAMILY,
    ),
    UpstreamFlag(
        "logging-format",
        "FORMAT",
        "`text` is `--log-format console`, `json` is `--log-format json`",
        read.parse_logging_format,
        dest="log_format",
    ),
    UpstreamFlag(
        "v",
        "N",
        "4 and more is `--log-level debug`, less is `info`",
        read.parse_verbosity,
        dest="log_level",
    ),
)

IGNORED_FLAGS = (
    IgnoredFlags(
        "--tls-…, --cert-dir, --…http2…",
        "health and metrics are served over HTTP/1.1, and TLS is set by server.tls of the settings",
        ["enable-http2", "disable-http2-serving"],
        [
            *("cert-dir", "tls-cert-file", "tls-private-key-file", "tls-cipher-suites"),
            *("tls-min-version", "tls-curve-preferences", "tls-sni-cert-key"),
            "http2-max-streams-per-connection",
        ],
    ),
    IgnoredFlags(
        "--permit-…-sharing",
        "the address listened on is not shared",
        ["permit-address-sharing", "permit-port-sharing"],
    ),
    IgnoredFlags(
        "--feature-gates",
        "there are no feature gates; what EvictionsInBackground does is always on",
        valued=["feature-gates"],
    ),
    IgnoredFlags(
        "--vmodule, --log-… and klog's own",
        "logs go to stderr, line by line",
        [
            *("log-text-split-stream", "log-json-split-stream", "add-dir-header"),
            *("alsologtostderr", "logtostderr", "one-output", "skip-headers", "skip-log-headers"),
        ],
        [
            *("vmodule", "log-flush-frequency", "log-text-info-buffer-size"),
            *("log-json-info-buffer-size", "log-backtrace-at", "log-dir", "log-file"),
            *("log-file-max-size", "stderrthreshold"),
        ],
    ),
)

LEADER_ELECTION_FLAGS = {
    flag.dest: as_typed(flag.name)
    for flag in SUPPORTED_FLAGS
    if flag.name.startswith("leader-elect")
}
"""The flags of leader election by the field of the settings that each sets."""

REMOVED_FLAGS = (
    RemovedFlag("max-pods-to-evict-per-node", "write maxNoOfPodsToEvictPerNode into the policy"),
    RemovedFlag(
        "evict-local-storage-pods", "set evictLocalStoragePods in the args of DefaultEvictor"
    ),
)


def add(command: argparse.ArgumentParser) -> None:
    """Let a command take every flag; those that are names of its own flags it adds itself."""
    group = command.add_argument_group(GROUP_TITLE, _description())
    for flag in SUPPORTED_FLAGS:
        if not flag.alias_of:
            group.add_argument(*_names(flag.name), **_argparse_kwargs(flag))
    for ignored in IGNORED_FLAGS:
        for name in ignored.switches:
            group.add_argument(
                as_typed(name), **_IGNORED_KWARGS, nargs="?", const=True, type=read.parse_bool
            )
        for name in ignored.valued:
            group.add_argument(as_typed(name), **_IGNORED_KWARGS)
    for removed in REMOVED_FLAGS:
        refuse = read.rejecting_parser(
            f"dropped by the SIG descheduler in v0.23; {removed.replacement}"
        )
        group.add_argument(as_typed(removed.name), nargs="?", const="", type=refuse, help=_HIDDEN)


def ignored_flag_notices(names: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each given flag that has no effect here, with the reason."""
    reasons = {
        name: each.message for each in IGNORED_FLAGS for name in (*each.switches, *each.valued)
    }
    for name in dict.fromkeys(names):
        yield f"{as_typed(name)} does nothing here: {reasons[name]}"


def rows() -> Iterator[tuple[str, str]]:
    """Yield each flag as it is typed, with its value, and what it does here."""
    for flag in SUPPORTED_FLAGS:
        typed = (f"`{name} {flag.metavar}".rstrip() + "`" for name in _names(flag.name))
        yield ", ".join(typed), flag.effect
    for ignored in IGNORED_FLAGS:
        names = (f"`{as_typed(name)}`" for name in (*ignored.switches, *ignored.valued))
        yield ", ".join(names), f"nothing, and a warning says so: {ignored.message}"
    for removed in REMOVED_FLAGS:
        yield f"`{as_typed(removed.name)}`", f"refused, as since v0.23: {removed.replacement}"


def _description() -> str:
    return (
        "A command line that begins with a flag is read as the SIG descheduler reads it: without an"
        " interval it means --once. Underscores may stand for hyphens. Taken"
        f" to no effect, with a warning: {', '.join(idle.family for idle in IGNORED_FLAGS)}."
        f" Of {ELECTION_FAMILY}: {_family(ELECTION_FAMILY)}; of {TRACES_FAMILY}:"
        f" {_family(TRACES_FAMILY)}."
    )


def _family(name: str) -> str:
    return ", ".join(as_typed(flag.name) for flag in SUPPORTED_FLAGS if flag.family == name)


def _names(name: str) -> tuple[str, ...]:
    return ("-v", "--v") if name == "v" else (as_typed(name),)


def _argparse_kwargs(flag: UpstreamFlag) -> dict[str, Any]:
    """Return the arguments of argparse for a flag."""
    text = _HIDDEN if flag.family else flag.effect.replace("`", "").replace("%", "%%")
    kwargs = {"dest": flag.dest, "type": flag.parse, "help": text}
    if flag.metavar:
        return {**kwargs, "metavar": flag.metavar}
    return {**kwargs, "nargs": "?", "const": True, "default": None, "metavar": "BOOL"}


class _RecordIgnoredFlag(argparse.Action):
    """Notes the name of a flag that does nothing; a switch turned off asked for nothing."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Add the name to those given."""
        del parser, option_string
        if values is not False:
            recorded = getattr(namespace, self.dest) or ()
            setattr(namespace, self.dest, (*recorded, self.option_strings[0].removeprefix("--")))


_HIDDEN = argparse.SUPPRESS
_IGNORED_KWARGS: dict[str, Any] = {
    "dest": "idle",
    "action": _RecordIgnoredFlag,
    "default": (),
    "help": _HIDDEN,
}  # keywords
