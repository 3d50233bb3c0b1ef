"""Wheel and source distribution: whole, and the same wherever and whenever they are built."""

import hashlib
import os
import subprocess
import tarfile
import time
from pathlib import Path
from zipfile import ZipFile

from reactive_desched._version import __version__
from tests.release.conftest import ROOT, copy_sources, hatchling, source_files


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_another_folder_day_umask_and_language_build_the_same_bytes(
    dist: Path, tmp_path: Path
) -> None:
    sources = copy_sources(tmp_path / "elsewhere" / "sources")
    for path in sources.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (10**9, 10**9))
    newest = max(path.stat().st_mtime for path in dist.iterdir())
    while time.time() < newest + 2.1:  # zip counts time in steps of two seconds, gzip of one
        time.sleep(0.1)

    hatchling(
        sources,
        tmp_path / "dist",
        SOURCE_DATE_EPOCH="1000000000",
        TZ="Pacific/Kiritimati",
        LC_ALL="C",
        PYTHONHASHSEED="7",
    )

    assert hashes(tmp_path / "dist") == hashes(dist)


def test_the_unpacked_source_distribution_builds_the_same_wheel_and_itself(
    sdist: Path, dist: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")

    hatchling(tmp_path / f"reactive_desched-{__version__}", tmp_path / "dist")

    assert hashes(tmp_path / "dist") == hashes(dist)


def test_a_shallow_clone_without_tags_has_the_version(tmp_path: Path) -> None:
    clone = ["git", "clone", "--quiet", "--depth", "1", "--no-tags", f"file://{ROOT}", "clone"]
    subprocess.run(clone, cwd=tmp_path, check=True)

    hatchling(tmp_path / "clone", tmp_path / "dist")

    assert f"reactive_desched-{__version__}-py3-none-any.whl" in hashes(tmp_path / "dist")


def packed_in(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheels_have_every_file_of_the_package_once_and_no_other(
    wheel: Path, sim_wheel: Path
) -> None:
    ours = {str(file) for file in source_files() if file.parts[0] == "reactive_desched"}
    simulated = {name for name in ours if name.split("/")[1] in ("demo", "sim")}

    assert packed_in(wheel) == ours - simulated
    assert packed_in(sim_wheel) == simulated | {"reactive_desched/sim/LICENSE"}


def test_the_source_distribution_has_what_make_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    left_out = {
        ".ci",
        ".editorconfig",
        ".pre-commit-config.yaml",
        "sim.kubeconfig",
        "bench-results",
    }

    assert {str(each) for each in source_files() if each.parts[0] not in left_out} <= packed
