"""Health checks, from an answer to the evictions that they hold back, and their release."""

from collections.abc import Mapping

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.brakes.health import HEALTH_UNKNOWN, SERVICE_SUFFERS
from reactive_desched.model.brakes import CLUSTER
from reactive_desched.model.health import HELD_KEYS, HealthAnswer, Symptom
from reactive_desched.model.objects import ClusterObject
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import NO_BRAKES
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio
MINUTE = 60.0
ASKED = {"prometheus": {"url": "http://prom:9090", "query": "errors > 5"}}
WELL = HealthAnswer("errors")
BRAKE = "health/errors"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def checked(*checks: Mapping[str, object]) -> FakeEdgesController:
    """Return a controller with these health checks, and no other brake."""
    off = dict.fromkeys(("zones", "storm", "pending"))
    health = [{"name": "errors", **ASKED, **each} for each in checks]
    settings = BrakeSettings.model_validate({**off, "health": health})
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), brakes=settings)


def suffers(value: str = "7", check: str = "errors", **labels: str) -> HealthAnswer:
    return HealthAnswer(check, (Symptom(labels, value),))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("0.09999999999999998", "0.1"),
        ("0.0731", "0.0731"),
        ("12345678", "12345678"),
        ("+Inf", "+Inf"),
        ("histogram", "histogram"),
        ("", ""),
    ],
)
def test_the_value_of_a_sample_is_shown_as_people_read_numbers(value: str, shown: str) -> None:
    assert str(Symptom({}, value)) == f"{shown} {{}}".strip()


def answer(flow: FakeEdgesController, said: HealthAnswer) -> None:
    """Give the controller an answer."""
    flow.pipeline.controller.pauses.take_answer(said)


def notices(flow: FakeEdgesController) -> list[tuple[str, str, bool]]:
    """Return brake, scope and whether it engaged of each record."""
    return [(each.brake, each.scope, each.engaged) for each in flow.intent_store.brakes]


def reasons(flow: FakeEdgesController) -> dict[str, str]:
    """Return the reason of each pod's last decision; empty for an eviction."""
    return {
        each.finding.pod.name: getattr(each.decision, "reason", "")
        for each in flow.observer.evaluations
    }


def find(flow: FakeEdgesController, *names: str) -> None:
    """Let a pod of each of these namespaces be found, on a node of its own."""
    for name in names:
        flow.deliver(node(f"n-{name}", "gpu:NoSchedule"))


def cluster_of(*namespaces: str) -> list[ClusterObject]:
    """Return a node with a pod for each namespace, which has its name."""
    found: list[ClusterObject] = [node("spare")]
    for each in namespaces:
        found += [node(f"n-{each}"), pod(each, namespace=each, on=f"n-{each}")]
    return found


async def test_everything_waits_while_the_service_suffers_and_goes_on_when_it_was_well() -> None:
    async with checked({"releaseAfter": "5m"}).running() as flow:
        answer(flow, WELL)
        flow.sync_and_resume(*cluster_of("shop", "pay"))
        answer(flow, suffers())
        find(flow, "shop")
        await anyio.sleep(10 * MINUTE)
        assert reasons(flow) == {"shop": SERVICE_SUFFERS.code}
        answer(flow, WELL)
        await anyio.sleep(4 * MINUTE)
        assert flow.evicted_names == []
        await anyio.sleep(2 * MINUTE)
        assert flow.evicted_names == ["shop"]
        find(flow, "pay")
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == ["shop", "pay"]
    assert notices(flow) == [(BRAKE, CLUSTER, True), (BRAKE, CLUSTER, False)]


async def test_an_answer_is_needed_before_the_first_eviction() -> None:
    async with checked({}).running() as flow:
        flow.sync_and_resume(*cluster_of("shop"))
        find(flow, "shop")
        await anyio.sleep(5)
        assert reasons(flow) == {"shop": HEALTH_UNKNOWN.code}
        answer(flow, WELL)
        await anyio.sleep(5)

    assert flow.evicted_names == ["shop"]
    assert notices(flow) == [], "a start is not recorded"


async def test_a_check_that_is_never_answered_is_recorded_after_a_while() -> None:
    async with checked({}).running() as flow:
        flow.sync_and_resume(*cluster_of("shop"))
        await anyio.sleep(MINUTE)
        assert notices(flow) == [(BRAKE, CLUSTER, True)]
        answer(flow, WELL)
        await anyio.sleep(1)

    assert notices(flow) == [(BRAKE, CLUSTER, True), (BRAKE, CLUSTER, False)]


@pytest.mark.parametrize(("unknown", "evicted"), [("hold", []), ("ignore", ["shop"])])
async def test_what_no_answer_means_is_set(unknown: str, evicted: list[str]) -> None:
    async with checked({"onUnknown": unknown}).running() as flow:
        flow.sync_and_resume(*cluster_of("shop", "pay"))
        answer(flow, WELL)
        answer(flow, HealthAnswer("errors", problem="connection refused"))
        find(flow, "shop")
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == evicted


async def test_a_service_that_suffers_when_the_process_starts_counts_at_once() -> None:
    async with checked({"for": "10m"}).running() as flow:
        answer(flow, suffers())
        flow.sync_and_resume(*cluster_of("shop"))
        find(flow, "shop")
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == []


async def test_it_must_suffer_without_a_break_for_as_long_as_is_set() -> None:
    async with checked({"for": "2m", "releaseAfter": "0s"}).running() as flow:
        answer(flow, WELL)
        flow.sync_and_resume(*cluster_of("shop", "pay"))
        for _ in range(3):
            answer(flow, suffers())
            await anyio.sleep(1.5 * MINUTE)
            answer(flow, WELL)
            await anyio.sleep(1)
        assert notices(flow) == []
        answer(flow, suffers())
        find(flow, "shop")
        await anyio.sleep(MINUTE)
        assert flow.evicted_names == ["shop"]
        await anyio.sleep(2 * MINUTE)
        find(flow, "pay")
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == ["shop"]
    assert notices(flow) == [(BRAKE, CLUSTER, True)]


