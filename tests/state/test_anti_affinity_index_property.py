"""Whatever happens, the answers are those of a naive search."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.affinity_terms import descheduler_scope, scheduler_scope
from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    Namespace,
    Pod,
    PodAffinityTerm,
    PodStatus,
)
from reactive_desched.primitives import long_answers
from reactive_desched.primitives.long_answers import AnswerTakesLong
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes import selectors
from reactive_desched.state.indexes.topology_domains import topology_of
from reactive_desched.testing.anti_affinity import (
    INVALID_TERM,
    anti_affinity_term,
    with_anti_affinity,
)
from reactive_desched.testing.builders import node, pod
from tests.support.neighbourhood import PodAffinityCluster

RACK = "example.com/rack"
WEB, DB = {"app": "web"}, {"app": "db"}
LIVE = {"stage": "live"}
KEYS = (HOSTNAME_LABEL, ZONE_LABEL, RACK)
QUESTIONS = list(product(("default", "shop"), ("app=web", "!tier"), KEYS))
some_labels = st.sampled_from([{}, WEB, DB, {**WEB, "tier": "x"}, {**DB, "tier": "y"}])
SELECTORS = ("app=web", "app=db", "app=web,tier=x", "tier", "app in (web,db)", "!tier", "", None)
# Few and often the same: what pods share is where mistakes hide.
TERMS = (
    *(anti_affinity_term(text, by) for text in ("app=web", "app=db") for by in KEYS),
    *(anti_affinity_term(text, ZONE_LABEL) for text in SELECTORS),
    anti_affinity_term("app=web", namespaces=("shop",)),
    anti_affinity_term("app=web", ZONE_LABEL, namespace_selector=""),
    anti_affinity_term(
        "app=web", ZONE_LABEL, namespaces=("default",), namespace_selector="stage=live"
    ),
    anti_affinity_term("tier notin (x)", RACK, namespace_selector="!stage"),
    INVALID_TERM,
)
terms = st.sampled_from(TERMS)
declared = st.sampled_from([(), TERMS[:1], TERMS[:1], TERMS[1:3], TERMS[3:4]]) | st.lists(
    terms, max_size=2
)
pods = st.builds(
    lambda name, namespace, on, labels, declared, phase: with_anti_affinity(
        pod(name, namespace=namespace, on=on, labels=labels, status=PodStatus(phase)), *declared
    ),
    st.sampled_from(["p1", "p2", "p3", "p4"]),
    st.sampled_from(["default", "default", "shop"]),
    st.sampled_from(["n1", "n1", "n2", "n3", None]),
    some_labels,
    declared,
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
)
nodes = st.builds(
    lambda name, zone, rack, pool, ready: node(
        name,
        labels={ZONE_LABEL: zone, "pool": pool, **({RACK: rack} if rack else {})},
        ready=ready,
    ),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from([None, "r1", "r2"]),
    st.sampled_from(["x", "x", "y"]),
    st.sampled_from(["True", "True", "False"]),
)
namespaces = st.builds(lambda labels: Namespace("shop", labels=labels), st.sampled_from([{}, LIVE]))
questions = st.tuples(st.just("ask"), terms | st.just(None))
in_steps = st.tuples(st.just("take"), st.tuples(st.sampled_from(QUESTIONS), st.integers(1, 3)))
steps = st.lists(
    st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("apply"), nodes)
    | st.tuples(st.just("remove"), pods | nodes)
    | st.tuples(st.just("apply"), namespaces)
    | st.tuples(st.just("select"), st.sampled_from(["", "pool=x"]))
    | questions
    | in_steps,
    min_size=4,
    max_size=30,
)


class Story(PodAffinityCluster):
    """A neighbourhood in which a pod's name may come back, as another pod."""

    def __init__(self) -> None:
        super().__init__(node("n1", zone="a"), node("n2", zone="a"))
        self._lives: Counter[str] = Counter()

    def tell(self, step: str, thing: Any) -> None:  # what the step is about
        if isinstance(thing, Pod):
            key = str(thing)
            thing = replace(thing, uid=f"{key}#{self._lives[key]}")
            self._lives[key] += step == "remove"
        if step == "select":
            list(self.state.set_node_selector(parse_selector(thing)))
        elif step == "ask":
            self.answers()
        elif step == "take":
            self.take(*thing)
        else:
            getattr(self, step)(thing)

    def take(self, question: tuple[str, str, str], count: int) -> None:
        """Ask a question as an evaluation does, and take so many steps of its answer."""
        namespace, text, key = question
        try:
            with self.index.queries.long_answers:
                self.pods_matching_selector(text, key, namespace)
        except AnswerTakesLong as asked:
            for _ in islice(asked.steps, count):
                pass

    def answers(self) -> dict[str, Any]:  # answers of several kinds
        """Return everything that can be asked about this cluster."""
        active = [p for p in self.state.pods if p.is_active]
        placed = [p for p in active if self.view.active_pod(p.uid) is not None]
        return {
            "avoided": {p.uid: self.conflicts_of(p.uid) for p in placed},
            "in sweep": {p.uid: self.conflicts_in_sweep(p.uid) for p in placed},
            "avoiding": {p.uid: self.pods_conflicting_with(p.uid) for p in active},
            "repelled": {p.uid: self.forbidden_domains(p) for p in self.state.pods},
            "matching": [
                self.pods_matching_term(term, p.namespace)
                for p in active
                for term in p.spec.anti_affinity
            ],
            "selected": [
                self.pods_matching_selector(text, key, namespace)
                for namespace, text, key in QUESTIONS
            ],
        }


