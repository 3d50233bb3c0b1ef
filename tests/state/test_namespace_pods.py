"""Pods are found by any of their labels, whatever changed since the label was first asked for."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.namespace_pods import LabelledPods, NamespacePods
from reactive_desched.testing.builders import pod

SHARED = {"app": "web", "tier": "a"}
LABELS: list[dict[str, str]] = [SHARED, {"app": "web", "tier": "a"}, {"app": "db"}, {}]
pods = st.builds(
    lambda name, namespace, labels: replace(
        pod(name, namespace=namespace), uid=f"{namespace}/{name}", labels=labels
    ),
    st.sampled_from(["p1", "p2", "p3"]),
    st.sampled_from(["default", "shop"]),
    st.sampled_from(LABELS),
)
questions = st.tuples(
    st.sampled_from(["default", "shop", None]),
    st.sampled_from(["app", "tier"]),
    st.sampled_from([("web",), ("db", "web"), ("a",)]),
)
steps = st.lists(
    st.tuples(st.just("upsert"), pods)
    | st.tuples(st.just("upsert"), pods)
    | st.tuples(st.just("remove"), pods)
    | st.tuples(st.sampled_from(["with_label", "with_label", "forget_label"]), questions),
    min_size=10,
    max_size=30,
)


def uids(found: Iterable[LabelledPods]) -> list[PodKey]:
    return sorted(uid for _, group in found for uid in group)


def expected(state: ClusterState, namespace: str | None, key: str, values: Any) -> list[PodKey]:
    return sorted(
        p.uid
        for p in state.store(Pod)
        if namespace in (None, p.namespace) and p.labels.get(key) in values
    )


@given(steps)
def test_the_pods_with_a_label_are_those_that_have_it_now(steps: list[tuple[str, Any]]) -> None:
    state, lives = ClusterState(), dict[str, int]()
    index = state.index(NamespacePods)
    for step, subject in steps:
        if isinstance(subject, Pod):
            life = lives.setdefault(subject.uid, 0)
            lives[subject.uid] += step == "remove"
            getattr(state, step)(replace(subject, uid=f"{subject.uid}#{life}"))
        elif step == "forget_label":
            index.forget_label(*subject[:2])
        else:
            assert uids(index.with_label(*subject)) == expected(state, *subject)
            for labels, group in index.with_label(*subject):
                assert all(state.pods.get(uid).labels is labels for uid in group)  # type: ignore[union-attr]  # it is there
    assert uids(index.by_labels(None)) == sorted(p.uid for p in state.store(Pod))


def test_labels_that_no_pod_has_any_more_are_forgotten() -> None:
    state = ClusterState()
    index = state.index(NamespacePods)
    web, more = (replace(pod(name), labels={"app": name}) for name in ("web", "more"))
    state.upsert(web)
    list(index.with_label("default", "app", ("web",)))
    state.upsert(more)
    state.remove(web)

    assert [labels for labels, _ in index.by_labels("default")] == [{"app": "more"}]
    state.remove(more)
    assert index.answers() == {}
