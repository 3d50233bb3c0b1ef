import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from pydantic import ValidationError

from reactive_desched.model.objects import Annotations, ClusterObject, Node, OwnerReference, Pod
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.plugins.node_conditions import NodeConditionsArgs, NodeConditionsPlugin
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario
from tests.support.golden import Golden
from tests.support.random_steps import TWICE_AS_MANY, in_one_field

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
    "changed_s", [pytest.param(None, id="no time"), pytest.param(5000, id="a time to come")]
)
def test_without_a_time_that_can_be_it_counts_from_when_the_node_was_seen(
    changed_s: int | None,
) -> None:
    cluster = Scenario(plugin(), reported("n1", changed_s=changed_s), pod("web", on="n1"), now_s=9)
    cluster.wait(299)
    assert cluster.flagged() == set()

    cluster.wait(1)

    assert cluster.flagged() == {"web"}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(reported("n1", "False"), id="False"),
        pytest.param(reported("n1", "Unknown"), id="Unknown"),
        pytest.param(node("n1", unschedulable=True), id="not reported"),
    ],
)
def test_no_other_status_is_a_reason_and_each_may_be_a_lapse(other: Node) -> None:
    cluster = Scenario(plugin(), reported("n1"), pod("web", on="n1"))
    cluster.wait(400)
    cluster.apply(other)
    assert cluster.flagged() == set()
    cluster.wait(60)
    cluster.apply(reported("n1"))
    assert cluster.flagged() == {"web"}
    cluster.apply(other)
    cluster.wait(61)
    cluster.apply(reported("n1"))

    assert cluster.flagged() == set()


def test_the_status_unknown_can_be_a_reason_by_its_name() -> None:
    unknown = plugin({**DEADLOCK, "status": "Unknown"})
    cluster = Scenario(unknown, reported("n1", "Unknown"), pod("web", on="n1"))
    cluster.wait(300)
    assert cluster.flagged() == {"web"}

    cluster.apply(reported("n1", "True"))

    assert cluster.flagged() == set()


def test_a_condition_that_is_hardly_ever_there_is_no_reason_until_it_stands() -> None:
    cluster = Scenario(plugin(), reported("n1"), pod("web", on="n1"))
    for _ in range(30):
        cluster.apply(reported("n1", "False"))
        cluster.wait(55)
        cluster.apply(reported("n1"))
        cluster.wait(5)
        assert cluster.flagged() == set()

    cluster.wait(300)

    assert cluster.flagged() == {"web"}


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
    cluster.wait(99)
    assert cluster.flagged() == set()
    cluster.wait(1)

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


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param(reported("n1"), id="cordon"),
        pytest.param(reported("n1", "True", "sick:NoSchedule", cordoned=False), id="taint"),
    ],
)
def test_a_node_that_is_closed_later_gives_its_pods_then(closed: Node) -> None:
    cluster = Scenario(plugin(), reported("n1", cordoned=False), pod("web", on="n1"))
    cluster.wait(300)
    assert cluster.flagged() == set()

    cluster.apply(closed)

    assert cluster.flagged() == {"web"}


def test_a_pod_that_tolerates_every_taint_would_be_put_back_on_a_cordoned_node() -> None:
    sturdy = pod("sturdy", on="n1", tolerates="*")
    cluster = Scenario(plugin(), reported("n1"), sturdy, pod("web", on="n1"))
    cluster.wait(300)

    assert cluster.flagged() == {"web"}


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
reporting = st.builds(
    lambda name, status, taint, ready, **cordoned: structs.replace(
        reported(name, status, *taint, **cordoned), ready_status=ready
    ),
    names,
    st.sampled_from(["True", "True", "True", "False", "Unknown"]),
    st.sampled_from([(), ("sick:NoSchedule",), ("sick:PreferNoSchedule",)]),
    st.sampled_from(["True", "True", "False"]),
    cordoned=st.booleans(),
)
silent = st.builds(node, names, unschedulable=st.booleans())
pod_names = st.sampled_from(["p1", "p2", "p3"])
pods = st.builds(
    lambda name, on, tolerates, labels, mirror: structs.replace(
        pod(name, on=on, tolerates=tolerates, labels=labels), annotations=Annotations(mirror=mirror)
    ),
    pod_names,
    names,
    st.sampled_from([(), ("sick",), "*"]),
    st.sampled_from([{"app": "web"}, {"app": "web"}, {}]),
    st.sampled_from([None, None, "static"]),
)
EACH = "each field"
changes = st.one_of(
    st.tuples(st.just(EACH), reporting | reporting | silent),
    st.tuples(st.just(EACH), pods),
    st.tuples(st.just("conditions"), reporting),
    st.tuples(st.sampled_from(["taints", "unschedulable"]), reporting),
    st.tuples(st.sampled_from(["labels", "annotations", "spec"]), pods),
)
gone = st.builds(pod, pod_names) | st.builds(node, names)
steps = st.lists(st.tuples(changes, st.sampled_from([0, 5, 11, 11])), min_size=30, max_size=50)


@TWICE_AS_MANY
@given(steps, st.dictionaries(st.integers(0, 49), gone, max_size=4))
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[tuple[tuple[str, Node | Pod], int]], gone: dict[int, ClusterObject]
) -> None:
    soon = {**DEADLOCK, "for": "10s", "lapse": "6s"}
    some = plugin(soon, labelSelector={"matchLabels": {"app": "web"}})
    cluster = Scenario(some, reported("n1"), reported("n2", cordoned=False))
    for number, ((field, thing), wait_s) in enumerate(steps):
        if field == EACH:
            cluster.apply(thing)
        else:
            cluster.apply(in_one_field(cluster, thing, field))
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        if number in gone:
            cluster.remove(gone[number])
        cluster.wait(wait_s)

        assert cluster.flagged() == cluster.flagged_by_full_scan()
