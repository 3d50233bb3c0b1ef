"""How fast a journal is verified, indexed and searched, plain and compressed."""

from contextlib import closing
from pathlib import Path
from random import Random
from time import perf_counter

from bench.measure.machine import Stopwatch
from bench.measure.numbers import quantiles
from bench.record.evictions import PODS, RECORDS_EACH, namespace, pod_name
from bench.record.task import Results, Task, per_second
from reactive_desched.audit.catalogue import search
from reactive_desched.audit.index import AuditIndex, remove_index
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.opening import open_catalogue
from reactive_desched.audit.schema import INDEX_FILE
from reactive_desched.audit.verification import verify
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.signed_note import PublicKey, parse_key
from reactive_desched.journal.signing.signer import PUBLIC_FILE
from reactive_desched.journal.summary import EventFilter
from reactive_desched.journal.upkeep.compression import compress

_LIMIT = 100
_SEED = 3


def sample_pods(records: int, limit: int) -> list[str]:
    """Return some of the pods that so many records concern."""
    pod_count = range(min(PODS, records // RECORDS_EACH))
    chosen = Random(_SEED).sample(pod_count, min(limit, len(pod_count)))  # noqa: S311  # a fair choice
    return [f"{namespace(number)}/{pod_name(number)}" for number in chosen]


def verify_speed(task: Task) -> Results:
    """Verify every record, several times."""
    key = parse_key((task.folder / PUBLIC_FILE).read_text(encoding="utf-8").strip())
    return {"runs": [_verified(task.folder, key) for _ in range(task.runs)]}


def _verified(folder: Path, key: PublicKey) -> Results:
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


def index_speed(task: Task) -> Results:
    """Build the index from nothing."""
    path = task.folder / INDEX_FILE
    remove_index(path)
    began = perf_counter()
    with closing(AuditIndex.open(task.folder, path)) as index:
        records = index.index_all()
    return {
        "records": records,
        "records_per_s": per_second(records, began),
        "bytes_per_record": round(path.stat().st_size / records),
    }


def query_speed(task: Task) -> Results:
    """Ask for one pod after the other, in a process that has the index open."""
    took_ms, records = [], set[int]()
    with open_catalogue(task.folder, task.folder) as catalogue:
        for pod in sample_pods(catalogue.last_seq, task.count):
            began = perf_counter()
            matches = search(catalogue, RecordQuery(filter=EventFilter(pods=(pod,))), _LIMIT)
            took_ms.append((perf_counter() - began) * 1e3)
            records.add(len(matches.records))
    return {"ms": quantiles(took_ms), "records_each": sorted(records)}


def compression_speed(task: Task) -> Results:
    """Compress all segments but the last, as the keeper does."""
    closed = list_segments(task.folder)[:-1]
    size, watch = sum(one.path.stat().st_size for one in closed), Stopwatch()
    for one in closed:
        compress(one, _no_yield)
    left = sum(one.path.stat().st_size for one in list_segments(task.folder)[:-1])
    return {
        "segments": len(closed),
        "mb_per_s": round(size / watch.wall_s / 1e6, 1),
        "ratio": round(size / max(1, left), 1),
    }


def _no_yield() -> None:
    """Be in no hurry."""
