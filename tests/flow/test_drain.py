"""Drains of nodes: pods leave by the rules, a page says who is left, an empty node says so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.api.event import NodeDrained
from reactive_desched.app.node_drains import BEGIN_S, RETRY_S, Draining, NodeWrites
from reactive_desched.controller.node_drains import DrainState, NodeDrain, NodeDrains
from reactive_desched.controller.pending import PodProgress
from reactive_desched.errors import ConfigError, RequestRejected
from reactive_desched.model.modes import OBSERVE
from reactive_desched.model.objects import ZONE_LABEL, Annotations, Node, OwnerReference, Pod
from reactive_desched.model.outcomes import DryRun, TooManyRequests
from reactive_desched.plugins.drain_nodes import DrainNodesArgs, DrainNodesPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.policy.settings.controller_settings import ProfileSettings
from reactive_desched.policy.settings.drains import DrainRule
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio

WISH = "ada: a new kernel"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def to_be_drained(name: str, *, cordoned: bool = True, version: int = 1) -> Node:
    return replace(node(name, unschedulable=cordoned, version=version), drain=WISH)


def of_daemon_set(name: str, on: str) -> Pod:
    owner = OwnerReference("DaemonSet", "agent", "uid-agent", controller=True)
    return replace(pod(name, on=on), owners=(owner,))


class DrainingController(FakeEdgesController):
    """A controller with the page, whose marks on nodes come back as the watch would bring them."""

    def __init__(self, *plugins: Any, **parts: Any) -> None:
        chosen = plugins or (DrainNodesPlugin(DrainNodesArgs()),)
        super().__init__(*chosen, **{"moves": UNLIMITED_MOVES, **parts})
        self.marks: list[tuple[str, str | None]] = []
        self.refusal: RequestRejected | None = None
        self.log = RecordingLogger()
        self.requests: list[str] = []
        self.rules: list[DrainRule] = []
        writes = None if parts.get("dry_run") else NodeWrites(self._request, self._mark)
        self.draining = Draining(
            self.pipeline,
            self.intent_store,
            writes,
            lambda: self.rules,
            anyio.current_time,
            self.log,
        )

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Run the controller, and what follows drains, while the block lasts."""
        async with self.running(), anyio.create_task_group() as group:
            group.start_soon(self.draining.run)
            await anyio.sleep(1)
            yield
            group.cancel_scope.cancel()

    async def _request(self, node: Node, wish: str) -> None:
        self.requests.append(node.name)
        version = node.resource_version + 1
        self.deliver(replace(node, drain=wish, unschedulable=True, resource_version=version))

    async def _mark(self, node: Node, drained: str | None) -> None:
        self.marks.append((node.name, drained))
        if self.refusal is not None:
            raise self.refusal
        version = node.resource_version + 1
        self.deliver(replace(node, drained=drained, resource_version=version))

    async def read(self, nodes: str = "") -> NodeDrains:
        """Read the page."""
        [page] = self.draining.pages
        answer = page.read({"nodes": nodes} if nodes else {})
        assert isawaitable(answer)
        found = await answer
        assert isinstance(found, NodeDrains)
        return found

    async def read_one(self, name: str = "n1") -> NodeDrain:
        """Read what it says of a node."""
        [row] = (await self.read(name)).nodes
        return row


def left(row: NodeDrain) -> dict[str, PodProgress]:
    return {each.pod: each.state for each in row.pods}


async def test_pods_leave_at_the_pace_of_the_limits_and_the_page_says_when() -> None:
    rates = {"node": TokenRate(per_second=1 / 60, burst=1)}
    controller = DrainingController(rates=rates)
    agent = of_daemon_set("agent", "n1")
    controller.sync_and_resume(node("n1"), node("n2"), agent, pod("a", on="n1"), pod("b", on="n1"))
    async with controller.following():
        controller.deliver(to_be_drained("n1"))
        await anyio.sleep(1)
        row = await controller.read_one()

        assert (row.state, row.wish) == (DrainState.DRAINING, WISH)
        assert sorted(left(row).values()) == [PodProgress.LEAVES, PodProgress.WAITS]
        [reason] = row.reasons
        assert (reason.reason, reason.last_turn is not None) == ("EvictionRateLimited", True)
        assert next(each.until for each in row.pods if each.state is PodProgress.WAITS) is not None
        assert controller.marks == []


