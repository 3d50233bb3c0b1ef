"""What a plan comes down to: who is asked in which order, what is shared, when it begins."""

from itertools import count, pairwise
from typing import Any

import anyio
import msgspec
import pytest

from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.readiness import JOURNAL, MANUAL, STARTUP
from reactive_desched.errors import Malformed
from reactive_desched.gate.gate import Gate
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.changes import NodeTaintsChanged, PodLabelsChanged
from reactive_desched.model.evaluation import DecisionContext, Intent, Trigger
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import Annotations, Namespace, ReplicaSet, StatefulSet
from reactive_desched.model.outcomes import Denied
from reactive_desched.plugins.node_affinity import PREFERRED, NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.testing.builders import node, pod
from tests.support.assembly_bench import TAINTED, TAINTS, ControllerBench, make_profile

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AFFINITY = NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(PREFERRED,)))
OPT_OUTS = GuardSettings(disabled=tuple(set(GuardName) - {GuardName.DO_NOT_EVICT}))
ORDERED = GuardSettings(disabled=tuple(set(GuardName) - {GuardName.STATEFUL_SET_ORDER}))


def instances(bench: ControllerBench) -> tuple[PluginInstance, ...]:
    """Return every plugin of every profile, as the engine has it; nobody else can tell them."""
    return bench.controller.evaluator.instances


def gates(bench: ControllerBench) -> list[list[str]]:
    """Name the steps of every profile's gate."""
    made = [each.gate for each in instances(bench) if isinstance(each.gate, Gate)]
    return [[step.name for step in gate.filters] for gate in made]


async def test_gates_are_asked_in_the_order_the_docs_give() -> None:
    bench = ControllerBench(
        make_profile(nodeFit=True, namespaceLabelSelector={"matchLabels": {"env": "prod"}})
    )

    assert gates(bench) == [
        [
            "InFlight",
            "LargePods",
            "DefaultEvictor",
            "Guards",
            "MinReadyNodes",
            "ConflictPartners",
            "NamespaceLabelSelector",
            "StormBrake",
            "PendingBrake",
            "HealthBrake",
            "ZoneBrake",
            "MoveMemory",
            "MaxMoving",
            "NodeFit",
            "DisruptionBudget",
            "Schedule",
            "PluginLimit",
            "EvictionLimit",
            "NamedBudget",
            "EvictionRateLimit",
        ]
    ]


@pytest.mark.parametrize("selector", [None, {}], ids=["none", "an empty one"])
async def test_without_a_namespace_selector_no_namespaces_are_asked_for(
    selector: dict[str, Any] | None,
) -> None:
    [steps] = gates(ControllerBench(make_profile(namespaceLabelSelector=selector)))

    assert "NamespaceLabelSelector" not in steps


async def test_plugins_of_a_profile_share_its_gate_and_profiles_do_not() -> None:
    bench = ControllerBench(make_profile("day", TAINTS, AFFINITY), make_profile("night"))
    first, second, third = instances(bench)

    assert [i.profile for i in (first, second, third)] == ["day", "day", "night"]
    assert first.gate is second.gate
    assert third.gate is not first.gate


async def test_every_plugin_has_its_own_patience() -> None:
    bench = ControllerBench(
        make_profile("day", TAINTS, AFFINITY),
        debounce={TAINTS.name: DebounceConfig(1, 2), AFFINITY.name: DebounceConfig(3, 4)},
    )

    assert [i.debounce for i in instances(bench)] == [DebounceConfig(1, 2), DebounceConfig(3, 4)]


async def test_an_intent_says_all_there_is_to_say() -> None:
    web = pod("web", on="n1")
    bench = ControllerBench(grace_period_s=9)
    await bench.run_with_taint(web)

    assert bench.ledger.intents == [
        Intent(
            DecisionContext(
                Finding(
                    web,
                    TAINTS.name,
                    "does not tolerate gpu:NoSchedule on n1",
                    details={"taintKey": "gpu", "taintValue": "", "taintEffect": "NoSchedule"},
                ),
                "day",
                Trigger("NodeTaintsChanged", "node n1"),
                web.owners,
            ),
            grace_period_s=9,
        )
    ]


async def test_an_observer_learns_of_the_decision_and_of_its_outcome() -> None:
    bench = ControllerBench()
    await bench.run_with_taint(pod("web", on="n1"))

    kinds = [kind for kind, _ in bench.observer.events if kind != "changed"]
    assert kinds == ["held back", "synced", "judged", "ended"]
    assert bench.observer.of_kind("judged") == [("day", "Evict")]
    [(_, sent_at)] = bench.server.calls
    assert bench.observer.of_kind("ended") == [("web", "evicted", sent_at)]


