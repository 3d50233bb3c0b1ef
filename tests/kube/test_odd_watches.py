"""However a watch is cut into chunks, and whatever stands between, the next valid object counts."""

import asyncio
import json
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from unittest.mock import Mock

import anyio
import pytest
from aiohttp.streams import StreamReader
from hypothesis import example, given
from hypothesis import strategies as st

from reactive_desched.errors import Malformed
from reactive_desched.kube.client.session import WatchStream
from reactive_desched.kube.codec import WatchEvent
from reactive_desched.kube.watch.resume import StopReason, WatchEnd
from reactive_desched.kube.watch.watcher import WatchEventHandler, WatchReader
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.wakeup import Epoch
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import make_codecs
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.reflector_harness import STREAMING_LIST, ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, bookmark_line

_LONGEST_LINE = 4_000

Events = list[tuple[str, str]]


class Applied(WatchEventHandler[Pod]):
    """Notes what a watch brought."""

    def __init__(self) -> None:
        self.events: Events = []

    def apply(self, event: WatchEvent[Pod]) -> None:
        name = "" if event.object is None else event.object.name
        self.events.append((event.type, name or event.resource_version))


def change(kind: str, name: str, text: str) -> bytes:
    metadata = {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "7"}
    pod = {"metadata": {**metadata, "labels": {"app": text}}, "spec": {"containers": []}}
    return json.dumps({"type": kind, "object": pod}, ensure_ascii=False).encode() + b"\n"


UNREADABLE = st.sampled_from(
    [
        *(b"nonsense\n", b"\r\n", b"\xd0\n", b"{\n", b'{"type":"MOVED","object":{}}\n'),
        change("ADDED", "half", "яблоко")[:-20] + b"\n",
        change("ADDED", "two", "a")[:-1] + change("ADDED", "in-one", "b"),
        change("ADDED", "long", "x" * 3 * _LONGEST_LINE),
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1e30"}}}\n',
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%b"}}}\n' % (b"9" * 500),
        bookmark_line("\uff11\uff12"),
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":12}}}\n',
        b'{"type":"BOOKMARK"}\n',
        change("MODIFIED", "full-width", "a").replace(b'"7"', b'"\\uff17"'),
        change("DELETED", "nobody", "a").replace(b'"uid"', b'"of"'),
    ]
)
READABLE = st.one_of(
    st.just(((), b"\n")),
    st.just(((("BOOKMARK", ""),), b'{"type":"BOOKMARK","object":{"metadata":{}}}\n')),
    st.just(((("BOOKMARK", "9"),), bookmark_line(9))),
    st.builds(
        lambda kind, number, text: (
            ((kind, f"web-{number}"),),
            change(kind, f"web-{number}", text),
        ),
        st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
        st.integers(1, 9),
        st.sampled_from(["a", "я", "\U0001f600", "\u2028", "日本語" * 300]),
    ),
)


async def read(chunks: Iterable[bytes]) -> tuple[WatchEnd, Events, list[Malformed]]:
    """Read a watch whose bytes arrive in these chunks."""
    reader = StreamReader(Mock(_reading_paused=False), 2**16, loop=asyncio.get_running_loop())
    applied, unreadable = Applied(), list[Malformed]()
    stream = WatchStream(
        {},
        partial(reader.readline, max_line_length=_LONGEST_LINE),
        lambda: reader.total_raw_bytes,
    )
    codec = make_codecs(InternTables(reads_all=False)).pods
    watch = WatchReader(codec, unreadable.append, ManualClock(), Epoch())

    async def feed() -> None:
        for chunk in chunks:
            reader.feed_data(chunk)
            await asyncio.sleep(0)
        reader.feed_eof()

    async with anyio.create_task_group() as both:
        both.start_soon(feed)
        end = await watch.read(stream, applied, lambda: 60.0)
    return end, applied.events, unreadable