async def test_an_empty_node_is_recorded_and_marked_once() -> None:
    controller = DrainingController()
    web, agent = pod("web", on="n1"), of_daemon_set("agent", "n1")
    controller.sync_and_resume(to_be_drained("n1"), node("n2"), web, agent)
    async with controller.following():
        await anyio.sleep(5)
        assert controller.evicted_names == ["web"]
        assert controller.marks == []  # it still terminates
        controller.delete(web)
        await anyio.sleep(60)
        row = await controller.read_one()

    assert row.state is DrainState.DRAINED
    assert row.drained in {"1970-01-01T00:00:06Z", "1970-01-01T00:00:07Z"}  # a poll later
    assert controller.marks == [("n1", row.drained)]
    assert controller.intent_store.events == [
        NodeDrained(node="n1", node_uid="node-n1", message=WISH)
    ]


async def test_a_mark_that_is_no_longer_true_is_taken_off() -> None:
    controller = DrainingController()
    marked = replace(to_be_drained("n1"), drained="2026-01-01T00:00:00Z")
    controller.sync_and_resume(marked, node("n2"))
    async with controller.following():
        assert controller.marks == []
        assert controller.intent_store.events == []  # an earlier process has recorded it
        late = pod("late", on="n1", tolerates="*")
        controller.deliver(late)
        await anyio.sleep(2)
        assert controller.marks == [("n1", None)]
        controller.delete(late)
        await anyio.sleep(60)

    assert [drained is None for _, drained in controller.marks] == [True, False]
    assert len(controller.intent_store.events) == 1


async def test_a_mark_that_may_not_be_written_is_tried_again_and_recorded_once() -> None:
    controller = DrainingController()
    controller.refusal = RequestRejected("403", retryable=False, is_denied=True)
    controller.sync_and_resume(to_be_drained("n1"), node("n2"))
    async with controller.following():
        await anyio.sleep(2.5 * RETRY_S)

    assert len(controller.marks) == 3
    assert len(controller.intent_store.events) == 1
    [line, *_] = controller.log.values_of("the node cannot be marked as drained")
    assert "deploy/drain/rbac.yaml" in line["remedy"]


async def test_a_mark_that_is_refused_for_another_reason_names_no_right() -> None:
    controller = DrainingController()
    controller.refusal = RequestRejected("422", retryable=False)
    controller.sync_and_resume(to_be_drained("n1"), node("n2"))
    async with controller.following():
        await anyio.sleep(5)

    [line, *_] = controller.log.values_of("the node cannot be marked as drained")
    assert line["remedy"] is None


async def test_a_dry_run_writes_nothing_and_says_what_it_would_do() -> None:
    controller = DrainingController(dry_run=True)
    controller.evictor.script["web"] = [DryRun()]
    controller.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
    async with controller.following():
        controller.deliver(to_be_drained("n1"))
        await anyio.sleep(1)
        row = await controller.read_one()

    assert left(row) == {"web": PodProgress.DRY_RUN}
    assert row.state is DrainState.BLOCKED


@pytest.mark.parametrize(
    ("the_node", "state"),
    [
        pytest.param(node("n1"), DrainState.NOT_ASKED, id="not asked for"),
        pytest.param(to_be_drained("n1", cordoned=False), DrainState.NOT_CORDONED, id="uncordoned"),
        pytest.param(replace(to_be_drained("n1"), ready_status="False"), DrainState.NOT_SEEN),
    ],
)
async def test_a_node_that_does_not_go_on_says_why(the_node: Node, state: DrainState) -> None:
    controller = DrainingController()
    controller.sync_and_resume(the_node, node("n2"), pod("web", on="n1"))
    async with controller.following():
        row = await controller.read_one()

    assert row.state is state
    assert not row.pods or {each.message for each in row.pods} == {row.message}
    assert bool(row.pods) == (state is DrainState.NOT_SEEN)
    assert controller.evicted_names == []
    assert controller.marks == []


