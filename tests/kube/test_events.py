import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from reactive_desched.kube.client import events as events_module
from reactive_desched.kube.client.events import (
    FLUSH_EVERY_S,
    RATE_LIMIT,
    RETRY_AFTER_S,
    EventRecorder,
)
from reactive_desched.kube.client.rate_limiter import RateLimit
from reactive_desched.kube.client.session import KubeConfigOptions, Session, open_session
from reactive_desched.model.kube_events import KubeEvent, Regarding
from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.faults import FaultPlan
from reactive_desched.sim.seed import seed
from reactive_desched.sim.server import Settings, serve
from reactive_desched.sim.store import Store
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.scripted_api import ScriptedApi, ScriptedReply, status

pytestmark = pytest.mark.anyio

EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"
CREATED, PATCHED = ScriptedReply(201, b"{}"), ScriptedReply(200, b"{}")
POD = Regarding("Pod", "shop", "web-1", "uid-1")


def event(note: str = "moved", pod: Regarding = POD, **more: Any) -> KubeEvent:  # fields of Event
    return KubeEvent(pod, "PodLifeTime", "Descheduled", note, **more)


def refusal(code: int, reason: str) -> ScriptedReply:
    return ScriptedReply(code, msgspec.json.encode(status(reason, code, "no")))


class Bench:
    """A recorder, the server it writes to, and what it said."""

    def __init__(self, api: ScriptedApi, session: Session, clock: ManualClock) -> None:
        self.api, self.clock = api, clock
        self.said: list[dict[str, str]] = []
        self.recorder = EventRecorder(session, "node-7", self._tell, clock=clock)

    def _tell(self, event: str, **values: str) -> None:  # named as structlog names it
        assert event == "an Event was not written"
        self.said.append(values)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Bench"]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.recorder.run)
            yield self
            group.cancel_scope.cancel()

    async def asked(self, count: int) -> list[tuple[str, str, Any]]:
        """Return method, path and body of the requests once there are so many, and no more."""
        await wait_until(lambda: len(self.api.requests) >= count and self._has_nothing_to_do())
        assert len(self.api.requests) == count
        return [(a.kind, a.path, msgspec.json.decode(a.body)) for a in self.api.requests]

    def _has_nothing_to_do(self) -> bool:
        """Whether all is written, or the next try or the pace is waited for, beside the flush."""
        return not self.recorder._unsent or len(self.clock.pending_waits_s) > 1

    async def record(self, *notes: str) -> None:
        """Record one after the other, each when the server knows of the one before."""
        for note in notes:
            self.recorder.record(event(note))
            seen = self.recorder._series.values()
            await wait_until(
                lambda seen=seen: all(  # type: ignore[misc]  # a lambda with a default
                    one.written_count >= min(one.count, 2) for one in seen
                )
            )

    async def minute(self) -> None:
        """Let a minute pass, and what is due then be done."""
        self.clock.advance(FLUSH_EVERY_S)
        await wait_until(
            lambda: FLUSH_EVERY_S in self.clock.pending_waits_s and not self.recorder._unsent
        )


@pytest.fixture
async def bench(api: ScriptedApi, session: Session, clock: ManualClock) -> AsyncIterator[Bench]:
    made = Bench(api, session, clock)
    async with made.running():
        yield made


async def test_an_event_names_the_object_the_reason_and_the_reporter(bench: Bench) -> None:
    bench.api.answer_next("POST", CREATED)
    bench.recorder.record(event())

    [(_, path, body)] = await bench.asked(1)
    assert path == EVENTS
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web-1.18d75b8423f30000", "namespace": "shop"},
        "eventTime": "2026-09-21T14:13:20.000000Z",
        "reportingController": "reactive-desched",
        "reportingInstance": "node-7",
        "action": "Descheduled",
        "reason": "PodLifeTime",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web-1",
            "uid": "uid-1",
        },
        "note": "moved",
        "type": "Normal",
    }
    assert bench.recorder.sent == 1


