"""Applies flags over the settings of files: which flags there are, and which value counts."""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from reactive_desched.api.args import FieldErrors, file_key
from reactive_desched.api.rules import Rule
from reactive_desched.errors import ConfigError
from reactive_desched.model.labels import Selector
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.settings.leader_election import LeaderElectionSettings
from reactive_desched.policy.settings.otlp import OtlpSettings
from reactive_desched.policy.settings.reactive_settings import ClientSettings, ReactiveSettings
from reactive_desched.policy.settings.recording import JournalSettings, SinkSettings
from reactive_desched.policy.settings.server import ServerSettings
from reactive_desched.policy.yaml.diagnostics import Diagnostic


class FlagOverrides(Struct, frozen=True):
    """Flags beside the files; None says nothing.

    `leader_election` and `traces` have values by the fields of their settings. The first, requests
    and burst count before the files; the collector of traces, the node selector, the address to
    listen on, the old names of metrics and the journal's directory only where the files say nothing
    about them.
    """

    node_selector: Selector | None = None
    requests_per_second: float | None = None
    burst: int | None = None
    health_probe_bind_address: str | None = None
    default_listen: str | None = None
    default_journal_dir: str | None = None
    old_metric_names: bool = False
    leader_election: Mapping[str, object] = {}
    traces: Mapping[str, object] = {}

    def apply_to(self, configuration: Configuration) -> Configuration:
        """Return what the files say with these flags beside it."""
        policy = configuration.policy
        return replace(
            configuration,
            policy=self._policy(policy),
            written=self._settings(configuration.settings),
            warnings=(*configuration.warnings, *self._warnings(configuration)),
        )

    def _policy(self, policy: Policy) -> Policy:
        if self.node_selector is None or policy.node_selector.requirements:
            return policy
        return replace(policy, node_selector=self.node_selector)

    def _warnings(self, configuration: Configuration) -> Iterator[Diagnostic]:
        """Yield which flag has no effect.

        The policy's node selector counts before the flag, as in the SIG descheduler.
        """
        policy = configuration.policy
        if self.node_selector is not None and policy.node_selector.requirements:
            message = "counts, and --node-selector does not"
            hint = "take one of them away"
            yield Diagnostic(
                policy.source, 0, 0, "nodeSelector", message, hint, rule=Rule.FLAG_NOT_READ
            )
        if self.traces and configuration.settings.sinks.otlp is not None:
            message, hint = "counts, and the flags --otel-... do not", "take one of them away"
            yield Diagnostic(
                policy.source, 0, 0, "sinks.otlp", message, hint, rule=Rule.FLAG_NOT_READ
            )

    def _settings(self, settings: ReactiveSettings) -> ReactiveSettings:
        updates: dict[str, object] = {
            "client": self._client(settings.client),
            "server": self._server(settings.server),
            "journal": self._journal(settings.journal),
            "leader_election": self._leader_election(settings.leader_election),
            "sinks": self._sinks(settings.sinks),
        }
        return settings.model_copy(update=updates)

    def _client(self, client: ClientSettings) -> ClientSettings:
        given = {"requests_per_second": self.requests_per_second, "burst": self.burst}
        return client.model_copy(update={k: v for k, v in given.items() if v is not None})

    def _server(self, server: ServerSettings) -> ServerSettings:
        updates: dict[str, object] = {}
        if self.health_probe_bind_address is not None:
            updates["health_probe_bind_address"] = self.health_probe_bind_address
        if self.default_listen is not None and "listen" not in server.model_fields_set:
            updates["listen"] = self.default_listen
        if self.old_metric_names and "old_metric_names" not in server.model_fields_set:
            updates["old_metric_names"] = True
        return server.model_copy(update=updates) if updates else server

    def _leader_election(self, written: LeaderElectionSettings) -> LeaderElectionSettings:
        """Check files and flags together; raises ConfigError naming the field."""
        if not self.leader_election:
            return written
        try:
            return LeaderElectionSettings.model_validate(
                {**written.model_dump(), **self.leader_election}
            )
        except ValidationError as error:
            problems = (f"leaderElection.{each}" for each in field_problems(error))
            raise ConfigError("\n".join(problems)) from error

    def _sinks(self, sinks: SinkSettings) -> SinkSettings:
        """Name the collector of traces; raises ConfigError for an address that is none."""
        if not self.traces or sinks.otlp is not None:
            return sinks
        try:
            otlp = OtlpSettings.model_validate(self.traces)
        except ValidationError as error:
            problems = ", ".join(field_problems(error))
            raise ConfigError(f"--otel-collector-endpoint and its like: {problems}") from error
        return sinks.model_copy(update={"otlp": otlp})

    def _journal(self, journal: JournalSettings) -> JournalSettings:
        if self.default_journal_dir is None or journal.directory:
            return journal
        return journal.model_copy(update={"directory": self.default_journal_dir})


def field_problems(error: ValidationError) -> Iterator[str]:
    """Yield for each field of a section what is wrong with it."""
    for problem in error.errors():
        cause = problem.get("ctx", {}).get("error")
        field = ".".join(str(step) for step in problem["loc"])
        if isinstance(cause, FieldErrors):
            for each in cause.errors:
                path = ".".join(map(str, each.path)) or file_key(field)
                yield f"{path}: {each.message}"
        else:
            yield f"{file_key(field)}: {problem['msg']}"
