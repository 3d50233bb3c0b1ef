"""When the spread of a constraint's pods is announced, and what is counted for it."""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.changes import Change
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    ClusterObject,
    Node,
    Pod,
    PodStatus,
)
from reactive_desched.primitives import long_answers
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes import selectors
from reactive_desched.state.indexes.spread_counts import CountsPod, SpreadCounts
from reactive_desched.state.indexes.spread_groups import (
    SpreadChanged,
    SpreadGroup,
    SpreadGroups,
    SpreadNodesChanged,
)
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.testing.topology_spread import (
    WEB,
    spread_constraint,
    spread_pods,
    with_spread,
)

A, B, C = (node(f"n{number}", zone=zone) for number, zone in enumerate("abc", 1))


class Spread:
    """A cluster whose spread constraints have all been counted, by this rule or every pod."""

    def __init__(self, *objects: ClusterObject, counts: CountsPod | None = None) -> None:
        self.state = ClusterState()
        self.groups = self.state.index(SpreadGroups)
        for obj in objects:
            self.state.upsert(obj)
        self.counts = self.state.index(SpreadCounts, counts)
        self.count_all()

    def count_all(self) -> None:
        """Ask for the pods of every group, as a plugin does that judges it."""
        for group in self.groups.groups():
            list(self.counts.counted_pods(group))

    def put(self, *objects: ClusterObject) -> list[str]:
        """Add or change objects; return the topology labels of the groups announced for the last.

        A label comes once for each group.
        """
        announced: list[str] = []
        for obj in objects:
            announced = self._announced(self.state.upsert(obj))
        return announced

    def remove(self, obj: ClusterObject) -> list[str]:
        """Remove an object; return the topology labels of the groups announced for it."""
        return self._announced(self.state.remove(obj))

    def sizes(self) -> dict[str, int]:
        """Count the pods of the only group, by domain."""
        [group] = self.groups.groups()
        counted = Counter(at for found in self.counts.counted_pods(group) for at, _ in found)
        return {name: counted[name] for name in {*self.groups.domains(group), *counted}}

    def _announced(self, changes: Iterable[Change]) -> list[str]:
        found: dict[SpreadGroup, None] = {}
        for change in changes:
            match change:
                case SpreadChanged(groups=groups):
                    found |= dict.fromkeys(groups)
                case SpreadNodesChanged():
                    found |= dict.fromkeys(chain.from_iterable(self.counts.groups_on(change)))
                case _:
                    pass
        return [group.topology_key.rpartition("/")[2] for group in found]


def web(name: str, on: str, **more: Any) -> Pod:  # any part of a pod
    """Return a pod of the template of `spread_pods`."""
    [same] = spread_pods(1)
    return replace(same, name=name, uid=name, node=on, **more)


def declared_once(*sizes: int) -> tuple[list[Pod], Callable[[str, str], Pod]]:
    """Return pods that share one template, and the way to more of them."""
    [first, *rest] = spread_pods(*sizes)
    pods = [first, *(replace(each, spec=first.spec) for each in rest)]
    return pods, lambda name, on: replace(first, name=name, uid=name, node=on)


def test_a_group_is_announced_when_its_skew_passes_max_skew_and_while_it_exceeds_it() -> None:
    pods, more = declared_once(2, 1)
    spread = Spread(A, B, *pods)

    assert spread.put(more("x", "n1")) == ["zone"]
    assert spread.put(more("y", "n1")) == ["zone"]
    assert spread.put(more("z", "n2")) == ["zone"]
    assert spread.put(more("zz", "n2")) == ["zone"], "it ended"
    assert spread.put(more("zzz", "n2")) == []
    assert spread.sizes() == {"a": 4, "b": 4}


def test_a_pod_that_leaves_the_smallest_domain_can_pass_max_skew() -> None:
    pods, _ = declared_once(2, 1)
    spread = Spread(A, B, *pods)

    assert spread.remove(pods[0]) == []
    assert spread.remove(pods[2]) == []
    spread.put(pods[1], replace(pods[2], uid="again"))
    spread.put(replace(pods[0], uid="first again"))
    assert spread.remove(replace(pods[2], uid="again")) == ["zone"], "the domain is empty now"