async def test_an_event_about_an_object_without_a_namespace_is_in_the_default_one(
    bench: Bench,
) -> None:
    bench.api.answer_next("POST", CREATED)
    bench.recorder.record(event(pod=Regarding("PodMigrationJob", "", "move-web")))

    [(_, path, body)] = await bench.asked(1)
    assert path == EVENTS.replace("shop", "default")
    assert (body["metadata"]["namespace"], body["regarding"]["namespace"]) == ("default", "")


async def test_what_repeats_becomes_a_series_and_later_ones_only_count(bench: Bench) -> None:
    bench.api.answer_next("POST", CREATED)
    bench.api.answer_next("PATCH", PATCHED)
    for _ in range(3):
        await bench.record("moved")
        bench.clock.advance(1)

    (_, _, created), (kind, path, patch) = await bench.asked(2)
    assert kind == "PATCH"
    assert path == f"{EVENTS}/{created['metadata']['name']}"
    assert patch == {"series": {"count": 2, "lastObservedTime": "2026-09-21T14:13:21.000000Z"}}
    assert bench.api.requests[1].headers["Content-Type"] == "application/merge-patch+json"


async def test_other_words_are_another_event(bench: Bench) -> None:
    bench.api.answer_next("POST", CREATED, CREATED, CREATED)
    bench.recorder.record(event())
    bench.recorder.record(event("moved again"))
    bench.recorder.record(event(is_warning=True))

    bodies = [body for _, _, body in await bench.asked(3)]
    assert [(body["note"], body["type"]) for body in bodies] == [
        ("moved", "Normal"),
        ("moved again", "Normal"),
        ("moved", "Warning"),
    ]
    assert len({body["metadata"]["name"] for body in bodies}) == 3


async def test_what_repeats_before_it_could_be_sent_is_sent_once_with_its_count(
    bench: Bench,
) -> None:
    bench.api.answer_next("POST", CREATED)
    for _ in range(3):
        bench.recorder.record(event())

    [(_, _, body)] = await bench.asked(1)
    assert body["series"]["count"] == 3


async def test_the_last_count_of_a_series_is_written_when_it_has_been_quiet(bench: Bench) -> None:
    bench.api.answer_next("POST", CREATED)
    bench.api.answer_next("PATCH", PATCHED, PATCHED)
    await bench.record(*["moved"] * 5)
    assert len(await bench.asked(2)) == 2
    for _ in range(6):
        await bench.minute()

    *_, (_, _, patch) = await bench.asked(3)
    assert patch["series"]["count"] == 5
    await bench.minute()
    assert bench.recorder._series == {}


async def test_a_series_that_never_rests_is_written_every_half_hour(bench: Bench) -> None:
    bench.api.answer_next("POST", CREATED)
    bench.api.answer_next("PATCH", PATCHED, PATCHED)
    for _ in range(32):
        await bench.record("moved")
        await bench.minute()

    *_, (_, _, patch) = await bench.asked(3)
    assert patch["series"]["count"] == 31


async def test_an_event_whose_hour_is_over_begins_anew(bench: Bench) -> None:
    bench.api.answer_next("POST", CREATED, CREATED)
    await bench.record("moved")
    bench.recorder.record(event())  # the scripted server answers a PATCH with 404

    (_, _, first), (kind, _, _), (_, _, anew) = await bench.asked(3)
    assert kind == "PATCH"
    assert anew["metadata"]["name"] != first["metadata"]["name"]
    assert anew["series"]["count"] == 2
    assert bench.recorder.sent == 2


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(ScriptedReply(after_body="cut"), id="the line breaks"),
        pytest.param(refusal(500, "InternalError"), id="the server fails"),
        pytest.param(refusal(429, "TooManyRequests"), id="the server is busy"),
    ],
)
async def test_what_could_not_be_sent_is_tried_again_later(
    bench: Bench, trouble: ScriptedReply
) -> None:
    bench.api.answer_next("POST", trouble, CREATED)
    bench.recorder.record(event())
    await wait_until(lambda: RETRY_AFTER_S in bench.clock.pending_waits_s)
    bench.clock.advance(RETRY_AFTER_S)

    first, second = await bench.asked(2)
    assert first == second
    assert (bench.recorder.sent, bench.recorder.failed) == (1, 0)


