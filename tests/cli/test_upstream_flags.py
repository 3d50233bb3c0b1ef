"""Each flag of the SIG descheduler has the same meaning here, or a word that it does nothing."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from reactive_desched.app.options import Options
from reactive_desched.app.overrides import FlagOverrides
from reactive_desched.cli import main, parser, upstream_flags
from reactive_desched.model.labels import parse_selector
from tests.support.golden import Golden

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sig-descheduler.md"
RUN = ("run", "--policy", "p.yaml")
# Every flag of the v0.36 binary.
V036 = frozenset(
    re.findall(
        r"\S+",
        """
bind-address cert-dir client-connection-burst client-connection-kubeconfig client-connection-qps
descheduling-interval disable-http2-serving disable-metrics dry-run enable-http2 feature-gates
http2-max-streams-per-connection kubeconfig leader-elect leader-elect-lease-duration
leader-elect-renew-deadline leader-elect-resource-lock leader-elect-resource-name
leader-elect-resource-namespace leader-elect-retry-period log-flush-frequency
log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream
logging-format otel-collector-endpoint otel-fallback-no-op-on-error otel-sample-rate
otel-service-name otel-trace-namespace otel-transport-ca-cert permit-address-sharing
permit-port-sharing policy-config-file secure-port tls-cert-file tls-cipher-suites
tls-curve-preferences tls-min-version tls-private-key-file tls-sni-cert-key v vmodule
""",
    )
)

Asked = Callable[..., Options]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what is said to words that are refused."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_the_table_has_every_flag_of_the_sig_descheduler_once() -> None:
    meant = [flag.name for flag in upstream_flags.SUPPORTED_FLAGS]
    idle = [
        name for each in upstream_flags.IGNORED_FLAGS for name in (*each.switches, *each.valued)
    ]

    assert {*meant, *idle} >= V036
    assert len({*meant, *idle}) == len([*meant, *idle])


def test_the_migration_page_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition("## Flags\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]

    assert lines == [f"| {flag} | {here} |" for flag, here in upstream_flags.rows()]


@pytest.mark.parametrize("flag", upstream_flags.SUPPORTED_FLAGS, ids=lambda flag: flag.name)
def test_every_flag_with_a_meaning_is_taken(flag: upstream_flags.UpstreamFlag) -> None:
    values = {
        "DURATION": "5m",
        "N": "1",
        "PORT": "1",
        "FORMAT": "text",
        "LABELS": "a=b",
        "RATE": "0.5",
    }
    value = values.get(flag.metavar, "x") if flag.metavar else "true"

    parser().parse_args([*RUN, f"{upstream_flags.as_typed(flag.name)}={value}"])


@pytest.mark.parametrize(
    ("value", "dry"),
    [("", True), ("=true", True), ("=1", True), ("=false", False), ("=F", False)],
)
def test_a_switch_takes_a_truth_value_as_go_writes_it(
    asked: Asked, value: str, *, dry: bool
) -> None:
    assert asked(*RUN, f"--dry-run{value}").dry_run is dry


@pytest.mark.parametrize(
    ("words", "level"),
    [
        pytest.param(("-v", "0"), "info", id="0"),
        pytest.param(("--v=3",), "info", id="3"),
        pytest.param(("-v=4",), "debug", id="4"),
        pytest.param(("--v", "10"), "debug", id="10"),
        pytest.param(("--v=10", "--log-level=error"), "error", id="the last one counts"),
    ],
)
def test_verbosity_is_a_log_level(asked: Asked, words: tuple[str, ...], level: str) -> None:
    assert asked(*RUN, *words).log_level == level


@pytest.mark.parametrize(("written", "ours"), [("text", "console"), ("json", "json")])
def test_the_logging_format_is_one_of_ours(asked: Asked, written: str, ours: str) -> None:
    assert asked(*RUN, "--logging-format", written).log_format == ours


def test_what_concerns_the_client_and_the_nodes_is_passed_on(asked: Asked) -> None:
    options = asked(
        *RUN,
        *("--client-connection-qps", "50.5", "--client-connection-burst", "100"),
        *("--node-selector", "pool in (a,b)", "--client-connection-kubeconfig", "k"),
        *("--disable-metrics", "--lenient-policy"),
    )

    assert options.overrides == FlagOverrides(
        node_selector=parse_selector("pool in (a,b)"), requests_per_second=50.5, burst=100
    )
    assert (options.kubeconfig, options.lenient, options.serve_metrics) == ("k", True, False)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--client-connection-qps=0", "--client-connection-burst=0"), id="0"),
        pytest.param(("--node-selector=",), id="no labels"),
        pytest.param(("--kubeconfig=",), id="no file"),
        pytest.param(("--enable-http2=f",), id="a switch turned off"),
        pytest.param(("--disable-metrics=false", "--dry-run=false"), id="our own switch off"),
    ],
)
def test_a_flag_that_says_nothing_changes_nothing(asked: Asked, words: tuple[str, ...]) -> None:
    assert asked(*RUN, *words) == Options(policy="p.yaml")


def test_what_concerns_leader_election_is_passed_on_as_it_was_written(asked: Asked) -> None:
    options = asked(
        *RUN,
        *("--leader-elect", "--leader-elect-lease-duration=137s"),
        *("--leader-elect-renew-deadline", "1m47s", "--leader-elect-retry-period=26s"),
        *("--leader-elect-resource-lock=leases", "--leader-elect-resource-name=mine"),
        "--leader-elect-resource-namespace=ours",
    )

    assert options.warnings == ()
    assert options.overrides.leader_election == {
        "leader_elect": True,
        "lease_duration_s": "137s",
        "renew_deadline_s": "1m47s",
        "retry_period_s": "26s",
        "resource_lock": "leases",
        "resource_name": "mine",
        "resource_namespace": "ours",
    }


@pytest.mark.parametrize("idle", upstream_flags.IGNORED_FLAGS, ids=lambda idle: idle.family)
def test_each_flag_that_does_nothing_is_reported_once_with_its_reason(
    asked: Asked, idle: upstream_flags.IgnoredFlags
) -> None:
    switches = [f"--{name}" for name in idle.switches]
    valued = [word for name in idle.valued for word in (f"--{name}", "x")]

    notices = asked(*RUN, *switches, *valued, *switches).warnings

    assert notices == tuple(
        f"--{name} does nothing here: {idle.message}" for name in (*idle.switches, *idle.valued)
    )


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--dry-run=maybe",), id="truth"),
        pytest.param(("--leader-elect=2",), id="leader truth"),
        pytest.param(("--enable-http2=2",), id="idle truth"),
        pytest.param(("--descheduling-interval=5",), id="no unit"),
        pytest.param(("--descheduling-interval=-5m",), id="negative"),
        pytest.param(("--node-selector=a=b=c",), id="labels"),
        pytest.param(("--client-connection-qps=-1",), id="rate"),
        pytest.param(("--client-connection-qps=nan",), id="no number"),
        pytest.param(("--client-connection-burst=2.5",), id="burst"),
        pytest.param(("--secure-port=70000",), id="port"),
        pytest.param(("--logging-format=xml",), id="format"),
        pytest.param(("-v", "loud"), id="verbosity"),
        pytest.param(("--max-pods-to-evict-per-node=2",), id="a limit"),
        pytest.param(("--evict-local-storage-pods",), id="a protection"),
        pytest.param(("--leader",), id="an abbreviation"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_remedy(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], golden: Golden
) -> None:
    assert golden() in refused(capsys, *RUN, *words)


def test_without_a_policy_both_names_of_its_flag_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "--policy/--policy-config-file" in refused(capsys, "--descheduling-interval=5m")


def test_help_names_every_family_of_flags_and_stays_on_one_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main(["run", "--help"])

    text = capsys.readouterr().out
    words = " ".join(text.split()).replace("- ", "-")  # lines may end after a hyphen
    assert upstream_flags.GROUP_TITLE in text
    for flag in upstream_flags.SUPPORTED_FLAGS:
        assert upstream_flags.as_typed(flag.name) in words
    for idle in upstream_flags.IGNORED_FLAGS:
        assert idle.family in words
    assert len(text.splitlines()) <= 64
