#!/usr/bin/env python3
"""Builds the real parts of the test suite once, so that end-to-end tests meet a true control plane.

The parts are compiled from the locked Go modules beside this file and kept outside the checkout, in
`$REACTIVE_DESCHED_REAL_TOOLS` (else `$XDG_CACHE_HOME/reactive-desched/real-tools`, else the same
under `~/.cache`), in a folder named after their versions. A Kafka broker is fetched with Maven into
a folder beside it, Debian's Prometheus is unpacked there, and Chromium is left to the package
manager. A second run takes a moment, and neither Go nor Maven nor a network.

Binaries you already have are used first, by the names other Kubernetes test suites use:
`TEST_ASSET_KUBE_APISERVER` and `TEST_ASSET_ETCD` (files), then `KUBEBUILDER_ASSETS` (a folder).

`--where` builds nothing: it prints what each part resolves to as JSON, `null` for a missing one.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

BUILD_DIR = Path(__file__).resolve().parent
sys.path.insert(0, str(BUILD_DIR.parents[1]))  # this file is run by its path, from anywhere

from tools.real import axe, cache, chromium, kafka_jars, operator_crds, prometheus  # noqa: E402 - found only after the line above
from tools.real.cache import BuildError, locked, log_progress, write_stamp  # noqa: E402 - as above

GO_MISSING_MESSAGE = (
    "No Go toolchain was found, and {names} must be built: install Go 1.26 or newer"
    " (https://go.dev/doc/install) and put `go` on PATH, then run `make real-tools` again."
)
# KWOK's behaviours ("stages") of nodes and pods, from the same module as its binary.
STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat/node-heartbeat.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "node/chaos/node-not-ready.yaml",
    "pod/general/pod-create.yaml",
    "pod/general/pod-init-container-running.yaml",
    "pod/general/pod-init-container-completed.yaml",
    "pod/general/pod-ready.yaml",
    "pod/general/pod-complete.yaml",
    "pod/general/pod-delete.yaml",
    "pod/chaos/pod-container-running-failed.yaml",
)


@dataclass(frozen=True)
class Module:
    """One locked Go module of ours: what it builds, and the upstream module that names its version.

    Each has its own go.mod, so that the dependencies of one part never move those of another.
    """

    name: str
    upstream: str
    packages: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """Where go.mod and go.sum lie."""
        return BUILD_DIR / self.name

    @property
    def version(self) -> str:
        """The upstream version that go.mod pins, without its leading `v`."""
        text = (self.folder / "go.mod").read_text()
        match = re.search(
            rf"^\s*(?:require )?{re.escape(self.upstream)} v(\S+)", text, re.MULTILINE
        )
        if match is None:
            raise BuildError(f"{self.folder / 'go.mod'} does not require {self.upstream}")
        return match[1]

    def ldflags(self) -> str:
        """Linker flags: no debug tables; Kubernetes parts learn their version from here alone."""
        if self.name != "kubernetes":
            return "-s -w"
        major, minor, _ = self.version.split(".", 2)
        stamps = {"gitVersion": f"v{self.version}", "gitMajor": major, "gitMinor": minor}
        settings = (f"-X k8s.io/component-base/version.{k}={v}" for k, v in stamps.items())
        return " ".join(("-s -w", *settings))


def _packages(prefix: str, *names: str) -> dict[str, str]:
    return {name: f"{prefix}{name}" for name in names}


KUBERNETES = Module(
    "kubernetes",
    "k8s.io/kubernetes",
    _packages(
        "k8s.io/kubernetes/cmd/",
        *("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
    ),
)
ETCD = Module(
    "etcd",
    "go.etcd.io/etcd/server/v3",
    {"etcd": "go.etcd.io/etcd/server/v3", "etcdctl": "go.etcd.io/etcd/etcdctl/v3"},
)
KWOK = Module("kwok", "sigs.k8s.io/kwok", _packages("sigs.k8s.io/kwok/cmd/", "kwok"))
MODULES = (ETCD, KWOK, KUBERNETES)  # the long one last: a fault in a short one shows at once
# Each in a folder of its own, so that a newer one does not build the control plane again.
HELM = Module("helm", "helm.sh/helm/v4", _packages("helm.sh/helm/v4/cmd/", "helm"))
# Debian's reads its template at a path of the system alone: unpacked elsewhere it does not start.
ALERTMANAGER = Module(
    "alertmanager",
    "github.com/prometheus/alertmanager",
    _packages("github.com/prometheus/alertmanager/cmd/", "alertmanager"),
)
# A stranger's program, which the simulator must run unchanged.
DESCHEDULER = Module(
    "descheduler",
    "sigs.k8s.io/descheduler",
    _packages("sigs.k8s.io/descheduler/cmd/", "descheduler"),
)
# A main of ours.
OPERATOR = Module("operator", "sigs.k8s.io/controller-runtime", {"operator": "."})
# A main of ours: the one upstream is not published as a module.
OTELCOL = Module("otelcol", "go.opentelemetry.io/collector/otelcol", {"otelcol": "."})
SINGLES = (HELM, ALERTMANAGER, OTELCOL, DESCHEDULER, OPERATOR)


def cache_key(modules: Iterable[Module] = MODULES) -> str:
    """Name the versions for people, and hash the locks and the platform for certainty."""
    digest = hashlib.sha256(f"{platform.system()}/{platform.machine()}".encode())
    for module in modules:
        digest.update(module.ldflags().encode())
        digest.update((module.folder / "go.mod").read_bytes())
        digest.update((module.folder / "go.sum").read_bytes())
        for source in sorted(module.folder.glob("*.go")):
            digest.update(source.read_bytes())
    names = "_".join(f"{module.name}-{module.version}" for module in modules)
    return f"{names}_{digest.hexdigest()[:10]}"


def cache_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of these versions; it need not exist."""
    return cache.root(env) / cache_key()


