"""A disk that fails: nothing is evicted meanwhile, everybody can see why, and it goes on alone."""

import re
import resource
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reactive_desched.api.event import EVICTION_OUTCOME_TYPES, EVICTION_REQUESTED, JOURNAL_RESUMED
from reactive_desched.audit.index import AuditIndex
from reactive_desched.audit.lookup import RecordQuery, find_newest
from reactive_desched.audit.schema import INDEX_FILE
from reactive_desched.audit.verification import verify
from reactive_desched.journal.events import read_events
from reactive_desched.journal.signing.signed_note import parse_key
from tests.support.failing_disk import VARIABLE
from tests.support.limits import UNLIMITED

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/descheduler"


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
            with urllib.request.urlopen(f"{self.url}{path}", timeout=60) as reply:
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
def settings() -> str:
    """Try again soon what a fault has cancelled."""
    return f"{UNLIMITED}evictions: {{retry: {{initial: 500ms}}}}\n"


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
        *("--journal", str(tmp_path / "journal"), "--listen", "127.0.0.1:0"),
        *("--log-format", "json"),
        module="tests.support.failing_disk",
    )
    program.wait_for("the cluster is synced")
    return Ours(program, tmp_path / "journal")


class Fault(NamedTuple):
    """How to break the disk, what everybody is to be told, and whether records are refused."""

    failing: Callable[[Ours, Path], AbstractContextManager[None]]
    reason: str
    refuses: bool = True


def ordered(order: str) -> Callable[[Ours, Path], AbstractContextManager[None]]:
    return lambda _, orders: told_to_fail(orders, order)


def nearly_full(ours: Ours, _: Path) -> AbstractContextManager[None]:
    open_file = max(ours.journal.glob("journal-*"))
    size = open_file.stat().st_size
    assert ours.program.log.stat().st_size < size / 2, "else its log is cut off as well"
    return limited(ours.program, size + 1000)


FAULTS = {
    "full, in the middle of a record": Fault(ordered("ENOSPC 300"), "No space left on device"),
    "full, after some whole records": Fault(ordered("ENOSPC 4000"), "No space left on device"),
    "broken, after all was written": Fault(ordered("EIO 1000000"), "Input/output error"),
    "read-only": Fault(ordered("EROFS"), "Read-only file system"),
    "not to grow, says the kernel": Fault(nearly_full, "File too large"),
    "slow": Fault(ordered("slow 3"), "a write has been under way for more than 1 s", refuses=False),
}


@pytest.mark.timeout(180)
def test_whatever_is_wrong_with_the_disk_no_pod_is_evicted_until_it_is_right_again(
    cluster: Any, ours: Ours, orders: Path
) -> None:
    due: set[str] = set()
    for number, (name, fault) in enumerate(FAULTS.items(), 1):
        node = f"node-{number}"
        there = movable(cluster, node)
        assert there, name

        with fault.failing(ours, orders):
            cluster.taint(node, "gpu")
            ours.program.wait_until(lambda: bool(ours.unready_because))
            for _ in range(10 if fault.refuses else 1):
                assert fault.reason in ours.unready_because, name
                assert ours.healthy == 0.0, name
                assert there <= movable(cluster, node), name
                time.sleep(0.1)
            ours.program.wait_for(f"the journal cannot be written[^\n]*{fault.reason}")

        ours.program.wait_until(partial(is_empty, cluster, node, there))
        ours.program.wait_until(lambda: ours.healthy == 1.0)
        assert not ours.unready_because, name
        cluster.untaint(node)
        due |= there

    assert ours.program.stop() == 0
    check_record(ours.journal, due)


@pytest.mark.timeout(180)
def test_a_disk_that_hangs_holds_neither_the_probes_nor_the_lease(
    cluster: Any, start: Callable[..., Any], policy: Path, tmp_path: Path, orders: Path
) -> None:
    program = start(
        "run",
        *("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig)),
        *("--journal", str(tmp_path / "journal"), "--listen", "127.0.0.1:0"),
        *("--log-format", "json", "--leader-elect", "--leader-elect-retry-period=1s"),
        module="tests.support.failing_disk",
    )
    program.wait_for("acquired the lease")
    ours = Ours(program, tmp_path / "journal")
    opened = "reactive_desched_journal_healthy 1"  # else it is ready as a standby yet
    program.wait_until(lambda: opened in ours.get("/metrics")[1])
    program.wait_until(lambda: ours.get("/readyz")[0] == 200)

    with told_to_fail(orders, "hang"):
        cluster.taint("node-1", "gpu")
        program.wait_until(lambda: bool(ours.unready_because))
        for _ in range(3):
            before = renewed_at(cluster)
            program.wait_until(lambda before=before: renewed_at(cluster) != before)
            assert ours.get("/livez") == (200, "ok")
            assert ours.healthy == 0.0
    program.wait_until(lambda: ours.healthy == 1.0)

    assert program.stop() == 0
    assert program.output.count("acquired the lease") == 1


def renewed_at(cluster: Any) -> str:  # from the fixture
    return str(cluster.call("GET", LEASE)["spec"]["renewTime"])


def is_empty(cluster: Any, node: str, of: set[str]) -> bool:  # from the fixture
    return not movable(cluster, node) & of


def check_record(journal: Path, evicted: set[str]) -> None:
    """Hold that the chain is whole, says what happened, and that the index knows all of it."""
    keys = [parse_key(line) for line in (journal / "checkpoint.pub").read_text().split()]
    report = verify(journal, keys, "", None)
    assert report.ok, report.bad
    events = list(read_events(journal))
    told = [e.data.message for e in events if e.type == JOURNAL_RESUMED]
    assert told == [fault.reason for fault in FAULTS.values() if fault.refuses]
    intents = {e.id: e.data.who.uid for e in events if e.type == EVICTION_REQUESTED}
    outcomes = [e for e in events if e.type in EVICTION_OUTCOME_TYPES]
    assert sorted(e.causationid for e in outcomes) == sorted(intents)
    assert {e.data.who.uid for e in outcomes if e.data.outcome.result == "evicted"} == evicted
    kept, fresh = AuditIndex.open(journal, journal / INDEX_FILE), AuditIndex.temporary(journal)
    kept.index_all()
    fresh.index_all()
    assert find_newest(kept, RecordQuery()) == find_newest(fresh, RecordQuery())
    kept.close()
    fresh.close()
