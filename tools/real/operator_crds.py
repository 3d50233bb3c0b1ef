"""Fetches the Prometheus operator's CustomResourceDefinitions of what our chart has; for tests."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.real.cache import (
    BuildError,
    chosen_folder,
    locked,
    log_progress,
    root,
    stamped,
    write_stamp,
)

MODULE = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
RESOURCES = ("servicemonitors", "podmonitors", "prometheusrules")
VARIABLE = "OPERATOR_CRDS"
TIMEOUT_S = 300


def find(env: Mapping[str, str]) -> Path | None:
    """Return the folder that OPERATOR_CRDS names, else the one that was fetched; None if none."""
    if chosen := chosen_folder(env, VARIABLE):
        return chosen
    folder = _folder(env)
    return folder / "crds" if stamped(folder) >= set(RESOURCES) else None


def fetch(env: Mapping[str, str]) -> None:
    """Download the operator's Go module, check it, and keep three files; unless they are there."""
    if found := find(env):
        log_progress(f"the Prometheus operator's definitions are in {found}")
        return
    go = shutil.which("go", path=env.get("PATH"))
    if go is None:
        raise BuildError(
            "The Prometheus operator's definitions cannot be fetched, go was not found: install "
            f"Go, or set {VARIABLE} to a folder with them, then run `make real-tools` again."
        )
    folder = _folder(env)
    with locked(folder):
        if find(env) is not None:
            return
        log_progress("fetching the Prometheus operator's definitions (4 MB)")
        try:
            done = subprocess.run(  # noqa: S603 - the command is ours, there is no shell
                (go, "mod", "download", "-json", MODULE), cwd=folder,
                env={**env, "GOWORK": "off", "GOFLAGS": ""}, check=True, timeout=TIMEOUT_S,
                text=True, stdout=subprocess.PIPE,
            )  # fmt: skip
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"`go mod download {MODULE}` failed: is Go offline?") from error
        module = json.loads(done.stdout)
        if module["Sum"] != SUM:
            raise BuildError(f"{MODULE} is not what was pinned: {module['Sum']}")
        source = Path(module["Dir"]) / "example" / "prometheus-operator-crd"
        (folder / "crds").mkdir(exist_ok=True)
        for resource in RESOURCES:
            name = f"monitoring.coreos.com_{resource}.yaml"
            shutil.copyfile(source / name, folder / "crds" / name)
        write_stamp(folder, RESOURCES)


def _folder(env: Mapping[str, str]) -> Path:
    return root(env) / f"prometheus-operator-{MODULE.rpartition('@')[2]}"
