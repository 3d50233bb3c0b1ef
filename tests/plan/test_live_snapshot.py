from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from reactive_desched.errors import SnapshotUnavailable, Unreachable
from reactive_desched.kube.client.patience import PATIENCE_S
from reactive_desched.kube.client.rate_limiter import RequestPriority
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.kube.client.session import WatchStream
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.objects import Job
from reactive_desched.plan.live_snapshot import list_snapshot
from reactive_desched.plan.progress import Progress
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

NODE = {"metadata": {"name": "n1"}}
POD = {"metadata": {"namespace": "shop", "name": "a", "uid": "u"}}


class Server:
    """Answers lists with what it holds, or as it was told to."""

    def __init__(self, **things: list[Any]) -> None:
        self.things = things
        self.answers: dict[str, list[ApiResponse | Unreachable]] = {}
        self.asked: list[tuple[str, str]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "",
        limits: object = None,
        priority: RequestPriority = RequestPriority.BACKGROUND,
        into: Callable[[], Awaitable[bytearray]] | None = None,
    ) -> ApiResponse:
        resource = path.rpartition("/")[2]
        self.asked.append((method, resource))
        if self.answers.get(resource):
            answer = self.answers[resource].pop(0)
            if isinstance(answer, Unreachable):
                raise answer
            return answer
        items = self.things.get(resource, [])
        page = {"metadata": {"resourceVersion": "5"}, "items": items}
        return ApiResponse(200, {}, msgspec.json.encode(page))

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, open_s: float | None = None
    ) -> AsyncIterator[WatchStream | ApiResponse]:
        raise AssertionError(f"nothing is to be watched, and {path} was")
        yield  # a generator, as the contract wants


def said_no(code: int) -> ApiResponse:
    return ApiResponse(code, {}, b'{"kind":"Status","code":%d,"message":"no"}' % code)


class Hasty:
    """Never waits, and remembers how long it should have."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    def now(self) -> float:
        return sum(self.waited_s)

    def wall(self) -> float:
        return 1_790_000_000.0 + self.now()

    async def sleep(self, seconds: float) -> None:
        self.waited_s.append(seconds)


class Noting(Progress):
    """Keeps what is said of waits."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


GONE = Unreachable("GET", "refused", sent=False)


async def test_everything_is_listed_once_and_nothing_else_is_asked_for() -> None:
    server = Server(nodes=[NODE], pods=[POD])
    picture = await list_snapshot(server, ["nodes", "pods"], Progress())

    assert [str(each) for each in picture.pods] == ["shop/a"]
    assert [each.name for each in picture.nodes] == ["n1"]
    assert server.asked == [("GET", "nodes"), ("GET", "pods")]
    assert picture.is_complete


async def test_what_cannot_be_read_is_left_out_and_named() -> None:
    server = Server(pods=[POD, {"metadata": {"name": "b"}}])
    picture = await list_snapshot(server, ["pods"], Progress())

    assert [each.name for each in picture.unreadable] == ["b"]
    assert not picture.is_complete


async def test_every_right_that_lacks_is_named_and_nothing_is_answered(golden: Golden) -> None:
    server = Server(pods=[POD])
    server.answers = {"nodes": [said_no(403)], "namespaces": [said_no(403)]}
    with pytest.raises(SnapshotUnavailable) as caught:
        await list_snapshot(server, ["namespaces", "pods", "nodes"], Progress())

    said = str(caught.value).splitlines()
    assert said[1] == "  namespaces: list /api/v1/namespaces: 403 no"
    assert said[2] == "  nodes: list /api/v1/nodes: 403 no"
    assert golden() in said[3]
    assert not caught.value.retryable


async def test_a_kind_that_is_not_served_asks_for_no_right(golden: Golden) -> None:
    server = Server(pods=[POD])
    server.answers = {"poddisruptionbudgets": [said_no(404)], "nodes": [said_no(403)]}
    with pytest.raises(SnapshotUnavailable) as caught:
        await list_snapshot(server, ["poddisruptionbudgets", "nodes", "pods"], Progress())

    assert str(caught.value).splitlines()[3] == golden()


