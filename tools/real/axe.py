"""Fetches axe-core, which looks for accessibility faults of pages in a browser; for tests only."""

import hashlib
import shutil
import subprocess
import tarfile
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

PACKAGE = "axe-core@4.10.3"
SHA512 = (
    "5e6edba515e70d25f6604d9815f064d859c5d1ea7ab661bbc4f87c88779ef0c2"
    "1cae0abbeb636471ef39e9d62d2582e4b88a1866f19f4ecfcf6d986275e4dc12"
)
SCRIPT = "axe.min.js"
VARIABLE = "AXE_JS"
TIMEOUT_S = 300


def find(env: Mapping[str, str]) -> Path | None:
    """Return the script that AXE_JS names, else the one that was fetched; None without any."""
    if chosen := chosen_file(env, VARIABLE):
        return chosen
    script = root(env) / PACKAGE / SCRIPT
    return script if SCRIPT in stamped(script.parent) and script.is_file() else None


def fetch(env: Mapping[str, str]) -> None:
    """Download the package with npm, check it, and keep its script; unless it is there already."""
    if script := find(env):
        log_progress(f"axe-core is {script}")
        return
    npm = shutil.which("npm", path=env.get("PATH"))
    if npm is None:
        raise BuildError(
            "axe-core cannot be fetched, npm was not found: install Node.js, or set "
            f"{VARIABLE} to an {SCRIPT} that you have, then run `make real-tools` again."
        )
    folder = root(env) / PACKAGE
    with locked(folder):
        if find(env) is not None:
            return
        log_progress("fetching axe-core (0.6 MB)")
        try:
            subprocess.run(  # noqa: S603 - the command is ours, there is no shell
                (npm, "pack", "--silent", PACKAGE), cwd=folder, env=env, check=True, stdout=2,
                timeout=TIMEOUT_S,
            )  # fmt: skip
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"`npm pack {PACKAGE}` failed: is npm offline?") from error
        (archive,) = folder.glob("*.tgz")
        if hashlib.sha512(archive.read_bytes()).hexdigest() != SHA512:
            raise BuildError(f"{archive} is not the package that was pinned: remove it.")
        with tarfile.open(archive) as opened:
            member = opened.extractfile(f"package/{SCRIPT}")
            assert member is not None, "the hash says what is in it"
            (folder / SCRIPT).write_bytes(member.read())
        archive.unlink()
        write_stamp(folder, {SCRIPT})
