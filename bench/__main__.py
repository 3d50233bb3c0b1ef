"""Measures the real code against the goals: `python -m bench --size full|small`.

Exit status 0 unless something is broken (a pod not seen, an eviction lost); slowness is shown.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench.generate import cache_folder, ensure
from bench.measure.machine import facts
from bench.report import show
from bench.runner import SIZES, Found, Size, measured

_WIDTH = 130
_MEMORY_DISK = Path("/dev/shm")  # noqa: S108  # tmpfs is what is being measured


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    args = parser.parse_args()
    console, size = Console(width=max(_WIDTH, Console().width)), SIZES[args.size]
    for each in (size, size.tenth):
        console.print(f"data: {ensure(each.pods, each.nodes, cache_folder()).folder}")
    found = _measure(size, console)
    show(found, console)
    console.print(f"saved: {_save(found, args.results)}")
    broken = list(_broken(found))
    for complaint in broken:
        console.print(f"broken: {complaint}", style="red")
    return 1 if broken else 0


def _measure(size: Size, console: Console) -> Found:
    found: Found = {"size": asdict(size), "machine": facts(), "reactions": {}}
    folders = _journal_folders()
    try:
        with console.status("sync, throughput, judging, polling"):
            found["whole"] = measured(size, "whole", folders["tmpfs"] / "whole", size.events)
        for name, folder in folders.items():
            with console.status(f"reactions, journal on {name}"):
                run = measured(size, "reactions", folder / "journal", size.reactions)
                found["reactions"][name] = run
        with console.status("the machine's own reaction time"):
            found["floor"] = measured(size, "floor", folders["tmpfs"] / "floor", size.reactions)
        with console.status("a tenth of the size"):
            found["tenth"] = measured(size.tenth, "nodes", folders["tmpfs"] / "tenth", 0)
    finally:
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
    found["syncs"] = [found["whole"]["sync"], *(r["sync"] for r in found["reactions"].values())]
    return found


def _journal_folders() -> dict[str, Path]:
    """Return one folder on the disk beside our data, and one in memory."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    memory = _MEMORY_DISK if _MEMORY_DISK.is_dir() else None
    return {
        "disk": Path(tempfile.mkdtemp(dir=cache_folder(), prefix="journal-")),
        "tmpfs": Path(tempfile.mkdtemp(dir=memory, prefix="reactive-desched-bench-")),
    }


def _save(found: Found, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    file.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return file


def _broken(found: Found) -> Iterator[str]:
    """Yield what no speed excuses."""
    pods = found["size"]["pods"]
    for sync in found["syncs"]:
        if sync["pods"] != pods:
            yield f"{sync['pods']} of {pods} pods were synced"
    if found["whole"]["polling"]["pods"] < pods:
        yield "the polling peer did not see every pod"
    for journal, runs in found["reactions"].items():
        for name, run in runs.items():
            if name != "sync" and (run["evicted"] != run["expected"] or run["twice"]):
                yield (
                    f"{name}, journal on {journal}: {run['evicted']} of {run['expected']} evicted,"
                    f" {run['twice']} twice; {run['why_lost']}"
                )


if __name__ == "__main__":
    sys.exit(main())
