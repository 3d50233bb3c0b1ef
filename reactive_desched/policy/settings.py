"""Our own settings: everything a DeschedulerPolicy does not say, with safe defaults."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from reactive_desched.errors import ConfigError
from reactive_desched.policy.diagnostics import Complaint, Complaints, quoted, refuse_if_any
from reactive_desched.policy.fields import Seconds, Section
from reactive_desched.policy.recording import Events, Journal, Sinks
from reactive_desched.primitives.listen_address import parse_listen

API_VERSION: Final = "reactive-desched/v1alpha1"
KIND: Final = "ReactiveSettings"


Several = Annotated[int, Field(ge=1, le=1_000_000)]
PerSecond = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]
AtOnce = Annotated[int, Field(ge=1, le=1000)]


class PluginDebounce(Section):
    """How long one plugin's subjects wait; what is left out is as for all."""

    quiet_s: Seconds | None = Field(default=None, description="Wait after the last change.")
    max_wait_s: Seconds | None = Field(default=None, description="Wait at most this long.")


class Debounce(Section):
    """How long a subject stays quiet before it is judged, so that bursts are judged once."""

    quiet_s: Seconds = Field(default=1.0, description="Wait this long after the last change.")
    max_wait_s: Seconds = Field(
        default=10.0, description="Judge after this long even if changes keep coming."
    )
    per_plugin: Mapping[str, PluginDebounce] = Field(
        default={}, description="Other times for single plugins, by plugin name."
    )

    @model_validator(mode="after")
    def _sound(self) -> "Debounce":
        refuse_if_any(self._complaints())
        return self

    def waits(self, plugin: str) -> tuple[float, float]:
        """Give the quiet time and the longest wait for a plugin, in seconds."""
        own = self.per_plugin.get(plugin, PluginDebounce())
        quiet_s = self.quiet_s if own.quiet_s is None else own.quiet_s
        max_wait_s = self.max_wait_s if own.max_wait_s is None else own.max_wait_s
        return quiet_s, max_wait_s

    def _complaints(self) -> Iterator[Complaint]:
        """Refuse a quiet time that can never pass before the longest wait ends."""
        if self.quiet_s > self.max_wait_s:
            yield Complaint("quiet is longer than maxWait", "shorten quiet", ("quiet",))
        for plugin in self.per_plugin:
            quiet_s, max_wait_s = self.waits(plugin)
            if quiet_s > max_wait_s:
                message = f"quiet is longer than maxWait for {plugin}"
                yield Complaint(message, "set both", ("perPlugin", plugin))


class Budget(Section):
    """So many evictions per time, and so many at once after a quiet time."""

    evictions: Several = Field(description="Evictions per `per`.")
    per_s: Seconds = Field(default=60.0, description="The time `evictions` counts for.")
    burst: Several = Field(description="Most evictions at once after a quiet time.")

    @field_validator("per_s")
    @classmethod
    def _some_time(cls, seconds: float) -> float:
        if seconds <= 0:
            raise Complaints([Complaint("must be longer than 0s", "write for example 1m")])
        return seconds

    @property
    def per_second(self) -> float:
        """Give the steady rate."""
        return self.evictions / self.per_s


class ClusterBudget(Budget):
    """How fast pods may be evicted in the whole cluster."""

    evictions: Several = Field(default=30, description="Evictions per `per`.")
    burst: Several = Field(default=10, description="Most evictions at once after a quiet time.")


class NodeBudget(Budget):
    """How fast pods may be evicted from any one node."""

    evictions: Several = Field(default=6, description="Evictions per `per`.")
    burst: Several = Field(default=3, description="Most evictions at once after a quiet time.")


class NamespaceBudget(Budget):
    """How fast pods may be evicted from any one namespace."""

    evictions: Several = Field(default=12, description="Evictions per `per`.")
    burst: Several = Field(default=5, description="Most evictions at once after a quiet time.")


class Budgets(Section):
    """Rates of eviction in several scopes at once; `null` switches a scope off."""

    cluster: ClusterBudget | None = Field(
        default=ClusterBudget(), description="For the whole cluster; null: unlimited."
    )
    node: NodeBudget | None = Field(
        default=NodeBudget(), description="For each node; null: unlimited."
    )
    namespace: NamespaceBudget | None = Field(
        default=NamespaceBudget(), description="For each namespace; null: unlimited."
    )


