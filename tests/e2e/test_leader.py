"""Two controllers on a real control plane: killed, stopped or cut off, one leader at a time.

The times are those that people run: 15 s, 10 s and 2 s. `LEASE_S=8` runs shorter ones, with which a
leader loses its Lease where its machine stands still for five seconds.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from reactive_desched.api.event import EVICTION_REQUESTED, LEADER_CHANGED
from reactive_desched.journal.events import read_events
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import PictureBegun, TermChanged
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.segments import ignore_damage, recording_paths
from tests.e2e.conftest import NAMESPACE, ROOT, SETTINGS, new_playground, new_referee
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.playground import E2ENamespace
from tests.support.tcp_link import TcpLink

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

LEASE_S = float(os.environ.get("LEASE_S", "15"))
TAKE_OVER_S = 20 / 15 * LEASE_S + 3
"""20 s, and some seconds for the processes of a busy machine."""
PAUSE_S = 3 * LEASE_S
ELECTION = (
    "--leader-elect",
    f"--leader-elect-lease-duration={LEASE_S:g}s",
    f"--leader-elect-renew-deadline={LEASE_S * 2 / 3:g}s",
    f"--leader-elect-retry-period={LEASE_S * 2 / 15:g}s",
    f"--leader-elect-resource-namespace={NAMESPACE}",
    f"--leader-elect-resource-name={NAMESPACE}",
)
# One eviction in half a second, so that a fault comes between two of them. A pod whose request the
# former leader left open in one journal is evicted 30 s after `totalTimeout`, which is a minute
# unless set: it is longer than a Lease here, as there.
PACED = (
    SETTINGS.replace("cluster: null", "cluster: {evictions: 120, per: 1m, burst: 1}")
    + f"client: {{readTimeout: {2 * LEASE_S:g}s, totalTimeout: {2 * LEASE_S:g}s}}\n"
)
PODS = 30
BEGINNINGS = 3
FIGURES = logging.getLogger("figures")  # shown by --log-cli-level=INFO


class Call(NamedTuple):
    """One eviction request, by the journal of who sent it."""

    at_s: float
    who: str
    uid: str


@dataclass
class Replicas:
    """Two controllers over one playground; `shared` says whether they have one journal."""

    folder: Path
    kubeconfig: Path
    policy: str
    link: TcpLink
    names: tuple[str, str] = ("a", "b")
    shared: bool = False
    processes: dict[str, ControllerProcess] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def start(self, name: str) -> ControllerProcess:
        folder = self.folder / name
        folder.mkdir(parents=True)
        kubeconfig = self.kubeconfig
        if name == self.names[0]:  # its way to the API server can be cut
            kubeconfig = folder / "kubeconfig"
            text, port = self.kubeconfig.read_text(), self.link.port
            server = text.partition('"server": "https://127.0.0.1:')[2].partition('"')[0]
            kubeconfig.write_text(text.replace(f"127.0.0.1:{server}", f"127.0.0.1:{port}"))
        options = (*ELECTION, f"--journal={self.journal(name)}")
        process = ControllerProcess(folder, kubeconfig, self.policy, PACED, options)
        self.processes[name] = self._stack.enter_context(process)
        return process

    def journal(self, name: str) -> Path:
        return self.folder / ("shared" if self.shared else name) / "journal"

    def calls(self) -> list[Call]:
        """Return the requests of all, oldest first."""
        journals = {self.journal(name): name for name in self.names}
        return sorted(
            Call(event.time.timestamp(), name, event.data.who.uid)
            for folder, name in journals.items()
            for event in read_events(folder)
            if event.type == EVICTION_REQUESTED
        )

    def end(self) -> None:
        self._stack.close()


@pytest.fixture
def lease_role(control_plane: ControlPlane, kubeconfig: Path) -> None:
    """Grant what the overlay of two replicas grants, and no more."""
    del kubeconfig  # which has the namespace and the account
    path = ROOT / "deploy" / "overlays" / "ha" / "lease-rbac.yaml"
    control_plane.kubectl().run("apply", "-f", str(path))


def holder(control_plane: ControlPlane) -> str:
    lease = ("get", "lease", NAMESPACE, "-n", NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}")
    return control_plane.kubectl().run(*lease)


def events_of_the_lease(control_plane: ControlPlane) -> set[str]:
    """Return what Kubernetes Events say of the Lease."""
    about = f"regarding.kind=Lease,regarding.name={NAMESPACE}"
    options = ("-n", NAMESPACE, "--field-selector", about)
    return {each["note"] for each in control_plane.kubectl().get("events.events.k8s.io", *options)}


class Begun(NamedTuple):
    """Two controllers, of which `a` leads and evicts the first of thirty pods."""

    both: Replicas
    playground: E2ENamespace
    referee: AuditCrosscheck
    first: str
    """The holder of the Lease."""


Begin = Callable[..., Begun]
"""Begins, with one journal or two."""


@pytest.fixture
def begin(
    lease_role: None,
    control_plane: ControlPlane,
    kubeconfig: Path,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> Iterator[Begin]:
    """Begin with a node of thirty pods that could run on two others.

    A machine that stands still for longer than the Lease takes it from `a` before a test does:
    then all of it begins anew, with other pods.
    """
    port = int(control_plane.url.rpartition(":")[2])
    with ExitStack() as stack:

        def begun(*, shared: bool) -> Begun:
            for number in range(BEGINNINGS):
                playground = stack.enter_context(new_playground(control_plane, request))
                playground.add_nodes("n1")
                playground.deploy("web", PODS, cpu="10m")
                playground.add_nodes("n2", "n3")
                link, folder = stack.enter_context(TcpLink(port)), tmp_path / str(number)
                both = Replicas(folder, kubeconfig, playground.policy(), link, shared=shared)
                stack.callback(both.end)
                referee = new_referee(control_plane)
                first = lead_and_follow(both, control_plane)
                begin_evictions(playground, referee)
                if leads_still(both, first, control_plane):
                    return Begun(both, playground, referee, first)
                FIGURES.warning("a lost the Lease before anything failed: begin anew")
                both.end()
            raise AssertionError(f"{BEGINNINGS} times a lost the Lease before anything failed")

        yield begun


def lead_and_follow(both: Replicas, control_plane: ControlPlane) -> str:
    """Start `a`, wait until it leads, and start `b`, which stands by; return the holder."""
    leader = both.start("a")
    wait_until(lambda: leader.metric("leader") == 1, within_s=60, what="a leads", every_s=0.1)
    first = holder(control_plane)
    both.start("b")
    return first


def leads_still(both: Replicas, first: str, control_plane: ControlPlane) -> bool:
    """Say whether `a` leads and `b` stands by."""
    leading = {name: process.metric("leader") for name, process in both.processes.items()}
    return leading == {"a": 1, "b": 0} and holder(control_plane) == first


def begin_evictions(playground: E2ENamespace, referee: AuditCrosscheck) -> None:
    """Have thirty pods wait for an eviction, and return when some are evicted."""
    playground.taint("n1", "gpu=yes:NoSchedule")
    wait_until(lambda: len(referee.evicted()) >= 5, within_s=60, what="evictions", every_s=0.05)


def await_take_over(both: Replicas, first: str, since: float) -> float:
    """Wait until `b` follows the first leader; return how long after `since`, by its record."""

    def began_at() -> float | None:
        events = (each for each in read_events(both.journal("b")) if each.type == LEADER_CHANGED)
        followed = [each.time.timestamp() for each in events if each.data.holder not in ("", first)]
        return followed[-1] if followed else None

    return wait_until(began_at, within_s=60, what="b leads") - since


def check_the_books(
    both: Replicas, referee: AuditCrosscheck, took_s: float, *, killed: bool = False
) -> None:
    """Never two calls for one pod, and never did the one act after the other had begun.

    The server gives up a request whose sender was killed before the answer: the next leader asks
    for that pod again. The server agrees to one of the two at most.
    """
    calls = both.calls()
    asked = Counter(each.uid for each in referee.audited())
    agreed = referee.evicted_at()  # which fails where that was twice
    assert len(asked) >= PODS
    assert agreed.keys() == asked.keys()
    twice = {uid: count for uid, count in asked.items() if count > 1}
    assert list(twice.values()) == ([2] if killed and twice else [])
    if not both.shared:
        last_of_a = max(call.at_s for call in calls if call.who == "a")
        first_of_b = min(call.at_s for call in calls if call.who == "b")
        FIGURES.info("the two's requests are %.1f s apart", first_of_b - last_of_a)
        assert last_of_a < first_of_b
    FIGURES.info("take-over after %.1f s; %s requests, %s pods", took_s, asked.total(), len(asked))
    assert took_s <= TAKE_OVER_S


@pytest.mark.parametrize("shared", [True, False], ids=["one journal", "two journals"])
@pytest.mark.parametrize("fault", ["killed", "stopped", "cut off"])
def test_a_leader_that_fails_is_followed_by_one_and_no_pod_is_asked_for_twice(
    begin: Begin, control_plane: ControlPlane, fault: str, *, shared: bool
) -> None:
    replicas, playground, referee, first = begin(shared=shared)
    leader = replicas.processes["a"]
    failed_at = time.time()
    match fault:
        case "killed":
            leader.kill()
        case "stopped":
            leader.freeze()
        case _:
            replicas.link.cut()
    took_s = await_take_over(replicas, first, failed_at)
    second = holder(control_plane)
    if fault == "stopped":
        time.sleep(max(0.0, failed_at + PAUSE_S - time.time()))
        leader.thaw()
    wait_until(lambda: not leader.alive, within_s=60, what="a has ended")
    playground.await_healthy("web", PODS, off="n1", within_s=180)
    assert replicas.processes["b"].stop() == 0, replicas.processes["b"].tail()

    check_the_books(replicas, referee, took_s, killed=fault == "killed")
    assert first != second
    assert holder(control_plane) == ""
    changes = [
        (event.data.holder, event.data.previous)
        for event in read_events(replicas.journal("b"))
        if event.type == LEADER_CHANGED
    ]
    assert changes[-2:] == [(second, first), ("", second)]
    assert f"{second} became leader" in events_of_the_lease(control_plane)
    assert referee.always_forbidden(control_plane.ready_since) == set()


@pytest.mark.parametrize("shared", [True, False], ids=["one journal", "two journals"])
def test_a_leader_that_is_asked_to_end_is_followed_at_once_and_the_next_one_is_restarted(
    begin: Begin, *, shared: bool
) -> None:
    """The recording of `b` has a change of leader and a restart; it must replay equal as a whole.

    With one journal it also has the time of `a`.
    """
    replicas, playground, referee, first = begin(shared=shared)
    follower = replicas.processes["b"]
    assert replicas.processes["a"].stop() == 0
    took_s = await_take_over(replicas, first, time.time())
    evicted = len(referee.evicted())
    wait_until(lambda: len(referee.evicted()) >= evicted + 3, within_s=60, what="b evicts")
    journal = replicas.journal("b")
    led = "its recording, which is written every few seconds, shows that b leads"
    wait_until(lambda: terms_recorded(journal)[-1][-1:] == [True], within_s=60, what=led)
    follower.kill()
    follower.start()
    wait_until(lambda: follower.metric("leader") == 1, within_s=60, what="b leads again")
    assert len(referee.evicted()) < PODS, "it was restarted in the midst of them"
    playground.await_healthy("web", PODS, off="n1", within_s=180)
    assert follower.stop() == 0

    check_the_books(replicas, referee, took_s, killed=True)
    assert took_s < LEASE_S
    terms = terms_recorded(journal)
    assert [each[-1:] for each in terms] == [[True]] * (3 if shared else 2)
    assert shared or terms[0] == [False, True]


def terms_recorded(journal: Path) -> list[list[bool]]:
    """Return of each process that recorded beside a journal whether it led, as that changed."""
    processes: list[list[bool]] = []
    for item in read_items(recording_paths(journal / RECORDING_FOLDER), ignore_damage):
        if isinstance(item, PictureBegun) and not item.is_continued:
            processes.append([])
        elif isinstance(item, TermChanged) and processes[-1][-1:] != [item.leads]:
            processes[-1].append(item.leads)
    return processes
