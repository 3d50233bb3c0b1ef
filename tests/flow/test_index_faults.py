"""An index of a plugin that raises: the plugins that read it are off, and the rest goes on."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.api import PluginArgs, PodPlugin, View
from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.changes import (
    Change,
    NodeTaintsChanged,
    PodBound,
    PodMetadataChanged,
    PodsChange,
    Resynced,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import ClusterObject, Namespace, OwnerReference, Pod, ReplicaSet
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

WEB, BAD, LATER = pod("web", on="n1"), pod("bad", on="n1"), pod("later", on="n2")
SET = OwnerReference("Deployment", "web", "d1", controller=True, api_version="apps/v1")
TAINTED = node("n2", "gpu:NoSchedule")


class Marks(PodsChange, frozen=True, gc=False):
    """What the index announces."""


class Fragile(Index):
    """Follows pods, and raises where it meets the one called bad."""

    announces = (Marks,)
    kinds = (Namespace,)

    def __init__(self, cluster: Cluster, args: Any = None) -> None:
        super().__init__(cluster, args)
        self.names: set[str] = set()
        for each in cluster.store(Pod):
            self._take(each)

    def _take(self, each: Pod | None) -> Iterable[Change]:
        if each is not None and each.name == "bad":
            raise KeyError("example.org/retire")
        self.names.update(() if each is None else (each.name,))
        return ()

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        return self._take(new)

    def on_pod_status(self, old: Pod, new: Pod) -> Iterable[Change]:
        if new.resource_version == 9:
            raise KeyError("annotations")
        return ()

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterable[Change]:
        if new is not None and "bad" in new.node.labels:
            raise ZeroDivisionError
        return ()

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> Iterable[Change]:
        if new is not None and new.key == "bad":
            raise ZeroDivisionError
        return ()

    def answers(self) -> object:
        return self.names


class Above(Index):
    """Needs the fragile index, and answers by it."""

    def __init__(self, cluster: Cluster, args: Any = None) -> None:
        super().__init__(cluster, args)
        self.below = cluster.index(Fragile)

    def answers(self) -> object:
        return self.below.names


class Reader(PodPlugin[PluginArgs]):
    """Finds every pod that the index does not have: each of them once the index is wrong."""

    name = "Reader"
    reacts_to = (Resynced, NodeTaintsChanged, PodBound, PodMetadataChanged)
    indexes: ClassVar[tuple[type[Index], ...]] = (Fragile,)

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding]:
        found = view.pods_of(subject)
        for each in () if found is None else found[1]:
            if each.name not in view.index(Fragile).names:
                yield Finding(each, self.name, "the index does not have it")


class Indirect(Reader):
    """Reads the fragile index through another one."""

    name = "Indirect"
    indexes = (Above,)

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding]:
        view.index(Above)
        return super().judge(subject, view)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def made(*readers: Reader) -> FakeEdgesController:
    return FakeEdgesController(*readers, NodeTaintsPlugin(NodeTaintsArgs()))


def off(flow: FakeEdgesController) -> list[str]:
    return [each.plugin for each in flow.controller.evaluator.faults.standing() if each.is_off]


@pytest.mark.parametrize(
    "meet",
    [
        pytest.param(lambda flow: flow.deliver(BAD), id="a new pod"),
        pytest.param(
            lambda flow: flow.deliver(replace(WEB, resource_version=9)),
            id="a status",
        ),
        pytest.param(lambda flow: flow.deliver(node("n1", labels={"bad": "y"})), id="a node"),
        pytest.param(lambda flow: flow.deliver(Namespace("bad")), id="another kind"),
        pytest.param(lambda flow: flow.deliver_list(node("n1"), node("n2"), BAD), id="a list"),
    ],
)
async def test_a_hook_that_raises_switches_off_its_readers_and_the_others_evict(
    meet: Callable[[FakeEdgesController], None],
) -> None:
    flow = made(Reader(PluginArgs()), Indirect(PluginArgs()))
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), WEB)
        await anyio.sleep(1)
        assert off(flow) == []
        meet(flow)
        assert off(flow) == ["Reader", "Indirect"]
        flow.deliver(TAINTED, LATER)
        await anyio.sleep(1)

    assert flow.evicted_names == ["later"]


async def test_an_index_that_cannot_be_built_from_the_first_list_switches_off_its_readers() -> None:
    flow = made(Reader(PluginArgs()))
    async with flow.running():
        flow.sync_and_resume(node("n1"), TAINTED, BAD, LATER)
        await anyio.sleep(1)

    assert (off(flow), flow.evicted_names) == (["Reader"], ["later"])


async def test_a_reload_with_an_index_that_cannot_be_built_goes_on_without_its_readers(
    golden: Golden,
) -> None:
    flow, new = made(), made(Reader(PluginArgs()), Indirect(PluginArgs())).config
    async with flow.running():
        flow.sync_and_resume(node("n1"), TAINTED, BAD)
        flow.reconfigure(new)
        flow.deliver(LATER)
        await anyio.sleep(1)

    assert (off(flow), flow.evicted_names) == (["Reader", "Indirect"], ["later"])
    expected = golden()
    for fault in flow.controller.evaluator.faults.standing():
        assert fault.message == expected


async def test_a_reload_tries_the_index_anew() -> None:
    flow = made(Reader(PluginArgs()))
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), WEB)
        flow.deliver(BAD)
        flow.delete(BAD)
        assert off(flow) == ["Reader"]
        flow.reconfigure(flow.config)
        await anyio.sleep(1)

    assert (off(flow), flow.evicted_names) == ([], [])


async def test_what_failed_is_named_with_the_object_and_a_remedy(golden: Golden) -> None:
    flow = made(Reader(PluginArgs()))
    async with flow.running():
        flow.sync_and_resume(node("n1"), WEB)
        flow.deliver(BAD)

    [fault] = flow.controller.evaluator.faults.standing()
    assert fault.message == golden()
    assert "in _take" in fault.traceback


class Untidy(Fragile):
    """Announces what is no change."""

    wrong: Any = None

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        announced: Iterable[Change] = self.wrong
        return announced if new is not None and new.name == "bad" else ()


@pytest.mark.parametrize("wrong", [None, "text", ["text"], [None], [PodBound]])
async def test_what_is_no_change_counts_as_an_exception(wrong: Any) -> None:
    untidy = type("Untidy", (Untidy,), {"wrong": wrong})
    reader = type("Reader", (Reader,), {"indexes": (untidy,), "reacts_to": (Resynced,)})
    flow = made(reader(PluginArgs()))
    async with flow.running():
        flow.sync_and_resume(node("n1"), WEB)
        flow.deliver(BAD)
        flow.deliver(TAINTED, LATER)
        await anyio.sleep(1)

    assert (off(flow), flow.evicted_names) == (["Reader"], ["later"])


async def test_an_index_that_gates_read_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Iterable[Change]:
        raise ZeroDivisionError

    monkeypatch.setattr(OwnerIndex, "on_object", fail)
    flow = made()
    with pytest.raises(ZeroDivisionError):
        flow.deliver(ReplicaSet("r1", 5, SET))


@pytest.mark.parametrize("error", [MemoryError(), SystemExit(1), BaseException()])
async def test_whatever_an_index_of_plugins_raises_switches_off_its_readers_alone(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> Iterable[Change]:
        raise error

    monkeypatch.setattr(Fragile, "on_pod", fail)
    flow = made(Reader(PluginArgs()))
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), WEB)
        flow.deliver(BAD)
        assert off(flow) == ["Reader"]
        flow.deliver(TAINTED, LATER)
        await anyio.sleep(1)

    assert flow.evicted_names == ["later"]


async def test_the_test_of_a_plugin_raises_what_its_index_raises() -> None:
    cluster = Scenario(Reader(PluginArgs()), node("n1"), WEB)
    with pytest.raises(KeyError):
        cluster.apply(BAD)
