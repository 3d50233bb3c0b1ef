"""Whether a pod is evictable is kept up to date: the answer equals one evaluated anew."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.gate.controller_rules import controller_rules
from reactive_desched.gate.evictor import EVICTABLE, EvictorFilters
from reactive_desched.gate.filters import UPSTREAM_RULES, EvictorRules, pod_filters
from reactive_desched.gate.profile_view import EVALUATED_PER_STEP, EvictableIndex
from reactive_desched.model.changes import PodEvictabilityChanged
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    Annotations,
    ClusterObject,
    Deployment,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import READY, node, pod, pod_status

ARGS: list[dict[str, Any]] = [
    {},
    {"minReplicas": 2},
    {"minPodAge": "60s"},
    {"minReplicas": 2, "minPodAge": "60s"},
    {"priorityThreshold": {"name": "high"}},
    {"noEvictionPolicy": "Mandatory", "labelSelector": {"matchLabels": {"app": "web"}}},
    {"podProtections": {"extraEnabled": ("PodsWithoutPDB",)}},
    {
        "podProtections": {
            "defaultDisabled": ("FailedBarePods",),
            "extraEnabled": ("PodsWithPVC",),
            "config": {"PodsWithPVC": {"protectedStorageClasses": ({"name": "disk"},)}},
        }
    },
]


CONTROLLER_RULES = controller_rules(lambda _: ())
DEPLOYMENT = OwnerReference("Deployment", "a", "d", controller=True)


class Cluster:
    """A cluster under one evictor, with an index that follows it and notes what it announces."""

    def __init__(self, args: dict[str, Any], rules: EvictorRules = UPSTREAM_RULES) -> None:
        self.now_s = 100.0
        self.state = ClusterState()
        self.view = ClusterView(self.state, lambda: self.now_s)
        made = DefaultEvictorArgs.model_validate(args)
        mandatory = made.no_eviction == "Mandatory"
        filters = EvictorFilters(
            pod_filters(made, rules), self.view, mandatory_no_eviction=mandatory, rules=rules
        )
        self.filters = filters
        self.index = EvictableIndex(filters, self.view)
        self.announced: dict[str, bool] = {}
        self.state.keep_indexes((kind, None) for kind in filters.indexes)

    def put(self, *objects: ClusterObject) -> None:
        for obj in objects:
            self._follow(self.state.upsert(obj))

    def put_and_ask(self, obj: ClusterObject) -> None:
        """Put an object, and ask about it before its changes are known, as indexes do."""
        changes = self.state.upsert(obj)
        if isinstance(obj, Pod) and (kept := self.view.pod(obj.uid)) is not None:
            answer = self.index.allows(kept)
            if kept.node:
                self.announced.setdefault(kept.uid, answer)
        self._follow(changes)

    def remove(self, obj: ClusterObject) -> None:
        self._follow(self.state.remove(obj))

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self._follow([])

    def ask(self) -> dict[str, bool]:
        """Return the answer for every pod; the index keeps it, and so does `announced`, of pods
        that have a node."""
        answers = {each.uid: self.index.allows(each) for each in self.pods()}
        self.announced = {each.uid: answers[each.uid] for each in self.pods() if each.node}
        return answers

    def anew(self) -> dict[str, bool]:
        return {p.uid: self.filters.evictable_from_s(p) == EVICTABLE for p in self.pods()}

    def pods(self) -> list[Pod]:
        return [found for uid in self.view.pods() if (found := self.view.pod(uid)) is not None]

    def _follow(self, changes: Iterable[Any]) -> None:  # a list of Change
        self.take_portion(changes)
        while self.index.has_outdated:
            self.take_portion()

    def take_portion(self, changes: Iterable[Any] = ()) -> None:
        for change in self.index.apply_changes(changes):
            assert isinstance(change, PodEvictabilityChanged)
            assert change.pod.uid in self.announced, "nothing asked about this pod"
            self.announced[change.pod.uid] = not self.announced[change.pod.uid]


WEB = pod("web", on="n1")


CROWD = [pod(f"web-{number:03}", on="n1", priority=5) for number in range(90)]


def evaluated_by(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that fills with the pods whose filters are evaluated from now on."""
    evaluated, evaluate = list[str](), cluster.filters.evictable_from_s

    def note(each: Pod) -> float:
        evaluated.append(each.uid)
        return evaluate(each)

    monkeypatch.setattr(cluster.filters, "evictable_from_s", note)
    return evaluated


