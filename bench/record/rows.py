"""Puts what was measured of the record beside its goals, and says what no speed excuses."""

from collections.abc import Iterator, Sequence
from statistics import median

from bench.record.task import Results
from bench.row import Row

_WRITTEN = 20_000
_DURABLE_MS = 10
_RELAYED = 10_000
_LATE_MS = 50
_QUERY_MS = 200
_VERIFIED = 200_000


def rows(record: Results) -> Iterator[Row]:
    """Yield every number with its goal, in the order of a record's life."""
    yield from _written(record["writing"])
    for medium, paced in record["paced"].items():
        yield from _durable(medium, paced["runs"])
    for cluster, relayed in record["relayed"].items():
        if "runs" in relayed:
            yield from _relayed(cluster, relayed["runs"])
    yield from _streamed("stream", record["streamed"])
    yield from _streamed("stream, a filter for each", record["streamed_apart"])
    index = record["indexed"]
    yield Row("index built", index["records_per_s"], None, "records/s")
    yield Row("the index, for each record", index["bytes_per_record"], None, "B")
    for form in ("plain", "gzip"):
        yield from _audited(form, record[form], record["indexed"]["records"])
    packed = record["compressed"]
    yield Row(f"compressed to 1/{packed['ratio']:g}", packed["mb_per_s"], None, "MB/s")


def _written(writing: Results) -> Iterator[Row]:
    for medium in ("disk", "tmpfs"):
        yield from _flat_out(f"on {medium}", writing[medium]["runs"], _WRITTEN)
    for medium, followed in writing["followed"].items():
        yield from _flat_out(f"on {medium}, beside its index", followed["runs"], None)


def _flat_out(medium: str, runs: Sequence[Results], goal: float | None) -> Iterator[Row]:
    yield _rate(f"journal {medium}", runs, goal)
    yield _cost(f"journal {medium}, CPU for each record", runs)
    writes = median(run["records_per_write"] for run in runs)
    yield Row(f"journal {medium}, records a write", writes)


def _durable(medium: str, runs: Sequence[Results]) -> Iterator[Row]:
    what = f"event to durable, 1,000 records a second on {medium}"
    yield _middle(f"{what}, p50", runs, "to_durable_ms", "p50")
    yield _middle(f"{what}, p99", runs, "to_durable_ms", "p99", _DURABLE_MS)
    yield _middle("  of that the write itself, p99", runs, "write_ms", "p99")
    yield Row("  cores used by the journal and its index", median(r["cpu_share"] for r in runs))


def _relayed(cluster: str, runs: Sequence[Results]) -> Iterator[Row]:
    what = f"relay to the {cluster} Kafka"
    yield _rate(what, runs, _RELAYED)
    yield _cost(f"{what}, CPU for each record", runs)
    yield _middle(f"{what}, loop late, p99", runs, "loop_late_ms", "p99")
    yield _middle(f"{what}, loop late, longest", runs, "loop_late_ms", "max")
    yield _middle(f"{what}, longest hold", runs, "holds", "longest_ms")


def _streamed(what: str, streamed: Results) -> Iterator[Row]:
    clients = streamed["clients"]
    which = f"{what}, {clients['readers']} who read and {streamed['cut']} who were cut"
    late, delivered = streamed["loop_late_ms"], clients["delivered_ms"]
    yield Row(f"{which}: loop late, p99", late["p99"], _LATE_MS, "ms")
    yield Row(f"{what}, loop late, longest", late["max"], None, "ms")
    yield Row(f"{what}, longest hold", streamed["holds"]["longest_ms"], None, "ms")
    yield Row(f"{what}, events handed to clients", streamed["sent_per_s"], None, "/s")
    yield Row(f"{what}, cores used by the server", streamed["cpu_share"])
    yield Row(f"{what}, event to client, p50", delivered["p50"], None, "ms")
    yield Row(f"{what}, event to client, p99", delivered["p99"], None, "ms")
    durable = streamed["to_durable_ms"]["p99"]
    yield Row(f"{what}, event to durable meanwhile, p99", durable, None, "ms")


def _audited(form: str, audited: Results, records: int) -> Iterator[Row]:
    what = f"audit query for a pod over {records:,} records, {form}"
    asked, command = audited["queried"]["ms"], audited["command_ms"]
    yield Row(f"{what}, whole process", command["p50"], _QUERY_MS, "ms", best=command["min"])
    yield Row(f"{what}, index open", asked["p50"], _QUERY_MS, "ms", best=asked["min"])
    runs = audited["verified"]["runs"]
    yield _rate(f"audit verify, {form}", runs, _VERIFIED)


def _rate(what: str, runs: Sequence[Results], goal: float | None) -> Row:
    rates = [run["records_per_s"] for run in runs]
    return Row(what, median(rates), goal, "records/s", at_least=True, best=max(rates))


def _cost(what: str, runs: Sequence[Results]) -> Row:
    costs = [run["cpu_us_per_record"] for run in runs]
    return Row(what, median(costs), None, "µs", best=min(costs))


def _middle(
    what: str, runs: Sequence[Results], table: str, name: str, goal: float | None = None
) -> Row:
    values = [float(run[table][name]) for run in runs]
    return Row(what, median(values), goal, "ms", best=min(values))


def remarks(record: Results) -> Iterator[str]:
    """Yield what was not measured, and why."""
    if missing := record["relayed"]["real"].get("missing"):
        yield f"not measured: the relay to a real Kafka broker, for want of {missing}"


def failures(record: Results) -> Iterator[str]:
    """Yield what no speed excuses."""
    extent = record["extent"]
    for form in ("plain", "gzip"):
        for run in record[form]["verified"]["runs"]:
            if not run["ok"] or run["records"] < extent["records"]:
                yield f"audit verify, {form}: {run['records']} records, ok {run['ok']}"
        if 0 in record[form]["queried"]["records_each"]:
            yield f"audit query, {form}: a pod was not found"
    for cluster, relayed in record["relayed"].items():
        for run in relayed.get("runs", ()):
            if run["arrived"] != extent["relayed"]:
                yield f"relay to the {cluster} Kafka: {run['arrived']} of {extent['relayed']} came"
    for name in ("streamed", "streamed_apart"):
        yield from _stream_failures(name, record[name], extent["silent"])


def _stream_failures(name: str, streamed: Results, silent: int) -> Iterator[str]:
    clients, cut = streamed["clients"], streamed["cut"]
    if clients["behind"] or clients["gaps"]:
        yield f"{name}: {clients['behind']} clients were behind, {clients['gaps']} gaps"
    if cut != silent:
        yield f"{name}: {cut} were cut, {silent} never read"
