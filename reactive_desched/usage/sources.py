"""Opens the sources of measured use that a policy needs."""

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from reactive_desched.api.usage_source import UsageHost, UsageSource, usage_offers
from reactive_desched.errors import UsageUnavailable
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.session import Transport
from reactive_desched.model.objects import Pod
from reactive_desched.model.usage import MetricsSourceKind, source_kind
from reactive_desched.model.utilization import UtilizationRule
from reactive_desched.policy.document import Prometheus
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.settings.controller_settings import UsageSettings
from reactive_desched.usage.installed import InstalledSource
from reactive_desched.usage.metrics_server import MetricsServer
from reactive_desched.usage.monitoring_server import TokenSource
from reactive_desched.usage.prometheus import (
    IN_CLUSTER_FOLDER,
    PROMETHEUS,
    PrometheusQuerySource,
    SecretToken,
    ServiceAccountToken,
    open_prometheus,
)
from reactive_desched.usage.smoothing import Levels

__all__ = ["levels_by_source", "open_sources", "wanted_sources"]

_QUERY: Final = f"{PROMETHEUS}/"
_CLOSE_TIMEOUT_S: Final = 3.0


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


class SourceInputs(Struct, frozen=True):
    """The objects that sources are opened with; `pods_on` returns the pods of a node."""

    policy: Policy
    settings: UsageSettings
    session: Transport
    clock: Clock
    pods_on: Callable[[str], Iterable[Pod]]
    once: bool
    folder: Path


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
    inputs = SourceInputs(policy, settings, session, clock, pods_on, once, folder)
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(
                _OPENERS.get(source_kind(name), _installed)(name, inputs)
            )
            for name in wanted_sources(policy)
        ]
        yield [source for source in opened if source is not None]


@asynccontextmanager
async def _metrics_server(name: str, inputs: SourceInputs) -> AsyncIterator[UsageSource]:
    del name
    interval_s = 0.0 if inputs.once else inputs.settings.kubernetes_metrics.pod_interval_s
    yield MetricsServer(inputs.session, inputs.clock, inputs.pods_on, pod_interval_s=interval_s)


@asynccontextmanager
async def _prometheus_query(name: str, inputs: SourceInputs) -> AsyncIterator[UsageSource | None]:
    if (provider := _prometheus(inputs.policy)) is None:
        yield None
        return
    async with open_prometheus(inputs.settings.prometheus.timeout_s, inputs.folder) as http:
        tokens = _tokens(provider, inputs.session, inputs.folder)
        query = name.removeprefix(_QUERY)
        yield PrometheusQuerySource(http, provider.url, query, tokens, time.time)


@asynccontextmanager
async def _installed(name: str, inputs: SourceInputs) -> AsyncIterator[UsageSource]:
    host = UsageHost(name=name, wall=inputs.clock.wall, pods_on=inputs.pods_on)
    source = InstalledSource(name, usage_offers(), inputs.settings.of(name), host)
    try:
        yield source
    finally:
        with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True), suppress(UsageUnavailable):
            await source.close()


Opener = Callable[[str, SourceInputs], AbstractAsyncContextManager[UsageSource | None]]
"""Opens a source, as samples name it, while a block lasts; None where the policy has no address."""

_OPENERS: Final[Mapping[str, Opener]] = {
    MetricsSourceKind.KUBERNETES: _metrics_server,
    MetricsSourceKind.PROMETHEUS: _prometheus_query,
}
"""How each built-in kind of source is opened; the others are of installed packages."""


def _prometheus(policy: Policy) -> Prometheus | None:
    """Return how the policy has Prometheus reached, if it does."""
    providers = policy.metrics_providers
    return next((each.prometheus for each in providers if each.source == PROMETHEUS), None)


def _tokens(provider: Prometheus, session: Transport, folder: Path) -> TokenSource:
    reference = None if provider.auth_token is None else provider.auth_token.secret_reference
    if reference is None:
        return ServiceAccountToken(folder)
    return SecretToken(session, reference.namespace, reference.name)
