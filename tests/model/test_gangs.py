"""Which pods say that they run together with others."""

import pytest
from msgspec.structs import replace

from reactive_desched.model.gangs import GANG_SYSTEMS, Gang, gang_of, quorum_of
from reactive_desched.model.objects import Annotations, Pod
from reactive_desched.testing.builders import pod, with_spec

VOLCANO = "scheduling.k8s.io/group-name"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
KUEUE = "kueue.x-k8s.io/pod-group-name"
LWS = "leaderworkerset.sigs.k8s.io/name"


def labelled(**labels: str) -> Pod:
    return pod("p", on="n1", labels=labels)


def annotated(owner: str = "StatefulSet/a", **groups: str) -> Pod:
    marks = Annotations(groups=tuple(groups.items()))
    return replace(pod("p", on="n1", owner=owner), annotations=marks)


@pytest.mark.parametrize("key", [system.key for system in GANG_SYSTEMS])
def test_every_known_key_names_a_gang_as_a_label(key: str) -> None:
    owned = pod("p", on="n1", labels={key: "g"}, owner="RayCluster/r")

    found = gang_of(owned)

    assert found is not None
    assert (found.namespace, found.name) == ("default", "g")


def test_a_pod_without_any_of_them_is_in_no_gang() -> None:
    assert gang_of(labelled(app="web")) is None
    assert gang_of(pod("p")) is None
    assert gang_of(labelled(**{VOLCANO: ""})) is None


def test_the_schedulers_own_group_comes_first() -> None:
    in_both = with_spec(labelled(**{LWS: "l"}), scheduling_group="g")

    assert gang_of(in_both) == Gang("default", "Kubernetes", "g")


def test_groups_of_one_set_are_gangs_of_their_own() -> None:
    index = "leaderworkerset.sigs.k8s.io/group-index"
    found = [gang_of(labelled(**{LWS: "l", index: each})) for each in "01"]

    assert found == [Gang("default", "LeaderWorkerSet", f"l/{each}") for each in "01"]


@pytest.mark.parametrize(
    ("stands_alone", "runs_together"),
    [
        pytest.param(
            annotated(**{VOLCANO: "podgroup-1"}),
            annotated(**{VOLCANO: "job-1"}),
            id="Volcano makes a group for every owner of plain pods",
        ),
        pytest.param(
            annotated(**{VOLCANO: "podgroup-1", MIN_MEMBER: "1"}),
            annotated(**{VOLCANO: "podgroup-1", MIN_MEMBER: "3"}),
            id="unless they ask for more",
        ),
        pytest.param(
            annotated(**{KUEUE: "g", "kueue.x-k8s.io/pod-group-serving": "true"}),
            annotated(**{KUEUE: "g"}),
            id="Kueue marks replicas that serve",
        ),
        pytest.param(
            annotated(**{"pod-group-name": "g"}),
            annotated("PyTorchJob/train", **{"pod-group-name": "g"}),
            id="KAI puts plain replicas into groups as well",
        ),
    ],
)
def test_replicas_that_serve_are_a_gang_in_name_only(stands_alone: Pod, runs_together: Pod) -> None:
    assert gang_of(stands_alone) is None
    assert gang_of(runs_together) is not None


@pytest.mark.parametrize(
    ("key", "quorum"), [(each.key, each.quorum) for each in GANG_SYSTEMS if each.quorum]
)
def test_how_many_have_to_run_stands_on_the_pods_as_the_system_has_it(
    key: str, quorum: str
) -> None:
    labels = [labelled(**{key: "g"}), labelled(**{key: "g", quorum: "3"})]

    assert quorum_of(labels) == 3
    assert quorum_of([annotated("RayCluster/r", **{key: "g", quorum: "3"})]) == 3
    assert quorum_of(labels[:1]) is None


@pytest.mark.parametrize("text", ["", "-1", "0", "many", "1.5", "\u0663", "9" * 7])
def test_a_number_of_pods_that_is_none_is_not_known(text: str) -> None:
    marks = {"gang.scheduling.koordinator.sh/name": "g"}
    least = {"gang.scheduling.koordinator.sh/min-available": text}

    assert quorum_of([annotated(**marks, **least)]) is None
