"""Finds a program of Debian, or unpacks its package into a folder of ours, which needs no root.

Like Chromium it is the distribution's: its version is not pinned; apt checks its signature.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
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

TIMEOUT_S = 600


@dataclass(frozen=True)
class DebianProgram:
    """A program that a package of the same name holds; `variable` names one that you have."""

    title: str
    package: str
    variable: str
    megabytes: int
    oldest: str

    @property
    def hint(self) -> str:
        """What to do where it cannot be fetched."""
        return (
            f"install Debian's package `{self.package}`, or set {self.variable} to the program of"
            f" {self.title} {self.oldest} or newer that you have, then run `make real-tools` again."
        )

    def folder_of(self, env: Mapping[str, str]) -> Path:
        """Return the folder that the package is unpacked into; it need not exist."""
        return root(env) / self.package

    def find(self, env: Mapping[str, str]) -> Path | None:
        """Return the program that the variable names, else the one on PATH, else the unpacked."""
        if chosen := chosen_file(env, self.variable):
            return chosen
        if installed := shutil.which(self.package, path=env.get("PATH")):
            return Path(installed)
        folder = self.folder_of(env)
        unpacked = folder / "package" / "usr" / "bin" / self.package
        return unpacked if self.package in stamped(folder) and unpacked.is_file() else None

    def fetch(self, env: Mapping[str, str]) -> None:
        """Download and unpack the package, unless there is the program already."""
        if program := self.find(env):
            log_progress(f"{self.title} is {program}")
            return
        tools = {name: shutil.which(name, path=env.get("PATH")) for name in ("apt-get", "dpkg-deb")}
        if missing := [name for name, path in tools.items() if path is None]:
            raise BuildError(
                f"{self.title} was not found, and there is no {missing[0]}: {self.hint}"
            )
        folder = self.folder_of(env)
        with locked(folder):
            if self.find(env) is not None:
                return
            log_progress(f"fetching {self.title} (some {self.megabytes} MB)")
            staging = folder / "fetching"
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            self._download(env, str(tools["apt-get"]), staging)
            (package,) = staging.glob("*.deb")
            self._run(env, staging, str(tools["dpkg-deb"]), "-x", package.name, "package")
            shutil.rmtree(folder / "package", ignore_errors=True)
            (staging / "package").replace(folder / "package")
            shutil.rmtree(staging)
            write_stamp(folder, {self.package})
        if self.find(env) is None:
            raise BuildError(
                f"Debian's package {self.package} holds no usr/bin/{self.package}: {self.hint}"
            )

    def _download(self, env: Mapping[str, str], apt_get: str, folder: Path) -> None:
        """Let apt-get put the package into a folder; root renews the lists if need be."""
        try:
            self._run(env, folder, apt_get, "-q", "download", self.package)
        except BuildError:
            if os.geteuid() != 0:
                raise
            self._run(env, folder, apt_get, "-q", "update")
            self._run(env, folder, apt_get, "-q", "download", self.package)

    def _run(self, env: Mapping[str, str], folder: Path, program: str, *arguments: str) -> None:
        command = " ".join((Path(program).name, *arguments))
        try:
            # What it says goes to standard error, as ours does.
            subprocess.run(  # noqa: S603 - the command is ours, there is no shell
                (program, *arguments), cwd=folder, env=env, check=True, stdout=2, timeout=TIMEOUT_S
            )
        except subprocess.CalledProcessError as error:
            raise BuildError(f"`{command}` failed, see above: mend it, or {self.hint}") from error
        except subprocess.TimeoutExpired as error:
            raise BuildError(
                f"`{command}` did not end within {TIMEOUT_S} s: is it offline?"
            ) from error


PROMETHEUS = DebianProgram("Prometheus", "prometheus", "PROMETHEUS_BIN", 19, "2.40")
ALERTMANAGER = DebianProgram(
    "Alertmanager", "prometheus-alertmanager", "ALERTMANAGER_BIN", 11, "0.25"
)
