"""Asks another version of this program what a policy would have done: as a process of its own."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import DecodeError, Struct, ValidationError

from reactive_desched.errors import ConfigError
from reactive_desched.policy_diff.decisions import API_VERSION, KIND, PolicyDecisions

__all__ = ["ask_program"]

_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*")
_MOST_LINES: Final = 5
_VERSION_S: Final = 60.0


class _Form(Struct, frozen=True):
    """The form of an answer; a later version may have another one."""

    api_version: str = ""
    kind: str = ""


def ask_program(program: str, flag: str, arguments: Sequence[str]) -> PolicyDecisions:
    """Return what a policy would have done by another version; raises ConfigError, saying why not.

    The program is a reactive-desched, or a Python in which one is installed; `flag` named it.
    """
    command = _command(program)
    version = _version(command, program, flag)
    ended = _run([*command, "policy", "diff", *arguments, "--decisions"], program, flag, None)
    if ended.returncode not in (0, 1) or not ended.stdout:  # 1 with an answer: a plugin failed
        said = ended.stderr.decode(errors="replace")
        if "--decisions" in said:
            raise ConfigError(
                f"{flag}: {program} is version {version}, which cannot say what a policy would do:"
                " it has no `policy diff --decisions`. Name a version that has it, or compare"
                " policies with one version"
            )
        last = "; ".join(line.strip() for line in said.strip().splitlines()[-_MOST_LINES:])
        raise ConfigError(
            f"{flag}: {program}, version {version}, ended with status {ended.returncode}:"
            f" {last or 'it said nothing'}"
        )
    try:
        form = msgspec.json.decode(ended.stdout, type=_Form)
        if form != _Form(API_VERSION, KIND):
            raise ConfigError(
                f"{flag}: {program}, version {version}, answers with {form.api_version}"
                f" {form.kind}, and this version reads {API_VERSION} {KIND}"
            )
        return msgspec.json.decode(ended.stdout, type=PolicyDecisions)
    except (DecodeError, ValidationError) as error:
        raise ConfigError(
            f"{flag}: {program}, version {version}, answers in a form that this version does not"
            f" read: {error}"
        ) from error


def _command(program: str) -> list[str]:
    if _PYTHON.fullmatch(Path(program).name):
        return [program, "-m", "reactive_desched"]
    return [program]


def _version(command: Sequence[str], program: str, flag: str) -> str:
    """Return the version of a program; raises ConfigError where it is none of ours."""
    ended = _run([*command, "version"], program, flag, _VERSION_S)
    words = ended.stdout.decode(errors="replace").split()
    if ended.returncode != 0 or len(words) < 2 or words[0] != "reactive-desched":  # noqa: PLR2004
        raise ConfigError(
            f"{flag}: {program} is no reactive-desched, nor a Python in which one is installed:"
            f" `{' '.join([*command, 'version'])}` does not say a version"
        )
    return words[1]


def _run(
    command: Sequence[str], program: str, flag: str, timeout_s: float | None
) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(  # noqa: S603 -- the person who calls named the program
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout_s, check=False
        )
    except OSError as error:
        raise ConfigError(f"{flag}: {program} cannot be run: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{flag}: {program} does not answer within {timeout_s:g} s") from error
