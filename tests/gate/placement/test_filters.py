"""Each of the kube-scheduler's filters over the live picture, the moving pod left out of it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from reactive_desched.gate.placement.neighbours import NO_COMPANY, REPELLED, UNWELCOME_COMPANY
from reactive_desched.model.labels import EVERYTHING, LabelSelector, parse_selector
from reactive_desched.model.node_affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from reactive_desched.model.objects import (
    CSINode,
    HostPort,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodStatus,
    TopologySpreadConstraint,
)
from reactive_desched.model.scheduling import (
    NOT_SELECTED,
    PORTS_TAKEN,
    TAINTED,
    TOO_MANY_PODS,
    UNSCHEDULABLE,
)
from reactive_desched.model.spread import UNEVEN, UNLABELLED
from reactive_desched.model.volumes import (
    IN_USE,
    NO_VOLUME,
    NO_ZONE,
    NOT_REACHABLE,
    TOO_MANY_VOLUMES,
)
from reactive_desched.testing.builders import node, pod, term

Spec = Callable[..., Pod]
HOST, ZONE, BETA = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
)
WEB, DB = LabelSelector({"app": "web"}), LabelSelector({"app": "db"})
MOVER = pod("mover", on="n1", labels={"app": "web"}, requests={"cpu": "1"})


def spec(thing: Pod = MOVER, **fields: Any) -> Pod:  # any field of a spec
    return msgspec.structs.replace(thing, spec=msgspec.structs.replace(thing.spec, **fields))


def of(thing: Any, **fields: Any) -> Any:  # any field of any record
    return msgspec.structs.replace(thing, **fields)


def row(
    candidate: Pod,
    *things: Any,
    why: str | None,
    id: str,  # noqa: A002 -- as pytest calls it
) -> Any:
    return pytest.param(candidate, things, {why: 1} if why else {}, id=id)


def apart(selector: LabelSelector | None = WEB, key: str = HOST, **more: Any) -> Pod:
    return spec(anti_affinity=(PodAffinityTerm(key, selector, **more),))


def together(*selectors: LabelSelector | None, key: str = ZONE) -> Pod:
    return spec(pod_affinity=tuple(PodAffinityTerm(key, selector) for selector in selectors))


def even(max_skew: int = 1, key: str = ZONE, **more: Any) -> Pod:
    more = {"label_selector": WEB} | more
    return spec(spread=(TopologySpreadConstraint(max_skew, key, **more),))


def claiming(*claims: str) -> Pod:
    return msgspec.structs.replace(MOVER, claims=claims)


def in_zone(name: str, zone: str, *taints: str) -> Node:
    return node(name, *taints, labels={ZONE: zone})


def claim(name: str = "data", **fields: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim("default", name, **({"volume": f"v-{name}"} | fields))


def volume(name: str = "data", **fields: Any) -> PersistentVolume:
    more = {"driver": "disks", "handle": f"h-{name}", "claim": f"default/{name}"}
    return PersistentVolume(f"v-{name}", **(more | fields))


FULL = {"cpu": "4", "memory": "8Gi", "pods": "2"}
RIVAL = pod("rival", on="n2", labels={"app": "web"})


@pytest.mark.parametrize(
    ("candidate", "things", "why"),
    [
        row(MOVER, node("n2"), why=None, id="an ordinary pod and an empty node"),
        row(MOVER, node("n2", unschedulable=True), why=UNSCHEDULABLE, id="cordoned"),
        row(
            pod("mover", on="n1", tolerates="*"),
            node("n2", unschedulable=True),
            why=None,
            id="cordoned, and tolerated",
        ),
        row(MOVER, node("n2", "a:NoSchedule"), why=TAINTED, id="a taint"),
        row(MOVER, node("n2", "a:NoExecute"), why=TAINTED, id="a NoExecute taint"),
        row(MOVER, node("n2", "a:PreferNoSchedule"), why=None, id="a soft taint"),
        row(pod("m", on="n1", tolerates="a"), node("n2", "a:NoSchedule"), why=None, id="tolerated"),
        row(spec(node_selector={"d": "1"}), node("n2"), why=NOT_SELECTED, id="node selector"),
        row(pod("m", on="n1", requires="d=1"), node("n2"), why=NOT_SELECTED, id="node affinity"),
        row(
            spec(node_affinity=NodeAffinity(NodeSelector((NodeSelectorTerm(), term("d=1"))))),
            node("n2", labels={"d": "1"}),
            why=None,
            id="one term of node affinity is enough",
        ),
        row(
            spec(node_affinity=NodeAffinity(NodeSelector((NodeSelectorTerm(), term("d=1"))))),
            node("n2"),
            why=NOT_SELECTED,
            id="an empty term of node affinity never is",
        ),
        row(
            MOVER,
            node("n2", room={"cpu": "900m", "pods": "9"}),
            why="Insufficient cpu",
            id="too small a node",
        ),
        row(
            MOVER,
            node("n2", room={"cpu": "2", "pods": "9"}),
            of(pod("a", on="n2", requests={"cpu": "1500m"}), deletion_s=1),
            why="Insufficient cpu",
            id="what is being deleted still takes room",
        ),
        row(
            MOVER,
            node("n2", room={"cpu": "2", "pods": "9"}),
            pod("a", on="n2", requests={"cpu": "1500m"}, status=PodStatus("Succeeded")),
            why=None,
            id="what has ended takes none",
        ),
        row(
            MOVER,
            node("n2", room={"cpu": "2", "pods": "9"}),
            of(pod("a", on="n2", requests={"cpu": "500m"}), resized={"cpu": 600}),
            why="Insufficient cpu",
            id="an in-place resize takes room",
        ),
        row(
            spec(requests={"example.com/gpu": 1}),
            node("n2"),
            why="Insufficient example.com/gpu",
            id="an extended resource the node lacks",
        ),
        row(spec(requests={"example.com/gpu": 0}), node("n2"), why=None, id="none of it is enough"),
        row(
            spec(requests={}),
            node("n2", room={"cpu": "1", "pods": "9"}),
            pod("a", on="n2", requests={"cpu": "2"}),
            why=None,
            id="who asks for nothing fits an over-committed node",
        ),
        row(
            spec(requests={}),
            node("n2", room=FULL),
            pod("a", on="n2"),
            pod("b", on="n2"),
            why=TOO_MANY_PODS,
            id="no place among the pods",
        ),
        row(
            spec(host_ports=(HostPort(80),)),
            node("n2"),
            spec(RIVAL, host_ports=(HostPort(80, ip="10.0.0.1"),)),
            why=PORTS_TAKEN,
            id="any address clashes with one",
        ),
        row(
            spec(host_ports=(HostPort(80, ip="10.0.0.2"),)),
            node("n2"),
            spec(RIVAL, host_ports=(HostPort(80, ip="10.0.0.1"),)),
            why=None,
            id="another address",
        ),
        row(
            spec(host_ports=(HostPort(80, "UDP"),)),
            node("n2"),
            spec(RIVAL, host_ports=(HostPort(80),)),
            why=None,
            id="another protocol",
        ),
        row(apart(), node("n2"), RIVAL, why=UNWELCOME_COMPANY, id="anti-affinity on the host"),
        row(apart(None), node("n2"), RIVAL, why=None, id="anti-affinity to nobody"),
        row(
            apart(key="rack"), node("n2"), RIVAL, why=None, id="anti-affinity over a missing label"
        ),
        row(
            apart(),
            node("n2"),
            of(RIVAL, namespace="bank"),
            why=None,
            id="anti-affinity stays in the namespace",
        ),
        row(
            apart(namespace_selector=LabelSelector({"team": "a"})),
            node("n2"),
            Namespace("bank", labels={"team": "a"}),
            of(RIVAL, namespace="bank"),
            why=UNWELCOME_COMPANY,
            id="but for a namespaceSelector",
        ),
        row(
            apart(namespace_selector=LabelSelector({"team": "a"})),
            node("n2"),
            Namespace("default", labels={"team": "b"}),
            RIVAL,
            why=None,
            id="which does not imply its own",
        ),
        row(
            MOVER,
            node("n2"),
            spec(RIVAL, anti_affinity=(PodAffinityTerm(HOST, WEB),)),
            why=REPELLED,
            id="anti-affinity of who is there",
        ),
        row(
            apart(key=ZONE),
            in_zone("n1", "a"),
            in_zone("n2", "a"),
            why=None,
            id="it does not avoid itself in its zone",
        ),
        row(
            apart(key=ZONE),
            in_zone("n1", "a"),
            in_zone("n2", "a"),
            of(RIVAL, node="n1"),
            why=UNWELCOME_COMPANY,
            id="it avoids the others in its zone",
        ),
        row(together(DB), in_zone("n2", "a"), why=NO_COMPANY, id="affinity to nobody there"),
        row(
            together(DB),
            in_zone("n2", "a"),
            pod("db", on="n2", labels={"app": "db"}),
            why=None,
            id="affinity to one who is there",
        ),
        row(together(WEB), in_zone("n2", "a"), why=None, id="the first of its kind"),
        row(together(WEB), node("n2"), why=NO_COMPANY, id="the first needs the topology label too"),
        row(
            together(WEB),
            in_zone("n1", "a"),
            in_zone("n2", "b"),
            pod("web", on="n1", labels={"app": "web"}),
            why=NO_COMPANY,
            id="not the first: another one stays behind",
        ),
        row(
            together(WEB, LabelSelector({"tier": "1"})),
            in_zone("n2", "a"),
            pod("a", on="n2", labels={"app": "web"}),
            pod("b", on="n2", labels={"tier": "1"}),
            why=NO_COMPANY,
            id="one pod must match all terms at once",
        ),
        row(
            together(WEB, LabelSelector({"tier": "1"})),
            in_zone("n2", "a"),
            pod("a", on="n2", labels={"app": "web", "tier": "1"}),
            why=None,
            id="and one that does is enough",
        ),
        row(even(), in_zone("n1", "a"), in_zone("n2", "a"), why=None, id="a single zone is even"),
        row(
            even(),
            in_zone("n1", "a"),
            in_zone("n2", "b"),
            RIVAL,
            why=UNEVEN,
            id="its own place does not count: its zone is empty",
        ),
        row(
            even(),
            in_zone("n1", "a"),
            in_zone("n2", "b"),
            RIVAL,
            of(RIVAL, name="second", uid="second", node="n1"),
            why=None,
            id="one in each zone",
        ),
        row(even(2), in_zone("n1", "a"), in_zone("n2", "b"), RIVAL, why=None, id="a skew of two"),
        row(
            even(),
            in_zone("n1", "a"),
            in_zone("n2", "b"),
            of(RIVAL, deletion_s=1),
            why=None,
            id="who is being deleted does not count",
        ),
        row(
            even(min_domains=3),
            in_zone("n1", "a"),
            in_zone("n2", "b"),
            RIVAL,
            of(RIVAL, name="second", uid="second", node="n1"),
            why=UNEVEN,
            id="too few domains count as if one were empty",
        ),
        row(even(key="rack"), node("n2"), why=UNLABELLED, id="spread over a missing label"),
        row(
            even(when_unsatisfiable="ScheduleAnyway"),
            in_zone("n1", "a"),
            in_zone("n2", "b"),
            RIVAL,
            why=None,
            id="a soft constraint",
        ),
        row(
            even(label_selector=LabelSelector()),
            in_zone("n1", "a"),
            in_zone("n2", "b"),
            RIVAL,
            why=None,
            id="an empty selector counts nobody",
        ),
        row(
            of(even(match_label_keys=("v",)), labels={"app": "web", "v": "2"}),
            in_zone("n1", "a"),
            in_zone("n2", "b"),
            of(RIVAL, labels={"app": "web", "v": "1"}),
            why=None,
            id="label keys to match: another version",
        ),
        row(
            even(node_taints_policy="Honor"),
            in_zone("n2", "b"),
            in_zone("n1", "a", "x:NoSchedule"),
            RIVAL,
            why=None,
            id="a tainted zone is none, if taints are honoured",
        ),
        row(
            spec(even(), node_selector={"d": "1"}),
            node("n1", labels={ZONE: "a"}),
            node("n2", labels={ZONE: "b", "d": "1"}),
            RIVAL,
            why=None,
            id="nodes it may not go to make no zone",
        ),
        row(
            spec(even(node_affinity_policy="Ignore"), node_selector={"d": "1"}),
            node("n1", labels={ZONE: "a"}),
            node("n2", labels={ZONE: "b", "d": "1"}),
            RIVAL,
            why=UNEVEN,
            id="but for a policy to ignore that",
        ),
        row(
            claiming("data"),
            node("n2"),
            why='persistentvolumeclaim "data" not found',
            id="a claim that is not there",
        ),
        row(
            claiming("data"),
            node("n2"),
            claim(deletion_s=1),
            why='persistentvolumeclaim "data" is being deleted',
            id="a claim that is being deleted",
        ),
        row(
            claiming("data"),
            node("n2"),
            claim(phase="Lost"),
            volume(),
            why='persistentvolumeclaim "data" bound to non-existent persistentvolume',
            id="a claim that lost its volume",
        ),
        row(claiming("data"), node("n2"), claim(volume=""), why=None, id="a claim not bound yet"),
        row(claiming("data"), node("n2"), claim(), why=NO_VOLUME, id="a volume that is not there"),
        row(
            claiming("data"),
            node("n2"),
            claim(),
            volume(reachable_from=NodeSelector((term("disk=1"),))),
            why=NOT_REACHABLE,
            id="a local volume",
        ),
        row(
            claiming("data"),
            in_zone("n2", "c"),
            claim(),
            volume(places={ZONE: "a__b"}),
            why=NO_ZONE,
            id="a volume of other zones",
        ),
        row(
            claiming("data"),
            in_zone("n2", "b"),
            claim(),
            volume(places={ZONE: "a__b"}),
            why=None,
            id="a volume of two zones",
        ),
        row(
            claiming("data"),
            in_zone("n2", "b"),
            claim(),
            volume(places={BETA: "a"}),
            why=NO_ZONE,
            id="an old label meets a new one",
        ),
        row(
            claiming("data"),
            in_zone("n2", "b"),
            claim(),
            volume(places={BETA: "b"}),
            why=None,
            id="an old label and a new one agree",
        ),
        row(
            claiming("data"),
            node("n2"),
            claim(),
            volume(places={ZONE: "a"}),
            why=None,
            id="a node that does not say where it is",
        ),
        row(
            claiming("data"),
            node("n2"),
            claim(exclusive=True),
            volume(),
            of(RIVAL, claims=("data",)),
            why=IN_USE,
            id="a claim that serves a single pod serves another",
        ),
        row(
            claiming("data"),
            node("n2"),
            claim(exclusive=True),
            volume(),
            why=None,
            id="or only the pod itself",
        ),
        row(
            claiming("data"),
            node("n2"),
            claim(),
            volume(),
            CSINode("n2", attachable={"disks": 0}),
            why=TOO_MANY_VOLUMES,
            id="no volume can be attached",
        ),
        row(
            claiming("data"),
            node("n2"),
            claim(),
            volume(),
            claim("more"),
            volume("more"),
            of(RIVAL, claims=("more",)),
            CSINode("n2", attachable={"disks": 1}),
            why=TOO_MANY_VOLUMES,
            id="all that can be are attached",
        ),
        row(
            claiming("data"),
            node("n2"),
            claim(),
            volume(),
            of(RIVAL, claims=("data",)),
            CSINode("n2", attachable={"disks": 0}),
            why=None,
            id="it is attached there already",
        ),
    ],
)
def test_whether_the_other_node_fits(
    place: Callable[..., Any], candidate: Pod, things: tuple[Any, ...], why: dict[str, int]
) -> None:
    here = place(node("n1"), *things, candidate)

    assert here.why_not(candidate) == why
    assert here.fitting(candidate) == (set() if why else {"n2"})


def test_a_volume_nobody_may_tell_us_of_closes_no_node(place: Callable[..., Any]) -> None:
    candidate = claiming("data")
    here = place(node("n1"), node("n2"), claim(), candidate)
    assert here.why_not(candidate) == {NO_VOLUME: 1}

    here = place(node("n1"), node("n2"), claim(), candidate)
    here.state.untold.add("persistentvolumes")
    assert here.why_not(candidate) == {}


@pytest.mark.parametrize(
    ("candidate", "things"),
    [
        pytest.param(MOVER, [], id="its requests"),
        pytest.param(spec(host_ports=(HostPort(80),)), [], id="its host ports"),
        pytest.param(apart(), [], id="its own anti-affinity"),
        pytest.param(even(), [node("n2", labels={ZONE: "b"})], id="its part in the spread"),
        pytest.param(
            claiming("data"),
            [claim(exclusive=True), volume(), CSINode("n1", attachable={"disks": 1})],
            id="its volumes",
        ),
        pytest.param(of(MOVER, resized={"cpu": 500}), [], id="what a resize makes it hold"),
    ],
)
def test_what_it_takes_up_itself_keeps_it_off_no_node(
    place: Callable[..., Any], candidate: Pod, things: list[Any]
) -> None:
    room = {"cpu": "1", "pods": "1"}
    if candidate.resized:
        room["cpu"] = "1500m"
    here = place(node("n1", labels={ZONE: "a"}, room=room), *things, candidate)

    assert "n1" in here.fit.fitting(candidate)


def test_elsewhere_is_a_ready_node_of_the_selection_and_never_its_own(
    place: Callable[..., Any],
) -> None:
    nodes = node("n1"), node("n2", ready="False"), node("n3"), node("n4", labels={"pool": "b"})
    here = place(*nodes, MOVER)

    assert here.fit.elsewhere(MOVER, parse_selector("pool=b")) == "n4"
    assert here.fit.elsewhere(MOVER, parse_selector("pool=c")) is None
    assert here.fit.elsewhere(MOVER, parse_selector("!pool")) == "n3"


def test_anywhere_is_its_own_node_if_no_other_will_do(place: Callable[..., Any]) -> None:
    here = place(node("n1"), node("n2", "a:NoSchedule"), node("n3", ready="False"), MOVER)
    assert here.fit.anywhere(MOVER) == "n1"

    here.put(node("n2"))
    assert here.fit.anywhere(MOVER) == "n2"

    here.put(node("n2", "a:NoSchedule"), node("n1", unschedulable=True))
    assert here.fit.anywhere(MOVER) is None


def test_of_the_nodes_that_fit_the_one_with_most_room_is_named(place: Callable[..., Any]) -> None:
    nodes = node("n1"), node("n2"), node("n3"), node("n4")
    here = place(*nodes, MOVER, pod("a", on="n2", requests={"cpu": "1"}), pod("b", on="n4"))

    assert here.fit.elsewhere(MOVER, EVERYTHING) == "n3"


def test_why_not_counts_each_node_once_but_for_several_shortages(
    place: Callable[..., Any],
) -> None:
    nodes = [
        node("n1"),
        node("n2", "a:NoSchedule", unschedulable=True),
        node("n3", room={"cpu": "0", "pods": "0"}),
        node("n4", room={"cpu": "0", "pods": "9"}),
    ]
    here = place(*nodes, MOVER)
    here.fit.elsewhere(MOVER, EVERYTHING)

    found = here.fit.nowhere_else(MOVER, EVERYTHING)

    assert str(found.why) == (
        "0/3 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, 2 Insufficient cpu"
    )
    assert found.reason == (
        "no other node fits the pod: Insufficient cpu, Too many pods, node(s) were unschedulable"
    )
