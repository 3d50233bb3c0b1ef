"""A mode for each profile and plugin: some show what they would evict, beside others that act."""

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.health import build_health
from reactive_desched.app.start_up import log_identity
from reactive_desched.controller.pipeline import build_pipeline
from reactive_desched.model.decisions import Evict
from reactive_desched.model.modes import ACT, OBSERVE, PROPOSE, Mode, mode_text
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.plugins.pod_life_time import PodLifeTimeArgs, PodLifeTimePlugin
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.controller_settings import PluginSettings, ProfileSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import UNLIMITED_MOVES, make_configuration, make_profile_of
from tests.support.flow import FakeEdgesController, never_suspended
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio

TAINTED = node("n1", "gpu:NoSchedule")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def taints() -> NodeTaintsPlugin:
    return NodeTaintsPlugin(NodeTaintsArgs())


def configuration(
    modes: dict[str, Mode], rates: dict[str, TokenRate | None] | None = None
) -> Configuration:
    """Build one with a profile of each name, each of which finds pods by the taints of nodes."""
    profiles = tuple(make_profile_of(name, (taints(),)) for name in modes)
    built = make_configuration(profiles, moves=UNLIMITED_MOVES, rates=rates)
    assert built.written is not None
    named = {name: ProfileSettings(mode=mode) for name, mode in modes.items()}
    return replace(built, written=built.written.model_copy(update={"profiles": named}))


class Moded(FakeEdgesController):
    """A controller with profiles of other modes."""

    def __init__(self, config: Configuration) -> None:
        super().__init__()
        self.config = config
        self.pipeline = build_pipeline(
            config,
            recorder=self.intent_store,
            evictor=self.evictor,
            observer=self.observer,
            work_available=Wakeup(),
            suspend=never_suspended(),
            clock=anyio.current_time,
            wall_clock=anyio.current_time,
        )
        self.controller, self.handlers = self.pipeline.controller, self.pipeline.event_handlers
        self.readiness = self.controller.readiness

    @property
    def intents(self) -> list[tuple[str, str, bool]]:
        """The pod, the profile, and whether it is only observed, of each intent."""
        return sorted(
            (each.pod.name, each.context.profile, each.is_observed)
            for each in self.intent_store.intents
        )


@pytest.mark.parametrize(
    ("modes", "is_said"),
    [
        pytest.param({"a": OBSERVE, "b": PROPOSE}, True, id="none acts"),
        pytest.param({"a": OBSERVE, "b": ACT}, False, id="one acts"),
    ],
)
async def test_a_process_whose_plugins_do_not_act_does_not_say_that_it_evicts(
    modes: dict[str, Mode], *, is_said: bool
) -> None:
    config, log = configuration(modes), RecordingLogger()
    health = build_health(Moded(config).pipeline, ActiveConfig(config), dry_run=False)
    log_identity(config, log, dry_run=False)

    text = mode_text(is_dry_run=False, no_plugin_acts=is_said, is_standby=False)
    assert ("no pod by itself" in text) == is_said
    assert health.readyz().info["mode"].message == text
    assert text in [line.event for line in log.lines]


async def test_what_is_observed_is_decided_and_recorded_and_not_requested() -> None:
    controller = Moded(configuration({"shown": OBSERVE}))
    controller.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"))
    async with controller.running():
        controller.deliver(TAINTED)
        await anyio.sleep(5)

    assert controller.evicted_names == []
    assert controller.intents == [("a", "shown", True)]
    assert controller.observer.outcomes == [("a", "dry_run")]
    [(context, decision)] = controller.intent_store.decisions
    assert context.is_observed
    assert isinstance(decision, Evict)


async def test_one_profile_observes_while_another_one_evicts_the_same_pods() -> None:
    controller = Moded(configuration({"shown": OBSERVE, "done": ACT}))
    controller.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"))
    async with controller.running():
        controller.deliver(TAINTED)
        await anyio.sleep(5)

    assert controller.evicted_names == ["a"]
    assert controller.intents == [("a", "done", False), ("a", "shown", True)]
    assert sorted(controller.observer.outcomes) == [("a", "dry_run"), ("a", "evicted")]


