"""A first policy with settings, written for one aim or several."""

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.policy.settings.pace import NORMAL, Pace


class Aim(StrEnum):
    """A purpose of a first policy."""

    SPREAD = "spread"
    PACK = "pack"
    DRAIN_TAINTED = "drain-tainted"
    CLEAN_UP_FAILED = "clean-up-failed"
    DRAIN_ON_REQUEST = "drain-on-request"


AIMS: Final = {
    Aim.SPREAD: "even out nodes, replicas of a workload, and topology spread constraints",
    Aim.PACK: "empty nodes that are hardly used, so that an autoscaler removes them",
    Aim.DRAIN_TAINTED: "move pods off nodes whose taints or labels they no longer fit",
    Aim.CLEAN_UP_FAILED: "evict failed pods, and restart crashing ones elsewhere",
    Aim.DRAIN_ON_REQUEST: "empty the nodes that `reactive-desched drain` names",
}
"""Each aim in one line."""


class StarterOptions(Struct, frozen=True):
    """Options of a first policy; `measured`: by use from metrics-server, not by requests.

    `evictions_per_minute` of the whole cluster counts before what the pace says; None: the pace.
    """

    aims: Collection[Aim]
    measured: bool = False
    pace: Pace = NORMAL
    evictions_per_minute: int | None = None


class _Plugin(Struct, frozen=True):
    name: str
    comment: str
    args: str = ""
    is_balance: bool = False


_HEAD: Final = """\
# Aims: {aims}.
# `reactive-desched policy check FILE` checks this file, `plan --policy FILE` shows what it would
# evict and when, and `run --policy FILE --dry-run` logs that without evicting anything.
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
{providers}profiles:
- name: default
  pluginConfig:
  - name: DefaultEvictor
    args:
      # A pod is evicted only where another node has room for it now.
      nodeFit: true
      # Pods of DaemonSets, mirror pods, pods of system-critical priority and pods with local
      # storage stay where they are; to protect more, see podProtections.
"""
_PROVIDERS: Final = """\
metricsProviders:
- source: KubernetesMetrics  # needs metrics-server in the cluster
"""
_SETTINGS: Final = """\
---
# What a DeschedulerPolicy cannot say. `reactive-desched policy explain settings` has every field.
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
# How fast pods move: careful, normal or fast. `policy check` prints the limits of cluster, zones,
# nodes, namespaces, owners and plugins that it stands for; each can be set by itself.
pace: {pace}
# What the controller sees is kept beside its journal, in 256 MiB at most: `policy diff NEW` says
# what an edit of this file would have changed, and `why POD --at TIME` looks back.
recording:
  enabled: true
"""
_CLUSTER_LIMIT: Final = """\
budgets:
  # At most so many evictions in the whole cluster.
  cluster: {{evictions: {per_minute}, per: 1m, burst: {burst}}}
# What records and answers call this cluster (default: the context of the kubeconfig).
# events: {{cluster: prod-eu}}
"""
_MEASURED: Final = """\
      metricsUtilization: {source: KubernetesMetrics}  # what pods use, not what they request
"""
_PLUGINS: Final = {
    Aim.SPREAD: (
        _Plugin(
            "LowNodeUtilization",
            "Nodes above any target give pods to nodes below every threshold (per cent of\n"
            "  # what can be allocated).",
            """\
      thresholds: {cpu: 20, memory: 20, pods: 20}
      targetThresholds: {cpu: 50, memory: 50, pods: 50}
""",
            is_balance=True,
        ),
        _Plugin(
            "RemoveDuplicates",
            "Replicas of one workload do not share a node while others are free of them.",
            is_balance=True,
        ),
        _Plugin(
            "RemovePodsViolatingTopologySpreadConstraint",
            "Constraints that the scheduler must keep (DoNotSchedule) are restored.",
            """\
      constraints: [DoNotSchedule]
""",
            is_balance=True,
        ),
    ),
    Aim.PACK: (
        _Plugin(
            "HighNodeUtilization",
            "Nodes below every threshold are emptied. The scheduler must score nodes by\n"
            "  # MostAllocated, or it puts the pods back; an autoscaler removes the empty nodes.",
            """\
      thresholds: {cpu: 20, memory: 20}
""",
            is_balance=True,
        ),
    ),
    Aim.DRAIN_TAINTED: (
        _Plugin(
            "RemovePodsViolatingNodeTaints",
            "Pods that do not tolerate a NoSchedule taint of their node leave, once it has stood\n"
            "  # for 25 s (guards.standingTimes of the settings). A cordon does not count, unless\n"
            "  # guards.cordonedNodes is drain; nor do pressure and agents that are not ready.",
        ),
        _Plugin(
            "RemovePodsViolatingNodeAffinity",
            "Pods leave nodes that no longer meet their required node affinity.",
            """\
      nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]
""",
        ),
    ),
    Aim.CLEAN_UP_FAILED: (
        _Plugin(
            "RemoveFailedPods",
            "Pods in phase Failed are evicted an hour after they were created.",
            """\
      minPodLifetimeSeconds: 3600
""",
        ),
        _Plugin(
            "RemovePodsHavingTooManyRestarts",
            "Pods whose containers restarted this often together try another node.",
            """\
      podRestartThreshold: 100
      includingInitContainers: true
""",
        ),
    ),
    Aim.DRAIN_ON_REQUEST: (
        _Plugin(
            "DrainNodes",
            "Pods leave cordoned nodes with the annotation reactive-desched/drain, and no others:\n"
            "  # `reactive-desched drain NODE` sets both.",
        ),
    ),
}


def check_aims(aims: Collection[Aim]) -> None:
    """Raise ConfigError where aims work against each other, or there is none."""
    if not aims:
        raise ConfigError(f"name at least one aim: {', '.join(Aim)}")
    if Aim.SPREAD in aims and Aim.PACK in aims:
        raise ConfigError(
            "spread and pack work against each other: one fills the nodes that the other empties"
        )


def starter_policy(options: StarterOptions) -> str:
    """Return the text of a policy and settings, with comments; raises ConfigError."""
    check_aims(options.aims)
    aims = [aim for aim in Aim if aim in options.aims]
    if options.measured and Aim.SPREAD not in aims:
        raise ConfigError("only spread can go by what pods use; leave the use out")
    return "".join(_parts(aims, options))


def _parts(aims: list[Aim], options: StarterOptions) -> Iterator[str]:
    plugins = [plugin for aim in aims for plugin in _PLUGINS[aim]]
    providers = _PROVIDERS if options.measured else ""
    yield _HEAD.format(aims=", ".join(aims), providers=providers)
    for plugin in plugins:
        args = plugin.args
        if options.measured and plugin.name == "LowNodeUtilization":
            args += _MEASURED
        yield f"  # {plugin.comment}\n  - name: {plugin.name}\n" + (
            f"    args:\n{args}" if args else ""
        )
    yield "  plugins:\n"
    for point, is_balance in (("deschedule", False), ("balance", True)):
        names = [plugin.name for plugin in plugins if plugin.is_balance is is_balance]
        if names:
            yield f"    {point}:\n      enabled:\n"
            yield "".join(f"      - {name}\n" for name in names)
    yield _SETTINGS.format(pace=options.pace)
    if (per_minute := options.evictions_per_minute) is not None:
        yield _CLUSTER_LIMIT.format(per_minute=per_minute, burst=max(1, per_minute // 3))
