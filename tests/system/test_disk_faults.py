"""A disk that fails: nothing is evicted meanwhile, everybody can see why, and it goes on alone."""

import json
import os
import re
import resource
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import EVICTION_REQUESTED, JOURNAL_RESUMED, OUTCOMES
from reactive_desched.audit.index import Index
from reactive_desched.audit.lookup import Wanted, spots
from reactive_desched.audit.schema import NAME
from reactive_desched.audit.verifying import verify
from reactive_desched.journal.notes import parse_key
from reactive_desched.journal.reading import read
from reactive_desched.testing.failing_disk import VARIABLE

BEFORE, FIRST, SECOND = "node-1", "node-2", "node-3"
UNHURT_S = 2.0


class Ours:
    """The controller, its journal, and what a probe and a scrape say of it."""

    def __init__(self, program: Any, journal: Path) -> None:  # from the fixture
        self.program = program
        self.journal = journal
        lines = program.wait_for(r'"url": ?"(http://[^"]+)"')
        self.url = lines.group(1)

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    @property
    def unready_because(self) -> str:
        """What /readyz says of the journal while it is not ready; empty when it is."""
        status, text = self.get("/readyz?verbose")
        found = re.search(r"\[-\]journal (.*)", text)
        assert (status == 200) == ("[-]" not in text)
        return found[1] if found else ""

    @property
    def healthy(self) -> float:
        """What the metric says."""
        _, text = self.get("/metrics")
        found = re.search(r"^reactive_desched_journal_healthy (\S+)", text, re.MULTILINE)
        assert found
        return float(found[1])


def movable(cluster: Any, node: str) -> set[str]:  # from the fixture
    return {uid for uid, kind in cluster.pods_on(node).items() if kind != "DaemonSet"}


@contextmanager
def told_to_fail(orders: Path, fault: str) -> Iterator[None]:
    orders.write_text(fault)
    try:
        yield
    finally:
        orders.write_text("")


@contextmanager
def limited(program: Any, size: int) -> Iterator[None]:  # from the fixture
    """Let no file of a process grow beyond a size; the kernel refuses, after a part of a write."""
    pid, kind = program.process.pid, resource.RLIMIT_FSIZE
    before = resource.prlimit(pid, kind, (size, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, kind, before)


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "orders"
    path.touch()
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.fixture
def ours(
    start: Callable[..., Any], cluster: Any, policy: Path, tmp_path: Path, orders: Path
) -> Ours:
    program = start(
        "run",
        *("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig)),
        *("--journal-dir", str(tmp_path / "journal"), "--listen", "127.0.0.1:0"),
        *("--log-format", "json"),
        module="reactive_desched.testing.failing_disk",
    )
    program.wait_for("synced")
    return Ours(program, tmp_path / "journal")


FAULTS = {
    "full, in the middle of a record": ("ENOSPC 300", "No space left on device"),
    "full, after some whole records": ("ENOSPC 4000", "No space left on device"),
    "broken, after all was written": ("EIO 1000000", "Input/output error"),
    "read-only": ("EROFS", "Read-only file system"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_while_the_disk_fails_nobody_is_evicted_and_afterwards_everybody_who_is_due(
    cluster: Any, ours: Ours, orders: Path, fault: str
) -> None:
    order, reason = FAULTS[fault]
    check_fails_closed(cluster, ours, lambda: told_to_fail(orders, order), reason)


def test_when_the_kernel_refuses_to_let_the_file_grow_it_is_the_same(
    cluster: Any, ours: Ours
) -> None:
    def nearly_full() -> Any:  # a context manager
        sizes = [path.stat().st_size for path in ours.journal.glob("journal-*")]
        assert ours.program.log.stat().st_size < max(sizes) / 2
        return limited(ours.program, max(sizes) + 1000)

    check_fails_closed(cluster, ours, nearly_full, "File too large")


def check_fails_closed(
    cluster: Any,
    ours: Ours,
    failing: Callable[[], Any],  # a context manager
    reason: str,
) -> None:
    moved = movable(cluster, BEFORE)
    cluster.taint(BEFORE, "gpu")
    ours.program.wait_until(lambda: not movable(cluster, BEFORE) & moved)
    due = movable(cluster, FIRST) | movable(cluster, SECOND)

    with failing():
        began = time.monotonic()
        cluster.taint(FIRST, "gpu")
        ours.program.wait_until(lambda: bool(ours.unready_because))
        assert time.monotonic() - began < 1 + UNHURT_S
        cluster.taint(SECOND, "gpu")
        while time.monotonic() < began + UNHURT_S:
            assert reason in ours.unready_because
            assert ours.healthy == 0.0
            assert due <= movable(cluster, FIRST) | movable(cluster, SECOND)
            time.sleep(0.1)
        said = [line for line in ours.program.output.splitlines() if reason in line]
        assert said
        print(said)

    ours.program.wait_until(
        lambda: not due & (movable(cluster, FIRST) | movable(cluster, SECOND))
    )
    assert ours.healthy == 1.0
    assert not ours.unready_because
    assert ours.program.stop() == 0
    check_record(ours.journal, moved | due, reason)


def check_record(journal: Path, evicted: set[str], reason: str) -> None:
    """Hold that the chain is whole, says what happened, and that the index knows all of it."""
    keys = [parse_key(line) for line in (journal / "checkpoint.pub").read_text().split()]
    report = verify(journal, keys, "", None)
    assert report.ok, report.bad
    events = list(read(journal))
    assert [reason in e.data.reason for e in events if e.type == JOURNAL_RESUMED] == [True]
    intents = {e.id: e.data.who.uid for e in events if e.type == EVICTION_REQUESTED}
    outcomes = [e for e in events if e.type in OUTCOMES]
    assert sorted(e.causationid for e in outcomes) == sorted(intents)
    assert {e.data.who.uid for e in outcomes if e.data.outcome.result == "evicted"} == evicted
    kept, fresh = Index.open(journal, journal / NAME), Index.private(journal)
    kept.finish()
    fresh.finish()
    assert spots(kept, Wanted()) == spots(fresh, Wanted())
    kept.close()
    fresh.close()
