import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from reactive_desched.api import PluginArgs, PodPlugin, View
from reactive_desched.api.index import Index
from reactive_desched.errors import ConfigError
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Evict, Refuse
from reactive_desched.model.findings import Finding, RequeueAfter
from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import ClusterObject, Namespace, Pod, PriorityClass
from reactive_desched.model.plugin_faults import describe_error
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.sweep.cycle import Cycle, CycleDecision
from reactive_desched.sweep.thresholds import check_thresholds
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import make_policy, make_profile_of
from tests.support.golden import Golden

Things = list[ClusterObject]
TWO_NODES: Things = [node("n1"), node("n2")]


class Wrong(PodPlugin[PluginArgs]):
    """Flags the pods of these names, in this order."""

    name = "Wrong"
    reacts_to = ()

    def __init__(self, *names: str, name: str = "Wrong", point: str = "deschedule") -> None:
        super().__init__(PluginArgs())
        self.names = names
        vars(self).update(name=name, extension_point=point)
        self.seen: list[str] = []
        self.needs_fit = False

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding | RequeueAfter]:
        yield RequeueAfter(5)
        _, pods = view.pods_of(subject) or (None, ())
        on_node = {found.name: found for found in pods}
        self.seen += on_node
        for name in self.names:
            if name in on_node:
                yield Finding(on_node[name], self.name, "wrong", needs_fit=self.needs_fit)


class AllAtOnce(Wrong):
    """Wants all findings before the first eviction."""

    def sweep(self, view: View) -> Iterator[list[Finding]]:
        found = [finding for portion in super().sweep(view) for finding in portion]
        yield sorted(found, key=lambda finding: self.names.index(finding.pod.name))


class Picture:
    """A small cluster under some plugins, swept once."""

    def __init__(
        self,
        things: Iterable[ClusterObject],
        *profiles: tuple[str, tuple[AnyPlugin, ...], DefaultEvictorArgs],
        limits: Mapping[str, int | None] | None = None,
    ) -> None:
        self.state = ClusterState()
        for thing in things:
            self.state.upsert(thing)
        self.view = ClusterView(self.state, lambda: 0.0)
        self.plan = make_policy(
            tuple(make_profile_of(*profile) for profile in profiles), limits=limits
        )
        self.cycle = Cycle(self.plan, self.state, self.view)

    def decided(self, happens: Callable[[str], bool] = lambda _: True) -> list[CycleDecision]:
        """Run the cycle; an eviction happens where `happens` says so."""
        found: list[CycleDecision] = []
        for decided in self.cycle.run():
            found.append(decided)
            if isinstance(decided.decision, Evict) and happens(decided.finding.pod.name):
                self.cycle.confirm(decided)
        return found

    def told(self) -> list[str]:
        return [f"{type(one.decision).__name__} {one.finding.pod.name}" for one in self.decided()]


def profile(
    *plugins: AnyPlugin, name: str = "p", **args: Any
) -> tuple[str, tuple[AnyPlugin, ...], DefaultEvictorArgs]:
    return name, plugins, DefaultEvictorArgs.model_validate(args)


def test_what_is_wrong_is_evicted_node_by_node_and_by_rank() -> None:
    pods: Things = [pod("a", on="n2"), pod("b", on="n1"), pod("c", on="n1"), pod("fine", on="n1")]
    picture = Picture([*TWO_NODES, *pods], profile(Wrong("a", "c", "b")))

    assert picture.told() == ["Evict c", "Evict b", "Evict a"]


def test_a_plugin_that_gathers_orders_the_findings_of_all_nodes() -> None:
    pods: Things = [pod("a", on="n2"), pod("b", on="n1"), pod("c", on="n1")]
    picture = Picture([*TWO_NODES, *pods], profile(AllAtOnce("a", "c", "b")))

    assert picture.told() == ["Evict a", "Evict c", "Evict b"]


def test_a_pod_that_left_is_gone_in_the_next_answer() -> None:
    later = Wrong("a", name="Later")
    picture = Picture([*TWO_NODES, pod("a", on="n1")], profile(Wrong("a"), later))

    assert picture.told() == ["Evict a"]
    assert later.seen == []


def test_a_pod_whose_eviction_failed_is_still_there_and_costs_nothing() -> None:
    things: Things = [*TWO_NODES, pod("a", on="n1")]
    plugins = profile(Wrong("a"), Wrong("a", name="Later"))
    picture = Picture(things, plugins, limits={"cluster": 1})

    decided = picture.decided(lambda _: False)

    assert [one.finding.plugin for one in decided] == ["Wrong", "Later"]
    assert {type(one.decision) for one in decided} == {Evict}
    assert "a" in set(picture.state.keys("pods"))


