"""Whatever happens to a cluster and to the controller, these properties hold.

At each eviction request: one process sends it, which is synced, not paused and not braked, and no
schedule forbids it; its intent is on disk; the pod was not evicted before; neither it nor what is
above it has opted out; its node has a taint to leave it for; it is old enough, its StatefulSet is
whole and its higher ordinals leave before it, no autoscaler empties its node, no other single
replica is moving, and neither it nor its node cools down; in each of its scopes fewer
pods are moving than may. Of all evictions of a world: no scope is above its rate or limit in any
stretch of time, over all lives of the process, nor above a share of it after a start; none is
repeated in vain for ever; each intent has one outcome, and each eviction one follow-up.
`make simulate SEEDS=10000` plays more stories; a failure names its seed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.safety.__main__ import play_mutations
from tests.safety.machine import ClusterInTrouble
from tests.safety.mutations import MUTATIONS, mutated
from tests.safety.referee import Violation
from tests.safety.story import play_story
from tests.safety.world import World

DEEP = pytest.mark.skipif(os.environ.get("TIER") != "deep", reason="takes two minutes")
SEEDS = 5
"""CI plays 200 in `make simulate`, these among them."""


def test_the_properties_hold_in_the_stories_of_the_first_seeds(tmp_path: Path) -> None:
    worlds = [story_of(seed, tmp_path) for seed in range(SEEDS)]

    assert sum(len(world.referee.evictions) for world in worlds) > 5
    assert sum(world.referee.requests for world in worlds) > 5
    assert sum(world.lives for world in worlds) > 8


def story_of(seed: int, folder: Path) -> World:
    """Play a story in a folder of its own; a failure names how to replay it."""
    directory = folder / str(seed)
    directory.mkdir()
    try:
        return play_story(Random(seed), directory)
    except BaseException as error:
        error.add_note(f"replay: make simulate FIRST={seed} SEEDS=1")
        raise


TestClusterInTrouble = ClusterInTrouble.TestCase
TestClusterInTrouble.settings = settings(
    max_examples=max(4, settings().max_examples // 3),
    stateful_step_count=25,
    suppress_health_check=list(HealthCheck),
)


@DEEP
@pytest.mark.hypothesis
def test_a_failing_history_shrinks_to_the_kind_of_step_that_it_takes() -> None:
    few = settings(
        max_examples=20,
        stateful_step_count=8,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    with mutated("intent before request"), pytest.raises(Violation) as failure:
        run_state_machine_as_test(ClusterInTrouble, settings=few)

    history = "\n".join(failure.value.__notes__)
    steps = re.findall(r"state\.step\(action='(\w+)'\)", history)
    assert set(steps) == {"taint"}
    assert len(steps) <= 2  # hypothesis may end where the first finds no pod to evict


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_changes_a_part_that_the_program_has(name: str) -> None:
    parts = [(each.target, each.name) for each in MUTATIONS[name]()]
    before = [getattr(*part) for part in parts]

    with mutated(name):
        assert [getattr(*part) for part in parts] != before

    assert [getattr(*part) for part in parts] == before


FOUND_BY = {"guard DoNotEvict": 5, "inherited requests": 3, "open intents": 2}
"""A seed whose story shows that a rule is switched off."""


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("intent before request", 0),
        *(pytest.param(name, seed, marks=DEEP) for name, seed in FOUND_BY.items()),
    ],
)
def test_the_referee_finds_a_rule_that_is_switched_off(name: str, seed: int) -> None:
    assert play_mutations([name], range(seed, seed + 1), 80) == 0


REPLAY = """
import sys
from pathlib import Path
from random import Random

from tests.safety.story import play_story
from tests.safety.world import World

world = play_story(Random(13), Path(sys.argv[1]))
print(world.referee.requests, world.referee.evictions)
"""


def test_a_seed_replays_exactly_in_any_process(tmp_path: Path) -> None:
    def replay(hash_seed: str) -> str:
        directory = tmp_path / hash_seed
        directory.mkdir()
        command = [sys.executable, "-c", REPLAY, str(directory)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    first = replay("1")

    assert "Eviction(" in first
    assert replay("2") == first
