"""What flags say about things that files may say too, and which of the two counts."""

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.labels import Selector
from reactive_desched.policy.diagnostics import Diagnostic
from reactive_desched.policy.policy import Configuration, Policy
from reactive_desched.policy.recording import JournalSettings
from reactive_desched.policy.settings import ClientSettings, ReactiveSettings, ServerSettings


class FlagOverrides(Struct, frozen=True):
    """Flags beside the files; None says nothing.

    Requests, burst and node fit count before the files; the node selector, the address to listen
    on and the journal's directory only where the files say nothing about them.
    """

    node_selector: Selector | None = None
    requests_per_second: float | None = None
    burst: int | None = None
    node_fit: str | None = None
    health_probe_bind_address: str | None = None
    default_listen: str | None = None
    default_journal_dir: str | None = None

    def apply_to(self, configuration: Configuration) -> Configuration:
        """Return what the files say with these flags beside it."""
        policy = configuration.policy
        return replace(
            configuration,
            policy=self._policy(policy),
            written=self._settings(configuration.settings),
            warnings=(*configuration.warnings, *self._warnings(policy)),
        )

    def _policy(self, policy: Policy) -> Policy:
        if self.node_selector is None or policy.node_selector.requirements:
            return policy
        return replace(policy, node_selector=self.node_selector)

    def _warnings(self, policy: Policy) -> tuple[Diagnostic, ...]:
        """Say that the policy counts, as it did when the SIG descheduler had this flag."""
        if self.node_selector is None or not policy.node_selector.requirements:
            return ()
        message = "counts, and --node-selector does not"
        return (Diagnostic(policy.source, 0, 0, "nodeSelector", message, "take one of them away"),)

    def _settings(self, settings: ReactiveSettings) -> ReactiveSettings:
        updates: dict[str, object] = {
            "client": self._client(settings.client),
            "server": self._server(settings.server),
            "journal": self._journal(settings.journal),
        }
        if self.node_fit is not None:
            updates["node_fit"] = self.node_fit
        return settings.model_copy(update=updates)

    def _client(self, client: ClientSettings) -> ClientSettings:
        given = {"requests_per_second": self.requests_per_second, "burst": self.burst}
        return client.model_copy(update={k: v for k, v in given.items() if v is not None})

    def _server(self, server: ServerSettings) -> ServerSettings:
        updates = {}
        if self.health_probe_bind_address is not None:
            updates["health_probe_bind_address"] = self.health_probe_bind_address
        if self.default_listen is not None and "listen" not in server.model_fields_set:
            updates["listen"] = self.default_listen
        return server.model_copy(update=updates) if updates else server

    def _journal(self, journal: JournalSettings) -> JournalSettings:
        if self.default_journal_dir is None or journal.directory:
            return journal
        return journal.model_copy(update={"directory": self.default_journal_dir})
