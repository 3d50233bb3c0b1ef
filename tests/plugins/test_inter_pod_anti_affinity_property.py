"""Whatever happens, reacting finds what a full scan finds, and that what the rules say."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.api.scope import Namespaces
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL, Node, Pod, PodStatus
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.topology_domains import topology_of
from reactive_desched.testing.anti_affinity import (
    INVALID_TERM,
    MAIN,
    REGION,
    anti_affinity_term,
    with_anti_affinity,
)
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario

WEB, DB = {"app": "web"}, {"app": "db"}


def plugin(**args: Any) -> InterPodAntiAffinityPlugin:  # any argument of the plugin
    return InterPodAntiAffinityPlugin(InterPodAntiAffinityArgs(**args))


TERMS = (
    anti_affinity_term("app=web"),
    anti_affinity_term("app=web", ZONE_LABEL),
    anti_affinity_term("app=db", ZONE_LABEL),
    anti_affinity_term("app=db", REGION),
    anti_affinity_term("app in (web,db)", REGION, namespaces=("shop", "default")),
    anti_affinity_term("tier", REGION, namespaces=("shop",)),
    anti_affinity_term("app=web", ZONE_LABEL, namespace_selector=""),
    anti_affinity_term("", HOSTNAME_LABEL),
    anti_affinity_term("app notin (db)", ZONE_LABEL),
    anti_affinity_term(None, ZONE_LABEL),
    INVALID_TERM,
)
pods = st.builds(
    lambda key, on, labels, terms, priority, phase: with_anti_affinity(
        pod(
            key.rpartition("/")[2],
            uid=key,
            namespace=key.partition("/")[0],
            on=on,
            labels=labels,
            priority=priority,
            status=PodStatus(phase),
        ),
        *terms,
    ),
    # One name is in both namespaces, as the reference takes such pods for one; no more of them,
    # as findings are told apart by names.
    st.sampled_from(["default/p1", "default/p2", "default/p3", "shop/p1", "shop/p4"]),
    st.sampled_from(["n1", "n1", "n2", "n2", "n3", None]),
    st.sampled_from([{}, WEB, WEB, DB, {**WEB, "tier": "x"}, {**DB, "tier": "x"}]),
    st.sampled_from([(), TERMS[:1], TERMS[1:2], TERMS[2:3]])
    | st.lists(st.sampled_from(TERMS), max_size=2),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
)
nodes = st.builds(
    lambda name, zone, region, ready: node(
        name,
        labels={**({ZONE_LABEL: zone} if zone else {}), **({REGION: region} if region else {})},
        ready=ready,
    ),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(["a", "a", "b", None]),
    st.sampled_from(["main", "other", None]),
    st.sampled_from(["True", "True", "True", "False"]),
)
steps = st.lists(
    st.tuples(st.just("apply"), nodes)
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("remove"), nodes | pods),
    min_size=6,
    max_size=30,
)
START = (
    node("n1", labels={ZONE_LABEL: "a", **MAIN}),
    node("n2", labels={ZONE_LABEL: "a", **MAIN}),
    with_anti_affinity(pod("p1", uid="default/p1#0", on="n1", labels=WEB), *TERMS[:2]),
)
arguments = st.sampled_from(
    [
        {},
        {"namespaces": Namespaces(include=("default",))},
        {"namespaces": Namespaces(exclude=("default",))},
        {"label_selector": LabelSelector({"app": "web"})},
        {"label_selector": LabelSelector({"tier": "x"})},
    ]
)


class Story:
    """A scenario in which a name may come back as another pod, and no pod that ended runs again."""

    def __init__(self, args: dict[str, Any]) -> None:
        self.cluster = Scenario(plugin(**args), *START)
        self._lives: Counter[str] = Counter()

    def tell(self, step: str, thing: Node | Pod) -> None:
        if isinstance(thing, Pod):
            name = thing.uid
            thing = replace(thing, uid=f"{name}#{self._lives[name]}")
            known = self.cluster.state.pods.get(thing.uid)
            if known is not None and known.node and step == "apply":
                phase = known.status if not known.is_active else thing.status
                thing = replace(thing, node=known.node, status=phase)
            self._lives[name] += step == "remove"
        getattr(self.cluster, step)(thing)


@given(steps, arguments)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[tuple[str, Node | Pod]], args: dict[str, Any]
) -> None:
    story = Story(args)
    for step, thing in steps:
        story.tell(step, thing)

        flagged = story.cluster.flagged()
        assert flagged == story.cluster.flagged_by_full_scan()
        assert flagged == story.cluster.flagged_after_restart()


@given(steps, arguments)
def test_a_full_scan_finds_what_the_rules_say(
    steps: list[tuple[str, Node | Pod]], args: dict[str, Any]
) -> None:
    story = Story(args)
    for step, thing in steps:
        story.tell(step, thing)
    state, covers = story.cluster.state, InterPodAntiAffinityArgs(**args).covers
    seen = [
        one
        for one in state.pods
        if one.is_active and topology_of(state, one.node).eligible and covers(one)
    ]

    wrong = {one.name for one in seen if conflicts(one, seen, state)}
    assert story.cluster.flagged_by_full_scan() == wrong


def conflicts(one: Pod, others: list[Pod], state: ClusterState) -> bool:
    """Say what the reference's rules say, in so many words."""
    here = topology_of(state, one.node).labels
    for term in one.spec.anti_affinity:
        chosen, key = term.label_selector, term.topology_key
        if chosen is None:
            continue
        if chosen.validation_errors():
            return False
        for other in others:
            there = topology_of(state, other.node).labels
            if (
                other.name != one.name
                and other.namespace in (term.namespaces or (one.namespace,))
                and chosen.matches(other.labels)
                and (one.node == other.node or (key in here and here[key] == there.get(key)))
            ):
                return True
    return False
