"""An answer that takes many steps holds up its own subject: others have turns between them."""

from collections.abc import Iterable, Iterator

import pytest
from msgspec.structs import replace

from reactive_desched.api import BalancePlugin, DeschedulePlugin, PluginArgs, View
from reactive_desched.api.balance_plugin import Plan as PlanSteps
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.work_queue import PodBackoff
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.changes import Change, Resynced
from reactive_desched.model.decisions import Decision, Evict, Refuse
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import HOSTNAME_LABEL, TopologySpreadConstraint
from reactive_desched.model.subjects import PodSubject
from reactive_desched.plugins.consolidate_nodes import ConsolidateNodesArgs, ConsolidateNodesPlugin
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.primitives import long_answers
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes import selectors
from reactive_desched.state.indexes.pod_affinity import PodAffinity
from reactive_desched.testing.anti_affinity import anti_affinity_term, selector, with_anti_affinity
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.testing.scenario import build_view

TERMS = [anti_affinity_term(f"no{number} notin (x)") for number in range(3)]
ASKING = with_anti_affinity(pod("asking", on="n1"), *TERMS)
OTHERS = [pod(f"p{number}", on="n2") for number in range(20)]


class EveryPod(DeschedulePlugin[PodSubject, PluginArgs]):
    """Finds something wrong with one pod, once for each of its terms; a fault is a wrong answer."""

    name = "EveryPod"
    reacts_to = (Resynced,)

    def subjects(self, change: Change, view: View) -> Iterable[PodSubject]:
        return (PodSubject(ASKING.uid),)

    def judge(self, subject: PodSubject, view: View) -> Iterator[Finding]:
        bound = view.pod_and_node(subject.pod)
        assert bound is not None
        found = bound[0]
        try:
            matching = view.index(PodAffinity).matching_term(TERMS[0], found)
        except Exception:  # noqa: BLE001  # as a plugin may that takes all errors alike
            return
        yield Finding(found, self.name, f"{sum(map(matching.count, matching.values()))} match")


class Plan(BalancePlugin[str, PluginArgs]):
    """Proposes two pods; its own question takes no steps."""

    name = "Plan"
    reacts_to = (Resynced,)

    def __init__(self) -> None:
        super().__init__(PluginArgs())
        self.begun = 0
        self.received: list[Decision] = []

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        return ("all",)

    def balance(self, subject: str, view: View) -> PlanSteps:
        self.begun += 1
        for found in (ASKING, OTHERS[0]):
            self.received.append((yield Finding(found, self.name, "too many")))


class Bench:
    """An evaluator whose gate asks for every term of the pod, too, and refuses it."""

    def __init__(self, plugin: AnyPlugin | None = None) -> None:
        self.state = ClusterState()
        for each in (node("n1"), node("n2")):
            self.state.upsert(each)
        for found in (ASKING, *OTHERS):
            self.state.upsert(found)
        self.view = build_view(self.state)
        self.index = self.state.index(PodAffinity)
        plugin = plugin or EveryPod(PluginArgs())
        instance = PluginInstance("p", plugin, self, self.view, DebounceConfig(0, 0))
        fit = SchedulerNodeFit(self.view, lambda: 0)
        self.evaluator = Evaluator([instance], PodBackoff(RetrySettings()), fit)
        self.evaluations: list[Evaluation] = []

    def decide(self, finding: Finding, _: float) -> Decision:
        counts = []
        for term in TERMS:
            matching = self.index.matching_term(term, finding.pod)
            counts.append(sum(map(matching.count, matching.values())))
        return Refuse(finding, "Test", "TestRefusal", str(counts))

    def held_since(self, finding: Finding, _: float) -> str:
        raise NotImplementedError

    def turn(self) -> None:
        self.evaluations += self.evaluator.process_due(0, lambda: True)

    def work(self) -> int:
        """Work to the end; return in how many turns."""
        turns = 0
        while (due := self.evaluator.next_due(0)) is not None and due <= 0:
            self.turn()
            turns += 1
        return turns


@pytest.fixture(autouse=True)
def _short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (long_answers, selectors):
        monkeypatch.setattr(module, "PORTION", 1)
    monkeypatch.setattr(selectors, "SHORT_STEPS", 0)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.evaluator.resync(0)
    return made


def test_a_pod_whose_terms_match_many_is_decided_after_all_of_their_pods_are_collected(
    bench: Bench,
) -> None:
    turns = bench.work()

    assert turns > len(TERMS) * len(OTHERS)
    [evaluation] = bench.evaluations
    assert evaluation.decision.finding.message == "21 match"
    assert isinstance(evaluation.decision, Refuse)
    assert evaluation.decision.message == "[21, 21, 21]"


def test_what_happens_between_the_steps_counts(bench: Bench) -> None:
    for _ in range(10):
        bench.turn()
    for gone in OTHERS[:3]:
        bench.state.remove(gone)
    bench.state.upsert(replace(OTHERS[3], labels={"no1": "x"}))
    bench.state.upsert(pod("new", on="n1"))

    bench.work()

    [evaluation] = bench.evaluations
    assert isinstance(evaluation.decision, Refuse)
    assert evaluation.decision.message == "[19, 18, 19]"


