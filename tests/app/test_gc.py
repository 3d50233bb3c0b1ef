import gc
import subprocess
import sys
from collections.abc import Iterator

import anyio
import pytest
import trio.testing

from reactive_desched.app.gc import (
    FIRST_PASS_S,
    STEPS_PER_COLLECTION,
    SWEEP_BATCH_SIZE,
    SWEEP_INTERVAL_S,
    TRIM_INTERVAL_S,
    YoungObjects,
    keep_young_objects_few,
    trim_heap,
)
from reactive_desched.app.gc import freeze_gc_after_sync as keep_house_on
from reactive_desched.controller.evaluation_queue import EvaluationQueue
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.testing.builders import node, pod
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Leave the garbage collector on; what is frozen stays so, as what was collected is too."""
    yield
    gc.enable()


class Shared:
    """Counts sweeps, and may tell when."""

    def __init__(self) -> None:
        self.sweeps: list[tuple[float, int]] = []

    def sweep(self, entries: int) -> None:
        self.sweeps.append((anyio.current_time(), entries))


async def keep_house(flow: FakeEdgesController, shared: Shared) -> None:
    await keep_house_on(flow.controller, shared)  # type: ignore[arg-type]  # what it uses of them


def whole_flow() -> FakeEdgesController:
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()))


async def test_the_first_picture_is_kept_from_the_collector() -> None:
    shared, flow = Shared(), whole_flow()
    frozen = gc.get_freeze_count()
    async with flow.running(), anyio.create_task_group() as group:
        group.start_soon(keep_house, flow, shared)
        await anyio.sleep(60)
        assert not gc.isenabled()
        assert shared.sweeps == []

        flow.sync_and_resume(node("n1"), node("n2", ready="False"), pod("web", on="n1"))
        await anyio.sleep(0.1)
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
        group.cancel_scope.cancel()


async def test_what_the_first_evaluation_of_everything_builds_is_kept_from_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow = whole_flow()
    async with flow.running(), anyio.create_task_group() as group:
        group.start_soon(keep_house, flow, Shared())
        monkeypatch.setattr(EvaluationQueue, "is_resyncing", True)
        flow.sync_and_resume(node("n1"))
        await anyio.sleep(SWEEP_INTERVAL_S * 2.5)
        assert not gc.isenabled()
        frozen = gc.get_freeze_count()

        monkeypatch.setattr(EvaluationQueue, "is_resyncing", False)
        await anyio.sleep(SWEEP_INTERVAL_S)
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
        group.cancel_scope.cancel()


async def test_an_evaluation_that_is_held_up_keeps_the_collector_off_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow = whole_flow()
    monkeypatch.setattr(EvaluationQueue, "is_resyncing", True)
    async with flow.running(), anyio.create_task_group() as group:
        group.start_soon(keep_house, flow, Shared())
        flow.sync_and_resume(node("n1"))
        await anyio.sleep(FIRST_PASS_S - 1)
        assert not gc.isenabled()
        await anyio.sleep(2)
        assert gc.isenabled()
        group.cancel_scope.cancel()


async def test_unused_parts_are_swept_a_few_at_a_time_for_ever() -> None:
    shared, flow = Shared(), whole_flow()
    async with flow.running(), anyio.create_task_group() as group:
        group.start_soon(keep_house, flow, shared)
        flow.sync_and_resume()
        await anyio.lowlevel.checkpoint()
        began = anyio.current_time()
        await anyio.sleep(3.5 * SWEEP_INTERVAL_S)
        group.cancel_scope.cancel()

    assert shared.sweeps == [(began + n * SWEEP_INTERVAL_S, SWEEP_BATCH_SIZE) for n in (1, 2, 3)]


async def test_once_a_minute_free_memory_is_returned_to_the_system() -> None:
    flow, trimmed = whole_flow(), list[float]()

    def trim() -> None:
        trimmed.append(anyio.current_time())

    async with flow.running(), anyio.create_task_group() as group:
        group.start_soon(keep_house_on, flow.controller, Shared(), trim)  # type: ignore[arg-type]  # what it uses of them
        flow.sync_and_resume()
        await anyio.lowlevel.checkpoint()
        began = anyio.current_time()
        await anyio.sleep(2.5 * TRIM_INTERVAL_S)
        group.cancel_scope.cancel()

    assert trimmed == [began + TRIM_INTERVAL_S, began + 2 * TRIM_INTERVAL_S]


def test_trimming_changes_no_object() -> None:
    held = [bytes(100_000) for _ in range(100)]

    trim_heap()

    assert held == [bytes(100_000)] * 100


LARGE_BLOCKS = """
import ctypes
from reactive_desched.app.gc import keep_large_blocks_apart

class Usage(ctypes.Structure):
    NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in NAMES.split()]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Usage
a_page = bytes(5_000_000)
del a_page
keep_large_blocks_apart()
before = library.mallinfo2().hblks
held = [bytes(4_000_000) for _ in range(7)]  # larger than what is free in the heap
print(library.mallinfo2().hblks - before)
held.clear()
print(library.mallinfo2().hblks - before)
"""


def test_large_blocks_lie_outside_the_heap_though_larger_ones_were_freed() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", LARGE_BLOCKS], capture_output=True, text=True, check=True
    ).stdout

    assert printed.split() == ["7", "0"]


BLOCKS_OF_READS = """
import resource
import sys
from reactive_desched.app.gc import keep_large_blocks_apart

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

keep_large_blocks_apart()
for turn in range(200):
    if turn == 100:
        before = faults()
    blocks = [bytearray(2**18) for _ in range(int(sys.argv[1]))]  # as connections read
    blocks.clear()
print(faults() - before)
"""


@pytest.mark.parametrize("blocks", [1, 3], ids=["of a list", "of a watch"])
def test_the_blocks_in_which_is_read_are_taken_from_the_heap_again(blocks: int) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", BLOCKS_OF_READS, str(blocks)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert int(printed) < 100  # 6,400 for each block where it is new


async def test_the_collector_works_again_when_the_first_picture_never_came() -> None:
    flow = whole_flow()
    async with anyio.create_task_group() as group:
        group.start_soon(keep_house, flow, Shared())
        await anyio.sleep(1)
        assert not gc.isenabled()
        group.cancel_scope.cancel()

    assert gc.isenabled()


async def test_what_decisions_replace_is_collected_while_it_is_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collected: list[int] = []
    young = YoungObjects(collected.append)
    for _ in range(6):
        young.worked(0.0, STEPS_PER_COLLECTION)
    assert collected == [0, 0, 1, 0, 0, 1]

    collected.clear()
    for _ in range(STEPS_PER_COLLECTION):  # slices at whose end nothing was due
        young.worked(0.0, 0)
    assert collected == [0]

    monkeypatch.setattr(gc, "isenabled", lambda: False)  # as until the first pass is over
    young.worked(0.0, STEPS_PER_COLLECTION)
    assert collected == [0]


async def test_a_worker_that_decides_has_its_young_objects_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slices: list[float] = []
    monkeypatch.setattr(YoungObjects, "worked", lambda _, now, __: slices.append(now))
    flow = whole_flow()
    async with flow.running(), anyio.create_task_group() as group:
        group.start_soon(keep_young_objects_few, flow.pipeline.worker)
        await anyio.sleep(1)
        flow.sync_and_resume(node("n1", "gpu:NoSchedule"), pod("web", on="n1"))
        await anyio.sleep(5)
        group.cancel_scope.cancel()
    assert slices
