"""A policy file as it is written, field by field; `policy.policy` has what it comes to."""

from collections.abc import Iterator, Sequence
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator, model_validator

from reactive_desched.api.args import (
    INT64_MAX,
    Count,
    FieldError,
    Section,
    SelectorText,
    field_error,
    file_key,
    fix_to,
    raise_field_errors,
)
from reactive_desched.api.rules import Rule
from reactive_desched.api.usage_source import source_names
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.usage import MetricsSourceKind
from reactive_desched.policy.detect_kind import DocumentKind
from reactive_desched.primitives.hints import did_you_mean, quote, sole_near_name

API_VERSION, KIND = DocumentKind.POLICY.value


class EnabledPlugins(Section):
    """The plugins of one extension point."""

    enabled: tuple[str, ...] = Field(default=(), description="Plugin names, in order.")
    disabled: tuple[str, ...] = Field(
        default=(), description="Accepted and not read: a plugin not enabled is off."
    )


class PluginsSection(Section):
    """The plugins that run at each extension point."""

    presort: EnabledPlugins = Field(
        default=EnabledPlugins.model_construct(), description="Accepted and not read, as upstream."
    )
    sort: EnabledPlugins = Field(
        default=EnabledPlugins.model_construct(), description="Accepted and not read, as upstream."
    )
    deschedule: EnabledPlugins = Field(
        default=EnabledPlugins.model_construct(), description="Plugins that judge pods one by one."
    )
    balance: EnabledPlugins = Field(
        default=EnabledPlugins.model_construct(),
        description="Plugins that compare nodes or groups of pods.",
    )
    evict: EnabledPlugins = Field(
        default=EnabledPlugins.model_construct(),
        description="What evicts: koordinator's MigrationController, by migration jobs; left out, "
        "pods are evicted directly.",
    )
    filter: EnabledPlugins = Field(
        default=EnabledPlugins.model_construct(), description="Plugins that may protect a pod."
    )
    preevictionfilter: EnabledPlugins = Field(
        default=EnabledPlugins.model_construct(),
        description="Plugins asked once more before an eviction.",
    )


class PluginConfig(Section):
    """The arguments of one plugin."""

    name: str = Field(description="The plugin.")
    args: dict[str, object] = Field(default={}, description="Its arguments; see each plugin.")


class ProfileSection(Section):
    """A set of plugins with their arguments and their own DefaultEvictor."""

    name: str = Field(default="", description="Used in logs, metrics and annotations.")
    node_selector: SelectorText = Field(
        default=EVERYTHING,
        description="Only pods on nodes with these labels are evicted by this profile; its plugins "
        "still see every node that the policy's selects. The SIG descheduler has no such field.",
    )
    plugin_config: tuple[PluginConfig, ...] = Field(
        default=(), description="Arguments of plugins; needed only where a plugin requires some."
    )
    plugins: PluginsSection = Field(
        default=PluginsSection.model_construct(), description="Plugins by extension point."
    )


class SecretReference(Section):
    """A Secret by name."""

    namespace: str = Field(default="", description="Namespace of the Secret.")
    name: str = Field(default="", description="Name of the Secret.")

    @model_validator(mode="after")
    def _check_complete(self) -> "SecretReference":
        if not (self.namespace and self.name):
            message = "a Secret needs both its namespace and its name"
            raise field_error(message, "write both", rule=Rule.PROMETHEUS)
        return self


class AuthToken(Section):
    """The token to show to Prometheus."""

    secret_reference: SecretReference | None = Field(
        default=None,
        validate_default=True,
        description="A Secret with the token under the key prometheusAuthToken.",
    )

    @field_validator("secret_reference")
    @classmethod
    def _check_present(cls, reference: SecretReference | None) -> SecretReference:
        if reference is None:
            message = "is required: authToken is read from a Secret"
            hint = "write secretReference: {namespace: …, name: …}"
            raise field_error(message, hint, rule=Rule.PROMETHEUS)
        return reference


class Prometheus(Section):
    """The address and the token of Prometheus."""

    url: str = Field(
        default="",
        validate_default=True,
        description="Its address, for example https://prom:9090.",
    )
    auth_token: AuthToken | None = Field(
        default=None, description="Without it, the token of our own service account is used."
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str, info: ValidationInfo) -> str:
        raise_field_errors(_url_errors(url), info.context)
        return url


class MetricsProvider(Section):
    """A source of measured use."""

    source: str = Field(
        default="",
        validate_default=True,
        description="KubernetesMetrics or Prometheus.",
        json_schema_extra={"enum": list(MetricsSourceKind)},
    )
    prometheus: Prometheus | None = Field(
        default=None,
        validate_default=True,
        description="How to reach Prometheus; required for that source.",
    )

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: str, info: ValidationInfo) -> str:
        raise_field_errors(_source_errors(source), info.context)
        return source

    @field_validator("prometheus")
    @classmethod
    def _check_prometheus(
        cls, prometheus: Prometheus | None, info: ValidationInfo
    ) -> Prometheus | None:
        source = info.data.get("source")
        if source == MetricsSourceKind.PROMETHEUS and prometheus is None:
            message = "is required for source Prometheus"
            raise field_error(message, "write prometheus: {url: https://…}", rule=Rule.PROMETHEUS)
        if source != MetricsSourceKind.PROMETHEUS and prometheus is not None:
            error = FieldError(
                f"is not read for source {source}",
                "remove it",
                lenient_ok=True,
                rule=Rule.NO_EFFECT,
            )
            raise_field_errors([error], info.context)
        return prometheus