@given(
    lines=st.lists(READABLE | UNREADABLE.map(lambda line: (None, line)), min_size=1, max_size=12),
    cuts=st.lists(st.integers(0, 10_000), max_size=30),
)
@example(
    lines=[((("ADDED", "web-1"),), change("ADDED", "web-1", "я"))],
    cuts=list(range(200)),  # between any two bytes, those of one letter too
)
def test_each_readable_line_counts_wherever_the_chunks_end(
    *, lines: list[tuple[tuple[tuple[str, str], ...] | None, bytes]], cuts: list[int]
) -> None:
    data = b"".join(line for _, line in lines)
    at = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[begin:end] for begin, end in pairwise(at)]

    end, events, unreadable = asyncio.run(read(chunks))

    assert end.reason is StopReason.CLEAN
    assert events == [event for found, _ in lines for event in found or ()]
    assert len(unreadable) == sum(found is None for found, _ in lines)


def test_the_rest_of_a_watch_that_ends_within_a_line_is_not_read() -> None:
    whole, torn = change("ADDED", "web-1", "a"), change("ADDED", "web-2", "я")

    end, events, unreadable = asyncio.run(read([whole + torn[:-1]]))

    assert (end.reason, events, unreadable) == (StopReason.BROKEN, [("ADDED", "web-1")], [])


class TestOneResource:
    """Its objects, as they are after something odd."""

    @pytest.mark.anyio
    @pytest.mark.parametrize(
        "status",
        [
            *("null", '"text"', "[]", "{}", "7", '{"code":"410"}', '{"code":null}'),
            *('{"code":410.0}', '{"code":-5}', '{"code":200}', '{"code":1e400}'),
            *('{"code":410,"details":{"causes":["x"]}}', f'{{"code":{10**30}}}'),
            *('{"code":429,"details":{"retryAfterSeconds":-5}}', '{"message":"\\u001b[31m"}'),
            '{"code":429,"details":{"retryAfterSeconds":1e308}}',
        ],
    )
    async def test_an_error_of_any_shape_ends_in_objects_that_are_true(
        self, api: ScriptedApi, mirror: ReflectorHarness, status: str
    ) -> None:
        async with mirror.running():
            await mirror.wait_until_fresh()
            api.send_raw(b'{"type":"ERROR","object":%b}\n' % status.encode())
            waits_s = await mirror.wait_for_backoff()
            api.put("a", "1")
            mirror.clock.advance(2.0)
            await wait_until(lambda: mirror.objects == {"a": "1"})
        assert waits_s < 2.0

    @pytest.mark.anyio
    @pytest.mark.parametrize("version", ["", "0", "9", "1e30", "-1", "99"])
    async def test_a_bookmark_of_no_version_or_an_older_one_moves_nothing(
        self, api: ScriptedApi, mirror: ReflectorHarness, version: str
    ) -> None:
        async with mirror.running():
            await mirror.wait_until_fresh()
            api.put("a", "1")
            await wait_until(lambda: mirror.objects == {"a": "1"})
            api.send_raw(bookmark_line(version))
            await wait_until(lambda: mirror.status.bookmarks == 1)
            assert mirror.status.resource_version == str(api.version)
            api.put("b", "1")
            await wait_until(lambda: mirror.objects == {"a": "1", "b": "1"})
            assert mirror.is_fresh
        assert api.count("watch") == 1

    @pytest.mark.anyio
    async def test_a_deletion_of_what_was_never_there_is_the_next_version(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        async with mirror.running():
            await mirror.wait_until_fresh()
            api.objects["ghost"] = "1"  # which no watch and no list has shown
            api.delete("ghost")
            api.put("a", "1")
            await wait_until(lambda: mirror.objects == {"a": "1"})
            assert mirror.is_fresh
        assert mirror.handler.unreadable == []
        assert api.count("watch") == 1

    @pytest.mark.anyio
    async def test_a_streamed_list_that_ends_without_a_version_is_read_in_pages(
        self, api: ScriptedApi, mirror: ReflectorHarness
    ) -> None:
        api.put("a", "1")
        end = bookmark_line("", {"k8s.io/initial-events-end": "true"})
        api.answer_next("watch", ScriptedReply(body=end, after_body="hang"))
        async with mirror.running(STREAMING_LIST):
            await mirror.wait_until_fresh()
        assert mirror.objects == {"a": "1"}
        assert api.count("list") == 1
