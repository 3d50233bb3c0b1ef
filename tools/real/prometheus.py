"""Finds Prometheus, or unpacks Debian's package of it into a folder of ours, which needs no root.

Like Chromium it is the distribution's: its version is not pinned; apt checks its signature.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.real.cache import (
    BuildError,
    chosen_file,
    locked,
    log_progress,
    root,
    stamped,
    write_stamp,
)

VARIABLE = "PROMETHEUS_BIN"
PROGRAM = "prometheus"
HINT = (
    f"install Debian's package `{PROGRAM}`, or set {VARIABLE} to the program of a Prometheus 2.40"
    " or newer that you have, then run `make real-tools` again."
)
TIMEOUT_S = 600


def folder_of(env: Mapping[str, str]) -> Path:
    """Return the folder that Debian's package is unpacked into; it need not exist."""
    return root(env) / PROGRAM


def find(env: Mapping[str, str]) -> Path | None:
    """Return the program that PROMETHEUS_BIN names, else the one on PATH, else the unpacked one."""
    if chosen := chosen_file(env, VARIABLE):
        return chosen
    if installed := shutil.which(PROGRAM, path=env.get("PATH")):
        return Path(installed)
    unpacked = folder_of(env) / "package" / "usr" / "bin" / PROGRAM
    return unpacked if PROGRAM in stamped(folder_of(env)) and unpacked.is_file() else None


def fetch(env: Mapping[str, str]) -> None:
    """Download and unpack the package, unless there is a Prometheus already."""
    if program := find(env):
        log_progress(f"Prometheus is {program}")
        return
    tools = {name: shutil.which(name, path=env.get("PATH")) for name in ("apt-get", "dpkg-deb")}
    if missing := [name for name, path in tools.items() if path is None]:
        raise BuildError(f"Prometheus was not found, and there is no {missing[0]}: {HINT}")
    folder = folder_of(env)
    with locked(folder):
        if find(env) is not None:
            return
        log_progress("fetching Prometheus (some 19 MB)")
        staging = folder / "fetching"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        _download(env, str(tools["apt-get"]), staging)
        (package,) = staging.glob("*.deb")
        _run(env, staging, str(tools["dpkg-deb"]), "-x", package.name, "package")
        shutil.rmtree(folder / "package", ignore_errors=True)
        (staging / "package").replace(folder / "package")
        shutil.rmtree(staging)
        write_stamp(folder, {PROGRAM})
    if find(env) is None:
        raise BuildError(f"Debian's package {PROGRAM} holds no usr/bin/{PROGRAM}: {HINT}")


def _download(env: Mapping[str, str], apt_get: str, folder: Path) -> None:
    """Let apt-get put the package into a folder; root renews the lists of packages if need be."""
    try:
        _run(env, folder, apt_get, "-q", "download", PROGRAM)
    except BuildError:
        if os.geteuid() != 0:
            raise
        _run(env, folder, apt_get, "-q", "update")
        _run(env, folder, apt_get, "-q", "download", PROGRAM)


def _run(env: Mapping[str, str], folder: Path, program: str, *arguments: str) -> None:
    command = " ".join((Path(program).name, *arguments))
    try:
        # What it says goes to standard error, as ours does.
        subprocess.run(  # noqa: S603 - the command is ours, there is no shell
            (program, *arguments), cwd=folder, env=env, check=True, stdout=2, timeout=TIMEOUT_S
        )
    except subprocess.CalledProcessError as error:
        raise BuildError(f"`{command}` failed, see above: mend it, or {HINT}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"`{command}` did not end within {TIMEOUT_S} s: is it offline?") from error
