"""Whatever happens to a cluster and to the controller, these properties hold.

At each eviction request: one process sends it, which is synced, not paused and not braked, and no
schedule forbids it; its intent is on disk; the pod was not evicted before; neither it nor what is
above it has opted out; its node has a taint to leave it for; it is old enough, its StatefulSet is
whole and its higher ordinals leave before it, no autoscaler empties its node, no other pod of its
gang runs, no other single replica is moving, and neither it nor its node cools down; in each of its
scopes fewer pods are moving than may. Of all evictions of a world: no scope is above its rate or
limit in any stretch of time, over all lives of the process, nor above a share of it after a start;
none is repeated in vain for ever; each intent has one outcome, and each eviction one follow-up.
In some stories pods also move as sets (`sets.py`): none leaves before its node has the taint, or a
pod is nominated for it; after a calm no such mark is left behind, and no pod moves on and on.
`make simulate SEEDS=10000` plays more stories; a failure names its seed.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from reactive_desched.journal.segments import list_segments, read_lines
from tests.safety.__main__ import play_mutations, replayed
from tests.safety.machine import ClusterInTrouble
from tests.safety.mutations import FOUND_BY, MUTATIONS, mutated
from tests.safety.referee import Violation
from tests.safety.story import play_story
from tests.safety.world import World

DEEP = pytest.mark.skipif(os.environ.get("TIER") != "deep", reason="takes two minutes")
SEEDS = 3
"""`make simulate` plays 40, these among them; `test_order_of_followers` plays 2 and 5."""


@pytest.fixture(scope="module")
def first_stories(tmp_path_factory: pytest.TempPathFactory) -> Sequence[World]:
    return [story_of(seed, tmp_path_factory.mktemp("stories")) for seed in range(SEEDS)]


def test_the_properties_hold_in_the_stories_of_the_first_seeds(
    first_stories: Sequence[World],
) -> None:
    assert sum(len(world.referee.evictions) for world in first_stories) > 5
    assert sum(world.referee.requests for world in first_stories) > 5
    assert sum(world.lives for world in first_stories) > 8


def story_of(seed: int, folder: Path) -> World:
    """Play a story in a folder of its own, and replay it; a failure names how to play it again."""
    directory = folder / str(seed)
    directory.mkdir()
    try:
        world = play_story(Random(seed), directory, records=True)
        report = replayed(directory)
        assert report.differences == ()
        assert report.not_compared == ()
    except BaseException as error:
        error.add_note(f"replay: make simulate FIRST={seed} SEEDS=1")
        raise
    return world


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


HISTORY = "journal/test_history.py"
LIMITS = "gate/test_policy_limits.py"
SCHEDULES = "gate/test_schedules.py"
MOVES = "flow/test_follow_up.py"
MEMORY = "flow/test_memory.py"
BRAKES = "flow/test_brakes.py"
WORK = "flow/test_unfinished_work.py"
HELD_BY = {
    "guard NewlyEndedPods": (
        "flow/test_states_of_pods.py::test_a_pod_that_has_ended_is_there_for_a_minute"
    ),
    "guard ResourceClaims": (
        f"{WORK}::test_a_pod_with_a_claim_is_held_also_where_the_scheduler_made_it"
    ),
    "guard UnreplacedPods": (
        f"{WORK}::test_a_pod_without_a_controller_is_held_also_one_that_has_another_owner"
    ),
    "guard JobTries": f"{WORK}::test_the_last_try_of_a_job_is_held_until_evictions_cost_none",
    "guard ScoredElsewhere": (
        "flow/test_scored_elsewhere.py"
        "::test_a_soft_taint_of_the_preferred_node_holds_the_pod_until_it_is_gone"
    ),
    "clock of creations": (
        f"{HISTORY}::test_a_replacement_is_created_after_the_api_servers_time_of_the_request"
    ),
    "limit per cluster": f"{LIMITS}::test_a_limit_holds_for_any_stretch_of_the_window",
    "limit per node": f"{LIMITS}::test_each_node_has_its_own_count",
    "limit per namespace": f"{LIMITS}::test_each_namespace_has_its_own_count",
    "schedules": (
        "flow/test_limits.py::test_findings_wait_for_the_end_of_business_hours_and_go_then"
    ),
    "schedules over restarts": (
        f"{SCHEDULES}::test_after_a_restart_the_window_continues_where_it_was"
    ),
    "moving per owner": (f"{MOVES}::test_one_pod_of_an_owner_moves_after_the_other_was_replaced"),
    "moving per node": f"{MOVES}::test_every_scope_has_its_limit[node]",
    "moving per zone": f"{MOVES}::test_every_scope_has_its_limit[zone]",
    "moving per cluster": f"{MOVES}::test_every_scope_has_its_limit[cluster]",
    "follow-up": f"{MOVES}::test_a_replacement_on_another_node_has_moved_and_is_timed",
    "cool-down": f"{MEMORY}::test_a_pod_that_stayed_twice_as_long_as_necessary_begins_anew",
    "who ended a terminating pod": (
        "eviction/test_read_back.py::test_reading_the_pod_shows_what_became_of_it"
    ),
    "futile owners": f"{MEMORY}::test_after_a_futile_move_every_pod_of_the_owner_rests",
    "memory over restarts": f"{MEMORY}::test_after_a_restart_a_futile_owner_is_still_futile",
    "cool-down of nodes": (
        "flow/test_utilization.py::test_a_node_that_took_a_pod_gives_none_for_its_cooldown"
    ),
    "storm brake": f"{BRAKES}::test_a_storm_stops_and_asks_and_a_person_lets_it_continue",
    "pending brake": (
        f"{BRAKES}::test_nothing_is_evicted_while_the_cluster_cannot_place_what_it_has"
    ),
    "own moves": (
        "flow/test_moves_check.py::"
        "test_a_namespace_is_held_when_its_replacements_do_not_get_ready_and_let_go_by_time"
    ),
    "no node Ready": f"{BRAKES}::test_when_no_node_is_ready_everything_stops_until_one_is",
    "pause by file": f"{BRAKES}::test_a_file_pauses_by_what_it_says",
    "in flight": (  # a story ends at once: the ledger has one eviction of a pod at a time
        "gate/test_in_flight.py::test_an_evicted_pod_is_remembered_until_its_deletion_should_show"
    ),
    "evicted over restarts": (
        "gate/test_in_flight_restored.py::test_a_pod_evicted_within_a_minute_is_remembered"
    ),
    "end of rooms": (
        "flow/test_making_room.py"
        "::test_a_pod_that_is_not_bound_in_its_room_is_nominated_no_more_and_rests"
    ),
    "places of sets": (
        "flow/test_consolidation.py::test_a_set_without_places_is_given_up_and_its_node_rests"
    ),
    "suspend": (
        "controller/test_controller_suspend.py"
        "::test_a_pod_that_waited_for_a_token_is_not_evicted_on_the_old_state"
    ),
}
"""A test that fails without a rule that no story is known to show."""


def test_every_mutation_is_known_to_fail_a_story_or_a_test() -> None:
    assert sorted([*FOUND_BY, *HELD_BY]) == sorted(MUTATIONS)


DEEP_MARKS = (DEEP, pytest.mark.hypothesis)  # `make test-deep` runs what has the second
QUICK = "intent before request"


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=() if name == QUICK else DEEP_MARKS)
        for name, seed in FOUND_BY.items()
    ],
)
def test_the_referee_finds_a_rule_that_is_switched_off(name: str, seed: int) -> None:
    assert play_mutations([name], range(seed, seed + 1), 80) == 0


@DEEP
@pytest.mark.hypothesis
@pytest.mark.parametrize(("name", "test"), HELD_BY.items())
def test_a_test_fails_without_a_rule_that_no_story_shows(name: str, test: str) -> None:
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
        *("-p", "tests.safety.switched_off", "--switched-off", name, f"tests/{test}"),
    ]

    output = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120
    ).stdout

    assert f"FAILED tests/{test}" in output


REPLAY = """
import sys
import time
from itertools import count
from pathlib import Path
from random import Random