class Client(Section):
    """How we speak to the API server."""

    requests_per_second: PerSecond = Field(default=50.0, description="Steady rate of requests.")
    burst: Several = Field(default=100, description="Most requests at once after a quiet time.")
    connect_timeout_s: Seconds = Field(default=5.0, description="To open a connection; not 0.")
    read_timeout_s: Seconds = Field(default=30.0, description="Between two bytes; not 0.")
    total_timeout_s: Seconds = Field(
        default=60.0, description="For a whole request other than a watch; not 0."
    )

    @model_validator(mode="after")
    def _sound(self) -> "Client":
        refuse_if_any(self._complaints())
        return self

    def _complaints(self) -> Iterator[Complaint]:
        """Refuse time-outs that no request can meet."""
        written = {
            "connectTimeout": self.connect_timeout_s,
            "readTimeout": self.read_timeout_s,
            "totalTimeout": self.total_timeout_s,
        }
        for name, seconds in written.items():
            if seconds <= 0:
                yield Complaint("must be longer than 0s", "write for example 30s", (name,))
            elif seconds > self.total_timeout_s > 0:
                message = "must not be longer than totalTimeout"
                yield Complaint(message, "raise totalTimeout too", (name,))


class Server(Section):
    """Where health, metrics and events are served."""

    listen: str = Field(
        default="127.0.0.1:10258", description="Address and port; an empty address means all."
    )

    @field_validator("listen")
    @classmethod
    def _is_address(cls, listen: str) -> str:
        try:
            parse_listen(listen)
        except ConfigError as error:
            hint = "write address:port, for example 127.0.0.1:10258 or [::1]:10258"
            message = f"{quoted(listen)} is not an address to listen on"
            raise Complaints([Complaint(message, hint)]) from error
        return listen


class Logging(Section):
    """What we say while running, and how."""

    format: Literal["console", "json"] = Field(
        default="console", description="console for people, json for machines."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least serious level that is written."
    )


class Retry(Section):
    """How long to wait before trying a refused eviction again; each wait is longer."""

    initial_s: Seconds = Field(default=5.0, description="The first wait.")
    max_s: Seconds = Field(default=300.0, description="The longest wait.")

    @model_validator(mode="after")
    def _sound(self) -> "Retry":
        if self.initial_s <= 0:
            complaint = Complaint("must be longer than 0s", "write for example 5s", ("initial",))
            raise Complaints([complaint])
        if self.initial_s > self.max_s:
            complaint = Complaint("initial is longer than max", "raise max", ("initial",))
            raise Complaints([complaint])
        return self


class Evictions(Section):
    """How many evictions are under way at once, and how refused ones are retried."""

    max_in_flight: AtOnce = Field(
        default=50, description="Evictions asked for and not yet settled, at most."
    )
    retry: Retry = Field(default=Retry(), description="Waits after a refusal.")


class ReactiveSettings(Section):
    """All settings; a part is given only its own section."""

    api_version: str = Field(default=API_VERSION, description=f"Always {API_VERSION}.")
    kind: str = Field(default=KIND, description=f"Always {KIND}.")
    debounce: Debounce = Field(default=Debounce(), description="Waiting for quiet.")
    budgets: Budgets = Field(default=Budgets(), description="Rates of eviction.")
    client: Client = Field(default=Client(), description="Requests to the API server.")
    server: Server = Field(default=Server(), description="What we serve.")
    journal: Journal = Field(default=Journal(), description="The durable record.")
    logging: Logging = Field(default=Logging(), description="What we say while running.")
    evictions: Evictions = Field(default=Evictions(), description="Carrying out decisions.")
    node_fit: Literal["scheduler", "upstream"] = Field(
        default="scheduler",
        description="How strictly nodeFit looks for another node: by the filters of the "
        "kube-scheduler with promised room counted in, or as upstream does.",
    )
    events: Events = Field(default=Events(), description="Saying what was done.")
    sinks: Sinks = Field(default=Sinks(), description="Who follows the journal.")
