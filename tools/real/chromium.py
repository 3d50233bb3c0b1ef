"""Finds Chromium, or installs Debian's, so that pages of ours are opened in a real browser.

Unlike the other parts it is the distribution's package: its version is not pinned, and it is not
kept in the cache folder.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.real.cache import BuildError, chosen_file, locked, log_progress, root

VARIABLE = "CHROME_BIN"  # where other test suites look, too
NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL = "apt-get install -y --no-install-recommends chromium"
HINT = (
    f"install it (on Debian, as root: `{INSTALL}`), or set {VARIABLE} to the program of a Chromium"
    " or Chrome that you have, then run `make real-tools` again."
)
INSTALL_TIMEOUT_S = 600


def find(env: Mapping[str, str]) -> Path | None:
    """Return the program that CHROME_BIN names, else the first on PATH; None without any."""
    if chosen := chosen_file(env, VARIABLE):
        return chosen
    program = (shutil.which(name, path=env.get("PATH")) for name in NAMES)
    return next((Path(path) for path in program if path), None)


def fetch(env: Mapping[str, str]) -> None:
    """Have the package manager install it, unless there is one already."""
    if program := find(env):
        log_progress(f"Chromium is {program}")
        return
    apt_get = shutil.which("apt-get", path=env.get("PATH"))
    if apt_get is None:
        raise BuildError(f"Chromium was not found, and there is no apt-get: {HINT}")
    if os.geteuid() != 0:
        raise BuildError(f"Chromium was not found, and only root may install it: {HINT}")
    with locked(root(env) / "chromium"):
        if find(env) is None:
            log_progress("installing Chromium (some 125 MB)")
            _run(env, apt_get, "update")
            _run(env, apt_get, *INSTALL.split()[1:])
    if find(env) is None:
        raise BuildError(f"apt-get installed Chromium, but none of {', '.join(NAMES)} is on PATH.")


def _run(env: Mapping[str, str], apt_get: str, *arguments: str) -> None:
    argv = (apt_get, "-q", "-o", "DPkg::Lock::Timeout=120", *arguments)
    quiet = {**env, "DEBIAN_FRONTEND": "noninteractive"}
    result = f"`apt-get {arguments[0]}`"
    try:
        # What it says goes to standard error, as ours does.
        subprocess.run(argv, env=quiet, check=True, stdout=2, timeout=INSTALL_TIMEOUT_S)  # noqa: S603 - the command is ours, there is no shell
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{result} failed, see above: mend it, or {HINT}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(
            f"{result} did not end within {INSTALL_TIMEOUT_S} s: is it offline?"
        ) from error