async def test_what_is_dispensable_is_done_without_where_it_is_refused() -> None:
    server = Server(pods=[POD], jobs=[{"metadata": {"uid": "j"}}])
    server.answers = {"replicasets": [said_no(403)]}
    resources = ["replicasets", "jobs", "pods"]
    picture = await list_snapshot(
        server, resources, Progress(), optional_resources={"replicasets", "jobs"}
    )

    assert [str(each) for each in picture.pods] == ["shop/a"]
    assert picture.forbidden == {"replicasets": "list /apis/apps/v1/replicasets: 403 no"}
    assert not picture.build_state(EVERYTHING).is_readable("replicasets")
    assert picture.build_state(EVERYTHING).is_readable("jobs")


async def test_no_right_to_what_is_dispensable_is_demanded(golden: Golden) -> None:
    server = Server()
    server.answers = {"replicasets": [said_no(403)], "pods": [said_no(403)]}
    with pytest.raises(SnapshotUnavailable) as caught:
        await list_snapshot(
            server, ["replicasets", "pods", "nodes"], Progress(), optional_resources={"replicasets"}
        )

    assert golden() in str(caught.value)

    assert "replicasets" not in str(caught.value)


async def test_a_server_that_stays_away_is_not_done_without() -> None:
    server = Server()
    server.answers = {"jobs": [GONE] * 100}
    with pytest.raises(SnapshotUnavailable, match="jobs: GET: refused"):
        await list_snapshot(server, ["jobs"], Progress(), Hasty(), optional_resources={"jobs"})


async def test_owners_of_owners_are_in_the_picture_where_they_are_listed() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "c"}
    job = {"metadata": {"uid": "j", "ownerReferences": [owner | {"controller": True}]}}
    picture = await list_snapshot(Server(jobs=[job, job], pods=[POD]), ["jobs", "pods"], Progress())

    state = picture.build_state(EVERYTHING)
    job_in_state = state.store(Job).get("j")
    assert job_in_state is not None
    assert (str(job_in_state.controller), picture.duplicates) == ("CronJob/c", 1)