def provided_by_env(env: Mapping[str, str]) -> dict[str, Path]:
    """Return the parts the environment brings along; a name that leads nowhere is an error."""
    parts: dict[str, Path] = {}
    if folder := env.get("KUBEBUILDER_ASSETS"):
        # All three or none: an API server without its matching etcd is a riddle, not a saving.
        names = ("kube-apiserver", "etcd", "kubectl")
        paths = {name: Path(folder).absolute() / name for name in names}
        if all(map(Path.is_file, paths.values())):
            parts.update(paths)
        else:
            log_progress(f"KUBEBUILDER_ASSETS={folder} lacks one of {', '.join(names)}: not used")
    for name in ("kube-apiserver", "etcd"):
        variable = "TEST_ASSET_" + name.upper().replace("-", "_")
        if path := cache.chosen_file(env, variable):
            parts[name] = path
    return parts


def stamped_parts(folder: Path) -> set[str]:
    """Return what the stamp vouches for and is still there; nothing without a whole stamp."""
    return {name for name in cache.stamped(folder) if (folder / "bin" / name).is_file()}


def has_stages(folder: Path) -> bool:
    """Say whether every stage file of KWOK is there."""
    return all((folder / "stages" / stage).is_file() for stage in STAGES)


def resolve(env: Mapping[str, str]) -> dict[str, Path | None]:
    """Say where each part is: brought along, built earlier, or missing (`None`)."""
    folder, brought = cache_folder(env), provided_by_env(env)
    built = {name: folder / "bin" / name for name in stamped_parts(folder)}
    parts = (name for module in MODULES for name in module.packages)
    return {name: brought.get(name) or built.get(name) for name in parts}


def build(env: Mapping[str, str]) -> None:
    """Build what is missing; a finished stamp is written last, so half a build counts as none."""
    folder = cache_folder(env)
    with locked(folder):
        done = stamped_parts(folder)
        missing = {name for name, path in resolve(env).items() if path is None}
        if not missing and has_stages(folder):
            log_progress(f"all parts are ready in {folder}")
            return
        go = find_go(missing)
        for module in MODULES:
            compile_module(go, module, missing & module.packages.keys(), folder / "bin")
        copy_stages(go, folder / "stages")
        write_stamp(folder, done | missing)
    log_progress(f"finished: {folder}")


def find_single(module: Module, env: Mapping[str, str]) -> Path | None:
    """Say where a program is: named by a variable, built earlier, or missing (`None`)."""
    variable = f"{module.name.upper().replace('-', '_')}_BIN"
    if chosen := cache.chosen_file(env, variable):
        return chosen
    folder = cache.root(env) / cache_key([module])
    return folder / "bin" / module.name if module.name in stamped_parts(folder) else None


def build_single(module: Module, env: Mapping[str, str]) -> None:
    """Build a program that is a module of its own, unless it is there."""
    folder = cache.root(env) / cache_key([module])
    with locked(folder):
        if find_single(module, env) is None:
            compile_module(find_go({module.name}), module, {module.name}, folder / "bin")
            write_stamp(folder, {module.name})