def test_a_pod_that_begins_to_terminate_is_judged_again() -> None:
    pods, _ = declared_once(2, 1)
    spread = Spread(A, B, *pods, counts=lambda pod: not pod.is_terminating)

    assert spread.put(replace(pods[2], deletion_s=1)) == ["zone"]
    assert spread.sizes() == {"a": 2, "b": 0}


def test_a_heartbeat_and_a_status_announce_nothing() -> None:
    pods, _ = declared_once(4, 0)
    spread = Spread(A, B, *pods)

    assert spread.put(replace(A, resource_version=9)) == []
    assert spread.put(replace(pods[0], start_delay_s=5)) == []


def test_a_new_empty_domain_lowers_the_minimum_and_one_that_goes_raises_it() -> None:
    pods, more = declared_once(2, 2)
    spread = Spread(A, B, *pods)

    assert spread.put(C) == ["zone"]
    assert spread.put(replace(C, unschedulable=True)) == ["zone"], "where its pods fit differs"
    assert spread.remove(C) == ["zone"]
    assert spread.put(more("x", "n1")) == []
    assert spread.put(node("n4", zone="a")) == []
    assert spread.put(node("n3", zone="c", ready="False")) == []
    assert spread.put(C) == ["zone"]
    assert spread.put(replace(C, ready_status="False")) == ["zone"]


def test_only_a_node_to_which_the_pods_may_go_has_a_skewed_group_judged_again() -> None:
    a, b, rest = (
        node(name, zone=zone, labels={"pool": pool})
        for name, zone, pool in (("n1", "a", "web"), ("n2", "b", "web"), ("n3", "b", "rest"))
    )
    pods = [with_spec(each, node_selector={"pool": "web"}) for each in spread_pods(3)]
    spread = Spread(a, b, rest, *pods)

    assert spread.put(replace(b, unschedulable=True)) == ["zone"]
    assert spread.put(replace(rest, unschedulable=True)) == []
    assert spread.put(replace(rest, labels=b.labels)) == ["zone"], "it joined the pool"
    assert spread.put(rest) == ["zone"], "it left the pool"
    assert spread.put(node("n4")) == [], "it has no zone"
    assert spread.remove(rest) == []


def test_a_node_that_is_relabelled_takes_its_pods_along() -> None:
    pods, _ = declared_once(2, 2)
    spread = Spread(A, B, *pods)

    assert spread.put(node("n2", zone="c")) == []
    assert spread.sizes() == {"a": 2, "c": 2}
    assert spread.put(node("n2", zone="a")) == []
    assert spread.sizes() == {"a": 4}
    assert spread.put(node("n2")) == []
    assert spread.sizes() == {"a": 2}


def test_taints_and_other_labels_matter_by_the_policies() -> None:
    honor = spread_constraint(node_taints_policy="Honor")
    gpu, ssd = node("n2", "gpu:NoSchedule", zone="b"), node("n2", zone="b", labels={"disk": "ssd"})
    pods = spread_pods(2, constraints=(honor,))
    assert Spread(A, B, *pods).put(gpu) == ["zone"]
    assert Spread(A, gpu, *pods).put(B) == ["zone"]
    assert Spread(A, gpu, *pods).put(node("n2", "gpu:NoExecute", zone="b")) == []

    here = node("n1", zone="a", labels={"disk": "ssd"})
    picky = [with_spec(each, node_selector={"disk": "ssd"}) for each in spread_pods(2)]
    assert Spread(here, B, *picky).put(ssd) == ["zone"]
    ignoring = (spread_constraint(node_affinity_policy="Ignore"),)
    easy = [with_spread(each, *ignoring) for each in picky]
    assert Spread(here, B, *easy).sizes() == {"a": 2, "b": 0}
    assert Spread(here, B, *picky).sizes() == {"a": 2}