class Naive:
    """The same answers, found by looking at every pod and every node each time."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.active = [p for p in state.pods if p.is_active]
        self.counted = [p for p in self.active if topology_of(state, p.node).eligible]
        ready = {info.name for info in state.node_infos() if info.node and info.node.is_ready}
        self.seen = [p for p in self.active if p.node in ready]

    def labels(self, one: Pod) -> dict[str, str]:
        return dict(topology_of(self.state, one.node).labels)

    def means(self, term: PodAffinityTerm, owner: str, one: Pod, *, scheduler: bool) -> bool:
        chosen = term.label_selector
        if chosen is None or chosen.validation_errors():
            return False
        scope = (scheduler_scope if scheduler else descheduler_scope)(term, owner)
        known = self.state.store(Namespace).get(one.namespace)
        labels = known.labels if known is not None else {}
        return scope.covers(one.namespace, labels) and chosen.matches(one.labels)

    def is_near(self, one: Pod, other: Pod, key: str) -> bool:
        return key in self.labels(one) and self.labels(one).get(key) == self.labels(other).get(key)

    def avoided(self, one: Pod) -> Iterator[set[str]]:
        for term in one.spec.anti_affinity:
            selector = term.label_selector
            if selector is None or selector.validation_errors():
                continue
            if term.topology_key in self.labels(one):
                yield {
                    other.uid
                    for other in self.seen
                    if self.is_near(one, other, term.topology_key)
                    and self.means(term, one.namespace, other, scheduler=True)
                }

    def avoided_in_sweep(self, one: Pod) -> Iterator[set[str] | None]:
        for term in one.spec.anti_affinity:
            if term.label_selector is not None and term.label_selector.validation_errors():
                yield None
            elif term.label_selector is not None:
                yield {
                    other.uid
                    for other in self.counted
                    if one.node == other.node or self.is_near(one, other, term.topology_key)
                    if self.means(term, one.namespace, other, scheduler=False)
                }

    def avoiding(self, one: Pod) -> set[str]:
        return ({one.uid} if one.spec.anti_affinity else set()) | {
            other.uid
            for other in self.counted
            for term in other.spec.anti_affinity
            if self.is_near(one, other, term.topology_key)
            and self.means(term, other.namespace, one, scheduler=True)
        }

    def repelled(self, one: Pod) -> set[tuple[str, str, str]]:
        return {
            (term.topology_key, value, other.uid)
            for other in self.active
            for term in other.spec.anti_affinity
            if self.means(term, other.namespace, one, scheduler=True)
            if (value := self.labels(other).get(term.topology_key)) is not None
        }

    def matching(self, term: PodAffinityTerm, owner: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for one in self.active:
            value = self.labels(one).get(term.topology_key)
            if value is not None and self.means(term, owner, one, scheduler=True):
                found.setdefault(value, set()).add(one.uid)
        return found

    def answers(self) -> dict[str, Any]:  # answers of several kinds
        return {
            "avoided": {p.uid: list(self.avoided(p)) for p in self.counted},
            "in sweep": {p.uid: list(self.avoided_in_sweep(p)) for p in self.counted},
            "avoiding": {p.uid: self.avoiding(p) for p in self.active},
            "repelled": {p.uid: self.repelled(p) for p in self.state.pods},
            "matching": [
                self.matching(term, p.namespace)
                for p in self.active
                for term in p.spec.anti_affinity
            ],
            "selected": [
                self.matching(anti_affinity_term(text, key), namespace)
                for namespace, text, key in QUESTIONS
            ],
        }


def told(steps: Iterable[tuple[str, Any]]) -> Story:  # what a step is about
    story = Story()
    for step, thing in steps:
        story.tell(step, thing)
    return story


@given(steps)
def test_after_any_changes_the_answers_are_those_of_a_naive_search(
    steps: list[tuple[str, Any]],
) -> None:
    story = told(steps)

    assert story.answers() == Naive(story.state).answers()


@given(steps)
def test_after_any_changes_the_answers_are_those_of_a_state_made_afresh(
    steps: list[tuple[str, Any]],
) -> None:
    story, afresh = told(steps), Story()
    list(afresh.state.set_node_selector(story.state.nodes.selector))
    for name in afresh.state.keys("nodes"):
        afresh.state.remove(node(name))
    for resource in ("pods", "namespaces", "nodes"):
        for key in story.state.keys(resource):
            known = story.state.get(resource, key)
            assert known is not None
            afresh.apply(known)

    assert story.answers() == afresh.answers()


@given(steps)
def test_no_bound_on_questions_changes_an_answer(steps: list[tuple[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selectors, "MAX_UNREFERENCED_QUERIES", 1)
        story = told([*steps, ("ask", None)])
        assert story.answers() == Naive(story.state).answers()

        story.remove(*story.state.pods)
        assert len(story.index.queries) <= 1


@given(steps)
def test_an_answer_in_steps_is_right_whatever_happens_between_them(
    steps: list[tuple[str, Any]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_answers, "PORTION", 1)
        patch.setattr(selectors, "PORTION", 1)
        patch.setattr(selectors, "SHORT_STEPS", 0)
        story = told(steps)
        assert story.answers() == Naive(story.state).answers()


@given(steps)
def test_a_node_names_every_pod_that_a_pod_of_it_conflicts_with(
    steps: list[tuple[str, Any]],
) -> None:
    story = told(steps)
    naive = Naive(story.state)
    for entry in story.state.node_infos():
        here = {p.uid for p in entry.active.values()}
        conflicts = {
            one.uid
            for one in naive.counted
            for near in naive.avoided(one)
            if near - {one.uid} and (one.uid in here or near & here)
        }
        assert conflicts <= story.pods_conflicting_on_node(entry.name)