looks = count()
for clock in ("monotonic", "perf_counter", "time"):
    setattr(time, clock, lambda: 1e9 + 3.0 * next(looks))  # 3 s pass between any two looks

from tests.safety.story import play_story
from tests.safety.test_safety_properties import records_of

folder = Path(sys.argv[1])
world = play_story(Random(0), folder, records=True)
print(world.referee.requests, world.referee.evictions)
print(records_of(folder))
"""


def records_of(directory: Path) -> Sequence[tuple[str, str, str]]:
    """Return the type, the time and the subject of each record of a journal, without torn lines."""
    lines = [line for each in list_segments(directory) for line in read_lines(each)]
    records = [json.loads(line.raw) for line in lines if line.raw.strip()]
    return [(each["type"], each["time"], each["subject"]) for each in records]


def test_a_seed_replays_exactly_in_any_process_however_slow_its_machine_is(
    first_stories: Sequence[World], tmp_path: Path
) -> None:
    here = first_stories[0].referee
    environment = {**os.environ, "PYTHONHASHSEED": "1"}  # here it is another one

    there = subprocess.run(
        [sys.executable, "-c", REPLAY, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "Eviction(" in there
    records = records_of(first_stories[0].directory)
    assert there == f"{here.requests} {here.evictions}\n{records}\n"
