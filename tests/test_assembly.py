from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import anyio
import pytest
import trio.testing

from reactive_desched.assembly import Core, Plan, ProfilePlan
from reactive_desched.errors import Malformed
from reactive_desched.gate.budgets import Rate
from reactive_desched.gate.fit import SCHEDULER, UPSTREAM
from reactive_desched.gate.gate import Gate
from reactive_desched.model.accounts import Account
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeGone,
    NodeTaintsChanged,
    PodLabelsChanged,
    Resynced,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.intents import Intent
from reactive_desched.model.labels import EVERYTHING, Selector, parse_selector
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.outcomes import Answer, Denied, EvictionRequest, Outcome
from reactive_desched.model.triggers import Trigger
from reactive_desched.plugins.node_affinity import (
    PREFERRED,
    REQUIRED,
    NodeAffinity,
    NodeAffinityArgs,
)
from reactive_desched.plugins.node_taints import NodeTaints, NodeTaintsArgs
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.react.debounce import Pause
from reactive_desched.react.judgement import Judgement
from reactive_desched.state.cluster import RESOURCES
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.flow import FakeEvictor, MemoryLedger

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


TAINTS = NodeTaints(NodeTaintsArgs())
AFFINITY = NodeAffinity(NodeAffinityArgs(node_affinity_type=(PREFERRED,)))
AFFINITY_REQUIRED = NodeAffinity(NodeAffinityArgs(node_affinity_type=(REQUIRED,)))
TAINTED = node("n1", "gpu:NoSchedule")


class Listener:
    """Keeps what it hears, as short tuples."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def changed(self, changes: Iterable[Change]) -> None:
        self.heard += [("changed", change) for change in changes]

    def judged(self, judgement: Judgement) -> None:
        kind = type(judgement.decision).__name__
        self.heard.append(("judged", (judgement.instance.profile, kind)))

    def ended(self, judgement: Judgement, outcome: Outcome, asked_at: float, /) -> None:
        self.heard.append(("ended", (judgement.finding.pod.name, outcome.result, asked_at)))

    def held_back(self, reason: str | None) -> None:
        self.heard.append(("held back", reason))

    def malformed(self, resource: str, error: Malformed, /) -> None:
        self.heard.append(("malformed", (resource, error.name)))

    def of(self, kind: str) -> list[Any]:
        return [what for heard, what in self.heard if heard == kind]


class Server(FakeEvictor):
    """Takes its time to answer."""

    slow_s = 0.0
    open = 0

    async def evict(self, request: EvictionRequest) -> Answer:
        self.open += 1
        await anyio.sleep(self.slow_s)
        return await super().evict(request)


class Ledger(MemoryLedger):
    """Keeps whole intents."""

    def __init__(self) -> None:
        super().__init__()
        self.intents: list[Intent] = []

    async def begin(self, intent: Intent) -> str:
        self.intents.append(intent)
        return await super().begin(intent)


def profile(name: str = "day", *plugins: Any, **evictor: Any) -> ProfilePlan:  # any plugin, field
    return ProfilePlan(name, plugins or (TAINTS,), DefaultEvictorArgs.model_validate(evictor))


def make_plan(
    *profiles: ProfilePlan,
    selects: Selector = EVERYTHING,
    rates: Mapping[str, Rate | None] | None = None,
    limits: Mapping[str, int | None] | None = None,
    **settings: Any,  # other fields of a plan
) -> Plan:
    pause = settings.pop("pause", lambda _: Pause(0, 0))
    return Plan(profiles or (profile(),), selects, rates or {}, limits or {}, pause, **settings)


class Bench:
    """A core with fakes at its edges."""

    def __init__(
        self,
        *profiles: ProfilePlan,
        selects: Selector = EVERYTHING,
        rates: Mapping[str, Rate | None] | None = None,
        limits: Mapping[str, int | None] | None = None,
        may_write: Callable[[], str | None] = lambda: None,
        **settings: Any,  # other fields of a plan
    ) -> None:
        self.listener, self.ledger, self.server = Listener(), Ledger(), Server()
        self.core = Core(
            make_plan(*profiles, selects=selects, rates=rates, limits=limits, **settings),
            ledger=self.ledger,
            evictor=self.server,
            listener=self.listener,
            clock=anyio.current_time,
            wall_clock=lambda: 0.0,
            may_write=may_write,
        )
        self.feeds = {resource: self.core.feed(resource) for resource in RESOURCES}

    def list_all(self, *things: ClusterObject) -> None:
        for feed in self.feeds.values():
            feed.begin_replace()
        self.deliver(*things)
        for feed in self.feeds.values():
            feed.end_replace()
            feed.fresh()

    def deliver(self, *things: ClusterObject) -> None:
        for thing in things:
            self.feeds[f"{type(thing).__name__.lower()}s"].upsert(thing)

    async def live(self, *things: ClusterObject, seconds: float = 1) -> None:
        """Begin with a whole picture, deliver a taint, and let time pass."""
        async with anyio.create_task_group() as group:
            await group.start(self.core.evictions.run)
            group.start_soon(self.core.stage.run)
            self.list_all(node("n1"), node("n2"), *things)
            self.core.hold_back(None)
            self.deliver(TAINTED)
            await anyio.sleep(seconds)
            group.cancel_scope.cancel()

    @property
    def asked(self) -> list[str]:
        return [name for name, _ in self.server.asked]


def gates(bench: Bench) -> list[list[str]]:
    """Name the steps of every profile's gate."""
    instances = bench.core.engine._instances
    made = [instance.gate for instance in instances if isinstance(instance.gate, Gate)]
    return [[step.name for step in gate.steps] for gate in made]


