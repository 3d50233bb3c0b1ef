"""A policy and its settings as they were read, and which settings hold where none are written."""

from typing import TYPE_CHECKING

from msgspec import Struct

from reactive_desched.policy.policy import SWEEP_NODE_FIT, Policy
from reactive_desched.policy.yaml.diagnostics import Diagnostic

if TYPE_CHECKING:
    from reactive_desched.policy.documents import SourceText
    from reactive_desched.policy.settings.controller_settings import ControllerSettings
    from reactive_desched.policy.settings.reactive_settings import ReactiveSettings


class Configuration(Struct, frozen=True):
    """A policy with its settings, and the warnings about both.

    Each part of the controller is given the section it needs. `written` is the ReactiveSettings of
    the files, None where they have none: commands that need no settings do not build their models.
    `obstacles` keep a valid policy from running: `load.load_runnable` refuses it. `sources` are the
    files' texts.
    """

    policy: Policy
    written: "ReactiveSettings | None"
    warnings: tuple[Diagnostic, ...] = ()
    obstacles: tuple[Diagnostic, ...] = ()
    sources: tuple["SourceText", ...] = ()

    @property
    def settings(self) -> "ReactiveSettings":
        """The settings, with the defaults where the files say nothing."""
        if self.written is not None:
            return self.written
        from reactive_desched.policy.settings.reactive_settings import default_settings

        return default_settings()

    @property
    def controller(self) -> "ControllerSettings":
        """The settings that decide about evictions, with the defaults where the files say nothing.

        It builds no models of the others.
        """
        if self.written is not None:
            return self.written
        from reactive_desched.policy.settings.controller_settings import default_controller_settings

        return default_controller_settings()

    @property
    def sweep_node_fit(self) -> str:
        """Whose rules `run --once` checks nodes by: the setting `nodeFit`, upstream's by default.

        It builds no settings that the files do not have.
        """
        return SWEEP_NODE_FIT if self.written is None else self.written.node_fit
