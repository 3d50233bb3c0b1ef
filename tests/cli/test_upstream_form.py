"""The SIG descheduler's command line as a whole: in a manifest only the image changes."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reactive_desched.app import otel_environment
from reactive_desched.app.options import Options
from reactive_desched.app.overrides import FlagOverrides
from reactive_desched.cli import commands, main, parser, upstream_form
from tests.support.golden import Golden

RUN = ("run", "--policy", "p.yaml")
BARE = ("--policy-config-file", "p.yaml")

Asked = Callable[..., Options]
Ran = Callable[..., tuple[str, Options]]


@pytest.mark.parametrize("name", ["policy-config-file", "policy_config_file"])
@pytest.mark.parametrize("as_one_word", [True, False])
def test_underscores_stand_for_hyphens(asked: Asked, name: str, *, as_one_word: bool) -> None:
    words = [f"--{name}=some_file.yaml"] if as_one_word else [f"--{name}", "some_file.yaml"]

    assert asked("run", *words).policy == "some_file.yaml"
    assert asked(*words).policy == "some_file.yaml"


def test_only_the_name_of_a_flag_is_spelled_anew() -> None:
    words = ["run", "--journal_dir=a_b", "--context", "my_context", "_x"]

    assert commands.with_hyphens(words) == [
        *("run", "--journal-dir=a_b", "--context", "my_context", "_x")
    ]


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
def test_which_flags_sweep_once_and_which_keep_watching(
    ran: Ran, words: tuple[str, ...], *, once: bool
) -> None:
    way, _ = ran(*words)

    assert way == ("once" if once else "app")


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_alone_is_about_all_commands(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([word])

    assert ended.value.code == 0
    assert "COMMAND" in capsys.readouterr().out


def test_a_command_line_that_only_changes_its_image_is_taken_whole(
    asked: Asked, golden: Golden
) -> None:
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
        overrides=FlagOverrides(
            default_listen="0.0.0.0:10258",
            old_metric_names=True,
            leader_election={"leader_elect": True},
        ),
        warnings=(golden(),),
    )


def test_only_the_bare_form_listens_where_the_sig_descheduler_does(asked: Asked) -> None:
    assert asked(*BARE).overrides.default_listen == "0.0.0.0:10258"
    assert asked(*RUN).overrides.default_listen is None


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param((*RUN, "--descheduling-interval=1h"), "as they come", id="an interval"),
        pytest.param((*RUN, "--once", "--descheduling-interval=1h"), "sweeps once", id="and once"),
        pytest.param(BARE, "one sweep only", id="no interval in the bare form"),
        pytest.param((*RUN, "--secure-port=0"), "loopback only", id="no port"),
    ],
)
def test_what_is_not_quite_the_same_is_reported(
    asked: Asked, words: tuple[str, ...], said: str
) -> None:
    (notice,) = asked(*words).warnings

    assert said in notice


@pytest.mark.parametrize("words", [RUN, (*RUN, "--once"), (*RUN, "--descheduling-interval=0")])
def test_our_own_flags_need_no_note(asked: Asked, words: tuple[str, ...]) -> None:
    assert asked(*words).warnings == ()


COLLECTOR = "--otel-collector-endpoint=collector:4317"


def test_the_flags_of_traces_name_a_collector_over_grpc(asked: Asked) -> None:
    words = ("--otel-trace-namespace=infra", "--otel-service-name=mine", "--otel-sample-rate=0.1")
    options = asked(*BARE, COLLECTOR, *words, "--otel-fallback-no-op-on-error")
    assert options.overrides.traces == {
        "url": "http://collector:4317",
        "protocol": "grpc",
        "insecure": True,
        "ca_file": "",
        "service_name": "mine",
        "resource_attributes": {"service.namespace": "infra"},
        "sample_ratio": 0.1,
    }


def test_traces_are_encrypted_where_an_authority_is_named(asked: Asked) -> None:
    traces = asked(*RUN, COLLECTOR, "--otel-transport-ca-cert=ca.pem").overrides.traces
    assert (traces["url"], traces["ca_file"]) == ("https://collector:4317", "ca.pem")
    assert (traces["service_name"], traces["sample_ratio"]) == ("descheduler", 1.0)


@pytest.mark.parametrize(
    "words",
    [("--otel-service-name=mine",), (COLLECTOR, "--otel-sample-rate=0")],
    ids=["no collector", "no share"],
)
def test_without_a_collector_or_a_share_nothing_is_traced(
    asked: Asked, words: tuple[str, ...]
) -> None:
    assert asked(*RUN, *words).overrides.traces == {}


def test_without_the_extra_a_notice_says_that_nothing_is_traced(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(otel_environment, "lacking_package", lambda protocol: f"of {protocol}")
    options = asked(*RUN, COLLECTOR)
    assert options.overrides.traces == {}
    assert options.warnings == (golden(),)


class TestThePlaceOfTheJournal:
    """A manifest of the SIG descheduler mounts no volume and has a read-only root."""

    def options(self, *words: str) -> argparse.Namespace:
        bare = commands.begins_with_flag(words)
        found = parser().parse_args(["run", *words] if bare else words)
        found.bare = bare
        return found

    @pytest.fixture
    def locked(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have nothing below the home directory be writable, whoever asks: root always may."""
        monkeypatch.setattr(os, "access", lambda path, _: not path.is_relative_to(home))

    @pytest.mark.usefixtures("home")
    def test_it_is_the_usual_one_where_that_can_be_written(self) -> None:
        assert upstream_form.read_upstream_options(self.options(*BARE)).default_journal_dir is None

    @pytest.mark.usefixtures("locked")
    def test_else_it_is_the_pods_own_memory_and_that_is_reported(self) -> None:
        found = upstream_form.read_upstream_options(
            self.options(*BARE, "--descheduling-interval=0")
        )

        assert found.default_journal_dir == "/dev/shm/reactive-desched"
        (notice,) = found.notices
        assert "ends with the pod; pass --journal DIR" in notice

    @pytest.mark.usefixtures("locked")
    @pytest.mark.parametrize(
        "words",
        [
            pytest.param((*BARE, "--journal-dir=/j"), id="a folder is given"),
            pytest.param(RUN, id="our own form: it fails and says so"),
        ],
    )
    def test_no_other_pod_is_moved_there(self, words: tuple[str, ...]) -> None:
        assert upstream_form.read_upstream_options(self.options(*words)).default_journal_dir is None

    @pytest.mark.parametrize("writable", [True, False])
    def test_a_folder_to_be_made_is_as_writable_as_what_is_there(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, *, writable: bool
    ) -> None:
        there = {home: writable, Path("/dev/shm"): True}
        monkeypatch.setattr(os, "access", lambda path, _: there[path])

        usual = upstream_form.read_upstream_options(self.options(*BARE)).default_journal_dir
        assert (usual is None) is writable
