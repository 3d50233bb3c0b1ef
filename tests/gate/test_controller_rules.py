"""What the controller's evictor judges otherwise than a sweep: who stays, what a value means."""

from typing import Any

import msgspec
import pytest

from reactive_desched.gate.controller_rules import controller_rules
from reactive_desched.gate.evictor import EvictorFilters
from reactive_desched.gate.filters import UPSTREAM_RULES, EvictorRules, pod_filters
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import (
    Annotations,
    Deployment,
    OwnerReference,
    Pod,
    PodStatus,
    ReplicaSet,
)
from reactive_desched.model.wakes import WakeOnEviction
from reactive_desched.policy.evictor import DefaultEvictorArgs, NoEvictionPolicy
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import pod

RULES = controller_rules(lambda _: ())
DEPLOYMENT = OwnerReference("Deployment", "web", "d-web", controller=True)
SET = ReplicaSet("owner-web", controller=DEPLOYMENT)
WEB = pod("web", on="n1")
UNREADY = PodStatus("Running")


def wants(replicas: int) -> list[Any]:
    return [SET, Deployment("default", "web", "d-web", replicas=replicas)]


def change(thing: Pod, **fields: Any) -> Pod:  # any field of a pod
    return msgspec.structs.replace(thing, **fields)


def filters(
    args: dict[str, Any], *objects: Any, rules: EvictorRules = RULES
) -> EvictorFilters:  # any objects of a cluster
    state = ClusterState()
    for thing in objects:
        state.upsert(thing)
    made = DefaultEvictorArgs.model_validate(args)
    mandatory = made.no_eviction is NoEvictionPolicy.MANDATORY
    view = ClusterView(state, lambda: 0.0)
    return EvictorFilters(
        pod_filters(made, rules), view, mandatory_no_eviction=mandatory, rules=rules
    )


def decided(args: dict[str, Any], candidate: Pod, *others: Any, **more: Any) -> Refuse | None:
    return filters(args, candidate, *others, **more).check(Finding(candidate, "Test", "why"), 0)


LEAVING = change(pod("b", on="n2"), deletion_s=1)
STRANGER = pod("b", on="n2", namespace="tenant")
TWO = {"minReplicas": 2}


