from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import anyio
import msgspec
import pytest

from reactive_desched.errors import RequestRejected, Unreachable
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.client.rate_limiter import RateLimit, RequestPriority
from reactive_desched.kube.client.session import (
    KubeConfigOptions,
    RequestLimits,
    Session,
    open_session,
)
from reactive_desched.model.eviction_options import (
    DeleteOptions,
    EvictionOptions,
    Preconditions,
)
from reactive_desched.model.evictors.soft_eviction import SOFT_EVICTION_REQUESTED
from reactive_desched.model.outcomes import (
    Accepted,
    Conflict,
    Denied,
    EffectUnknown,
    EvictionRequest,
    EvictionResponse,
    LeavesLater,
    NotFound,
    NotSent,
    PdbRefused,
    PodFound,
    PodNotFound,
    ServerError,
    TooManyRequests,
)
from tests.support.golden import Golden, verbatim
from tests.support.manual_clock import InstantClock, ManualClock
from tests.support.scripted_api import ScriptedApi, ScriptedReply, status

pytestmark = pytest.mark.anyio

WEB = EvictionRequest("shop", "web-1", "uid-1", message="node n1 is tainted", case="xq7")
TWO_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not"
    " support."
)


def refusal(code: int, reason: str, message: str, **details: object) -> bytes:
    return msgspec.json.encode(status(reason, code, message, **details))


def budget(message: str = "The disruption budget web needs 2 healthy pods and has 2") -> object:
    return [{"reason": "DisruptionBudget", "message": message}]


async def evict(api: ScriptedApi, session: Session, reply: ScriptedReply) -> EvictionResponse:
    """Ask for an eviction, while the pod cannot be read: once."""
    api.answer_next("POST", reply)
    answer = await ApiEvictor(session, clock=InstantClock()).evict(WEB)
    assert api.count("POST") == 1
    return answer


async def test_an_eviction_names_the_pod_by_uid_and_its_case_and_says_why(
    api: ScriptedApi, session: Session
) -> None:
    await evict(api, session, ScriptedReply(201))
    (asked,) = api.requests
    assert asked.path == "/api/v1/namespaces/shop/pods/web-1/eviction"
    assert asked.headers["Content-Type"] == "application/json"
    assert msgspec.json.decode(asked.body) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {
            "name": "web-1",
            "namespace": "shop",
            "annotations": {
                "requested-by": "reactive-desched",
                "reason": "node n1 is tainted",
                "reactive-desched/case": "xq7",
            },
        },
        "deleteOptions": {"preconditions": {"uid": "uid-1"}},
    }


async def test_a_grace_period_is_passed_on_also_when_it_is_zero(
    api: ScriptedApi, session: Session
) -> None:
    api.answer_next("POST", ScriptedReply(201))
    request = msgspec.structs.replace(
        WEB,
        options=EvictionOptions(delete=DeleteOptions(grace_period_seconds=0)),
        message="",
        case="",
    )
    await ApiEvictor(session).evict(request)
    body = msgspec.json.decode(api.requests[0].body)
    assert body["deleteOptions"] == {
        "preconditions": {"uid": "uid-1"},
        "gracePeriodSeconds": 0,
    }
    assert body["metadata"]["annotations"] == {"requested-by": "reactive-desched"}


async def test_the_policy_delete_deletes_the_pod_that_was_judged(
    api: ScriptedApi, session: Session
) -> None:
    api.answer_next("DELETE", ScriptedReply(200))
    options = DeleteOptions(5, "Foreground", preconditions=Preconditions("another", "77"))
    request = msgspec.structs.replace(WEB, options=EvictionOptions("Delete", options))

    assert await ApiEvictor(session).evict(request) == Accepted()
    (asked,) = api.requests
    assert (asked.kind, asked.path) == ("DELETE", "/api/v1/namespaces/shop/pods/web-1")
    assert msgspec.json.decode(asked.body) == {
        "gracePeriodSeconds": 5,
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "uid-1", "resourceVersion": "77"},
    }