def test_nothing_happens_unless_two_nodes_count() -> None:
    alone = Picture([node("n1"), node("n2", ready="False"), pod("a", on="n1")], profile(Wrong("a")))

    assert alone.decided() == []
    assert alone.cycle.skip_reason() is not None
    assert Picture(TWO_NODES, profile(Wrong())).cycle.skip_reason() is None


def test_everything_that_deschedules_comes_before_anything_that_balances() -> None:
    order: list[str] = []

    def plugin(name: str, point: str) -> Wrong:
        class Noted(Wrong):
            def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding | RequeueAfter]:
                order.append(name)
                return super().judge(subject, view)

        return Noted(name=name, point=point)

    first = profile(plugin("balance 1", "balance"), plugin("deschedule 1", "deschedule"))
    second = profile(plugin("balance 2", "balance"), plugin("deschedule 2", "deschedule"))
    Picture(TWO_NODES, first, second).decided()

    assert order[::2] == ["deschedule 1", "deschedule 2", "balance 1", "balance 2"]


def test_a_refusal_names_profile_plugin_and_guard() -> None:
    things: Things = [*TWO_NODES, pod("a", on="n1", owner=None)]
    [one] = Picture(things, profile(Wrong("a"), name="night")).decided()

    assert (one.profile, one.finding.plugin) == ("night", "Wrong")
    assert isinstance(one.decision, Refuse)
    assert (one.decision.gate, one.decision.reason) == ("FailedBarePods", "NoController")


def test_guards_are_asked_about_a_whole_node_before_the_first_of_it_goes() -> None:
    pods: Things = [pod("a", on="n1"), pod("b", on="n1"), pod("c", on="n2")]
    picture = Picture([*TWO_NODES, *pods], profile(Wrong("a", "b", "c"), minReplicas=3))

    assert picture.told() == ["Evict a", "Evict b", "Refuse c"]


def test_limits_count_over_all_profiles() -> None:
    pods: Things = [pod("a", on="n1"), pod("b", on="n1")]
    profiles = (profile(Wrong("a"), name="x"), profile(Wrong("b"), name="y"))
    picture = Picture([*TWO_NODES, *pods], *profiles, limits={"node": 1})

    assert picture.told() == ["Evict a", "Refuse b"]


@pytest.mark.parametrize("evictor_asks", [False, True])
def test_a_pod_must_fit_where_evictor_or_plugin_ask_for_it(*, evictor_asks: bool) -> None:
    plugin = Wrong("a")
    plugin.needs_fit = not evictor_asks
    things: Things = [
        node("n1", unschedulable=True),
        node("n2", allocatable={"cpu": "1", "pods": "9"}),
        pod("a", on="n1", requests={"cpu": "2"}),
    ]
    [one] = Picture(things, profile(plugin, nodeFit=evictor_asks)).decided()

    assert isinstance(one.decision, Refuse)
    assert one.decision.gate == "NodeFit"


def test_the_room_of_a_pod_that_left_is_there_for_the_next() -> None:
    full = {"cpu": "1", "pods": "9"}
    things: Things = [
        node("n1", allocatable=full),
        node("n2", allocatable=full),
        pod("a", on="n1", requests={"cpu": "1"}),
        pod("b", on="n2", requests={"cpu": "1"}),
    ]
    plugins = profile(Wrong("b", name="First"), Wrong("a"), nodeFit=False)
    picture = Picture(things, plugins)
    assert picture.told() == ["Evict b", "Evict a"]

    fitting = Picture(
        things, profile(Wrong("b", name="Free"), nodeFit=False), profile(Wrong("a"), nodeFit=True)
    )
    assert fitting.told() == ["Evict b", "Evict a"]
    assert Picture(things, profile(Wrong("a"), nodeFit=True)).told() == ["Refuse a"]


def test_the_namespace_must_match_after_everything_else() -> None:
    things: Things = [*TWO_NODES, Namespace("shop", "1", labels={"move": "yes"})]
    pods: Things = [pod("a", on="n1", namespace="shop"), pod("b", on="n1")]
    selector = {"matchLabels": {"move": "yes"}}
    picture = Picture([*things, *pods], profile(Wrong("a", "b"), namespaceLabelSelector=selector))

    assert picture.told() == ["Evict a", "Refuse b"]