async def test_an_empty_node_that_was_uncordoned_is_not_drained() -> None:
    controller = DrainingController()
    controller.sync_and_resume(to_be_drained("n1", cordoned=False), node("n2"))
    async with controller.following():
        assert (await controller.read_one()).state is DrainState.NOT_CORDONED


async def test_without_the_plugin_the_page_names_it() -> None:
    controller = DrainingController(NodeTaintsPlugin(NodeTaintsArgs()))
    controller.sync_and_resume(to_be_drained("n1"), node("n2"), pod("web", on="n1"))
    async with controller.following():
        found = await controller.read()

    assert found.profiles == ()
    [row] = found.nodes
    assert row.state is DrainState.NO_PLUGIN
    assert [each.message for each in row.pods] == [row.message]


async def test_what_stays_for_good_blocks_the_node_and_is_named() -> None:
    controller = DrainingController(
        DrainNodesPlugin(DrainNodesArgs.model_validate({"namespaces": {"exclude": ("kept",)}}))
    )
    critical = replace(pod("critical", on="n1"), annotations=Annotations(evict="false"))
    other = pod("other", on="n1", namespace="kept")
    controller.sync_and_resume(to_be_drained("n1"), node("n2"), critical, other)
    async with controller.following():
        row = await controller.read_one()

    assert row.state is DrainState.BLOCKED
    assert left(row) == {"critical": PodProgress.STAYS, "other": PodProgress.LEFT_OUT}


async def test_a_disruption_budget_is_named_and_holds_the_pod_until_it_allows() -> None:
    controller = DrainingController()
    controller.evictor.script["web"] = [TooManyRequests("budget", retry_after_s=10.0)]
    web = pod("web", on="n1")
    controller.sync_and_resume(to_be_drained("n1"), node("n2"), web)
    async with controller.following():
        row = await controller.read_one()
        assert (row.state, left(row)) == (DrainState.DRAINING, {"web": PodProgress.WAITS})
        await anyio.sleep(120)

    assert controller.evicted_names == ["web", "web"]


async def test_only_named_nodes_are_described_and_a_slip_is_explained() -> None:
    controller = DrainingController()
    controller.sync_and_resume(to_be_drained("n1"), to_be_drained("n2"), node("n3"))
    async with controller.following():
        assert [each.node for each in (await controller.read()).nodes] == ["n1", "n2"]
        assert [each.node for each in (await controller.read("n3,n1")).nodes] == ["n3", "n1"]
        with pytest.raises(ConfigError, match="did you mean n1"):
            await controller.read("n11")


def rule(**fields: Any) -> DrainRule:
    return DrainRule.model_validate({"name": "old", **fields})


def aged(name: str, created_s: int | None, **fields: Any) -> Node:
    return replace(node(name), created_s=created_s, **fields)


async def test_a_rule_drains_the_oldest_nodes_first_and_waits_until_one_is_gone() -> None:
    controller = DrainingController()
    controller.rules = [rule(maxNodeAge="10s", maxNodes=2)]
    nodes = [aged(name, created) for name, created in (("n1", 3), ("n2", 1), ("n3", 2))]
    controller.sync_and_resume(*nodes, aged("young", 10_000), pod("web", on="n2"))
    async with controller.following():
        await anyio.sleep(3 * BEGIN_S)
        assert controller.requests == ["n2", "n3"]
        controller.delete(nodes[1])
        await anyio.sleep(3 * BEGIN_S)

    assert controller.requests == ["n2", "n3", "n1"]
    assert controller.evicted_names == ["web"]