def find_go(missing: set[str]) -> str:
    """Return the Go command, or raise with the remedy."""
    if go := shutil.which("go"):
        return go
    raise BuildError(
        GO_MISSING_MESSAGE.format(names=", ".join(sorted(missing)) or "the KWOK stages")
    )


def compile_module(go: str, module: Module, names: set[str], bin_folder: Path) -> None:
    """Compile the named parts of one module; each appears in `bin_folder` only when it is whole."""
    if not names:
        return
    log_progress(
        f"building {', '.join(sorted(names))} {module.version} (the first time takes minutes)"
    )
    started = time.monotonic()
    staging = bin_folder.parent / "building"
    shutil.rmtree(staging, ignore_errors=True)
    for folder in (staging, bin_folder):
        folder.mkdir(parents=True, exist_ok=True)
    # One link step for packages that share dependencies; `-o` with a file names the single ones.
    if module is KUBERNETES:
        paths = [module.packages[name] for name in sorted(names)]
        run_go(go, module, "build", "-ldflags", module.ldflags(), "-o", f"{staging}/", *paths)
    else:
        for name in sorted(names):
            target = f"{staging / name}"
            path = module.packages[name]
            run_go(go, module, "build", "-ldflags", module.ldflags(), "-o", target, path)
    for name in names:
        (staging / name).replace(bin_folder / name)
    staging.rmdir()
    log_progress(f"  took {time.monotonic() - started:.0f} s")


def copy_stages(go: str, target: Path) -> None:
    """Copy KWOK's stage files out of the Go module cache, which may be cleaned at any time."""
    module = json.loads(run_go(go, KWOK, "mod", "download", "-json", KWOK.upstream))
    source = Path(module["Dir"]) / "kustomize" / "stage"
    for stage in STAGES:
        (target / stage).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / stage, target / stage)
    log_progress(f"copied {len(STAGES)} KWOK stages")


def run_go(go: str, module: Module, *arguments: str) -> str:
    """Run Go in a module of ours with its lock respected, and return what it printed."""
    flags = f"{os.environ.get('GOFLAGS', '')} -mod=readonly -trimpath -buildvcs=false".strip()
    env = os.environ | {"GOFLAGS": flags, "GOWORK": "off", "CGO_ENABLED": "0"}
    try:
        done = subprocess.run(  # noqa: S603 - the command is ours, there is no shell
            (go, *arguments),
            cwd=module.folder,
            env=env,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
        )
    except subprocess.CalledProcessError as error:
        raise BuildError(f"`go {arguments[0]}` failed in {module.folder}: see above.") from error
    return done.stdout


def describe_parts(env: Mapping[str, str]) -> str:
    """Describe the parts as JSON, for the tests."""
    tools = {name: str(path) if path else None for name, path in resolve(env).items()}
    folder = cache_folder(env)
    stages = folder / "stages" if has_stages(folder) else None
    browser, monitor = chromium.find(env), prometheus.find(env)
    singles = {each.name: find_single(each, env) for each in SINGLES}
    answer = {
        "tools": tools,
        "stages": str(stages) if stages else None,
        "kafka": kafka_jars.resolve(env),
        "chromium": str(browser) if browser else None,
        "prometheus": str(monitor) if monitor else None,
        **{name: str(path) if path else None for name, path in singles.items()},
    }
    return json.dumps(answer, indent=2)


def ensure_all(env: Mapping[str, str]) -> int:
    """Get every part; one that cannot be had does not keep us from the others."""
    steps: tuple[Callable[[Mapping[str, str]], None], ...] = (
        kafka_jars.fetch,
        chromium.fetch,
        prometheus.fetch,
        axe.fetch,
        operator_crds.fetch,
        *(partial(build_single, each) for each in SINGLES),
        build,
    )
    problems = []
    for step in steps:
        try:
            step(env)
        except BuildError as error:
            problems.append(str(error))
    for problem in problems:
        log_progress(problem)
    return 1 if problems else 0


def main() -> int:
    """Build, or with `--where` only look; exit status 1 says that something is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--where", action="store_true", help="print the paths, build nothing")
    try:
        if not parser.parse_args().where:
            return ensure_all(os.environ)
        sys.stdout.write(describe_parts(os.environ) + "\n")
    except BuildError as error:
        log_progress(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
