"""Two controllers on one simulated cluster: one acts, and the other takes over."""

import json
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import EVICTION_OUTCOME_TYPES, EVICTION_REQUESTED, LEADER_CHANGED
from reactive_desched.journal.events import read_events
from tests.support.control_plane import wait_until
from tests.support.golden import Golden

LEASE_S = 12  # one that stands still for seconds loses a shorter one
ELECTION = (
    "--leader-elect",
    f"--leader-elect-lease-duration={LEASE_S}s",
    "--leader-elect-renew-deadline=9s",
    "--leader-elect-retry-period=400ms",
)
NODE, OTHER = "node-1", "node-2"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/descheduler"
ACQUIRED = "acquired the lease"

Start = Callable[..., Any]  # programs of conftest.py, as in the other tests here


@pytest.fixture
def leader(cluster: Any, controller: Start) -> Any:
    program = controller(*ELECTION)
    program.wait_for(ACQUIRED)
    program.wait_for("the cluster is synced")
    return program


@pytest.fixture
def standby(leader: Any, controller: Start) -> Any:
    program = controller(*ELECTION)
    program.wait_for("the cluster is synced")
    return program


def get(program: Any, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{program.url}{path}", timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def tokens(program: Any) -> float:
    """Return how many evictions the limit of the cluster allows now."""
    text = get(program, "/metrics")[1]
    found = re.search(
        r'^reactive_desched_tokens_available\{scope="cluster"\} (\S+)', text, re.MULTILINE
    )
    assert found is not None
    return float(found[1])


def holder(cluster: Any) -> str:
    return str(cluster.call("GET", LEASE)["spec"]["holderIdentity"])


def requested(folder: Path) -> list[str]:
    """Return the uid of each pod whose eviction was requested, oldest first."""
    return [e.data.who.uid for e in read_events(folder) if e.type == EVICTION_REQUESTED]


def requested_while_open(folder: Path) -> list[str]:
    """Return each pod whose eviction was requested again before the first one had an outcome.

    A leader may be killed between the record of a request and the request: its pod is evicted
    after that has ended as failed.
    """
    pending: set[str] = set()
    twice: list[str] = []
    for event in read_events(folder):
        if event.type == EVICTION_REQUESTED:
            twice += pending & {event.data.who.uid}
            pending.add(event.data.who.uid)
        elif event.type in EVICTION_OUTCOME_TYPES:
            pending.discard(event.data.who.uid)
    return twice


def leaders(folder: Path) -> list[tuple[str, str, int]]:
    """Return holder, previous holder and transitions of each record of a change."""
    changes = (event.data for event in read_events(folder) if event.type == LEADER_CHANGED)
    return [(each.holder, each.previous, each.transitions) for each in changes]


def all_left(cluster: Any, uids: object, node: str) -> bool:
    return not set(cluster.pods_on(node)) & set(uids)  # type: ignore[call-overload]  # a dict


def movable(cluster: Any, node: str) -> list[str]:
    """Return the pods on a node that a taint makes leave."""
    return [uid for uid, kind in cluster.pods_on(node).items() if kind != "DaemonSet"]


def test_a_standby_is_ready_follows_the_cluster_and_evicts_nothing(
    cluster: Any, leader: Any, standby: Any, tmp_path: Path
) -> None:
    pods = movable(cluster, NODE)
    cluster.taint(NODE, "gpu")
    leader.wait_until(lambda: all_left(cluster, pods, NODE))

    code, text = get(standby, "/readyz?verbose")
    assert code == 200
    assert f"[+]leader: standby: the leader is {holder(cluster)}; " in text
    assert "[+]journal: standby: " in text
    assert "[!]" not in text
    assert get(standby, "/readyz") == (200, "ok")
    assert "reactive_desched_leader 0.0\n" in get(standby, "/metrics")[1]
    assert "reactive_desched_leader 1.0\n" in get(leader, "/metrics")[1]
    assert "[+]leader ok\n" in get(leader, "/readyz?verbose")[1]
    assert "] evicted " not in standby.output
    assert leaders(tmp_path / "journal") == [(holder(cluster), "", 0)]


def test_after_a_kill_the_standby_continues_with_limits_and_open_intents_known(
    cluster: Any, leader: Any, standby: Any, tmp_path: Path
) -> None:
    first, pods = holder(cluster), movable(cluster, NODE)
    cluster.taint(NODE, "gpu")
    leader.wait_until(lambda: "] evicted " in leader.output)
    leader.process.send_signal(signal.SIGKILL)
    standby.wait_for(ACQUIRED)
    standby.wait_until(lambda: all_left(cluster, pods, NODE))

    journal = tmp_path / "journal"
    standby.wait_until(lambda: len(leaders(journal)) == 2)
    assert requested_while_open(journal) == []
    assert leaders(journal) == [
        (first, "", 0),
        (holder(cluster), first, 1),
    ]


def test_a_new_leader_without_the_record_of_the_last_one_begins_with_limits_used_up(
    leader: Any, controller: Start, policy: Path, tmp_path: Path
) -> None:
    limited = tmp_path / "limited.yaml"
    limited.write_text(
        policy.read_text().replace("cluster: null", "cluster: {evictions: 1, per: 1h, burst: 5}", 1)
    )
    arguments = "--policy", str(limited), "--journal", str(tmp_path / "own"), *ELECTION
    own = controller(*arguments)
    own.wait_for("the cluster is synced")
    leader.process.send_signal(signal.SIGKILL)
    own.wait_for(ACQUIRED)

    own.wait_for("no record of the last leader's evictions: limits count as used up")
    assert tokens(own) < 1
    own.wait_until(lambda: len(leaders(tmp_path / "own")) == 1)
    own.process.send_signal(signal.SIGKILL)
    again = controller(*arguments)
    again.wait_for("the cluster is synced")
    again.wait_for(ACQUIRED)
    again.wait_until(lambda: len(leaders(tmp_path / "own")) == 2)
    assert "limits count as used up" not in again.output
    assert tokens(again) == 5


def test_a_clean_stop_gives_the_lease_up_and_the_standby_takes_over_at_once(
    cluster: Any, leader: Any, standby: Any, tmp_path: Path
) -> None:
    first = holder(cluster)
    assert leader.stop() == 0
    standby.wait_for(ACQUIRED)

    assert "released the lease" in leader.output
    standby.wait_until(lambda: len(leaders(tmp_path / "journal")) == 3)
    assert leaders(tmp_path / "journal") == [
        (first, "", 0),
        ("", first, 0),
        (holder(cluster), "", 1),
    ]


def test_a_leader_that_was_stopped_is_dead_before_it_wakes(
    cluster: Any, leader: Any, standby: Any, tmp_path: Path
) -> None:
    leader.process.send_signal(signal.SIGSTOP)
    standby.wait_for(ACQUIRED)
    pods = movable(cluster, NODE)
    cluster.taint(NODE, "gpu")
    standby.wait_until(lambda: all_left(cluster, pods, NODE))
    leader.process.send_signal(signal.SIGCONT)

    assert leader.process.wait(60) == -signal.SIGKILL
    assert "] evicted " not in leader.output
    assert sorted(requested(tmp_path / "journal")) == sorted(pods)


def test_a_leader_whose_lease_another_took_stops_acting_and_ends_with_status_1(
    cluster: Any, leader: Any, golden: Golden
) -> None:
    cluster.call("PATCH", LEASE, {"spec": {"holderIdentity": "thief"}})
    leader.process.wait(60)
    pods = movable(cluster, OTHER)
    cluster.taint(OTHER, "gpu")
    time.sleep(1)

    assert leader.process.wait(60) == 1
    assert golden() in leader.output
    assert set(movable(cluster, OTHER)) == set(pods)


def test_a_new_leader_whose_journal_is_in_use_gives_the_lease_up(
    cluster: Any, controller: Start, golden: Golden
) -> None:
    owner = controller()  # without election: it has the journal, and stands for no Lease
    owner.wait_for("the cluster is synced")
    candidate = controller(*ELECTION)
    candidate.wait_for(ACQUIRED)
    words = "the journal is in use by process"
    wait_until(
        lambda: words in get(candidate, "/readyz?verbose")[1],
        within_s=60,
        what="the candidate says that the journal is in use",
    )

    assert candidate.process.wait(60) == 1
    written = candidate.output.splitlines()
    assert any(golden() in line for line in written if line.startswith("reactive-desched: "))
    assert holder(cluster) == ""


def test_a_dry_run_takes_no_lease(cluster: Any, controller: Start) -> None:
    program = controller(*ELECTION, "--dry-run")
    program.wait_for("it takes no part in leader election")
    program.wait_for("the cluster is synced")

    assert json.dumps(cluster.call("GET", LEASE.rpartition("/")[0])["items"]) == "[]"


def test_one_sweep_with_leader_election_is_refused(controller: Start, golden: Golden) -> None:
    program = controller(*ELECTION, "--once")

    assert program.process.wait(60) == 2
    assert golden() in program.output
