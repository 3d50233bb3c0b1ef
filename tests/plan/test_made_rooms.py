"""A preview shows for which pods MakeRoomForPending makes room, by how many moves, and when."""

from random import Random
from typing import Any

from msgspec.structs import replace

from reactive_desched.model.objects import Pod, PodCondition, PodStatus
from reactive_desched.plan.controller_run import run_controller
from reactive_desched.plan.mode import RunBounds
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.report import RunPreview
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.plugins.make_room_for_pending import (
    MakeRoomForPendingArgs,
    MakeRoomForPendingPlugin,
)
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import make_configuration, make_profile_of
from tests.support.flow import resource_of

NOWHERE = PodStatus("Pending", conditions=(PodCondition("PodScheduled", "False", "Unschedulable"),))
NODES = [node(n, allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"}) for n in ("n1", "n2")]


def web(name: str, on: str | None, cpu: str, **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, "memory": "1Gi"}, **more)


def waits(cpu: str) -> Pod:
    made = web("big", None, cpu, owner="ReplicaSet/big")
    return replace(made, status=NOWHERE, condition_transitions=(0,))


def preview(*objects: Any) -> RunPreview:
    found: dict[str, list[Any]] = {resource: [] for resource in WATCHED_KINDS}
    for each in objects:
        found[resource_of(each)].append(each)
    plugin = MakeRoomForPendingPlugin(MakeRoomForPendingArgs(wait=30.0))
    configuration = make_configuration((make_profile_of("test", (plugin,)),))
    result = run_controller(configuration, Snapshot(found), 0.0, RunBounds(), Progress())
    assert result.preview is not None
    return result.preview


HALVES = [web(f"{n}{i}", n, "1") for n in ("n1", "n2") for i in "ab"]


def test_the_pod_that_waits_is_bound_after_the_move_that_makes_its_room() -> None:
    [made] = preview(*NODES, *HALVES, waits("3")).made_rooms

    assert (made.pod, made.pods) == ("default/big", 1)
    assert made.bound_in_seconds is not None
    assert 30 <= made.begins_in_seconds < made.bound_in_seconds


def test_where_moves_make_no_room_none_is_shown() -> None:
    assert preview(*NODES, *HALVES, waits("3500m"), web("c", "n1", "1")).made_rooms == ()


def test_a_move_of_a_second_node_comes_before_the_one_for_which_it_makes_a_place() -> None:
    """`a` fits on n2 alone, by its memory, once `m` has gone to n3."""
    third = node("n3", allocatable={"cpu": "4", "memory": "4Gi", "pods": "9"})
    pods = [
        pod("a", on="n1", requests={"cpu": "1", "memory": "5Gi"}),
        web("k1", "n1", "1", owner=None),
        web("m", "n2", "1"),
        web("k2", "n2", "2500m", owner=None),
        web("k3", "n3", "3", owner=None),  # by its use alone n2 would get the replacement of m
    ]
    [made] = preview(*NODES, third, *pods, waits("3")).made_rooms

    assert (made.pod, made.pods, made.node) == ("default/big", 2, "n1")
    assert made.bound_in_seconds is not None


def drawn(seed: int) -> list[Any]:
    """Return a small cluster whose nodes are nearly full, and up to three pods that wait."""
    dice = Random(seed)
    objects: list[Any] = []  # of any kind
    for number in range(dice.randint(3, 8)):
        name, memory = f"n{number}", dice.choice([4, 8])
        has = {"cpu": "4", "memory": f"{memory}Gi", "pods": "20"}
        objects.append(node(name, allocatable=has))
        left_m, left_gi = 4000, memory
        for each in range(8):
            cpu_m, gi = dice.choice([250, 500, 1000, 1500]), dice.choice([0, 1, 1, 2])
            if cpu_m > left_m - 300 or gi > left_gi:
                break
            left_m, left_gi = left_m - cpu_m, left_gi - gi
            asks = {"cpu": f"{cpu_m}m", "memory": f"{gi}Gi"}
            owner = None if dice.random() < 0.15 else f"ReplicaSet/{name}-{each}"
            objects.append(pod(f"p{number}-{each}", on=name, owner=owner, requests=asks))
    for each in range(dice.choice([1, 2, 3])):
        big = waits(dice.choice(["2", "2500m", "3"]))
        objects.append(replace(big, name=f"big{each}", uid=f"big{each}"))
    return objects


def test_what_moves_first_leaves_its_node_for_good() -> None:
    """The node with the place has the taint, or its scores would bring the replacement back."""
    for seed in range(60):
        for made in preview(*drawn(seed)).made_rooms:
            assert made.bound_in_seconds is not None, (seed, made)