def test_a_plugin_of_pods_looks_again_where_the_gate_waited_for_an_answer(bench: Bench) -> None:
    for _ in range(2 * len(OTHERS)):
        bench.turn()  # the plugin has its answer, the gate not yet
    for gone in OTHERS[:3]:
        bench.state.remove(gone)

    bench.work()

    [evaluation] = bench.evaluations
    assert evaluation.decision.finding.message == "18 match"


def test_a_refusal_is_the_same_again_after_the_steps_of_another_evaluation(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "LARGE_PODS", 0)
    monkeypatch.setattr(selectors, "MAX_RECENT_PODS", 0)
    bench.work()
    for text in "abcd":
        bench.index.matching_term(anti_affinity_term(text), ASKING)

    bench.evaluator.resync(0)
    assert bench.work() > len(OTHERS)

    assert [each.changed for each in bench.evaluations] == [True, False]


def test_who_asks_outside_an_evaluation_is_answered_at_once(bench: Bench) -> None:
    bench.turn()

    matching = bench.index.matching_term(TERMS[1], ASKING)

    assert sum(map(matching.count, matching.values())) == 21


@pytest.mark.parametrize("plugin", [None, Plan], ids=["of pods", "a plan"])
def test_what_a_person_had_asked_for_before_takes_fewer_turns_and_as_many_steps(
    plugin: type[Plan] | None,
) -> None:
    asked, other = (Bench(None if plugin is None else plugin()) for _ in range(2))
    for term in TERMS:
        asked.index.matching_term(term, ASKING)
    for bench in (asked, other):
        bench.evaluator.resync(0)

    assert asked.work() < other.work()
    assert asked.evaluator.steps == other.evaluator.steps


def test_evictions_are_decided_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = bench.decide

    def decide(finding: Finding, now: float) -> Decision:
        refuse(finding, now)
        return Evict(finding)

    monkeypatch.setattr(bench, "decide", decide)

    bench.work()

    assert [type(each.decision) for each in bench.evaluations] == [Evict]


def test_a_plan_goes_on_where_it_was_once_a_decision_has_its_answer() -> None:
    plan = Plan()
    bench = Bench(plan)
    bench.evaluator.resync(0)

    assert bench.work() > len(TERMS) * len(OTHERS)

    assert plan.begun == 1
    assert [each.finding.pod for each in plan.received] == [ASKING, OTHERS[0]]
    messages = [
        each.decision.message for each in bench.evaluations if isinstance(each.decision, Refuse)
    ]
    assert messages == ["[21, 21, 21]"] * 2


def test_a_finding_of_a_plan_whose_pod_changes_between_the_steps_is_decided_on_the_new_pod() -> (
    None
):
    plan = Plan()
    bench = Bench(plan)
    bench.evaluator.resync(0)
    for _ in range(10):
        bench.turn()
    changed = replace(ASKING, labels={"no1": "x"})
    bench.state.upsert(changed)

    bench.work()

    assert [each.finding.pod for each in plan.received] == [changed, OTHERS[0]]


def test_a_finding_of_a_plan_whose_pod_goes_between_the_steps_is_not_decided() -> None:
    plan = Plan()
    bench = Bench(plan)
    bench.evaluator.resync(0)
    for _ in range(10):
        bench.turn()
    bench.state.remove(ASKING)

    bench.work()

    assert [each.decision.finding.pod for each in bench.evaluations] == [OTHERS[0]]
    assert plan.received[0].pod_leaves


class Emptying(ConsolidateNodesPlugin):
    """Counts its plans, and what they find."""

    def __init__(self) -> None:
        super().__init__(ConsolidateNodesArgs(headroom={}, min_saving=0))
        self.begun = 0

    def balance(self, subject: str, view: View) -> PlanSteps:
        self.begun += 1
        return super().balance(subject, view)


def test_a_plan_to_empty_nodes_awaits_answers_and_is_not_begun_anew_for_each() -> None:
    """Each workload has a constraint of its own: a plan made anew for each would never end."""
    plugin = Emptying()
    bench = Bench(plugin)
    bench.state.remove(ASKING)
    for number in range(4):
        app = {"app": f"a{number}"}
        rule = TopologySpreadConstraint(
            9, HOSTNAME_LABEL, label_selector=selector(f"app=a{number}")
        )
        for each in range(3):
            bench.state.upsert(
                with_spec(
                    pod(f"{number}-{each}", on="n1", labels=app),
                    topology_spread_constraints=(rule,),
                )
            )
    bench.evaluator.resync(0)
    turns = bench.work()

    assert plugin.begun == 1
    assert turns > 4 * 3
    assert {each.finding.pod.node for each in bench.evaluations} == {"n1"}