async def test_gates_are_asked_in_the_order_the_docs_give() -> None:
    bench = Bench(profile(nodeFit=True, namespaceLabelSelector={"matchLabels": {"env": "prod"}}))

    assert gates(bench) == [
        [
            "InFlight",
            "DefaultEvictor",
            "TwoNodes",
            "Leaving",
            "NamespaceLabelSelector",
            "NodeFit",
            "DisruptionBudget",
            "EvictionLimit",
        ]
    ]


@pytest.mark.parametrize("selector", [None, {}], ids=["none", "an empty one"])
async def test_without_a_namespace_selector_nobody_asks_for_namespaces(
    selector: dict[str, Any] | None,
) -> None:
    [steps] = gates(Bench(profile(namespaceLabelSelector=selector)))

    assert "NamespaceLabelSelector" not in steps


async def test_plugins_of_a_profile_share_its_gate_and_profiles_do_not() -> None:
    bench = Bench(profile("day", TAINTS, AFFINITY), profile("night"))
    first, second, third = bench.core.engine._instances

    assert [i.profile for i in (first, second, third)] == ["day", "day", "night"]
    assert first.gate is second.gate
    assert third.gate is not first.gate


async def test_every_plugin_has_its_own_patience() -> None:
    bench = Bench(
        profile("day", TAINTS, AFFINITY),
        pause=lambda plugin: Pause(1, 2) if plugin == TAINTS.name else Pause(3, 4),
    )

    assert [i.pause for i in bench.core.engine._instances] == [Pause(1, 2), Pause(3, 4)]


async def test_an_intent_says_all_there_is_to_say() -> None:
    web = pod("web", on="n1")
    bench = Bench(grace_period_s=9)
    await bench.live(web)

    assert bench.ledger.intents == [
        Intent(
            Account(
                Finding(
                    web,
                    TAINTS.name,
                    "does not tolerate gpu:NoSchedule on n1",
                    numbers={"taintKey": "gpu", "taintValue": "", "taintEffect": "NoSchedule"},
                ),
                "day",
                Trigger("NodeTaintsChanged", "node n1"),
                web.owners,
            ),
            grace_period_s=9,
        )
    ]


async def test_an_eviction_is_begun_before_its_announcement() -> None:
    bench = Bench()
    await bench.live(pod("web", on="n1"))

    kinds = [kind for kind, _ in bench.listener.heard if kind in ("judged", "ended")]
    assert kinds == ["judged", "ended"]
    assert bench.listener.of("judged") == [("day", "Evict")]
    [(_, asked_at)] = bench.server.asked
    assert bench.listener.of("ended") == [("web", "evicted", asked_at)]


