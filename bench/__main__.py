"""Measures the real code against the goals: `python -m bench --size full|small`.

Exit status 0 unless something is broken (a pod not seen, an eviction lost, a record missing);
slowness is shown.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench import cluster
from bench.generate import cache_folder, ensure
from bench.measure.machine import facts
from bench.record import rows as record
from bench.record.run import EXTENTS, Measuring
from bench.report import show
from bench.runner import SIZES, Found, Size

_WIDTH = 130
_MEMORY_DISK = Path("/dev/shm")  # noqa: S108  # tmpfs is what is being measured


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--part", choices=["all", "cluster", "record"], default="all")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    args = parser.parse_args()
    console, size = Console(width=max(_WIDTH, Console().width)), SIZES[args.size]
    found: Found = {"size": asdict(size), "machine": facts()}
    with _folders() as folders:
        if args.part != "record":
            _write_data(size, console)
            found |= cluster.measure(size, folders, console.status)
        if args.part != "cluster":
            found["record"] = Measuring(EXTENTS[args.size], folders, console.status).all()
    show(found, console)
    console.print(f"saved: {_save(found, args.results)}")
    broken = list(_broken(found))
    for complaint in broken:
        console.print(f"broken: {complaint}", style="red")
    return 1 if broken else 0


def _write_data(size: Size, console: Console) -> None:
    for each in (size, size.tenth):
        console.print(f"data: {ensure(each.pods, each.nodes, cache_folder()).folder}")


@contextmanager
def _folders() -> Iterator[dict[str, Path]]:
    """Make one folder on the disk beside our data, and one in memory, gone after the block."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    memory = _MEMORY_DISK if _MEMORY_DISK.is_dir() else None
    folders = {
        "disk": Path(tempfile.mkdtemp(dir=cache_folder(), prefix="journal-")),
        "tmpfs": Path(tempfile.mkdtemp(dir=memory, prefix="reactive-desched-bench-")),
    }
    try:
        yield folders
    finally:
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)


def _save(found: Found, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    file.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return file


def _broken(found: Found) -> Iterator[str]:
    if "whole" in found:
        yield from cluster.broken(found)
    if "record" in found:
        yield from record.broken(found["record"])


if __name__ == "__main__":
    sys.exit(main())
