"""A plugin of another package that raises where it is asked besides its findings ends nothing."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.api import BalancePlugin, PluginArgs, View
from reactive_desched.api.balance_plugin import Plan
from reactive_desched.api.index import Cluster
from reactive_desched.app.node_overview import overview
from reactive_desched.model.changes import Change, NodeTaintsChanged, Resynced
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.findings import Finding
from reactive_desched.model.node_table import NodeTable
from reactive_desched.model.objects import Pod, PodStatus
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.testing.builders import node, pod
from reactive_desched.why.explanation import Explainer
from reactive_desched.why.question import NodeExplanation, Question, answer
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio
WRONG = "wrong"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Silent(BalancePlugin[str, PluginArgs]):
    """Finds the pods of n1, and raises an exception where it is asked for anything else."""

    name = "Silent"
    reacts_to = (Resynced, NodeTaintsChanged)

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        return ("n1",)

    def balance(self, subject: str, view: View) -> Plan:
        for uid in ("a", "a2"):
            if (found := view.active_pod(uid)) is not None and found[1].name == "n1":
                yield Finding(found[0], self.name, WRONG)

    def is_misplaced(self, pod: Pod, cluster: Cluster, now_s: float) -> bool:
        raise ZeroDivisionError

    def node_tables(self, view: View) -> Iterator[NodeTable]:
        raise SystemExit(3)
        yield

    def describe(self, pod: Pod, view: View) -> Any:
        return 7

    def describe_waiting(self, pod: Pod, view: View) -> Any:
        return "x" * 1_000_000 + "\x1b[31m"

    def obstacles(self, view: View) -> Callable[[Pod], Any]:
        return lambda _: None


class Broken(Silent):
    """Raises an exception wherever it is asked."""

    name = "Broken"

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        return tuple(f"n{i}" for i in range(10))

    def balance(self, subject: str, view: View) -> Plan:
        raise ZeroDivisionError
        yield


def flow_of() -> FakeEdgesController:
    plugins = Silent(PluginArgs()), NodeTaintsPlugin(NodeTaintsArgs())
    return FakeEdgesController(*plugins, moves=UNLIMITED_MOVES)


async def test_a_move_whose_plugin_gives_no_verdict_ends_and_the_fault_is_named() -> None:
    async with flow_of().running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"), pod("web", on="n2"))
        await anyio.sleep(1)
        flow.delete(pod("a", on="n1"))
        made = pod("a2", status=PodStatus("Pending"), created=int(anyio.current_time()))
        flow.deliver(made)
        await anyio.sleep(1)
        flow.deliver(replace(made, node="n2", status=pod("any").status))
        await anyio.sleep(60)
        [standing] = flow.observer.plugin_faults
        flow.deliver(node("n2", "gpu:NoSchedule"))
        await anyio.sleep(60)

        assert standing == ("Silent", "ZeroDivisionError")
        assert [end.result for end in flow.intent_store.follow_ups] == ["moved"]
        assert "web" in flow.evicted_names
        assert flow.controller.evaluator.faults.standing() == []  # it was asked anew since


async def test_what_a_plugin_says_to_people_is_a_text_of_a_length_or_named_as_a_fault() -> None:
    async with flow_of().running() as flow:
        placed, waiting = pod("web", on="n2"), pod("late", status=PodStatus("Pending"))
        flow.sync_and_resume(node("n1"), node("n2"), placed, waiting)
        await anyio.sleep(1)
        explainer = Explainer(flow.controller, (), ClockPair(anyio.current_time(), 0))
        of_placed, of_waiting = (explainer.explain(each) for each in (placed, waiting))
        said = [each.message for each in (*of_placed.plugins, *of_waiting.plugins)]

    assert any("TypeError" in each for each in said)
    assert all(len(each) < 10_000 and each.isprintable() for each in said)


async def test_of_a_plugin_that_is_off_it_is_said_so_and_not_that_it_found_nothing() -> None:
    plugins = Broken(PluginArgs()), NodeTaintsPlugin(NodeTaintsArgs())
    async with FakeEdgesController(*plugins, moves=UNLIMITED_MOVES).running() as flow:
        placed = pod("web", on="n2")
        flow.sync_and_resume(node("n1"), node("n2"), placed)
        await anyio.sleep(1)
        explainer = Explainer(flow.controller, (), ClockPair(anyio.current_time(), 0))
        answers = {each.plugin: each for each in explainer.explain(placed).plugins}

    assert answers["Broken"].answer == "off"
    assert "ZeroDivisionError" in answers["Broken"].message
    assert answers["RemovePodsViolatingNodeTaints"].answer == "nothing found"


async def test_a_standby_says_of_no_pod_that_nothing_is_wrong_with_its_place() -> None:
    async with flow_of().running() as flow:
        wrong, right = pod("web", on="n1"), pod("ok", on="n2")
        flow.controller.pauses.leadership.stand_by("controller-1 holds the Lease")
        flow.sync_and_resume(node("n1", "gpu:NoSchedule"), node("n2"), wrong, right)
        await anyio.sleep(1)
        clocks = ClockPair(anyio.current_time(), 0)
        on_standby = [Explainer(flow.controller, (), clocks).brief(each) for each in (wrong, right)]

        assert {each.state for each in on_standby} == {"not looked at"}
        assert all("controller-1" in each.summary for each in on_standby)
        flow.controller.pauses.leadership.renew(anyio.current_time() + 60)
        flow.controller.pauses.leadership.begin()
        await anyio.sleep(1)
        explained = Explainer(flow.controller, (), ClockPair(anyio.current_time(), 0))
        assert explained.brief(right).state == "stays"


async def test_nodes_are_explained_though_a_plugin_has_no_tables() -> None:
    async with flow_of().running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n2"))
        await anyio.sleep(1)
        clocks = ClockPair(anyio.current_time(), 0)
        question = Question(node="n2")
        explained = at_once(answer(flow.controller, question, (), lambda: clocks))
        nodes = await overview(flow.controller, {})

    assert isinstance(explained, NodeExplanation)
    assert "SystemExit" in explained.summary
    assert [each.name for each in nodes.nodes] == ["n1", "n2"]
