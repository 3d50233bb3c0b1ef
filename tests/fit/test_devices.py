"""Whether a pod finds devices for its ResourceClaims on the other nodes.

tests/e2e/test_devices.py compares more of them with the real kube-scheduler, node by node.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.fit.device_selectors import DeviceError, DeviceSelectors
from reactive_desched.fit.devices import CLAIM_AWAITED, CLAIM_NOT_FOUND, CLAIM_NOT_JUDGED
from reactive_desched.model.devices import (
    ALL_DEVICES,
    CapacityPolicy,
    Device,
    DeviceAllocation,
    DeviceAlternatives,
    DeviceClass,
    DeviceConstraint,
    DeviceId,
    DeviceRequest,
    DeviceTaintRule,
    NodeScope,
    PoolName,
    ResourceClaim,
    ResourceSlice,
)
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.node_affinity import NodeAffinity, NodeSelector, PreferredTerm
from reactive_desched.model.objects import ClusterObject, Node, Pod, PodStatus
from reactive_desched.model.taints import Taint, Toleration
from reactive_desched.model.wakes import WakeOnDevices
from reactive_desched.testing.builders import node, pod, term, with_spec
from tests.fit.conftest import Place

GPU = DeviceClass("gpu", selectors=('device.driver == "gpus"',))
NODES = [node("n1"), node("n2", labels={"disk": "ssd"}), node("n3")]
ONE = DeviceRequest("gpu")


def gpus(name: str, *found: Device, **more: Any) -> ResourceSlice:  # any field of a slice
    fields = {"pool": PoolName("gpus", name), "scope": NodeScope(name), **more}
    return ResourceSlice(f"s-{name}", devices=found or (Device("g0"),), **fields)


def part(name: str, size: int) -> Device:
    """Return a part of a larger device, which takes so much of its memory."""
    return Device(
        name, {"size": size}, takes_counters=True, consumes=(("all", "mem", f"{size}Gi"),)
    )


def in_parts(name: str, memory: str, *more: Device) -> list[ResourceSlice]:
    """Return the slices of a pool with a device that can be had as a whole or in two halves."""
    parts = (part("whole", 80), part("half0", 40), part("half1", 40), *more)
    counters = ResourceSlice(
        f"c-{name}",
        pool=PoolName("gpus", name),
        slices_of_pool=2,
        scope=NodeScope("elsewhere"),
        counters=(("all", "mem", memory),),
    )
    return [gpus(name, *parts, slices_of_pool=2), counters]


def asks(*requests: DeviceRequest, **more: Any) -> ResourceClaim:  # any field of a claim
    wanted = tuple(DeviceAlternatives(f"r{n}", (each,)) for n, each in enumerate(requests))
    return ResourceClaim("default", more.pop("name", "own"), requests=wanted, **more)


def held(where: str, *names: str, **more: Any) -> DeviceAllocation:  # any field of it
    taken = tuple(DeviceId("gpus", where, name) for name in names or ("g0",))
    selector = NodeSelector((term(f"kubernetes.io/hostname={where}"),))
    return DeviceAllocation(taken, **{"node_selector": selector, **more})


def user(name: str = "mover", on: str = "n1", claims: tuple[str, ...] = ("own",)) -> Pod:
    named = tuple((claim, claim) for claim in claims)
    return with_spec(pod(name, on=on), resource_claims=named, has_resource_claims=True)


MOVER = user()
OWN = asks(ONE, allocation=held("n1"), users=(MOVER.uid,), pod=MOVER.uid)
"""The claim of the mover, made for it from a template: it has the device of n1."""


def fitting(*things: ClusterObject, mover: Pod = MOVER) -> set[str]:
    return Place(*NODES, GPU, mover, *things).fitting(mover)


SICK = Taint("sick", "NoSchedule", "yes")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(DeviceTaintRule("r", taint=SICK), set(), id="all devices"),
        pytest.param(DeviceTaintRule("r", taint=SICK, driver="nets"), {"n2", "n3"}, id="a driver"),
        pytest.param(DeviceTaintRule("r", taint=SICK, pool="n2"), {"n3"}, id="a pool"),
        pytest.param(
            DeviceTaintRule("r", taint=SICK, driver="gpus", pool="n3", device="g0"),
            {"n2"},
            id="a device",
        ),
        pytest.param(DeviceTaintRule("r", taint=SICK, device="g1"), {"n2", "n3"}, id="another"),
        pytest.param(
            DeviceTaintRule("r", taint=Taint("sick", "NoExecute")), set(), id="a taint that evicts"
        ),
        pytest.param(
            DeviceTaintRule("r", taint=Taint("sick", "None")), {"n2", "n3"}, id="a taint that tells"
        ),
    ],
)
def test_a_device_that_a_rule_taints_is_taken_by_what_tolerates_it_alone(
    rule: DeviceTaintRule, expected: set[str]
) -> None:
    things = gpus("n1"), gpus("n2"), gpus("n3"), rule
    tolerant = replace(ONE, tolerations=(Toleration(key="sick", operator="Exists"),))
    claim = asks(tolerant, allocation=held("n1"), users=(MOVER.uid,), pod=MOVER.uid)

    assert fitting(OWN, *things) == expected
    assert fitting(claim, *things) == {"n2", "n3"}


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        pytest.param([OWN, gpus("n1"), gpus("n2")], {"n2"}, id="a free device"),
        pytest.param([OWN, gpus("n1")], set(), id="none"),
        pytest.param(
            [OWN, gpus("n2"), asks(ONE, name="x", allocation=held("n2"), users=("y",))],
            set(),
            id="one of another claim",
        ),
        pytest.param(
            [OWN, gpus("n2"), asks(ONE, name="x", allocation=held("n2", "g1"), users=("y",))],
            {"n2"},
            id="another one than that of another claim",
        ),
        pytest.param(
            [asks(ONE, allocation=held("n2"), users=(MOVER.uid,)), gpus("n2"), gpus("n3")],
            {"n2", "n3"},
            id="a claim of its own that the last user's end deallocates",
        ),
        pytest.param(
            [asks(ONE, allocation=held("any"), users=(MOVER.uid,)), gpus("any")],
            set(),
            id="no node has it",
        ),
        pytest.param(
            [
                replace(OWN, allocation=held("net", node_selector=None)),
                gpus("net", scope=NodeScope(all_nodes=True)),
            ],
            {"n2", "n3"},
            id="the device that the pod itself has, from any node",
        ),
        pytest.param(
            [OWN, gpus("net", scope=NodeScope(selector=NodeSelector((term("disk=ssd"),))))],
            {"n2"},
            id="a device of some nodes",
        ),
        pytest.param(
            [OWN, gpus("each", Device("g0", scope=NodeScope("n3")), scope=None)],
            {"n3"},
            id="a device with a node of its own",
        ),
        pytest.param([OWN, gpus("n2", slices_of_pool=2)], set(), id="an incomplete pool"),
        pytest.param(
            [
                OWN,
                gpus("n2", slices_of_pool=2),
                replace(gpus("n2"), name="next", generation=2, scope=NodeScope("n3")),
            ],
            {"n3"},
            id="a pool that moved to another node",
        ),
        pytest.param(
            [OWN, gpus("n2", Device("g0", takes_counters=True))],
            set(),
            id="a part of a device, which is not known to be free",
        ),
        pytest.param(
            [
                asks(replace(ONE, tolerations=(Toleration("sick", "Exists"),)), pod=MOVER.uid),
                gpus("n2", Device("g0", taints=(Taint("sick", "NoSchedule"),))),
            ],
            {"n2"},
            id="a taint that is tolerated",
        ),
        pytest.param(
            [OWN, gpus("n2", Device("g0", taints=(Taint("sick", "NoExecute"),)))],
            set(),
            id="a taint that is not",
        ),
        pytest.param(
            [OWN, gpus("n2", Device("g0", taints=(Taint("sick", "None"),)))],
            {"n2"},
            id="a taint that says nothing",
        ),
    ],
)
def test_devices_are_free_on_nodes(things: list[ClusterObject], expected: set[str]) -> None:
    assert fitting(*things) == expected


def shared(*users: str) -> ResourceClaim:
    return asks(ONE, allocation=held("n2"), users=users)


def test_a_claim_that_other_pods_use_stays_where_it_is() -> None:
    alone = fitting(shared(MOVER.uid), gpus("n2"), gpus("n3"))
    with_another = fitting(shared(MOVER.uid, "other"), gpus("n2"), gpus("n3"))

    assert (alone, with_another) == ({"n2", "n3"}, {"n2"})


def test_a_claim_that_stays_has_to_have_the_conditions_that_it_is_bound_by() -> None:
    awaited = asks(ONE, allocation=held("n2", is_awaited=True), users=(MOVER.uid, "other"))
    here = Place(*NODES, GPU, gpus("n2"), MOVER, awaited)

    assert list(here.why_not(MOVER)) == [CLAIM_AWAITED.about("own").message]
    assert fitting(replace(awaited, users=(MOVER.uid,)), gpus("n2"), gpus("n3")) == {"n2", "n3"}


def test_a_claim_with_as_many_users_as_can_be_takes_no_more() -> None:
    others = tuple(map(str, range(256)))
    claim = asks(ONE, allocation=held("n2", node_selector=None), users=others)

    assert fitting(claim) == set()
    assert fitting(replace(claim, users=others[1:])) == {"n2", "n3"}


@pytest.mark.parametrize(
    "things",
    [
        pytest.param([], id="none"),
        pytest.param([replace(OWN, is_terminating=True, pod="")], id="one that is deleted"),
    ],
)
def test_a_claim_that_is_not_there_keeps_the_pod_from_every_node(
    things: list[ClusterObject],
) -> None:
    here = Place(*NODES, GPU, gpus("n2"), MOVER, *things)

    assert list(here.why_not(MOVER)) == [CLAIM_NOT_FOUND.about("own").message]


def test_claims_of_templates_are_found_by_the_status_of_the_pod() -> None:
    templated = with_spec(MOVER, resource_claims=(("gpu", ""),))
    things = (OWN, gpus("n2"))

    assert fitting(*things, mover=templated) == set()
    assert fitting(*things, mover=replace(templated, made_claims=(("gpu", "own"),))) == {"n2"}
    assert fitting(*things, mover=replace(templated, made_claims=(("gpu", ""),))) == {"n2", "n3"}


MIXED = gpus(
    "n2",
    Device("g0", {"numa": 0, "model": "a"}),
    Device("g1", {"numa": 1, "model": "b"}),
    Device("g2", {"numa": 1, "model": "b"}),
)


def alike(attribute: str, **more: Any) -> dict[str, Any]:  # fields of a constraint
    return {"constraints": (DeviceConstraint(match_attribute=attribute, **more),)}


@pytest.mark.parametrize(
    ("claim", "fits"),
    [
        pytest.param(asks(replace(ONE, count=3)), True, id="as many as there are"),
        pytest.param(asks(replace(ONE, count=4)), False, id="more than there are"),
        pytest.param(asks(replace(ONE, mode=ALL_DEVICES)), True, id="all"),
        pytest.param(asks(ONE, replace(ONE, mode=ALL_DEVICES)), False, id="one, and all"),
        pytest.param(asks(replace(ONE, count=2), **alike("gpus/numa")), True, id="two alike"),
        pytest.param(asks(replace(ONE, count=3), **alike("gpus/numa")), False, id="three alike"),
        pytest.param(asks(ONE, **alike("gpus/other")), False, id="by what they lack"),
        pytest.param(asks(ONE, **alike("nics/numa")), False, id="by another driver's attribute"),
        pytest.param(
            asks(replace(ONE, count=2), ONE, **alike("gpus/numa", requests=("r0",))),
            True,
            id="two alike and any other, which takes a second try",
        ),
        pytest.param(
            asks(
                replace(ONE, count=2),
                constraints=(DeviceConstraint(distinct_attribute="gpus/model"),),
            ),
            True,
            id="two that differ",
        ),
        pytest.param(
            asks(
                replace(ONE, count=3),
                constraints=(DeviceConstraint(distinct_attribute="gpus/model"),),
            ),
            False,
            id="three that differ",
        ),
        pytest.param(
            asks(replace(ONE, selectors=('device.attributes["gpus"].model == "a"',))),
            True,
            id="one that suits",
        ),
        pytest.param(
            asks(replace(ONE, count=2, selectors=('device.attributes["gpus"].model == "a"',))),
            False,
            id="two of which one suits",
        ),
        pytest.param(asks(replace(ONE, device_class="none")), False, id="of a class not there"),
        pytest.param(asks(replace(ONE, mode="Some")), False, id="in a way not known"),
        pytest.param(
            asks(ONE, constraints=(DeviceConstraint(),)), False, id="under a rule unknown"
        ),
        pytest.param(
            asks(replace(ONE, capacity=(("memory", "1Gi"),))), False, id="of a capacity not there"
        ),
        pytest.param(asks(replace(ONE, count=33)), False, id="more than a claim may have"),
    ],
)
def test_requests_and_constraints_are_met_together(claim: ResourceClaim, *, fits: bool) -> None:
    assert (fitting(claim, MIXED) == {"n2"}) is fits


def differ(*requests: DeviceRequest) -> ResourceClaim:
    return asks(*requests, constraints=(DeviceConstraint(distinct_attribute="gpus/model"),))


OF_B = replace(ONE, selectors=('device.attributes["gpus"].model == "b"',))


@pytest.mark.parametrize(
    ("models", "claim", "fits"),
    [
        pytest.param("aba", differ(replace(ONE, count=3)), True, id="each from the one before"),
        pytest.param("aab", differ(replace(ONE, count=3)), False, id="in another order"),
        pytest.param("aba", differ(ONE, ONE, ONE), False, id="those of three requests"),
        pytest.param(
            "aba", differ(replace(ONE, count=2), OF_B), True, id="from none, once one is given back"
        ),
    ],
)
def test_devices_differ_from_the_last_of_each_request_as_in_kubernetes_1_36(
    models: str, claim: ResourceClaim, *, fits: bool
) -> None:
    devices = [Device(f"g{n}", {"model": model}) for n, model in enumerate(models)]

    assert (fitting(claim, gpus("n2", *devices)) == {"n2"}) is fits


AB, A = (Device("g0", {"model": "a"}), Device("g1", {"model": "b"})), Device("g2", {"model": "a"})
IN_TWO = {"slices_of_pool": 2, "pool": PoolName("gpus", "n2")}


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param(
            [
                replace(gpus("n2", A, **IN_TWO), name="s2"),
                replace(gpus("n2", *AB, **IN_TWO), name="s1"),
            ],
            id="slices by name",
        ),
        pytest.param(
            [
                replace(gpus("n2", A, pool=PoolName("gpus", "z")), name="s0"),
                gpus("n2", *AB, pool=PoolName("gpus", "a")),
            ],
            id="pools by name",
        ),
        pytest.param(
            [
                replace(gpus("n2", A, pool=PoolName("gpus", "a")), name="s0", is_tried_last=True),
                gpus("n2", *AB, pool=PoolName("gpus", "z")),
            ],
            id="pools with binding conditions last",
        ),
    ],
)
def test_devices_are_tried_in_the_order_of_the_kube_scheduler(slices: list[ResourceSlice]) -> None:
    """Three that differ fit in the order a, b, a alone."""
    assert fitting(differ(replace(ONE, count=3)), *slices) == {"n2"}


def test_the_first_alternative_that_can_be_had_is_taken() -> None:
    both = DeviceAlternatives("r", (replace(ONE, count=9, name="many"), replace(ONE, name="one")))
    claim = ResourceClaim("default", "own", requests=(both,))

    assert fitting(claim, MIXED) == {"n2"}
    assert fitting(replace(claim, requests=(replace(both, choices=both.choices[:1]),))) == set()


FAST = DeviceRequest("gpu", ('device.attributes["gpus"].kind == "fast"',), name="fast")
SLOW = replace(ONE, name="slow")


def ranked(*choices: DeviceRequest) -> ResourceClaim:
    """Return a claim for the first of these that can be had."""
    return ResourceClaim("default", "own", requests=(DeviceAlternatives("r", choices),))


def taken_first(claim: ResourceClaim, mover: Pod = MOVER) -> list[str]:
    fast, slow = (Device("g0", {"kind": kind}) for kind in ("fast", "slow"))
    devices = (gpus("n2", slow), gpus("n3", fast), gpus("n4", slow))
    fit = Place(*NODES, node("n4"), GPU, mover, claim, *devices).fit
    return list(fit.explain_other_nodes(mover, EVERYTHING)[0])


def test_a_node_with_the_better_alternative_is_taken_first() -> None:
    assert taken_first(ranked(FAST, SLOW)) == ["n3"]
    assert taken_first(ranked(SLOW, FAST)) == ["n2", "n3", "n4"]
    assert taken_first(ranked(SLOW)) == taken_first(asks(ONE)) == ["n2", "n3", "n4"]


@pytest.mark.parametrize(("liked", "expected"), [(88, "n3"), (86, "n2")])
def test_the_second_alternative_is_worth_an_eighth_less_than_the_first(
    liked: int, expected: str
) -> None:
    """It has 87 points of 100; node affinity, which counts as much, has 88 or 86."""
    terms = (
        PreferredTerm(100, term("kubernetes.io/hostname=n2")),
        PreferredTerm(liked, term("kubernetes.io/hostname=n3")),
    )
    mover = with_spec(MOVER, node_affinity=NodeAffinity(preferred=terms))

    assert taken_first(ranked(FAST, SLOW), mover) == [expected]


def test_a_better_alternative_of_a_claim_that_stays_beside_others_is_not_known() -> None:
    stays = replace(ranked(FAST, SLOW), name="stays", users=("other",), allocation=held("n1"))
    both = user(claims=("own", "stays"))
    fit = Place(*NODES, GPU, both, ranked(FAST, SLOW), stays, gpus("n2")).fit

    assert fit.unknown_scores(both) != ""
    assert Place(*NODES, GPU, both, asks(ONE), stays).fit.unknown_scores(both) == ""


def test_who_looks_after_devices_may_have_those_of_others() -> None:
    taken = asks(ONE, name="x", allocation=held("n2"), users=("y",))
    admin = replace(ONE, is_admin=True)

    assert fitting(asks(admin), gpus("n2"), taken) == {"n2"}
    assert fitting(asks(replace(admin, count=2)), gpus("n2"), taken) == set()


@pytest.mark.parametrize(
    "expression",
    ['device.attributes["gpus"].nothing == 1', "device.nothing(", "", '"text"', "unknown(device)"],
)
def test_an_expression_that_fails_keeps_the_pod_from_every_node(expression: str) -> None:
    claim = asks(replace(ONE, selectors=(expression,)))
    here = Place(*NODES, GPU, MOVER, claim, gpus("n2"), gpus("n3"))

    (why,) = here.why_not(MOVER)
    assert why.startswith(CLAIM_NOT_JUDGED.about("CEL expression").message)


def test_without_the_library_no_expression_can_be_judged() -> None:
    with pytest.raises(DeviceError) as caught:
        DeviceSelectors(lambda: None).matches("true", "gpus", Device("g0"))

    assert "reactive-desched[devices]" in str(caught.value)
    assert fitting(replace(GPU, selectors=()), OWN, gpus("n2")) == {"n2"}


def test_a_search_ends_after_so_many_steps() -> None:
    same = tuple(Device(f"g{n:02}", {"numa": n}) for n in range(24))
    near = asks(replace(ONE, count=12), **alike("gpus/numa"))
    hard = asks(*[replace(ONE, count=6)] * 5)

    assert fitting(near, gpus("n2", *same)) == set()
    assert fitting(hard, gpus("n2", *same)) == set()


def test_a_device_is_promised_to_one_pod_until_its_replacement_is_there() -> None:
    second = user("second", claims=("theirs",))
    theirs = asks(ONE, name="theirs", pod=second.uid)
    here = Place(*NODES, GPU, gpus("n2"), OWN, theirs, MOVER, second)

    assert here.let_go(MOVER) == "n2"
    assert here.let_go(second) is None
    here.end(MOVER, "refused")
    assert here.let_go(second) == "n2"


def test_a_device_of_the_network_is_promised_once_whatever_the_node() -> None:
    second = user("second", claims=("theirs",))
    theirs = asks(ONE, name="theirs", pod=second.uid)
    net = gpus("net", scope=NodeScope(all_nodes=True))
    here = Place(*NODES, GPU, net, replace(OWN, allocation=None), theirs, MOVER, second)

    assert here.let_go(MOVER) is not None
    assert here.let_go(second) is None


def test_a_pod_without_devices_waits_for_them() -> None:
    here = Place(*NODES, GPU, OWN, MOVER)

    assert WakeOnDevices() in here.park(MOVER)
    assert (
        WakeOnDevices()
        not in Place(*NODES, pod("x", on="n1"))
        .fit.diagnose_other_nodes(pod("x", on="n1"), EVERYTHING)
        .wake_on
    )


def test_a_label_by_which_a_node_gets_devices_wakes_the_pod() -> None:
    near = NodeScope(selector=NodeSelector((term("disk=fast"),)))
    here = Place(*NODES, GPU, OWN, MOVER, gpus("net", scope=near))
    here.park(MOVER)

    here.put(node("n3", labels={"disk": "fast"}))

    assert [hint.wake for hint in here.all_hints()] != []
    assert here.fitting(MOVER) == {"n3"}


def test_a_device_that_is_no_longer_promised_wakes_the_pod() -> None:
    second = user("second", claims=("theirs",))
    theirs = asks(ONE, name="theirs", pod=second.uid)
    here = Place(*NODES, GPU, gpus("n2"), OWN, theirs, MOVER, second)
    assert here.let_go(MOVER) == "n2"
    here.park(second)

    here.end(MOVER, "refused")

    assert [hint.wake for hint in here.all_hints()] != []


def test_a_label_by_which_a_node_has_the_devices_of_a_shared_claim_wakes_the_pod() -> None:
    near = NodeSelector((term("disk=fast"),))
    claim = asks(ONE, allocation=held("net", node_selector=near), users=(MOVER.uid, "other"))
    here = Place(*NODES, GPU, claim, MOVER)
    here.park(MOVER)

    here.put(node("n3", labels={"disk": "fast"}))

    assert [hint.wake for hint in here.all_hints()] != []
    assert here.fitting(MOVER) == {"n3"}


SIZES = {
    size: DeviceRequest("gpu", (f"device.attributes['gpus'].size == {size}",)) for size in (80, 40)
}


def claims(*sizes: int) -> ResourceClaim:
    return asks(
        *(SIZES[size] for size in sizes), allocation=held("n1"), users=("mover",), pod="mover"
    )


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param((80,), {"n2"}, id="the whole, where nothing of it is taken"),
        pytest.param((40,), {"n2", "n3"}, id="a half"),
        pytest.param((40, 40), {"n2"}, id="two halves"),
        pytest.param((80, 40), set(), id="more than there is"),
    ],
)
def test_parts_of_a_device_take_its_counters(sizes: tuple[int, ...], expected: set[str]) -> None:
    slices = [*in_parts("n2", "80Gi"), *in_parts("n3", "80Gi")]
    other = asks(SIZES[40], name="other", allocation=held("n3", "half0"), users=("o",))

    assert fitting(claims(*sizes), other, *slices) == expected


def test_parts_that_are_given_up_are_free_again_and_those_of_other_nodes_count() -> None:
    mine = asks(SIZES[80], allocation=held("n2", "whole"), users=(MOVER.uid,), pod=MOVER.uid)
    other = asks(SIZES[40], name="other", allocation=held("n2", "half0"), users=("o",))

    assert fitting(replace(mine), *in_parts("n2", "80Gi")) == {"n2"}
    assert fitting(replace(mine), other, *in_parts("n2", "80Gi")) == set()
    far = gpus("far", part("far", 40), pool=PoolName("gpus", "n2"), scope=NodeScope("n9"))
    far = replace(far, slices_of_pool=3)
    near = [replace(each, slices_of_pool=3) for each in in_parts("n2", "80Gi")]
    taken = asks(SIZES[40], name="far", allocation=held("n2", "far"), users=("o",))
    assert fitting(replace(mine), far, *near) == {"n2"}
    assert fitting(replace(mine), far, taken, *near) == set()


def test_a_pool_with_parts_of_counters_that_it_lacks_gives_none() -> None:
    half = asks(SIZES[40], allocation=held("n1"), users=(MOVER.uid,), pod=MOVER.uid)
    [devices, counters] = in_parts("n2", "80Gi")

    assert fitting(half, devices, counters) == {"n2"}
    assert fitting(half, replace(devices, slices_of_pool=1)) == set(), "no counters at all"
    twice = replace(counters, counters=(*counters.counters, *counters.counters))
    assert fitting(half, devices, twice) == set(), "a set that is there twice"


MEMORY = {"memory": "40Gi"}


def shared_device(name: str = "g0", **more: Any) -> Device:  # any field of a device
    return Device(name, **{"capacity": MEMORY, "is_shared": True, **more})


def of_memory(quantity: str) -> DeviceRequest:
    return replace(ONE, capacity=(("memory", quantity),))


def share_of(where: str, quantity: str, name: str = "g0") -> DeviceAllocation:
    amounts = ((("memory", quantity),),) if quantity else ()
    shares = (DeviceId("gpus", where, name),)
    return replace(held(where), devices=(), shares=shares, amounts=amounts)


def own(*requests: DeviceRequest, **more: Any) -> ResourceClaim:  # any field of a claim
    return asks(*requests, users=(MOVER.uid,), pod=MOVER.uid, **more)


@pytest.mark.parametrize(
    ("claim", "fits"),
    [
        pytest.param(own(of_memory("10Gi")), True, id="as much as is left"),
        pytest.param(own(of_memory("11Gi")), False, id="more than is left"),
        pytest.param(own(ONE), False, id="all of it, where no amount is asked for"),
        pytest.param(own(of_memory("5Gi"), of_memory("5Gi")), True, id="twice of one device"),
        pytest.param(own(of_memory("5Gi"), of_memory("6Gi")), False, id="together more"),
        pytest.param(own(replace(of_memory("1Gi"), count=2)), False, id="two devices of one"),
        pytest.param(own(replace(of_memory("1Gi"), mode=ALL_DEVICES)), True, id="of all devices"),
        pytest.param(
            own(replace(of_memory("11Gi"), mode=ALL_DEVICES)), False, id="of all that have so much"
        ),
        pytest.param(
            own(of_memory("1Gi"), of_memory("1Gi"), **alike("gpus/model")),
            False,
            id="of what they lack",
        ),
        pytest.param(
            own(
                of_memory("1Gi"),
                of_memory("1Gi"),
                constraints=(DeviceConstraint(distinct_attribute="gpus/nr"),),
            ),
            False,
            id="of two that differ",
        ),
        pytest.param(
            own(replace(ONE, capacity=(("cores", "1"),))), False, id="of a capacity not there"
        ),
        pytest.param(
            own(replace(of_memory("10Gi"), is_admin=True)), True, id="as who looks after them"
        ),
    ],
)
def test_claims_have_shares_of_one_device(claim: ResourceClaim, *, fits: bool) -> None:
    device = shared_device(attributes={"nr": 1})
    other = asks(ONE, name="x", allocation=share_of("n2", "30Gi"), users=("y",))

    assert (fitting(claim, other, gpus("n2", device)) == {"n2"}) is fits


def test_the_share_of_the_pod_that_leaves_is_free_again() -> None:
    claim = own(of_memory("40Gi"), allocation=share_of("net", "30Gi"))
    net = gpus("net", shared_device(), scope=NodeScope(all_nodes=True))
    other = asks(ONE, name="x", allocation=share_of("net", "1Gi"), users=("y",))

    assert fitting(claim, net) == {"n2", "n3"}
    assert fitting(claim, net, other) == set()


def test_a_device_that_a_claim_has_as_a_whole_gives_no_share() -> None:
    whole = asks(ONE, name="x", allocation=held("n2"), users=("y",))

    assert fitting(own(of_memory("1Gi")), whole, gpus("n2", shared_device())) == set()


STEPS = CapacityPolicy(default="4Gi", minimum="2Gi", maximum="12Gi", step="4Gi")
VALUES = CapacityPolicy(default="8Gi", values=("4Gi", "8Gi", "16Gi"))


@pytest.mark.parametrize(
    ("policy", "asked", "taken"),
    [
        pytest.param(STEPS, "", 4, id="the default"),
        pytest.param(STEPS, "1Gi", 2, id="the least"),
        pytest.param(STEPS, "2Gi", 2, id="just the least"),
        pytest.param(STEPS, "3Gi", 6, id="a step more"),
        pytest.param(STEPS, "6Gi", 6, id="just a step"),
        pytest.param(STEPS, "10Gi", 10, id="the last step"),
        pytest.param(STEPS, "11Gi", None, id="a step above the most"),
        pytest.param(VALUES, "", 8, id="the default of values"),
        pytest.param(VALUES, "1Gi", 4, id="the first value"),
        pytest.param(VALUES, "9Gi", 16, id="the next value"),
        pytest.param(VALUES, "17Gi", None, id="above all values"),
        pytest.param(CapacityPolicy(default="3Gi"), "5Gi", 5, id="any amount"),
        pytest.param(CapacityPolicy(minimum="2Gi"), "3Gi", 3, id="any amount above the least"),
        pytest.param(
            CapacityPolicy(minimum="2Gi", maximum="4Gi"), "5Gi", None, id="above the most"
        ),
    ],
)
def test_a_policy_says_how_much_a_share_takes(
    policy: CapacityPolicy, asked: str, taken: int | None
) -> None:
    claim = own(of_memory(asked) if asked else ONE)
    slices = [gpus("n2", shared_device(policies={"memory": policy}))]
    enough, too_much = (
        asks(ONE, name="x", allocation=share_of("n2", f"{left}Gi"), users=("y",))
        for left in (40 - (taken or 0), 41 - (taken or 0))
    )

    assert fitting(claim, enough, *slices) == (set() if taken is None else {"n2"})
    assert fitting(claim, too_much, *slices) == set()


def test_a_device_of_which_shares_are_taken_has_its_counters_already() -> None:
    half = shared_device(
        "half0", takes_counters=True, consumes=(("all", "mem", "40Gi"),), capacity=MEMORY
    )
    counters = in_parts("n2", "60Gi")[1]
    pool = [gpus("n2", half, part("other", 40), slices_of_pool=2), counters]
    sharing = asks(ONE, name="x", allocation=share_of("n2", "1Gi", "half0"), users=("y",))
    other = asks(ONE, name="z", allocation=held("n2", "other"), users=("o",))

    assert fitting(own(of_memory("1Gi"), of_memory("1Gi")), *pool) == {"n2"}
    assert fitting(own(of_memory("1Gi")), sharing, *pool) == {"n2"}
    assert fitting(own(ONE), sharing, *pool) == set(), "no counters for the other one"
    assert fitting(own(of_memory("1Gi")), other, *pool) == set()


def test_a_share_is_promised_until_the_replacement_is_there() -> None:
    second = user("second", claims=("theirs",))
    theirs = asks(of_memory("30Gi"), name="theirs", pod=second.uid)
    mine = own(of_memory("30Gi"))
    here = Place(*NODES, GPU, gpus("n2", shared_device()), mine, theirs, MOVER, second)
    both = replace(theirs, requests=asks(of_memory("10Gi")).requests)

    assert here.let_go(MOVER) == "n2"
    assert here.let_go(second) is None
    here.put(both)
    assert here.let_go(second) == "n2"


GPUS = "example.com/gpu"
EXTENDED = replace(GPU, extended_resource=GPUS)


def requesting(number: int = 1, resource: str = GPUS) -> Pod:
    return pod("mover", on="n1", requests={resource: str(number)})


def having(name: str, number: int) -> Node:
    return node(name, allocatable={"cpu": "8", "memory": "8Gi", "pods": "9", GPUS: str(number)})


MADE = replace(asks(ONE, name="made", allocation=held("n2")), users=("mover",), pod="mover")
"""The claim that the kube-scheduler made for a pod with such a request."""


@pytest.mark.parametrize(
    ("mover", "things", "expected"),
    [
        pytest.param(requesting(), [EXTENDED, gpus("n2")], {"n2"}, id="a device of the class"),
        pytest.param(requesting(), [GPU, gpus("n2")], set(), id="a class of no resource"),
        pytest.param(
            requesting(resource="deviceclass.resource.kubernetes.io/gpu"),
            [GPU, gpus("n2")],
            {"n2"},
            id="a class by its name",
        ),
        pytest.param(
            requesting(2), [EXTENDED, gpus("n2")], set(), id="more devices than there are"
        ),
        pytest.param(
            requesting(),
            [EXTENDED, gpus("n2"), replace(MADE, pod="other", users=("other",))],
            set(),
            id="a device that another pod has",
        ),
        pytest.param(
            requesting(),
            [EXTENDED, gpus("n2"), MADE],
            {"n2"},
            id="the device that the pod itself has",
        ),
        pytest.param(
            requesting(),
            [EXTENDED, gpus("n2"), having("n3", 1)],
            {"n2", "n3"},
            id="a node that has the resource itself",
        ),
        pytest.param(
            requesting(2),
            [EXTENDED, gpus("n3"), having("n3", 1)],
            set(),
            id="a node that has the resource itself, but too little of it",
        ),
        pytest.param(
            requesting(),
            [EXTENDED, gpus("n3"), having("n3", 0)],
            {"n3"},
            id="a node that has none of it",
        ),
        pytest.param(
            requesting(),
            [
                replace(EXTENDED, created_s=1),
                replace(EXTENDED, name="newer", selectors=("false",), created_s=2),
                gpus("n2"),
            ],
            set(),
            id="the younger of two classes",
        ),
        pytest.param(
            requesting(),
            [EXTENDED, replace(EXTENDED, name="zzz", selectors=("false",)), gpus("n2")],
            {"n2"},
            id="of two as old the first by name",
        ),
    ],
)
def test_an_extended_resource_is_had_by_devices_of_its_class(
    mover: Pod, things: list[ClusterObject], expected: set[str]
) -> None:
    assert fitting(*things, mover=mover) == expected


@pytest.mark.parametrize(
    ("by_container", "fits"),
    [
        pytest.param(((GPUS, 2),), False, id="two of one container"),
        pytest.param(((GPUS, 1), (GPUS, 1)), True, id="one of each of two"),
        pytest.param(((GPUS, 1), (GPUS, 1), (GPUS, 1)), False, id="more than the device has"),
    ],
)
def test_containers_have_shares_of_one_device_each(
    by_container: tuple[tuple[str, int], ...], *, fits: bool
) -> None:
    total = sum(number for _, number in by_container)
    mover = with_spec(requesting(total), device_requests=by_container)
    device = shared_device(policies={"memory": CapacityPolicy(default="20Gi")})

    assert (fitting(EXTENDED, gpus("n2", device), mover=mover) == {"n2"}) is fits


@pytest.mark.parametrize(("number", "found"), [(32, "n3"), (33, None)])
def test_more_devices_than_a_claim_can_have_keep_the_pod_from_every_node(
    number: int, found: str | None
) -> None:
    """The kube-scheduler's attempt ends at a node without the resource, though another has it."""
    mover = requesting(number)
    here = Place(*NODES, EXTENDED, gpus("n2"), having("n3", 64), mover)

    assert here.let_go(mover) == found