async def test_a_soft_eviction_annotates_the_pod_as_koordinator_does(
    api: ScriptedApi, session: Session, clock: ManualClock
) -> None:
    api.answer_next("PATCH", ScriptedReply(200))
    options = EvictionOptions(
        "SoftEviction", DeleteOptions(30), "LowNodeLoad", "node is overutilized"
    )
    response = await ApiEvictor(session, clock=clock).evict(
        msgspec.structs.replace(WEB, options=options)
    )

    assert isinstance(response, LeavesLater)
    assert response.reason == SOFT_EVICTION_REQUESTED
    (asked,) = api.requests
    assert (asked.kind, asked.path) == ("PATCH", "/api/v1/namespaces/shop/pods/web-1")
    metadata = msgspec.json.decode(asked.body)["metadata"]
    assert metadata["uid"] == "uid-1"
    annotation = metadata["annotations"]["scheduling.koordinator.sh/soft-eviction"]
    assert msgspec.json.decode(annotation) == {
        "timestamp": "2026-09-21T14:13:20Z",
        "deleteOptions": {"gracePeriodSeconds": 30},
        "initiator": "LowNodeLoad",
        "reason": "node is overutilized",
    }


async def test_without_a_reason_a_soft_eviction_says_that_none_was_set(
    api: ScriptedApi, session: Session, clock: ManualClock
) -> None:
    api.answer_next("PATCH", ScriptedReply(409, refusal(409, "Conflict", "another uid")))
    options = EvictionOptions("SoftEviction")
    request = msgspec.structs.replace(WEB, options=options)

    assert await ApiEvictor(session, clock=clock).evict(request) == Conflict("another uid")
    (asked,) = api.requests
    annotations = msgspec.json.decode(asked.body)["metadata"]["annotations"]
    annotation = annotations["scheduling.koordinator.sh/soft-eviction"]
    assert msgspec.json.decode(annotation) == {
        "timestamp": "2026-09-21T14:13:20Z",
        "reason": "NotSet",
    }


async def test_kubevirts_webhook_moves_the_pod_in_the_background(
    api: ScriptedApi, session: Session
) -> None:
    said = verbatim(
        'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '
        'Eviction triggered evacuation of VMI "default/vm"'
    )
    reply = ScriptedReply(429, refusal(429, "TooManyRequests", said))
    assert await evict(api, session, reply) == LeavesLater(said)


@pytest.mark.parametrize("code", [200, 201, 202])
async def test_any_success_is_accepted(api: ScriptedApi, session: Session, code: int) -> None:
    assert await evict(api, session, ScriptedReply(code)) == Accepted()


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        pytest.param(
            ScriptedReply(429, refusal(429, "TooManyRequests", "Cannot evict.", causes=budget())),
            PdbRefused(verbatim("The disruption budget web needs 2 healthy pods and has 2")),
            id="a budget with nothing left",
        ),
        pytest.param(
            ScriptedReply(
                429,
                refusal(429, "TooManyRequests", "Cannot evict.", causes=budget("")),
                {"Retry-After": "10"},
            ),
            PdbRefused("Cannot evict.", 10.0),
            id="a budget whose status is stale",
        ),
        pytest.param(
            ScriptedReply(403, refusal(403, "Forbidden", "negative", causes=budget("below zero"))),
            PdbRefused("below zero"),
            id="a budget below zero",
        ),
        pytest.param(
            ScriptedReply(
                429, b"Too many requests, please try again later.\n", {"Retry-After": "1"}
            ),
            TooManyRequests("Too many requests, please try again later.", 1.0),
            id="flow control, in plain text",
        ),
        pytest.param(
            ScriptedReply(503, refusal(503, "ServiceUnavailable", "starting")),
            TooManyRequests("starting"),
            id="not yet up",
        ),
        pytest.param(
            ScriptedReply(503, b"upstream connect error or disconnect/reset before headers"),
            EffectUnknown(
                verbatim("503: upstream connect error or disconnect/reset before headers")
            ),
            id="of a proxy that lost the API server",
        ),
        pytest.param(
            ScriptedReply(408, b"stream timeout"),
            EffectUnknown("408: stream timeout"),
            id="of a proxy that no longer waits for the API server",
        ),
        pytest.param(ScriptedReply(404, refusal(404, "NotFound", "no pod")), NotFound(), id="gone"),
        pytest.param(
            ScriptedReply(404, b"404 page not found"),
            Denied(404, "404 page not found"),
            id="no such path",
        ),
        pytest.param(
            ScriptedReply(409, refusal(409, "Conflict", "uid mismatch")),
            Conflict("uid mismatch"),
            id="another pod of that name",
        ),
        pytest.param(
            ScriptedReply(403, refusal(403, "Forbidden", "may not")),
            Denied(403, "may not"),
            id="no right",
        ),
        pytest.param(
            ScriptedReply(401), Denied(401, "the server gave no reason"), id="unknown caller"
        ),
        pytest.param(ScriptedReply(422, b"invalid"), Denied(422, "invalid"), id="invalid"),
        pytest.param(
            ScriptedReply(500, refusal(500, "", TWO_BUDGETS)),
            ServerError(500, TWO_BUDGETS),
            id="two budgets",
        ),
        pytest.param(
            ScriptedReply(
                500, refusal(500, "InternalError", 'failed calling webhook "x": refused')
            ),
            ServerError(500, 'failed calling webhook "x": refused'),
            id="a broken webhook",
        ),
        pytest.param(
            ScriptedReply(500, refusal(500, "InternalError", "etcdserver: request timed out")),
            EffectUnknown("500: etcdserver: request timed out"),
            id="the storage gave up half-way",
        ),
        pytest.param(
            ScriptedReply(504, refusal(504, "Timeout", "deadline")),
            EffectUnknown("504: deadline"),
            id="timeout",
        ),
        pytest.param(
            ScriptedReply(502, b"bad gateway"),
            EffectUnknown("502: bad gateway"),
            id="a proxy in between",
        ),
        pytest.param(
            ScriptedReply(520, b""),
            EffectUnknown("520: the server gave no reason"),
            id="unheard of",
        ),
    ],
)
async def test_every_reply_is_distinguished(
    api: ScriptedApi, session: Session, reply: ScriptedReply, answer: EvictionResponse
) -> None:
    assert await evict(api, session, reply) == answer


