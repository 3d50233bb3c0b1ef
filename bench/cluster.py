"""Has everything about the cluster's news measured, from first sync to eviction request."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from bench.runner import Results, Size, run_programme

ProgressLine = Callable[[str], AbstractContextManager[object]]


def measure(size: Size, folders: Mapping[str, Path], show_progress: ProgressLine) -> Results:
    """Return what each programme found, against a load server of this size."""
    results: Results = {"reactions": {}}
    memory = folders["tmpfs"]
    with show_progress("sync, throughput, judging, polling"):
        results["whole"] = run_programme(size, "whole", memory / "whole", size.events)
    for name, folder in folders.items():
        with show_progress(f"reactions, journal on {name}"):
            run = run_programme(size, "reactions", folder / "journal", size.reactions)
            results["reactions"][name] = run
    with show_progress("reactions with the whole record and with the least of it"):
        results["recording"] = run_programme(
            size, "recording", memory / "record", size.reactions // 4
        )
    with show_progress("the machine's own reaction time"):
        results["floor"] = run_programme(size, "floor", memory / "floor", size.reactions)
    with show_progress("a tenth of the size"):
        results["tenth"] = run_programme(size.one_tenth, "nodes", memory / "tenth", 0)
    results["syncs"] = [
        results["whole"]["sync"],
        *(r["sync"] for r in results["reactions"].values()),
    ]
    return results


def failures(results: Results) -> Iterator[str]:
    """Yield what no speed excuses."""
    pods = results["size"]["pods"]
    for sync in results["syncs"]:
        if sync["pods"] != pods:
            yield f"{sync['pods']} of {pods} pods were synced"
    if results["whole"]["polling"]["pods"] < pods:
        yield "the polling peer did not see every pod"
    for what, run in _reactions(results):
        if run["evicted"] != run["expected"] or run["twice"]:
            counts = f"{run['evicted']} of {run['expected']} evicted, {run['twice']} twice"
            yield f"{what}: {counts}; {run['why_lost']}"


def _reactions(results: Results) -> Iterator[tuple[str, Results]]:
    for journal, runs in results["reactions"].items():
        for name, run in runs.items():
            if name != "sync":
                yield f"{name}, journal on {journal}", run
    for name in ("recorded", "unrecorded"):
        for run in results["recording"][name]:
            yield f"{name} reactions", run
