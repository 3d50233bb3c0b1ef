"""Every setting either takes effect on a reload, or is marked as one that needs a restart."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from reactive_desched.api.args import file_key, needs_restart
from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.controller.controller import Controller
from reactive_desched.model.node_marks import ReasonRules
from reactive_desched.model.scheduler_profile import SchedulerProfiles
from reactive_desched.model.taints import NO_SCHEDULE, Taint
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.policy.settings.pace import at_pace
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.state.indexes.zone_health import ZoneRule
from tests.support.assembly_bench import TAINTS, ControllerBench
from tests.support.configurations import make_policy, make_profile_of

pytestmark = pytest.mark.anyio

Effect = Callable[[Controller, Configuration], Any]  # what can be seen is of any type


def debounce(controller: Controller, _: Configuration) -> DebounceConfig:
    [instance] = controller.evaluator.instances
    return instance.debounce


def mode(controller: Controller, _: Configuration) -> str:
    [instance] = controller.evaluator.instances
    return instance.mode


def debounce_by_change(controller: Controller, _: Configuration) -> Mapping[str, DebounceConfig]:
    [instance] = controller.evaluator.instances
    return instance.debounce_by_change


def flapping(controller: Controller, _: Configuration) -> tuple[float, ...]:
    config = controller.evaluator.queue.flaps._config
    return config.changes, config.per_s, config.wait.quiet_s, config.wait.max_wait_s


def rate(scope: str) -> Effect:
    return lambda controller, _: _rates(controller)[scope]


def _rates(controller: Controller) -> dict[str, TokenRate]:
    return {scope.name: scope.rate for scope in controller.gates.rate_limiter._limited}


def growth(controller: Controller, _: Configuration) -> float:
    return controller.gates.rate_limiter._growth(3000)


def warm_up(controller: Controller, _: Configuration) -> float:
    found = controller.gates.rate_limiter._warm_up
    return 1 if found is None else found.ratio(100)


def retry(controller: Controller, _: Configuration) -> tuple[float, float, float]:
    waits = controller._backoff._retry
    return waits.initial_s, waits.max_s, waits.jitter


def workloads_in_metrics(controller: Controller, _: Configuration) -> int:
    return controller.gates.moved_workloads._settings.workloads_in_metrics


def ignores(taint: str) -> Effect:
    def effect(controller: Controller, _: Configuration) -> bool:
        [instance] = controller.evaluator.instances
        return not instance.view.taint_counts(Taint(taint, NO_SCHEDULE))

    return effect


def stands(taint: str) -> Effect:
    return lambda controller, _: _rules(controller).taint(taint).standing_s


def rule(name: str) -> Effect:
    return lambda controller, _: getattr(_rules(controller), name)


def _rules(controller: Controller) -> ReasonRules:
    [instance] = controller.evaluator.instances
    return instance.view._rules


def guarded(setting: str) -> Effect:
    return lambda controller, _: getattr(controller.gates._guards._inputs.settings, setting)


def lasting(standing_time: str) -> Effect:
    return lambda controller, _: getattr(
        controller.gates._guards._inputs.settings.standing_times, standing_time
    )


def guards_of(plugin: str) -> Effect:
    return lambda controller, _: {g.name for g in controller.gates._guards._active(plugin)}


def max_moving(scope: str) -> Effect:
    return lambda controller, _: controller.gates._moving_limits.limits[scope]


def moves(name: str) -> Effect:
    return lambda controller, _: getattr(controller.gates.memory._settings, name)


def ready_timeout(controller: Controller, _: Configuration) -> float:
    return controller.gates.moves._timeout_s


def disruptions(name: str) -> Effect:
    """Return what the recorder reads of the configuration in force, for each end of a pod."""
    return lambda _, config: getattr(
        ActiveConfig(config).configuration.settings.events.disruptions, name
    )


def drains(_: Controller, configuration: Configuration) -> list[str]:
    """Return what begins drains: see tests/flow/test_drain.py for how it reads them."""
    return [each.wish for each in ActiveConfig(configuration).configuration.settings.drains]


def kubernetes_events(_: Controller, configuration: Configuration) -> bool:
    active = ActiveConfig(configuration)
    return active.configuration.settings.events.kubernetes


def schedulers(controller: Controller, _: Configuration) -> SchedulerProfiles:
    return controller.gates.node_fit.scheduler_profiles


def usage(*path: str) -> Effect:
    """What `UsagePolling` polls by: see tests/app/test_usage.py for how it follows a reload."""

    def effect(_: Controller, configuration: Configuration) -> object:
        found: object = ActiveConfig(configuration).configuration.settings.usage
        for step in path:
            found = getattr(found, step)
        return found

    return effect


SMOOTHING = {
    "weight": (0.5, "weight"),
    "window": (5, "window"),
    "percentile": (75.0, "percentile"),
    "agree": (2, "agree"),
    "of": (3, "of"),
    "hysteresis": (2.0, "hysteresis"),
}
SOURCES = {"kubernetesMetrics": "kubernetes_metrics", "prometheus": "prometheus"}


def zone_rule(controller: Controller, _: Configuration) -> Hashable:
    [(_index, rule)] = controller.gates.brakes.zones.keys
    return rule


def large_zone_rate(controller: Controller, _: Configuration) -> TokenRate | None:
    bucket = controller.gates.brakes.zones._bucket("a", 0)
    return None if bucket is None else bucket.rate


def storm(controller: Controller, _: Configuration) -> tuple[int, float, float | None]:
    settings = controller.gates.brakes.storm._settings
    assert settings is not None
    return settings.threshold(10_000), settings.window_s, settings.release_after_s


def pending(controller: Controller, _: Configuration) -> tuple[int, float]:
    settings = controller.gates.brakes.pending._settings
    assert settings is not None
    return settings.threshold(10_000), settings.after_s


def annotations_of(controller: Controller, _: Configuration) -> frozenset[str]:
    return controller.gates.annotated_answers._asked


RELOADABLE: dict[str, tuple[object, Effect, object]] = {
    "mode": ("observe", mode, "observe"),
    "profiles": ({"day": {"plugins": {TAINTS.name: {"mode": "observe"}}}}, mode, "observe"),
    "proposals.annotationsOf": (["pod"], annotations_of, frozenset({"pod"})),
    "debounce.quiet": ("3s", debounce, DebounceConfig(3, 10)),
    "debounce.maxWait": ("4s", debounce, DebounceConfig(1, 4)),
    "debounce.perPlugin": ({TAINTS.name: {"quiet": "5s"}}, debounce, DebounceConfig(5, 10)),
    "debounce.perChange": (
        {"NodeTaintsChanged": {"quiet": "5s"}},
        debounce_by_change,
        {"NodeTaintsChanged": DebounceConfig(5, 10)},
    ),
    "debounce.flapping.changes": (9, flapping, (9, 60, 30, 300)),
    "debounce.flapping.per": ("9s", flapping, (4, 9, 30, 300)),
    "debounce.flapping.quiet": ("9s", flapping, (4, 60, 9, 300)),
    "debounce.flapping.maxWait": ("90s", flapping, (4, 60, 30, 90)),
    "drains": (
        [{"name": "old", "maxNodeAge": "720h", "conditions": [{"type": "KernelDeadlock"}]}],
        drains,
        ["rule old: older than 30d and with KernelDeadlock=True"],
    ),
    "pace": ("fast", rate("cluster"), TokenRate(2, 40)),
    "budgets.cluster.evictions": (60, rate("cluster"), TokenRate(1, 10)),
    "budgets.cluster.per": ("30s", rate("cluster"), TokenRate(1, 10)),
    "budgets.cluster.burst": (7, rate("cluster"), TokenRate(0.5, 7)),
    "budgets.node.evictions": (60, rate("node"), TokenRate(1, 3)),
    "budgets.node.per": ("6s", rate("node"), TokenRate(1, 3)),
    "budgets.node.burst": (7, rate("node"), TokenRate(0.1, 7)),
    "budgets.namespace.evictions": (60, rate("namespace"), TokenRate(1, 5)),
    "budgets.namespace.per": ("12s", rate("namespace"), TokenRate(1, 5)),
    "budgets.namespace.burst": (7, rate("namespace"), TokenRate(0.2, 7)),
    **{
        f"guards.{group}": ("drain", ignores(taint), False)
        for group, taint in {
            "cordonedNodes": "node.kubernetes.io/unschedulable",
            "scaledDownNodes": "karpenter.sh/disrupted",
            "maintenanceNodes": "medik8s.io/drain",
            "pressureNodes": "node.kubernetes.io/disk-pressure",
            "unreadyNodes": "node.kubernetes.io/network-unavailable",
            "startingNodes": "readiness.k8s.io/a",
            "agentNodes": "node.cilium.io/agent-not-ready",
        }.items()
    },
    **{
        f"guards.standingTimes.{group}": ("9m", stands(taint), 540)
        for group, taint in {
            "cordonedNodes": "node.kubernetes.io/unschedulable",
            "scaledDownNodes": "karpenter.sh/disrupted",
            "maintenanceNodes": "medik8s.io/drain",
            "pressureNodes": "node.kubernetes.io/disk-pressure",
            "unreadyNodes": "node.kubernetes.io/network-unavailable",
            "startingNodes": "readiness.k8s.io/a",
            "agentNodes": "node.cilium.io/agent-not-ready",
            "otherTaints": "team",
        }.items()
    },
    "guards.standingTimes.byTaint": ({"team": "9m"}, stands("team"), 540),
    "guards.standingTimes.nodeLabels": ("9m", rule("label_s"), 540),
    "guards.standingTimes.systemLabels": ("9m", rule("system_label_s"), 540),
    "guards.standingTimes.readyNodes": ("9m", rule("ready_s"), 540),
    "guards.standingTimes.podLabels": ("4m", rule("pod_label_s"), 240),
    "guards.standingTimes.podStates": ("9m", rule("pod_state_s"), 540),
    "guards.standingTimes.absentNodes": ("9m", rule("absent_s"), 540),
    "guards.standingTimes.nodeUse": ("4m", rule("use_s"), 240),
    "guards.standingTimes.openNodes": ("4m", lasting("open_nodes_s"), 240),
    "guards.standingTimes.closedNodes": ("4m", lasting("closed_nodes_s"), 240),
    "guards.minPodAge": ("1m", guarded("min_pod_age_s"), 60),
    "guards.minReadyTime": ("1m", guarded("min_ready_time_s"), 60),
    "guards.minEndedTime": ("2m", guarded("min_ended_time_s"), 120),
    "guards.unreadyTimeout": ("1m", guarded("unready_timeout_s"), 60),
    "guards.minJobTriesLeft": (3, guarded("min_job_tries_left"), 3),
    "guards.replacingOwners": (["CloneSet"], guarded("replacing_owners"), ("CloneSet",)),
    "guards.nonReplacingOwners": (["*"], guarded("non_replacing_owners"), ("*",)),
    "guards.gangs": (
        "together",
        lambda controller, _: controller.gates.gangs._settings.gangs,
        "together",
    ),
    "guards.disabled": (tuple(GuardName), guards_of(TAINTS.name), set()),
    "guards.ignoredBy": ({TAINTS.name: tuple(GuardName)}, guards_of(TAINTS.name), set()),
    "budgets.zone.evictions": (60, rate("zone"), TokenRate(1, 7)),
    "budgets.zone.per": ("20s", rate("zone"), TokenRate(1, 7)),
    "budgets.zone.burst": (9, rate("zone"), TokenRate(20 / 60, 9)),
    "budgets.owner.evictions": (60, rate("owner"), TokenRate(1, 2)),
    "budgets.owner.per": ("6s", rate("owner"), TokenRate(1, 2)),
    "budgets.owner.burst": (9, rate("owner"), TokenRate(6 / 60, 9)),
    "budgets.plugin.evictions": (60, rate("plugin"), TokenRate(1, 7)),
    "budgets.plugin.per": ("20s", rate("plugin"), TokenRate(1, 7)),
    "budgets.plugin.burst": (9, rate("plugin"), TokenRate(20 / 60, 9)),
    "budgets.ended.evictions": (60, rate("ended"), TokenRate(1, 20)),
    "budgets.ended.per": ("30s", rate("ended"), TokenRate(4, 20)),
    "budgets.ended.burst": (9, rate("ended"), TokenRate(2, 9)),
    "budgets.growsAboveNodes": (1000, growth, 3),
    "budgets.window": ("9m", lambda controller, _: controller.gates.policy_limits.window_s, 540),
    "budgets.named": (
        [{"name": "shop", "namespaces": ["shop"], "evictions": 1}],
        lambda controller, _: len(controller.gates.named_budgets._budgets),
        1,
    ),
    "budgets.schedules": (
        [{"schedule": "0 9 * * *", "duration": "8h", "evictions": 0}],
        lambda controller, _: len(controller.gates.schedules._windows),
        1,
    ),
    "budgets.warmUp.duration": ("100s", warm_up, 1),
    "budgets.warmUp.fromPercent": (40, warm_up, pytest.approx(0.6)),
    "moves.maxMoving.owner": ("20%", max_moving("owner"), "20%"),
    "moves.maxMoving.namespace": (3, max_moving("namespace"), 3),
    "moves.maxMoving.node": (3, max_moving("node"), 3),
    "moves.maxMoving.zone": (3, max_moving("zone"), 3),
    "moves.maxMoving.cluster": (3, max_moving("cluster"), 3),
    "moves.readyTimeout": ("1m", ready_timeout, 60.0),
    "moves.cooldown": ("1m", moves("cooldown_s"), 60.0),
    "moves.nodeCooldown": ("2m", moves("node_cooldown_s"), 120.0),
    "moves.futileBackoff": ("1m", moves("futile_backoff_s"), 60.0),
    "moves.futileAfter": (5, moves("futile_after"), 5),
    "moves.workloadsInMetrics": (5, workloads_in_metrics, 5),
    "evictions.retry.initial": ("1s", retry, (1, 300, 0.2)),
    "evictions.retry.max": ("9s", retry, (5, 9, 0.2)),
    "evictions.retry.jitter": (0, retry, (5, 300, 0)),
    "brakes.zones.unhealthyPercent": (70, zone_rule, ZoneRule(70, 50)),
    "brakes.zones.largeZoneNodes": (9, zone_rule, ZoneRule(55, 9)),
    "brakes.zones.largeZoneRate.evictions": (30, large_zone_rate, TokenRate(0.5, 1)),
    "brakes.zones.largeZoneRate.per": ("6s", large_zone_rate, TokenRate(0.5, 1)),
    "brakes.zones.largeZoneRate.burst": (7, large_zone_rate, TokenRate(0.05, 7)),
    "brakes.storm.pods": (5000, storm, (5000, 60, 1800)),
    "brakes.storm.percent": (20, storm, (2000, 60, 1800)),
    "brakes.storm.window": ("9s", storm, (1000, 9, 1800)),
    "brakes.storm.releaseAfter": (None, storm, (1000, 60, None)),
    "brakes.pending.pods": (500, pending, (500, 60)),
    "brakes.pending.percent": (2, pending, (200, 60)),
    "brakes.pending.after": ("5m", pending, (100, 300)),
    "brakes.health": (
        [{"name": "a", "prometheus": {"url": "http://prom", "query": "errors > 5"}}],
        lambda controller, _: list(controller.gates.brakes.health.checks),
        ["a"],
    ),
    "scheduler.config": (
        [{"profiles": [{"schedulerName": "batch"}]}],
        lambda controller, config: list(schedulers(controller, config).by_name),
        ["batch"],
    ),
    "scheduler.unknownScheduler": ("hold", schedulers, SchedulerProfiles(holds_unknown=True)),
    "events.kubernetes": (False, kubernetes_events, False),
    "events.disruptions.record": ("all", disruptions("record"), "all"),
    "events.disruptions.perSecond": (7, disruptions("per_second"), 7),
    "events.disruptions.burst": (70, disruptions("burst"), 70),
    "usage.kubernetesMetrics.podInterval": ("9s", usage("kubernetes_metrics", "pod_interval_s"), 9),
    **{
        f"usage.{key}.{setting}": (written, usage(section, field), seconds)
        for key, section in SOURCES.items()
        for setting, field, written, seconds in (
            ("interval", "interval_s", "7s", 7),
            ("timeout", "timeout_s", "3s", 3),
            ("maxAge", "max_age_s", "5m", 300),
        )
    },
    **{
        f"usage.{key}.smoothing.{setting}": (value, usage(section, "smoothing", field), value)
        for key, section in SOURCES.items()
        for setting, (value, field) in SMOOTHING.items()
    },
}

OF_ONE_SWEEP = {"nodeFit"}
"""Settings that only `run --once` reads, which reloads nothing."""


def section(annotation: object) -> type[BaseModel] | None:
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    models = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))
    return next(models, None)


def fields_without_mark(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        path = f"{prefix}{file_key(name)}"
        if needs_restart(field) or path in ("apiVersion", "kind"):
            continue
        if (below := section(field.annotation)) is not None:
            yield from fields_without_mark(below, f"{path}.")
        else:
            yield path


def test_every_field_is_marked_or_shown_to_take_effect() -> None:
    assert set(fields_without_mark(ReactiveSettings)) == RELOADABLE.keys() | OF_ONE_SWEEP


@pytest.mark.virtual_time
@pytest.mark.parametrize("field", RELOADABLE)
async def test_a_reload_takes_the_field(field: str) -> None:
    written, effect, expected = RELOADABLE[field]
    for step in reversed(field.split(".")):
        written = {step: written}
    policy = make_policy((make_profile_of("day", (TAINTS,)),))
    before = Configuration(policy, ReactiveSettings())
    settings = ReactiveSettings.model_validate(written)
    after = Configuration(policy, at_pace(settings, settings.pace))
    controller = ControllerBench().controller
    controller.reconfigure(before)
    assert effect(controller, before) != expected

    controller.reconfigure(after)

    assert effect(controller, after) == expected
