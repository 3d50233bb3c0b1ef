"""A pod nominated for a node takes its room there, for pods of its priority and below."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.labels import EVERYTHING, LabelSelector
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    CSINode,
    HostPort,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
    TopologySpreadConstraint,
)
from reactive_desched.testing.anti_affinity import anti_affinity_term, with_anti_affinity
from reactive_desched.testing.builders import node, pod, with_spec
from tests.support.golden import verbatim

PlaceMaker = Callable[..., Any]

ROOM = {"cpu": "4", "pods": "9"}
MOVER = pod("mover", on="n1", requests={"cpu": "2"}, priority=5)
WEB = {"app": "web"}
ANY_EACH = TopologySpreadConstraint(1, ZONE_LABEL, label_selector=LabelSelector())
ONE_EACH = TopologySpreadConstraint(1, ZONE_LABEL, label_selector=LabelSelector(WEB))


def nominated(name: str = "urgent", to: str = "n2", priority: int | None = 9, **more: Any) -> Pod:
    """Build a pod that waits for a node; it asks for 3 cpus unless said otherwise."""
    asks = {"owner": f"ReplicaSet/{name}", "requests": {"cpu": "3"}} | more
    return pod(name, priority=priority, status=PodStatus("Pending", nominated_node=to), **asks)


def two_nodes() -> tuple[Any, ...]:
    return node("n1", zone="a", allocatable=ROOM), node("n2", zone="b", allocatable=ROOM)


def test_the_room_of_a_pod_of_higher_priority_is_taken(place: PlaceMaker) -> None:
    here = place(*two_nodes(), MOVER, nominated())

    assert here.fitting(MOVER) == set()
    reason = verbatim("node(s) had no place beside the pods nominated for them")
    assert here.why_not(MOVER) == {reason: 1}


@pytest.mark.parametrize(
    ("waiting", "fits"),
    [
        pytest.param(nominated(priority=5), set(), id="the same priority comes first"),
        pytest.param(nominated(priority=4), {"n2"}, id="a lower priority does not"),
        pytest.param(nominated(priority=None), {"n2"}, id="no priority is 0"),
        pytest.param(nominated(requests={"cpu": "2"}), {"n2"}, id="both have room"),
        pytest.param(nominated(to="n1"), {"n2"}, id="another node is not concerned"),
        pytest.param(nominated(to="gone"), {"n2"}, id="a node that is not there"),
        pytest.param(replace(nominated(), status=PodStatus("Pending")), {"n2"}, id="not nominated"),
        pytest.param(replace(nominated(), deletion_s=1), {"n2"}, id="is being deleted"),
        pytest.param(
            replace(nominated(), status=PodStatus("Failed", nominated_node="n2")),
            {"n2"},
            id="has ended",
        ),
        pytest.param(replace(nominated(), node="n1"), {"n2"}, id="is bound elsewhere"),
        pytest.param(replace(nominated(), node="n2"), set(), id="is bound there"),
    ],
)
def test_it_counts_by_priority_and_while_it_waits(
    place: PlaceMaker, waiting: Pod, fits: set[str]
) -> None:
    assert place(*two_nodes(), MOVER, waiting).fitting(MOVER) == fits


@pytest.mark.parametrize(
    ("mover", "waiting"),
    [
        pytest.param(
            with_spec(MOVER, host_ports=(HostPort(80),)),
            with_spec(nominated(requests={}), host_ports=(HostPort(80),)),
            id="host port",
        ),
        pytest.param(
            with_anti_affinity(MOVER, anti_affinity_term("app=web")),
            replace(nominated(requests={}), labels=WEB),
            id="its own anti-affinity",
        ),
        pytest.param(
            with_anti_affinity(replace(MOVER, labels=WEB), anti_affinity_term("app=db")),
            with_anti_affinity(nominated(requests={}), anti_affinity_term("app=web")),
            id="the nominated pod's anti-affinity beside the pod's own",
        ),
        pytest.param(
            with_spec(replace(MOVER, labels=WEB), topology_spread_constraints=(ONE_EACH,)),
            replace(nominated(requests={}), labels=WEB),
            id="spread",
        ),
        pytest.param(
            with_spec(MOVER, topology_spread_constraints=(ANY_EACH,)),
            nominated(requests={}),
            id="spread of all pods",
        ),
        pytest.param(
            replace(MOVER, pvc_names=("data",)),
            replace(nominated(requests={}), pvc_names=("logs",)),
            id="volumes",
        ),
    ],
)
def test_every_filter_that_reads_pods_counts_it(
    place: PlaceMaker, mover: Pod, waiting: Pod
) -> None:
    volumes = [
        each
        for name in ("data", "logs")
        for each in (
            PersistentVolumeClaim("default", name, volume_name=name),
            PersistentVolume(name, driver="disks", volume_handle=name),
        )
    ]
    things = [*two_nodes(), *volumes, CSINode("n2", attach_limits={"disks": 1}), mover]

    assert place(*things).fitting(mover) == {"n2"}
    assert place(*things, waiting).fitting(mover) == set()
    lower = replace(waiting, spec=replace(waiting.spec, priority=1))
    assert place(*things, lower).fitting(mover) == {"n2"}


def test_its_anti_affinity_counts_where_the_scheduler_looks_at_affinity_at_all(
    place: PlaceMaker,
) -> None:
    """The kube-scheduler skips InterPodAffinity for a pod that neither has terms nor meets any."""
    web = replace(MOVER, labels=WEB)
    waiting = with_anti_affinity(nominated(requests={}), anti_affinity_term("app=web"))
    loner = with_anti_affinity(
        pod("loner", on="n3", requests={}), anti_affinity_term("app=web", HOSTNAME_LABEL)
    )
    room = node("n3", zone="c", allocatable={"cpu": "0", "pods": "9"})

    assert place(*two_nodes(), web, waiting).fitting(web) == {"n2"}
    assert place(*two_nodes(), room, loner, web).fitting(web) == {"n2"}
    assert place(*two_nodes(), room, loner, web, waiting).fitting(web) == set()


def test_it_does_not_fulfil_the_affinity_of_a_pod(place: PlaceMaker) -> None:
    wants_web = with_spec(MOVER, pod_affinity=(anti_affinity_term("app=web", HOSTNAME_LABEL),))
    waiting = replace(nominated(requests={}), labels=WEB)

    assert place(*two_nodes(), wants_web, waiting).fitting(wants_web) == set()


def test_the_replacement_for_which_a_node_is_reserved_counts_once(place: PlaceMaker) -> None:
    gone = pod("old", on="n1", uid="old", requests={"cpu": "2"}, owner="ReplicaSet/api")
    here = place(*two_nodes(), gone, MOVER)
    assert here.let_go(gone) == "n2"
    here.remove(gone)

    here.put(nominated("new", requests={"cpu": "2"}, owner="ReplicaSet/api"))

    assert here.fitting(MOVER) == {"n2"}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda here, it: here.remove(it), id="gone"),
        pytest.param(
            lambda here, it: here.put(replace(it, status=PodStatus("Pending"))), id="cleared"
        ),
        pytest.param(lambda here, it: here.put(replace(it, node="n3")), id="bound elsewhere"),
        pytest.param(
            lambda here, it: here.put(
                replace(it, status=PodStatus("Pending", nominated_node="n3"))
            ),
            id="nominated elsewhere",
        ),
        pytest.param(lambda here, it: here.put(replace(it, deletion_s=1)), id="being deleted"),
    ],
)
def test_a_pod_that_waits_is_woken_when_the_nomination_ends(
    place: PlaceMaker, end: Callable[[Any, Pod], None]
) -> None:
    here, waiting = place(*two_nodes(), MOVER, nominated()), nominated()
    wakes = here.park(MOVER)

    end(here, waiting)

    assert {hint.wake for hint in here.fit.take_capacity_hints()} & wakes
    assert here.fit.find_other_node(MOVER, EVERYTHING) == "n2"


def test_no_pod_is_woken_when_the_nominated_pod_takes_its_room(place: PlaceMaker) -> None:
    here = place(*two_nodes(), MOVER, nominated())
    here.park(MOVER)

    here.put(replace(nominated(), node="n2"))

    assert not here.fit.take_capacity_hints()
