import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from pydantic import ValidationError

from reactive_desched.model.objects import ClusterObject, Node, OwnerReference, Pod
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.plugins.node_conditions import NodeConditionsArgs, NodeConditionsPlugin
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario
from tests.support.golden import Golden

DEADLOCK = {"type": "KernelDeadlock", "for": "5m", "lapse": "1m"}


def plugin(*conditions: dict[str, str], **args: object) -> NodeConditionsPlugin:
    given = {"conditions": list(conditions or (DEADLOCK,)), **args}
    return NodeConditionsPlugin(NodeConditionsArgs.model_validate(given, strict=False))


def reported(
    name: str, status: str = "True", *taints: str, cordoned: bool = True, changed_s: int | None = 0
) -> Node:
    return structs.replace(
        node(name, *taints, unschedulable=cordoned),
        conditions=(("KernelDeadlock", status), ("MemoryPressure", "False")),
        conditions_changed_s=(changed_s, 0),
    )


def of_daemon_set(name: str, on: str) -> Pod:
    owner = OwnerReference("DaemonSet", "agent", "uid-agent", controller=True)
    return structs.replace(pod(name, on=on), owners=(owner,))


def test_a_condition_is_a_reason_once_it_has_stood() -> None:
    cluster = Scenario(plugin(), reported("n1", "False"), pod("web", on="n1"))
    assert cluster.subjects_evaluated(reported("n1", "True")) == {NodeSubject("n1")}

    cluster.wait(299)
    assert cluster.flagged() == set()
    cluster.wait(1)

    assert cluster.flagged() == {"web"}


def test_at_first_sight_the_time_of_the_last_transition_counts() -> None:
    stood = Scenario(plugin(), reported("n1", changed_s=700), pod("web", on="n1"), now_s=1000)
    new = Scenario(plugin(), reported("n1", changed_s=701), pod("web", on="n1"), now_s=1000)

    assert (stood.flagged(), new.flagged()) == ({"web"}, set())
    assert (stood.evicted_by_sweep(), new.evicted_by_sweep()) == (["web"], [])


@pytest.mark.parametrize(
    ("lapse_s", "found"),
    [pytest.param(60, {"web"}, id="short"), pytest.param(61, set(), id="long")],
)
def test_only_a_long_lapse_begins_anew(lapse_s: float, found: set[str]) -> None:
    cluster = Scenario(plugin(), reported("n1"), pod("web", on="n1"))
    cluster.wait(200)
    cluster.apply(reported("n1", "False", changed_s=200))
    cluster.wait(lapse_s)
    cluster.apply(reported("n1", changed_s=200 + int(lapse_s)))
    cluster.wait(300 - 200 - lapse_s)

    assert cluster.flagged() == found


def test_a_condition_that_ends_clears_its_findings() -> None:
    cluster = Scenario(plugin(), reported("n1"), pod("web", on="n1"))
    cluster.wait(300)
    assert cluster.flagged() == {"web"}

    cluster.apply(reported("n1", "False"))

    assert cluster.flagged() == set()


def test_another_time_of_the_last_transition_alone_does_not_begin_anew() -> None:
    cluster = Scenario(plugin(), reported("n1"), pod("web", on="n1"))
    cluster.wait(299)
    cluster.apply(reported("n1", changed_s=250))
    assert cluster.flagged() == set()

    cluster.wait(1)

    assert cluster.flagged() == {"web"}


@pytest.mark.parametrize(
    ("on", "found"),
    [
        pytest.param(reported("n1", cordoned=False), set(), id="open"),
        pytest.param(
            reported("n1", "True", "sick:PreferNoSchedule", cordoned=False), set(), id="preferred"
        ),
        pytest.param(
            reported("n1", "True", "sick:NoSchedule", cordoned=False), {"web"}, id="taint"
        ),
        pytest.param(reported("n1"), {"web"}, id="cordoned"),
    ],
)
def test_a_pod_is_found_only_where_it_would_not_be_put_back(on: Node, found: set[str]) -> None:
    tolerant = pod("tolerant", on="n1", tolerates=("sick",))
    cluster = Scenario(plugin(), on, pod("web", on="n1"), of_daemon_set("agent", "n1"), tolerant)
    cluster.wait(300)

    assert cluster.flagged() - {"tolerant"} == found
    assert ("tolerant" in cluster.flagged()) == on.unschedulable


def test_why_names_what_closes_the_node(golden: Golden) -> None:
    web = pod("web", on="n1")
    cluster = Scenario(plugin(), reported("n1", cordoned=False), web)
    cluster.wait(300)

    assert plugin().describe(web, cluster.view) == golden()


@pytest.mark.parametrize(
    "conditions",
    [
        pytest.param([], id="none"),
        pytest.param([{"type": "Ready", "status": "False"}], id="Ready"),
        pytest.param([{"type": "KernelDeadlock", "status": "Maybe"}], id="no status"),
    ],
)
def test_arguments_without_meaning_are_refused(conditions: list[dict[str, str]]) -> None:
    with pytest.raises(ValidationError):
        NodeConditionsArgs.model_validate({"conditions": conditions}, strict=False)


names = st.sampled_from(["n1", "n2"])
nodes = st.builds(
    reported,
    names,
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(["sick:NoSchedule", "sick:PreferNoSchedule"]),
    cordoned=st.booleans(),
)
pods = st.builds(
    lambda name, on, tolerates: pod(name, on=on, tolerates=tolerates),
    st.sampled_from(["p1", "p2", "p3"]),
    names,
    st.sampled_from([(), ("sick",)]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), nodes | pods),
        st.tuples(st.just("wait"), st.sampled_from([30, 61, 150, 300])),
        st.tuples(st.just("remove"), st.builds(pod, st.sampled_from(["p1", "p2"]))),
    ),
    max_size=12,
)


@given(steps)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[tuple[str, ClusterObject | int]],
) -> None:
    cluster = Scenario(plugin(), reported("n1"), reported("n2", "False"))
    for step, thing in steps:
        getattr(cluster, step)(thing)

        assert cluster.flagged() == cluster.flagged_by_full_scan()
