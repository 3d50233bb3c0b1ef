"""Makes what a release publishes, in dist/, and writes a version wherever one stands.

`dist` builds a source distribution, the wheels of the controller and of the simulator, an SBOM of
what the first installs with the locked requirements, and SHA256SUMS of them; it ends with status 1
if a dependency's licence is not allowed. `version 0.2.0` changes the version in the sources.
`make dist` and `make version` run it.

Builds are equal byte by byte, on whatever day and in whatever folder, from a checkout and from an
unpacked source distribution: hatchling orders the files and gives all of them one fixed date.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
VERSION: Final = (
    r"[0-9]+\.[0-9]+\.[0-9]+"  # what Python packages and Helm charts both call a version
)
PLACES: Final = (
    ("reactive_desched/_version.py", '__version__ = "'),
    ("deploy/charts/reactive-desched/Chart.yaml", "\nversion: "),
    ("deploy/charts/reactive-desched/Chart.yaml", "\nappVersion: "),
    ("deploy/controller/kustomization.yaml", "newTag: "),
    ("deploy/cronjob/kustomization.yaml", "newTag: "),
    ("deploy/job/kustomization.yaml", "newTag: "),
    ("docs/howto/deploy.md", "registry.example/reactive-desched:"),
    ("pyproject.toml", 'sim = ["reactive-desched-sim=='),
    ("distributions/sim/pyproject.toml", '"reactive-desched=='),
    ("Dockerfile", "docker build -t reactive-desched:"),
    ("Dockerfile", "ARG VERSION="),
    ("README.md", "This is version "),
    ("docs/explain/comparison.md", "It is young: version "),
    ("docs/howto/audit.md", ", live, version "),
    ("docs/howto/recording.md", "\nwritten by  version "),
    ("docs/howto/status.md", "\ncontroller      "),
    ("docs/tutorial.md", "\nreactive-desched "),
)
"""Files that name the version, and the text before it."""


def versions(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each place and the version that it names; raises ValueError if a place has gone."""
    for file, before in PLACES:
        text = (root / file).read_text(encoding="utf-8")
        found = re.findall(re.escape(before) + f"({VERSION})", text)
        if not found:
            raise ValueError(f"{file} has no version after {before.strip()!r}")
        yield from ((f"{file}: {before.strip()}", version) for version in found)


def write_version(root: Path, version: str) -> None:
    """Write a version in every place; raises ValueError if it is not three numbers with dots."""
    if not re.fullmatch(VERSION, version):
        raise ValueError(f"{version!r} is no version such as 0.2.0")
    for file, before in PLACES:
        path = root / file
        text = path.read_text(encoding="utf-8")
        changed = re.sub(re.escape(before) + VERSION, before + version, text)
        path.write_text(changed, encoding="utf-8")


def build(source: Path, out: Path) -> None:
    """Build the wheels of a folder, the simulator's too, and the source distribution of both."""
    environment = {name: os.environ[name] for name in os.environ if name != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out.absolute())]
    for folder, targets in ((source, []), (source / "distributions" / "sim", ["-t", "wheel"])):
        subprocess.run([*command, *targets], cwd=folder, env=environment, check=True)  # noqa: S603 - our own words


def write_sbom(wheel: Path, target: Path, uv: Path) -> None:
    """Write what a wheel and the locked requirements install on this Python, as CycloneDX 1.6.

    It gives version, licences and dependencies of each package, and names no time and no machine.
    """
    locked = ["--require-hashes", "-r", str(ROOT / "requirements" / "run.txt")]
    with TemporaryDirectory() as folder:
        python = str(Path(folder) / "bin" / "python")
        install = [str(uv), "pip", "install", "--quiet", "--python", python]
        described = ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application"]
        form = ["--sv", "1.6", "--output-reproducible", "--validate", "-o", str(target)]
        for command in (
            [str(uv), "venv", "--quiet", "--python", sys.executable, folder],
            [*install, *locked],
            [*install, "--no-deps", "--no-index", str(wheel)],
            [sys.executable, "-m", "cyclonedx_py", "environment", python, *described, *form],
        ):
            subprocess.run(command, check=True)  # noqa: S603 - our own words
    sbom = json.loads(target.read_text(encoding="utf-8"))
    version = dict(versions(ROOT))[": ".join((PLACES[0][0], PLACES[0][1].strip()))]
    purl = f"pkg:pypi/reactive-desched@{version}"
    sbom["metadata"]["component"] |= {"version": version, "purl": purl}
    target.write_text(json.dumps(sbom, indent=2) + "\n", encoding="utf-8")


def write_hashes(folder: Path) -> None:
    """Write SHA256SUMS of a folder's files, for `sha256sum --check`."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
    ]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def make_dist(out: Path, uv: Path) -> int:
    """Fill a folder anew with what a release publishes; return the exit status."""
    from tools.licences import refusals  # only the release's own environment has what it imports

    shutil.rmtree(out, ignore_errors=True)
    build(ROOT, out)
    (wheel,) = out.glob("reactive_desched-*.whl")
    sbom = out / f"{'-'.join(wheel.stem.split('-')[:2])}.cdx.json"
    write_sbom(wheel, sbom, uv)
    refused = list(refusals(json.loads(sbom.read_text(encoding="utf-8"))))
    write_hashes(out)
    sys.stderr.writelines(f"{line}\n" for line in refused)
    return 1 if refused else 0


def main() -> int:
    """Run a command; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.release")
    commands = parser.add_subparsers(dest="command", required=True)
    dist = commands.add_parser("dist")
    dist.add_argument("--uv", type=Path, required=True)
    dist.add_argument("--out", type=Path, default=ROOT / "dist")
    commands.add_parser("version").add_argument("version")
    arguments = parser.parse_args()
    if arguments.command == "dist":
        return make_dist(arguments.out.resolve(), arguments.uv.absolute())
    try:
        write_version(ROOT, arguments.version)
    except ValueError as error:
        sys.exit(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
