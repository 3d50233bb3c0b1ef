"""Measures the real code against the goals: `python -m bench --size full [--part PART ...]`.

Exit status 0 unless something is broken (a pod not seen, an eviction lost, a record missing);
slowness is shown.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench import parts
from bench.generate import cache_folder, ensure
from bench.measure.machine import facts
from bench.parts import BY_NAME_ONLY, PARTS, Bench
from bench.processes import SIZES, Results, Size
from bench.record import rows as record
from bench.record.run import RECORD_SIZES, RecordBenchmark
from bench.report import figures, print_report

_WIDTH = 140
_MEMORY_DISK = Path("/dev/shm")  # noqa: S108  # tmpfs is what is being measured


def main() -> int:
    """Measure, print, save."""
    every = (*PARTS, "record")
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--part", choices=every, action="append", help="all but soak, unless named")
    parser.add_argument("--profile", choices=("sync", "watch", "react", "judge"), default="")
    parser.add_argument("--minutes", type=float, default=30, help="how long a soak takes")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    args = parser.parse_args()
    console, size = Console(width=max(_WIDTH, Console().width)), SIZES[args.size]
    results: Results = {"size": asdict(size), "machine": facts()}
    ended: list[str] = []
    with _folders() as folders:
        bench = Bench(size, folders, console.status, args.profile, args.minutes)
        for name in args.part or (part for part in every if part not in BY_NAME_ONLY):
            try:
                if name == "record":
                    extent = RECORD_SIZES["full" if args.size == "full" else "small"]
                    results[name] = RecordBenchmark(extent, folders, console.status).run_all()
                else:
                    _write_data(size, console)
                    results[name] = PARTS[name](bench)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                ended.append(f"{name}: {error}")  # the other parts count
    results |= {"load_at_the_end": facts()["load"], "figures": figures(results)}
    print_report(results, console)
    console.print(f"saved: {_save(results, args.results)}")
    broken = [*ended, *_failures(results)]
    for failure in broken:
        console.print(f"broken: {failure}", style="red")
    return 1 if broken else 0


def _write_data(size: Size, console: Console) -> None:
    for each in (size, size.one_tenth):
        with console.status(f"data: {each.pods} pods on {each.nodes} nodes"):
            ensure(each.pods, each.nodes, cache_folder())


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


def _save(results: Results, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    file.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return file


def _failures(results: Results) -> Iterator[str]:
    yield from parts.failures(results)
    if "record" in results:
        yield from record.failures(results["record"])


if __name__ == "__main__":
    sys.exit(main())
