"""Finds Chromium, or installs Debian's, so that pages of ours are opened in a real browser.

Unlike the other parts it is the distribution's package: its version is not pinned, and it is not
kept in the cache folder.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.real.cache import BuildError, locked, root, say

VARIABLE = "CHROME_BIN"  # where other test suites look, too
NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL = "apt-get install -y --no-install-recommends chromium"
HINT = (
    f"install it (on Debian, as root: `{INSTALL}`), or set {VARIABLE} to the program of a Chromium"
    " or Chrome that you have, then run `make real-tools` again."
)
WITHIN_S = 600


def find(env: Mapping[str, str]) -> Path | None:
    """Return the program that CHROME_BIN names, else the first on PATH; None without any."""
    if chosen := env.get(VARIABLE):
        if not Path(chosen).is_file():
            raise BuildError(f"{VARIABLE}={chosen} is not a file: correct or unset it.")
        return Path(chosen).absolute()
    found = (shutil.which(name, path=env.get("PATH")) for name in NAMES)
    return next((Path(path) for path in found if path), None)


def fetch(env: Mapping[str, str]) -> None:
    """Have the package manager install it, unless there is one already."""
    if found := find(env):
        say(f"Chromium is {found}")
        return
    apt_get = shutil.which("apt-get", path=env.get("PATH"))
    if apt_get is None:
        raise BuildError(f"Chromium was not found, and there is no apt-get: {HINT}")
    if os.geteuid() != 0:
        raise BuildError(f"Chromium was not found, and only root may install it: {HINT}")
    with locked(root(env) / "chromium"):
        if find(env) is None:
            say("installing Chromium (some 125 MB)")
            _run(env, apt_get, "update")
            _run(env, apt_get, *INSTALL.split()[1:])
    if find(env) is None:
        raise BuildError(f"apt-get installed Chromium, but none of {', '.join(NAMES)} is on PATH.")


def _run(env: Mapping[str, str], apt_get: str, *arguments: str) -> None:
    argv = (apt_get, "-q", "-o", "DPkg::Lock::Timeout=120", *arguments)
    quiet = {**env, "DEBIAN_FRONTEND": "noninteractive"}
    told = f"`apt-get {arguments[0]}`"
    try:
        # What it says goes to standard error, as ours does.
        subprocess.run(argv, env=quiet, check=True, stdout=2, timeout=WITHIN_S)  # noqa: S603 - the command is ours, there is no shell
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{told} failed, see above: mend it, or {HINT}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{told} did not end within {WITHIN_S} s: is it offline?") from error
