"""Credential plugins as processes: what is asked of them, told of them, and left of them."""

import asyncio
import json
import logging
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast  # an ExecCredential is free-form

import msgspec
import pytest

from reactive_desched.kube.auth import exec_plugin
from reactive_desched.kube.auth.credential import Credential
from reactive_desched.kube.auth.exec_plugin import ExecCredentials, ExecPlugin, ExecStatus
from reactive_desched.kube.auth.kubeconfig import KubeconfigFiles
from reactive_desched.kube.auth.kubeconfig_merge import choose_context
from tests.support.authority import CertificateAuthority
from tests.support.golden import Golden
from tests.support.manual_clock import wait_until

pytestmark = pytest.mark.timeout(60)

VERSION = "client.authentication.k8s.io/v1"
SECRET = "c4n4ry"
CLUSTER = {"server": "https://api.example"}


def make(script: str, **more: Any) -> ExecPlugin:
    spec = {"apiVersion": VERSION, "command": sys.executable, "args": ["-c", script], **more}
    return ExecPlugin(spec, CLUSTER)


def answering(status: object, version: str = VERSION) -> ExecPlugin:
    return make(f"print({json.dumps({'apiVersion': version, 'status': status})!r})")


def refusal(plugin: ExecPlugin) -> str:
    with pytest.raises(ValueError, match="plugin") as caught:
        asyncio.run(plugin.run())
    return str(caught.value)


def test_the_status_of_its_answer_is_what_it_gives() -> None:
    status = {"token": "abc", "expirationTimestamp": "2999-01-01T00:00:00Z"}
    assert msgspec.to_builtins(asyncio.run(answering(status).run())) == status


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "with a byte order mark"])
def test_its_answer_may_be_yaml_as_for_kubectl(mark: str) -> None:
    answer = (
        f"{mark}apiVersion: {VERSION}\nkind: ExecCredential\nstatus:\n  token: abc\n"
        "  expirationTimestamp: 2999-01-01T00:00:00Z\n"
    )
    status = asyncio.run(make(f"print({answer!r})").run())
    assert status == ExecStatus("abc", datetime(2999, 1, 1, tzinfo=UTC))


def test_a_certificate_with_its_key_is_as_good_as_a_token() -> None:
    status = {"clientCertificateData": "c", "clientKeyData": "k"}
    assert msgspec.to_builtins(asyncio.run(answering(status).run())) == status


