"""The server refuses us, or somebody else answers in its place."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reactive_desched.kube.client.session import KubeConfig, open_session
from reactive_desched.testing.manual_clock import ManualClock, until
from tests.support.mirror import Mirror
from tests.support.scripted_api import Reply, ScriptedApi, failing, status

pytestmark = pytest.mark.anyio


async def test_a_forbidden_resource_names_itself_and_is_asked_for_seldom(
    api: ScriptedApi, mirror: Mirror
) -> None:
    why = 'things is forbidden: User "x" cannot list resource "things"'
    body = msgspec.json.encode(status("Forbidden", 403, why))
    for _ in range(5):
        api.answer_next("list", Reply(403, body))
    async with mirror.running():
        for nth in range(1, 5):
            wait_s = await mirror.pause(nth)
            assert mirror.feed.reason == f"list {api.path}: 403 {why}"
            assert wait_s < 30  # a server that has just started denies in passing
            assert "denied" not in mirror.feed.story
            mirror.clock.advance(wait_s)
        assert 60 <= await mirror.pause(5) < 120
        assert mirror.feed.story[-1] == "denied"
        mirror.clock.advance(120)
        await mirror.fresh()


@pytest.mark.parametrize("kind", ["list", "watch"])
async def test_an_unknown_caller_has_its_credentials_read_again_and_asks_soon(
    api: ScriptedApi, kubeconfig: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    token, patience = tmp_path / "token", ManualClock()
    token.write_text("first")
    config = KubeConfig(kubeconfig=str(kubeconfig(api.url, f"tokenFile: '{token}'")))
    api.answer_next(kind, failing(401, "Unauthorized"))
    async with open_session(config, clock=patience) as session:
        mirror = Mirror(session)
        async with mirror.running():
            assert 0.8 <= await mirror.pause() < 1.6
            token.write_text("second")
            await until(lambda: patience.waits == [5.0])
            patience.advance(5.0)
            await until(lambda: patience.waits == [60.0])
            mirror.clock.advance(2)
            await (mirror.fresh() if kind == "list" else mirror.settled())
    assert api.asked[-1].headers["Authorization"] == "Bearer second"
    assert api.count("list") == (2 if kind == "list" else 1)


async def test_a_web_page_in_place_of_a_watch_is_told_as_what_it_is(
    api: ScriptedApi, mirror: Mirror
) -> None:
    page = Reply(body=b"<html>\nplease log in\n", headers={"Content-Type": "text/html"})
    api.answer_next("watch", page)
    async with mirror.running():
        await mirror.pause()
    assert "200 <html> please log in" in mirror.feed.reason
    assert mirror.feed.unreadable == []
