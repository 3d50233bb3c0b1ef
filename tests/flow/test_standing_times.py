"""What passes by itself moves no pod, and what is decided moves its pods within seconds."""

from collections.abc import Mapping
from typing import Any, Final

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.objects import Node
from reactive_desched.plugins.node_affinity import (
    PREFERRED,
    REQUIRED,
    NodeAffinityArgs,
    NodeAffinityPlugin,
)
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.plugins.too_many_restarts import TooManyRestartsArgs, TooManyRestartsPlugin
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.testing.builders import READY, container, node, pod, pod_status
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio

PRESSURE, CILIUM = "node.kubernetes.io/memory-pressure", "node.cilium.io/agent-not-ready"
OTHER_GUARDS = tuple(set(GuardName) - {GuardName.STANDING_TIME})
STORM_OF_FIVE = BrakeSettings.model_validate({"zones": None, "pending": None, "storm": {"pods": 5}})
NO_ARGS: Final[Mapping[str, Any]] = {}
FREE = node("n2")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def controller(
    args: Mapping[str, object] = NO_ARGS, /, **standing_times: Any
) -> FakeEdgesController:
    """Return a controller that acts on taints, with the standing times alone as guard."""
    plugin = NodeTaintsPlugin(NodeTaintsArgs.model_validate(args))
    return FakeEdgesController(plugin, guards=guards(**standing_times))


def guards(**standing_times: object) -> GuardSettings:
    given = {"disabled": OTHER_GUARDS, "standing_times": standing_times}
    return GuardSettings.model_validate(given)


async def first_eviction_s(flow: FakeEdgesController, *steps: tuple[float, Node]) -> float | None:
    """Return how long after the first step the pod on n1 goes; a step has its time and a node."""
    async with flow.running():
        flow.sync_and_resume(node("n1"), FREE, pod("web", on="n1"))
        await anyio.sleep(1000)
        began_s = anyio.current_time()
        for at_s, changed in steps:
            await anyio.sleep(began_s + at_s - anyio.current_time())
            flow.deliver(changed)
        await anyio.sleep(3600)
    return flow.evictor.calls[0][1] - began_s if flow.evictor.calls else None


TAINTED = node("n1", "team=blue:NoSchedule")


async def test_a_taint_of_a_persons_own_key_counts_after_25_s() -> None:
    assert await first_eviction_s(controller(), (0, TAINTED)) == pytest.approx(25, abs=0.1)


@pytest.mark.parametrize(
    ("standing_times", "taint", "at_s"),
    [
        pytest.param({"other_taints_s": 2.0}, "team:NoSchedule", 2, id="all others"),
        pytest.param({"other_taints_s": 0.0}, "team:NoSchedule", 0, id="at once"),
        pytest.param({"by_taint": {"team": 1.0}}, "team:NoSchedule", 1, id="by its key"),
        pytest.param({"by_taint": {"a.io/*": 1.0}}, "a.io/b:NoSchedule", 1, id="by a pattern"),
        pytest.param({"by_taint": {"x": 1.0}}, "team:NoSchedule", 25, id="another key"),
    ],
)
async def test_the_settings_say_how_long_a_taint_must_stand(
    standing_times: dict[str, object], taint: str, at_s: float
) -> None:
    flow = controller(**standing_times)

    assert await first_eviction_s(flow, (0, node("n1", taint))) == pytest.approx(at_s, abs=0.1)


@pytest.mark.parametrize("args", [NO_ARGS, {"includedTaints": ("agent",)}], ids=["", "included"])
async def test_an_agent_of_an_unknown_name_that_restarts_in_20_s_moves_no_pod(
    args: Mapping[str, object],
) -> None:
    steps = (0, node("n1", "agent:NoSchedule")), (20, node("n1"))

    assert await first_eviction_s(controller(args), *steps) is None


async def test_a_taint_that_comes_and_goes_never_adds_up() -> None:
    steps = [
        (minute * 60.0 + at_s, each)
        for minute in range(60)
        for at_s, each in ((0, TAINTED), (20, node("n1")))
    ]

    assert await first_eviction_s(controller(), *steps) is None


async def test_a_renewed_taint_begins_anew() -> None:
    steps = (0, TAINTED), (20, node("n1")), (21, TAINTED)

    assert await first_eviction_s(controller(), *steps) == pytest.approx(46, abs=0.1)


async def test_another_value_of_a_taint_begins_anew() -> None:
    steps = (0, TAINTED), (20, node("n1", "team=red:NoSchedule"))

    assert await first_eviction_s(controller(), *steps) == pytest.approx(45, abs=0.1)


