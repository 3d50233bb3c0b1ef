"""Whatever happens, reacting finds what a full scan finds, and each reading what its rules say."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.api.scope import Namespaces
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    Namespace,
    Node,
    Pod,
    PodStatus,
)
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.primitives import long_answers
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes import selectors
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
from tests.support.random_steps import in_one_field

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
    anti_affinity_term("app=web", ZONE_LABEL, namespace_selector="team=a"),
    anti_affinity_term("app", REGION, namespaces=("default",), namespace_selector="team=a"),
    replace(anti_affinity_term("app", ZONE_LABEL), match_label_keys=("app",)),
    replace(anti_affinity_term("app", REGION), mismatch_label_keys=("tier", "app")),
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
    # One name is in both namespaces, as a sweep takes such pods for one; no more of them, as
    # findings are told apart by names.
    st.sampled_from(["default/p1", "default/p2", "default/p3", "shop/p1", "shop/p4"]),
    st.sampled_from(["n1", "n1", "n2", "n2", "n3", None]),
    st.sampled_from([{}, WEB, WEB, DB, {**WEB, "tier": "x"}, {**DB, "tier": "x"}]),
    st.sampled_from([(), TERMS[:1], TERMS[1:2], TERMS[2:3]])
    | st.lists(st.sampled_from(TERMS), max_size=2),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
)
nodes = st.builds(
    lambda name, zone, region, pool, ready: node(
        name,
        labels={
            **({ZONE_LABEL: zone} if zone else {}),
            **({REGION: region} if region else {}),
            "pool": pool,
        },
        ready=ready,
    ),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(["a", "a", "b", None]),
    st.sampled_from(["main", "other", None]),
    st.sampled_from(["x", "x", "y"]),
    st.sampled_from(["True", "True", "True", "False"]),
)
namespaces = st.builds(
    lambda name, team: Namespace(name, labels={"team": team} if team else {}),
    st.sampled_from(["default", "shop"]),
    st.sampled_from(["a", "b", None]),
)
steps = st.lists(
    st.tuples(st.just("apply"), nodes)
    | st.tuples(st.just("apply"), namespaces)
    | st.tuples(st.just("select"), st.sampled_from(["", "pool=x"]))
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.sampled_from(["labels", "spec"]), pods)
    | st.tuples(st.just("labels"), nodes)
    | st.tuples(st.just("remove"), nodes | pods),
    min_size=15,
    max_size=30,
)
START = (
    node("n1", labels={ZONE_LABEL: "a", **MAIN}),
    node("n2", labels={ZONE_LABEL: "a", **MAIN}),
    with_anti_affinity(pod("p1", uid="default/p1#0", on="n1", labels=WEB), *TERMS[:2]),
    pod("p2", uid="default/p2#0", on="n2", labels=DB),
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


Step = Node | Pod | Namespace | str


class Story:
    """A scenario in which a name may come back as another pod, and no pod that ended runs again."""

    def __init__(self, args: dict[str, Any]) -> None:
        self.cluster = Scenario(plugin(**args), *START)
        self._lives: Counter[str] = Counter()

    def tell(self, step: str, thing: Step) -> None:
        if isinstance(thing, str):
            self.cluster.select(thing)
            return
        if isinstance(thing, Pod):
            name = thing.uid
            thing = replace(thing, uid=f"{name}#{self._lives[name]}")
            known = self.cluster.state.pods.get(thing.uid)
            if known is not None and known.node and step != "remove":
                phase = known.status if not known.is_active else thing.status
                thing = replace(thing, node=known.node, status=phase)
            self._lives[name] += step == "remove"
        if step in ("labels", "spec"):
            self.cluster.apply(in_one_field(self.cluster, thing, step))
        else:
            getattr(self.cluster, step)(thing)


@given(steps, arguments)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[tuple[str, Step]], args: dict[str, Any]
) -> None:
    story = Story(args)
    for step, thing in steps:
        story.tell(step, thing)

        flagged = story.cluster.flagged()
        assert flagged == story.cluster.flagged_by_full_scan()
        assert flagged == story.cluster.flagged_after_restart()


@given(steps, arguments)
def test_reacting_finds_the_same_where_pods_are_collected_in_steps(
    steps: list[tuple[str, Step]], args: dict[str, Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (long_answers, selectors):
            patch.setattr(module, "PORTION", 1)
        patch.setattr(selectors, "SHORT_STEPS", 0)
        patch.setattr(selectors, "LARGE_PODS", 0)
        patch.setattr(selectors, "MAX_RECENT_PODS", 0)
        story = Story(args)
        for step, thing in steps:
            story.tell(step, thing)
            assert story.cluster.flagged() == story.cluster.flagged_by_full_scan()


@given(steps, arguments)
def test_each_reading_finds_what_its_rules_say(
    steps: list[tuple[str, Step]], args: dict[str, Any]
) -> None:
    story = Story(args)
    for step, thing in steps:
        story.tell(step, thing)
    state, covers = story.cluster.state, InterPodAntiAffinityArgs(**args).covers
    active = [one for one in state.pods if one.is_active]
    eligible = [one for one in active if topology_of(state, one.node).eligible]
    ready = {info.name for info in state.node_infos() if info.node and info.node.is_ready}
    counted = [one for one in active if one.node in ready]
    judged = [one for one in eligible if covers(one)]

    scheduler = {one.name for one in judged if conflicts(one, counted, state)}
    assert story.cluster.flagged_by_full_scan() == scheduler
    sweep = {one.name for one in judged if conflicts_in_sweep(one, judged, state)}
    found = plugin(**args).sweep(story.cluster.view)
    assert {each.pod.name for portion in found for each in portion} == sweep


def conflicts(one: Pod, others: list[Pod], state: ClusterState) -> bool:
    """Say what the kube-scheduler's rules say, in so many words."""
    here = topology_of(state, one.node).labels
    for term in one.spec.anti_affinity:
        selector, key = term.label_selector, term.topology_key
        if selector is None or selector.validation_errors() or key not in here:
            continue
        for other in others:
            namespace = state.store(Namespace).get(other.namespace)
            team = {} if namespace is None else namespace.labels
            listed = other.namespace in term.namespaces
            if term.namespace_selector is None:
                meant = listed or (not term.namespaces and other.namespace == one.namespace)
            else:
                meant = listed or term.namespace_selector.matches(team)
            same = (k for k in term.match_label_keys if k in one.labels)
            differs = (k for k in term.mismatch_label_keys if k in one.labels)
            if (
                other.uid != one.uid
                and meant
                and selector.matches(other.labels)
                and all(other.labels.get(k) == one.labels[k] for k in same)
                and all(other.labels.get(k) != one.labels[k] for k in differs)
                and topology_of(state, other.node).labels.get(key) == here[key]
            ):
                return True
    return False


def conflicts_in_sweep(one: Pod, others: list[Pod], state: ClusterState) -> bool:
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