async def test_an_absurd_wait_is_cut_to_ten_minutes_and_said(
    api: ScriptedApi, session: Session, golden: Golden
) -> None:
    reply = ScriptedReply(429, b"slow down", {"Retry-After": "99999"})
    answer = await evict(api, session, reply)

    assert isinstance(answer, TooManyRequests)
    assert answer.message == golden()
    assert answer.retry_after_s == 600.0


async def test_a_broken_line_leaves_the_effect_unknown(api: ScriptedApi, session: Session) -> None:
    assert isinstance(await evict(api, session, ScriptedReply(after_body="cut")), EffectUnknown)


@pytest.mark.parametrize(
    ("limits", "reply"),
    [
        pytest.param(
            RequestLimits(total_s=0.2),
            ScriptedReply(201, b"{", {"Content-Length": "9"}, "hang"),
            id="late",
        ),
        pytest.param(RequestLimits(body_bytes=10), ScriptedReply(201, b"x" * 100), id="too long"),
    ],
)
async def test_a_response_beyond_the_limits_leaves_the_effect_unknown(
    api: ScriptedApi, kubeconfig: Callable[..., Path], limits: RequestLimits, reply: ScriptedReply
) -> None:
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))
    async with open_session(options, limits=limits) as session:
        assert isinstance(await evict(api, session, reply), EffectUnknown)


@pytest.fixture
async def not_http() -> AsyncIterator[str]:
    """Serve lines that are no HTTP."""

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"SSH-2.0-OpenSSH_9.9\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        yield f"http://127.0.0.1:{port}"
        group.cancel_scope.cancel()


async def test_what_is_no_http_leaves_the_effect_unknown(
    not_http: str, kubeconfig: Callable[..., Path]
) -> None:
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(not_http)))
    async with open_session(options) as session:
        evictor = ApiEvictor(session, clock=InstantClock())
        assert isinstance(await evictor.evict(WEB), EffectUnknown)


async def test_credentials_that_an_eviction_found_rejected_are_read_again(
    api: ScriptedApi, session: Session
) -> None:
    await evict(api, session, ScriptedReply(401))
    assert session.credentials._invalidated


async def test_a_server_that_cannot_be_reached_was_not_asked(
    api: ScriptedApi, session: Session
) -> None:
    async with ScriptedApi(api.path).serving() as short_lived:
        url = short_lived.url
    access = msgspec.structs.replace(session.credentials.config, server=url)
    session.credentials._config = access
    answer = await ApiEvictor(session).evict(WEB)
    assert isinstance(answer, NotSent)
    assert "cannot connect" in answer.message