async def test_an_event_an_earlier_try_created_is_there(bench: Bench) -> None:
    bench.api.answer_next("POST", ScriptedReply(after_body="cut"), refusal(409, "AlreadyExists"))
    bench.recorder.record(event())
    await wait_until(lambda: RETRY_AFTER_S in bench.clock.pending_waits_s)
    bench.clock.advance(RETRY_AFTER_S)

    await bench.asked(2)
    assert (bench.recorder.sent, bench.recorder.failed) == (1, 0)


async def test_three_tries_are_all_and_the_next_event_has_its_turn(bench: Bench) -> None:
    bench.api.answer_next("POST", *[ScriptedReply(after_body="cut")] * 3, CREATED)
    bench.recorder.record(event())
    bench.recorder.record(event("other"))
    for _ in range(2):
        await wait_until(lambda: RETRY_AFTER_S in bench.clock.pending_waits_s)
        bench.clock.advance(RETRY_AFTER_S)

    assert [body["note"] for _, _, body in await bench.asked(4)] == ["moved"] * 3 + ["other"]
    assert (bench.recorder.sent, bench.recorder.failed) == (1, 1)


async def test_what_the_server_refuses_is_counted_and_reported_and_not_tried_again(
    bench: Bench,
) -> None:
    bench.api.answer_next("POST", refusal(403, "Forbidden"))
    bench.recorder.record(event())
    await bench.asked(1)

    assert (bench.recorder.sent, bench.recorder.failed) == (0, 1)
    await bench.minute()
    assert bench.recorder._series == {}
    assert bench.said == [{"object": "shop/web-1", "reason": "PodLifeTime", "message": "403: no"}]
    assert not [wait for wait in bench.clock.pending_waits_s if wait == RETRY_AFTER_S]


def of_namespace(code: int, message: str, **details: object) -> ScriptedReply:
    body = status("Forbidden", code, message) | {"details": details}
    return ScriptedReply(code, msgspec.json.encode(body))


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(
            of_namespace(403, "no", causes=[{"reason": "NamespaceTerminating", "message": "no"}]),
            id="which is being deleted",
        ),
        pytest.param(of_namespace(404, "no", name="shop", kind="namespaces"), id="which is gone"),
    ],
)
async def test_an_event_of_a_namespace_is_dropped_without_a_word(
    bench: Bench, answer: ScriptedReply
) -> None:
    bench.api.answer_next("POST", answer)
    bench.recorder.record(event())
    await bench.asked(1)

    recorder = bench.recorder
    assert (recorder.sent, recorder.failed, recorder.dropped) == (0, 0, 1)
    assert bench.said == []
    bench.api.answer_next("POST", CREATED)
    recorder.record(event())
    await bench.asked(2)
    assert recorder.sent == 1


async def test_a_404_of_anything_else_is_reported(bench: Bench) -> None:
    bench.api.answer_next("POST", refusal(404, "NotFound"))
    bench.recorder.record(event())
    await bench.asked(1)

    assert (bench.recorder.failed, bench.recorder.dropped) == (1, 0)


async def test_nothing_in_a_note_is_a_command_to_a_terminal(bench: Bench) -> None:
    bench.api.answer_next("POST", CREATED)
    bench.recorder.record(event("a\x1b[31m\u202eb\nc"))

    [(_, _, body)] = await bench.asked(1)
    assert body["note"].isprintable()


async def test_the_pace_is_kept_after_a_burst(bench: Bench) -> None:
    bench.api.answer_next("POST", *[CREATED] * 60)
    for number in range(60):
        bench.recorder.record(event(str(number)))
    await bench.asked(RATE_LIMIT.burst)

    bench.clock.advance(1)
    await bench.asked(RATE_LIMIT.burst + int(RATE_LIMIT.qps))


async def test_beyond_the_bound_events_are_dropped_and_counted(
    api: ScriptedApi, session: Session, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "MAX_UNSENT", 2)
    bench = Bench(api, session, clock)
    bench.api.answer_next("POST", CREATED, CREATED, CREATED)
    for note in ("a", "b", "c", "a"):
        bench.recorder.record(event(note))
    assert bench.recorder.dropped == 1

    async with bench.running():
        assert [body["note"] for _, _, body in await bench.asked(2)] == ["a", "b"]
        bench.recorder.record(event("c"))
        assert [body["note"] for _, _, body in await bench.asked(3)] == ["a", "b", "c"]