async def test_all_of_a_turn_is_decided_at_one_moment_however_long_it_takes() -> None:
    ticks = count()
    bench = ControllerBench(clock=lambda: next(ticks) / 500, guards=ORDERED)
    pods = [pod(f"db-{ordinal}", on="n1", owner="StatefulSet/db") for ordinal in range(3)]
    db = StatefulSet("default", "db", "owner-db", replicas=3)

    def work() -> None:
        for _ in range(20):
            bench.pipeline.worker.wake()

    bench.sync_and_resume(node("n1"), node("n2"), db, *pods)
    work()
    bench.deliver(TAINTED)
    work()

    waits = [each.until for each in bench.controller.evaluator.queue.pending()]
    assert waits == [pytest.approx(waits[0], abs=0.001)] * 3


async def test_changes_are_reported_once_the_initial_sync_is_done() -> None:
    bench = ControllerBench()
    await bench.run_with_taint(pod("web", on="n1"))

    assert bench.observer.of_kind("changed") == [NodeTaintsChanged("n1")]


async def test_why_nothing_is_judged_is_reported_when_it_differs() -> None:
    bench = ControllerBench()
    bench.deliver_list()
    assert bench.observer.of_kind("held back") == []
    bench.resume(STARTUP)
    bench.handlers["pods"].mark_stale("reset")
    bench.handlers["pods"].mark_stale("reset")
    bench.readiness.pause(MANUAL, "maintenance")
    bench.handlers["pods"].mark_synced()
    bench.resume(MANUAL)

    assert bench.observer.of_kind("held back") == [
        "",
        "sync/pods: reset",
        "manual: maintenance",
        "",
    ]


async def test_nothing_starts_before_the_initial_sync_is_done_and_no_pause_is_left() -> None:
    early, late = ControllerBench(), ControllerBench()
    early.resume(STARTUP)
    assert not early.controller.initial_sync_done.is_set()
    early.deliver_list()
    assert early.controller.initial_sync_done.is_set()

    late.deliver_list()
    assert late.controller.pauses.check() == "startup: the controller is starting"
    assert not late.controller.initial_sync_done.is_set()
    late.resume(STARTUP)
    assert late.controller.initial_sync_done.is_set()
    assert late.controller.pauses.check() == ""


async def test_what_was_synced_is_said_once_and_before_the_first_decision() -> None:
    bench = ControllerBench()
    bench.sync_and_resume(node("n1", "gpu:NoSchedule"), pod("web", on="n1"))

    kinds = [kind for kind, _ in bench.observer.events if kind in ("synced", "judged")]
    assert kinds == ["synced", "judged"]
    assert bench.observer.of_kind("synced") == [{"nodes": 1, "pods": 1}]


async def test_the_first_picture_is_swept_once_however_often_the_link_is_lost() -> None:
    bench = ControllerBench()
    bench.sync_and_resume(node("n1"))
    looks = bench.controller.evaluator.evaluations
    bench.handlers["nodes"].mark_stale("reset")
    bench.handlers["nodes"].mark_synced()

    assert looks == 1
    assert bench.controller.evaluator.evaluations == looks


async def test_while_the_journal_cannot_write_nothing_is_decided_and_all_of_it_afterwards() -> None:
    bench = ControllerBench()
    bench.ledger.fault = "disk full"
    async with bench.running():
        bench.sync_and_resume(TAINTED, node("n2"), pod("web", on="n1"))
        assert bench.controller.pauses.check() == "journal: disk full"
        assert bench.readiness.pauses[JOURNAL].reason == "disk full"
        await anyio.sleep(60)
        assert (bench.evicted_names, bench.ledger.lines) == ([], [])
        assert (bench.observer.of_kind("judged"), bench.ledger.decisions) == ([], [])

        bench.ledger.fault = ""
        bench.work_available.notify()
        await anyio.sleep(6)
        assert bench.evicted_names == ["web"]


async def test_two_profiles_never_ask_for_the_same_pod_at_once() -> None:
    bench = ControllerBench(make_profile("day"), make_profile("night"))
    await bench.run_with_taint(pod("web", on="n1"))

    assert bench.evicted_names == ["web"]
    assert bench.observer.of_kind("judged") == [("day", "Evict"), ("night", "Refuse")]


async def test_what_one_profile_could_not_evict_another_may_after_a_while() -> None:
    bench = ControllerBench(
        make_profile("day", labelSelector={"matchLabels": {"app": "web"}}), make_profile("night")
    )
    bench.server.script["web"] = [Denied(403, "no")]
    web = pod("web", on="n1", labels={"app": "web"})
    async with bench.running():
        bench.sync_and_resume(TAINTED, node("n2"), web)
        await anyio.sleep(1)
        bench.deliver(pod("web", on="n1"))
        await anyio.sleep(10)

    assert PodLabelsChanged(pod("web", on="n1")) in bench.observer.of_kind("changed")
    assert bench.evicted_names == ["web", "web"]