async def test_of_several_taints_the_one_that_counts_first_is_the_reason() -> None:
    flow = controller(by_taint={"slow": 100.0})

    gone_s = await first_eviction_s(flow, (0, node("n1", "slow:NoSchedule", "team:NoSchedule")))

    assert gone_s == pytest.approx(25, abs=0.1)
    [intent] = flow.intent_store.intents
    assert intent.context.finding.details["taintKey"] == "team"


@pytest.mark.parametrize("taint", [PRESSURE, CILIUM, "acme.io/agent-not-ready"])
async def test_what_a_system_takes_off_by_itself_moves_no_pod_unless_it_is_included(
    taint: str,
) -> None:
    marked = node("n1", f"{taint}:NoSchedule")

    assert await first_eviction_s(controller(), (0, marked)) is None
    included = controller({"includedTaints": (taint,)})
    assert await first_eviction_s(included, (0, marked)) == pytest.approx(60, abs=0.1)


async def test_a_soft_taint_must_stand_as_well_where_the_plugin_acts_on_it() -> None:
    flow = controller({"includePreferNoSchedule": True})

    gone_s = await first_eviction_s(flow, (0, node("n1", "team:PreferNoSchedule")))

    assert gone_s == pytest.approx(25, abs=0.1)


async def test_after_a_start_a_taint_counts_from_when_it_was_first_seen() -> None:
    async with controller().running() as flow:
        await anyio.sleep(100)
        flow.sync_and_resume(TAINTED, FREE, pod("web", on="n1"))
        await anyio.sleep(24)
        assert flow.evicted_names == []
        await anyio.sleep(2)

    assert flow.evicted_names == ["web"]


async def test_after_a_start_a_taint_that_says_since_when_it_stands_counts_from_then() -> None:
    async with controller().running() as flow:
        await anyio.sleep(100)
        flow.sync_and_resume(replace(TAINTED, taints_added_s=(90,)), FREE, pod("web", on="n1"))
        await anyio.sleep(14)
        assert flow.evicted_names == []
        await anyio.sleep(2)

    assert flow.evicted_names == ["web"]


async def test_a_pod_that_comes_to_a_taint_which_has_stood_goes_at_once() -> None:
    async with controller().running() as flow:
        flow.sync_and_resume(TAINTED, FREE)
        await anyio.sleep(100)
        flow.deliver(pod("web", on="n1"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


async def test_a_pod_waits_with_the_time_from_which_the_taint_counts() -> None:
    async with controller().running() as flow:
        await anyio.sleep(60)
        flow.sync_and_resume(TAINTED, FREE, pod("web", on="n1"))
        await anyio.sleep(1)
        [waiting] = flow.controller.evaluator.queue.pending()

    assert (waiting.decision.gate, waiting.decision.reason) == (
        "StandingTime",
        "ChangedTooRecently",
    )
    assert "may leave at 00:01:25 UTC" in waiting.decision.record(ClockPair(61, 61))
    assert waiting.until == pytest.approx(85, abs=0.1)


async def test_a_plugin_may_ignore_the_standing_time() -> None:
    plugin = NodeTaintsPlugin(NodeTaintsArgs())
    settings = GuardSettings.model_validate(
        {"disabled": OTHER_GUARDS, "ignored_by": {plugin.name: (GuardName.STANDING_TIME,)}}
    )

    gone_s = await first_eviction_s(FakeEdgesController(plugin, guards=settings), (0, TAINTED))

    assert gone_s == pytest.approx(0, abs=0.1)


async def test_a_storm_is_seen_once_the_taints_have_stood() -> None:
    flow = FakeEdgesController(
        NodeTaintsPlugin(NodeTaintsArgs()), guards=guards(), brakes=STORM_OF_FIVE
    )
    pods = [pod(f"p{number}", on="n1") for number in range(20)]
    async with flow.running():
        flow.sync_and_resume(node("n1"), FREE, *pods)
        await anyio.sleep(10)
        flow.deliver(TAINTED)
        await anyio.sleep(24)
        assert flow.intent_store.brakes == []
        await anyio.sleep(10)

    assert [notice.engaged for notice in flow.intent_store.brakes] == [True]
    assert len(flow.evicted_names) < 5


async def test_a_taint_that_may_pass_says_nothing_of_where_a_replacement_landed() -> None:
    flow = controller()
    async with flow.running():
        await anyio.sleep(100)
        evicted = pod("web-1", on="n1")
        flow.sync_and_resume(replace(TAINTED, taints_added_s=(0,)), FREE, node("n3"), evicted)
        await anyio.sleep(1)
        flow.delete(evicted)
        created = pod("web-2", created=int(anyio.current_time()), status=pod_status("Pending"))
        flow.deliver(created)
        await anyio.sleep(1)
        flow.deliver(replace(created, node="n2"), node("n2", "agent:NoSchedule"))
        await anyio.sleep(5)
        flow.deliver(replace(created, node="n2", status=READY))
        await anyio.sleep(10)
        flow.deliver(FREE)
        await anyio.sleep(60)

    assert flow.evicted_names == ["web-1"]
    assert [(end.result, end.finding_holds) for end in flow.intent_store.follow_ups] == [
        ("moved", False)
    ]


STATES: Final = {"kubevirt.io/schedulable": "true", "nvidia.com/mig.config.state": "success"}
LABELLED = node("n1", labels={"disk": "ssd", "nvidia.com/gpu.present": "true", **STATES})
AFFINITY = NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(REQUIRED, PREFERRED)))


