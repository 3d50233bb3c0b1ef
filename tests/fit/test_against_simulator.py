"""Our filters and those of the simulator's scheduler, written apart, must agree on every node."""

import json
import random
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.fit.assumed_scheduler import AssumedScheduler
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.objects import Pod
from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.scheduling.scheduler import Scheduler
from reactive_desched.sim.store import Store
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.kinds.interning import InternTables
from tests.support import small_clusters as small
from tests.support.all_nodes import diagnose_all_nodes, fitting_nodes
from tests.support.codecs import make_codecs

Obj = dict[str, Any]  # any JSON object


def simulated(objects: dict[str, list[Obj]]) -> Scheduler:
    """Return the simulator's scheduler with these objects before its eyes."""
    scheduler = Scheduler(Store(VirtualClock(0.0), random.Random(1)), PodIndex())
    picture, volumes = scheduler.picture, scheduler.volumes
    for namespace in objects["namespaces"]:
        picture.see_namespace(namespace)
    for node in objects["nodes"]:
        picture.see_node(node)
    for claim in objects["pvcs"]:
        volumes.see_claim(claim)
    for volume in objects["pvs"]:
        volumes.see_volume(volume)
    for pod in objects["pods"]:
        picture.see_pod(pod)
    return scheduler


def unplaced(mover: Obj) -> Obj:
    return {**mover, "spec": {k: v for k, v in mover["spec"].items() if k != "nodeName"}}


def leaving(mover: Obj) -> Obj:
    at = "2026-01-01T00:00:00Z"
    return {**mover, "metadata": {**mover["metadata"], "deletionTimestamp": at}}


def renamed(mover: Obj) -> Obj:
    return {**mover, "metadata": {**mover["metadata"], "name": "next", "uid": "next"}}


def read(objects: dict[str, list[Obj]]) -> ClusterState:
    codec, state = make_codecs(InternTables()), ClusterState()
    for kind, listed in objects.items():
        for obj in listed:
            state.upsert(getattr(codec, kind).decode_object(json.dumps(obj).encode()))
    return state


def ours(objects: dict[str, list[Obj]], mover: Obj) -> tuple[set[str], Counter[str]]:
    """Ask for the nodes that fit a pod which sits on one of them, and why the others do not."""
    state = read(objects | {"pods": [*objects["pods"], mover]})
    fit = SchedulerNodeFit(ClusterView(state, lambda: 0), lambda: 0)
    pod = state.get("pods", mover["metadata"]["uid"])
    assert isinstance(pod, Pod)
    reasons = diagnose_all_nodes(fit, pod).reasons
    return fitting_nodes(fit, pod), Counter({why.message: n for why, n in reasons.items()})


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, list[Obj]]:
    names = draw(st.lists(st.sampled_from(small.NODES), min_size=1, unique=True))
    pods = draw(st.integers(0, 7))
    return {
        "namespaces": draw(small.namespaces()),
        "nodes": [draw(small.node(name)) for name in names],
        "pvcs": draw(small.claims()),
        "pvs": [draw(small.volume(name)) for name in small.VOLUMES],
        "pods": [draw(small.pod(f"p{number}")) for number in range(pods)],
    }


@given(clusters(), small.pod("mover", alive=True))
def test_a_node_fits_the_pod_to_move_just_when_the_simulator_would_take_its_replacement(
    objects: dict[str, list[Obj]], mover: Obj
) -> None:
    expected = simulated(objects).verdicts(unplaced(mover))
    fitting, reasons = ours(objects, mover)

    assert fitting == {node for node, against in expected.items() if not against}
    if not mover["spec"].get("volumes"):  # theirs come in another order
        assert reasons == Counter(why for against in expected.values() for why in against)


@given(clusters(), small.pod("mover", alive=True))
def test_a_preview_places_a_pod_where_the_simulator_would(
    objects: dict[str, list[Obj]], mover: Obj
) -> None:
    waits = unplaced(mover)
    state = read(objects | {"pods": [*objects["pods"], waits]})
    pod = state.get("pods", mover["metadata"]["uid"])
    assert isinstance(pod, Pod)

    chosen = AssumedScheduler(ClusterView(state, lambda: 0)).choose_node(pod)

    assert chosen == simulated(objects).preview(waits)


@given(clusters(), small.pod("mover", alive=True), st.sampled_from(["StatefulSet", "ReplicaSet"]))
def test_a_pod_that_runs_is_expected_where_the_simulator_would_place_its_replacement(
    objects: dict[str, list[Obj]], mover: Obj, kind: str
) -> None:
    """A StatefulSet makes it once the pod is gone, a ReplicaSet while that shuts down."""
    [owner] = mover["metadata"]["ownerReferences"]
    owner["kind"] = kind
    state = read(objects | {"pods": [*objects["pods"], mover]})
    fit = SchedulerNodeFit(ClusterView(state, lambda: 0), lambda: 0)
    pod = state.get("pods", mover["metadata"]["uid"])
    assert isinstance(pod, Pod)

    there = [leaving(mover)] if kind == "ReplicaSet" else []
    scheduler = simulated(objects | {"pods": [*objects["pods"], *there]})
    chosen = scheduler.preview(renamed(unplaced(mover)))

    if chosen:
        others = frozenset(each["metadata"]["name"] for each in objects["nodes"]) - {chosen}
        assert fit.scored_elsewhere(pod, frozenset({chosen})) == ""
        assert fit.scored_elsewhere(pod, others) in ("", chosen)
