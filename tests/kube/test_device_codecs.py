"""Claims, slices and classes of devices, as the API server tells them."""

import json
from typing import Any

import pytest

from reactive_desched.errors import Malformed
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.devices import (
    Attribute,
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
    claim_names,
)
from reactive_desched.model.objects import Pod
from reactive_desched.model.taints import Taint, Toleration
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import PODS, WATCHED_KINDS

METADATA = {"name": "x", "uid": "u1", "resourceVersion": "7", "namespace": "shop"}
NEW_YEAR_S = 1_767_225_600
ALWAYS = {"cel": {"expression": "true"}}


def read(resource: str, **members: Any) -> Any:  # an object of any kind, of any JSON
    codec = ResourceCodec(WATCHED_KINDS[resource], InternTables())
    return codec.decode_object(json.dumps({"metadata": METADATA} | members).encode())


def test_a_class_has_its_expressions() -> None:
    unknown = {"rego": "allow"}

    assert read("deviceclasses", spec={"selectors": [ALWAYS, unknown]}) == DeviceClass(
        "x", "u1", 7, ("true", "")
    )


def test_a_rule_has_a_taint_and_the_devices_that_it_names() -> None:
    taint = {
        "key": "sick",
        "value": "yes",
        "effect": "NoSchedule",
        "timeAdded": "2026-01-01T00:00:00Z",
    }
    some = {"deviceSelector": {"driver": "d", "device": "g0"}, "taint": taint}

    read_taint = Taint("sick", "NoSchedule", "yes")
    assert read("devicetaintrules", spec=some) == DeviceTaintRule(
        "x", "u1", 7, read_taint, driver="d", device="g0", since_s=NEW_YEAR_S
    )
    everywhere = DeviceTaintRule("x", "u1", 7, read_taint, since_s=NEW_YEAR_S)
    assert read("devicetaintrules", spec={"taint": taint}) == everywhere
    assert read("devicetaintrules", spec={"taint": taint, "deviceSelector": {}}) == everywhere