async def test_at_the_bound_the_event_not_seen_for_longest_is_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "MAX_SERIES", 2)
    bench.api.answer_next("POST", *[CREATED] * 4)
    await bench.record("a", "b", "c", "a")

    kinds = [(kind, body["note"]) for kind, _, body in await bench.asked(4)]
    assert kinds == [("POST", note) for note in "abca"]


async def test_what_repeats_while_it_is_being_sent_becomes_a_series(bench: Bench) -> None:
    entered, go_on = anyio.Event(), anyio.Event()

    async def hold() -> None:
        entered.set()
        await go_on.wait()

    bench.api.before_answering = hold
    bench.api.answer_next("POST", CREATED)
    bench.api.answer_next("PATCH", PATCHED)
    bench.recorder.record(event())
    await entered.wait()
    bench.recorder.record(event())
    go_on.set()

    (_, _, created), (_, _, patch) = await bench.asked(2)
    assert "series" not in created
    assert patch["series"]["count"] == 2


async def test_one_can_wait_until_all_is_written(bench: Bench) -> None:
    await bench.recorder.drained()
    bench.api.answer_next("POST", CREATED, refusal(403, "Forbidden"))
    bench.recorder.record(event("a"))
    bench.recorder.record(event("b"))
    with anyio.fail_after(30):
        await bench.recorder.drained()

    assert (bench.recorder.sent, bench.recorder.failed) == (1, 1)


async def test_texts_that_are_too_long_are_cut_to_what_the_api_takes(bench: Bench) -> None:
    bench.api.answer_next("POST", CREATED)
    long = Regarding("Pod", "shop", "a" * 235 + "." + "b" * 17)
    bench.recorder.record(KubeEvent(long, "R" * 200, "A" * 200, "ä" * 1000))

    [(_, _, body)] = await bench.asked(1)
    name = body["metadata"]["name"]
    assert len(name) <= 253
    assert name.startswith("a" * 235 + ".18")
    assert (len(body["reason"]), len(body["action"])) == (128, 128)
    assert len(body["note"].encode()) <= 1024
    assert body["note"].endswith("ä…")


class Simulated:
    """A simulated API server and a session to it."""

    def __init__(self, store: Store, session: Session) -> None:
        self.store, self.session = store, session

    def shown(self) -> Iterator[tuple[str, int, str]]:
        """Give note, count and reporting controller of every Event."""
        for one in self.store.list("events"):
            series = one.get("series") or {"count": 1}
            yield one["message"], series["count"], one["reportingComponent"]


@pytest.fixture
async def simulated(kubeconfig: Callable[[str], Path]) -> AsyncIterator[Simulated]:
    store = Store(VirtualClock(1_790_000_000), random.Random(1))
    seed(store)
    store.create("namespaces", {"metadata": {"name": "shop"}})
    async with serve(store, faults=FaultPlan(), settings=Settings()) as url:
        config = KubeConfigOptions(kubeconfig=str(kubeconfig(url)))
        async with open_session(config, rate_limit=RateLimit(qps=1000, burst=1000)) as session:
            yield Simulated(store, session)


async def test_a_server_that_checks_them_takes_events_and_series(
    simulated: Simulated, clock: ManualClock
) -> None:
    said: list[dict[str, str]] = []
    recorder = EventRecorder(
        simulated.session, "node-7", lambda _, **values: said.append(values), clock=clock
    )
    async with anyio.create_task_group() as group:
        group.start_soon(recorder.run)
        recorder.record(event(is_warning=True))
        await wait_until(lambda: recorder.sent == 1)
        recorder.record(event(is_warning=True))
        recorder.record(event("ü" * 2000))
        await wait_until(lambda: recorder.sent == 3)
        group.cancel_scope.cancel()

    assert sorted(simulated.shown()) == [
        ("moved", 2, "reactive-desched"),
        ("ü" * 510 + "…", 1, "reactive-desched"),
    ]
    assert said == []
