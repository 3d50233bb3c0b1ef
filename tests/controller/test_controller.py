"""What a plan comes down to: who is asked in which order, what is shared, when it begins."""

from itertools import pairwise
from typing import Any

import anyio
import msgspec
import pytest

from reactive_desched.controller.subscriptions import Instance
from reactive_desched.errors import Malformed
from reactive_desched.gate.gate import Gate
from reactive_desched.gate.rate_limits import Rate
from reactive_desched.model.accounts import Account
from reactive_desched.model.changes import NodeTaintsChanged, PodLabelsChanged
from reactive_desched.model.findings import Finding
from reactive_desched.model.intents import Intent
from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import Annotations
from reactive_desched.model.outcomes import Denied
from reactive_desched.model.triggers import Trigger
from reactive_desched.plugins.node_affinity import PREFERRED, NodeAffinity, NodeAffinityArgs
from reactive_desched.primitives.debounce import Pause
from reactive_desched.testing.builders import node, pod
from tests.support.assembly_bench import TAINTED, TAINTS, Bench, profile

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AFFINITY = NodeAffinity(NodeAffinityArgs(node_affinity_type=(PREFERRED,)))


def instances(bench: Bench) -> tuple[Instance, ...]:
    """Return every plugin of every profile, as the engine has it; nobody else can tell them."""
    return bench.core.engine._instances


def gates(bench: Bench) -> list[list[str]]:
    """Name the steps of every profile's gate."""
    made = [each.gate for each in instances(bench) if isinstance(each.gate, Gate)]
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
    first, second, third = instances(bench)

    assert [i.profile for i in (first, second, third)] == ["day", "day", "night"]
    assert first.gate is second.gate
    assert third.gate is not first.gate


async def test_every_plugin_has_its_own_patience() -> None:
    bench = Bench(
        profile("day", TAINTS, AFFINITY),
        pause=lambda plugin: Pause(1, 2) if plugin == TAINTS.name else Pause(3, 4),
    )

    assert [i.pause for i in instances(bench)] == [Pause(1, 2), Pause(3, 4)]


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


async def test_an_eviction_is_begun_before_its_announcement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    submit = bench.core.evictions.submit

    def begin(intent: Intent) -> None:
        bench.listener.heard.append(("begun", intent.pod.name))
        submit(intent)

    monkeypatch.setattr(bench.core.evictions, "submit", begin)
    await bench.live(pod("web", on="n1"))

    kinds = [kind for kind, _ in bench.listener.heard if kind != "changed"]
    assert kinds == ["held back", "begun", "judged", "ended"]
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
    bench.sync(node("n1"))
    looks = bench.core.engine.looks
    bench.feeds["nodes"].stale("reset")
    bench.feeds["nodes"].fresh()

    assert looks == 1
    assert bench.core.engine.looks == looks


async def test_while_the_journal_cannot_write_nobody_is_asked_and_it_is_made_up_for() -> None:
    trouble = ["disk full"]
    bench = Bench(may_write=lambda: trouble[0] if trouble else None)
    async with bench.running():
        bench.sync(TAINTED, node("n2"), pod("web", on="n1"))
        assert bench.core.why_idle() == "disk full"
        await anyio.sleep(60)
        assert (bench.asked, bench.ledger.lines) == ([], [])
        assert (bench.listener.of("judged"), bench.ledger.verdicts) == ([], [])

        trouble.clear()
        bench.core.poke()
        await anyio.sleep(6)
        assert bench.asked == ["web"]


async def test_two_profiles_never_ask_for_the_same_pod_at_once() -> None:
    bench = Bench(profile("day"), profile("night"))
    await bench.live(pod("web", on="n1"))

    assert bench.asked == ["web"]
    assert bench.listener.of("judged") == [("day", "Evict"), ("night", "Refuse")]


async def test_what_one_profile_could_not_evict_another_may_after_a_while() -> None:
    bench = Bench(profile("day", labelSelector={"matchLabels": {"app": "web"}}), profile("night"))
    bench.server.script["web"] = [Denied(403, "no")]
    web = pod("web", on="n1", labels={"app": "web"})
    async with bench.running():
        bench.sync(TAINTED, node("n2"), web)
        await anyio.sleep(1)
        bench.deliver(pod("web", on="n1"))
        await anyio.sleep(10)

    assert PodLabelsChanged(pod("web", on="n1")) in bench.listener.of("changed")
    assert bench.asked == ["web", "web"]


async def test_all_profiles_draw_from_the_same_tokens() -> None:
    shop = {"labelSelector": {"matchLabels": {"tier": "shop"}}}
    bench = Bench(profile("day", **shop), profile("night"), rates={"cluster": Rate(0.001, 1)})
    await bench.live(pod("a", on="n1", labels={"tier": "shop"}), pod("b", on="n1"))

    assert bench.asked == ["a"]


async def test_all_profiles_share_the_policys_limits() -> None:
    bench = Bench(profile("day"), profile("night"), limits={"node": 1})
    await bench.live(pod("a", on="n1"), pod("b", on="n1"))

    assert bench.asked == ["a"]


async def test_at_most_so_many_calls_are_open() -> None:
    bench = Bench(at_once=2)
    bench.server.slow_s = 5
    await bench.live(*(pod(name, on="n1") for name in "abc"), seconds=60)

    assert bench.server.most_open == 2
    assert sorted(bench.asked) == ["a", "b", "c"]


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