async def test_what_is_observed_takes_no_token_of_what_acts_and_has_as_many() -> None:
    one_a_minute: dict[str, TokenRate | None] = {"cluster": TokenRate(per_second=1 / 60, burst=1)}
    controller = Moded(configuration({"shown": OBSERVE, "done": ACT}, one_a_minute))
    pods = [pod(name, on="n1", owner=f"ReplicaSet/{name}") for name in "ab"]
    controller.sync_and_resume(node("n1"), node("n2"), *pods)
    async with controller.running():
        await anyio.sleep(100)
        controller.deliver(TAINTED)
        await anyio.sleep(5)
        first = controller.intents
        pending = [each.mode for each in await controller.pipeline.description.findings()]
        await anyio.sleep(60)

    assert [observed for _, _, observed in first] == [False, True]
    assert sorted(pending) == [ACT, OBSERVE]
    assert sorted(controller.evicted_names) == ["a", "b"]
    assert {name for name, _, observed in controller.intents if observed} == {"a", "b"}


async def test_a_plugin_has_a_mode_of_its_own_within_its_profile() -> None:
    plugins: tuple[AnyPlugin, ...] = (
        taints(),
        PodLifeTimePlugin(PodLifeTimeArgs(max_pod_life_time_seconds=60)),
    )
    built = make_configuration((make_profile_of("test", plugins),), moves=UNLIMITED_MOVES)
    assert built.written is not None
    named = ProfileSettings(mode=OBSERVE, plugins={"PodLifeTime": PluginSettings(mode=ACT)})
    settings = built.written.model_copy(update={"profiles": {"test": named}})
    controller = Moded(replace(built, written=settings))
    young = pod("young", on="n1", created=1000)
    controller.sync_and_resume(node("n1"), node("n2"), young, pod("old", on="n2"))
    async with controller.running():
        controller.deliver(TAINTED)
        await anyio.sleep(100)

    assert controller.evicted_names == ["old"]
    assert controller.intents == [("old", "test", False), ("young", "test", True)]


@pytest.mark.parametrize(("before", "after"), [(OBSERVE, ACT), (ACT, OBSERVE)])
async def test_a_reload_changes_the_mode_of_what_was_not_requested(
    before: Mode, after: Mode
) -> None:
    controller = Moded(configuration({"test": before}))
    controller.intent_store.slow_s = 2.0
    controller.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"))
    async with controller.running():
        controller.deliver(TAINTED)
        await anyio.sleep(1)  # the intent is being written
        controller.reconfigure(configuration({"test": after}))
        await anyio.sleep(60)

    assert controller.evicted_names == (["a"] if after == ACT else [])
    assert [each for _, _, each in controller.intents] == [False, True]
    assert ("a", "cancelled") in controller.observer.outcomes


async def test_an_eviction_that_is_under_way_is_settled_after_its_profile_only_observes() -> None:
    controller = Moded(configuration({"test": ACT}))
    controller.evictor.slow_s = 3.0
    controller.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"))
    async with controller.running():
        controller.deliver(TAINTED)
        await anyio.sleep(1)
        controller.reconfigure(configuration({"test": OBSERVE}))
        await anyio.sleep(5)

    assert controller.evicted_names == ["a"]
    assert ("a", "evicted") in controller.observer.outcomes


async def test_what_was_observed_is_settled_after_nothing_is_observed_any_more() -> None:
    controller = Moded(configuration({"test": OBSERVE}))
    controller.intent_store.slow_s = 2.0
    controller.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"))
    async with controller.running():
        controller.deliver(TAINTED)
        await anyio.sleep(3)  # its outcome is being written
        controller.reconfigure(configuration({"test": ACT}))
        await anyio.sleep(60)

    assert controller.evicted_names == ["a"]
