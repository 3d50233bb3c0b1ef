"""Runs the credential plugin of a kubeconfig, so that it can be killed and leaks no secret."""

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

__all__ = ["ExecPlugin"]

_SLOW_AFTER_S = 1.0
_KILL_TIMEOUT_S = 1.0
_MAX_OUTPUT_BYTES = 2**20
_RUN_BY_HAND = "run it by hand to see why"


class _EnvVar(Struct, frozen=True):
    name: str
    value: str | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_EnvVar] | None = None
    interactive_mode: str | None = None


class _Status(Struct, frozen=True, rename="camel", omit_defaults=True):
    token: str | None = None
    expiration_timestamp: datetime | None = None  # the loader would quote one it cannot read
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _ExecCredential(Struct, frozen=True, rename="camel"):
    api_version: str
    status: _Status


class ExecPlugin:
    """The `exec` section of a user; the client library's loader makes one and runs it.

    Without a terminal the plugin leads a process group of its own, so that its children end with
    it; at a terminal it stays in ours, or it could not prompt there. Its output is never repeated,
    because any part of it may be secret.
    """

    def __init__(self, config: Any) -> None:  # the library ships no types
        self._spec = msgspec.convert(config.value, _Spec)
        mode = self._spec.interactive_mode
        self._interactive = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()

    async def run(self) -> dict[str, str]:
        """Return the `status` of its answer; raises ValueError with the error.

        When cancelled, it kills the plugin. After a second it logs the wait.
        """
        process = await self._start()
        slow = asyncio.get_running_loop().call_later(_SLOW_AFTER_S, self._log_slow)
        try:
            answer, status = await asyncio.gather(_read_output(process.stdout), process.wait())
        except BaseException:
            await self._kill(process)
            raise
        finally:
            slow.cancel()
        if status != 0:
            raise ValueError(
                f"{self._display_name} ended with exit status {status}; {_RUN_BY_HAND}"
            )
        return self._parse_status(answer)

    @property
    def _display_name(self) -> str:
        return f"its credential plugin {self._spec.command!r}"

    async def _start(self) -> Process:
        spec = self._spec
        try:
            return await asyncio.create_subprocess_exec(
                *(spec.command, *(spec.args or ())),
                env={**os.environ, **self._environment()},
                stdin=None if self._interactive else DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,  # a daemon it leaves behind may hold this for ever
                process_group=None if self._interactive else 0,
            )
        except OSError as error:
            remedy = "install it, or correct exec.command"
            raise ValueError(
                f"{self._display_name} cannot be run: {error.strerror}; {remedy}"
            ) from error
        except ValueError as error:  # a null character, or a variable that cannot have its name
            remedy = "correct exec.command, exec.args or exec.env"
            raise ValueError(f"{self._display_name} cannot be run: {error}; {remedy}") from None

    def _environment(self) -> dict[str, str]:
        info = {
            "apiVersion": self._spec.api_version,
            "kind": "ExecCredential",
            "spec": {"interactive": self._interactive},
        }
        configured = {variable.name: variable.value or "" for variable in self._spec.env or ()}
        return {**configured, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}

    def _log_slow(self) -> None:
        # Neither a log nor a place to tell of progress gets here; this works with and without.
        logging.getLogger(__name__).warning(
            "waiting for the credential plugin %s", self._spec.command
        )

    async def _kill(self, process: Process) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self._interactive:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # a process that left the group may hold the pipe open
            await asyncio.wait_for(process.communicate(), _KILL_TIMEOUT_S)

    def _parse_status(self, output: bytes) -> dict[str, str]:
        """Decode the answer; an error names the member, never its value."""
        if len(output) > _MAX_OUTPUT_BYTES:
            raise ValueError(
                f"{self._display_name} wrote more than {_MAX_OUTPUT_BYTES} bytes; {_RUN_BY_HAND}"
            )
        try:
            read = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as error:
            raise ValueError(
                f"{self._display_name} gave no ExecCredential: {error}; {_RUN_BY_HAND}"
            ) from None
        except UnicodeDecodeError:
            raise ValueError(
                f"{self._display_name} gave an answer that is not UTF-8; {_RUN_BY_HAND}"
            ) from None
        if read.api_version != self._spec.api_version:
            raise ValueError(
                f"{self._display_name} answers in another version than {self._spec.api_version!r}:"
                " correct exec.apiVersion, or update it"
            )
        status = read.status
        if not (status.token or (status.client_certificate_data and status.client_key_data)):
            raise ValueError(
                f"{self._display_name} gave neither a token nor a certificate with its key; "
                f"{_RUN_BY_HAND}"
            )
        fields: dict[str, str] = msgspec.to_builtins(status)
        return fields


async def _read_output(stream: asyncio.StreamReader | None) -> bytes:
    """Read to the end and keep the beginning, at most one byte more than the limit."""
    assert stream is not None, "it is a pipe"
    output = b""
    while part := await stream.read(_MAX_OUTPUT_BYTES):
        output += part[: _MAX_OUTPUT_BYTES + 1 - len(output)]
    return output
