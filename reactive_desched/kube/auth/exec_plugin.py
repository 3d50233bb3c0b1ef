"""Runs the credential plugin of a kubeconfig as client-go does, so that it leaks no secret."""

import asyncio
import base64
import errno
import logging
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from reactive_desched.kube.auth.certificates import certificate_end
from reactive_desched.kube.auth.credential import LOAD_LIMIT_S, LOG_IN_LIMIT_S, Credential
from reactive_desched.kube.auth.sigs_yaml import decode_yaml
from reactive_desched.primitives.shortage import lacking

__all__ = ["ExecCredentials", "ExecPlugin", "ExecStatus"]

_SLOW_AFTER_S = 1.0
_KILL_TIMEOUT_S = 1.0
_MAX_OUTPUT_BYTES = 2**20
_MAX_HINT_CHARS: Final = 1000
_RUN_BY_HAND = "run it by hand to see why"

_GROUP: Final = "client.authentication.k8s.io"
_VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_MODES: Final = ("Never", "IfAvailable", "Always")
_RENEW_BEFORE_S: Final = 300.0
_RETRY_EXPIRED_S: Final = 60.0
_CLUSTER_FIELDS: Final = (
    "tls-server-name",
    "insecure-skip-tls-verify",
    "proxy-url",
    "disable-compression",
)


class _EnvVar(Struct, frozen=True):
    name: str
    value: str | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    command: str = ""
    api_version: str = ""
    args: list[str] | None = None
    env: list[_EnvVar] | None = None
    interactive_mode: str | None = None
    provide_cluster_info: bool | None = None
    install_hint: str | None = None


class ExecStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of an exec plugin: a token, a certificate with its key, or both."""

    token: str | None = None
    expiration_timestamp: datetime | None = None  # an error would quote one that is no time
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _ExecCredential(Struct, frozen=True, rename="camel"):
    api_version: str
    status: ExecStatus


class ExecCredentials:
    """The credentials of a plugin, which runs again before they end, and after a 401.

    client-go runs it when they have ended; here no request waits for that, so it runs up to five
    minutes before, or at half the lifetime where that is short. The end is the one that the plugin
    names, or the certificate's if that is sooner.
    """

    is_kept = True

    def __init__(self, plugin: "ExecPlugin") -> None:
        self.wait_hint = (
            f" from its credential plugin {plugin.command!r}: run it by hand to see why"
        )
        self.refused_hint = (
            f"its credential plugin {plugin.command!r} gives no others: run it by hand to see why,"
            " or log in with it again"
        )
        self.limit_s = LOG_IN_LIMIT_S if plugin.is_interactive else LOAD_LIMIT_S
        self._plugin = plugin
        self._last: Credential | None = None

    async def load(self, now_s: float, *, is_rejected: bool) -> Credential:
        """Return the credential, from the plugin where there is none that counts."""
        last = self._last
        is_due = last is None or (last.renew_at_s is not None and last.renew_at_s <= now_s)
        if last is None or is_due or is_rejected:
            last = self._last = _credential(await self._plugin.run(), now_s)
        return last


class ExecPlugin:
    """The `exec` section of a user, and the cluster that it may ask for.

    Without a terminal the plugin leads a process group of its own, so that its children end with
    it; at a terminal it stays in ours, or it could not prompt there. Its output is never repeated,
    because any part of it may be secret.
    """

    def __init__(self, spec: Mapping[str, Any], cluster: Mapping[str, Any]) -> None:
        """Read the section; raises ValueError for one with which no plugin can run."""
        self._spec = msgspec.convert(spec, _Spec)
        self._cluster = cluster
        if not self._spec.command:
            raise ValueError("its exec section names no command: correct it")
        if self._spec.api_version not in _VERSIONS:
            raise ValueError(f"{self._display_name} {self._version_remedy()}")
        mode = self._spec.interactive_mode or "IfAvailable"
        if mode not in _MODES:
            raise ValueError(
                f"{self._display_name} has an unknown interactiveMode: write {', '.join(_MODES)}"
            )
        is_terminal = sys.stdin is not None and sys.stdin.isatty()
        self.is_interactive = mode != "Never" and is_terminal
        self._lacks_terminal = mode == "Always" and not is_terminal

    @property
    def command(self) -> str:
        """The command, as the kubeconfig names it."""
        return self._spec.command

    async def run(self) -> ExecStatus:
        """Return the `status` of its answer; raises ValueError with the error.

        When cancelled, it kills the plugin. After a second it logs the wait.
        """
        if self._lacks_terminal:
            raise ValueError(
                f"{self._display_name} wants a terminal (interactiveMode: Always), and there is"
                " none: start this at a terminal, or use a user whose plugin needs none"
            )
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
            end = f"exit status {status}" if status > 0 else f"signal {-status}"
            raise ValueError(f"{self._display_name} ended with {end}; {_RUN_BY_HAND}")
        return self._parse_status(answer)

    @property
    def _display_name(self) -> str:
        return f"its credential plugin {self._spec.command!r}"

    async def _start(self) -> Process:
        spec = self._spec
        try:
            program = spec.command if "/" in spec.command else shutil.which(spec.command)
            if program is None:  # client-go, too, looks in our PATH and not in that of exec.env
                raise FileNotFoundError(errno.ENOENT, "it is not in $PATH")
            return await asyncio.create_subprocess_exec(
                *(program, *(spec.args or ())),
                env={**os.environ, **self._environment()},
                stdin=None if self.is_interactive else DEVNULL,
                stdout=PIPE,
                # A daemon that it leaves behind may hold a pipe for ever; a person reads a prompt.
                stderr=None if self.is_interactive else DEVNULL,
                process_group=None if self.is_interactive else 0,
            )
        except OSError as error:
            if lacking(error):
                raise
            raise ValueError(
                f"{self._display_name} cannot be run: {error.strerror}; {self._install_remedy()}"
            ) from error
        except ValueError as error:  # a null character, or a variable that cannot have its name
            remedy = "correct exec.command, exec.args or exec.env"
            raise ValueError(f"{self._display_name} cannot be run: {error}; {remedy}") from None

    def _environment(self) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": self.is_interactive}
        if self._spec.provide_cluster_info:
            spec["cluster"] = self._cluster_info()
        info = {"kind": "ExecCredential", "apiVersion": self._spec.api_version, "spec": spec}
        configured = {variable.name: variable.value or "" for variable in self._spec.env or ()}
        return {**configured, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}

    def _cluster_info(self) -> dict[str, Any]:
        """Return the cluster in client-go's form: its authority as data, and its extension."""
        cluster = self._cluster
        info: dict[str, Any] = {"server": cluster.get("server", "")}
        info |= {name: cluster[name] for name in _CLUSTER_FIELDS if cluster.get(name)}
        if data := cluster.get("certificate-authority-data"):
            info["certificate-authority-data"] = "".join(data.split())
        elif file := cluster.get("certificate-authority"):
            content = Path(file).read_bytes()
            info["certificate-authority-data"] = base64.b64encode(content).decode()
        extensions = cluster.get("extensions") or ()
        info["config"] = next(
            (each.get("extension") for each in extensions if each.get("name") == f"{_GROUP}/exec"),
            None,
        )
        return info

    def _install_remedy(self) -> str:
        """Say how to install it, in the words of the kubeconfig where it has some."""
        remedy = "install it, or correct exec.command"
        hint = "".join(
            char if char.isprintable() else " " for char in self._spec.install_hint or ""
        )
        hint = " ".join(hint.split())[:_MAX_HINT_CHARS]
        return f"{remedy}; the kubeconfig says: {hint}" if hint else remedy

    def _version_remedy(self) -> str:
        wanted = " or ".join(_VERSIONS)
        if self._spec.api_version == f"{_GROUP}/v1alpha1":
            return (
                "is configured for v1alpha1, which Kubernetes removed in 1.24: write the kubeconfig"
                f" anew with a current version of the tool that wrote it, or set {wanted}"
            )
        return f"has no apiVersion that is known: set exec.apiVersion to {wanted}"

    def _log_slow(self) -> None:
        # Neither a log nor a place to tell of progress gets here; this works with and without.
        logging.getLogger(__name__).warning(
            "the credential plugin %s has not answered yet", self._spec.command
        )

    async def _kill(self, process: Process) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self.is_interactive:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # a process that left the group may hold the pipe open
            await asyncio.wait_for(process.communicate(), _KILL_TIMEOUT_S)

    def _parse_status(self, output: bytes) -> ExecStatus:
        """Decode the answer; an error names the member, never its value."""
        if len(output) > _MAX_OUTPUT_BYTES:
            raise ValueError(
                f"{self._display_name} wrote more than {_MAX_OUTPUT_BYTES} bytes; {_RUN_BY_HAND}"
            )
        try:
            read = _decode(output)
        except msgspec.DecodeError as error:
            raise ValueError(
                f"{self._display_name} gave no ExecCredential: {error}; {_RUN_BY_HAND}"
            ) from None
        except UnicodeDecodeError:
            raise ValueError(
                f"{self._display_name} gave an answer that is not UTF-8; {_RUN_BY_HAND}"
            ) from None
        if read.api_version != self._spec.api_version:
            version = read.api_version if read.api_version in _VERSIONS else "another version"
            raise ValueError(
                f"{self._display_name} answers in {version}, and {self._spec.api_version} is"
                " configured: correct exec.apiVersion, or update it"
            )
        status = read.status
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise ValueError(
                f"{self._display_name} gave a certificate without its key, or a key alone; "
                f"{_RUN_BY_HAND}"
            )
        if not (status.token or status.client_certificate_data):
            raise ValueError(
                f"{self._display_name} gave neither a token nor a certificate with its key; "
                f"{_RUN_BY_HAND}"
            )
        return status


def _decode(output: bytes) -> _ExecCredential:
    """Read JSON, or YAML as client-go does; raises errors of msgspec, those of JSON for both."""
    try:
        return msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        try:
            return msgspec.convert(decode_yaml(output), _ExecCredential)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 -- the YAML loader raises whatever a number or date does
            raise error from None


def _credential(status: ExecStatus, now_s: float) -> Credential:
    certificate = (status.client_certificate_data or "").encode()
    ends = [certificate_end(certificate)] if certificate else []
    if (named := status.expiration_timestamp) is not None:
        ends.append(named.replace(tzinfo=named.tzinfo or UTC).timestamp())
    end_s = min((each for each in ends if each is not None), default=None)
    return Credential(
        f"Bearer {status.token}" if status.token else "",
        certificate,
        (status.client_key_data or "").encode(),
        None if end_s is None else _renewal(end_s, now_s),
    )


def _renewal(end_s: float, now_s: float) -> float:
    """Return when to run the plugin again; soon, and not at once, where its answer has ended."""
    if end_s <= now_s:
        return now_s + _RETRY_EXPIRED_S
    return end_s - min(_RENEW_BEFORE_S, (end_s - now_s) / 2)


async def _read_output(stream: asyncio.StreamReader | None) -> bytes:
    """Read to the end and keep the beginning, at most one byte more than the limit."""
    assert stream is not None, "it is a pipe"
    output = b""
    while part := await stream.read(_MAX_OUTPUT_BYTES):
        output += part[: _MAX_OUTPUT_BYTES + 1 - len(output)]
    return output
