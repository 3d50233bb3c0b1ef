"""How fast a journal is verified, indexed and searched, plain and compressed."""

from contextlib import closing
from pathlib import Path
from random import Random
from time import perf_counter

from bench.measure.machine import Stopwatch
from bench.measure.numbers import spread
from bench.record.evictions import PODS, RECORDS_EACH, namespace, pod_name
from bench.record.task import Found, Task, per_second
from reactive_desched.audit.index import Index, remove
from reactive_desched.audit.lookup import Wanted
from reactive_desched.audit.opening import searching
from reactive_desched.audit.query import search
from reactive_desched.audit.schema import NAME
from reactive_desched.audit.verifying import verify
from reactive_desched.journal.segments import segments
from reactive_desched.journal.signing.signed_note import Key, parse_key
from reactive_desched.journal.signing.signer import PUBLIC_FILE
from reactive_desched.journal.summary import Filter
from reactive_desched.journal.upkeep.compression import compress

_LIMIT = 100
_SEED = 3


def some_pods(records: int, most: int) -> list[str]:
    """Return some of the pods that so many records tell of."""
    known = range(min(PODS, records // RECORDS_EACH))
    chosen = Random(_SEED).sample(known, min(most, len(known)))  # noqa: S311  # a fair choice
    return [f"{namespace(number)}/{pod_name(number)}" for number in chosen]


def verified(task: Task) -> Found:
    """Verify every record, several times."""
    key = parse_key((task.folder / PUBLIC_FILE).read_text(encoding="utf-8").strip())
    return {"runs": [_verified(task.folder, key) for _ in range(task.runs)]}


def _verified(folder: Path, key: Key) -> Found:
    watch = Stopwatch()
    report = verify(folder, [key], PUBLIC_FILE, None)
    return {
        "ok": report.ok,
        "records": report.records,
        "segments": report.segments,
        "compressed": report.compressed,
        "records_per_s": round(report.records / watch.wall_s),
        "cpu_us_per_record": round(watch.cpu_s / report.records * 1e6, 2),
    }


def indexed(task: Task) -> Found:
    """Build the index from nothing."""
    path = task.folder / NAME
    remove(path)
    began = perf_counter()
    with closing(Index.open(task.folder, path)) as index:
        records = index.finish()
    return {
        "records": records,
        "records_per_s": per_second(records, began),
        "bytes_per_record": round(path.stat().st_size / records),
    }


def queried(task: Task) -> Found:
    """Ask for one pod after the other, in a process that has the index open."""
    took_ms, records = [], set[int]()
    with searching(task.folder, task.folder) as catalogue:
        for pod in some_pods(catalogue.last, task.count):
            began = perf_counter()
            found = search(catalogue, Wanted(filter=Filter(pods=(pod,))), _LIMIT)
            took_ms.append((perf_counter() - began) * 1e3)
            records.add(len(found.entries))
    return {"ms": spread(took_ms), "records_each": sorted(records)}


def compressed(task: Task) -> Found:
    """Compress all segments but the last, as the keeper does."""
    closed = segments(task.folder)[:-1]
    size, watch = sum(one.path.stat().st_size for one in closed), Stopwatch()
    for one in closed:
        compress(one, _go_on)
    left = sum(one.path.stat().st_size for one in segments(task.folder)[:-1])
    return {
        "segments": len(closed),
        "mb_per_s": round(size / watch.wall_s / 1e6, 1),
        "ratio": round(size / max(1, left), 1),
    }


def _go_on() -> None:
    """Be in no hurry."""
