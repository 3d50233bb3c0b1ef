"""Credential plugins as processes: what is asked of them, told of them, and left of them."""

import asyncio
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any  # an ExecCredential is free-form

import pytest

from reactive_desched.kube import exec_plugin
from reactive_desched.kube.exec_plugin import ExecPlugin
from reactive_desched.testing.manual_clock import until

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


def test_it_is_told_what_is_asked_of_it_and_the_variables_of_the_kubeconfig(tmp_path: Path) -> None:
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


def test_one_that_fails_is_told_with_its_exit_status_and_its_last_line_once() -> None:
    script = "import sys; print('early', file=sys.stderr); sys.exit('please log in\\n\\n')"
    told = refusal(make(script))
    assert "ended with exit status 1" in told
    assert told.count("please log in") == 1
    assert "early" not in told


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(f"token={SECRET}", id="named"),
        pytest.param(f'{{"password": "{SECRET}"}}', id="in JSON"),
        pytest.param(f"Authorization: Bearer {SECRET}-{SECRET}", id="a header"),
        pytest.param(f"no such key k8s-aws-v1.{SECRET}aHR0cHM6Ly9zdHMuYW1hem9u", id="opaque"),
    ],
)
def test_what_looks_like_a_secret_in_its_last_line_is_not_told(said: str) -> None:
    told = refusal(make(f"import sys; sys.exit({said!r})"))
    assert SECRET not in told
    assert "[redacted]" in told


def test_a_long_last_line_is_cut() -> None:
    assert len(refusal(make("import sys; sys.exit('word ' * 1000)"))) < 400


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        pytest.param(make(f"print('{SECRET}')"), "gave no ExecCredential", id="no JSON"),
        pytest.param(
            answering({"token": [SECRET]}), r"Expected `str | null`, got `array`", id="no text"
        ),
        pytest.param(answering({}), "neither a token nor a certificate", id="nothing"),
        pytest.param(
            answering({"clientCertificateData": SECRET}),
            "nor a certificate with its key",
            id="half",
        ),
        pytest.param(answering({"token": SECRET}, "v0"), "speaks 'v0'", id="another version"),
        pytest.param(
            make("import sys; sys.stdout.write('x' * 2**21)"), "more than 1048576", id="endless"
        ),
    ],
)
def test_an_answer_that_cannot_be_used_is_described_and_not_repeated(
    plugin: ExecPlugin, told: str
) -> None:
    words = refusal(plugin)
    assert told in words
    assert SECRET not in words


def test_one_that_is_not_there_is_named_with_the_remedy() -> None:
    plugin = ExecPlugin(SimpleNamespace(value={"apiVersion": VERSION, "command": "/no/such"}))
    told = refusal(plugin)
    assert "'/no/such' cannot be run: No such file or directory; install it" in told


def test_one_that_is_waited_for_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exec_plugin, "_SLOW_AFTER_S", 0.0)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    answer = json.dumps({"apiVersion": VERSION, "status": {"token": "abc"}})

    async def waiting() -> None:
        running = asyncio.create_task(make(f"open({str(gate)!r}).read(); print({answer!r})").run())
        await until(lambda: caplog.messages != [])
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