async def test_all_profiles_draw_from_the_same_tokens() -> None:
    shop = {"labelSelector": {"matchLabels": {"tier": "shop"}}}
    bench = ControllerBench(
        make_profile("day", **shop), make_profile("night"), rates={"cluster": TokenRate(0.001, 1)}
    )
    await bench.run_with_taint(pod("a", on="n1", labels={"tier": "shop"}), pod("b", on="n1"))

    assert bench.evicted_names == ["a"]


async def test_all_profiles_share_the_policys_limits() -> None:
    bench = ControllerBench(make_profile("day"), make_profile("night"), limits={"node": 1})
    await bench.run_with_taint(pod("a", on="n1"), pod("b", on="n1"))

    assert bench.evicted_names == ["a"]


async def test_at_most_so_many_calls_are_open() -> None:
    bench = ControllerBench(max_concurrent=2)
    bench.server.slow_s = 5
    await bench.run_with_taint(*(pod(name, on="n1") for name in "abc"), seconds=60)

    assert bench.server.max_open == 2
    assert sorted(bench.evicted_names) == ["a", "b", "c"]


async def test_an_eviction_is_not_requested_once_the_place_found_for_the_pod_is_cordoned() -> None:
    bench = ControllerBench(make_profile(nodeFit=True), max_concurrent=1)
    bench.server.slow_s = 2
    async with bench.running():
        pods = (pod(name, on="n1", owner=f"ReplicaSet/{name}") for name in "ab")
        bench.sync_and_resume(node("n1"), node("n2"), *pods)
        bench.deliver(TAINTED)
        await bench.server.called.wait()
        bench.deliver(node("n2", unschedulable=True, version=9))
        await anyio.sleep(60)

    assert bench.evicted_names == ["a"]


async def test_retries_wait_as_the_plan_says() -> None:
    bench = ControllerBench(retry=RetrySettings(initial_s=2.0, max_s=4.0, jitter=0))
    bench.server.script["web"] = [Denied(403, "no")] * 4
    await bench.run_with_taint(pod("web", on="n1"), seconds=60)

    times = [at for _, at in bench.server.calls]
    assert [round(b - a, 3) for a, b in pairwise(times)] == [2, 4, 4, 4]


async def test_only_selected_nodes_are_judged_and_counted() -> None:
    bench = ControllerBench(selects=parse_selector("pool=a"))
    bench.deliver_list(
        node("n1", "gpu:NoSchedule", labels={"pool": "a"}),
        node("n2", "gpu:NoSchedule"),
        pod("in", on="n1"),
        pod("out", on="n2"),
    )

    assert bench.controller.state.size() == {"nodes": 1, "pods": 2}
    bench.resume(STARTUP)
    assert bench.observer.of_kind("judged") == [("day", "Refuse")]


async def test_mandatory_no_eviction_is_passed_on() -> None:
    shy = msgspec.structs.replace(
        pod("web", on="n1"), annotations=Annotations(prefer_no_eviction="")
    )
    obeying, ignoring = (
        ControllerBench(make_profile(noEvictionPolicy="Mandatory")),
        ControllerBench(make_profile()),
    )
    await obeying.run_with_taint(shy)
    await ignoring.run_with_taint(shy)

    assert (obeying.evicted_names, ignoring.evicted_names) == ([], ["web"])


async def test_a_malformed_object_is_reported() -> None:
    bench = ControllerBench()
    bench.handlers["pods"].report_malformed(Malformed("Pod", "web", "no spec"))

    assert bench.observer.of_kind("malformed") == [("pods", "web")]


@pytest.mark.parametrize("speaks", ["pod", "namespace", "owner"])
async def test_an_annotation_that_a_watch_brings_while_the_decision_waits_keeps_the_pod(
    speaks: str,
) -> None:
    """ADR 181: what was written before the decision is seen, whatever kind it stands in."""
    web = pod("web", on="n1", owner="ReplicaSet/web")
    late: dict[str, Any] = {
        "pod": msgspec.structs.replace(web, annotations=Annotations(do_not_evict="true")),
        "namespace": Namespace("default", do_not_evict="true"),
        "owner": ReplicaSet(web.owners[0].uid, do_not_evict="true"),
    }
    bench = ControllerBench(guards=OPT_OUTS)

    async def caught_up() -> bool:
        bench.deliver(late[speaks])
        return True

    bench.server.caught_up = caught_up  # type: ignore[method-assign]
    await bench.run_with_taint(web)

    assert bench.ledger.intents == []
    assert bench.evicted_names == []
