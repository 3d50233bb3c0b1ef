"""The limits of evictions as the whole pipeline keeps them, in virtual time."""

from datetime import UTC, datetime

import anyio
import pytest
from msgspec.structs import replace

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.health import build_health
from reactive_desched.model.decisions import Defer
from reactive_desched.model.objects import Pod
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.policy.settings.limits import (
    EvictionRateLimits,
    EvictionSchedule,
    NamedBudget,
)
from reactive_desched.testing.builders import node, pod
from tests.support.assembly_bench import ControllerBench, make_config, make_profile
from tests.support.configurations import NO_BRAKES, make_rate_limits

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NODES = [node(f"n{number}", zone=f"z{number % 3}") for number in range(12)]
TAINTED = [node(f"n{number}", "gpu:NoSchedule", zone=f"z{number % 3}") for number in range(12)]
NAMES = ("cluster", "zone", "node", "namespace", "owner", "plugin")


def some_pods(per_node: int = 10) -> list[Pod]:
    """Make pods of 40 ReplicaSets in 4 namespaces, spread over all nodes but one."""
    return [
        pod(
            f"p{number}",
            on=f"n{number % 11}",
            namespace=f"ns{number % 4}",
            owner=f"ReplicaSet/r{number % 40}",
        )
        for number in range(11 * per_node)
    ]


def warm_up_ratio(bench: ControllerBench) -> object:
    [metric] = [m for m in bench.pipeline.description.collect() if m.family.name == "warm_up_ratio"]
    return metric.samples[()]


async def evicted_within(bench: ControllerBench, seconds: float) -> int:
    before = len(bench.evicted_names)
    await anyio.sleep(seconds)
    return len(bench.evicted_names) - before


async def test_without_settings_a_storm_begins_low_and_then_keeps_to_every_scope() -> None:
    bench = ControllerBench(budgets=EvictionRateLimits())
    async with bench.running():
        bench.sync_and_resume(*NODES, *some_pods(per_node=40))
        bench.deliver(*TAINTED[:11])
        counts = [await evicted_within(bench, 60) for _ in range(8)]

        assert counts[0] <= 1 + 20 * 0.28  # the plugin's 20 a minute, from a fifth upwards
        assert sum(counts[:5]) <= 7 + 5 * 20 * 0.6
        assert all(15 <= count <= 27 for count in counts[5:])


async def test_a_quiet_time_after_the_start_warms_up_too_and_a_changed_policy_begins_anew() -> None:
    bench = ControllerBench(budgets=EvictionRateLimits())
    async with bench.running():
        bench.sync_and_resume(*NODES, *some_pods())
        await anyio.sleep(400)
        assert warm_up_ratio(bench) == 1

        config = bench.controller.config
        bench.controller.reconfigure(replace(config, written=config.settings.model_copy()))
        assert warm_up_ratio(bench) == 1

        bench.controller.reconfigure(
            make_config(make_profile("other"), budgets=EvictionRateLimits())
        )
        assert warm_up_ratio(bench) == pytest.approx(0.2)


async def test_readyz_says_how_far_the_warm_up_is_and_is_true_all_the_while() -> None:
    bench = ControllerBench(budgets=EvictionRateLimits())
    active = ActiveConfig(make_config(make_profile()))
    health = build_health(bench.pipeline, active, dry_run=False)
    async with bench.running():
        bench.sync_and_resume(*NODES)
        for seconds, line in (
            (0.1, "[!]warm-up: rates and bursts are at 20%"),
            (150, "[!]warm-up: rates and bursts are at 60%"),
            (150, "[+]warm-up: full rates"),
        ):
            await anyio.sleep(seconds)
            report = health.readyz()
            assert report.ok
            assert line in report.text(verbose=True)


STORM = BrakeSettings.model_validate({"zones": None, "pending": None, "storm": {"pods": 5}})


@pytest.mark.parametrize("brake", ["storm", "pause"])
async def test_what_a_brake_held_leaves_slowly_at_first(brake: str) -> None:
    bench = ControllerBench(
        budgets=EvictionRateLimits(), brakes=STORM if brake == "storm" else NO_BRAKES
    )
    async with bench.running():
        bench.sync_and_resume(*NODES, *some_pods(per_node=40))
        await anyio.sleep(400)
        if brake == "pause":
            bench.controller.pauses.pause("ann", "network upgrade", None)
        bench.deliver(*TAINTED[:11])
        await anyio.sleep(400)
        assert (bench.evicted_names, warm_up_ratio(bench)) == ([], 1)

        bench.controller.pauses.resume("ann", "the taints are meant")
        assert warm_up_ratio(bench) == pytest.approx(0.2)
        counts = [await evicted_within(bench, 60) for _ in range(6)]

    assert counts[0] <= 1 + 20 * 0.28  # the plugin's 20 a minute, from a fifth upwards
    assert counts[0] < counts[1] < counts[2]
    assert counts[-1] >= 15


