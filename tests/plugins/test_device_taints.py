"""RemovePodsViolatingDeviceTaints: pods leave devices that a taint closes, if it lasts."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.devices import (
    Device,
    DeviceAllocation,
    DeviceId,
    DeviceTaintRule,
    NodeScope,
    PoolName,
    ResourceClaim,
    ResourceSlice,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.model.taints import Taint, Toleration, Tolerations
from reactive_desched.plugins.device_taints import DeviceTaintsArgs, DeviceTaintsPlugin
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from tests.support.golden import Golden

SICK = Taint("sick", "NoSchedule", "yes")
NOW_S = 1_000
POOL = PoolName("gpus", "n1")


def leave(**args: Any) -> DeviceTaintsPlugin:
    return plugin_from_policy(DeviceTaintsPlugin, DeviceTaintsArgs, **args)


def gpus(*taints: Taint, since_s: int | None = 0, generation: int = 0) -> ResourceSlice:
    devices = (
        Device("g0", taints=taints, taint_times=(since_s,) * len(taints)),
        Device("g1"),
    )
    scope = NodeScope("n1")
    name = f"s{generation}"
    return ResourceSlice(name, generation=generation, pool=POOL, scope=scope, devices=devices)


def holds(
    name: str = "a", device: str = "g0", tolerations: Tolerations = (), user: str | None = None
) -> ResourceClaim:
    held = DeviceAllocation((DeviceId(*POOL, device),), tolerations=(tolerations,))
    return ResourceClaim("default", name, allocation=held, users=(user or f"default/{name}",))


def uses(name: str = "a", claim: str = "", **more: Any) -> Pod:
    made = pod(name, on="n1", **more)
    claims = (("gpu", claim or name),)
    return replace(
        with_spec(made, resource_claims=claims, has_resource_claims=True), uid=f"default/{name}"
    )


def flagged(*objects: ClusterObject, **args: Any) -> set[str]:
    return Scenario(leave(**args), node("n1"), *objects, now_s=NOW_S).flagged()


def test_the_pod_of_a_tainted_device_leaves_and_no_other() -> None:
    others = uses("b"), holds("b", "g1"), pod("c", on="n1")

    assert flagged(uses(), holds(), gpus(SICK), *others) == {"a"}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param((holds(), gpus()), set(), id="no taint"),
        pytest.param((holds(), gpus(Taint("sick", "NoExecute"))), set(), id="Kubernetes' own"),
        pytest.param((holds(), gpus(Taint("sick", "None"))), set(), id="one that only tells"),
        pytest.param(
            (holds(tolerations=(Toleration(key="sick", operator="Exists"),)), gpus(SICK)),
            set(),
            id="tolerated",
        ),
        pytest.param((ResourceClaim("default", "a"), gpus(SICK)), set(), id="not allocated"),
        pytest.param((holds(), gpus(SICK, since_s=NOW_S - 59)), set(), id="new"),
        pytest.param((holds(), gpus(SICK, since_s=NOW_S - 60)), {"a"}, id="lasting"),
        pytest.param((holds(), gpus(SICK, since_s=None)), {"a"}, id="of unknown age"),
        pytest.param(
            (holds(), gpus(SICK), gpus(generation=1)), set(), id="of a slice that was replaced"
        ),
        pytest.param((holds(), gpus(), DeviceTaintRule("r", taint=SICK)), {"a"}, id="by a rule"),
        pytest.param(
            (holds(), gpus(), DeviceTaintRule("r", taint=SICK, device="g1")),
            set(),
            id="a rule for another",
        ),
        pytest.param(
            (holds(), gpus(), DeviceTaintRule("r", taint=SICK, since_s=NOW_S - 1)),
            set(),
            id="a new rule",
        ),
    ],
)
def test_what_closes_a_device_is_a_lasting_taint_that_is_not_tolerated(
    objects: tuple[ClusterObject, ...], expected: set[str]
) -> None:
    assert flagged(uses(), *objects) == expected


def test_a_taint_counts_once_it_has_stood_for_the_time_given() -> None:
    cluster = Scenario(
        leave(wait="5m"), node("n1"), uses(), holds(), gpus(SICK, since_s=NOW_S), now_s=NOW_S
    )

    assert cluster.flagged() == set()
    cluster.wait(300)
    assert cluster.flagged() == {"a"}


def test_it_names_the_device_the_claim_and_the_taint(golden: Golden) -> None:
    plugin = leave()
    cluster = Scenario(plugin, node("n1"), uses(), holds(), gpus(SICK), now_s=NOW_S)

    [said] = cluster.evaluate(NodeSubject("n1"))

    assert isinstance(said, Finding)
    assert said.message == golden()


def test_why_names_a_taint_that_does_not_count_yet(golden: Golden) -> None:
    plugin = leave()
    cluster = Scenario(plugin, node("n1"), uses(), holds(), gpus(SICK, since_s=NOW_S), now_s=NOW_S)

    assert plugin.describe(uses(), cluster.view) == golden()


taints = st.sampled_from([(), (), (SICK,), (Taint("sick", "NoExecute"),)])
slices = st.builds(
    lambda taints, since_s, generation: gpus(*taints, since_s=since_s, generation=generation),
    taints,
    st.sampled_from([0, NOW_S - 30, None]),
    st.sampled_from([0, 0, 1]),
)
claims = st.builds(
    holds,
    st.sampled_from("ab"),
    st.sampled_from(["g0", "g0", "g1"]),
    st.sampled_from([(), (), (Toleration(key="sick", operator="Exists"),)]),
    st.sampled_from([None, "default/c"]),
)
rules = st.builds(
    lambda device, since_s: DeviceTaintRule("r", taint=SICK, device=device, since_s=since_s),
    st.sampled_from(["", "g0", "g1"]),
    st.sampled_from([None, NOW_S - 30]),
)
pods = st.builds(uses, st.sampled_from("abc"), st.sampled_from("ab"))
steps = st.lists(
    st.tuples(
        st.sampled_from(["apply", "apply", "apply", "remove"]), slices | claims | rules | pods
    )
    | st.tuples(st.just("wait"), st.sampled_from([29, 60])),
    min_size=6,
    max_size=20,
)


@pytest.mark.hypothesis
@given(steps)
def test_it_finds_at_once_what_a_full_pass_finds(drawn: Iterable[tuple[Any, Any]]) -> None:
    cluster = Scenario(leave(), node("n1"), uses("a"), uses("b"), holds("a"), gpus(), now_s=NOW_S)
    for what, of in drawn:
        getattr(cluster, what)(of)
        assert cluster.flagged() == cluster.flagged_by_full_scan()