@pytest.mark.parametrize(
    "left_alone",
    [
        pytest.param(aged("n1", 0, unschedulable=True), id="a person has cordoned it"),
        pytest.param(aged("n1", 0, drain="ada"), id="a person has uncordoned it"),
        pytest.param(aged("n1", 0, ready_status="False"), id="not Ready"),
        pytest.param(aged("n1", 0, do_not_evict="true"), id="do-not-evict"),
        pytest.param(aged("n1", 0, do_not_disrupt="true"), id="do-not-disrupt"),
        pytest.param(aged("n1", None), id="its age is not known"),
        pytest.param(
            aged("n1", 0, taints=node("x", "karpenter.sh/disrupted:NoSchedule").taints),
            id="Karpenter empties it",
        ),
    ],
)
async def test_a_rule_leaves_alone_what_others_care_for(left_alone: Node) -> None:
    controller = DrainingController()
    controller.rules = [rule(maxNodeAge="10s")]
    controller.sync_and_resume(left_alone, aged("n2", 10_000))
    async with controller.following():
        await anyio.sleep(3 * BEGIN_S)

    assert controller.requests == []


async def test_a_rule_of_labels_and_age_wants_both() -> None:
    controller = DrainingController()
    controller.rules = [rule(maxNodeAge="10s", nodeSelector="pool=spot", maxNodes=9)]
    spot = {"labels": {"pool": "spot"}}
    controller.sync_and_resume(
        aged("n1", 0), aged("n2", 0, **spot), aged("n3", 10_000, **spot), aged("n4", 10_000)
    )
    async with controller.following():
        await anyio.sleep(3 * BEGIN_S)

    assert controller.requests == ["n2"]


def sick(name: str, status: str = "True", kind: str = "KernelDeadlock", **fields: Any) -> Node:
    return replace(node(name), conditions=((kind, status),), **fields)


DEADLOCK = {"type": "KernelDeadlock", "for": "30s"}


async def test_a_rule_empties_sick_nodes_one_after_the_other() -> None:
    controller = DrainingController()
    controller.rules = [rule(conditions=[DEADLOCK])]
    nodes = sick("n1", created_s=2), sick("n2", created_s=1), sick("n3", "False", created_s=0)
    controller.sync_and_resume(*nodes, node("n4"), pod("web", on="n2"))
    async with controller.following():
        await anyio.sleep(20)
        assert controller.requests == []
        await anyio.sleep(2 * BEGIN_S)
        assert controller.requests == ["n2"]
        controller.delete(nodes[1])
        await anyio.sleep(2 * BEGIN_S)

    assert controller.requests == ["n2", "n1"]
    assert controller.evicted_names == ["web"]


async def test_a_node_that_recovers_during_its_drain_still_counts() -> None:
    controller = DrainingController()
    controller.rules = [rule(conditions=[DEADLOCK])]
    controller.sync_and_resume(sick("n1"), sick("n2"), node("n3"))
    async with controller.following():
        await anyio.sleep(30 + 2 * BEGIN_S)
        assert controller.requests == ["n1"]
        begun: dict[str, Any] = {"drain": controller.rules[0].wish, "unschedulable": True}
        controller.deliver(sick("n1", "False", resource_version=9, **begun))
        await anyio.sleep(RETRY_S + 3 * BEGIN_S)
        assert controller.requests == ["n1"]
        controller.deliver(sick("n1", "False", resource_version=10))
        await anyio.sleep(2 * BEGIN_S)

    assert controller.requests == ["n1", "n2"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(sick("n1", kind="MemoryPressure"), id="another condition"),
        pytest.param(sick("n1", "Unknown"), id="another status"),
        pytest.param(sick("n1", labels={"pool": "old"}), id="a label that is not meant"),
    ],
)
async def test_a_rule_of_conditions_wants_all_that_it_names(other: Node) -> None:
    controller = DrainingController()
    controller.rules = [rule(conditions=[DEADLOCK], nodeSelector="pool!=old")]
    controller.sync_and_resume(other, sick("n2"), node("n3"))
    async with controller.following():
        await anyio.sleep(30 + 2 * BEGIN_S)

    assert controller.requests == ["n2"]


