"""What follows the changes of the cluster may do so in any order."""

from collections.abc import Iterable
from pathlib import Path
from random import Random

import anyio
import pytest
from msgspec.structs import replace

from reactive_desched.gate.eviction_controls import ChangeFollower, ChangeFollowers
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import Annotations
from reactive_desched.testing.builders import node, pod
from tests.safety.story import play_story
from tests.support.flow import FakeEdgesController
from tests.support.migrating import JobServer, MigratingController, job_on

ORDERS = ("as listed", "reversed", *range(4))
"""The reversed order has each two of them the other way round; the drawn ones mix both."""


def in_order(order: str | int, patches: pytest.MonkeyPatch) -> None:
    """Let every controller call those that follow changes in another order."""
    init = ChangeFollowers.__init__

    def reordered(self: ChangeFollowers, followers: Iterable[ChangeFollower]) -> None:
        ordered = list(followers)
        if order == "reversed":
            ordered.reverse()
        elif isinstance(order, int):
            Random(order).shuffle(ordered)
        init(self, ordered)

    patches.setattr(ChangeFollowers, "__init__", reordered)


@pytest.mark.parametrize("seed", [2, 5])
def test_a_story_is_the_same_in_any_order(seed: int, tmp_path: Path) -> None:
    stories = []
    for order in ("as listed", "reversed", seed):
        with pytest.MonkeyPatch.context() as patches:
            in_order(order, patches)
            folder = tmp_path / str(order)
            folder.mkdir()
            world = play_story(Random(seed), folder)
        stories.append((world.referee.requests, world.referee.evictions))

    assert stories[0][1]
    assert all(story == stories[0] for story in stories)


@pytest.mark.anyio
@pytest.mark.virtual_time
@pytest.mark.parametrize("order", ORDERS)
async def test_the_jobs_of_a_cluster_end_alike_in_any_order(
    order: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_order(order, monkeypatch)
    bare = replace(pod("bare", on="n1", owner=None), annotations=Annotations(evict="true"))
    pods = [*(pod(f"web-{number}", on="n1") for number in range(3)), bare]
    server = JobServer()
    server.ends_after_s, server.answers_after_s = 1.0, 2.0  # then the move of a bare pod is over
    server.pods = {each.uid: each for each in pods}
    async with MigratingController(server).running(node("n1"), node("n2")) as process:
        for each in (*pods[:2], bare):
            await process.make(job_on(each))
        await anyio.sleep(60)

    ends = {name: (job.phase, job.status.reason) for name, job in server.jobs.items()}
    assert ends == {
        "bare": ("Succeeded", ""),
        "web-0": ("Succeeded", ""),
        "web-1": ("Succeeded", ""),
    }


def test_no_change_that_is_followed_has_types_below_it() -> None:
    followers = FakeEdgesController().controller._all_followers()
    followed: set[type[Change]] = {kind for each in followers for kind in each.reacts_to}

    assert len(followed) > 10
    assert [kind for kind in followed if kind.__subclasses__()] == []
