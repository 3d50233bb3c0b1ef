"""A policy file as it is written, field by field; `policy.policy` has what it comes to."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from reactive_desched.model.labels import EVERYTHING
from reactive_desched.policy.fields import INT64_MAX, Count, Section, SelectorText
from reactive_desched.policy.problems import Complaint, quoted, refuse_if_any

API_VERSION: Final = "descheduler/v1alpha2"
KIND: Final = "DeschedulerPolicy"


class EnabledPlugins(Section):
    """The plugins of one extension point."""

    enabled: tuple[str, ...] = Field(default=(), description="Plugin names, in order.")
    disabled: tuple[str, ...] = Field(
        default=(), description="Accepted and not read: a plugin not enabled is off."
    )


class PluginsSection(Section):
    """Which plugins run at which extension point."""

    presort: EnabledPlugins = Field(
        default=EnabledPlugins(), description="Accepted and not read, as upstream."
    )
    sort: EnabledPlugins = Field(
        default=EnabledPlugins(), description="Accepted and not read, as upstream."
    )
    deschedule: EnabledPlugins = Field(
        default=EnabledPlugins(), description="Plugins that judge pods one by one."
    )
    balance: EnabledPlugins = Field(
        default=EnabledPlugins(), description="Plugins that compare nodes or groups of pods."
    )
    filter: EnabledPlugins = Field(
        default=EnabledPlugins(), description="Plugins that may protect a pod."
    )
    preevictionfilter: EnabledPlugins = Field(
        default=EnabledPlugins(), description="Plugins asked once more before an eviction."
    )


class PluginConfig(Section):
    """The arguments of one plugin."""

    name: str = Field(description="The plugin.")
    args: dict[str, object] = Field(default={}, description="Its arguments; see each plugin.")


class ProfileSection(Section):
    """A set of plugins with their arguments and their own DefaultEvictor."""

    name: str = Field(default="", description="Used in logs, metrics and annotations.")
    plugin_config: tuple[PluginConfig, ...] = Field(
        default=(), description="Arguments of plugins; needed only where a plugin requires some."
    )
    plugins: PluginsSection = Field(
        default=PluginsSection(), description="Plugins by extension point."
    )


class MetricsSource(StrEnum):
    """Where measured use comes from."""

    KUBERNETES = "KubernetesMetrics"
    PROMETHEUS = "Prometheus"


class SecretReference(Section):
    """A Secret by name."""

    namespace: str = Field(default="", description="Namespace of the Secret.")
    name: str = Field(default="", description="Name of the Secret.")


class AuthToken(Section):
    """The token to show to Prometheus."""

    secret_reference: SecretReference | None = Field(
        default=None, description="A Secret with the token under the key prometheusAuthToken."
    )


class Prometheus(Section):
    """How to reach Prometheus."""

    url: str = Field(default="", description="Its address, for example https://prom:9090.")
    auth_token: AuthToken | None = Field(
        default=None, description="Without it, the token of our own service account is used."
    )


class MetricsProvider(Section):
    """A source of measured use."""

    source: MetricsSource = Field(description="KubernetesMetrics or Prometheus.")
    prometheus: Prometheus | None = Field(
        default=None, description="How to reach Prometheus; required for that source."
    )

    @model_validator(mode="after")
    def _sound(self) -> "MetricsProvider":
        refuse_if_any(self._complaints())
        return self

    def _complaints(self) -> Iterator[Complaint]:
        """Check what the source needs."""
        if self.source is not MetricsSource.PROMETHEUS:
            return
        if self.prometheus is None:
            hint = "write prometheus: {url: https://…} beside it"
            yield Complaint("source Prometheus needs a prometheus section", hint)
            return
        yield from _url_complaints(self.prometheus.url)
        yield from _token_complaints(self.prometheus.auth_token)


class MetricsCollector(Section):
    """The deprecated switch for reading the metrics server."""

    enabled: bool = Field(
        default=False, description="Deprecated: list KubernetesMetrics in metricsProviders."
    )


class PolicyDocument(Section):
    """A DeschedulerPolicy of version descheduler/v1alpha2."""

    api_version: str = Field(default=API_VERSION, description=f"Always {API_VERSION}.")
    kind: str = Field(default=KIND, description=f"Always {KIND}.")
    profiles: tuple[ProfileSection, ...] = Field(
        default=(), description="Sets of plugins; without any, nothing is evicted."
    )
    node_selector: SelectorText = Field(
        default=EVERYTHING, description="Only pods on nodes with these labels are looked at."
    )
    max_no_of_pods_to_evict_per_node: Count | None = Field(
        default=None, description="Evictions per node and cycle (or window); 0 means none."
    )
    max_no_of_pods_to_evict_per_namespace: Count | None = Field(
        default=None, description="Evictions per namespace and cycle (or window); 0 means none."
    )
    max_no_of_pods_to_evict_total: Count | None = Field(
        default=None, description="Evictions per cycle (or window) in all; 0 means none."
    )
    eviction_failure_event_notification: bool = Field(
        default=False, description="Emit a Warning event for each eviction that was refused."
    )
    grace_period_seconds: int | None = Field(
        default=None,
        ge=0,
        le=INT64_MAX,
        description="Overrides the pods' own grace period; 0 ends them at once.",
    )
    metrics_collector: MetricsCollector = Field(
        default=MetricsCollector(), description="Deprecated switch for the metrics server."
    )
    metrics_providers: tuple[MetricsProvider, ...] = Field(
        default=(), description="Where measured use comes from, each source at most once."
    )

    @model_validator(mode="after")
    def _sound(self) -> "PolicyDocument":
        refuse_if_any(self._complaints())
        return self

    def _complaints(self) -> Iterator[Complaint]:
        """Refuse a source of measured use that is switched on twice."""
        sources = [provider.source for provider in self.metrics_providers]
        for index, source in enumerate(sources):
            path = ("metricsProviders", index, "source")
            if source in sources[:index]:
                yield Complaint(f"{source} is configured twice", "remove one", path)
            elif source is MetricsSource.KUBERNETES and self.metrics_collector.enabled:
                message = f"{source} cannot be combined with metricsCollector.enabled"
                yield Complaint(message, "remove metricsCollector: it is deprecated", path)


def _url_complaints(url: str) -> Iterator[Complaint]:
    """Check that a URL can be asked."""
    path = ("prometheus", "url")
    if not url:
        yield Complaint("source Prometheus needs a url", "for example https://prom:9090", path)
        return
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:
        yield Complaint(f"{quoted(url)} is not a URL: {error}", "", path)
        return
    if not sound:
        hint = "write it with http:// or https:// and a host"
        yield Complaint(f"{quoted(url)} is not the URL of a server", hint, path)


def _token_complaints(token: AuthToken | None) -> Iterator[Complaint]:
    """Check that a token, where one is configured, can be found."""
    if token is None:
        return
    reference = token.secret_reference
    path = ("prometheus", "authToken")
    if reference is None:
        hint = "write secretReference: {namespace: …, name: …} below it"
        yield Complaint("authToken needs a secretReference", hint, path)
    elif not (reference.namespace and reference.name):
        message = "a secretReference needs both namespace and name"
        yield Complaint(message, "", (*path, "secretReference"))
