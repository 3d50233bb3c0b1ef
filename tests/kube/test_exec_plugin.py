"""Credential plugins as processes: what is asked of them, told of them, and left of them."""

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any  # an ExecCredential is free-form

import pytest

from reactive_desched.kube.auth import exec_plugin
from reactive_desched.kube.auth.exec_plugin import ExecPlugin
from tests.support.golden import Golden
from tests.support.manual_clock import wait_until

pytestmark = pytest.mark.timeout(60)

VERSION = "client.authentication.k8s.io/v1"
SECRET = "c4n4ry"


def make(script: str, **more: Any) -> ExecPlugin:
    spec = {"apiVersion": VERSION, "command": sys.executable, "args": ["-c", script], **more}
    return ExecPlugin(SimpleNamespace(value=spec))


def answering(status: object, version: str = VERSION) -> ExecPlugin:
    return make(f"print({json.dumps({'apiVersion': version, 'status': status})!r})")


def refusal(plugin: ExecPlugin) -> str:
    with pytest.raises(ValueError, match="plugin") as caught:
        asyncio.run(plugin.run())
    return str(caught.value)


def test_the_status_of_its_answer_is_what_it_gives() -> None:
    status = {"token": "abc", "expirationTimestamp": "2999-01-01T00:00:00Z"}
    assert asyncio.run(answering(status).run()) == status


def test_a_certificate_with_its_key_is_as_good_as_a_token() -> None:
    status = {"clientCertificateData": "c", "clientKeyData": "k"}
    assert asyncio.run(answering(status).run()) == status


def test_it_receives_what_is_asked_of_it_and_the_variables_of_the_kubeconfig(
    tmp_path: Path,
) -> None:
    heard = tmp_path / "heard"
    script = (
        "import os, json; e = os.environ;"
        f"open({str(heard)!r}, 'w').write(e['REGION'] + e['KUBERNETES_EXEC_INFO']);"
        f"print(json.dumps({{'apiVersion': {VERSION!r}, 'status': {{'token': 'abc'}}}}))"
    )
    plugin = make(script, env=[{"name": "REGION", "value": "here"}], interactiveMode="Never")
    asyncio.run(plugin.run())
    info = {"apiVersion": VERSION, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert heard.read_text().startswith("here")
    assert json.loads(heard.read_text().removeprefix("here")) == info


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
    assert status == {"token": "abc"}


def test_a_variable_without_a_value_is_empty() -> None:
    answer = f"json.dumps({{'apiVersion': {VERSION!r}, 'status': {{'token': repr(values)}}}})"
    script = f"import json, os; values = [os.environ[n] for n in 'AB']; print({answer})"
    plugin = make(script, env=[{"name": "A"}, {"name": "B", "value": None}])
    assert asyncio.run(plugin.run()) == {"token": "['', '']"}


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
    plugin = ExecPlugin(SimpleNamespace(value={"apiVersion": VERSION, "command": "/no/such"}))
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
    assert caplog.messages == [f"waiting for the credential plugin {sys.executable}"]


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
