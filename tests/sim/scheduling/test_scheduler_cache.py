"""The sums the scheduler keeps equal a fresh count, whatever happened."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.sim.scheduling.scheduler_cache import SchedulerCache
from tests.support.sim_world import node, pod_template


def pod(name: str, place: str, app: str, phase: str, *, ending: bool, cpu: str) -> dict[str, Any]:
    """Return a pod as stored; its uid is its name."""
    made = pod_template(app, cpu=cpu)
    meta = {**made["metadata"], "name": name, "namespace": "default", "uid": name}
    if ending:
        meta["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    spec = {**made["spec"], **({"nodeName": place} if place else {})}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


pods = st.builds(
    pod,
    st.sampled_from(["p1", "p2", "p3"]),
    st.sampled_from(["", "n1", "n2"]),
    st.sampled_from(["web", "db"]),
    st.sampled_from(["Pending", "Running", "Failed"]),
    ending=st.booleans(),
    cpu=st.sampled_from(["", "1", "250m"]),
)
nodes = st.builds(node, st.sampled_from(["n1/a", "n2/b"]), pods=st.sampled_from(["10", "20"]))
steps = st.one_of(
    st.tuples(st.just("pod"), pods, st.booleans()), st.tuples(st.just("node"), nodes, st.booleans())
)


def tell(picture: SchedulerCache, kind: str, obj: dict[str, Any], *, gone: bool) -> None:
    """Tell a picture of one event."""
    see = picture.see_pod if kind == "pod" else picture.see_node
    see(obj, gone=gone)


def seen(picture: SchedulerCache) -> dict[str, Any]:
    """Return everything that filters and scores can read."""
    groups: dict[tuple[str, str], Any] = {}
    for group in picture.groups():
        key = (group.needs.labels["app"], str(group.needs.requests))
        groups[key] = (group.on, group.ending)
    rooms = {
        room.name: (room.pods, room.requested, room.scored, room.allocatable, room.zone)
        for room in picture.rooms()
    }
    return {"rooms": rooms, "groups": groups}


@given(st.lists(steps, max_size=30))
def test_the_picture_equals_one_made_afresh_from_what_exists(
    story: list[tuple[str, dict[str, Any], bool]],
) -> None:
    told, left = SchedulerCache(), {}
    for kind, obj, gone in story:
        tell(told, kind, obj, gone=gone)
        left[kind, obj["metadata"]["name"]] = None if gone else obj

    fresh = SchedulerCache()
    for (kind, _), last in left.items():
        if last is not None:
            tell(fresh, kind, last, gone=False)
    assert seen(told) == seen(fresh)


def test_zones_take_turns() -> None:
    picture = SchedulerCache()
    for name in ("n1/a", "n2/a", "n3/a", "n4/b", "n5/c"):
        picture.see_node(node(name))

    assert [room.name for room in picture.rooms()] == ["n1", "n4", "n5", "n2", "n3"]
