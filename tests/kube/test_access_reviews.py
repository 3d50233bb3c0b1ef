"""TokenReview and SubjectAccessReview as the simulated API server answers them by its RBAC."""

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from reactive_desched.errors import RateLimited, RequestRejected, Unreachable
from reactive_desched.kube.client.access_reviews import CACHE_TTL_S, REVIEW_RATE, AccessReviewer
from reactive_desched.kube.client.session import KubeConfigOptions, Session, open_session
from reactive_desched.model.rights import AccessReview
from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.seed import seed
from reactive_desched.sim.server import serve
from reactive_desched.sim.store import Store
from tests.support.scripted_api import ScriptedApi, ScriptedReply, status

pytestmark = pytest.mark.anyio

USER = "system:serviceaccount:default:default"


class Sim:
    """A simulated cluster, and what is asked of it."""

    def __init__(self, url: str, session: Session) -> None:
        self.url = url
        self.session = session

    async def post(self, path: str, body: Any) -> Any:
        async with aiohttp.ClientSession(self.url) as client, client.post(path, json=body) as made:
            assert made.status == 201, await made.text()
            return await made.json()

    async def token(self) -> str:
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        made = await self.post(path, {"spec": {}})
        return str(made["status"]["token"])

    async def allow(self, path: str, verb: str) -> None:
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        rules = [{"nonResourceURLs": [path], "verbs": [verb]}]
        await self.post(f"{rbac}/clusterroles", {"metadata": {"name": "r"}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
        subject = {"kind": "ServiceAccount", "namespace": "default", "name": "default"}
        bound = {"metadata": {"name": "r"}, "roleRef": role, "subjects": [subject]}
        await self.post(f"{rbac}/clusterrolebindings", bound)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def sim(kubeconfig: Callable[..., Path]) -> AsyncIterator[Sim]:
    store = Store(VirtualClock(1_800_000_000.0), random.Random(7))
    seed(store)
    async with (
        serve(store) as url,
        open_session(KubeConfigOptions(kubeconfig=str(kubeconfig(url)))) as opened,
    ):
        yield Sim(url, opened)


async def test_a_user_may_what_a_cluster_role_says_and_an_answer_counts_for_a_while(
    sim: Sim,
) -> None:
    clock = Clock()
    reviewer, token = AccessReviewer(sim.session, clock), await sim.token()
    assert await reviewer.review(token, "get", "/debug/status") == AccessReview(USER)
    await sim.allow("/debug/*", "get")
    assert not (await reviewer.review(token, "get", "/debug/status")).allowed, "it was remembered"

    clock.now += CACHE_TTL_S + 1
    assert (await reviewer.review(token, "get", "/debug/status")).allowed
    assert not (await reviewer.review(token, "post", "/debug/status")).allowed
    assert not (await reviewer.review(token, "get", "/operator/pause")).allowed


async def test_tokens_of_elsewhere_are_those_of_no_user(sim: Sim) -> None:
    reviewer, token = AccessReviewer(sim.session, Clock()), await sim.token()
    for wrong in ("abc", f"{token}x"):
        assert await reviewer.review(wrong, "get", "/metrics") == AccessReview()


async def test_many_wrong_tokens_do_not_become_as_many_reviews(sim: Sim) -> None:
    clock = Clock()
    reviewer = AccessReviewer(sim.session, clock)
    for number in range(REVIEW_RATE.burst):
        await reviewer.review(f"wrong-{number}", "get", "/metrics")
    with pytest.raises(RateLimited):
        await reviewer.review("one more", "get", "/metrics")
    await reviewer.review("wrong-1", "get", "/metrics")  # it is remembered
    clock.now += 1
    await reviewer.review("one more", "get", "/metrics")


async def test_a_refusal_and_an_answer_that_is_no_review_are_faults(
    kubeconfig: Callable[..., Path],
) -> None:
    api = ScriptedApi("/apis/authentication.k8s.io/v1/tokenreviews")
    denied = msgspec.json.encode(status("Forbidden", 403, "tokenreviews is forbidden"))
    async with (
        api.serving(),
        open_session(KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))) as session,
    ):
        reviewer = AccessReviewer(session, Clock())
        api.answer_next("POST", ScriptedReply(403, denied))
        with pytest.raises(RequestRejected, match="403 tokenreviews is forbidden"):
            await reviewer.review("x", "get", "/metrics")
        api.answer_next("POST", ScriptedReply(201, b'{"status": 7}'))
        with pytest.raises(Unreachable, match="not a review"):
            await reviewer.review("x", "get", "/metrics")
