"""Run the credential plugin of a kubeconfig, so that it can be ended and lets no secret out."""

import asyncio
import logging
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from reactive_desched.logs import REDACTED, redact

__all__ = ["ExecPlugin"]

_SLOW_AFTER_S = 1.0
_KILLED_WITHIN_S = 1.0
_MOST_BYTES = 2**20
_MOST_WORDS = 200
_HAND = "run it by hand to see why"
_SECRETS = (
    re.compile(r"(?i)((?:token|password|passwd|secret|key)[\"']?\s*[=:]\s*)\S+"),
    re.compile(r"()[\w.~+=-]{32,}"),
)


class _Variable(Struct, frozen=True):
    name: str
    value: str


class _Spec(Struct, frozen=True, rename="camel"):
    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    interactive_mode: str | None = None


class _Status(Struct, frozen=True, rename="camel", omit_defaults=True):
    token: str | None = None
    expiration_timestamp: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _Answer(Struct, frozen=True, rename="camel"):
    api_version: str
    status: _Status


class ExecPlugin:
    """What the `exec` of a user describes; the client library's loader makes one and runs it.

    Where nobody can be asked for anything, the plugin leads a process group of its own, so that
    what it starts ends with it; at a terminal it stays in ours, or it could not ask there.
    """

    def __init__(self, config: Any) -> None:  # the library ships no types
        self._spec = msgspec.convert(config.value, _Spec)
        mode = self._spec.interactive_mode
        self._asks = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()

    async def run(self) -> dict[str, str]:
        """Return the `status` of its answer; raises ValueError saying what is wrong with it.

        When cancelled, the plugin is killed. After a second it is logged that we wait.
        """
        process = await self._start()
        slow = asyncio.get_running_loop().call_later(_SLOW_AFTER_S, self._tell)
        try:
            answer, words, status = await asyncio.gather(
                _whole(process.stdout), _whole(process.stderr), process.wait()
            )
        except BaseException:
            await self._kill(process)
            raise
        finally:
            slow.cancel()
        if status != 0:
            raise ValueError(f"{self._name} ended with exit status {status}{_last(words)}; {_HAND}")
        return self._status(answer)

    @property
    def _name(self) -> str:
        return f"its credential plugin {self._spec.command!r}"

    async def _start(self) -> Process:
        spec = self._spec
        try:
            return await asyncio.create_subprocess_exec(
                *(spec.command, *(spec.args or ())),
                env={**os.environ, **self._environment()},
                stdin=None if self._asks else DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                process_group=None if self._asks else 0,
            )
        except OSError as error:
            remedy = "install it, or correct exec.command"
            raise ValueError(f"{self._name} cannot be run: {error.strerror}; {remedy}") from error

    def _environment(self) -> dict[str, str]:
        info = {
            "apiVersion": self._spec.api_version,
            "kind": "ExecCredential",
            "spec": {"interactive": self._asks},
        }
        given = {variable.name: variable.value for variable in self._spec.env or ()}
        return {**given, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}

    def _tell(self) -> None:
        # Neither a log nor a place to tell of progress gets here; this works with and without.
        logging.getLogger(__name__).warning(
            "waiting for the credential plugin %s", self._spec.command
        )

    async def _kill(self, process: Process) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self._asks:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # whoever left the group may hold its output open
            await asyncio.wait_for(process.communicate(), _KILLED_WITHIN_S)

    def _status(self, answer: bytes) -> dict[str, str]:
        """Read the answer; its texts are never repeated, as they hold what must stay secret."""
        if len(answer) > _MOST_BYTES:
            raise ValueError(f"{self._name} wrote more than {_MOST_BYTES} bytes; {_HAND}")
        try:
            read = msgspec.json.decode(answer, type=_Answer)
        except msgspec.DecodeError as error:
            raise ValueError(f"{self._name} gave no ExecCredential: {error}; {_HAND}") from None
        if read.api_version != self._spec.api_version:
            raise ValueError(
                f"{self._name} speaks {read.api_version!r}, and not {self._spec.api_version!r}:"
                " correct exec.apiVersion, or update it"
            )
        status = read.status
        if not (status.token or (status.client_certificate_data and status.client_key_data)):
            raise ValueError(
                f"{self._name} gave neither a token nor a certificate with its key; {_HAND}"
            )
        known: dict[str, str] = msgspec.to_builtins(status)
        return known


async def _whole(stream: asyncio.StreamReader | None) -> bytes:
    """Read to the end and keep the beginning, at most one byte more than is taken."""
    assert stream is not None, "it is a pipe"
    kept = b""
    while part := await stream.read(_MOST_BYTES):
        kept += part[: _MOST_BYTES + 1 - len(kept)]
    return kept


def _last(words: bytes) -> str:
    """Quote the last line of what a plugin said, cut, and without what looks like a secret."""
    lines = words.decode(errors="replace").split("\n")
    line = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if not line:
        return ""
    text = str(redact(None, "", {"text": line})["text"])
    for secret in _SECRETS:
        text = secret.sub(rf"\1{REDACTED}", text)
    return f", saying {text[:_MOST_WORDS]!r}"
