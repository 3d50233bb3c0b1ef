"""Measures a live cluster once, for a sweep over a snapshot of it."""

from collections import defaultdict

import anyio
from msgspec.structs import replace

from reactive_desched.api.usage_source import UsageSource
from reactive_desched.errors import UsageUnavailable
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.session import Transport
from reactive_desched.model.objects import Pod
from reactive_desched.model.usage import NodeUsage
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.configuration import Configuration
from reactive_desched.usage.metrics_api import KUBERNETES_METRICS
from reactive_desched.usage.metrics_server import MetricsServer
from reactive_desched.usage.sources import open_sources, wanted_sources

__all__ = ["with_measured_use"]


async def with_measured_use(
    snapshot: Snapshot,
    configuration: Configuration,
    session: Transport,
    clock: Clock,
    *,
    show_nodes: bool = False,
) -> Snapshot:
    """Return the snapshot with samples, taken now, of the sources that the policy's plugins read.

    To show nodes, metrics-server is asked in any case, for nodes alone where no plugin reads it.
    A source that cannot be asked is named in the snapshot: its plugins find nothing.
    """
    policy, settings = configuration.policy, configuration.controller.usage
    problems: dict[str, str] = {}
    samples: list[NodeUsage] = []
    on_node: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        on_node[pod.node].append(pod)
    pods_on = on_node.__getitem__
    shown: list[UsageSource] = []
    if show_nodes and KUBERNETES_METRICS not in wanted_sources(policy):
        shown = [MetricsServer(session, clock, pods_on, pod_interval_s=None)]
    try:
        async with open_sources(policy, settings, session, clock, pods_on, once=True) as wanted:
            for source in (*wanted, *shown):
                try:
                    samples += await _measure(source, settings.of(source.name).timeout_s)
                except UsageUnavailable as error:
                    problems[source.name] = f"error getting node usage: {error}"
    except UsageUnavailable as error:
        reason = f"error initializing usage client: {error}"
        problems = dict.fromkeys(wanted_sources(policy), reason)
    return replace(snapshot, samples=tuple(samples), usage_problems=problems)


async def _measure(source: UsageSource, timeout_s: float) -> list[NodeUsage]:
    try:
        with anyio.fail_after(timeout_s):
            return list(await source.measure())
    except TimeoutError as error:
        raise UsageUnavailable(f"no answer within {timeout_s:g}s") from error
