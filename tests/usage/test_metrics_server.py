"""metrics-server is asked with one list of nodes and one of pods."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from reactive_desched.errors import Unreachable, UsageUnavailable
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.model.objects import Pod
from reactive_desched.testing.builders import pod as make_pod
from reactive_desched.usage.metrics_server import MetricsServer
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
PODS = "/apis/metrics.k8s.io/v1beta1/pods"
TIME = "2026-11-21T07:17:02Z"


def node(name: str, cpu: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "timestamp": TIME, "usage": {"cpu": cpu}}


def pod(name: str, cpu: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "timestamp": TIME,
        "containers": [{"name": "a", "usage": {"cpu": cpu}}],
    }


A, B = (make_pod(name, namespace="shop") for name in "ab")


class Session:
    """Answers lists as scripted."""

    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self.answers: dict[str, ApiResponse | Exception] = {
            path: self.listing(lists.get(path.rpartition("/")[2], [])) for path in (NODES, PODS)
        }
        self.asked: list[str] = []

    @staticmethod
    def listing(items: list[dict[str, Any]]) -> ApiResponse:
        body = {"kind": "List", "metadata": {}, "items": items}
        return ApiResponse(200, {}, msgspec.json.encode(body))

    async def request(self, method: str, path: str, **_: object) -> ApiResponse:
        assert method == "GET"
        self.asked.append(path)
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer


def source(
    session: Session, on: Mapping[str, tuple[Pod, ...]] | None = None, **more: float
) -> tuple[MetricsServer, ManualClock]:
    clock = ManualClock()
    made = MetricsServer(session, clock, lambda name: (on or {}).get(name, ()), **more)  # type: ignore[arg-type]  # what it uses of a session
    return made, clock


async def measured(server: MetricsServer) -> dict[str, tuple[int, Mapping[str, Mapping[str, int]]]]:
    return {each.node: (each.usage["cpu"], each.pods) for each in await server.measure()}


async def test_a_list_of_nodes_and_one_of_pods_make_a_sample_of_each_node() -> None:
    session = Session(nodes=[node("n1", "1"), node("n2", "2")], pods=[pod("a", "100m")])
    server, _ = source(session, {"n2": (A, B)})

    assert await measured(server) == {"n1": (1000, {}), "n2": (2000, {"shop/a": {"cpu": 100}})}
    assert session.asked == [NODES, PODS]


async def test_pods_are_listed_less_often_than_nodes() -> None:
    session = Session(nodes=[node("n1", "1")], pods=[pod("a", "100m")])
    server, clock = source(session, {"n1": (A,)}, pod_interval_s=60)
    for _ in range(3):
        assert await measured(server) == {"n1": (1000, {"shop/a": {"cpu": 100}})}
        clock.advance(25)

    assert session.asked == [NODES, PODS, NODES, NODES]
    await server.measure()
    assert session.asked[-2:] == [NODES, PODS]


async def test_a_pod_that_came_or_left_between_two_lists_of_pods_is_taken_in() -> None:
    session = Session(nodes=[node("n1", "1")], pods=[pod("a", "100m"), pod("b", "7m")])
    on: dict[str, tuple[Pod, ...]] = {"n1": (A,)}
    server, _ = source(session, on, pod_interval_s=60)
    a, b = {"shop/a": {"cpu": 100}}, {"shop/b": {"cpu": 7}}
    for present, used in (((A,), a), ((A, B), a | b), ((B,), b), ((), {}), ((B,), b)):
        on["n1"] = present
        assert await measured(server) == {"n1": (1000, used)}


async def test_pods_that_are_listed_anew_are_taken_in() -> None:
    session = Session(nodes=[node("n1", "1")], pods=[pod("a", "100m")])
    server, _ = source(session, {"n1": (A,)})
    assert await measured(server) == {"n1": (1000, {"shop/a": {"cpu": 100}})}

    session.answers[PODS] = session.listing([pod("a", "90m")])

    assert await measured(server) == {"n1": (1000, {"shop/a": {"cpu": 90}})}


async def test_what_a_pod_of_the_same_name_used_before_is_not_the_new_ones() -> None:
    session = Session(nodes=[node("n1", "1")], pods=[pod("a", "100m")])
    measured_s = 1795245422  # 2026-11-21T07:17:02Z
    on: dict[str, tuple[Pod, ...]] = {}
    server, _ = source(session, on)
    for created_s, used in ((measured_s - 1, {"shop/a": {"cpu": 100}}), (measured_s, {})):
        on["n1"] = (make_pod("a", namespace="shop", uid=f"{created_s}", created=created_s),)
        assert await measured(server) == {"n1": (1000, used)}


async def test_an_object_that_cannot_be_read_is_left_out() -> None:
    session = Session(nodes=[node("n1", "much"), node("n2", "2")])
    server, _ = source(session)

    assert await measured(server) == {"n2": (2000, {})}


@pytest.mark.parametrize("path", [NODES, PODS])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            ApiResponse(404, {}, b"404 page not found"), "404 404 page not found", id="no such API"
        ),
        pytest.param(
            ApiResponse(503, {}, b'{"code":503,"message":"the server is currently unable"}'),
            "503 the server is currently unable",
            id="metrics-server is down",
        ),
        pytest.param(ApiResponse(200, {}, b"<html>"), "cannot be read", id="no JSON"),
        pytest.param(Unreachable("GET", "gone", sent=False), "GET: gone", id="no answer"),
    ],
)
async def test_what_goes_wrong_is_reported(
    path: str, answer: ApiResponse | Exception, text: str
) -> None:
    session = Session(nodes=[node("n1", "1")])
    session.answers[path] = answer
    server, _ = source(session)

    with pytest.raises(UsageUnavailable, match=text):
        await server.measure()
