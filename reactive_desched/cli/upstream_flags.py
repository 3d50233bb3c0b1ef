"""Every flag of the SIG descheduler and what becomes of it here: one table for parser and docs."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from reactive_desched.cli import flag_values as read

TITLE = "flags of the SIG descheduler"
USUAL_HOST, USUAL_PORT = "0.0.0.0", 10258  # noqa: S104 -- where the SIG descheduler listens


class Flag(NamedTuple):
    """A flag and what it does here; without `takes` it is a yes or no.

    `own` is the flag of ours that it is another name of.
    """

    name: str
    takes: str
    here: str
    read: Callable[[str], Any] = str  # what a flag's text turns into
    own: str = ""
    dest: str = ""


class Idle(NamedTuple):
    """Flags that do nothing here, for one reason; `switches` are those that are a yes or no.

    `family` names them all where there is little room.
    """

    family: str
    why: str
    switches: Sequence[str] = ()
    valued: Sequence[str] = ()


class Gone(NamedTuple):
    """A flag that releases of long ago had, and the place where it is said today."""

    name: str
    instead: str


MEANT = (
    Flag("policy-config-file", "FILE", "the same as `--policy`", own="--policy"),
    Flag("dry-run", "", "the same: everything but the evictions", own="--dry-run"),
    Flag(
        "kubeconfig",
        "FILE",
        "the same; without it `$KUBECONFIG` and `~/.kube/config` are looked at before the pod's"
        " own account",
        own="--kubeconfig",
    ),
    Flag("client-connection-kubeconfig", "FILE", "the same as `--kubeconfig`", own="--kubeconfig"),
    Flag(
        "descheduling-interval",
        "DURATION",
        "0 means `--once`; anything longer is not needed, as changes are acted on as they come",
        read.interval,
        dest="interval",
    ),
    Flag(
        "node-selector",
        "LABELS",
        "the policy's `nodeSelector`, if it has none (releases up to v0.22)",
        read.selector,
        dest="node_selector",
    ),
    Flag(
        "client-connection-qps",
        "N",
        "`client.requestsPerSecond` of the settings; 0 leaves it",
        read.rate,
        dest="requests_per_second",
    ),
    Flag(
        "client-connection-burst",
        "N",
        "`client.burst` of the settings; 0 leaves it",
        read.burst,
        dest="burst",
    ),
    Flag(
        "bind-address",
        "ADDRESS",
        f"the host of `--listen`, {USUAL_HOST} if only the port is given",
        dest="bind_address",
    ),
    Flag(
        "secure-port",
        "PORT",
        f"the port of `--listen`, {USUAL_PORT} if only the address is given; plain HTTP;"
        " 0 means any free port on loopback, so that nobody outside is served",
        read.port,
        dest="secure_port",
    ),
    Flag(
        "disable-metrics",
        "",
        "the same: no `/metrics`",
        read.yes_no,
        dest="disable_metrics",
    ),
    Flag(
        "logging-format",
        "FORMAT",
        "`text` is `--log-format console`, `json` is `--log-format json`",
        read.logging_format,
        dest="log_format",
    ),
    Flag(
        "v",
        "N",
        "4 and more is `--log-level debug`, less is `info`",
        read.verbosity,
        dest="log_level",
    ),
)

IDLES = (
    Idle(
        "--leader-elect…",
        "there is no leader election in this version, so run one replica",
        ["leader-elect"],
        [
            *("leader-elect-lease-duration", "leader-elect-renew-deadline"),
            *("leader-elect-retry-period", "leader-elect-resource-lock"),
            *("leader-elect-resource-name", "leader-elect-resource-namespace"),
        ],
    ),
    Idle(
        "--tls-…, --cert-dir, --…http2…",
        "health and metrics are served over plain HTTP/1.1",
        ["enable-http2", "disable-http2-serving"],
        [
            *("cert-dir", "tls-cert-file", "tls-private-key-file", "tls-cipher-suites"),
            *("tls-min-version", "tls-curve-preferences", "tls-sni-cert-key"),
            "http2-max-streams-per-connection",
        ],
    ),
    Idle(
        "--permit-…-sharing",
        "the address listened on is not shared",
        ["permit-address-sharing", "permit-port-sharing"],
    ),
    Idle(
        "--feature-gates",
        "there are no feature gates; EvictionsInBackground is not built",
        valued=["feature-gates"],
    ),
    Idle(
        "--otel-…",
        "no traces are sent",
        ["otel-fallback-no-op-on-error"],
        [
            *("otel-collector-endpoint", "otel-transport-ca-cert", "otel-service-name"),
            *("otel-trace-namespace", "otel-sample-rate"),
        ],
    ),
    Idle(
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

GONES = (
    Gone("max-pods-to-evict-per-node", "write maxNoOfPodsToEvictPerNode into the policy"),
    Gone("evict-local-storage-pods", "set evictLocalStoragePods in the args of DefaultEvictor"),
)


def dashed(name: str) -> str:
    """Return a flag as it is typed."""
    return f"-{name}" if len(name) == 1 else f"--{name}"


def add(command: argparse.ArgumentParser) -> None:
    """Let a command take every flag; those that are names of its own flags it adds itself."""
    group = command.add_argument_group(TITLE, _description())
    for flag in MEANT:
        if not flag.own:
            group.add_argument(*_names(flag.name), **_meaning(flag))
    for idle in IDLES:
        for name in idle.switches:
            group.add_argument(dashed(name), **_IDLY, nargs="?", const=True, type=read.yes_no)
        for name in idle.valued:
            group.add_argument(dashed(name), **_IDLY)
    for gone in GONES:
        refuse = read.refusal(f"dropped by the SIG descheduler in v0.23; {gone.instead}")
        group.add_argument(dashed(gone.name), nargs="?", const="", type=refuse, help=_HIDDEN)


def told(idle: Sequence[str]) -> Iterator[str]:
    """Say of each given flag that does nothing here that it does not, and why."""
    reasons = {name: each.why for each in IDLES for name in (*each.switches, *each.valued)}
    for name in dict.fromkeys(idle):
        yield f"{dashed(name)} does nothing here: {reasons[name]}"


def rows() -> Iterator[tuple[str, str]]:
    """Yield each flag as it is typed, with its value, and what it does here."""
    for flag in MEANT:
        typed = (f"`{name} {flag.takes}".rstrip() + "`" for name in _names(flag.name))
        yield ", ".join(typed), flag.here
    for idle in IDLES:
        names = (f"`{dashed(name)}`" for name in (*idle.switches, *idle.valued))
        yield ", ".join(names), f"nothing, and a warning says so: {idle.why}"
    for gone in GONES:
        yield f"`{dashed(gone.name)}`", f"refused, as since v0.23: {gone.instead}"


def _description() -> str:
    return (
        "A command line that begins with a flag is read as the SIG descheduler reads it: without an"
        " interval it means --once. Underscores may stand for hyphens. Also taken, though they do"
        f" nothing but warn at start: {', '.join(idle.family for idle in IDLES)}."
    )


def _names(name: str) -> tuple[str, ...]:
    return ("-v", "--v") if name == "v" else (dashed(name),)


def _meaning(flag: Flag) -> dict[str, Any]:
    """Return what argparse is told of a flag."""
    text = flag.here.replace("`", "").replace("%", "%%")
    told = {"dest": flag.dest, "type": flag.read, "help": text}
    if flag.takes:
        return {**told, "metavar": flag.takes}
    return {**told, "nargs": "?", "const": True, "default": False, "metavar": "BOOL"}


class _Idly(argparse.Action):
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
            given = getattr(namespace, self.dest) or ()
            setattr(namespace, self.dest, (*given, self.option_strings[0].removeprefix("--")))


_HIDDEN = argparse.SUPPRESS
_IDLY: dict[str, Any] = {
    "dest": "idle",
    "action": _Idly,
    "default": (),
    "help": _HIDDEN,
}  # keywords