async def test_changes_are_told_once_the_first_picture_is_whole() -> None:
    bench = Bench()
    await bench.live(pod("web", on="n1"))

    assert bench.listener.of("changed") == [NodeTaintsChanged("n1")]


async def test_why_nothing_is_judged_is_told_when_it_differs() -> None:
    bench = Bench()
    bench.list_all()
    assert bench.listener.of("held back") == []
    bench.core.hold_back(None)
    bench.feeds["pods"].stale("reset")
    bench.feeds["pods"].stale("reset")
    bench.core.hold_back("stopping")
    bench.feeds["pods"].fresh()
    bench.core.hold_back(None)

    assert bench.listener.of("held back") == [None, "pods: reset", "stopping", None]


async def test_nothing_starts_before_both_the_picture_is_whole_and_nobody_holds_it_back() -> None:
    early, late = Bench(), Bench()
    early.core.hold_back(None)
    assert not early.core.started.is_set()
    early.list_all()
    assert early.core.started.is_set()

    late.list_all()
    assert late.core.why_idle() == "still starting"
    assert not late.core.started.is_set()
    late.core.hold_back(None)
    assert late.core.started.is_set()
    assert late.core.why_idle() is None


async def test_the_first_picture_is_swept_once_however_often_the_link_is_lost() -> None:
    bench = Bench()
    bench.list_all(node("n1"))
    bench.core.hold_back(None)
    looks = bench.core.engine.looks
    bench.feeds["nodes"].stale("reset")
    bench.feeds["nodes"].fresh()

    assert looks == 1
    assert bench.core.engine.looks == looks


async def test_while_the_journal_cannot_write_nobody_is_asked_and_it_is_made_up_for() -> None:
    trouble = ["disk full"]
    bench = Bench(may_write=lambda: trouble[0] if trouble else None)
    async with anyio.create_task_group() as group:
        await group.start(bench.core.evictions.run)
        group.start_soon(bench.core.stage.run)
        bench.list_all(TAINTED, node("n2"), pod("web", on="n1"))
        bench.core.hold_back(None)
        assert bench.core.why_idle() == "disk full"
        await anyio.sleep(60)
        assert (bench.asked, bench.ledger.lines) == ([], [])

        assert (bench.listener.of("judged"), bench.ledger.verdicts) == ([], [])

        trouble.clear()
        bench.core.poke()
        await anyio.sleep(6)
        assert bench.asked == ["web"]
        group.cancel_scope.cancel()


async def test_two_profiles_never_ask_for_the_same_pod_at_once() -> None:
    bench = Bench(profile("day"), profile("night"))
    await bench.live(pod("web", on="n1"))

    assert bench.asked == ["web"]
    assert bench.listener.of("judged") == [("day", "Evict"), ("night", "Refuse")]


async def test_what_one_profile_could_not_evict_another_may_after_a_while() -> None:
    bench = Bench(profile("day", labelSelector={"matchLabels": {"app": "web"}}), profile("night"))
    bench.server.script["web"] = [Denied(403, "no")]
    web = pod("web", on="n1", labels={"app": "web"})
    async with anyio.create_task_group() as group:
        await group.start(bench.core.evictions.run)
        group.start_soon(bench.core.stage.run)
        bench.list_all(TAINTED, node("n2"), web)
        bench.core.hold_back(None)
        await anyio.sleep(1)
        bench.deliver(pod("web", on="n1"))
        await anyio.sleep(10)
        group.cancel_scope.cancel()

    assert PodLabelsChanged(pod("web", on="n1")) in bench.listener.of("changed")
    assert bench.asked == ["web", "web"]


async def test_all_profiles_draw_from_the_same_tokens() -> None:
    shop = {"labelSelector": {"matchLabels": {"tier": "shop"}}}
    bench = Bench(profile("day", **shop), profile("night"), rates={"cluster": Rate(0.001, 1)})
    await bench.live(pod("a", on="n1", labels={"tier": "shop"}), pod("b", on="n1"))

    assert len(bench.asked) == 1


async def test_all_profiles_share_the_policys_limits() -> None:
    bench = Bench(profile("day"), profile("night"), limits={"node": 1})
    await bench.live(pod("a", on="n1"), pod("b", on="n1"))

    assert len(bench.asked) == 1


