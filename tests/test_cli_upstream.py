"""The SIG descheduler's command line: the same meaning, or a word that a flag does nothing."""

import argparse
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reactive_desched import app, once
from reactive_desched._version import __version__
from reactive_desched.cli import main, parser, upstream_flags, upstream_form
from reactive_desched.model.labels import parse_selector
from reactive_desched.overrides import Overrides
from reactive_desched.parts import Options

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "from-the-sig-descheduler.md"
RUN = ("run", "--policy", "p.yaml")
BARE = ("--policy-config-file", "p.yaml")
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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Options]:
    """Call the program and return what `run` was asked to do, reacting or sweeping once."""

    def call(*words: str) -> Options:
        asked: list[Options] = []

        def run(options: Options) -> int:
            asked.append(options)
            return 0

        monkeypatch.setattr(app, "run", run)
        monkeypatch.setattr(once, "run", run)
        monkeypatch.setattr(upstream_form, "_writable", lambda _: True)
        assert main(words) == 0
        return asked[0]

    return call


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Call the program and say whether it sweeps once, rather than reacts."""

    def call(*words: str) -> bool:
        called: list[bool] = []

        def note(which: bool, _: Options) -> int:  # noqa: FBT001 -- which of the two it is
            called.append(which)
            return 0

        monkeypatch.setattr(app, "run", partial(note, False))
        monkeypatch.setattr(once, "run", partial(note, True))
        monkeypatch.setattr(upstream_form, "_writable", lambda _: True)
        assert main(words) == 0
        [sweeping] = called
        return sweeping

    return call


Asked = Callable[..., Options]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what is said to words that are refused."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_the_table_has_every_flag_of_the_sig_descheduler_once() -> None:
    meant = [flag.name for flag in upstream_flags.MEANT]
    idle = [name for each in upstream_flags.IDLES for name in (*each.switches, *each.valued)]

    assert {*meant, *idle} >= V036
    assert len({*meant, *idle}) == len([*meant, *idle])


def test_the_page_for_those_who_move_over_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition("## Flags\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]

    assert lines == [f"| {flag} | {here} |" for flag, here in upstream_flags.rows()]


@pytest.mark.parametrize("flag", upstream_flags.MEANT, ids=lambda flag: flag.name)
def test_every_flag_with_a_meaning_is_taken(flag: upstream_flags.Flag) -> None:
    values = {"DURATION": "5m", "N": "1", "PORT": "1", "FORMAT": "text", "LABELS": "a=b"}
    value = values.get(flag.takes, "x") if flag.takes else "true"

    parser().parse_args([*RUN, f"{upstream_flags.dashed(flag.name)}={value}"])


@pytest.mark.parametrize("name", ["policy-config-file", "policy_config_file"])
@pytest.mark.parametrize("as_one_word", [True, False])
def test_underscores_stand_for_hyphens(asked: Asked, name: str, *, as_one_word: bool) -> None:
    words = [f"--{name}=some_file.yaml"] if as_one_word else [f"--{name}", "some_file.yaml"]

    assert asked("run", *words).policy == "some_file.yaml"
    assert asked(*words).policy == "some_file.yaml"


def test_only_the_name_of_a_flag_is_spelled_anew() -> None:
    words = ["run", "--journal_dir=a_b", "--context", "my_context", "_x"]

    assert upstream_form.in_our_form(words) == (
        ["run", "--journal-dir=a_b", "--context", "my_context", "_x"],
        False,
    )


@pytest.mark.parametrize(
    ("words", "once"),
    [
        pytest.param(BARE, True, id="the image of a CronJob"),
        pytest.param((*BARE, "--descheduling-interval", "0"), True, id="interval 0"),
        pytest.param((*BARE, "--descheduling-interval", "5m"), False, id="a Deployment"),
        pytest.param(("-v", "3", *BARE, "--descheduling-interval=5m"), False, id="-v comes first"),
        pytest.param(RUN, False, id="run reacts"),
        pytest.param((*RUN, "--once"), True, id="run --once"),
        pytest.param((*RUN, "--descheduling-interval=0s"), True, id="run with interval 0"),
        pytest.param((*RUN, "--descheduling-interval=5m"), False, id="run with an interval"),
        pytest.param((*RUN, "--once", "--descheduling-interval=5m"), True, id="once and interval"),
    ],
)
def test_who_sweeps_once_and_who_keeps_watching(
    sweeps: Callable[..., bool], words: tuple[str, ...], *, once: bool
) -> None:
    assert sweeps(*words) is once


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_alone_is_about_all_commands(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([word])

    assert ended.value.code == 0
    assert "COMMAND" in capsys.readouterr().out


def test_a_command_line_that_only_changes_its_image_is_taken_whole(asked: Asked) -> None:
    # As the Helm chart renders it: a Deployment with two values of cmdOptions.
    options = asked(
        "--policy-config-file=/policy-dir/policy.yaml",
        "--descheduling-interval=2m",
        "--dry-run=true",
        "--leader-elect=true",
        "--v=3",
    )

    assert options == Options(
        policy="/policy-dir/policy.yaml",
        dry_run=True,
        log_level="info",
        overrides=Overrides(usual_listen="0.0.0.0:10258"),
        notices=(
            f"--leader-elect does nothing here: {upstream_flags.IDLES[0].why}",
            "--descheduling-interval does nothing here: changes are acted on as they come",
        ),
    )


@pytest.mark.parametrize(
    ("value", "dry"),
    [("", True), ("=true", True), ("=1", True), ("=false", False), ("=F", False)],
)
def test_a_switch_takes_a_truth_value_as_go_writes_it(
    asked: Asked, value: str, *, dry: bool
) -> None:
    assert asked(*RUN, f"--dry-run{value}").dry_run is dry


@pytest.mark.parametrize("form", [RUN, BARE], ids=["run", "bare"])
@pytest.mark.parametrize(
    ("words", "listen"),
    [
        pytest.param((), None, id="neither"),
        pytest.param(("--secure-port=8443",), "0.0.0.0:8443", id="port"),
        pytest.param(("--bind-address=10.0.0.1",), "10.0.0.1:10258", id="address"),
        pytest.param(("--bind-address=::", "--secure-port=1"), "[::]:1", id="IPv6"),
        pytest.param(("--bind-address=::1", "--secure-port=0"), "127.0.0.1:0", id="port 0"),
        pytest.param(("--listen=:7", "--secure-port=8443"), ":7", id="our own flag counts"),
    ],
)
def test_bind_address_and_secure_port_say_where_to_listen(
    asked: Asked, form: tuple[str, ...], words: tuple[str, ...], listen: str | None
) -> None:
    assert asked(*form, *words).listen == listen


def test_only_the_bare_form_listens_where_the_sig_descheduler_does(asked: Asked) -> None:
    assert asked(*BARE).overrides.usual_listen == "0.0.0.0:10258"
    assert asked(*RUN).overrides.usual_listen is None


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

    assert options.overrides == Overrides(
        node_selector=parse_selector("pool in (a,b)"), requests_per_second=50.5, burst=100
    )
    assert (options.kubeconfig, options.lenient, options.serve_metrics) == ("k", True, False)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--client-connection-qps=0", "--client-connection-burst=0"), id="0"),
        pytest.param(("--node-selector=",), id="no labels"),
        pytest.param(("--kubeconfig=",), id="no file"),
        pytest.param(("--leader-elect=false", "--enable-http2=f"), id="a switch turned off"),
        pytest.param(("--disable-metrics=false", "--dry-run=false"), id="our own switch off"),
    ],
)
def test_a_flag_that_says_nothing_changes_nothing(asked: Asked, words: tuple[str, ...]) -> None:
    assert asked(*RUN, *words) == Options(policy="p.yaml")


@pytest.mark.parametrize("idle", upstream_flags.IDLES, ids=lambda idle: idle.family)
def test_each_flag_that_does_nothing_is_told_once_with_its_reason(
    asked: Asked, idle: upstream_flags.Idle
) -> None:
    switches = [f"--{name}" for name in idle.switches]
    valued = [word for name in idle.valued for word in (f"--{name}", "x")]

    notices = asked(*RUN, *switches, *valued, *switches).notices

    assert notices == tuple(
        f"--{name} does nothing here: {idle.why}" for name in (*idle.switches, *idle.valued)
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param((*RUN, "--descheduling-interval=1h"), "as they come", id="an interval"),
        pytest.param((*RUN, "--once", "--descheduling-interval=1h"), "sweeps once", id="and once"),
        pytest.param(BARE, "one sweep only", id="no interval in the bare form"),
        pytest.param((*RUN, "--secure-port=0"), "loopback only", id="no port"),
    ],
)
def test_what_is_not_quite_the_same_is_told(
    asked: Asked, words: tuple[str, ...], said: str
) -> None:
    (notice,) = asked(*words).notices

    assert said in notice


@pytest.mark.parametrize("words", [RUN, (*RUN, "--once"), (*RUN, "--descheduling-interval=0")])
def test_who_speaks_our_language_is_told_nothing(asked: Asked, words: tuple[str, ...]) -> None:
    assert asked(*words).notices == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("--dry-run=maybe",), "'maybe' is neither true nor false", id="truth"),
        pytest.param(("--leader-elect=2",), "'2' is neither true nor false", id="idle truth"),
        pytest.param(("--descheduling-interval=5",), "write 5s for seconds", id="no unit"),
        pytest.param(("--descheduling-interval=-5m",), "is negative", id="negative"),
        pytest.param(("--node-selector=a=b=c",), "--node-selector", id="labels"),
        pytest.param(("--client-connection-qps=-1",), "from 0 to 10000", id="rate"),
        pytest.param(("--client-connection-qps=nan",), "from 0 to 10000", id="no number"),
        pytest.param(("--client-connection-burst=2.5",), "not a whole number", id="burst"),
        pytest.param(("--secure-port=70000",), "from 0 to 65535", id="port"),
        pytest.param(("--logging-format=xml",), "neither text nor json", id="format"),
        pytest.param(("-v", "loud"), "not a whole number", id="verbosity"),
        pytest.param(
            ("--max-pods-to-evict-per-node=2",), "write maxNoOfPodsToEvictPerNode", id="a limit"
        ),
        pytest.param(
            ("--evict-local-storage-pods",), "set evictLocalStoragePods", id="a protection"
        ),
        pytest.param(("--leader",), "unrecognized arguments: --leader", id="an abbreviation"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_remedy(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert said in refused(capsys, *RUN, *words)


def test_without_a_policy_both_names_of_its_flag_are_told(
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
    words = " ".join(text.split())
    assert upstream_flags.TITLE in text
    for flag in upstream_flags.MEANT:
        assert upstream_flags.dashed(flag.name) in words
    for idle in upstream_flags.IDLES:
        assert idle.family in words
    assert len(text.splitlines()) <= 60


class TestThePlaceOfTheJournal:
    """A manifest of the SIG descheduler mounts no volume and has a read-only root."""

    def options(self, *words: str) -> argparse.Namespace:
        ours, bare = upstream_form.in_our_form(words)
        found = parser().parse_args(ours)
        found.bare = bare
        return found

    @pytest.fixture
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        for name in ("STATE_DIRECTORY", "XDG_STATE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        return tmp_path

    def lock(self, monkeypatch: pytest.MonkeyPatch, *locked: Path) -> None:
        def writable(folder: Path) -> bool:
            return not any(folder.is_relative_to(each) for each in locked)

        monkeypatch.setattr(upstream_form, "_writable", writable)

    def test_it_is_the_usual_one_where_that_can_be_written(self, home: Path) -> None:
        assert upstream_form.said(self.options(*BARE)).usual_journal_dir is None

    def test_else_it_is_the_pods_own_memory_and_that_is_told(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.lock(monkeypatch, home)
        found = upstream_form.said(self.options(*BARE, "--descheduling-interval=0"))

        assert found.usual_journal_dir == "/dev/shm/reactive-desched"
        (notice,) = found.notices
        assert "ends with the pod; pass --journal-dir" in notice

    @pytest.mark.parametrize(
        "words",
        [
            pytest.param((*BARE, "--journal-dir=/j"), id="a folder is given"),
            pytest.param(RUN, id="our own form: it fails and says so"),
        ],
    )
    def test_nobody_else_is_moved_there(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
    ) -> None:
        self.lock(monkeypatch, home)

        assert upstream_form.said(self.options(*words)).usual_journal_dir is None

    @pytest.mark.parametrize("writable", [True, False])
    def test_a_folder_to_be_made_is_as_writable_as_what_is_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, writable: bool
    ) -> None:
        there = {tmp_path: writable}
        monkeypatch.setattr(os, "access", lambda path, _: there[path])

        assert upstream_form._writable(tmp_path / "a" / "b") is writable


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"reactive-desched {__version__} (Python ")
    assert out.count("\n") == 1