@pytest.mark.parametrize("zones", [{}, {"largeZoneNodes": 1}], ids=["stopped", "slowed"])
async def test_no_drain_begins_in_a_zone_that_is_braked(zones: dict[str, int]) -> None:
    brakes = BrakeSettings.model_validate({"zones": zones, "storm": None, "pending": None})
    controller = DrainingController(brakes=brakes)
    controller.rules = [rule(conditions=[DEADLOCK], maxNodes=9)]
    written = controller.config.written
    assert written is not None
    settings = written.model_copy(update={"drains": tuple(controller.rules)})
    controller.reconfigure(replace(controller.config, written=settings))
    a = [sick(f"a{number}", labels={ZONE_LABEL: "a"}) for number in range(3)]
    b = sick("b0", labels={ZONE_LABEL: "b"}), node("b1", zone="b")
    controller.sync_and_resume(*a, node("a3", zone="a"), *b)
    async with controller.following():
        await anyio.sleep(30 + 2 * BEGIN_S)
        assert controller.requests == ["b0"]
        controller.deliver(replace(a[2], conditions=(), resource_version=9))
        await anyio.sleep(2 * BEGIN_S)

    assert controller.requests == ["b0", "a0", "a1"]


@pytest.mark.parametrize("hold", ["paused", "no plugin", "dry run"])
async def test_no_drain_begins_while_nothing_would_leave(hold: str) -> None:
    plugins = (NodeTaintsPlugin(NodeTaintsArgs()),) if hold == "no plugin" else ()
    controller = DrainingController(*plugins, dry_run=hold == "dry run")
    controller.rules = [rule(maxNodeAge="10s")]
    controller.sync_and_resume(aged("n1", 0), aged("n2", 10_000))
    if hold == "paused":
        controller.controller.pauses.pause("ada", "an upgrade", None)
    async with controller.following():
        await anyio.sleep(3 * BEGIN_S)

    assert controller.requests == []


async def test_a_drain_that_may_not_begin_is_tried_again_later() -> None:
    controller = DrainingController()
    controller.rules = [rule(maxNodeAge="10s")]

    async def refuse(node: Node, _: str) -> None:
        controller.requests.append(node.name)
        raise RequestRejected("403", retryable=False)

    controller.draining._writes = NodeWrites(refuse, controller._mark)
    controller.sync_and_resume(aged("n1", 0), aged("n2", 10_000))
    async with controller.following():
        await anyio.sleep(2 * RETRY_S + BEGIN_S)

    assert controller.requests == ["n1"] * 3


async def test_the_metric_counts_the_pods_left_by_what_holds_them() -> None:
    rates = {"node": TokenRate(per_second=1 / 600, burst=1)}
    controller = DrainingController(rates=rates)
    pods = pod("a", on="n1"), pod("b", on="n1"), pod("c", on="n1")
    controller.sync_and_resume(node("n1"), node("n2"), *pods)
    async with controller.following():
        controller.deliver(to_be_drained("n1"))
        await anyio.sleep(2 * BEGIN_S)
        [metric] = controller.draining.collect()
        assert metric.samples == {("n1", "leaves"): 1, ("n1", "EvictionRateLimit"): 2}
        controller.deliver(replace(node("n1", version=9), drain=None))
        await anyio.sleep(2 * BEGIN_S)
        [metric] = controller.draining.collect()

    assert metric.samples == {}


async def test_a_profile_that_observes_begins_no_drain_and_says_what_would_leave() -> None:
    controller = DrainingController()
    controller.rules = [rule(maxNodeAge="10s")]
    written = controller.config.written
    assert written is not None
    observing = written.model_copy(update={"profiles": {"test": ProfileSettings(mode=OBSERVE)}})
    controller.reconfigure(replace(controller.config, written=observing))
    controller.sync_and_resume(aged("n2", 0), node("n1"), node("n3"), pod("web", on="n1"))
    async with controller.following():
        controller.deliver(to_be_drained("n1"))
        await anyio.sleep(3 * BEGIN_S)
        row = await controller.read_one()

    assert controller.requests == []
    assert controller.evicted_names == []
    assert left(row) == {"web": PodProgress.DRY_RUN}