def test_constraints_that_agree_in_all_but_the_action_are_one_group() -> None:
    soft = spread_constraint(when_unsatisfiable="ScheduleAnyway")
    pods = [
        with_spread(pod("a", on="n1", labels=WEB), spread_constraint()),
        with_spread(pod("b", on="n1", labels=WEB), soft),
        with_spread(pod("c", on="n1", labels=WEB), spread_constraint(2)),
        with_spread(pod("d", on="n1", labels=WEB), spread_constraint(key=HOSTNAME_LABEL)),
        with_spread(pod("e", on="n1", labels=WEB, namespace="shop"), spread_constraint()),
    ]
    spread = Spread(A, *pods)

    declared = [dict(group.declared) for group in spread.groups.groups()]
    assert declared[0] == {"DoNotSchedule": 1, "ScheduleAnyway": 1}
    assert len(declared) == len(pods) - 1


@pytest.mark.parametrize("selector", [None, LabelSelector({"a b": "c"})])
def test_a_constraint_without_a_usable_selector_spreads_nothing(
    selector: LabelSelector | None,
) -> None:
    constraint = spread_constraint(label_selector=selector)

    assert Spread(A, *spread_pods(2, constraints=(constraint,))).groups.groups() == []


def test_a_group_begins_and_ends_with_the_templates_that_declare_it() -> None:
    pods, more = declared_once(1)
    spread = Spread(A, B)

    assert spread.put(pods[0]) == ["zone"]
    spread.count_all()
    assert spread.put(more("x", "n2")) == []
    [group] = spread.groups.groups()
    assert spread.remove(pods[0]) == []
    assert spread.remove(more("x", "n2")) == ["zone"]
    assert (spread.groups.groups(), dict(group.declared)) == ([], {})
    assert spread.put(more("y", "n1")) == ["zone"]
    assert spread.groups.groups() != [group]


def test_only_pods_that_count_are_counted_and_the_rule_is_asked_again() -> None:
    pods, more = declared_once(3, 0)
    protected = {pods[0].uid, pods[1].uid}
    spread = Spread(A, B, *pods, counts=lambda pod: pod.uid not in protected)
    [group] = spread.groups.groups()
    assert spread.sizes() == {"a": 1, "b": 0}

    protected.discard(pods[0].uid)
    assert spread.counts.recount(pods[0]) == [group]
    protected.add(pods[0].uid)
    assert spread.counts.recount(pods[0]) == [group]
    assert spread.counts.recount(pods[1]) == []
    protected.clear()
    spread.counts.recount(pods[0])
    assert spread.remove(pods[0]) == ["zone"]
    assert spread.remove(pods[1]) == []
    assert spread.put(more("x", "n1")) == ["zone"]
    assert spread.sizes() == {"a": 2, "b": 0}


def test_a_pod_that_has_ended_is_not_counted_again() -> None:
    pods, more = declared_once(3, 0)
    protected: set[str] = set()
    spread = Spread(A, B, *pods, counts=lambda pod: pod.uid not in protected)
    ended = replace(pods[0], status=PodStatus("Succeeded"))
    assert spread.put(ended) == ["zone"]

    protected.add(ended.uid)
    assert spread.counts.recount(ended) == []
    assert spread.put(more("x", "n2")) == ["zone"], "the skew of two against none ended"


def test_a_pod_that_only_declares_the_constraint_is_announced_with_it() -> None:
    """Whether the group is balanced at all may hang on it, as others that declare it may not."""
    pods = [pod(f"p{number}", on="n1", labels=WEB) for number in range(3)]
    other = with_spread(pod("db", on="n1", labels={"app": "db"}))
    spread = Spread(A, B, *pods, other)
    [group] = spread.groups.groups()

    assert spread.put(replace(other, name="db2", uid="db2")) == ["zone"]
    assert spread.counts.recount(other) == [group]
    assert spread.remove(other) == ["zone"]
    assert spread.put(replace(pods[0], labels={"app": "x"})) == ["zone"], "two are still uneven"
    assert spread.put(replace(pods[1], labels={"app": "x"})) == ["zone"], "one is not"
    assert spread.counts.recount(other) == []