async def test_at_most_so_many_calls_are_open() -> None:
    bench = Bench(at_once=2)
    bench.server.slow_s = 5
    await bench.live(*(pod(name, on="n1") for name in "abc"), seconds=4)
    assert bench.server.open == 2


async def test_retries_wait_as_the_plan_says() -> None:
    bench = Bench(backoff_first_s=2.0, backoff_longest_s=4.0)
    bench.server.script["web"] = [Denied(403, "no")] * 4
    await bench.live(pod("web", on="n1"), seconds=60)

    times = [at for _, at in bench.server.asked]
    assert [round(b - a, 3) for a, b in pairwise(times)] == [2, 4, 4, 4]


async def test_only_selected_nodes_are_judged_and_counted() -> None:
    bench = Bench(selects=parse_selector("pool=a"))
    bench.list_all(
        node("n1", "gpu:NoSchedule", labels={"pool": "a"}),
        node("n2", "gpu:NoSchedule"),
        pod("in", on="n1"),
        pod("out", on="n2"),
    )

    assert bench.core.size() == {"nodes": 1, "pods": 2}
    bench.core.hold_back(None)
    assert bench.listener.of("judged") == [("day", "Refuse")]


async def test_mandatory_no_eviction_is_passed_on() -> None:
    import msgspec

    from reactive_desched.model.objects import Annotations

    shy = msgspec.structs.replace(
        pod("web", on="n1"), annotations=Annotations(prefer_no_eviction="")
    )
    obeying, ignoring = Bench(profile(noEvictionPolicy="Mandatory")), Bench(profile())
    await obeying.live(shy)
    await ignoring.live(shy)

    assert (obeying.asked, ignoring.asked) == ([], ["web"])


async def test_a_malformed_object_is_told() -> None:
    bench = Bench()
    bench.feeds["pods"].malformed(Malformed("Pod", "web", "no spec"))

    assert bench.listener.of("malformed") == [("pods", "web")]


async def test_another_plan_is_in_force_for_everything_from_its_adoption_on() -> None:
    bench = Bench(profile("day", AFFINITY))
    bench.list_all(TAINTED, node("n2"), pod("web", on="n1"))
    async with anyio.create_task_group() as group:
        await group.start(bench.core.evictions.run)
        group.start_soon(bench.core.stage.run)
        bench.core.hold_back(None)
        await anyio.sleep(1)
        assert bench.asked == []

        bench.core.adopt(make_plan(profile("night"), grace_period_s=9))
        await anyio.sleep(1)
        group.cancel_scope.cancel()

    [intent] = bench.ledger.intents
    assert (intent.account.profile, intent.account.trigger.change) == ("night", "Resynced")
    assert intent.grace_period_s == 9
    assert bench.listener.of("changed") == [Resynced()]


async def test_a_plan_adopted_before_the_first_picture_is_the_one_that_judges_it() -> None:
    bench = Bench(profile("day"))
    bench.core.adopt(make_plan(profile("night"), selects=parse_selector("pool=a")))
    assert not bench.core.started.is_set()
    bench.list_all(node("n1", "gpu:NoSchedule", labels={"pool": "a"}), pod("web", on="n1"))
    bench.core.hold_back(None)

    assert bench.core.size()["nodes"] == 1
    assert bench.listener.of("judged") == [("night", "Refuse")]
    assert bench.listener.of("changed") == []


async def test_nothing_is_judged_by_a_new_plan_while_the_link_is_lost() -> None:
    bench = Bench(profile("day", AFFINITY))
    bench.list_all(TAINTED, node("n2"), pod("web", on="n1"))
    bench.core.hold_back(None)
    bench.feeds["pods"].stale("reset")
    bench.core.adopt(make_plan(profile("night")))
    assert bench.listener.of("judged") == []

    bench.feeds["pods"].fresh()
    assert bench.listener.of("judged") == [("night", "Evict")]


