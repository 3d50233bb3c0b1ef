"""Flags for what files may say too, and which of the two counts."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.fit.upstream import SCHEDULER, UPSTREAM
from reactive_desched.model.labels import Selector
from reactive_desched.policy.diagnostics import Diagnostic
from reactive_desched.policy.policy import Configuration, Policy
from reactive_desched.policy.recording import JournalSettings
from reactive_desched.policy.settings import ClientSettings, ReactiveSettings, ServerSettings


class FlagOverrides(Struct, frozen=True):
    """Flags beside the files; None says nothing.

    Requests and burst count before the files; the node selector, the address to listen on and the
    journal's directory only where the files say nothing about them. `node_fit` is for one sweep: a
    controller that reacts checks nodes as the kube-scheduler does, whatever flags and files say.
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
            warnings=(*configuration.warnings, *self._warnings(configuration)),
        )

    def _policy(self, policy: Policy) -> Policy:
        if self.node_selector is None or policy.node_selector.requirements:
            return policy
        return replace(policy, node_selector=self.node_selector)

    def _warnings(self, configuration: Configuration) -> Iterator[Diagnostic]:
        """Yield which flag or setting has no effect.

        The policy's node selector counts before the flag, as in the SIG descheduler.
        """
        policy = configuration.policy
        if self.node_selector is not None and policy.node_selector.requirements:
            message = "counts, and --node-selector does not"
            hint = "take one of them away"
            yield Diagnostic(policy.source, 0, 0, "nodeSelector", message, hint)
        if configuration.settings.node_fit == UPSTREAM:
            message = "upstream has no effect: a controller that reacts uses scheduler"
            hint = "take it away; `run --once` and `plan` have --node-fit"
            yield Diagnostic("settings", 0, 0, "nodeFit", message, hint)

    def _settings(self, settings: ReactiveSettings) -> ReactiveSettings:
        updates: dict[str, object] = {
            "client": self._client(settings.client),
            "server": self._server(settings.server),
            "journal": self._journal(settings.journal),
            "node_fit": SCHEDULER,
        }
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