async def test_an_eviction_does_not_wait_behind_lists(
    api: ScriptedApi, kubeconfig: Callable[[str], Path], clock: ManualClock
) -> None:
    config = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))
    rate = RateLimit(qps=1, burst=2, critical_reserve=1)
    async with open_session(config, rate_limit=rate, clock=clock) as session:
        await session.request("GET", "/a-list")
        assert not session.rate_limiter.try_accept(RequestPriority.BACKGROUND)
        with anyio.fail_after(30):
            assert await evict(api, session, ScriptedReply(201)) == Accepted()


async def test_too_many_waiting_calls_defer_the_eviction(
    api: ScriptedApi, kubeconfig: Callable[[str], Path], clock: ManualClock
) -> None:
    config = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))
    rate = RateLimit(qps=1, burst=1, critical_reserve=0, max_waiting=0)
    async with open_session(config, rate_limit=rate, clock=clock) as session:
        await session.request("GET", "/a-list")
        assert isinstance(await ApiEvictor(session).evict(WEB), NotSent)
    assert api.count("POST") == 0


FAILED = ScriptedReply(502, b"bad gateway")
CUT = ScriptedReply(after_body="cut")


def shown(uid: str = WEB.uid, **metadata: object) -> ScriptedReply:
    """Return what the pod of that name shows when it is read."""
    return ScriptedReply(200, msgspec.json.encode({"metadata": {"uid": uid, **metadata}}))


async def test_a_request_that_a_proxy_failed_is_sent_again_and_a_success_settles_it(
    api: ScriptedApi, session: Session
) -> None:
    api.answer_next("POST", FAILED, FAILED, FAILED, ScriptedReply(201, b"{}"))
    api.answer_next("GET", shown(), ScriptedReply(503), ScriptedReply(503), shown(), shown())

    assert await ApiEvictor(session, clock=InstantClock()).evict(WEB) == Accepted()
    bodies = [each.body for each in api.requests if each.kind == "POST"]
    assert bodies == bodies[:1] * 4
    assert b"uid-1" in bodies[0]


@pytest.mark.parametrize(
    ("first", "found"),
    [
        pytest.param(CUT, shown(), id="the connection broke"),
        pytest.param(FAILED, shown(deletionTimestamp="2026-11-30T00:00:00Z"), id="it terminates"),
        pytest.param(FAILED, shown("uid-2"), id="it is another pod"),
        pytest.param(FAILED, ScriptedReply(404, refusal(404, "NotFound", "no")), id="it is gone"),
        pytest.param(FAILED, ScriptedReply(403, refusal(403, "Forbidden", "no")), id="no right"),
    ],
)
async def test_a_request_that_may_have_had_an_effect_is_not_sent_again(
    api: ScriptedApi, session: Session, first: ScriptedReply, found: ScriptedReply
) -> None:
    api.answer_next("POST", first)
    api.answer_next("GET", *[found] * 5)

    answer = await ApiEvictor(session, clock=InstantClock()).evict(WEB)
    assert isinstance(answer, EffectUnknown)
    assert api.count("POST") == 1


@pytest.mark.parametrize(
    "reply",
    [
        ScriptedReply(429, refusal(429, "TooManyRequests", "no", causes=budget())),
        ScriptedReply(429, b"later"),
        ScriptedReply(404, refusal(404, "NotFound", "no such pod")),
        ScriptedReply(403, refusal(403, "Forbidden", "no")),
    ],
    ids=["a budget", "too many requests", "the pod is gone", "denied"],
)
async def test_what_refuses_a_second_request_says_nothing_of_the_first(
    api: ScriptedApi, session: Session, reply: ScriptedReply
) -> None:
    api.answer_next("POST", FAILED, *[reply] * 3)
    api.answer_next("GET", *[shown()] * 5)

    answer = await ApiEvictor(session, clock=InstantClock()).evict(WEB)
    assert isinstance(answer, EffectUnknown)
    assert api.count("POST") == 4


async def test_a_request_that_failed_late_is_not_sent_again(
    api: ScriptedApi, session: Session
) -> None:
    clock = InstantClock()

    async def answer_late() -> None:
        clock.advance(3)

    api.before_answering = answer_late
    api.answer_next("POST", FAILED)
    assert isinstance(await ApiEvictor(session, clock=clock).evict(WEB), EffectUnknown)
    assert [each.kind for each in api.requests] == ["POST"]


