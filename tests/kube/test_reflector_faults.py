"""Whatever goes wrong on the way, the picture ends equal to what the server has."""

from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import anyio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reactive_desched.kube.client.rate_limiter import RateLimit
from reactive_desched.kube.client.session import KubeConfigOptions, open_session
from reactive_desched.kube.watch.initial_list import ListSettings
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.kube.watch.settings import ReflectorSettings
from tests.support.fake_resource import FakeCodec, RecordingEventHandler
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.scripted_api import ScriptedApi, ScriptedReply, error_line

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "%s"}}]
users: []
contexts: [{name: here, context: {cluster: c, user: u}}]
"""

Step = Callable[[ScriptedApi, ManualClock], None]


def missed_while_away(name: str) -> Step:
    def step(api: ScriptedApi, _: ManualClock) -> None:
        api.cut_watches()
        api.delete_silently(name)
        api.compact()

    return step


def put(name: str, value: str) -> Step:
    return lambda api, _: api.put(name, value)


def delete(name: str) -> Step:
    return lambda api, _: api.delete(name)


def refuse(kind: str, code: int) -> Step:
    return lambda api, _: api.answer_next(kind, ScriptedReply(code, b"no"))


def refuse_second_page(code: int) -> Step:
    return lambda api, _: api.answer_next("list", None, ScriptedReply(code, b"no"))


def repeat(which: int) -> Step:
    return lambda api, _: api.replay_event(which)


def pass_time(seconds: float) -> Step:
    return lambda _, clock: clock.advance(seconds)


# A tiny world, so that changes and faults meet often.
names = st.sampled_from(["a", "b", "c"])
changes = st.one_of(
    st.builds(put, names, st.sampled_from(["1", "2"])),
    st.builds(delete, names),
)
faults = st.one_of(
    st.builds(missed_while_away, names),
    st.builds(refuse, st.sampled_from(["list", "watch"]), st.sampled_from([410, 422, 429, 500])),
    st.builds(refuse_second_page, st.sampled_from([410, 503])),
    st.builds(repeat, st.sampled_from([-1, -2])),
    st.sampled_from(
        [
            lambda api, _: api.cut_watches(),
            lambda api, _: api.cut_watches(b'{"type":"ADDED","object":{"metad'),
            lambda api, _: api.end_watches(),
            lambda api, _: api.compact(),
            lambda api, _: api.bookmark(),
            lambda api, _: api.send_raw(b"nonsense\n"),
            lambda api, _: api.send_raw(error_line(500, "InternalError", "etcd")),
            lambda api, _: api.send_raw(error_line(429, "TooManyRequests", "later")),
            lambda api, _: api.answer_next("watch", ScriptedReply()),
            lambda api, _: api.answer_next(
                "list", ScriptedReply(body=b'{"metadata":', after_body="cut")
            ),
        ]
    ),
)
steps = changes | faults | st.builds(pass_time, st.sampled_from([0.5, 2.0, 40.0]))


@asynccontextmanager
async def reflecting(api, feed, clock, streaming):  # type: ignore[no-untyped-def]  # one use, below
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config"
        path.write_text(KUBECONFIG % api.url)
        config, rate = (
            KubeConfigOptions(kubeconfig=str(path)),
            RateLimit(qps=10_000, burst=10_000),
        )
        async with open_session(config, rate_limit=rate) as session:
            reflector = Reflector(
                session,
                FakeCodec(),
                feed,
                clock=clock,
                rng=Random(1),
                settings=ReflectorSettings(
                    streaming=streaming,
                    initial_list=ListSettings(1, 1),
                    relist=ListSettings(2, 1),
                ),
            )
            async with anyio.create_task_group() as beside:
                beside.start_soon(reflector.run)
                yield
                beside.cancel_scope.cancel()


async def recover(api: ScriptedApi, feed: RecordingEventHandler, clock: ManualClock) -> None:
    """Let time pass only while the feed knows that it is stale: a fresh picture must be true."""
    for _ in range(300):
        await wait_until(
            lambda: is_true(api, feed) or (not feed.is_fresh and bool(clock.pending_waits_s))
        )
        if is_true(api, feed):
            return
        clock.advance(1.0)
        await anyio.sleep(0.002)


def is_true(api: ScriptedApi, feed: RecordingEventHandler) -> bool:
    return feed.is_fresh and feed.objects == api.objects


async def live_through(
    story: list[Step], *, streaming: bool
) -> tuple[ScriptedApi, RecordingEventHandler]:
    feed, clock = RecordingEventHandler(), ManualClock()
    async with ScriptedApi(FakeCodec.path).serving() as api:
        api.streaming = streaming
        async with reflecting(api, feed, clock, streaming):
            await wait_until(lambda: feed.is_fresh)
            for step in story:
                step(api, clock)
                await anyio.sleep(0.002)  # so that most steps meet a reflector at rest
            api.clear_script()
            await recover(api, feed, clock)
    return api, feed


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(story=[put("a", "1"), delete("a"), repeat(-2)], streaming=False)
@example(
    story=[
        *(put("a", "1"), put("b", "1"), put("c", "1")),
        *(refuse_second_page(410), missed_while_away("d"), pass_time(40)),
        *[pass_time(0.001)] * 20,
    ],
    streaming=False,
)
@given(story=st.lists(steps, min_size=4, max_size=25), streaming=st.booleans())
def test_the_picture_ends_equal_to_the_server(*, story: list[Step], streaming: bool) -> None:
    api, feed = anyio.run(lambda: live_through(story, streaming=streaming))
    assert is_true(api, feed)
