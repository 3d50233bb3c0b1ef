"""Nothing holds the loop: long runs of lines and pages are cut into turns."""

import asyncio
import tracemalloc
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from itertools import repeat
from types import SimpleNamespace

import anyio
import msgspec
import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from anyio.lowlevel import checkpoint

from reactive_desched.controller.worker import TIME_SLICE_S
from reactive_desched.errors import Malformed
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.kube.client.session import Session, WatchStream, read_body
from reactive_desched.kube.codec import ListPage, WatchEvent
from reactive_desched.kube.watch.initial_list import (
    Deleted,
    InitialList,
    Lister,
    ListResult,
    ListSettings,
)
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.kube.watch.resume import StopReason, WatchEnd
from reactive_desched.kube.watch.watcher import WatchEventHandler, WatchReader
from reactive_desched.primitives.wakeup import Epoch
from tests.support.fake_resource import FakeCodec, FakeObject, RecordingEventHandler
from tests.support.manual_clock import ManualClock
from tests.support.scripted_api import ScriptedApi

pytestmark = pytest.mark.anyio

LINE = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}\n'


def unexpected(error: Malformed) -> None:
    raise error


class Loop:
    """Notes how much was done in each turn that others had to wait for."""

    def __init__(self) -> None:
        self.done = 0
        self.most_in_a_turn = 0

    async def watch(self) -> None:
        before = 0
        while True:
            self.most_in_a_turn = max(self.most_in_a_turn, self.done - before)
            before = self.done
            await checkpoint()


async def read(lines: list[bytes], clock: ManualClock, cost_s: float) -> Loop:
    """Read lines that are all there already, each costing some time to apply."""
    loop, left = Loop(), iter(lines)

    async def readline() -> bytes:
        return next(left, b"")

    class Applied(WatchEventHandler[FakeObject]):
        def apply(self, event: WatchEvent[FakeObject]) -> WatchEnd | None:
            loop.done += 1
            clock.advance(cost_s)
            return None

    reader = WatchReader(FakeCodec(), unexpected, clock, Epoch())
    async with anyio.create_task_group() as others:
        others.start_soon(loop.watch)
        await checkpoint()
        stream = WatchStream({}, readline, lambda: loop.done)
        assert (await reader.read(stream, Applied(), lambda: 1e9)).reason is StopReason.CLEAN
        others.cancel_scope.cancel()
    assert loop.done == len(lines)
    return loop


async def test_a_burst_of_dear_events_yields_after_each(clock: ManualClock) -> None:
    assert (await read([LINE] * 500, clock, cost_s=0.002)).most_in_a_turn == 1


async def test_events_with_which_a_slice_of_due_work_is_done_share_no_turn(
    clock: ManualClock,
) -> None:
    assert (await read([LINE] * 100, clock, cost_s=TIME_SLICE_S)).most_in_a_turn <= 2


async def test_a_burst_of_cheap_events_yields_about_once_a_millisecond(clock: ManualClock) -> None:
    loop = await read([LINE] * 500, clock, cost_s=0.00001)
    assert 100 <= loop.most_in_a_turn <= 120


