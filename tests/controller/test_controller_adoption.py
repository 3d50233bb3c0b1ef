"""Another plan is in force at once, and whatever protects the cluster outlives the old one."""

from itertools import pairwise
from typing import Any

import anyio
import pytest

from reactive_desched.controller.readiness import STARTUP
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.changes import NodeAdded, NodeGone, Resynced
from reactive_desched.model.labels import EVERYTHING, parse_selector
from reactive_desched.model.outcomes import POLICY_CHANGED, Denied
from reactive_desched.plugins.node_affinity import (
    PREFERRED,
    REQUIRED,
    NodeAffinityArgs,
    NodeAffinityPlugin,
)
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.testing.builders import node, pod
from tests.support.assembly_bench import TAINTED, ControllerBench, make_config, make_profile

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AFFINITY = NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(PREFERRED,)))
AFFINITY_REQUIRED = NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(REQUIRED,)))


async def test_another_plan_is_in_force_for_everything_from_its_adoption_on() -> None:
    bench = ControllerBench(make_profile("day", AFFINITY))
    bench.deliver_list(TAINTED, node("n2"), pod("web", on="n1"))
    async with bench.running():
        bench.resume(STARTUP)
        await anyio.sleep(1)
        assert bench.evicted_names == []

        bench.reconfigure(make_config(make_profile("night"), grace_period_s=9))
        await anyio.sleep(1)

    [intent] = bench.ledger.intents
    assert (intent.context.profile, intent.context.trigger.change) == ("night", "Resynced")
    assert intent.grace_period_s == 9
    assert bench.observer.of_kind("changed") == [Resynced()]


async def test_a_plan_adopted_before_the_first_picture_is_the_one_that_judges_it() -> None:
    bench = ControllerBench(make_profile("day"))
    bench.reconfigure(make_config(make_profile("night"), selects=parse_selector("pool=a")))
    assert not bench.controller.initial_sync_done.is_set()
    bench.sync_and_resume(node("n1", "gpu:NoSchedule", labels={"pool": "a"}), pod("web", on="n1"))

    assert bench.controller.state.size()["nodes"] == 1
    assert bench.observer.of_kind("judged") == [("night", "Refuse")]
    assert bench.observer.of_kind("changed") == []


async def test_nothing_is_judged_by_a_new_plan_while_the_link_is_lost() -> None:
    bench = ControllerBench(make_profile("day", AFFINITY))
    bench.sync_and_resume(TAINTED, node("n2"), pod("web", on="n1"))
    bench.handlers["pods"].mark_stale("reset")
    bench.reconfigure(make_config(make_profile("night")))
    assert bench.observer.of_kind("judged") == []

    bench.handlers["pods"].mark_synced()
    assert bench.observer.of_kind("judged") == [("night", "Evict")]


async def test_another_node_selector_changes_which_nodes_count_and_says_so() -> None:
    bench = ControllerBench(selects=parse_selector("pool=a"))
    bench.sync_and_resume(
        node("n1", "gpu:NoSchedule", labels={"pool": "a"}),
        node("n2", "gpu:NoSchedule", labels={"pool": "b"}),
        node("n3", labels={"pool": "b"}),
        pod("a", on="n1"),
        pod("b", on="n2"),
    )
    bench.reconfigure(make_config(make_profile("night"), selects=parse_selector("pool=b")))

    assert bench.controller.state.size() == {"nodes": 2, "pods": 2}
    changed = bench.observer.of_kind("changed")
    assert changed == [Resynced(), NodeGone("n1"), NodeAdded("n2"), NodeAdded("n3")]
    assert bench.observer.of_kind("judged") == [("day", "Refuse"), ("night", "Evict")]


async def test_a_pod_that_fitted_no_old_node_may_fit_a_new_one() -> None:
    fit = make_profile("day", AFFINITY_REQUIRED, nodeSelector="pool=a")
    bench = ControllerBench(fit, selects=parse_selector("pool=a"))
    bench.sync_and_resume(
        node("n1", labels={"pool": "a"}),
        node("n2", labels={"pool": "a"}),
        node("n3", labels={"pool": "b", "disk": "ssd"}),
        pod("db", on="n1", requires="disk=ssd"),
    )
    bench.reconfigure(make_config(fit, selects=EVERYTHING))

    assert bench.observer.of_kind("judged") == [("day", "Refuse"), ("day", "Evict")]


async def test_what_stands_in_line_when_the_policy_changes_is_judged_by_the_new_one() -> None:
    bench = ControllerBench(make_profile("day"), max_concurrent=1)
    bench.server.slow_s = 5
    async with bench.running():
        bench.sync_and_resume(TAINTED, node("n2"), *(pod(name, on="n1") for name in "abc"))
        await anyio.sleep(1)
        shop = {"labelSelector": {"matchLabels": {"tier": "shop"}}}
        bench.reconfigure(make_config(make_profile("night", **shop)))
        await anyio.sleep(60)

    assert bench.evicted_names == ["a"]
    ended = [(name, result) for name, result, _ in bench.observer.of_kind("ended")]
    assert ended == [("a", "evicted"), ("b", "cancelled"), ("c", "cancelled")]
    assert [outcome.reason for outcome in bench.observer.outcomes[1:]] == [POLICY_CHANGED.code] * 2


async def test_tokens_limits_and_rests_outlive_the_plan() -> None:
    paced: dict[str, Any] = {"rates": {"cluster": TokenRate(0.001, 2)}, "limits": {"node": 2}}
    bench = ControllerBench(make_profile("day"), **paced)
    bench.server.script["a"] = [Denied(403, "no")] * 9
    async with bench.running():
        bench.sync_and_resume(TAINTED, node("n2"), *(pod(name, on="n1") for name in "abcd"))
        await anyio.sleep(0.1)
        assert sorted(bench.evicted_names) == ["a", "b"]
        for _ in range(9):
            bench.reconfigure(make_config(make_profile("night"), **paced))
            await anyio.sleep(0.1)

    assert sorted(bench.evicted_names) == ["a", "b", "c"]  # a was denied: its token is free again


async def test_waits_between_tries_follow_the_new_plan() -> None:
    bench = ControllerBench(retry=RetrySettings(initial_s=2.0, max_s=4.0, jitter=0))
    bench.server.script["web"] = [Denied(403, "no")] * 4
    async with bench.running():
        bench.sync_and_resume(TAINTED, node("n2"), pod("web", on="n1"))
        await anyio.sleep(1)
        bench.reconfigure(make_config(retry=RetrySettings(initial_s=10.0, max_s=40.0, jitter=0)))
        await anyio.sleep(90)

    times = [at for _, at in bench.server.calls]
    assert [round(b - a, 3) for a, b in pairwise(times)] == [2, 20, 40]
