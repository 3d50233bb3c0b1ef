from typing import Any

import pytest

from reactive_desched.announcing import Announcer, own_pod
from reactive_desched.kube.events import Event, Regarding
from reactive_desched.model.changes import NodeTaintsChanged
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import (
    BUDGET_REFUSED,
    DENIED,
    EVICTED,
    FAILED,
    GONE,
    OVERLOADED,
    REPLACED,
    WITHHELD,
    Outcome,
)
from reactive_desched.model.subjects import OnePod
from reactive_desched.planning import registry
from reactive_desched.plugins.node_taints import NodeTaints, NodeTaintsArgs
from reactive_desched.policy.documents import Source
from reactive_desched.policy.load import configure
from reactive_desched.react.instances import Instance
from reactive_desched.react.judgement import Cause, Judgement
from reactive_desched.testing.builders import pod

TAINTS = NodeTaints.name
WEB = pod("web", on="n1", namespace="shop", uid="uid-1")
FINDING = Finding(WEB, TAINTS, "does not tolerate gpu")
ABOUT_WEB = Regarding("Pod", "shop", "web", "uid-1")
OURSELVES = Regarding("Pod", "ops", "controller-1", "uid-9")
DONE = Event(
    ABOUT_WEB,
    TAINTS,
    "Descheduled",
    "pod eviction from n1 node by reactive-desched:"
    " RemovePodsViolatingNodeTaints of profile day: does not tolerate gpu",
)


def failure(detail: str) -> Event:
    note = (
        f"pod eviction from n1 node by reactive-desched failed: {detail}"
        " (RemovePodsViolatingNodeTaints of profile day: does not tolerate gpu)"
    )
    return Event(ABOUT_WEB, "EvictionFailed", "Descheduled", note, is_warning=True)


def judgement(decision: Decision, *, is_news: bool = True) -> Judgement:
    instance = Instance("day", NodeTaints(NodeTaintsArgs()), None)  # type: ignore[arg-type]  # never asked
    cause = Cause(NodeTaintsChanged("n1"), at=10.0)
    return Judgement((instance, OnePod("uid-1")), decision, cause, 10.5, is_news)


BEGUN = judgement(Evict(FINDING))


class Bench:
    """An announcer under a policy, and the Events it had recorded."""

    def __init__(
        self, *, failures: bool = False, wanted: bool = True, pod: Regarding | None = OURSELVES
    ) -> None:
        self.events: list[Event] = []
        self.is_wanted = wanted
        self.tells_failures = failures
        self.announcer = Announcer(self.events.append, self._in_force, pod)

    def _in_force(self) -> Any:  # a Configuration
        text = (
            "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
            f"evictionFailureEventNotification: {str(self.tells_failures).lower()}\n---\n"
            "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
            f"events: {{kubernetes: {str(self.is_wanted).lower()}}}\n"
        )
        return configure([Source(text, "p.yaml")], registry())


@pytest.mark.parametrize("failures", [False, True])
def test_an_eviction_is_told_with_its_node_plugin_profile_and_reason(*, failures: bool) -> None:
    bench = Bench(failures=failures)
    bench.announcer.judged(BEGUN)
    assert bench.events == []

    bench.announcer.ended(BEGUN, Outcome(EVICTED), 1.0)
    assert bench.events == [DONE]


@pytest.mark.parametrize("result", [BUDGET_REFUSED, OVERLOADED, DENIED, FAILED])
def test_a_failed_eviction_is_told_if_the_policy_asks_for_it(result: str) -> None:
    silent, telling = Bench(), Bench(failures=True)
    for bench in (silent, telling):
        bench.announcer.ended(BEGUN, Outcome(result, "403: no"), 1.0)
        bench.announcer.ended(BEGUN, Outcome(result), 1.0)

    assert silent.events == []
    assert telling.events == [failure("403: no"), failure(result)]


@pytest.mark.parametrize("result", [GONE, REPLACED, WITHHELD])
def test_what_needed_no_eviction_or_was_never_asked_for_is_not_told(result: str) -> None:
    bench = Bench(failures=True)
    bench.announcer.ended(BEGUN, Outcome(result, "why"), 1.0)

    assert bench.events == []


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(Defer(FINDING, "EvictionLimit", "2 in 300s", 9.0), id="reached"),
        pytest.param(Refuse(FINDING, "EvictionLimit", "2 in 300s"), id="nothing allowed"),
    ],
)
def test_a_limit_of_the_policy_is_told_as_a_failure_once(decision: Decision) -> None:
    silent, telling = Bench(), Bench(failures=True)
    for bench in (silent, telling):
        bench.announcer.judged(judgement(decision))
        bench.announcer.judged(judgement(decision, is_news=False))

    assert silent.events == []
    assert telling.events == [failure("2 in 300s")]


def test_what_other_gates_say_is_not_told() -> None:
    bench = Bench(failures=True)
    bench.announcer.judged(judgement(Defer(FINDING, "EvictionBudget", "spent", 9.0)))
    bench.announcer.judged(judgement(Refuse(FINDING, "NodeFit", "no room")))

    assert bench.events == []


def test_settings_switch_all_of_it_off_while_it_runs() -> None:
    bench = Bench(failures=True, wanted=False)
    bench.announcer.ended(BEGUN, Outcome(EVICTED), 1.0)
    bench.announcer.ended(BEGUN, Outcome(FAILED), 1.0)
    bench.announcer.reloaded("a")
    bench.announcer.rejected("b")
    assert bench.events == []

    bench.is_wanted, bench.tells_failures = True, False
    bench.announcer.ended(BEGUN, Outcome(EVICTED), 1.0)
    bench.announcer.ended(BEGUN, Outcome(FAILED), 1.0)
    assert bench.events == [DONE]


def test_a_policy_is_told_beside_our_own_pod() -> None:
    bench = Bench()
    bench.announcer.reloaded("revision 2")
    bench.announcer.rejected("kept revision 2")

    assert bench.events == [
        Event(OURSELVES, "PolicyReloaded", "ReloadPolicy", "revision 2"),
        Event(OURSELVES, "PolicyRejected", "ReloadPolicy", "kept revision 2", is_warning=True),
    ]


def test_who_does_not_know_its_pod_says_nothing_of_policies() -> None:
    bench = Bench(pod=None)
    bench.announcer.reloaded("revision 2")
    bench.announcer.rejected("kept revision 2")

    assert bench.events == []


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        pytest.param({}, None, id="outside a cluster"),
        pytest.param({"POD_NAME": "a"}, None, id="half of it"),
        pytest.param({"POD_NAME": "", "POD_NAMESPACE": "ops"}, None, id="an empty name"),
        pytest.param(
            {"POD_NAME": "a", "POD_NAMESPACE": "ops"},
            Regarding("Pod", "ops", "a"),
            id="without a uid",
        ),
        pytest.param(
            {"POD_NAME": "a", "POD_NAMESPACE": "ops", "POD_UID": "u"},
            Regarding("Pod", "ops", "a", "u"),
            id="all of it",
        ),
    ],
)
def test_our_own_pod_is_what_the_environment_says(
    environ: dict[str, str], found: Regarding | None
) -> None:
    assert own_pod(environ) == found