async def test_a_body_that_has_arrived_is_copied_in_turns() -> None:
    protocol, running = BaseProtocol(asyncio.get_running_loop()), asyncio.get_running_loop()
    content, turns, text = StreamReader(protocol, 2**30, loop=running), 0, bytes(range(256)) * 2**14
    for _ in range(2):
        content.feed_data(text[: len(text) // 2])
    content.feed_eof()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    async with anyio.create_task_group() as both:
        both.start_soon(others)
        await checkpoint()
        before = turns
        reply = SimpleNamespace(content=content)
        assert await read_body(reply, 2**30, bytearray()) == text  # type: ignore[arg-type]  # of a response, only the content is read
        assert turns - before == len(text) / 2**19
        both.cancel_scope.cancel()


async def test_a_page_is_decoded_in_turns(
    api: ScriptedApi, session: Session, clock: ManualClock
) -> None:
    for number in range(100):
        api.put(f"t{number}", "1")
    loop = Loop()

    class Counting(FakeCodec):
        def decode_object(self, raw: object) -> FakeObject:
            loop.done += 1
            return super().decode_object(raw)  # type: ignore[arg-type]  # passed on as it came

    async with anyio.create_task_group() as others:
        others.start_soon(loop.watch)
        lister = Lister(session, Counting(), unexpected, clock)
        assert isinstance(
            await lister.list_all(ListSettings(page_size=100, steps_per_slice=10)),
            ListResult,
        )
        others.cancel_scope.cancel()
    assert (loop.done, loop.most_in_a_turn) == (100, 10)


async def test_a_page_is_requested_before_and_read_after_the_one_before_it_is_decoded(
    clock: ManualClock,
) -> None:
    story: list[str] = []

    class Server:
        async def request(
            self, *_: str, into: Callable[[], Awaitable[bytearray]], **__: object
        ) -> ApiResponse:
            number = sum(each.startswith("request") for each in story) + 1
            story.append(f"request {number}")
            body = await into()
            story.append(f"read {number}")
            body[:] = msgspec.json.encode(
                {
                    "metadata": {"resourceVersion": "9", "continue": "x" * (3 - number)},
                    "items": [{"metadata": {"name": f"{name}{number}"}} for name in "tu"],
                }
            )
            return ApiResponse(200, {}, body)

    class Telling(FakeCodec):
        def decode_object(self, raw: object) -> FakeObject:
            decoded = super().decode_object(raw)  # type: ignore[arg-type]  # passed on as it came
            story.append(f"decode {decoded.name}")
            return decoded

    lister = Lister(Server(), Telling(), unexpected, clock)  # type: ignore[arg-type]  # it streams nothing
    settings = ListSettings(page_size=2, steps_per_slice=1)
    assert isinstance(await lister.list_all(settings), ListResult)

    assert story == [
        *("request 1", "read 1", "request 2", "decode t1", "decode u1"),
        *("read 2", "request 3", "decode t2", "decode u2"),
        *("read 3", "decode t3", "decode u3"),
    ]


async def test_what_is_listed_stands_in_small_blocks(session: Session, clock: ManualClock) -> None:
    """A list of 500,000 objects would be copied when it grows, which holds the loop for 3 ms."""
    known = FakeObject("t", "1")

    class Same(FakeCodec):
        def decode_page(self, page: ListPage) -> Iterator[FakeObject | Malformed]:
            del page
            return repeat(known, 30_000)

    lister = Lister(session, Same(), unexpected, clock)
    tracemalloc.start()
    try:
        listed = await lister.list_all(ListSettings(page_size=100, steps_per_slice=10_000))
        largest = max(trace.size for trace in tracemalloc.take_snapshot().traces)
    finally:
        tracemalloc.stop()
    assert isinstance(listed, ListResult)
    assert len(listed.items) == 30_000
    assert largest < 100_000


async def test_dear_objects_end_a_turn_by_their_time(
    api: ScriptedApi, session: Session, clock: ManualClock
) -> None:
    for number in range(100):
        api.put(f"t{number}", "1")
    loop = Loop()

    class Dear(FakeCodec):
        def decode_object(self, raw: object) -> FakeObject:
            loop.done += 1
            clock.advance(0.0004)
            return super().decode_object(raw)  # type: ignore[arg-type]  # passed on as it came

    async with anyio.create_task_group() as others:
        others.start_soon(loop.watch)
        lister = Lister(session, Dear(), unexpected, clock)
        await lister.list_all(ListSettings(page_size=100, steps_per_slice=50))
        others.cancel_scope.cancel()
    assert loop.most_in_a_turn == 2  # two of 0.4 ms each fit into one


async def test_a_page_of_which_something_is_kept_stays_as_it_was(
    api: ScriptedApi, session: Session, clock: ManualClock
) -> None:
    for number in range(50):
        api.put(f"t{number}", "1")
    seen: list[tuple[memoryview, bytes]] = []

    class Keeping(FakeCodec):
        def decode_page(self, page: ListPage) -> Iterator[FakeObject | Malformed]:
            if len(seen) % 2 == 0:
                seen.append((memoryview(page.body), bytes(page.body)))
            else:
                seen.append((memoryview(b""), b""))
            yield from super().decode_page(page)

    lister = Lister(session, Keeping(), unexpected, clock)
    settings = ListSettings(page_size=5, steps_per_slice=50)
    assert isinstance(await lister.list_all(settings), ListResult)

    assert len({body for _, body in seen if body}) == 5
    assert all(kept == body for kept, body in seen)


async def test_what_a_page_has_unchanged_is_staged_as_the_store_has_it(
    api: ScriptedApi, session: Session, clock: ManualClock
) -> None:
    api.put("a", "1")
    api.put("b", "2")
    held = FakeObject("a", "1")

    lister = Lister(
        session, FakeCodec(), unexpected, clock, lambda obj: held if obj == held else obj
    )
    settings = ListSettings(page_size=1, steps_per_slice=1)
    listed = await lister.list_all(settings)

    assert isinstance(listed, ListResult)
    assert [*listed.items] == [held, FakeObject("b", "2")]
    assert listed.items[0] is held


def test_what_a_streaming_list_has_unchanged_is_staged_as_the_store_has_it() -> None:
    held = FakeObject("a", "1")
    staged: InitialList[FakeObject] = InitialList(
        "/things", lambda obj: held if obj == held else obj
    )

    staged.apply(WatchEvent("ADDED", FakeObject("a", "1"), "7"))
    staged.apply(WatchEvent("ADDED", FakeObject("b", "2"), "8"))
    staged.apply(WatchEvent("DELETED", FakeObject("a", "1"), "9"))

    assert [*staged.changes] == [held, FakeObject("b", "2"), Deleted(held)]
    assert staged.changes[0] is held


async def test_a_new_list_is_emptied_as_it_is_stored_and_what_it_lacks_is_removed_in_turns(
    session: Session, clock: ManualClock
) -> None:
    loop, stored, left = Loop(), list[str](), list[int]()
    listed = deque(FakeObject(f"t{number}", "1") for number in range(2_000))
    names = [each.name for each in listed]

    class Cheap(RecordingEventHandler):
        def upsert(self, obj: FakeObject, /) -> None:
            clock.advance(0.000_001)
            stored.append(obj.name)
            left.append(len(listed))

        def remove_unlisted(self) -> Iterator[None]:
            for _ in range(500):
                loop.done += 1
                clock.advance(0.000_1)
                yield

        def end_replace(self) -> None:
            """Remove nothing more."""

    reflector: Reflector[FakeObject] = Reflector(session, FakeCodec(), Cheap(), clock=clock)
    async with anyio.create_task_group() as others:
        others.start_soon(loop.watch)
        await reflector._replace_store(listed, "9")
        others.cancel_scope.cancel()

    assert stored == names
    assert all(count <= 2_000 - number for number, count in enumerate(left, 1))
    assert not listed
    assert loop.most_in_a_turn <= 20  # of a tenth of a millisecond each


async def test_what_nothing_needs_any_more_is_dropped_in_turns(
    session: Session, clock: ManualClock
) -> None:
    loop = Loop()

    class Dear(RecordingEventHandler):
        def remove_unlisted(self) -> Iterator[None]:
            for _ in range(500):
                loop.done += 1
                clock.advance(0.000_1)
                yield

    reflector: Reflector[FakeObject] = Reflector(session, FakeCodec(), Dear(), clock=clock)
    async with anyio.create_task_group() as others:
        others.start_soon(loop.watch)
        await reflector.stop()
        others.cancel_scope.cancel()

    assert loop.done == 500
    assert loop.most_in_a_turn <= 20  # of a tenth of a millisecond each