def test_claims_and_extended_resources_are_had_together() -> None:
    both = with_spec(requesting(), resource_claims=(("own", "own"),), has_resource_claims=True)
    two = gpus("n3", Device("g0"), Device("g1"))

    assert fitting(EXTENDED, OWN, gpus("n2"), two, mover=both) == {"n3"}
    itself = having("n2", 1)
    assert fitting(EXTENDED, OWN, gpus("n2"), two, itself, mover=both) == {"n3"}, "1.36 has a fault"
    assert fitting(EXTENDED, itself, mover=requesting()) == {"n2"}


def test_a_class_that_gives_an_extended_resource_wakes_the_pod() -> None:
    mover = requesting()
    here = Place(*NODES, GPU, gpus("n2"), mover)
    assert WakeOnDevices() in here.park(mover)

    here.put(EXTENDED)

    assert here.fitting(mover) == {"n2"}


def test_a_device_for_an_extended_resource_is_promised_once() -> None:
    mover, second = requesting(), replace(requesting(), name="second", uid="second")
    here = Place(*NODES, EXTENDED, gpus("n2"), mover, second)

    assert here.let_go(mover) == "n2"
    assert here.let_go(second) is None


BEING_BOUND = PodStatus("Pending", nominated_node="n2")


@pytest.mark.parametrize("is_extended", [False, True], ids=["claimed", "extended"])
def test_a_pod_that_is_bound_after_its_devices_are_ready_has_them_already(
    *, is_extended: bool
) -> None:
    """The kube-scheduler 1.36 nominates it meanwhile; one that is to get devices needs more."""
    first = pod("first", requests={GPUS: "1"}) if is_extended else user("first", "", ("firsts",))
    first = replace(first, status=BEING_BOUND)
    its = asks(ONE, name="firsts", allocation=held("n2"), users=(first.uid,), pod=first.uid)
    two, free = gpus("n2", Device("g0"), Device("g1")), asks(ONE)

    assert fitting(EXTENDED, two, its, first, free) == {"n2"}
    if not is_extended:
        without = replace(its, allocation=None, users=())
        assert fitting(EXTENDED, gpus("n2"), without, first, free) == set()