def test_a_threshold_by_the_name_of_a_class_that_is_not_there_is_an_error() -> None:
    picture = Picture(TWO_NODES, profile(Wrong(), name="night", priorityThreshold={"name": "high"}))

    with pytest.raises(ConfigError, match=r'"night".*unable to get priority value.*"high"'):
        check_thresholds(picture.plan.profiles, picture.view)


@pytest.mark.parametrize(("value", "fine"), [(2_000_000_000, True), (2_000_000_001, False)])
def test_a_threshold_by_class_may_not_be_above_the_highest(value: int, *, fine: bool) -> None:
    things: Things = [*TWO_NODES, PriorityClass("high", "1", value=value)]
    picture = Picture(things, profile(Wrong(), priorityThreshold={"name": "high"}))

    if fine:
        check_thresholds(picture.plan.profiles, picture.view)
    else:
        with pytest.raises(ConfigError, match="must be at most 2000000000"):
            check_thresholds(picture.plan.profiles, picture.view)


class Failing(Wrong):
    """Flags its pods, and raises an exception then."""

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding | RequeueAfter]:
        yield from super().judge(subject, view)
        if "a" in self.seen:
            raise ZeroDivisionError("division by zero")


class FailingAtOnce(Wrong):
    """Cannot even begin."""

    def sweep(self, view: View) -> Iterator[list[Finding]]:
        raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize("failing", [Failing("a"), FailingAtOnce("a")], ids=["later", "at once"])
def test_a_plugin_that_fails_ends_no_sweep_and_is_named(failing: Wrong) -> None:
    pods: Things = [pod("a", on="n1"), pod("b", on="n2")]
    picture = Picture([*TWO_NODES, *pods], profile(failing, Wrong("b", name="Later")))

    assert picture.told() == ["Evict b"]
    [fault] = picture.cycle.faults
    assert (fault.profile, fault.plugin, fault.cause) == (
        "p",
        "Wrong",
        "ZeroDivisionError: division by zero",
    )
    assert "ZeroDivisionError" in fault.traceback


@pytest.mark.parametrize("error", [MemoryError(), SystemExit(3), BaseException()])
def test_whatever_a_plugin_raises_ends_no_sweep(error: BaseException) -> None:
    class Odd(Wrong):
        def sweep(self, view: View) -> Iterator[list[Finding]]:
            raise error

    pods: Things = [pod("a", on="n1"), pod("b", on="n2")]
    picture = Picture([*TWO_NODES, *pods], profile(Odd("a"), Wrong("b", name="Later")))

    assert picture.told() == ["Evict b"]
    assert [fault.cause for fault in picture.cycle.faults] == [describe_error(error)]


class Fragile(Index):
    """Raises when the pod called a is gone."""

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        if new is None and old is not None and old.name == "a":
            raise KeyError("a")
        return ()

    def answers(self) -> object:
        return ()


class Reader(Wrong):
    """Reads the index once, and holds it."""

    indexes = (Fragile,)

    def sweep(self, view: View) -> Iterator[list[Finding]]:
        view.index(Fragile)
        yield from super().sweep(view)


def test_an_index_that_fails_in_a_sweep_ends_its_readers_and_no_others(golden: Golden) -> None:
    reader, other = Reader("a", "b", name="Reader"), Wrong("c", name="Other")
    pods: Things = [pod("a", on="n1"), pod("b", on="n2"), pod("c", on="n2")]
    picture = Picture([*TWO_NODES, *pods], profile(reader, other))

    assert picture.told() == ["Evict a", "Evict c"]
    [fault] = picture.cycle.faults
    assert fault.plugin == "Reader"
    assert fault.cause == golden()


def test_a_profile_sweeps_the_pods_of_its_nodes_alone_whatever_their_annotation() -> None:
    things: Things = [node("n1", labels={"pool": "blue"}), node("n2")]
    things += [pod("a", on="n1"), pod("b", on="n2", evict="true")]
    state = ClusterState()
    for thing in things:
        state.upsert(thing)
    profile = make_profile_of("p", (Wrong("a", "b"),))
    blue = dataclasses.replace(profile, node_selector=parse_selector("pool=blue"))
    cycle = Cycle(make_policy((blue,)), state, ClusterView(state, lambda: 0.0))
    decisions = {}
    for each in cycle.run():
        decisions[each.decision.finding.pod.name] = each.decision
        if isinstance(each.decision, Evict):
            cycle.confirm(each)

    assert isinstance(decisions["a"], Evict)
    refused = decisions["b"]
    assert isinstance(refused, Refuse)
    assert refused.reason == "NodeOutsideProfile"