def test_a_claim_says_what_it_asks_for_and_has() -> None:
    exactly = {
        "deviceClassName": "gpu",
        "selectors": [ALWAYS],
        "allocationMode": "ExactCount",
        "count": 2,
        "tolerations": [{"key": "sick", "operator": "Exists"}],
    }
    either = [
        {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"},
        {"name": "part", "deviceClassName": "gpu", "capacity": {"requests": {"memory": "1Gi"}}},
    ]
    device = {"driver": "d", "pool": "p"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "pod-a", "controller": True}
    found = read(
        "resourceclaims",
        metadata=METADATA | {"ownerReferences": [owner]},
        spec={
            "devices": {
                "requests": [
                    {"name": "a", "exactly": exactly},
                    {"name": "b", "firstAvailable": either},
                    {"name": "c", "exactly": {"deviceClassName": "gpu", "adminAccess": True}},
                ],
                "constraints": [
                    {"requests": ["a"], "matchAttribute": "d/numa"},
                    {"distinctAttribute": "d/model"},
                ],
            }
        },
        status={
            "allocation": {
                "devices": {
                    "results": [
                        device | {"device": "g0"},
                        device | {"device": "g1", "adminAccess": True},
                        device
                        | {"device": "g2", "shareID": "s", "consumedCapacity": {"memory": "1Gi"}},
                    ]
                }
            },
            "reservedFor": [{"resource": "pods", "name": "a", "uid": "pod-a"}],
        },
    )

    tolerant = (Toleration("sick", "Exists"),)
    assert found == ResourceClaim(
        "shop",
        "x",
        "u1",
        7,
        (
            DeviceAlternatives(
                "a", (DeviceRequest("gpu", ("true",), count=2, tolerations=tolerant),)
            ),
            DeviceAlternatives(
                "b",
                (
                    DeviceRequest("gpu", mode="All", name="all"),
                    DeviceRequest("gpu", name="part", capacity=(("memory", "1Gi"),)),
                ),
            ),
            DeviceAlternatives("c", (DeviceRequest("gpu", is_admin=True),)),
        ),
        (DeviceConstraint(("a",), "d/numa"), DeviceConstraint((), "", "d/model")),
        DeviceAllocation(
            (DeviceId("d", "p", "g0"),),
            shares=(DeviceId("d", "p", "g2"),),
            amounts=((("memory", "1Gi"),),),
        ),
        ("pod-a",),
        "pod-a",
    )
    assert not found.is_terminating


@pytest.mark.parametrize(
    ("conditions", "is_awaited"),
    [
        ({"Attached": "True", "Ready": "True"}, False),
        ({"Attached": "True", "Ready": "True", "Broken": "False"}, False),
        ({"Attached": "True", "Ready": "Unknown"}, True),
        ({"Attached": "True"}, True),
        ({"Attached": "True", "Ready": "True", "Broken": "True"}, True),
        (None, True),
    ],
)
def test_a_claim_is_awaited_until_its_devices_have_their_binding_conditions(
    conditions: dict[str, str] | None, *, is_awaited: bool
) -> None:
    device = {"driver": "d", "pool": "p", "device": "g0"}
    other = {**device, "device": "g1", "conditions": [{"type": "Broken", "status": "True"}]}
    allocated = {
        **device,
        "bindingConditions": ["Attached", "Ready"],
        "bindingFailureConditions": ["Broken"],
    }
    reported = [
        {**device, "conditions": [{"type": t, "status": s} for t, s in conditions.items()]}
        for conditions in ([] if conditions is None else [conditions])
    ]
    found = read(
        "resourceclaims",
        status={
            "allocation": {"devices": {"results": [allocated, {**device, "device": "g2"}]}},
            "devices": [other, *reported],
        },
    )

    assert found.allocation.is_awaited is is_awaited


def test_a_claim_that_is_deleted_says_so() -> None:
    leaving = METADATA | {"deletionTimestamp": "1970-01-01T00:00:09Z"}

    assert read("resourceclaims", metadata=leaving).is_terminating


def test_a_slice_has_its_devices_and_their_nodes() -> None:
    devices = [
        {
            "name": "g0",
            "attributes": {
                "model": {"string": "a"},
                "other.example.com/numa": {"int": 1},
                "ecc": {"bool": False},
                "fw": {"version": "1.2.3"},
                "list": {"strings": ["a"]},
            },
            "capacity": {"memory": {"value": "40Gi"}},
            "taints": [
                {"key": "sick", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
            ],
        },
        {"name": "g1", "consumesCounters": [{"counterSet": "c", "counters": {}}], "allNodes": True},
        {"name": "g2", "allowMultipleAllocations": True, "nodeName": "n2"},
    ]
    pool = {"name": "p", "generation": 3, "resourceSliceCount": 2}
    spec = {"driver": "d", "pool": pool, "devices": devices}
    attributes: dict[str, Attribute] = {
        "model": "a",
        "other.example.com/numa": 1,
        "ecc": False,
        "fw": ("1.2.3",),
    }
    found = (
        Device(
            "g0",
            attributes,
            {"memory": "40Gi"},
            (Taint("sick", "NoSchedule"),),
            taint_times=(NEW_YEAR_S,),
        ),
        Device("g1", takes_counters=True, scope=NodeScope(all_nodes=True)),
        Device("g2", is_shared=True, scope=NodeScope("n2")),
    )
    expected = ResourceSlice("x", "u1", 7, PoolName("d", "p"), 3, 2, NodeScope("n1"), found)

    assert read("resourceslices", spec=spec | {"nodeName": "n1"}) == expected
    each = read("resourceslices", spec=spec | {"perDeviceNodeSelection": True})
    assert (each.scope, each.devices) == (None, found)
    without = read("resourceslices", spec={"driver": "d", "pool": pool, "allNodes": True})
    assert (without.scope, without.devices) == (NodeScope(all_nodes=True), ())


def test_a_slice_has_the_counters_of_its_pool_and_a_part_those_that_it_takes() -> None:
    amounts = {"memory": {"value": "40Gi"}, "slices": {"value": "3"}}
    parts = [{"name": "g0", "consumesCounters": [{"counterSet": "c", "counters": amounts}]}]
    taken = (("c", "memory", "40Gi"), ("c", "slices", "3"))

    of_pool = read("resourceslices", spec={"sharedCounters": [{"name": "c", "counters": amounts}]})
    [found] = read("resourceslices", spec={"devices": parts, "allNodes": True}).devices

    assert (of_pool.counters, of_pool.devices) == (taken, ())
    assert (found.takes_counters, found.consumes) == (True, taken)
    amounts["slices"] = {"value": "many"}
    with pytest.raises(Malformed):
        read("resourceslices", spec={"devices": parts, "allNodes": True})


def test_a_pod_names_its_claims() -> None:
    claims = [
        {"name": "own", "resourceClaimName": "shared"},
        {"name": "made", "resourceClaimTemplateName": "t"},
        {"name": "unneeded", "resourceClaimTemplateName": "t"},
        {"name": "awaited", "resourceClaimTemplateName": "t"},
    ]
    made = [{"name": "made", "resourceClaimName": "made-x1"}, {"name": "unneeded"}]
    found = read(PODS, spec={"resourceClaims": claims}, status={"resourceClaimStatuses": made})

    assert isinstance(found, Pod)
    assert list(claim_names(found)) == ["shared", "made-x1", ""]
    assert found.has_resource_claims
    others = [claims[0] | {"resourceClaimName": "other"}]
    other = read(PODS, spec={"resourceClaims": others})
    assert list(claim_names(other)) == ["other"]


def test_a_capacity_has_a_policy_of_what_claims_may_take() -> None:
    ranged = {"default": "2Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
    values = {"default": 1, "validValues": [1, "2"]}
    device = {
        "name": "g0",
        "allowMultipleAllocations": True,
        "capacity": {
            "memory": {"value": "40Gi", "requestPolicy": ranged},
            "cores": {"value": 8, "requestPolicy": values},
            "lanes": {"value": "4"},
        },
    }

    [found] = read("resourceslices", spec={"devices": [device], "allNodes": True}).devices

    assert found.capacity == {"memory": "40Gi", "cores": "8", "lanes": "4"}
    assert found.policies == {
        "memory": CapacityPolicy(default="2Gi", minimum="1Gi", maximum="8Gi", step="1Gi"),
        "cores": CapacityPolicy(default="1", values=("1", "2")),
    }


@pytest.mark.parametrize(
    ("resource", "members"),
    [
        pytest.param(
            "resourceslices",
            {"spec": {"devices": [{"name": "g", "capacity": {"memory": {"value": "much"}}}]}},
            id="a capacity",
        ),
        pytest.param(
            "resourceclaims",
            {
                "spec": {
                    "devices": {
                        "requests": [
                            {"name": "r", "exactly": {"capacity": {"requests": {"memory": "?"}}}}
                        ]
                    }
                }
            },
            id="a request",
        ),
    ],
)
def test_a_capacity_that_is_no_quantity_is_malformed(resource: str, members: Any) -> None:
    with pytest.raises(Malformed):
        read(resource, **members)