async def test_a_login_page_is_no_success(api: ScriptedApi, session: Session) -> None:
    page = b"\n<!DOCTYPE html><html><title>Sign in</title></html>"
    answer = await evict(api, session, ScriptedReply(200, page))

    assert isinstance(answer, EffectUnknown)


async def test_what_the_api_server_answers_is_a_success(api: ScriptedApi, session: Session) -> None:
    body = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'

    assert await evict(api, session, ScriptedReply(201, body)) == Accepted()


class TestLooking:
    async def look(self, api: ScriptedApi, session: Session, reply: ScriptedReply) -> object:
        api.answer_next("GET", reply)
        return await ApiEvictor(session).get_pod("shop", "web-1")

    async def test_finds_the_pod_that_has_the_name_now(
        self, api: ScriptedApi, session: Session
    ) -> None:
        body = b'{"metadata":{"uid":"uid-2","name":"web-1"},"spec":{}}'
        assert await self.look(api, session, ScriptedReply(body=body)) == PodFound("uid-2", False)
        assert api.requests[0].path == "/api/v1/namespaces/shop/pods/web-1"

    async def test_sees_that_it_is_terminating(self, api: ScriptedApi, session: Session) -> None:
        body = b'{"metadata":{"uid":"uid-1","deletionTimestamp":"2026-01-02T03:04:05Z"}}'
        assert await self.look(api, session, ScriptedReply(body=body)) == PodFound("uid-1", True)

    async def test_sees_by_whom_when_and_with_which_grace_period_it_is_ended(
        self, api: ScriptedApi, session: Session
    ) -> None:
        pod = {
            "metadata": {
                "uid": "uid-1",
                "deletionTimestamp": "2026-01-02T03:04:35Z",
                "deletionGracePeriodSeconds": 30,
            },
            "spec": {"terminationGracePeriodSeconds": 45},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": None},
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "PreemptionByScheduler",
                        "lastTransitionTime": "2026-01-02T03:04:04Z",
                    },
                ]
            },
        }
        found = await self.look(api, session, ScriptedReply(body=msgspec.json.encode(pod)))
        began = int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())
        assert found == PodFound(
            "uid-1",
            terminating=True,
            disruption="PreemptionByScheduler",
            disrupted_s=began - 1,
            deleted_s=began,
            grace_period_s=30,
            own_grace_period_s=45,
        )

    async def test_sees_no_end_in_a_condition_that_was_taken_back(
        self, api: ScriptedApi, session: Session
    ) -> None:
        condition = b'{"type":"DisruptionTarget","status":"False","reason":"EvictionByEvictionAPI"}'
        body = b'{"metadata":{"uid":"uid-1"},"status":{"conditions":[%s]}}' % condition
        found = await self.look(api, session, ScriptedReply(body=body))
        assert found == PodFound("uid-1", terminating=False)

    async def test_sees_its_annotations(self, api: ScriptedApi, session: Session) -> None:
        pod = {"metadata": {"uid": "uid-1", "annotations": {"a": "b"}}}
        found = await self.look(api, session, ScriptedReply(body=msgspec.json.encode(pod)))
        assert found == PodFound("uid-1", terminating=False, annotations={"a": "b"})

    async def test_sees_that_it_is_gone(self, api: ScriptedApi, session: Session) -> None:
        reply = ScriptedReply(404, refusal(404, "NotFound", 'pods "web-1" not found'))
        assert await self.look(api, session, reply) == PodNotFound()

    @pytest.mark.parametrize(
        ("code", "retryable"), [(404, False), (403, False), (401, True), (429, True), (500, True)]
    )
    async def test_that_is_refused_says_whether_to_try_again(
        self, api: ScriptedApi, session: Session, code: int, *, retryable: bool
    ) -> None:
        with pytest.raises(RequestRejected) as caught:
            await self.look(api, session, ScriptedReply(code, b"no"))
        assert caught.value.retryable is retryable

    async def test_at_something_that_is_no_pod_settles_nothing(
        self, api: ScriptedApi, session: Session
    ) -> None:
        with pytest.raises(Unreachable, match="not a pod"):
            await self.look(api, session, ScriptedReply(body=b"<html>"))