def heard(folder: Path, cluster: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Run a plugin and return what KUBERNETES_EXEC_INFO had for it, and the variable REGION."""
    file = folder / "heard"
    script = (
        "import os, json; e = os.environ;"
        f"open({str(file)!r}, 'w').write(json.dumps([e.get('REGION'), e['KUBERNETES_EXEC_INFO']]));"
        "v = json.loads(e['KUBERNETES_EXEC_INFO'])['apiVersion'];"
        "print(json.dumps({'apiVersion': v, 'status': {'token': 'abc'}}))"
    )
    spec = {"apiVersion": VERSION, "command": sys.executable, "args": ["-c", script], **more}
    asyncio.run(ExecPlugin(spec, cluster or CLUSTER).run())
    region, info = json.loads(file.read_text())
    return {"REGION": region, **json.loads(info)}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_it_receives_what_is_asked_of_it_and_the_variables_of_the_kubeconfig(
    tmp_path: Path, version: str
) -> None:
    group = "client.authentication.k8s.io"
    env = [{"name": "REGION", "value": "here"}]
    assert heard(tmp_path, env=env, interactiveMode="Never", apiVersion=f"{group}/{version}") == {
        "REGION": "here",
        "apiVersion": f"{group}/{version}",
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


def test_it_receives_the_cluster_where_it_asks_for_it_in_client_gos_form(tmp_path: Path) -> None:
    cluster = {
        "server": "https://api.example",
        "certificate-authority-data": "Y2E=",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "other.example",
        "proxy-url": "http://p:1",
        "extensions": [
            {"name": "another", "extension": 7},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
        ],
    }
    info = heard(tmp_path, cluster, provideClusterInfo=True)
    assert info["spec"]["cluster"] == {
        "server": "https://api.example",
        "certificate-authority-data": "Y2E=",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "other.example",
        "proxy-url": "http://p:1",
        "config": {"audience": "x"},
    }


@pytest.mark.parametrize(
    "server", ["https://api.example", "HTTPS://api.example/k8s/", "api.example:6443"]
)
def test_every_field_of_a_kubeconfigs_cluster_reaches_it_as_it_is_written(
    tmp_path: Path, server: str
) -> None:
    shown = {
        "server": server,
        "certificate-authority-data": "Y2E=",
        "tls-server-name": "other.example",
        "proxy-url": "http://p:1",
        "disable-compression": True,
    }
    (tmp_path / "config").write_text(
        json.dumps(
            {
                "current-context": "a",
                "clusters": [{"name": "a", "cluster": shown}],
                "users": [{"name": "a", "user": {"exec": {"command": "aws"}}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            }
        )
    )
    cluster = choose_context(KubeconfigFiles((str(tmp_path / "config"),), None)).cluster
    info = heard(tmp_path, cluster, provideClusterInfo=True)
    assert info["spec"]["cluster"] == {**shown, "config": None}


def test_an_authority_in_a_file_reaches_it_as_data_and_what_is_not_set_is_left_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "ca.crt").write_text("ca")
    cluster = {"server": "https://a", "certificate-authority": str(tmp_path / "ca.crt")}
    assert heard(tmp_path, cluster, provideClusterInfo=True)["spec"]["cluster"] == {
        "server": "https://a",
        "certificate-authority-data": "Y2E=",
        "config": None,
    }


def test_its_program_is_looked_for_in_our_path_and_not_in_that_of_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "get-token"
    answer = json.dumps({"apiVersion": VERSION, "status": {"token": "abc"}})
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    env = [{"name": "PATH", "value": "/nowhere"}]
    spec = {"apiVersion": VERSION, "command": "get-token", "env": env}
    assert asyncio.run(ExecPlugin(spec, CLUSTER).run()).token == "abc"


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"command": "no-such-plugin"}, id="missing"),
        pytest.param(
            {"command": "no-such-plugin", "installHint": "get it\n  at \x1b[1mhttps://x"}, id="hint"
        ),
        pytest.param({"command": "/"}, id="no program"),
        pytest.param({"interactiveMode": "Always"}, id="no terminal"),
    ],
)
def test_one_that_cannot_be_run_is_named_with_the_remedy(
    more: dict[str, Any], golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    spec = {"apiVersion": VERSION, "command": "true", **more}
    assert refusal(ExecPlugin(spec, CLUSTER)) == golden()


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, id="v1alpha1"),
        pytest.param({"apiVersion": "v1"}, id="no version"),
        pytest.param({"apiVersion": None}, id="null"),
        pytest.param({"command": ""}, id="no command"),
        pytest.param({"interactiveMode": "Sometimes"}, id="mode"),
    ],
)
def test_a_section_with_which_no_plugin_can_run_is_refused_with_the_remedy(
    more: dict[str, Any], golden: Golden
) -> None:
    spec = {"apiVersion": VERSION, "command": "get-token", **more}
    with pytest.raises(ValueError, match=r"\w") as caught:
        ExecPlugin({key: value for key, value in spec.items() if value is not None}, CLUSTER)
    assert str(caught.value) == golden()


def test_one_that_was_killed_is_not_said_to_have_an_exit_status(golden: Golden) -> None:
    told = refusal(make("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert told == golden(executable=f"{sys.executable!r}")


def test_an_answer_of_the_other_version_names_both(golden: Golden) -> None:
    told = refusal(answering({"token": SECRET}, "client.authentication.k8s.io/v1beta1"))
    assert told == golden(executable=f"{sys.executable!r}")


class Counted:
    """A plugin that answers as scripted, and counts its runs."""

    command = "counted"
    is_interactive = False

    def __init__(self, *answers: ExecStatus) -> None:
        self.answers = list(answers)
        self.runs = 0

    async def run(self) -> ExecStatus:
        self.runs += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def at(now_s: float) -> datetime:
    return datetime.fromtimestamp(now_s, UTC)


def load(source: ExecCredentials, now_s: float, *, is_rejected: bool = False) -> Credential:
    return asyncio.run(source.load(now_s, is_rejected=is_rejected))


def credentials(plugin: Counted) -> ExecCredentials:
    return ExecCredentials(cast("ExecPlugin", plugin))


def test_it_runs_again_five_minutes_before_its_token_ends_and_not_earlier() -> None:
    plugin = Counted(ExecStatus("first", at(1000.0)), ExecStatus("second", at(2000.0)))
    source = credentials(plugin)
    assert load(source, 0.0).renew_at_s == 700.0
    assert load(source, 699.0).authorization == "Bearer first"
    assert load(source, 700.0).authorization == "Bearer second"
    assert plugin.runs == 2


def test_with_a_short_lived_token_it_runs_at_half_its_life() -> None:
    assert load(credentials(Counted(ExecStatus("a", at(60.0)))), 0.0).renew_at_s == 30.0


def test_with_a_token_that_has_ended_it_runs_again_after_a_minute() -> None:
    assert load(credentials(Counted(ExecStatus("a", at(0.0)))), 500.0).renew_at_s == 560.0


def test_a_rejection_makes_it_run_again_though_its_token_has_not_ended() -> None:
    plugin = Counted(ExecStatus("first", at(9e9)), ExecStatus("second", at(9e9)))
    source = credentials(plugin)
    load(source, 0.0)
    assert load(source, 1.0, is_rejected=True).authorization == "Bearer second"


def test_a_run_that_fails_leaves_the_next_load_to_run_it_again() -> None:
    plugin = Counted(ExecStatus("first", at(100.0)))
    source = credentials(plugin)
    load(source, 0.0)
    plugin.answers.clear()
    with pytest.raises(IndexError):
        load(source, 99.0)
    plugin.answers.append(ExecStatus("second"))
    assert load(source, 99.0).authorization == "Bearer second"


def test_a_token_may_come_with_a_certificate_whose_end_counts_where_it_is_sooner(
    tmp_path: Path,
) -> None:
    authority = CertificateAuthority()
    certificate, key = (each.read_text() for each in authority.issue(tmp_path, "me"))
    end_s = int((authority.now + timedelta(days=1)).timestamp())
    status = ExecStatus("abc", at(end_s + 1e6), certificate, key)
    found = load(credentials(Counted(status)), end_s - 1e4)
    assert (found.authorization, found.certificate) == ("Bearer abc", certificate.encode())
    assert (found.key, found.renew_at_s) == (key.encode(), end_s - 300.0)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(f"please log in {SECRET}", id="words"),
        pytest.param(f"token={SECRET}", id="named"),
        pytest.param(f"--token {SECRET}", id="an option"),
        pytest.param(f"password: '{SECRET} {SECRET}'", id="quoted"),
        pytest.param(f"Authorization: Token {SECRET}", id="a header"),
        pytest.param(f"ab/{SECRET}/cd==", id="base64"),
    ],
)
def test_one_that_fails_is_reported_with_its_exit_status_and_no_word_of_its_own(
    said: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], golden: Golden
) -> None:
    caplog.set_level(logging.DEBUG)
    told = refusal(make(f"import sys; print({said!r}); print({said!r}, file=sys.stderr); exit(3)"))
    name = f"its credential plugin {sys.executable!r}"
    assert told == golden(name=name)
    assert SECRET not in caplog.text
    assert SECRET not in "".join(capfd.readouterr())


def test_one_that_has_answered_is_done_though_what_it_started_keeps_its_stderr(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    answer = json.dumps({"apiVersion": VERSION, "status": {"token": "abc"}})
    daemon = f"subprocess.Popen(['cat'], stdin=open({str(gate)!r}), stdout=subprocess.DEVNULL)"
    with gate.open("r+b", buffering=0):  # it lives until this is closed
        status = asyncio.run(make(f"import subprocess; {daemon}; print({answer!r})").run())
    assert status.token == "abc"


def test_a_variable_without_a_value_is_empty() -> None:
    answer = f"json.dumps({{'apiVersion': {VERSION!r}, 'status': {{'token': repr(values)}}}})"
    script = f"import json, os; values = [os.environ[n] for n in 'AB']; print({answer})"
    plugin = make(script, env=[{"name": "A"}, {"name": "B", "value": None}])
    assert asyncio.run(plugin.run()).token == "['', '']"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        pytest.param({"args": ["a\0b"]}, "embedded null byte", id="in args"),
        pytest.param({"env": [{"name": "A", "value": "\0"}]}, "embedded null byte", id="in env"),
        pytest.param(
            {"env": [{"name": "A=", "value": "b"}]}, "illegal environment variable name", id="named"
        ),
    ],
)
def test_what_no_process_can_be_given_is_reported_with_the_plugin_and_the_remedy(
    more: dict[str, Any], told: str, golden: Golden
) -> None:
    words = refusal(make("", **more))
    assert words.startswith(golden(executable=f"{sys.executable!r}", told=told) + " ")
    assert words.endswith("correct exec.command, exec.args or exec.env")


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(make(f"print('{SECRET}')"), id="no JSON"),
        pytest.param(answering({"token": [SECRET]}), id="no text"),
        pytest.param(answering({}), id="nothing"),
        pytest.param(
            answering({"clientCertificateData": SECRET}),
            id="half",
        ),
        pytest.param(answering({"token": SECRET}, SECRET), id="version"),
        pytest.param(
            answering({"token": SECRET, "expirationTimestamp": SECRET}),
            id="no time",
        ),
        pytest.param(
            make(f'import sys; sys.stdout.buffer.write(b\'{{"apiVersion": "{SECRET}\\xff"}}\')'),
            id="not UTF-8",
        ),
        pytest.param(make("import sys; sys.stdout.write('x' * 2**21)"), id="endless"),
    ],
)
def test_an_answer_that_cannot_be_used_is_described_and_not_repeated(
    plugin: ExecPlugin, golden: Golden
) -> None:
    words = refusal(plugin)
    assert golden() in words
    assert SECRET not in words


def test_one_that_is_not_there_is_named_with_the_remedy(golden: Golden) -> None:
    plugin = ExecPlugin({"apiVersion": VERSION, "command": "/no/such"}, CLUSTER)
    told = refusal(plugin)
    assert golden() in told


def test_one_that_is_waited_for_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exec_plugin, "_SLOW_AFTER_S", 0.0)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    answer = json.dumps({"apiVersion": VERSION, "status": {"token": "abc"}})

    async def waiting() -> None:
        running = asyncio.create_task(make(f"open({str(gate)!r}).read(); print({answer!r})").run())
        await wait_until(lambda: caplog.messages != [])
        await asyncio.to_thread(gate.write_text, "go")
        await running

    asyncio.run(waiting())
    [message] = caplog.messages
    assert f"the credential plugin {sys.executable} " in message


def test_cancelled_it_is_killed_with_what_it_started(tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    script = f"import subprocess; subprocess.run(['sh', '-c', 'exec >{held}; echo x; sleep 1000'])"

    async def cancelling() -> None:
        running = asyncio.create_task(make(script).run())
        with await asyncio.to_thread(held.open) as output:
            assert await asyncio.to_thread(output.readline) == "x\n"
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert await asyncio.to_thread(output.read) == ""  # at the end of all that hold it

    asyncio.run(cancelling())