def test_a_group_without_pods_has_no_skew() -> None:
    other = with_spread(pod("db", on="n1", labels={"app": "db"}))
    spread = Spread(A, B, other)

    assert spread.sizes() == {"a": 0, "b": 0}
    assert spread.put(C) == []


# --- changes while pods are counted ---

PODS, MORE = declared_once(2, 2)
FIRST, SECOND, THIRD, OTHER = PODS
MEANWHILE = [
    pytest.param(("put", MORE("new", "n2")), id="a pod comes"),
    pytest.param(("remove", FIRST), id="the first pod goes"),
    pytest.param(("remove", OTHER), id="the last pod goes"),
    pytest.param(("put", replace(FIRST, deletion_s=1)), id="the first pod begins to terminate"),
    pytest.param(("put", replace(OTHER, deletion_s=1)), id="the last pod begins to terminate"),
    pytest.param(("put", replace(SECOND, labels={})), id="a pod does not match any more"),
    pytest.param(("put", replace(THIRD, status=PodStatus("Failed"))), id="a pod ends"),
    pytest.param(("put", node("n1", zone="c")), id="a node has another zone"),
    pytest.param(("put", node("n2", zone="b", labels={"a": "b"})), id="a node has another label"),
    pytest.param(("remove", A), id="a node goes"),
]


def not_terminating(each: Pod) -> bool:
    return not each.is_terminating


@pytest.mark.parametrize("counted", range(5))
@pytest.mark.parametrize("change", MEANWHILE)
def test_what_changes_while_pods_are_counted_is_counted_once_and_announced(
    monkeypatch: pytest.MonkeyPatch, change: tuple[str, ClusterObject], counted: int
) -> None:
    for module in (long_answers, selectors):
        monkeypatch.setattr(module, "PORTION", 1)
    spread = Spread(counts=not_terminating)
    spread.put(A, B, *PODS)
    portions = spread.counts.counted_pods(*spread.groups.groups())
    for _ in range(counted):
        next(portions)
    step, thing = change

    announced = getattr(spread, step)(thing)

    for _ in portions:
        pass
    fresh = Spread(*spread.state.store(Node), *spread.state.store(Pod), counts=not_terminating)
    assert spread.counts.answers() == fresh.counts.answers()
    assert announced == ["zone"] * (counted > 0)


def test_the_pods_of_a_group_that_has_ended_are_not_counted_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (long_answers, selectors):
        monkeypatch.setattr(module, "PORTION", 1)
    spread = Spread(A, B, *PODS)
    [group] = spread.groups.groups()
    portions = spread.counts.counted_pods(group)
    next(portions)

    for each in PODS:
        spread.remove(each)

    assert list(portions) == list(spread.counts.counted_pods(group)) == []
    assert spread.counts.answers() == Spread(A, B).counts.answers()


def test_domains_that_are_counted_in_steps_follow_what_changes_between_two_of_them() -> None:
    later = [node("n4", zone="d"), node("n5", zone="e")]
    state = ClusterState()
    groups = state.index(SpreadGroups)
    objects: list[ClusterObject] = [A, B, C, *later, with_spread(pod("p", on="n1", labels=WEB))]
    for obj in objects:
        state.upsert(obj)
    (group,) = groups.groups()
    steps = groups.count_domains(group)
    next(steps)
    assert not group.nodes._counts  # to list the nodes takes a step
    next(steps), next(steps)

    state.remove(A)
    state.upsert(replace(C, labels={**C.labels, ZONE_LABEL: "new"}))
    state.remove(later[0])
    state.upsert(replace(later[1], labels={**later[1].labels, ZONE_LABEL: "b"}))
    state.upsert(node("n6", zone="f"))
    list(steps)

    assert set(groups.domains(group)) == {"b", "new", "f"}
    state.remove(B)
    assert set(groups.domains(group)) == {"b", "new", "f"}
    state.remove(replace(later[1], labels={**later[1].labels, ZONE_LABEL: "b"}))
    assert set(groups.domains(group)) == {"new", "f"}
