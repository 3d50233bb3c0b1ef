"""Gangs by what their objects say: one that changes is about its own gang alone."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from reactive_desched.model.changes import Change
from reactive_desched.model.gangs import Gang
from reactive_desched.model.objects import Pod
from reactive_desched.model.pod_groups import (
    CoschedulingPodGroup,
    GroupRule,
    KubernetesWorkload,
    with_rule,
)
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes import gangs
from reactive_desched.state.indexes.gangs import GangChanged, Gangs
from reactive_desched.testing.builders import pod

KEY = "scheduling.x-k8s.io/pod-group"


@pytest.mark.parametrize("count", [3, 300])
def test_a_pod_group_is_looked_at_without_all_other_gangs(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = ClusterState()
    state.index(Gangs)
    for number in range(count):
        member = pod(f"p{number}", on="n1")
        state.upsert(replace(member, labels={KEY: f"g{number}"}))
    asked: list[Gang] = []

    def counted(gang: Gang) -> Gang:
        asked.append(gang)
        return with_rule(gang)

    monkeypatch.setattr(gangs, "with_rule", counted)

    changes = state.upsert(CoschedulingPodGroup("default", "g1", "u", 1, GroupRule(2)))

    assert named(changes) == ["g1"]
    assert len(asked) < 3


def test_a_workload_that_changes_names_the_replicas_of_its_group_that_run() -> None:
    state = ClusterState()
    state.index(Gangs)
    members = [replica("train/workers/0"), replica("train/workers/1"), replica("other/workers/0")]
    for each in members:
        state.upsert(each)

    said = KubernetesWorkload("default", "train", "u", 1, (("workers", GroupRule(2)),))
    first = state.upsert(said)
    assert named(first) == ["train/workers", "train/workers/0", "train/workers/1"]

    state.remove(members[1])
    assert named(state.remove(said)) == ["train/workers", "train/workers/0"]


def replica(group: str) -> Pod:
    member = pod(group.replace("/", "-"), on="n1")
    return replace(member, spec=replace(member.spec, scheduling_group=group))


def named(changes: Iterable[Change]) -> list[str]:
    return [change.gang.name for change in changes if isinstance(change, GangChanged)]
