"""Has every promise about the record measured, each in a process of its own, and gathers it all."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from bench.measure.numbers import quantiles
from bench.record.auditing import sample_pods
from bench.record.kafka import kafka_tools, mock_cluster, real_cluster
from bench.record.streaming import RECORDS_PER_S
from bench.record.task import Results

_TIMEOUT_S = 300
ProgressLine = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class RecordSize:
    """How many records there are, how many are relayed, and how long a paced run lasts."""

    records: int
    relayed: int
    seconds: float
    questions: int
    runs: int
    readers: int = 180
    silent: int = 20


RECORD_SIZES = {
    "small": RecordSize(records=50_000, relayed=10_000, seconds=2, questions=3, runs=1),
    "full": RecordSize(records=1_000_000, relayed=100_000, seconds=10, questions=9, runs=3),
}
_PORTIONS = 10


class RecordBenchmark:
    """Measures the record: folders on a disk and in memory, which the caller removes."""

    def __init__(
        self, extent: RecordSize, folders: dict[str, Path], show_progress: ProgressLine
    ) -> None:
        self._extent = extent
        self._folders = folders
        self._show_progress = show_progress
        self._journal_folder = folders["disk"] / "kept"

    def run_all(self) -> Results:
        """Measure everything; a journal that is written first is read by all that follow."""
        results: Results = {"extent": asdict(self._extent)}
        results["paced"] = self._paced()
        results["streamed"] = self._streamed("streamed")
        results["streamed_apart"] = self._streamed("streamed-apart")
        results["writing"] = self._writing()
        results["relayed"] = {"mock": self._to_a_mock(), "real": self._to_a_real_broker()}
        results["indexed"] = self._run("indexed", self._journal_folder)
        results["plain"] = self._audited()
        results["compressed"] = self._run("compressed", self._journal_folder)
        results["gzip"] = self._audited()
        return results

    def _writing(self) -> Results:
        extent = self._extent
        portion = extent.records // _PORTIONS
        some = {"count": extent.runs * portion // 2, "runs": extent.runs}
        return {
            "disk": self._run("alone", self._journal_folder, count=extent.records, runs=_PORTIONS),
            "tmpfs": self._run("alone", self._folders["tmpfs"] / "alone", **some),
            "followed": self._run_on_each_medium("followed", **some),
        }

    def _run_on_each_medium(self, name: str, **options: float) -> Results:
        media = self._folders.items()
        return {medium: self._run(name, folder / name, **options) for medium, folder in media}

    def _paced(self) -> Results:
        extent = self._extent
        seconds = extent.seconds / 2
        return self._run_on_each_medium(
            "paced", count=RECORDS_PER_S, seconds=seconds, runs=extent.runs
        )

    def _streamed(self, name: str) -> Results:
        extent = self._extent
        return self._run(
            name,
            self._folders["disk"] / name,
            count=extent.readers,
            silent=extent.silent,
            seconds=extent.seconds,
        )

    def _to_a_mock(self) -> Results:
        with mock_cluster(self._topics) as address:
            return self._relayed(address)

    def _to_a_real_broker(self) -> Results:
        tools = kafka_tools()
        if tools.missing:
            return {"missing": f"{', '.join(tools.missing)}: `make real-tools` brings it"}
        with (
            self._show_progress("start a Kafka broker"),
            real_cluster(self._folders["disk"] / "kafka", self._topics, tools) as address,
        ):
            return self._relayed(address)

    @property
    def _topics(self) -> list[str]:
        return [f"bench-{run}" for run in range(self._extent.runs)]

    def _relayed(self, address: str) -> Results:
        return self._run(
            "relayed",
            self._journal_folder,
            count=self._extent.relayed,
            address=address,
            topics=self._topics,
        )

    def _audited(self) -> Results:
        extent = self._extent
        return {
            "verified": self._run("verified", self._journal_folder, runs=extent.runs),
            "queried": self._run("queried", self._journal_folder, count=20 * extent.questions),
            "command_ms": quantiles(self._commands()),
        }

    def _commands(self) -> list[float]:
        """Ask for a pod as people do; return how long it took from the start of the process."""
        command = [sys.executable, "-m", "reactive_desched", "audit", "query"]
        took_ms = []
        for pod in sample_pods(self._extent.records, self._extent.questions):
            began = perf_counter()
            asked = [*command, "--journal", str(self._journal_folder), "--pod", pod]
            subprocess.run(asked, check=True, stdout=subprocess.PIPE)  # noqa: S603  # our own command
            took_ms.append((perf_counter() - began) * 1e3)
        return took_ms

    def _run(self, name: str, folder: Path, **options: object) -> Results:
        with self._show_progress(f"the record: {name} in {folder}"):
            return run_programme(name, folder, **options) | {"load": os.getloadavg()[0]}


def run_programme(name: str, folder: Path, **options: object) -> Results:
    """Run one programme in a process of its own; return what it found."""
    command = [sys.executable, "-m", "bench.record", name, "--folder", str(folder)]
    for option, value in options.items():
        several = value if isinstance(value, list) else [value]
        command += [f"--{option}", *map(str, several)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=_TIMEOUT_S, check=True)  # noqa: S603  # our own module
    output: Results = json.loads(done.stdout.splitlines()[-1])
    return output
