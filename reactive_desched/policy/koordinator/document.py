"""A DeschedulerConfiguration of koordinator, field by field as it is written."""

from collections.abc import Iterator

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import (
    Count,
    FieldError,
    Int32,
    Section,
    SelectorObject,
    SignedSeconds,
    raise_field_errors,
)
from reactive_desched.api.rules import Rule
from reactive_desched.policy.detect_kind import DocumentKind
from reactive_desched.primitives.hints import quote

API_VERSION, KIND = DocumentKind.KOORDINATOR.value

_NOT_READ = "Accepted and not read."
_MAX_PORT = 65_535


class KoordinatorPlugin(Section):
    """A plugin by its name."""

    name: str = Field(default="", description="The plugin.")


class KoordinatorPluginSet(Section):
    """The plugins of one extension point."""

    enabled: tuple[KoordinatorPlugin, ...] = Field(default=(), description="Plugins, in order.")
    disabled: tuple[KoordinatorPlugin, ...] = Field(
        default=(), description="Defaults that are dropped; * drops all."
    )


class KoordinatorPlugins(Section):
    """The plugins that run at each extension point."""

    deschedule: KoordinatorPluginSet | None = Field(
        default=None, description="Plugins that judge pods one by one."
    )
    balance: KoordinatorPluginSet | None = Field(
        default=None, description="Plugins that compare nodes or groups of pods."
    )
    evict: KoordinatorPluginSet | None = Field(
        default=None, description="What evicts: MigrationController by default, exactly one."
    )
    filter: KoordinatorPluginSet | None = Field(
        default=None, description="What may protect a pod: MigrationController by default."
    )


class KoordinatorPluginConfig(Section):
    """The arguments of one plugin."""

    name: str = Field(default="", description="The plugin.")
    args: dict[str, object] = Field(default={}, description="Its arguments.")


class KoordinatorProfile(Section):
    """A set of plugins with their arguments."""

    name: str = Field(default="", description="Used in logs and events.")
    node_selector: SelectorObject | None = Field(
        default=None, description="The nodes that the plugins of this profile are given."
    )
    plugin_config: tuple[KoordinatorPluginConfig, ...] = Field(
        default=(), description="Arguments of plugins."
    )
    plugins: KoordinatorPlugins | None = Field(
        default=None, description="Plugins by extension point."
    )


class KoordinatorLeaderElection(Section):
    """koordinator's leader election; not read, see `leaderElection` of our settings."""

    leader_elect: bool | None = Field(default=None, description=_NOT_READ)
    lease_duration_s: SignedSeconds | None = Field(default=None, description=_NOT_READ)
    renew_deadline_s: SignedSeconds | None = Field(default=None, description=_NOT_READ)
    retry_period_s: SignedSeconds | None = Field(default=None, description=_NOT_READ)
    resource_lock: str = Field(default="", description=_NOT_READ)
    resource_name: str = Field(default="", description=_NOT_READ)
    resource_namespace: str = Field(default="", description=_NOT_READ)


class KoordinatorClientConnection(Section):
    """koordinator's connection to the API server, of which `qps` and `burst` are read."""

    kubeconfig: str = Field(default="", description=_NOT_READ)
    accept_content_types: str = Field(default="", description=_NOT_READ)
    content_type: str = Field(default="", description=_NOT_READ)
    qps: float = Field(default=0.0, allow_inf_nan=False, description="Requests per second.")
    burst: Int32 = Field(default=0, description="Most requests at once.")


class KoordinatorConfiguration(Section):
    """A DeschedulerConfiguration of koordinator's version descheduler/v1alpha2."""

    api_version: str = Field(default=API_VERSION, description=f"Always {API_VERSION}.")
    kind: str = Field(default=KIND, description=f"Always {KIND}.")
    leader_election: KoordinatorLeaderElection | None = Field(default=None, description=_NOT_READ)
    client_connection: KoordinatorClientConnection | None = Field(
        default=None, description="How the API server is reached."
    )
    enable_profiling: bool | None = Field(default=None, description=_NOT_READ)
    enable_contention_profiling: bool | None = Field(default=None, description=_NOT_READ)
    healthz_bind_address: str | None = Field(default=None, description=_NOT_READ)
    metrics_bind_address: str | None = Field(default=None, description=_NOT_READ)
    descheduling_interval_s: SignedSeconds = Field(
        default=0.0, description="How often plugins run; here they run when something changes."
    )
    dry_run: bool = Field(default=False, description="Evict nothing.")
    profiles: tuple[KoordinatorProfile, ...] = Field(default=(), description="Sets of plugins.")
    node_selector: SelectorObject | None = Field(
        default=None, description="The nodes that plugins are given."
    )
    max_no_of_pods_to_evict_per_node: Count | None = Field(
        default=None, description="Evictions per node and pass."
    )
    max_no_of_pods_to_evict_per_namespace: Count | None = Field(
        default=None, description="Evictions per namespace and pass."
    )
    max_no_of_pods_to_evict_total: Count | None = Field(
        default=None, description="Evictions per pass in all."
    )

    @field_validator("healthz_bind_address", "metrics_bind_address")
    @classmethod
    def _check_address(cls, address: str | None, info: ValidationInfo) -> str | None:
        raise_field_errors(_address_errors(address), info.context)
        return address


def _address_errors(address: str | None) -> Iterator[FieldError]:
    """Refuse what is no host and port, as koordinator does; an empty text is its default."""
    if not address:
        return
    _, colon, port = address.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port) <= _MAX_PORT):
        hint = "write for example 0.0.0.0:10251"
        message = f"{quote(address)} is not a host and a port"
        yield FieldError(message, hint, rule=Rule.NOT_AN_ADDRESS)