class MetricsCollector(Section):
    """The deprecated switch for reading the metrics server."""

    enabled: bool = Field(
        default=False, description="Deprecated: list KubernetesMetrics in metricsProviders."
    )


EvictionsPerNode = Annotated[
    Count | None, Field(description="Evictions per node and cycle (or window); 0 means none.")
]
EvictionsPerNamespace = Annotated[
    Count | None, Field(description="Evictions per namespace and cycle (or window); 0 means none.")
]
EvictionsInAll = Annotated[
    Count | None, Field(description="Evictions per cycle (or window) in all; 0 means none.")
]


class PolicyDocument(Section):
    """A DeschedulerPolicy of version descheduler/v1alpha2."""

    api_version: str = Field(default=API_VERSION, description=f"Always {API_VERSION}.")
    kind: str = Field(default=KIND, description=f"Always {KIND}.")
    profiles: tuple[ProfileSection, ...] = Field(
        default=(), description="Sets of plugins; without any, nothing is evicted."
    )
    node_selector: SelectorText = Field(
        default=EVERYTHING, description="Only pods on nodes with these labels are judged."
    )
    max_no_of_pods_to_evict_per_node: EvictionsPerNode = None
    max_no_of_pods_to_evict_per_namespace: EvictionsPerNamespace = None
    max_no_of_pods_to_evict_total: EvictionsInAll = None
    eviction_failure_event_notification: bool = Field(
        default=False, description="Emit a Warning event for each eviction that was refused."
    )
    grace_period_seconds: int | None = Field(
        default=None,
        ge=-INT64_MAX - 1,
        le=INT64_MAX,
        description="Overrides the pods' own grace period; 0 ends them at once.",
        json_schema_extra={"minimum": 0},
    )
    metrics_collector: MetricsCollector = Field(
        default=MetricsCollector.model_construct(),
        description="Deprecated switch for the metrics server.",
    )
    metrics_providers: tuple[MetricsProvider, ...] = Field(
        default=(), description="Where measured use comes from, each source at most once."
    )

    @field_validator("grace_period_seconds")
    @classmethod
    def _check_not_zero(cls, seconds: int | None, info: ValidationInfo) -> int | None:
        if seconds is not None and seconds < 0:
            message, hint = "must not be negative: the API server takes it for 1", "write 0 or more"
            raise_field_errors(
                [FieldError(message, hint, lenient_ok=True, rule=Rule.OUT_OF_BOUNDS)], info.context
            )
        return seconds

    def warnings(self) -> Iterator[FieldError]:
        """Say which limit keeps every pod where it is."""
        for field in (
            "max_no_of_pods_to_evict_per_node",
            "max_no_of_pods_to_evict_per_namespace",
            "max_no_of_pods_to_evict_total",
        ):
            if getattr(self, field) == 0:
                hint = "raise it, or remove it: then there is no limit"
                path = (file_key(field),)
                yield FieldError("0 lets no pod go", hint, path, rule=Rule.NEVER_EVICTS)

    @field_validator("metrics_providers")
    @classmethod
    def _check_unique(
        cls, providers: tuple[MetricsProvider, ...], info: ValidationInfo
    ) -> tuple[MetricsProvider, ...]:
        collector = info.data.get("metrics_collector", MetricsCollector())
        sources = [provider.source for provider in providers]
        raise_field_errors(
            _duplicate_source_errors(sources, is_collected=collector.enabled), info.context
        )
        return providers


def _duplicate_source_errors(sources: Sequence[str], *, is_collected: bool) -> Iterator[FieldError]:
    """Refuse a source of measured use that is switched on twice."""
    for index, source in enumerate(sources):
        if source in sources[:index]:
            message = f"{quote(source)} is listed already, and each source counts once"
            yield FieldError(message, "remove one", (index, "source"), rule=Rule.DUPLICATE_ITEM)
        elif source == MetricsSourceKind.KUBERNETES and is_collected:
            message = f"{source} is switched on by metricsCollector already"
            hint = f"remove metricsCollector: it is deprecated, {source} replaces it"
            yield FieldError(message, hint, (index, "source"), rule=Rule.DEPRECATED_BESIDE_NEW)


def _source_errors(source: str) -> Iterator[FieldError]:
    """Refuse a source that nothing would be read from."""
    if source in tuple(MetricsSourceKind):
        return
    if source not in (names := source_names()):
        message = f"{quote(source)} is not a source of metrics: nothing is read from it"
        hint = did_you_mean(source, names)
        yield FieldError(
            message if source else "is required",
            hint,
            lenient_ok=True,
            rule=Rule.METRICS_SOURCE,
            fix=fix_to(sole_near_name(source, names)),
        )


def _url_errors(url: str) -> Iterator[FieldError]:
    """Check that a URL can be asked; upstream takes everything that looks like one."""
    if not url:
        message = "is required: Prometheus must have an address"
        yield FieldError(message, "for example https://prom:9090", rule=Rule.PROMETHEUS)
        return
    try:
        parts = urlsplit(url)
        can_be_asked = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:
        yield FieldError(f"{quote(url)} is not a URL: {error}", rule=Rule.PROMETHEUS)
        return
    if not can_be_asked:
        hint = "write it with http:// or https:// and a host"
        is_a_url = bool(parts.scheme) or ":" not in url.partition("/")[0]
        message = f"{quote(url)} is not the URL of a server"
        yield FieldError(message, hint, lenient_ok=is_a_url, rule=Rule.PROMETHEUS)
