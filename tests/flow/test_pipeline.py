import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.controller.readiness import STARTUP
from reactive_desched.eviction.client import EFFECT_TIMEOUT_S
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import Pod, PodDisruptionBudget, PodStatus
from reactive_desched.model.outcomes import EffectUnknown, PdbRefused, ServerError, TooManyRequests
from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.plugins.node_affinity import REQUIRED, NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.controller_settings import EvictionSettings
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.testing.builders import node, pod
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


TAINTED = node("n1", "gpu:NoSchedule")


def taints(**settings: object) -> FakeEdgesController:
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), **settings)  # type: ignore[arg-type]  # passed on


async def test_a_profile_evicts_by_the_evictor_that_the_settings_name_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = {"test": "SoftEviction"}
    monkeypatch.setattr(EvictionSettings, "evictor_of_intents", lambda _, profile: named[profile])
    async with taints().running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
        flow.deliver(TAINTED)
        await anyio.sleep(1)

        assert [each.options.evictor for each in flow.evictor.requests] == ["SoftEviction"]
        assert [each.options.evictor for each in flow.intent_store.intents] == ["SoftEviction"]


async def test_a_taint_leads_to_an_eviction_that_is_written_down_first() -> None:
    async with taints().running() as flow:
        flow.sync_and_resume(
            node("n1"), node("n2"), pod("web", on="n1"), pod("db", on="n1", tolerates="*")
        )
        flow.deliver(TAINTED)
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]
    assert flow.intent_store.lines == [
        ("intent", "web", "NodeTaintsChanged node n1"),
        ("outcome", "web", "evicted"),
    ]


async def test_nothing_is_judged_before_every_resource_is_synced() -> None:
    async with taints().running() as flow:
        for resource, feed in flow.handlers.items():
            feed.begin_replace()
            if resource != "poddisruptionbudgets":
                flow.deliver(TAINTED, node("n2"), pod("web", on="n1"))
                feed.end_replace()
                feed.mark_synced()
        flow.resume(STARTUP)
        await anyio.sleep(60)
        assert flow.observer.decisions == []

        flow.handlers["poddisruptionbudgets"].end_replace()
        flow.handlers["poddisruptionbudgets"].mark_synced()
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


async def test_nothing_is_evicted_while_a_link_is_lost_and_all_is_made_up_for_afterwards() -> None:
    async with taints().running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
        flow.handlers["nodes"].mark_stale("connection refused")
        flow.deliver(TAINTED)
        await anyio.sleep(60)
        assert flow.evicted_names == []

        flow.handlers["nodes"].mark_synced()
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


async def test_what_a_new_list_lacks_is_gone() -> None:
    async with taints().running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), pod("web", on="n1", owner=None))
        assert flow.controller.evaluator.queue.blocked_by_gate == {"FailedBarePods": 1}
        feed = flow.handlers["pods"]
        feed.begin_replace()
        flow.deliver(pod("web-2", on="n2"))
        feed.end_replace()
        feed.mark_synced()

        assert flow.controller.view.pods() == ["web-2"]
        assert flow.controller.evaluator.queue.blocked_by_gate == {}


async def test_a_burst_of_changes_is_judged_once_after_the_quiet_time() -> None:
    async with taints(debounce=DebounceConfig(1, 10)).running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
        await anyio.sleep(5)
        started = anyio.current_time()
        for _ in range(100):
            flow.deliver(TAINTED)
            await anyio.sleep(0.01)
            flow.deliver(node("n1"))
            await anyio.sleep(0.01)
        flow.deliver(TAINTED)
        await anyio.sleep(30)

    assert [kind for kind, _, _ in flow.observer.decisions] == ["Evict"]
    [(name, at)] = flow.evictor.calls
    assert name == "web"
    assert at - started == pytest.approx(3.0, abs=0.1)


async def test_endless_flapping_is_judged_after_the_longest_wait() -> None:
    async with taints(debounce=DebounceConfig(1, 10)).running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
        await anyio.sleep(5)
        started = anyio.current_time()
        for number in range(60):
            flow.deliver(node("n1", f"k{number}:NoSchedule"))
            await anyio.sleep(0.5)

    assert flow.evictor.calls[0][1] - started == pytest.approx(10.0, abs=0.6)


