"""Which sources of measured use a policy needs, and how each is reached."""

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.session import Transport
from reactive_desched.model.objects import Pod
from reactive_desched.model.usage import source_kind
from reactive_desched.model.utilization import UtilizationRule
from reactive_desched.policy.document import Prometheus
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.settings.controller_settings import UsageSettings
from reactive_desched.usage.metrics_api import KUBERNETES_METRICS
from reactive_desched.usage.metrics_server import MetricsServer
from reactive_desched.usage.prometheus import (
    IN_CLUSTER_FOLDER,
    PROMETHEUS,
    PrometheusQuerySource,
    SecretToken,
    ServiceAccountToken,
    TokenSource,
    open_prometheus,
)
from reactive_desched.usage.smoothing import Levels
from reactive_desched.usage.source import UsageSource

__all__ = ["levels_by_source", "open_sources", "wanted_sources"]

_QUERY: Final = f"{PROMETHEUS}/"


def _fixed_rules(policy: Policy) -> Iterator[UtilizationRule]:
    """Yield the rules of the policy's plugins whose thresholds are no distances from the mean."""
    plugins = [plugin for profile in policy.profiles for plugin in profile.plugins]
    for _, rule in (each for plugin in plugins for each in plugin.required_indexes):
        if isinstance(rule, UtilizationRule) and not rule.deviation:
            yield rule


def wanted_sources(policy: Policy) -> list[str]:
    """Name the sources that the policy's plugins read and that it provides, each once.

    The policy's warnings name those that it does not provide.
    """
    return sorted(
        {
            source
            for profile in policy.profiles
            for plugin in profile.plugins
            for source in plugin.usage_sources
            if source_kind(source) in policy.metrics_sources
        }
    )


def levels_by_source(policy: Policy) -> Mapping[str, Mapping[str, Levels]]:
    """Return the thresholds that the policy's plugins have for each source and resource.

    Distances from the mean are none.
    """
    low: defaultdict[tuple[str, str], set[float]] = defaultdict(set)
    high: defaultdict[tuple[str, str], set[float]] = defaultdict(set)
    for rule in _fixed_rules(policy):
        for resource, percent in rule.low:
            low[rule.source, resource].add(percent)
        for resource, percent in rule.high:
            high[rule.source, resource].add(percent)
    levels: defaultdict[str, dict[str, Levels]] = defaultdict(dict)
    for source, resource in low.keys() | high.keys():
        key = source, resource
        levels[source][resource] = Levels(tuple(low[key]), tuple(high[key]))
    return levels


@asynccontextmanager
async def open_sources(
    policy: Policy,
    settings: UsageSettings,
    session: Transport,
    clock: Clock,
    pods_on: Callable[[str], Iterable[Pod]],
    *,
    once: bool = False,
    folder: Path = IN_CLUSTER_FOLDER,
) -> AsyncIterator[list[UsageSource]]:
    """Reach the sources that the policy's plugins read while the block lasts.

    `pods_on` returns the pods of a node. Raises UsageUnavailable where the file
    of the cluster's certificate authority cannot be read.
    """
    sources: list[UsageSource] = []
    async with AsyncExitStack() as stack:
        http = None
        for name in wanted_sources(policy):
            if name == KUBERNETES_METRICS:
                pod_interval_s = 0.0 if once else settings.kubernetes_metrics.pod_interval_s
                sources.append(
                    MetricsServer(session, clock, pods_on, pod_interval_s=pod_interval_s)
                )
            elif (provider := _prometheus(policy)) is not None:
                if http is None:
                    opened = open_prometheus(settings.prometheus.timeout_s, folder)
                    http = await stack.enter_async_context(opened)
                tokens = _tokens(provider, session, folder)
                query = name.removeprefix(_QUERY)
                sources.append(PrometheusQuerySource(http, provider.url, query, tokens, time.time))
        yield sources


def _prometheus(policy: Policy) -> Prometheus | None:
    """Return how the policy has Prometheus reached, if it does."""
    providers = policy.metrics_providers
    return next((each.prometheus for each in providers if each.source == PROMETHEUS), None)


def _tokens(provider: Prometheus, session: Transport, folder: Path) -> TokenSource:
    reference = None if provider.auth_token is None else provider.auth_token.secret_reference
    if reference is None:
        return ServiceAccountToken(folder)
    return SecretToken(session, reference.namespace, reference.name)
