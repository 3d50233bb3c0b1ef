"""Which nodes can attach a pod's volumes: as by counting them all, but without counting."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.fit.volumes import VolumeFilter
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.objects import (
    ClusterObject,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from reactive_desched.primitives.bits import slots_in
from reactive_desched.primitives.long_answers import AnswerTakesLong
from reactive_desched.testing.builders import node, pod
from tests.fit.conftest import Place
from tests.support.all_nodes import fitting_nodes

NODES = ("n1", "n2", "n3")
VOLUMES = {f"c{number}": (f"d{number % 2}", f"h{number // 4}") for number in range(8)}
"""The driver and the handle behind each claim: two claims share each of them."""

LIMITS = st.dictionaries(st.sampled_from(["d0", "d1"]), st.integers(0, 3))
CLAIMS = st.lists(st.sampled_from(sorted(VOLUMES)), unique=True, max_size=3).map(tuple)
STEP = st.one_of(
    st.tuples(st.sampled_from(NODES), LIMITS),
    st.tuples(st.sampled_from(("p1", "p2", "p3", "p4")), st.sampled_from(NODES), CLAIMS),
    st.sampled_from(("p1", "p2", "p3", "p4")),
)


def storage(name: str, driver: str, handle: str) -> list[ClusterObject]:
    return [
        PersistentVolumeClaim("default", name, volume_name=f"v-{name}"),
        PersistentVolume(
            f"v-{name}", driver=driver, volume_handle=handle, claim_ref=f"default/{name}"
        ),
    ]


def using(name: str, on: str, claims: tuple[str, ...]) -> Pod:
    return replace(pod(name, on=on), pvc_names=claims)


@given(st.lists(STEP, max_size=12), CLAIMS, CLAIMS)
def test_a_node_fits_whose_drivers_have_room_for_the_volumes_that_are_not_there(
    steps: list[Any], first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    place = Place(*map(node, NODES))
    place.put(*(each for name, of in VOLUMES.items() for each in storage(name, *of)))
    limits: dict[str, dict[str, int]] = {}
    there: dict[str, Pod] = {}
    for step in steps:
        match step:
            case str():
                if (gone := there.pop(step, None)) is not None:
                    place.remove(gone)
            case (on, dict() as its):
                limits[on] = its
                place.put(CSINode(on, attach_limits=its))
            case (name, on, claims):
                there[name] = using(name, on, claims)
                place.put(there[name])
        for claims in (first, second):
            fitting = {on for on in NODES if has_room(limits.get(on, {}), on, there, claims)}
            mover = using("mover", "", claims)
            assert fitting_nodes(place.fit, mover) == fitting
            assert all_at_once(place.fit, mover) == fitting


def all_at_once(fit: SchedulerNodeFit, mover: Pod) -> set[str]:
    found = fit._filters.fitting(mover, fit._nodes.ready)
    return {fit._nodes.name(slot) for slot in slots_in(found)}


def has_room(
    limits: dict[str, int], on: str, there: dict[str, Pod], claims: tuple[str, ...]
) -> bool:
    attached = {
        VOLUMES[name] for each in there.values() if each.node == on for name in each.pvc_names
    }
    wanted = {VOLUMES[name] for name in claims}
    together = [driver for driver, _ in attached | wanted]
    return all(
        driver not in limits or together.count(driver) <= limits[driver]
        for driver, _ in wanted - attached
    )


def test_the_volumes_of_a_pod_are_looked_up_as_often_among_few_nodes_as_among_many(
    place: Callable[..., Place], monkeypatch: Any
) -> None:
    claims = tuple(f"mine-{number}" for number in range(20))
    looked_up: list[str] = []
    lookup = VolumeFilter.volumes_of

    def counted(self: VolumeFilter, of: Pod) -> Any:
        looked_up.append(of.name)
        return lookup(self, of)

    monkeypatch.setattr(VolumeFilter, "volumes_of", counted)
    mover = using("mover", "", claims)
    times = []
    for count in (3, 60):
        here = place(*(each for name in claims for each in storage(name, "disks", f"h-{name}")))
        here.put(*(node(f"n{number}") for number in range(count)))
        here.put(*(CSINode(f"n{number}", attach_limits={"disks": 10}) for number in range(count)))
        fit: SchedulerNodeFit = here.fit
        looked_up.clear()
        assert here.why_not(mover) == {"node(s) exceed max volume count": count}
        assert not fit._filters.fitting(mover, fit._nodes.ready)
        times.append(looked_up.count("mover"))
    assert times[0] == times[1]


def test_volumes_that_are_attached_nowhere_any_more_are_forgotten() -> None:
    place = Place(node("n1"), CSINode("n1", attach_limits={"disks": 3}))
    place.put(*storage("c1", "disks", "h1"))
    user = using("user", "n1", ("c1",))
    place.put(user)
    attached = place.fit._filters.volumes.attached
    fitting_nodes(place.fit, using("mover", "", ("c1",)))
    assert attached._slots_by_handle.get("h1") == (0,)

    place.remove(user)
    fitting_nodes(place.fit, using("mover", "", ("c1",)))
    assert not attached._slots_by_handle
    assert attached._attached == {0: {"disks": set()}}


def test_what_many_nodes_have_attached_is_read_in_steps_where_answers_are_wanted_so() -> None:
    count = 40
    place = Place(*(node(f"n{number}") for number in range(count)), *storage("c1", "disks", "h1"))
    place.put(*(CSINode(f"n{number}", attach_limits={"disks": 0}) for number in range(count)))
    mover, fit = using("mover", "", ("c1",)), place.fit
    place.put(mover)
    while not fit.sync():
        pass

    with pytest.raises(AnswerTakesLong) as asked, fit.long_answers:
        fit.find_other_node(mover, EVERYTHING)
    assert sum(1 for _ in asked.value.steps) == count
    with fit.long_answers:
        assert fit.find_other_node(mover, EVERYTHING) is None
