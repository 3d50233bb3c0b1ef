from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from reactive_desched.model.node_drains import DRAIN_NODES
from reactive_desched.model.objects import Annotations, ClusterObject, Node, OwnerReference, Pod
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.plugins.drain_nodes import DrainNodesArgs, DrainNodesPlugin
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario
from tests.support.golden import Golden
from tests.support.random_steps import TWICE_AS_MANY, in_one_field


def plugin(**args: object) -> DrainNodesPlugin:
    return DrainNodesPlugin(DrainNodesArgs.model_validate(args))


def drained(name: str, wish: str | None = "ada: a new kernel", *, cordoned: bool = True) -> Node:
    return structs.replace(node(name, unschedulable=cordoned), drain=wish)


def of_daemon_set(name: str, on: str) -> Pod:
    owner = OwnerReference("DaemonSet", "agent", "uid-agent", controller=True)
    return structs.replace(pod(name, on=on), owners=(owner,))


def test_a_node_that_is_to_be_drained_flags_its_pods_alone() -> None:
    cluster = Scenario(plugin(), node("n1"), node("n2"), pod("web", on="n1"), pod("api", on="n2"))
    assert cluster.flagged() == set()

    assert cluster.subjects_evaluated(drained("n1")) == {NodeSubject("n1")}

    assert cluster.flagged() == {"web"}


def test_the_plugin_has_the_name_by_which_others_know_it() -> None:
    assert DrainNodesPlugin.name == DRAIN_NODES


def test_a_finding_says_who_wants_it_and_why(golden: Golden) -> None:
    cluster = Scenario(plugin(), drained("n1"), pod("web", on="n1"))

    [finding] = plugin().judge(NodeSubject("n1"), cluster.view)

    assert finding.message == golden()
    assert finding.details == {"drain": "ada: a new kernel"}


@pytest.mark.parametrize(
    "instead",
    [
        pytest.param(drained("n1", None), id="withdrawn"),
        pytest.param(drained("n1", "no"), id="says no"),
        pytest.param(drained("n1", cordoned=False), id="uncordoned by a person"),
    ],
)
def test_a_drain_that_is_taken_back_clears_its_findings(instead: Node) -> None:
    cluster = Scenario(plugin(), drained("n1"), pod("web", on="n1"))
    assert cluster.flagged() == {"web"}

    cluster.apply(instead)

    assert cluster.flagged() == set()


def test_what_would_come_back_to_the_node_is_left() -> None:
    static = pod("static", on="n1")
    static = structs.replace(
        static, annotations=structs.replace(static.annotations, config_source="file")
    )
    mirror = pod("mirror", on="n1")
    mirror = structs.replace(mirror, annotations=structs.replace(mirror.annotations, mirror="x"))
    things = of_daemon_set("agent", "n1"), static, mirror, pod("web", on="n1")

    assert Scenario(plugin(), drained("n1"), *things).flagged() == {"web"}


def test_a_pod_that_still_comes_to_the_node_is_flagged() -> None:
    cluster = Scenario(plugin(), drained("n1"))

    late = pod("late", on="n1")  # it tolerates the cordon, or was bound just before

    assert cluster.subjects_evaluated(late) == {PodSubject(late.uid)}
    assert cluster.flagged() == {"late"}


def test_why_says_what_keeps_a_pod(golden: Golden) -> None:
    web, agent = pod("web", on="n1"), of_daemon_set("agent", "n1")
    namespaces = {"namespaces": {"exclude": ("default",)}}

    def said(of: Pod, on: Node, **args: object) -> str:
        return plugin(**args).describe(of, Scenario(plugin(**args), on, of).view)

    texts = (
        said(web, node("n1")),
        said(web, drained("n1", cordoned=False)),
        said(agent, drained("n1")),
        said(web, drained("n1"), **namespaces),
    )
    assert "\n".join(texts) == golden()


names = st.sampled_from(["n1", "n2"])
nodes = st.builds(
    drained, names, st.sampled_from(["ada", "yes", "no", None]), cordoned=st.booleans()
)
pods = st.builds(
    lambda name, on, tier, mirror: structs.replace(
        pod(name, on=on, labels={"tier": tier}), annotations=Annotations(mirror=mirror)
    ),
    st.sampled_from(["p1", "p2", "p3"]),
    names,
    st.sampled_from(["front", "back"]),
    st.sampled_from([None, "static"]),
)
agents = st.builds(of_daemon_set, st.just("agent"), names)
gone = st.builds(pod, st.sampled_from(["p1", "p2", "p3"])) | st.builds(node, names)
EACH = "each field"
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["drain", "unschedulable"]), nodes),
        st.tuples(st.sampled_from(["labels", "annotations"]), pods),
        st.tuples(st.just(EACH), pods),
        st.tuples(st.just(EACH), nodes),
        st.tuples(st.just(EACH), agents),
        st.tuples(st.just("remove"), gone),
    ),
    min_size=30,
    max_size=50,
)
FRONT = {"label_selector": {"matchLabels": {"tier": "front"}}}


@TWICE_AS_MANY
@given(steps, st.sampled_from([FRONT, FRONT, {}]))
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[tuple[str, Node | Pod]], args: dict[str, object]
) -> None:
    begun = (drained("n1"), drained("n2", cordoned=False), pod("p1", on="n1"), pod("p2", on="n2"))
    cluster = Scenario(plugin(**args), *begun)
    for step, thing in steps:
        if step == "remove":
            cluster.remove(thing)
        elif step == EACH:
            cluster.apply(thing)
        else:
            cluster.apply(in_one_field(cluster, thing, step))

        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == Scenario(plugin(**args), *all_things(cluster)).flagged()


def all_things(cluster: Scenario) -> Iterator[ClusterObject]:
    for resource in ("nodes", "pods"):
        for key in cluster.state.keys(resource):
            if (thing := cluster.state.get(resource, key)) is not None:
                yield thing
