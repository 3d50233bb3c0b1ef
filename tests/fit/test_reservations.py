"""Room is promised once: two pods let go never count on the same last place."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from reactive_desched.fit.reservations import MAX_RESERVATIONS, RESERVATION_TTL_S, Reservations
from reactive_desched.model.labels import EVERYTHING, LabelSelector
from reactive_desched.model.moves import NOT_REPLACED, MoveEnd
from reactive_desched.model.objects import (
    HostPort,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from reactive_desched.model.outcomes import EVICTED, FAILED
from reactive_desched.model.reservations import Reservation, ReservationPhase
from reactive_desched.testing.builders import node, pod
from tests.support.golden import verbatim

HOST = "kubernetes.io/hostname"
ONE_PLACE = {"cpu": "4", "memory": "8Gi", "pods": "1"}
N1, N2, TIGHT = node("n1"), node("n2"), node("n2", allocatable=ONE_PLACE)
FIRST = pod("first", on="n1", labels={"app": "web"}, requests={"cpu": "1"})
SECOND = pod("second", on="n1", labels={"app": "web"}, requests={"cpu": "1"}, owner="ReplicaSet/b")


def spec(thing: Pod, **fields: Any) -> Pod:  # any field of a spec
    return msgspec.structs.replace(thing, spec=msgspec.structs.replace(thing.spec, **fields))


def landed(on: str, owner: str = "ReplicaSet/web", name: str = "new") -> Pod:
    return pod(name, on=on, labels={"app": "web"}, requests={"cpu": "1"}, owner=owner)


def test_the_last_place_is_promised_once(place: Callable[..., Any]) -> None:
    here = place(N1, TIGHT, FIRST, SECOND)

    assert here.let_go(FIRST) == "n2"
    assert here.let_go(SECOND) is None
    assert here.why_not(SECOND) == {"Too many pods": 1}


def test_a_place_that_koordinator_keeps_is_no_room_until_a_pod_takes_it(
    place: Callable[..., Any],
) -> None:
    kept = Reservation(
        name="r",
        uid="r",
        phase=ReservationPhase.AVAILABLE,
        node="n2",
        requests={"cpu": 3500, "pods": 1},
    )
    here = place(N1, N2, FIRST, kept)
    assert here.let_go(FIRST) is None
    assert here.why_not(FIRST) == {"Insufficient cpu": 1}

    here.state.upsert(msgspec.structs.replace(kept, phase=ReservationPhase.SUCCEEDED))
    assert here.let_go(FIRST) == "n2"


@pytest.mark.parametrize(
    ("asks", "why"),
    [
        pytest.param({"requests": {"cpu": 3000}}, "Insufficient cpu", id="requests"),
        pytest.param(
            {"host_ports": (HostPort(80),)},
            verbatim("node(s) didn't have free ports for the requested pod ports"),
            id="host ports",
        ),
        pytest.param(
            {"anti_affinity": (PodAffinityTerm(HOST, LabelSelector({"app": "web"})),)},
            "node(s) didn't match pod anti-affinity rules",
            id="company",
        ),
        pytest.param(
            {
                "topology_spread_constraints": (
                    TopologySpreadConstraint(1, HOST, label_selector=LabelSelector({"app": "web"})),
                )
            },
            "node(s) didn't match pod topology spread constraints",
            id="its part in the spread",
        ),
    ],
)
def test_what_is_booked_is_taken(place: Callable[..., Any], asks: dict[str, Any], why: str) -> None:
    first, second = spec(FIRST, **asks), spec(SECOND, **asks)
    here = place(N1, N2, first, second)

    assert here.let_go(first) == "n2"
    assert here.why_not(second) == {why: 1}


def test_a_pod_with_a_reservation_repels_as_if_it_were_there(place: Callable[..., Any]) -> None:
    hermit = spec(FIRST, anti_affinity=(PodAffinityTerm(HOST, LabelSelector({"app": "db"})),))
    other = pod("other", on="n1", labels={"app": "db"})
    here = place(N1, N2, hermit, other)

    assert here.let_go(hermit) == "n2"
    assert here.why_not(other) == {"node(s) didn't satisfy existing pods anti-affinity rules": 1}


def test_a_reservation_ends_when_its_own_replacement_is_bound(place: Callable[..., Any]) -> None:
    here = place(N1, TIGHT, FIRST, SECOND)
    here.let_go(FIRST)

    here.put(landed("n3", name="a replica that was pending before"))
    assert here.let_go(SECOND) is None

    here.replace(FIRST, landed("n3"))
    assert here.let_go(SECOND) == "n2"


def test_a_replacement_that_lands_where_it_should_is_counted_once(
    place: Callable[..., Any],
) -> None:
    here = place(
        N1, node("n2", allocatable={"cpu": "4", "memory": "8Gi", "pods": "2"}), FIRST, SECOND
    )
    here.let_go(FIRST)

    here.replace(FIRST, landed("n2"))

    assert here.let_go(SECOND) == "n2"


def test_of_several_reservations_that_of_the_replaced_pod_ends(place: Callable[..., Any]) -> None:
    other = msgspec.structs.replace(FIRST, name="other", uid="other")
    here = place(N1, TIGHT, FIRST, other, SECOND)
    here.let_go(FIRST)
    here.put(node("n3", allocatable=ONE_PLACE))
    assert here.let_go(other) == "n3"

    here.replace(other, landed("n4"))
    assert here.let_go(SECOND) == "n3"


def test_a_reservation_ends_when_the_replacement_is_given_up(place: Callable[..., Any]) -> None:
    here = place(N1, TIGHT, FIRST, SECOND)
    here.let_go(FIRST)

    here.fit.followed_up(here.evictions[FIRST.uid], MoveEnd(NOT_REPLACED))

    assert here.let_go(SECOND) == "n2"


def test_an_eviction_that_did_not_happen_frees_its_room(place: Callable[..., Any]) -> None:
    here = place(N1, TIGHT, FIRST, SECOND)
    here.let_go(FIRST)

    here.end(FIRST, EVICTED)
    assert here.let_go(SECOND) is None

    here.end(FIRST, FAILED)
    assert here.let_go(SECOND) == "n2"


def test_a_reservation_is_kept_for_two_minutes_and_the_next_pod_is_tried_then(
    place: Callable[..., Any],
) -> None:
    here = place(N1, TIGHT, FIRST, SECOND)
    here.let_go(FIRST)
    here.now = 60.0
    assert here.fit.find_other_node(SECOND, EVERYTHING) is None
    assert here.fit.diagnose_other_nodes(SECOND, EVERYTHING).until == RESERVATION_TTL_S

    here.now = RESERVATION_TTL_S
    here.fit.sync()

    assert here.let_go(SECOND) == "n2"


def test_a_pod_that_waits_for_a_reservation_gets_a_hint_when_it_ends(
    place: Callable[..., Any],
) -> None:
    here = place(N1, TIGHT, FIRST, SECOND)
    here.let_go(FIRST)
    waits_for = here.park(SECOND)

    here.end(FIRST, FAILED)

    assert {room.wake for room in here.fit.take_capacity_hints()} <= waits_for
    assert here.let_go(SECOND) == "n2"


def test_a_pod_without_a_controller_needs_no_room(place: Callable[..., Any]) -> None:
    bare = pod("bare", on="n1", owner=None)
    here = place(N1, TIGHT, bare, SECOND)

    assert here.let_go(bare) == "n2"
    assert here.let_go(SECOND) == "n2"


def test_only_the_pod_that_was_just_searched_for_gets_a_reservation(
    place: Callable[..., Any],
) -> None:
    here = place(N1, TIGHT, FIRST, SECOND)
    here.fit.find_other_node(FIRST, EVERYTHING)

    here.fit.reserve(SECOND)

    assert here.let_go(FIRST) == "n2"


def test_at_the_bound_the_oldest_booking_ends() -> None:
    touched: list[str] = []
    bookings = Reservations(touched.append)
    for number in range(MAX_RESERVATIONS + 1):
        mover = msgspec.structs.replace(FIRST, uid=f"u{number}")
        bookings.reserve(mover, f"n{number}", number)

    assert len(bookings.pods) == MAX_RESERVATIONS
    assert bookings.reserved_on("n0") is None
    assert bookings.reserved_on("n1") == {"cpu": 1000, "pods": 1}
    assert touched[-2:] == ["n0", f"n{MAX_RESERVATIONS}"]


def test_booking_again_moves_the_booking() -> None:
    bookings = Reservations(lambda _: None)
    bookings.reserve(FIRST, "n2", 0)
    bookings.reserve(FIRST, "n3", 5)

    assert bookings.reserved_on("n2") is None
    assert bookings.reserved_on("n3") == {"cpu": 1000, "pods": 1}
    assert bookings.next_expiry() == 5 + RESERVATION_TTL_S


def test_the_reservations_of_a_namespace_follow_those_that_begin_and_end() -> None:
    reservations = Reservations(lambda _: None)
    pods = [
        pod(name, namespace=space, owner="ReplicaSet/web")
        for name, space in (("a", "shop"), ("b", "shop"), ("c", "web"))
    ]
    for number, each in enumerate(pods):
        reservations.reserve(each, "n1", number)

    assert [r.pod.name for r in reservations.in_namespace("shop")] == ["a", "b"]
    reservations.release(pods[0].uid)
    reservations.expire(RESERVATION_TTL_S + 1)
    assert [r.pod.name for r in reservations.in_namespace("shop")] == []
    assert [r.pod.name for r in reservations.in_namespace("web")] == ["c"]
