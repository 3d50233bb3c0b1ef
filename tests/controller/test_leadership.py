"""A controller acts in its term alone, up to the moment before the request."""

import subprocess
import sys

import anyio
import pytest

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.health import build_health
from reactive_desched.controller.readiness import STARTUP, STOPPING
from reactive_desched.election.leadership import LAPSED
from reactive_desched.eviction.recorder import NOT_OPEN
from reactive_desched.model.modes import MODE_TEXTS
from reactive_desched.model.outcomes import CANCELLED
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.testing.builders import node, pod
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PAST, FUTURE = -1.0, 1.0  # of the clock that these controllers have, which stands still at 0
TAINTED, WEB = node("n1", "gpu:NoSchedule"), pod("web", on="n1")


def standby() -> FakeEdgesController:
    flow = FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()))
    flow.controller.pauses.leadership.follow("x")
    return flow


async def test_a_standby_follows_the_cluster_and_acts_when_its_term_begins(golden: Golden) -> None:
    flow = standby()
    async with flow.running():
        flow.sync_and_resume(TAINTED, node("n2"), WEB)
        await anyio.sleep(60)
        assert flow.controller.pauses.check() == golden()
        assert flow.evicted_names == []

        flow.controller.pauses.leadership.renew(FUTURE)
        flow.controller.pauses.leadership.begin()
        flow.controller.pauses.check()
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


@pytest.mark.parametrize("ending", ["lapse", "loss"])
async def test_no_request_is_sent_when_the_term_ends_while_its_intent_is_written(
    ending: str,
) -> None:
    flow = FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()))
    flow.intent_store.slow_s = 1.0
    leadership = flow.controller.pauses.leadership
    leadership.renew(FUTURE)
    async with flow.running():
        flow.sync_and_resume(TAINTED, node("n2"), WEB)
        await anyio.sleep(0.5)
        leadership.renew(PAST) if ending == "lapse" else leadership.end("x holds the Lease")
        await anyio.sleep(60)

    assert flow.evictor.calls == []
    assert [line[:2] for line in flow.intent_store.lines] == [("intent", "web"), ("outcome", "web")]
    assert [result for _, result in flow.observer.outcomes] == [CANCELLED]
    reason = LAPSED if ending == "lapse" else "x holds the Lease"
    assert flow.controller.pauses.check() == f"leader: {reason}"


async def test_a_standby_is_ready_when_it_is_in_sync_and_not_stopping(golden: Golden) -> None:
    flow = standby()
    health = build_health(flow.pipeline, ActiveConfig(flow.config), dry_run=False)
    assert not health.readyz().ok

    flow.deliver_list(TAINTED)
    flow.intent_store.fault = NOT_OPEN  # as on every standby
    report = health.readyz()
    assert report.ok
    lines = report.text(verbose=True).splitlines()
    assert "\n".join(line for line in lines if not line.startswith("[+]sync/")) == golden()

    flow.readiness.pause(STOPPING, "the controller is stopping")
    assert not health.readyz().ok


@pytest.mark.parametrize(
    "reason",
    ["no leader yet", "the Lease: timed out", "elected: disk full"],
)
async def test_a_standby_of_no_leader_is_ready_with_a_reservation(reason: str) -> None:
    flow = standby()
    flow.controller.pauses.leadership.stand_by(reason)
    health = build_health(flow.pipeline, ActiveConfig(flow.config), dry_run=False)
    flow.deliver_list(TAINTED)

    text = health.readyz().text(verbose=True)
    assert health.readyz().ok
    assert f"[!]leader: {reason}\n" in text
    assert "[!]state: standby: " in text


async def test_a_standby_in_dry_run_has_the_mode_of_any_dry_run() -> None:
    flow = standby()
    health = build_health(flow.pipeline, ActiveConfig(flow.config), dry_run=True)

    assert health.readyz().info["mode"].message == MODE_TEXTS["dry run"]


async def test_a_leader_is_not_ready_before_it_could_evict_nor_after_its_term() -> None:
    flow = FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()))
    health = build_health(flow.pipeline, ActiveConfig(flow.config), dry_run=False)
    flow.deliver_list(TAINTED)
    assert not health.readyz().ok

    flow.resume(STARTUP)
    assert health.readyz().ok

    flow.controller.pauses.leadership.end("x holds the Lease")
    assert not health.readyz().ok


def test_a_controller_that_stands_for_no_lease_loads_nothing_of_the_election() -> None:
    program = (
        "import sys; import reactive_desched.app.run;"
        "print(*(name for name in sys.modules if name.startswith('reactive_desched')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    loaded = set(done.stdout.split())
    assert "reactive_desched.app.controller" in loaded
    assert not loaded & {
        "reactive_desched.app.election",
        "reactive_desched.election.elector",
        "reactive_desched.election.kill_timer",
        "reactive_desched.kube.client.leases",
    }


@pytest.mark.parametrize(
    "dry_run",
    [
        pytest.param(False, id="live"),
        pytest.param(True, id="dry run"),
    ],
)
async def test_readyz_says_whether_pods_are_evicted(golden: Golden, *, dry_run: bool) -> None:
    flow = FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()))
    health = build_health(flow.pipeline, ActiveConfig(flow.config), dry_run=dry_run)
    flow.deliver_list(TAINTED)
    flow.resume(STARTUP)

    assert health.readyz().ok
    assert golden() + "\n" in health.readyz().text(verbose=True)