async def test_a_storm_is_paced_by_the_token_bucket() -> None:
    pods = [pod(f"p{number}", on="n1") for number in range(6)]
    async with taints(rates={"cluster": TokenRate(0.5, 2)}).running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), *pods)
        started = anyio.current_time()
        flow.deliver(TAINTED)
        await anyio.sleep(60)

    times = [round(at - started) for _, at in flow.evictor.calls]
    assert times == [0, 0, 2, 4, 6, 8]
    assert sorted(flow.evicted_names) == [f"p{number}" for number in range(6)]


async def test_a_deferred_finding_is_judged_afresh_when_its_time_comes() -> None:
    async with taints(rates={"cluster": TokenRate(0.1, 1)}).running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"), pod("b", on="n1"))
        flow.deliver(TAINTED)
        await anyio.sleep(1)
        assert flow.evicted_names == ["a"]
        flow.deliver(node("n1"))
        await anyio.sleep(60)

    assert flow.evicted_names == ["a"]


async def test_a_refusal_by_a_disruption_budget_waits_for_the_budget() -> None:
    budget = PodDisruptionBudget("default", "web", selector=LabelSelector(), disruptions_allowed=1)
    async with taints().running() as flow:
        flow.evictor.script["web"] = [PdbRefused("needs 2 healthy pods and has 2")]
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"), budget)
        flow.deliver(TAINTED)
        await anyio.sleep(1)
        assert flow.evicted_names == ["web"]
        assert flow.controller.evaluator.queue.blocked_by_gate == {"DisruptionBudget": 1}

        flow.deliver(budget)
        await anyio.sleep(0.1)

    assert flow.evicted_names == ["web", "web"]


async def test_a_budget_with_nothing_left_is_not_even_asked() -> None:
    empty = PodDisruptionBudget("default", "web", selector=LabelSelector())
    async with taints().running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"), empty)
        flow.deliver(TAINTED)
        await anyio.sleep(10)
        assert flow.evicted_names == []

        flow.deliver(
            PodDisruptionBudget("default", "web", selector=LabelSelector(), disruptions_allowed=1)
        )
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


async def test_a_budget_of_one_lets_one_go_at_a_time() -> None:
    def budget(allowed: int) -> PodDisruptionBudget:
        return PodDisruptionBudget(
            "default", "web", selector=LabelSelector(), disruptions_allowed=allowed
        )

    async with taints().running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), *(pod(n, on="n1") for n in "abc"), budget(1))
        flow.deliver(TAINTED)
        await anyio.sleep(1)
        assert flow.evicted_names == ["a"]
        flow.deliver(budget(0))
        await anyio.sleep(1)
        assert flow.evicted_names == ["a"]
        flow.deliver(budget(1))
        await anyio.sleep(1)

    assert flow.evicted_names == ["a", "b"]


@pytest.mark.parametrize(
    ("answer", "again_after"),
    [
        pytest.param(
            TooManyRequests("slow down", 7.0), 7.0, id="an overloaded server names the time"
        ),
        pytest.param(ServerError(500, "two budgets"), 5.0, id="a failure waits the first time"),
    ],
)
async def test_a_failed_eviction_is_tried_again_later(
    answer: TooManyRequests | ServerError, again_after: float
) -> None:
    async with taints().running() as flow:
        flow.evictor.script["web"] = [answer]
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
        flow.deliver(TAINTED)
        await anyio.sleep(60)

    (_, first), (_, second) = flow.evictor.calls
    assert second - first == pytest.approx(again_after, abs=0.1)


async def test_a_call_of_unknown_effect_is_settled_by_reading_the_pod() -> None:
    async with taints().running() as flow:
        flow.evictor.script["web"] = [EffectUnknown("connection reset")]
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
        flow.deliver(TAINTED)
        await anyio.sleep(3)

    assert flow.intent_store.lines[-1] == ("outcome", "web", "unknown")
    said = ("web", "connection reset", EFFECT_TIMEOUT_S)
    assert flow.observer.effects_unknown == [said]


async def test_a_pod_that_a_lost_request_may_still_evict_has_no_outcome_until_it_cannot() -> None:
    web = pod("web", on="n1")
    async with taints().running() as flow:
        flow.evictor.script["web"] = [EffectUnknown("connection reset")]
        flow.evictor.pods["default/web"] = web
        flow.sync_and_resume(node("n1"), node("n2"), web)
        flow.deliver(TAINTED)
        await anyio.sleep(EFFECT_TIMEOUT_S - 1)
        assert flow.intent_store.lines[-1][0] == "intent"
        assert len(flow.observer.effects_unknown) == 1, "once for the request, not for each read"
        await anyio.sleep(2)

    assert ("outcome", "web", "failed") in flow.intent_store.lines


