"""Pauses have names: ending one leaves the others, and the first that holds is the reason."""

import anyio
import pytest

from reactive_desched.controller.readiness import (
    BRAKE,
    CLUSTER,
    JOURNAL,
    LEADER,
    MANUAL,
    STARTUP,
    STOPPING,
    PauseStatus,
    Readiness,
)
from reactive_desched.model.observer import Observer
from reactive_desched.model.rights import Right
from reactive_desched.primitives.wakeup import Wakeup
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio


class Pauses(Observer):
    """Keeps the reasons."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def on_pause(self, reason: str) -> None:
        self.reasons.append(reason)


class Bench:
    """The readiness over two resources, both in sync unless told otherwise."""

    def __init__(self, *, ready: bool = True) -> None:
        self.observer = Pauses()
        self.work_available = Wakeup()
        self.readiness = Readiness(("nodes", "pods"), self.observer, self.work_available)
        if ready:
            for name in (STARTUP, "sync/nodes", "sync/pods"):
                self.readiness.resume(name)
            self.observer.reasons.clear()


def test_at_first_the_start_and_every_sync_pause_the_controller() -> None:
    readiness = Bench(ready=False).readiness

    held = [name for name, status in readiness.pauses.items() if status.reason]
    assert held == [STARTUP, "sync/nodes", "sync/pods"]
    assert list(readiness.pauses) == [
        *(STOPPING, CLUSTER, LEADER, STARTUP, MANUAL, BRAKE, JOURNAL),
        *("sync/nodes", "sync/pods"),
    ]


def test_what_several_requests_met_is_said_once() -> None:
    bench = Bench()
    refused = "cannot connect to 127.0.0.1:9: Connection refused"
    bench.readiness.pause("sync/nodes", f"GET /api/v1/nodes: {refused}")
    assert bench.readiness.message() == f"sync/nodes: GET /api/v1/nodes: {refused}"

    bench.readiness.pause("sync/pods", f"GET /api/v1/pods?limit=5: {refused}")
    assert bench.readiness.message() == f"sync/nodes, sync/pods: {refused}"


@pytest.mark.parametrize("other", [STARTUP, MANUAL, BRAKE, JOURNAL, "sync/pods"])
def test_ending_one_pause_leaves_another(other: str) -> None:
    bench = Bench()
    bench.readiness.pause(LEADER, "another replica leads")
    bench.readiness.pause(other, "for a while")
    bench.readiness.resume(other)

    assert bench.readiness.reason == "leader: another replica leads"


def test_the_observer_learns_of_each_change_of_the_first_reason() -> None:
    bench = Bench()
    bench.readiness.pause("sync/pods", "reset")
    bench.readiness.pause("sync/pods", "reset")
    bench.readiness.pause(JOURNAL, "disk full")
    bench.readiness.resume("sync/pods")
    bench.readiness.resume(JOURNAL)

    assert bench.observer.reasons == ["sync/pods: reset", "journal: disk full", ""]


def test_the_message_names_every_pause_and_denial_also_when_a_kind_is_given_up() -> None:
    bench = Bench()
    bench.readiness.go_without("sync/nodes", PauseStatus(note="not watched: 403"))
    assert bench.readiness.message() == ""
    bench.readiness.pause(JOURNAL, "reset")
    bench.readiness.pause("sync/pods", "reset")

    assert bench.readiness.message() == "journal, sync/pods: reset"

    bench.readiness.pause("sync/nodes", "403")
    denied = bench.readiness.message()
    assert denied == "journal, sync/pods: reset; sync/nodes: 403"
    bench.readiness.go_without("sync/nodes", PauseStatus(note="going without", denial="403"))
    assert bench.readiness.message() == denied


NODES, PODS = (Right("", name, ("list", "watch")) for name in ("nodes", "pods"))


def test_the_rights_that_would_end_the_pauses_are_said_last_and_in_one_command(
    golden: Golden,
) -> None:
    bench = Bench()
    bench.readiness.pause("sync/nodes", "watch /api/v1/nodes: 403 no", NODES)
    bench.readiness.pause("sync/pods", "GET /api/v1/pods: 403 no", PODS)

    assert bench.readiness.message() == golden()
    assert bench.readiness.pauses["sync/pods"].text.startswith("GET /api/v1/pods: 403 no; grant {")
    assert bench.readiness.reason.startswith("sync/nodes: watch /api/v1/nodes: 403 no; grant {")


def test_what_nothing_reads_pauses_again_once_it_is_read() -> None:
    bench = Bench()
    bench.readiness.set_asked({"nodes"})
    assert not bench.readiness.asks_for("pods")
    without = PauseStatus(note="not watched", denial="403", right=PODS, is_unasked=True)
    bench.readiness.go_without("sync/pods", without)
    bench.readiness.set_asked({"nodes"})
    assert bench.readiness.reason == ""

    bench.readiness.set_asked({"nodes", "pods"})

    assert bench.readiness.pauses["sync/pods"] == PauseStatus("403", right=PODS)


def test_a_name_that_is_none_is_an_error() -> None:
    with pytest.raises(KeyError):
        Bench().readiness.pause("sync/secrets", "its first list is not complete")


async def test_work_is_available_when_the_last_pause_ends() -> None:
    bench = Bench()
    bench.readiness.pause(MANUAL, "maintenance")
    bench.readiness.pause(BRAKE, "zone a is down")
    async with anyio.create_task_group() as group:
        group.start_soon(bench.work_available.wait)
        await anyio.wait_all_tasks_blocked()
        bench.readiness.resume(MANUAL)
        await anyio.wait_all_tasks_blocked()
        assert bench.work_available._event is not None, "still waiting"
        bench.readiness.resume(BRAKE)


def test_a_doubt_about_the_sync_pauses_what_was_in_sync_and_advances_the_epoch(
    golden: Golden,
) -> None:
    bench = Bench()
    bench.readiness.go_without("sync/nodes", PauseStatus(note="not watched: 403"))
    bench.readiness.pause_sync("the process was suspended for 40 s")

    assert bench.readiness.pauses["sync/nodes"] == PauseStatus(note="not watched: 403")
    assert bench.readiness.reason == golden()
    assert bench.readiness.epoch.number == 1


def test_the_first_sync_of_every_resource_is_an_event_of_its_own() -> None:
    readiness = Bench(ready=False).readiness
    readiness.pause(LEADER, "another replica leads")
    readiness.resume("sync/nodes")
    assert not readiness.synced.is_set()

    readiness.resume("sync/pods")

    assert readiness.synced.is_set()
    assert readiness.reason


def test_a_normal_start_and_a_standby_are_no_reason_for_a_warning() -> None:
    bench = Bench(ready=False)
    assert bench.readiness.is_starting()

    bench.readiness.resume("sync/nodes")
    bench.readiness.pause(LEADER, "the leader is x")
    assert bench.readiness.is_starting()

    bench.readiness.pause("sync/pods", "403: no")
    assert not bench.readiness.is_starting()


def test_a_follower_is_called_with_each_pause_that_is_set_or_ended_while_it_follows() -> None:
    bench = Bench()
    seen: list[tuple[str, str]] = []
    with bench.readiness.followed_by(lambda name, reason: seen.append((name, reason))):
        bench.readiness.pause(BRAKE, "no node is Ready")
        bench.readiness.pause(BRAKE, "no node is Ready")
        bench.readiness.resume(BRAKE)
        bench.readiness.pause_sync("suspended")
    bench.readiness.resume("sync/nodes")

    assert seen[:2] == [(BRAKE, "no node is Ready"), (BRAKE, "")]
    assert set(seen[2:]) == {("sync/nodes", "suspended"), ("sync/pods", "suspended")}