async def test_a_relapse_begins_the_wait_for_the_release_again() -> None:
    async with checked({"releaseAfter": "5m"}).running() as flow:
        flow.sync_and_resume(*cluster_of("shop"))
        answer(flow, suffers())
        find(flow, "shop")
        for _ in range(3):
            answer(flow, WELL)
            await anyio.sleep(4 * MINUTE)
            answer(flow, suffers())
            await anyio.sleep(MINUTE)

    assert flow.evicted_names == []
    assert notices(flow) == [(BRAKE, CLUSTER, True)]


async def test_a_namespace_is_held_by_the_label_of_its_sample_and_no_other() -> None:
    async with checked({"holds": "namespace", "releaseAfter": "1m"}).running() as flow:
        flow.sync_and_resume(*cluster_of("shop", "pay"))
        answer(flow, suffers(namespace="shop"))
        find(flow, "shop", "pay")
        await anyio.sleep(MINUTE)
        assert flow.evicted_names == ["pay"]
        answer(flow, WELL)
        await anyio.sleep(2 * MINUTE)

    assert flow.evicted_names == ["pay", "shop"]
    scope = "namespace shop"
    assert notices(flow) == [(BRAKE, scope, True), (BRAKE, scope, False)]


@pytest.mark.parametrize(
    ("holds", "label", "held"),
    [
        ("plugin", "RemovePodsViolatingNodeTaints", True),
        ("plugin", "PodLifeTime", False),
        ("profile", "test", True),
        ("profile", "other", False),
    ],
)
async def test_a_plugin_or_a_profile_is_held_by_its_name(
    holds: str, label: str, *, held: bool
) -> None:
    async with checked({"holds": holds, "label": "which"}).running() as flow:
        flow.sync_and_resume(*cluster_of("shop"))
        answer(flow, suffers(which=label))
        find(flow, "shop")
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == ([] if held else ["shop"])


async def test_a_sample_without_the_label_holds_everything() -> None:
    async with checked({"holds": "namespace"}).running() as flow:
        flow.sync_and_resume(*cluster_of("shop"))
        answer(flow, suffers(job="shop"))
        find(flow, "shop")
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == []
    (notice,) = flow.intent_store.brakes
    assert notice.scope == CLUSTER
    assert "has no label namespace" in notice.message


async def test_more_namespaces_than_are_kept_hold_everything() -> None:
    samples = tuple(Symptom({"namespace": f"ns{i}"}, "1") for i in range(HELD_KEYS + 1))
    async with checked({"holds": "namespace"}).running() as flow:
        flow.sync_and_resume(*cluster_of("shop"))
        answer(flow, HealthAnswer("errors", samples))
        find(flow, "shop")
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == []
    assert notices(flow) == [(BRAKE, CLUSTER, True)]


async def test_each_of_several_checks_holds_until_it_is_released_itself() -> None:
    async with checked(
        {"releaseAfter": "0s"}, {"name": "slow", "releaseAfter": "0s"}
    ).running() as flow:
        flow.sync_and_resume(*cluster_of("shop"))
        answer(flow, suffers())
        answer(flow, suffers("1.5", check="slow"))
        find(flow, "shop")
        await anyio.sleep(MINUTE)
        answer(flow, WELL)
        await anyio.sleep(MINUTE)
        assert flow.evicted_names == []
        messages = flow.pipeline.controller.pauses.brake_messages()
        assert messages[BRAKE] == ""
        assert messages["health/slow"].endswith(": 1.5 {}")
        answer(flow, HealthAnswer("slow"))
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == ["shop"]


async def test_the_state_says_which_check_holds_what_since_when_and_until_when(
    golden: Golden,
) -> None:
    async with checked({"releaseAfter": "5m", "holds": "namespace"}).running() as flow:
        answer(flow, WELL)
        flow.sync_and_resume(*cluster_of("shop"))
        answer(flow, suffers("7", namespace="shop"))
        await anyio.sleep(MINUTE)
        answer(flow, suffers("9.5", namespace="shop"))
        (state,) = flow.pipeline.description.brake_states()
        assert (state.name, state.scope) == (BRAKE, "namespace shop")
        assert state.message.endswith(': 9.5 {namespace="shop"}')
        assert state.release == golden()
        assert state.until_s is None
        answer(flow, WELL)
        (later,) = flow.pipeline.description.brake_states()
        assert later.since_s == state.since_s
        assert later.until_s is not None
        assert round(later.until_s - state.since_s) == 6 * MINUTE


async def test_a_decided_eviction_is_not_sent_any_more() -> None:
    async with checked({}).running() as flow:
        answer(flow, WELL)
        flow.sync_and_resume(*cluster_of("shop"))
        flow.intent_store.slow_s = 2.0
        flow.intent_store.on_write = lambda: answer(flow, suffers())
        find(flow, "shop")
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == []


async def test_a_check_that_is_taken_away_holds_nothing_more() -> None:
    async with checked({"releaseAfter": "1h"}).running() as flow:
        flow.sync_and_resume(*cluster_of("shop"))
        answer(flow, suffers())
        find(flow, "shop")
        await anyio.sleep(MINUTE)
        settings = flow.config.settings.model_copy(update={"brakes": NO_BRAKES})
        flow.reconfigure(msgspec.structs.replace(flow.config, written=settings))
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == ["shop"]
    assert notices(flow) == [(BRAKE, CLUSTER, True), (BRAKE, CLUSTER, False)]
