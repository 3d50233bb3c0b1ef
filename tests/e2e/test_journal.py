"""What became of the record on a real control plane: an end that is missing, a folder that is new.

Its readers are the index and the sinks that every controller has, and clients of the stream.
"""

import shutil
import socket
from pathlib import Path

import pytest

from reactive_desched.api.event import DECISION_REFUSE, EPOCH_BEGAN
from reactive_desched.cli import main
from reactive_desched.journal.cursors import highest_acked
from reactive_desched.journal.events import read_events
from reactive_desched.journal.segments import list_segments
from tests.support import manifests
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.limits import UNLIMITED
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

QUICK = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 0s}\nevictions: {maxInFlight: 1}\n"
) + UNLIMITED
CUT = 10
"""So many records are missing at the end."""
PODS, ROUNDS = 40, 6
"""What they write is more than a client that reads nothing and its connection hold."""


def test_an_end_that_was_cut_off_is_named_after_a_start_and_a_stop(
    playground: E2ENamespace,
    kubeconfig: Path,
    referee: AuditCrosscheck,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    playground.add_nodes("n1")
    doomed = playground.deploy("web", 4)
    playground.add_nodes("n2")
    controller = ControllerProcess(tmp_path, kubeconfig, playground.policy(), QUICK)
    with controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        playground.await_healthy("web", 4, off="n1")
        wait_until(
            lambda: highest_acked(controller.journal) > 2 * CUT, within_s=60, what="it is read"
        )
        assert controller.stop() == 0, controller.tail()
    assert {each.uid for each in referee.evicted()} == doomed.keys()
    last = highest_acked(controller.journal)
    [segment] = list_segments(controller.journal)
    lines = segment.path.read_bytes().splitlines(keepends=True)
    segment.path.write_bytes(b"".join(lines[: last - CUT]))

    with controller:
        assert controller.stop() == 0, controller.tail()

    missing = f"records {last - CUT + 1} to {last}"
    [began] = [each.data for each in read_events(controller.journal) if each.type == EPOCH_BEGAN]
    assert (began.first_missing, began.last_missing) == (last - CUT + 1, last)
    assert main(["audit", "verify", "--journal", str(controller.journal)]) == 1
    assert missing in capsys.readouterr().out
    main(["audit", "status", "--journal", str(controller.journal)])
    assert missing in capsys.readouterr().out


def test_a_folder_that_was_made_again_stops_evictions_and_says_that_a_restart_helps(
    playground: E2ENamespace, kubeconfig: Path, referee: AuditCrosscheck, tmp_path: Path
) -> None:
    playground.add_nodes("n1", pool="a")
    playground.add_nodes("n2", pool="b")
    first = playground.deploy("first", 1, affinity=manifests.requires("pool", "a"))
    second = playground.deploy("second", 1, affinity=manifests.requires("pool", "b"))
    playground.add_nodes("n3", pool="a")
    playground.add_nodes("n4", pool="b")

    with ControllerProcess(tmp_path, kubeconfig, playground.policy(), QUICK) as controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        wait_until(referee.evicted, within_s=60, what="an eviction")
        gone = controller.journal.rename(tmp_path / "gone")  # nothing is made in it any more
        shutil.rmtree(gone)
        controller.journal.mkdir()
        playground.taint("n2", "gpu=yes:NoSchedule")
        wait_until(
            lambda: "restart this process" in controller.page("/readyz?verbose"),
            within_s=60,
            what="it says what to do",
        )
        assert controller.probe("/readyz") == 503
        assert {each.uid for each in referee.audited()} == first.keys()
        controller.kill()
        controller.start()
        playground.await_healthy("second", 1, off="n2")

    assert {each.uid for each in referee.evicted()} == first.keys() | second.keys()


def test_a_client_that_reads_again_learns_where_it_was_cut_off_and_another_gets_the_end(
    playground: E2ENamespace, kubeconfig: Path, tmp_path: Path
) -> None:
    settings = QUICK.replace("quiet: 0s", "quiet: 0s, flapping: null")
    settings += "sinks: {stream: {stalledAfter: 4s}}\n"
    playground.add_nodes("n1")
    playground.deploy("web", PODS, cpu="10m")

    with ControllerProcess(tmp_path, kubeconfig, playground.policy(), settings) as controller:

        def await_refusals(count: int) -> None:
            def are_there() -> bool:
                events = read_events(controller.journal)
                return sum(event.type == DECISION_REFUSE for event in events) >= count

            wait_until(are_there, within_s=60, what="no other node fits")

        assert controller.probe("/events?follow=false&follow=maybe") == 400
        with stream_of(controller) as slow:
            for number in range(1, ROUNDS + 1):
                playground.taint("n1", f"gpu{number}=yes:NoSchedule")
                await_refusals(PODS * number)
                playground.taint("n1", f"gpu{number}-")
                wait_until(  # one that sees both taints in one picture decides nothing anew
                    lambda: playground.namespace not in controller.page("/debug/pending"),
                    within_s=60,
                    what="nothing is wrong",
                )
            wait_until(
                lambda: controller.metric("stream_clients_cut_total"),
                within_s=60,
                what="the client that reads nothing is cut off",
                every_s=0.05,
            )
            end = read_all(slow)
        with stream_of(controller) as good:
            assert controller.stop() == 0, controller.tail()
            assert b"event: audit.checkpoint" in read_all(good)
    assert b"the last id is" in end[-300:]


def stream_of(controller: ControllerProcess) -> socket.socket:
    """Ask for the stream of events, and read nothing of it but its head."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(60)
    client.connect(("127.0.0.1", int(controller.url.rpartition(":")[2])))
    client.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert b" 200 " in client.recv(64)
    return client


def read_all(client: socket.socket) -> bytes:
    """Read a stream to its end."""
    return b"".join(iter(lambda: client.recv(1 << 16), b""))
