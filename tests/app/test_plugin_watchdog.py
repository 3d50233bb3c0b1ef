"""A call of a plugin that does not return is ended; our own code is never left half done."""

import signal
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count, repeat
from types import FrameType, SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from anyio import to_thread

from reactive_desched.api import PluginArgs, PodPlugin, SinkPlugin, SinkSection, View
from reactive_desched.api.event import Record
from reactive_desched.api.index import Cluster, Index
from reactive_desched.api.sink import SinkHost
from reactive_desched.app.plugin_watchdog import PluginWatchdog
from reactive_desched.errors import PluginHung, SinkUnavailable
from reactive_desched.model.changes import Change, NodeTaintsChanged, Resynced
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.plugin_faults import ask_for_obstacles, ask_for_text, describe_error
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.primitives.hung_calls import hung_calls_ended
from reactive_desched.sinks.installed import InstalledSink
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.index_registry import IndexHooks
from reactive_desched.sweep.cycle import Cycle
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import make_policy, make_profile_of
from tests.support.entries import eviction_entries
from tests.support.flow import FakeEdgesController
from tests.support.recording_logger import RecordingLogger

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


def loop_for_ever() -> None:
    for _ in count():
        pass


def ask_for_ever(view: View) -> None:
    while True:
        for _ in view.nodes():
            pass


def swallow_for_ever() -> None:
    while True:
        with suppress(Exception):
            time.sleep(1000)


class Hanging(PodPlugin[PluginArgs]):
    """Does not return, the first time."""

    name = "Hanging"
    reacts_to = (Resynced, NodeTaintsChanged)
    hang: Callable[[View], None]
    has_hung = False

    def judge(self, subject: object, view: View) -> Iterator[Finding]:
        if not self.has_hung:
            self.has_hung = True
            self.hang(view)
        yield from ()


@pytest.mark.parametrize(
    "hang",
    [
        pytest.param(lambda _: loop_for_ever(), id="a loop"),
        pytest.param(ask_for_ever, id="a loop that asks the view"),
        pytest.param(lambda _: time.sleep(1000), id="a wait"),
        pytest.param(lambda _: swallow_for_ever(), id="a wait that excepts every Exception"),
    ],
)
async def test_a_plugin_that_does_not_return_has_failed_and_the_others_evict(
    hang: Callable[[View], None],
) -> None:
    plugin = Hanging(PluginArgs())
    plugin.hang = hang
    flow = FakeEdgesController(plugin, NodeTaintsPlugin(NodeTaintsArgs()))
    async with anyio.create_task_group() as tasks, flow.running():
        tasks.start_soon(PluginWatchdog(limit_s=0.2, beat_s=0.05).run)
        await anyio.sleep(0.1)
        flow.sync_and_resume(node("n1", "gpu:NoSchedule"), node("n2"), pod("web", on="n1"))
        with anyio.fail_after(60):
            while not flow.evictor.requests:
                await flow.evictor.called.wait()
        tasks.cancel_scope.cancel()

    assert flow.evicted_names == ["web"]
    [(name, cause)] = flow.observer.plugin_faults
    assert (name, cause.partition(":")[0]) == ("Hanging", "PluginHung")


async def test_what_is_no_plugin_may_hold_the_loop() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(PluginWatchdog(limit_s=0.1, beat_s=0.05).run)
        await anyio.sleep(0.1)
        time.sleep(0.5)  # noqa: ASYNC251 -- it holds the loop
        tasks.cancel_scope.cancel()


async def test_what_calls_a_plugin_is_not_left_half_done_itself() -> None:
    caller = SimpleNamespace(f_code=IndexHooks.call.__code__, f_globals={}, f_back=None)
    plugin = SimpleNamespace(f_code=loop_for_ever.__code__, f_globals={}, f_back=caller)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(PluginWatchdog().run)
        await anyio.sleep(0.1)
        handler = signal.getsignal(signal.SIGURG)
        assert callable(handler)
        handler(signal.SIGURG, cast(FrameType, caller))
        with pytest.raises(PluginHung):
            handler(signal.SIGURG, cast(FrameType, plugin))
        tasks.cancel_scope.cancel()