def test_a_priority_class_has_every_pod_evaluated_once_in_portions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster({"priorityThreshold": {"name": "high"}})
    cluster.put(*CROWD)
    assert not any(cluster.ask().values())
    evaluated, portions = evaluated_by(cluster, monkeypatch), list[int]()

    cluster.take_portion(cluster.state.upsert(PriorityClass("high", value=10)))
    portions.append(len(evaluated))
    while cluster.index.has_outdated:
        before = len(evaluated)
        cluster.take_portion()
        portions.append(len(evaluated) - before)

    assert sorted(evaluated) == [each.uid for each in CROWD]
    assert max(portions) <= EVALUATED_PER_STEP
    assert all(cluster.announced.values())


def test_a_pod_that_waits_for_its_portion_is_answered_as_the_cluster_is() -> None:
    cluster = Cluster({"priorityThreshold": {"name": "high"}})
    cluster.put(*CROWD)
    cluster.ask()

    cluster.take_portion(cluster.state.upsert(PriorityClass("high", value=10)))
    assert cluster.index.has_outdated
    assert all(cluster.index.allows(each) for each in CROWD)
    cluster.take_portion(cluster.state.upsert(PriorityClass("high", value=1)))
    assert cluster.index.has_outdated
    assert not any(cluster.index.allows(each) for each in CROWD)

    while cluster.index.has_outdated:
        cluster.take_portion()
    assert not any(cluster.announced.values())


def test_pods_that_time_lets_go_are_evaluated_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({"minPodAge": "60s"})
    cluster.put(*(msgspec.structs.replace(each, start_delay_s=90) for each in CROWD))
    assert not any(cluster.ask().values())
    evaluated = evaluated_by(cluster, monkeypatch)

    cluster.now_s += 60
    cluster.take_portion()
    assert len(evaluated) <= EVALUATED_PER_STEP
    while cluster.index.has_outdated:
        cluster.take_portion()

    assert len(evaluated) == len(CROWD)
    assert all(cluster.announced.values())


def test_nothing_is_kept_of_pods_that_no_plugin_asks_about() -> None:
    cluster = Cluster({"minReplicas": 2})
    cluster.put(WEB, pod("db", on="n1"))
    assert len(cluster.index.remembered) == 0

    cluster.index.allows(WEB)
    assert len(cluster.index.remembered) == 1
    cluster.remove(WEB)

    assert len(cluster.index.remembered) == 0
    assert (len(cluster.index._by_wake), len(cluster.index._wakes)) == (0, 0)


def test_a_pod_that_is_asked_about_as_it_is_bound_is_evaluated_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, asked = Cluster({}), list[str]()
    evaluate = cluster.filters.evictable_from_s

    def note(each: Pod) -> float:
        asked.append(each.uid)
        return evaluate(each)

    monkeypatch.setattr(cluster.filters, "evictable_from_s", note)
    cluster.put_and_ask(WEB)
    assert asked == ["web"]

    cluster.put(msgspec.structs.replace(WEB, labels={"app": "web"}))
    assert asked == ["web", "web"]


def test_time_alone_can_lift_a_protection() -> None:
    cluster = Cluster({"minPodAge": "60s"})
    cluster.put(msgspec.structs.replace(WEB, start_delay_s=90))
    assert cluster.ask() == {"web": False}
    assert cluster.index.next_due_s() == 150

    cluster.wait(50)

    assert cluster.announced == {"web": True}
    assert cluster.index.next_due_s() is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            PodDisruptionBudget("default", "any", selector=LabelSelector()), id="a budget"
        ),
        pytest.param(
            msgspec.structs.replace(WEB, annotations=Annotations(evict="")), id="an annotation"
        ),
    ],
)
def test_a_change_that_lifts_a_protection_is_announced(change: ClusterObject) -> None:
    cluster = Cluster({"podProtections": {"extraEnabled": ("PodsWithoutPDB",)}})
    cluster.put(WEB)
    assert cluster.ask() == {"web": False}

    cluster.put(change)

    assert cluster.announced == {"web": True}


