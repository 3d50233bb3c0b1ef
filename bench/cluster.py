"""Has everything about the cluster's news measured, from first sync to eviction request."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from bench.runner import Found, Size, measured

Say = Callable[[str], AbstractContextManager[object]]


def measure(size: Size, folders: Mapping[str, Path], say: Say) -> Found:
    """Return what each programme found, against a load server of this size."""
    found: Found = {"reactions": {}}
    memory = folders["tmpfs"]
    with say("sync, throughput, judging, polling"):
        found["whole"] = measured(size, "whole", memory / "whole", size.events)
    for name, folder in folders.items():
        with say(f"reactions, journal on {name}"):
            run = measured(size, "reactions", folder / "journal", size.reactions)
            found["reactions"][name] = run
    with say("reactions with the whole record and with the least of it"):
        found["recording"] = measured(size, "recording", memory / "record", size.reactions // 4)
    with say("the machine's own reaction time"):
        found["floor"] = measured(size, "floor", memory / "floor", size.reactions)
    with say("a tenth of the size"):
        found["tenth"] = measured(size.tenth, "nodes", memory / "tenth", 0)
    found["syncs"] = [found["whole"]["sync"], *(r["sync"] for r in found["reactions"].values())]
    return found


def broken(found: Found) -> Iterator[str]:
    """Yield what no speed excuses."""
    pods = found["size"]["pods"]
    for sync in found["syncs"]:
        if sync["pods"] != pods:
            yield f"{sync['pods']} of {pods} pods were synced"
    if found["whole"]["polling"]["pods"] < pods:
        yield "the polling peer did not see every pod"
    for what, run in _reactions(found):
        if run["evicted"] != run["expected"] or run["twice"]:
            counts = f"{run['evicted']} of {run['expected']} evicted, {run['twice']} twice"
            yield f"{what}: {counts}; {run['why_lost']}"


def _reactions(found: Found) -> Iterator[tuple[str, Found]]:
    for journal, runs in found["reactions"].items():
        for name, run in runs.items():
            if name != "sync":
                yield f"{name}, journal on {journal}", run
    for name in ("recorded", "unrecorded"):
        for run in found["recording"][name]:
            yield f"{name} reactions", run