@pytest.mark.parametrize(
    ("candidate", "others", "goes"),
    [
        pytest.param(WEB, [pod("b", on="n2")], True, id="two living pods"),
        pytest.param(WEB, [LEAVING], False, id="the other is leaving"),
        pytest.param(WEB, [pod("b", status=PodStatus("Failed"))], False, id="the other failed"),
        pytest.param(WEB, [pod("b", status=PodStatus("Succeeded"))], False, id="it succeeded"),
        pytest.param(WEB, [pod("b", on="n2", status=UNREADY)], False, id="it is not Ready"),
        pytest.param(WEB, [pod("b", status=PodStatus("Pending"))], False, id="it has no node"),
        pytest.param(WEB, [STRANGER], False, id="it only names the uid, in another namespace"),
        pytest.param(WEB, [pod("b", on="n2"), *wants(1)], False, id="one of them is to go"),
        pytest.param(WEB, [pod("b", on="n2"), *wants(2)], True, id="both are to stay"),
        pytest.param(WEB, [*wants(2)], False, id="the other is yet to come"),
        pytest.param(
            change(WEB, status=UNREADY), [pod("b", on="n2")], True, id="the one that is not Ready"
        ),
        pytest.param(change(WEB, status=UNREADY), [], False, id="one alone, Ready or not"),
        pytest.param(change(WEB, status=UNREADY), [LEAVING], False, id="one alone, one leaving"),
        pytest.param(
            change(WEB, status=UNREADY), [STRANGER], False, id="one alone, and a stranger"
        ),
        pytest.param(change(WEB, status=PodStatus("Failed")), [pod("b")], True, id="it has failed"),
        pytest.param(change(WEB, status=PodStatus("Failed")), [], False, id="one that has failed"),
        pytest.param(
            pod("a", on="n1", owner="Job/sums"),
            [pod("b", on="n2", owner="Job/sums", status=UNREADY)],
            True,
            id="pods of a Job, of which none stands in for another",
        ),
    ],
)
def test_min_replicas_counts_the_pods_that_stay(
    candidate: Pod,
    others: list[Any],
    goes: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    assert (decided(TWO, candidate, *others) is None) is goes
    evictable = filters(TWO, candidate, *others).evictable_from_s(candidate)
    assert (evictable == float("-inf")) is goes


def test_a_sweep_counts_pods_that_are_leaving_as_upstream() -> None:
    assert decided(TWO, WEB, LEAVING, rules=UPSTREAM_RULES) is None


def test_the_message_says_which_pods_were_counted() -> None:
    ready = decided(TWO, WEB, LEAVING)
    wanted = decided(TWO, WEB, pod("b", on="n2"), *wants(1))

    assert ready is not None
    assert wanted is not None
    assert "has 1 Ready pod" in ready.message
    assert "wants 1 pod" in wanted.message


def test_a_pod_whose_eviction_was_decided_counts_as_leaving_until_that_fails() -> None:
    rules = controller_rules(lambda _: ("b",))

    refusal = decided(TWO, WEB, pod("b", on="n2"), rules=rules)

    assert refusal is not None
    assert refusal.reason == "MinReplicas"
    assert WakeOnEviction("b") in refusal.wake_on
    assert decided(TWO, WEB, pod("b", on="n2"), pod("c", on="n2"), rules=rules) is None


NO = ["false", "False", "FALSE", "no", "off", "0", "f", "n", " false "]
YES = ["", "true", "True", "yes", "on", "1", "t", "y"]
STORED = change(WEB, spec=msgspec.structs.replace(WEB.spec, has_local_storage=True))


def evict(value: str, candidate: Pod = STORED) -> Pod:
    return change(candidate, annotations=Annotations(evict=value))


@pytest.mark.parametrize("value", NO)
def test_an_evict_annotation_that_says_no_keeps_a_pod_and_a_sweep_reads_it_as_upstream(
    value: str,
) -> None:
    for candidate in (evict(value), evict(value, WEB)):
        refusal = decided({}, candidate)
        assert refusal is not None
        assert (refusal.gate, refusal.reason) == ("EvictAnnotation", "EvictFalse")
        assert filters({}, candidate).evictable_from_s(candidate) == float("inf")
        assert decided({}, candidate, rules=UPSTREAM_RULES) is None


@pytest.mark.parametrize("value", [*YES, "please", "soon"])
def test_an_evict_annotation_that_does_not_say_no_lets_a_pod_pass_every_protection(
    value: str,
) -> None:
    assert decided({}, STORED) is not None
    assert decided({}, evict(value)) is None
    assert filters({}, STORED).evictable_from_s(evict(value)) == float("-inf")


def test_a_remark_names_the_annotation_by_which_a_pod_passes_and_a_value_that_is_unclear() -> None:
    def remark(candidate: Pod) -> str:
        return filters({}).remark(Finding(candidate, "Test", "why"))

    assert "descheduler.alpha.kubernetes.io/evict" in remark(evict("true"))
    assert "neither" not in remark(evict("true"))
    assert "neither" in remark(evict("please"))
    assert remark(WEB) == remark(evict("false")) == ""


@pytest.mark.parametrize(("value", "goes"), [("", False), ("true", False), ("false", True)])
def test_a_preference_to_stay_may_say_no(
    value: str,
    goes: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    prefers = change(WEB, annotations=Annotations(prefer_no_eviction=value))
    binding = {"noEvictionPolicy": "Mandatory"}

    assert (decided(binding, prefers) is None) is goes
    assert filters({}).prefers_no_eviction(prefers) is not goes
    assert decided(binding, prefers, rules=UPSTREAM_RULES) is not None
