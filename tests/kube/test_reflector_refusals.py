"""The server refuses us, or somebody else answers in its place."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import anyio
import msgspec
import pytest

from reactive_desched.kube.client.session import KubeConfigOptions, open_session
from reactive_desched.kube.watch.reflector import SYNCED
from tests.support.golden import verbatim
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, failing, status

pytestmark = pytest.mark.anyio


async def test_a_forbidden_resource_names_itself_and_is_asked_for_seldom(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    why = verbatim('things is forbidden: User "x" cannot list resource "things"')
    body = msgspec.json.encode(status("Forbidden", 403, why))
    for _ in range(5):
        api.answer_next("list", ScriptedReply(403, body))
    async with mirror.running():
        for nth in range(1, 5):
            wait_s = await mirror.wait_for_backoff(nth)
            assert mirror.handler.reason == f"list {api.path}: 403 {why}"
            assert wait_s < 30  # a server that has just started denies in passing
            assert "denied" not in mirror.handler.calls
            mirror.clock.advance(wait_s)
        assert 60 <= await mirror.wait_for_backoff(5) < 120
        assert mirror.handler.calls[-1] == "denied"
        mirror.clock.advance(120)
        await mirror.wait_until_fresh()


@pytest.mark.parametrize(("is_dispensable", "while_denied"), [(False, [0.0]), (True, [])])
async def test_a_denied_resource_counts_as_not_synced_unless_its_reader_can_do_without(
    api: ScriptedApi, mirror: ReflectorHarness, *, is_dispensable: bool, while_denied: list[float]
) -> None:
    mirror.handler.is_dispensable = is_dispensable
    body = msgspec.json.encode(status("Forbidden", 403, "no"))
    api.answer_next("list", *[ScriptedReply(403, body)] * 5)
    async with mirror.running():
        for nth in range(1, 5):
            mirror.clock.advance(await mirror.wait_for_backoff(nth))
        await mirror.wait_for_backoff(5)
        assert synced(mirror) == while_denied
        mirror.clock.advance(120)
        await mirror.wait_until_fresh()
        assert synced(mirror) == [1.0]


def synced(mirror: ReflectorHarness) -> list[float]:
    """Return what the metric says; nothing where it is left out."""
    assert mirror.reflector is not None
    found = [each for each in mirror.reflector.collect() if each.family is SYNCED]
    return [cast(float, value) for metric in found for value in metric.samples.values()]


async def test_a_stopped_reflector_has_no_objects_and_lists_anew_when_it_runs_again(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    api.put("a", "1")
    async with mirror.running():
        await mirror.wait_until_fresh()
    reflector = mirror.reflector
    assert reflector is not None
    await reflector.stop()
    assert (mirror.handler.objects, synced(mirror)) == ({}, [])

    api.put("b", "2")
    mirror.handler.is_fresh = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reflector.run)
        await mirror.wait_until_fresh()
        assert (mirror.handler.objects, synced(mirror)) == ({"a": "1", "b": "2"}, [1.0])
        tasks.cancel_scope.cancel()
    assert api.count("list") == 2


@pytest.mark.parametrize("kind", ["list", "watch"])
async def test_an_unknown_caller_has_its_credentials_read_again_and_asks_soon(
    api: ScriptedApi, kubeconfig: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    token, patience = tmp_path / "token", ManualClock()
    token.write_text("first")
    config = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url, f"tokenFile: '{token}'")))
    api.answer_next(kind, failing(401, "Unauthorized"))
    async with open_session(config, clock=patience) as session:
        mirror = ReflectorHarness(session)
        async with mirror.running():
            assert 0.8 <= await mirror.wait_for_backoff() < 1.6
            token.write_text("second")
            await wait_until(lambda: patience.pending_waits_s == [5.0])
            patience.advance(5.0)
            await wait_until(lambda: patience.pending_waits_s == [60.0])
            mirror.clock.advance(2)
            await (mirror.wait_until_fresh() if kind == "list" else mirror.wait_until_confirmed())
    assert api.requests[-1].headers["Authorization"] == "Bearer second"
    assert api.count("list") == (2 if kind == "list" else 1)


async def test_a_web_page_in_place_of_a_watch_is_reported_as_one(
    api: ScriptedApi, mirror: ReflectorHarness
) -> None:
    page = ScriptedReply(body=b"<html>\nplease log in\n", headers={"Content-Type": "text/html"})
    api.answer_next("watch", page)
    async with mirror.running():
        await mirror.wait_for_backoff()
    assert "200 a web page (HTML) came back" in mirror.handler.reason
    assert mirror.handler.unreadable == []