async def test_a_list_whose_token_expired_is_begun_anew_and_counts_once() -> None:
    broken = {"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [POD, {}]}
    server = Server(pods=[POD, {}])
    first_page = ApiResponse(200, {}, msgspec.json.encode(broken))
    server.answers = {"pods": [first_page, said_no(410), GONE]}
    clock = Hasty()
    picture = await list_snapshot(server, ["pods"], Progress(), clock)

    assert [str(each) for each in picture.pods] == ["shop/a"]
    assert (picture.duplicates, picture.unreadable_count) == (0, 1)
    assert [wait_s < 0.5 for wait_s in clock.waited_s] == [True]


async def test_a_list_that_breaks_is_begun_anew_after_a_pause_and_counts_once() -> None:
    server, clock = Server(pods=[POD, {}]), Hasty()
    server.answers = {"pods": [said_no(500), GONE]}
    picture = await list_snapshot(server, ["pods"], Progress(), clock)

    assert [str(each) for each in picture.pods] == ["shop/a"]
    assert (picture.duplicates, picture.unreadable_count) == (0, 1)
    assert clock.waited_s == [0.5, 1.0]


async def test_a_server_that_stays_away_is_given_up_and_nothing_else_is_asked() -> None:
    server, clock = Server(), Hasty()
    server.answers = {"pods": [GONE] * 100}
    with pytest.raises(SnapshotUnavailable, match="pods: GET: refused"):
        await list_snapshot(server, ["pods", "nodes"], Progress(), clock)

    assert {resource for _, resource in server.asked} == {"pods"}
    assert clock.waited_s[:5] == [0.5, 1.0, 2.0, 4.0, 5.0]
    assert PATIENCE_S - 5 < clock.now() <= PATIENCE_S


async def test_an_outage_between_two_lists_is_waited_for_as_long_as_one_at_the_start() -> None:
    server, clock = Server(nodes=[NODE], pods=[POD]), Hasty()
    server.answers = {"nodes": [GONE] * 9, "pods": [said_no(500), GONE, said_no(429)] * 3}
    picture = await list_snapshot(server, ["nodes", "pods"], Progress(), clock)
    assert [str(each) for each in picture.pods] == ["shop/a"]
    assert clock.now() > PATIENCE_S


async def test_each_reason_to_wait_is_said_once_with_how_long_it_can_take() -> None:
    server, notes = Server(nodes=[NODE]), Noting()
    server.answers = {"nodes": [GONE, GONE, said_no(500), GONE]}
    await list_snapshot(server, ["nodes"], notes, Hasty())
    assert [(note.partition(";")[0], note[-4:]) for note in notes.notes] == [
        ("GET: refused", "45 s"),
        ("list /api/v1/nodes: 500 no", "44 s"),
        ("GET: refused", "42 s"),
    ]


async def test_credentials_that_are_not_accepted_for_a_moment_leave_nothing_out() -> None:
    server, clock = Server(pods=[POD], jobs=[{"metadata": {"uid": "j"}}]), Hasty()
    server.answers = {"jobs": [said_no(401), said_no(401)]}
    picture = await list_snapshot(
        server, ["pods", "jobs"], Progress(), clock, optional_resources={"jobs"}
    )
    assert picture.build_state(EVERYTHING).is_readable("jobs")
    assert clock.waited_s == [0.5, 1.0]


async def test_credentials_that_are_not_accepted_are_named_after_three_tries(
    golden: Golden,
) -> None:
    server = Server(pods=[POD])
    server.answers = {"jobs": [said_no(401)] * 4}
    with pytest.raises(SnapshotUnavailable) as caught:
        await list_snapshot(
            server, ["pods", "jobs", "nodes"], Progress(), Hasty(), optional_resources={"jobs"}
        )
    assert golden() in str(caught.value)
    assert server.asked == [("GET", "pods"), *[("GET", "jobs")] * 3]


async def test_a_server_that_says_when_to_ask_again_is_asked_then() -> None:
    busy = ApiResponse(429, {"Retry-After": "8"}, b"later")
    server, clock = Server(nodes=[NODE]), Hasty()
    server.answers["nodes"] = [busy] * 5
    picture = await list_snapshot(server, ["nodes"], Progress(), clock)
    assert [node.name for node in picture.nodes] == ["n1"]
    assert clock.waited_s == [8.0] * 5

    server.answers["nodes"] = [busy] * 10
    with pytest.raises(SnapshotUnavailable):
        await list_snapshot(server, ["nodes"], Progress(), clock)


@pytest.mark.parametrize("asked", ["600", "86400", "9" * 400, "Fri, 01 Jan 2100 00:00:00 GMT"])
async def test_a_server_that_is_to_be_asked_much_later_is_not_waited_for(asked: str) -> None:
    server, clock = Server(nodes=[NODE]), Hasty()
    server.answers["nodes"] = [ApiResponse(503, {"Retry-After": asked}, b"later")]
    with pytest.raises(SnapshotUnavailable, match="asked again after"):
        await list_snapshot(server, ["nodes"], Progress(), clock)
    assert clock.waited_s == []


@pytest.mark.parametrize("asked", ["-86400", "soon", "0", "Thu, 01 Jan 1970 00:00:00 GMT"])
async def test_a_wait_that_is_none_leaves_ours(asked: str) -> None:
    server, clock = Server(nodes=[NODE]), Hasty()
    server.answers["nodes"] = [ApiResponse(503, {"Retry-After": asked}, b"later")]
    await list_snapshot(server, ["nodes"], Progress(), clock)
    assert clock.waited_s == [0.5]


async def test_progress_is_counted() -> None:
    told: list[tuple[str, int]] = []

    class Remembering(Progress):
        def update(self, what: str, done: int, of: int = 0) -> None:
            told.append((what, done))

    await list_snapshot(Server(pods=[POD, POD], nodes=[NODE]), ["pods", "nodes"], Remembering())

    assert told == [("listing pods:", 1), ("listing pods:", 2), ("listing nodes:", 1)]