class HangingIndex(Index):
    """Does not return from its hook for pods, or is not built."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        if args == "built":
            swallow_for_ever()

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterator[Change]:
        if self._args == "asked":
            loop_for_ever()
        yield from ()
        swallow_for_ever()

    def answers(self) -> object:
        return None


@pytest.mark.parametrize("hangs_when", ["built", "asked", "it announces"])
@pytest.mark.parametrize("in_a_list", [True, False])
def test_an_index_of_another_package_that_does_not_return_is_off(
    hangs_when: str, *, in_a_list: bool
) -> None:
    state = ClusterState()
    with hung_calls_ended(limit_s=0.2, beat_s=0.05):
        state.keep_indexes([], [(HangingIndex, hangs_when)])
        if in_a_list:
            state.load([pod("web", on="n1")])
        else:
            state.upsert(pod("web", on="n1"))
    [fault] = state.index_faults.values()
    assert isinstance(fault.error, PluginHung)
    assert state.get("pods", "web") is not None


def test_the_text_of_an_exception_that_does_not_come_is_left_out() -> None:
    class Endless(Exception):  # noqa: N818 -- it is not about an error
        def __str__(self) -> str:
            loop_for_ever()
            return ""

    with hung_calls_ended(limit_s=0.2, beat_s=0.05):
        assert describe_error(Endless()) == "Endless"


async def test_in_another_thread_it_does_nothing() -> None:
    await to_thread.run_sync(anyio.run, PluginWatchdog().run)


def sweep_over(plugins: tuple[AnyPlugin, ...], *things: ClusterObject) -> Cycle:
    """Return a cycle over a cluster with a second node."""
    state = ClusterState()
    for each in (*things, node("n2")):
        state.upsert(each)
    policy = make_policy((make_profile_of("p", plugins, DefaultEvictorArgs()),))
    return Cycle(policy, state, ClusterView(state, lambda: 0.0))


class HangingInSweep(PodPlugin[PluginArgs]):
    """Hangs where `hangs_in` says; the last one has portions without an end, each of them soon."""

    name = "HangingInSweep"
    reacts_to = (Resynced,)
    hangs_in = ""

    def judge(self, subject: object, view: View) -> Iterator[Finding]:
        if self.hangs_in == "judge":
            swallow_for_ever()
        yield from ()

    def sweep(self, view: View) -> Iterator[list[Finding]]:
        if self.hangs_in == "sweep":
            ask_for_ever(view)
        if self.hangs_in == "a portion":
            portion: Any = iter(loop_for_ever, 0)  # no list, as a plugin may
            return iter([portion])
        if self.hangs_in == "endless portions":
            return repeat([])
        return super().sweep(view)


@pytest.mark.parametrize("place", ["judge", "sweep", "a portion", "endless portions"])
def test_a_sweep_ends_a_plugin_that_does_not_end_and_goes_on(place: str) -> None:
    hanging = HangingInSweep(PluginArgs())
    hanging.hangs_in = place
    tainted = node("n1", "gpu:NoSchedule")
    cycle = sweep_over((hanging, NodeTaintsPlugin(NodeTaintsArgs())), tainted, pod("web", on="n1"))
    with hung_calls_ended(limit_s=0.2, beat_s=0.05):
        decided = list(cycle.run())

    assert [each.finding.pod.name for each in decided] == ["web"]
    [fault] = cycle.faults
    assert fault.plugin == "HangingInSweep"
    if place == "judge":
        assert fault.subject == "this sweep, node n1"
        assert "test_plugin_watchdog.py" in fault.cause


def test_a_text_that_does_not_come_is_not_asked_for_again() -> None:
    asked: list[str] = []

    def obstacle(of: Pod) -> str:
        asked.append(of.name)
        swallow_for_ever()
        return ""

    with hung_calls_ended(limit_s=0.2, beat_s=0.05):
        ask = ask_for_obstacles(lambda: obstacle)
        texts = [ask(pod(name, on="n1")) for name in "ab"]
        texts.append(ask_for_text(partial(obstacle, pod("c", on="n1"))))
    assert all("PluginHung" in text for text in texts)
    assert asked == ["a", "c"]


def test_short_calls_of_a_plugin_may_last_long_together() -> None:
    class Slow(HangingInSweep):
        def judge(self, subject: object, view: View) -> Iterator[Finding]:
            time.sleep(0.1)
            yield from ()

    nodes = [node(f"m{i}") for i in range(12)]
    cycle = sweep_over((Slow(PluginArgs()),), node("n1"), *nodes)
    with hung_calls_ended(limit_s=0.6, beat_s=0.05):
        assert list(cycle.run()) == []
    assert cycle.faults == []


class HangingInOpen(SinkPlugin[SinkSection]):
    settings = SinkSection

    def __init__(self, settings: SinkSection, host: SinkHost) -> None:
        super().__init__(settings, host)
        loop_for_ever()

    async def deliver(self, records: Sequence[Record]) -> int:
        return len(records)


class HangingInDeliver(SinkPlugin[SinkSection]):
    settings = SinkSection

    async def deliver(self, records: Sequence[Record]) -> int:
        swallow_for_ever()
        return len(records)


class HangingBeforeItAwaits(HangingInDeliver):
    def deliver(self, records: Sequence[Record]) -> int:  # type: ignore[override]  # no coroutine
        time.sleep(1000)
        return len(records)


@pytest.mark.parametrize("kind", [HangingInOpen, HangingInDeliver, HangingBeforeItAwaits])
async def test_a_sink_of_another_package_that_holds_the_loop_is_interrupted_and_is_unavailable(
    kind: type[SinkPlugin[SinkSection]],
) -> None:
    host = SinkHost(name="queue", log=RecordingLogger(), clock=lambda: 0.0, wall=lambda: 0.0)
    sink = InstalledSink(kind, SinkSection(), host, "the sink queue of queue_sink 1.0")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(PluginWatchdog(limit_s=0.3, beat_s=0.05).run)
        await anyio.sleep(0.1)
        with pytest.raises(
            SinkUnavailable,
            match=r"1\.0: (open|deliver): PluginHung: .* was in \S+ of test_plugin",
        ):
            await sink.deliver(eviction_entries(2))
        tasks.cancel_scope.cancel()