async def gone_after(requires: str, *steps: tuple[float, Node]) -> float | None:
    """Return how long after the first step a pod goes that requires a label of its node."""
    flow = FakeEdgesController(AFFINITY, guards=guards())
    async with flow.running():
        other = node("n2", labels={**LABELLED.labels, "kubernetes.io/hostname": "n2"})
        flow.sync_and_resume(LABELLED, other, pod("web", on="n1", requires=requires))
        await anyio.sleep(1000)
        began_s = anyio.current_time()
        for at_s, changed in steps:
            await anyio.sleep(began_s + at_s - anyio.current_time())
            flow.deliver(changed)
        await anyio.sleep(3600)
    return flow.evictor.calls[0][1] - began_s if flow.evictor.calls else None


async def test_a_label_that_a_person_takes_away_counts_after_25_s() -> None:
    assert await gone_after("disk=ssd", (0, node("n1"))) == pytest.approx(25, abs=0.1)


async def test_a_label_that_is_back_within_20_s_moves_no_pod() -> None:
    assert await gone_after("disk=ssd", (0, node("n1")), (20, LABELLED)) is None


async def test_a_label_that_a_program_sets_may_be_gone_for_minutes() -> None:
    requires = "nvidia.com/gpu.present=true"

    assert await gone_after(requires, (0, node("n1")), (240, LABELLED)) is None
    assert await gone_after(requires, (0, node("n1"))) == pytest.approx(300, abs=0.1)


async def test_a_label_with_another_value_is_not_gone() -> None:
    off = node("n1", labels={"nvidia.com/gpu.present": "false"})

    gone_s = await gone_after("nvidia.com/gpu.present=true", (0, off))

    assert gone_s == pytest.approx(25, abs=0.1)


@pytest.mark.parametrize(("key", "value"), STATES.items())
async def test_a_label_that_says_how_an_agent_is_may_say_otherwise_for_minutes(
    key: str, value: str
) -> None:
    restarts = node("n1", labels={**LABELLED.labels, key: "false"})

    assert await gone_after(f"{key}={value}", (0, restarts), (240, LABELLED)) is None
    assert await gone_after(f"{key}={value}", (0, restarts)) == pytest.approx(300, abs=0.1)


async def test_a_node_that_was_made_long_ago_had_its_labels_before_the_start() -> None:
    flow = FakeEdgesController(AFFINITY, guards=guards())
    async with flow.running():
        await anyio.sleep(1000)
        made = replace(node("n1"), created_s=0)
        fit = node("n2", labels={"disk": "ssd"})
        flow.sync_and_resume(made, fit, pod("web", on="n1", requires="disk=ssd"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


async def test_restarts_count_once_their_node_has_been_ready_for_two_minutes() -> None:
    plugin = TooManyRestartsPlugin(TooManyRestartsArgs(pod_restart_threshold=5))
    flow = FakeEdgesController(plugin, guards=guards())
    calm, crashing = (
        pod("web", on="n1", status=pod_status("Running", container(restarts=n))) for n in (4, 7)
    )
    async with flow.running():
        flow.sync_and_resume(node("n1"), FREE, calm)
        await anyio.sleep(1000)
        flow.deliver(node("n1", ready="False"))
        flow.deliver(crashing)
        await anyio.sleep(30)
        flow.deliver(node("n1"))
        back_s = anyio.current_time()
        await anyio.sleep(600)

    assert [round(at_s - back_s) for _, at_s in flow.evictor.calls] == [120]


async def test_restarts_on_a_node_that_is_long_ready_count_at_once() -> None:
    plugin = TooManyRestartsPlugin(TooManyRestartsArgs(pod_restart_threshold=5))
    flow = FakeEdgesController(plugin, guards=guards())
    crashing = pod_status("Running", container(restarts=7))
    async with flow.running():
        flow.sync_and_resume(node("n1"), FREE, pod("web", on="n1"))
        await anyio.sleep(1000)
        flow.deliver(pod("web", on="n1", status=crashing))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]