# A tiny world, so that generated objects collide often.
names = st.sampled_from(["p1", "p2", "p3"])
pods = st.builds(
    msgspec.structs.replace,
    st.builds(
        pod,
        names,
        on=st.sampled_from([None, "n1", "n1", "n2"]),
        owner=st.sampled_from(["ReplicaSet/a", "ReplicaSet/b", "DaemonSet/c", None]),
        labels=st.sampled_from([{}, {"app": "web"}]),
        priority=st.sampled_from([None, 5, 2_000_000_000]),
        status=st.sampled_from([READY, pod_status(), pod_status("Failed")]),
    ),
    start_delay_s=st.sampled_from([None, 50, 90]),
    deletion_s=st.sampled_from([None, None, 100]),
    pvc_names=st.sampled_from([(), ("data",)]),
    annotations=st.builds(
        Annotations,
        evict=st.sampled_from([None, None, "", "false"]),
        prefer_no_eviction=st.sampled_from([None, "", "false"]),
    ),
)
others = st.one_of(
    st.builds(node, st.sampled_from(["n1", "n2"])),
    st.builds(
        PodDisruptionBudget,
        st.just("default"),
        st.just("web"),
        selector=st.sampled_from([None, LabelSelector(), LabelSelector({"app": "web"})]),
    ),
    st.builds(
        PersistentVolumeClaim,
        st.just("default"),
        st.just("data"),
        storage_class=st.sampled_from(["", "disk", "net"]),
    ),
    st.builds(PriorityClass, st.just("high"), value=st.sampled_from([1, 10])),
    st.builds(
        Deployment, st.just("default"), st.just("a"), st.just("d"), replicas=st.integers(1, 3)
    ),
    st.builds(ReplicaSet, st.just("owner-a"), controller=st.sampled_from([None, DEPLOYMENT])),
)
steps = st.one_of(
    st.tuples(st.sampled_from(["put", "put_and_ask"]), pods | others),
    st.tuples(st.just("remove"), pods | others),
    st.tuples(st.just("wait"), st.sampled_from([5, 30])),
)


@given(
    st.sampled_from(ARGS),
    st.sampled_from([UPSTREAM_RULES, CONTROLLER_RULES]),
    st.lists(steps, min_size=8, max_size=40),
)
def test_after_any_changes_an_answer_equals_one_evaluated_anew(
    args: dict[str, Any], rules: EvictorRules, story: list[tuple[str, Any]]
) -> None:
    cluster = Cluster(args, rules)
    cluster.put(*(pod(name, on="n1") for name in ("p1", "p2", "p3")))
    cluster.ask()
    for verb, about in story:
        getattr(cluster, verb)(about)

        anew = cluster.anew()
        followed = {p.uid for p in cluster.pods() if p.node and p.uid in cluster.announced}
        assert {uid: cluster.announced[uid] for uid in followed} == {u: anew[u] for u in followed}
        assert cluster.ask() == anew


def test_a_pod_of_which_a_person_alone_asks_announces_nothing() -> None:
    cluster = Cluster({"labelSelector": {"matchLabels": {"app": "web"}}})
    asked, judged = (pod(name, on="n1", labels={"app": "web"}) for name in ("asked", "judged"))
    cluster.put(node("n1"), asked, judged)

    with cluster.state.questioned():
        assert cluster.index.allows(asked) is cluster.index.allows(judged)
    cluster.index.allows(judged)

    others = [msgspec.structs.replace(each, labels={"app": "db"}) for each in (asked, judged)]
    announced = [
        each
        for other in others
        for each in cluster.index.apply_changes(
            cluster.state.upsert(msgspec.structs.replace(other, resource_version=9))
        )
    ]
    assert announced == [PodEvictabilityChanged(cluster.pods()[1])]
