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

from bench.measure.numbers import spread
from bench.record.auditing import some_pods
from bench.record.clusters import kafka_tools, mock_cluster, real_cluster
from bench.record.streaming import RECORDS_PER_S
from bench.record.task import Found

_LONGEST_S = 300
Say = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class Extent:
    """How many records there are, how many are relayed, and how long things at a pace last."""

    records: int
    relayed: int
    seconds: float
    questions: int
    runs: int
    readers: int = 180
    silent: int = 20


EXTENTS = {
    "small": Extent(records=50_000, relayed=10_000, seconds=2, questions=3, runs=1),
    "full": Extent(records=1_000_000, relayed=100_000, seconds=10, questions=9, runs=3),
}
_PORTIONS = 10


class Measuring:
    """Measures the record: folders on a disk and in memory, which the caller removes."""

    def __init__(self, extent: Extent, folders: dict[str, Path], say: Say) -> None:
        self._extent = extent
        self._folders = folders
        self._say = say
        self._kept = folders["disk"] / "kept"

    def all(self) -> Found:
        """Measure everything; a journal that is written first is read by all that follow."""
        found: Found = {"extent": asdict(self._extent)}
        found["paced"] = self._paced()
        found["streamed"] = self._streamed("streamed")
        found["streamed_apart"] = self._streamed("streamed-apart")
        found["writing"] = self._writing()
        found["relayed"] = {"mock": self._to_a_mock(), "real": self._to_a_real_broker()}
        found["indexed"] = self._run("indexed", self._kept)
        found["plain"] = self._audited()
        found["compressed"] = self._run("compressed", self._kept)
        found["gzip"] = self._audited()
        return found

    def _writing(self) -> Found:
        extent = self._extent
        portion = extent.records // _PORTIONS
        some = {"count": extent.runs * portion // 2, "runs": extent.runs}
        return {
            "disk": self._run("alone", self._kept, count=extent.records, runs=_PORTIONS),
            "tmpfs": self._run("alone", self._folders["tmpfs"] / "alone", **some),
            "followed": self._on_each("followed", **some),
        }

    def _on_each(self, name: str, **options: float) -> Found:
        places = self._folders.items()
        return {place: self._run(name, folder / name, **options) for place, folder in places}

    def _paced(self) -> Found:
        extent = self._extent
        seconds = extent.seconds / 2
        return self._on_each("paced", count=RECORDS_PER_S, seconds=seconds, runs=extent.runs)

    def _streamed(self, name: str) -> Found:
        extent = self._extent
        return self._run(
            name,
            self._folders["disk"] / name,
            count=extent.readers,
            silent=extent.silent,
            seconds=extent.seconds,
        )

    def _to_a_mock(self) -> Found:
        with mock_cluster(self._topics) as address:
            return self._relayed(address)

    def _to_a_real_broker(self) -> Found:
        tools = kafka_tools()
        if tools.missing:
            return {"missing": f"{', '.join(tools.missing)}: `make real-tools` brings it"}
        with (
            self._say("start a Kafka broker"),
            real_cluster(self._folders["disk"] / "kafka", self._topics, tools) as address,
        ):
            return self._relayed(address)

    @property
    def _topics(self) -> list[str]:
        return [f"bench-{run}" for run in range(self._extent.runs)]

    def _relayed(self, address: str) -> Found:
        return self._run(
            "relayed", self._kept, count=self._extent.relayed, address=address, topics=self._topics
        )

    def _audited(self) -> Found:
        extent = self._extent
        return {
            "verified": self._run("verified", self._kept, runs=extent.runs),
            "queried": self._run("queried", self._kept, count=20 * extent.questions),
            "command_ms": spread(self._commands()),
        }

    def _commands(self) -> list[float]:
        """Ask for a pod as people do; return how long it took from the start of the process."""
        command = [sys.executable, "-m", "reactive_desched", "audit", "query"]
        took_ms = []
        for pod in some_pods(self._extent.records, self._extent.questions):
            began = perf_counter()
            asked = [*command, "--journal", str(self._kept), "--pod", pod]
            subprocess.run(asked, check=True, stdout=subprocess.PIPE)  # noqa: S603  # our own command
            took_ms.append((perf_counter() - began) * 1e3)
        return took_ms

    def _run(self, name: str, folder: Path, **options: object) -> Found:
        with self._say(f"the record: {name} in {folder}"):
            return programme(name, folder, **options) | {"load": os.getloadavg()[0]}


def programme(name: str, folder: Path, **options: object) -> Found:
    """Run one programme in a process of its own; return what it found."""
    command = [sys.executable, "-m", "bench.record", name, "--folder", str(folder)]
    for option, value in options.items():
        several = value if isinstance(value, list) else [value]
        command += [f"--{option}", *map(str, several)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=_LONGEST_S, check=True)  # noqa: S603  # our own module
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found