async def test_a_pod_is_not_evicted_twice_while_its_deletion_is_on_its_way() -> None:
    web = pod("web", on="n1")
    async with taints().running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), web)
        flow.deliver(TAINTED)
        await anyio.sleep(1)
        flow.deliver(node("n1", "gpu:NoSchedule", "more:NoSchedule"))
        await anyio.sleep(1)
        flow.terminate(web)
        flow.deliver(TAINTED)
        await anyio.sleep(100)

    assert flow.evicted_names == ["web"]


async def test_a_pod_that_fits_nowhere_waits_for_room() -> None:
    affinity = NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(REQUIRED,)))
    ssd = {"disk": "ssd"}
    big = pod("big", on="n2", requests={"cpu": "3"})
    async with FakeEdgesController(affinity).running() as flow:
        flow.sync_and_resume(
            node("n1", labels=ssd),
            node("n2", labels=ssd),
            big,
            pod("db", on="n1", requires="disk=ssd", requests={"cpu": "2"}),
        )
        flow.deliver(node("n1"))
        await anyio.sleep(60)
        assert flow.observer.decisions == [("Refuse", "db", "NodeFit")]

        flow.delete(big)
        await anyio.sleep(1)

    assert flow.evicted_names == ["db"]


async def test_time_alone_lifts_the_refusal_of_a_young_pod() -> None:
    import msgspec

    young = msgspec.structs.replace(pod("web", on="n1"), start_delay_s=0)
    args = DefaultEvictorArgs(min_pod_age_s=600)
    async with taints(evictor_args=args).running() as flow:
        flow.sync_and_resume(TAINTED, node("n2"), young)
        await anyio.sleep(1000)

    [(name, at)] = flow.evictor.calls
    assert name == "web"
    assert at == pytest.approx(600, abs=1)


async def test_a_blocked_finding_on_an_ended_pod_goes_with_the_pod() -> None:
    failed = FailedPodsPlugin(FailedPodsArgs(min_pod_lifetime_seconds=0))
    bare = pod("job", on="n1", owner=None, status=PodStatus("Failed"))
    async with FakeEdgesController(failed).running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), bare)
        await anyio.sleep(1)
        assert flow.controller.evaluator.queue.blocked_by_gate == {"FailedBarePods": 1}

        flow.delete(bare)
        await anyio.sleep(1)
        assert flow.controller.evaluator.queue.blocked_by_gate == {}


async def test_on_a_single_node_nothing_is_evicted() -> None:
    async with taints().running() as flow:
        flow.sync_and_resume(TAINTED, pod("web", on="n1"))
        await anyio.sleep(60)
        assert flow.observer.decisions == [("Refuse", "web", "MinReadyNodes")]

        flow.deliver(node("n2"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


@pytest.mark.parametrize(
    ("meanwhile", "evicted", "cancelled"),
    [
        pytest.param([], ["a", "b"], 0, id="nothing happens"),
        pytest.param([pod("b", on="n1", labels={"app": "other"})], ["a", "b"], 1, id="it changes"),
        pytest.param(
            [msgspec.structs.replace(pod("b", on="n1"), deletion_s=1)], ["a"], 1, id="it terminates"
        ),
    ],
)
async def test_a_decision_that_waited_for_its_turn_is_requested_only_while_the_pod_is_the_same(
    meanwhile: list[Pod], evicted: list[str], cancelled: int
) -> None:
    async with taints(max_concurrent=1).running() as flow:
        flow.evictor.slow_s = 3
        flow.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"), pod("b", on="n1"))
        flow.deliver(TAINTED)
        await anyio.sleep(1)
        flow.deliver(*meanwhile)
        await anyio.sleep(30)

    assert [request.name for request in flow.evictor.requests] == evicted
    results = [result for _, result in flow.observer.outcomes]
    assert results.count("cancelled") == cancelled


async def test_a_decision_that_waited_too_long_is_made_anew() -> None:
    async with taints(max_concurrent=1).running() as flow:
        flow.evictor.slow_s = 8
        flow.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"), pod("b", on="n1"))
        flow.deliver(TAINTED)
        await anyio.sleep(7)
        flow.deliver(node("n1"))
        await anyio.sleep(60)

    assert [request.name for request in flow.evictor.requests] == ["a"]
    assert ("b", "cancelled") in flow.observer.outcomes