async def test_another_node_selector_changes_which_nodes_count_and_says_so() -> None:
    bench = Bench(selects=parse_selector("pool=a"))
    bench.list_all(
        node("n1", "gpu:NoSchedule", labels={"pool": "a"}),
        node("n2", "gpu:NoSchedule", labels={"pool": "b"}),
        node("n3", labels={"pool": "b"}),
        pod("a", on="n1"),
        pod("b", on="n2"),
    )
    bench.core.hold_back(None)
    bench.core.adopt(make_plan(profile("night"), selects=parse_selector("pool=b")))

    assert bench.core.size() == {"nodes": 2, "pods": 2}
    changed = bench.listener.of("changed")
    assert changed == [Resynced(), NodeGone("n1"), NodeAdded("n2"), NodeAdded("n3")]
    assert bench.listener.of("judged") == [("day", "Refuse"), ("night", "Evict")]


@pytest.mark.parametrize("strength", [SCHEDULER, UPSTREAM])
async def test_who_fitted_nowhere_among_the_old_nodes_may_fit_among_the_new(strength: str) -> None:
    fit = profile("day", AFFINITY_REQUIRED, nodeSelector="pool=a")
    bench = Bench(fit, selects=parse_selector("pool=a"), node_fit=strength)
    bench.list_all(
        node("n1", labels={"pool": "a"}),
        node("n2", labels={"pool": "a"}),
        node("n3", labels={"pool": "b", "disk": "ssd"}),
        pod("db", on="n1", requires="disk=ssd"),
    )
    bench.core.hold_back(None)
    bench.core.adopt(make_plan(fit, selects=EVERYTHING, node_fit=strength))

    assert bench.listener.of("judged") == [("day", "Refuse"), ("day", "Evict")]


async def test_what_stands_in_line_when_the_policy_changes_is_judged_by_the_new_one() -> None:
    bench = Bench(profile("day"), at_once=1)
    bench.server.slow_s = 5
    async with anyio.create_task_group() as group:
        await group.start(bench.core.evictions.run)
        group.start_soon(bench.core.stage.run)
        bench.list_all(TAINTED, node("n2"), *(pod(name, on="n1") for name in "abc"))
        bench.core.hold_back(None)
        await anyio.sleep(1)
        shop = {"labelSelector": {"matchLabels": {"tier": "shop"}}}
        bench.core.adopt(make_plan(profile("night", **shop)))
        await anyio.sleep(60)
        group.cancel_scope.cancel()

    assert bench.asked == ["a"]
    ended = [(name, result) for name, result, _ in bench.listener.of("ended")]
    assert ended == [("a", "evicted"), ("b", "withheld"), ("c", "withheld")]


async def test_tokens_limits_and_rests_outlive_the_plan() -> None:
    paced: dict[str, Any] = {"rates": {"cluster": Rate(0.001, 2)}, "limits": {"node": 2}}
    bench = Bench(profile("day"), **paced)
    bench.server.script["a"] = [Denied(403, "no")] * 9
    async with anyio.create_task_group() as group:
        await group.start(bench.core.evictions.run)
        group.start_soon(bench.core.stage.run)
        bench.list_all(TAINTED, node("n2"), *(pod(name, on="n1") for name in "abcd"))
        bench.core.hold_back(None)
        await anyio.sleep(0.1)
        assert sorted(bench.asked) == ["a", "b"]
        for _ in range(9):
            bench.core.adopt(make_plan(profile("night"), **paced))
            await anyio.sleep(0.1)
        group.cancel_scope.cancel()

    assert sorted(bench.asked) == ["a", "b", "c"]  # a was denied: its token is free again


async def test_waits_between_tries_follow_the_new_plan() -> None:
    bench = Bench(backoff_first_s=2.0, backoff_longest_s=4.0)
    bench.server.script["web"] = [Denied(403, "no")] * 4
    async with anyio.create_task_group() as group:
        await group.start(bench.core.evictions.run)
        group.start_soon(bench.core.stage.run)
        bench.list_all(TAINTED, node("n2"), pod("web", on="n1"))
        bench.core.hold_back(None)
        await anyio.sleep(1)
        bench.core.adopt(make_plan(backoff_first_s=10.0, backoff_longest_s=40.0))
        await anyio.sleep(90)
        group.cancel_scope.cancel()

    times = [at for _, at in bench.server.asked]
    assert [round(b - a, 3) for a, b in pairwise(times)] == [2, 20, 40]