async def test_a_zone_that_comes_back_slows_down_no_other() -> None:
    zones = BrakeSettings.model_validate({"zones": {}, "storm": None, "pending": None})
    bench = ControllerBench(budgets=EvictionRateLimits(), brakes=zones)
    lost = [
        replace(each, ready_status="Unknown") for each in NODES if each.name in {"n0", "n3", "n6"}
    ]
    async with bench.running():
        bench.sync_and_resume(*NODES, *some_pods())
        await anyio.sleep(400)
        bench.deliver(*lost)
        await anyio.sleep(1)
        assert bench.controller.pauses.brake_messages()["zone"]
        bench.deliver(*NODES)
        await anyio.sleep(1)
        assert not bench.controller.pauses.brake_messages()["zone"]

        assert warm_up_ratio(bench) == 1


@pytest.mark.parametrize("scope", NAMES)
async def test_each_scope_alone_paces_a_storm_and_says_which_it_is(scope: str) -> None:
    limits = {**dict.fromkeys(NAMES), "warmUp": None}
    limits[scope] = {"evictions": 1, "per": "1h", "burst": 2}
    bench = ControllerBench(budgets=EvictionRateLimits.model_validate(limits))
    pods = some_pods()
    async with bench.running():
        bench.sync_and_resume(*NODES, *pods)
        bench.deliver(*TAINTED[:11])
        await anyio.sleep(60)

        names = {"cluster": 1, "zone": 3, "node": 11, "namespace": 4, "owner": 40, "plugin": 1}
        assert len(bench.evicted_names) == 2 * names[scope]
        decisions = [decision for _, decision in bench.ledger.decisions]
        said = {each.message for each in decisions if isinstance(each, Defer)}
        assert all(f"the eviction rate limit of {scope}" in text for text in said)
        assert said


async def test_findings_wait_for_the_end_of_business_hours_and_go_then() -> None:
    noon = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
    began = anyio.current_time()
    hours = {"schedule": "0 9 * * mon-fri", "duration": "8h", "evictions": 0}
    budgets = make_rate_limits({}, schedules=(EvictionSchedule.model_validate(hours),))
    bench = ControllerBench(budgets=budgets, wall_clock=lambda: noon + anyio.current_time() - began)
    async with bench.running():
        bench.sync_and_resume(*NODES, *some_pods(per_node=1))
        bench.deliver(*TAINTED[:11])
        await anyio.sleep(5 * 3600 - 1)
        assert bench.evicted_names == []
        assert bench.controller.evaluator.queue.blocked_by_gate == {"Schedule": 11}

        await anyio.sleep(2)
        assert len(bench.evicted_names) == 11


async def test_a_freeze_of_a_namespace_holds_its_pods_alone_until_the_moment_it_ends() -> None:
    began_s = datetime(2027, 1, 6, 20, tzinfo=UTC).timestamp()
    began = anyio.current_time()
    freeze = {"close": ["2026-12-20 to 2027-01-06"], "namespaces": ["ns1"], "timeZone": "UTC"}
    others = {"allow": ["wed 21:00-24:00"], "namespaces": ["ns2"], "profiles": ["day"]}
    night = {"close": ["2027-01-06"], "profiles": ["night"]}
    read = [EvictionSchedule.model_validate(each) for each in (freeze, others, night)]
    budgets = make_rate_limits({}, schedules=tuple(read))
    bench = ControllerBench(
        budgets=budgets, wall_clock=lambda: began_s + anyio.current_time() - began
    )

    def left(namespace: str) -> int:
        number = int(namespace.removeprefix("ns"))
        return sum(int(name[1:]) % 4 == number for name in bench.evicted_names)

    async with bench.running():
        bench.sync_and_resume(*NODES, *some_pods(per_node=4))
        bench.deliver(*TAINTED[:11])
        await anyio.sleep(60)
        assert [left(f"ns{number}") for number in range(4)] == [11, 0, 0, 11]
        await anyio.sleep(3600 - 61)
        assert left("ns2") == 0
        await anyio.sleep(2)
        assert (left("ns1"), left("ns2")) == (0, 11)
        await anyio.sleep(3 * 3600 - 2)
        assert left("ns1") == 0
        await anyio.sleep(2)
        assert left("ns1") == 11


async def test_a_named_budget_keeps_one_namespace_slow_and_no_other() -> None:
    named = NamedBudget.model_validate(
        {"name": "ns1", "namespaces": ["ns1"], "evictions": 60, "per": "1h", "burst": 2}
    )
    bench = ControllerBench(budgets=make_rate_limits({}, named=(named,)))
    async with bench.running():
        bench.sync_and_resume(*NODES, *some_pods(per_node=4))
        bench.deliver(*TAINTED[:11])
        await anyio.sleep(1)

        def left() -> int:
            return sum(int(name[1:]) % 4 == 1 for name in bench.evicted_names)

        assert len(bench.evicted_names) - left() == 33
        counts = [left()]
        for _ in range(10):
            await anyio.sleep(60)
            counts.append(left())

        assert counts == [2, *range(3, 12), 11]
