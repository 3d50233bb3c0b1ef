"""A policy and its settings as they were read, and which settings hold where none are written."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.node_conditions import Condition
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES, SchedulerProfiles
from reactive_desched.policy.policy import SWEEP_NODE_FIT, Policy
from reactive_desched.policy.yaml.diagnostics import Diagnostic

if TYPE_CHECKING:
    from reactive_desched.policy.documents import SourceText
    from reactive_desched.policy.settings.controller_settings import ControllerSettings
    from reactive_desched.policy.settings.reactive_settings import ReactiveSettings


Calendars = Mapping[int, tuple[tuple[float, float], ...]]
"""The times of the events of each calendar that was read, by the number of its schedule.

They are in seconds since the epoch, in their order, each without its end.
"""


_CALENDAR: Final = "calendar"


def calendar_flags(calendars: Calendars) -> dict[str, str]:
    """Write what was read of calendars as a recording has it: `calendar0: 100-200,300-400`."""
    return {
        f"{_CALENDAR}{number}": ",".join(f"{start:.0f}-{end:.0f}" for start, end in spans)
        for number, spans in calendars.items()
    }


def recorded_calendars(flags: Mapping[str, str]) -> Calendars:
    """Return what a recording has of calendars."""
    return {
        int(name.removeprefix(_CALENDAR)): tuple(map(_recorded_span, filter(None, said.split(","))))
        for name, said in flags.items()
        if name.startswith(_CALENDAR)
    }


def _recorded_span(written: str) -> tuple[float, float]:
    start, _, end = written.rpartition("-")
    return float(start), float(end)


class Configuration(Struct, frozen=True):
    """A policy with its settings, and the warnings about both.

    Each part of the controller is given the section it needs. `written` is the ReactiveSettings of
    the files, None where they have none: commands that need no settings do not build their models.
    `obstacles` keep a valid policy from running: `load.load_runnable` refuses it. `sources` are the
    files' texts. `calendars` has what was read last of the calendars of `budgets.schedules`,
    `scheduler_texts` the configurations of schedulers that the settings name, by their item.
    """

    policy: Policy
    written: "ReactiveSettings | None"
    warnings: tuple[Diagnostic, ...] = ()
    obstacles: tuple[Diagnostic, ...] = ()
    sources: tuple["SourceText", ...] = ()
    calendars: Calendars = {}
    scheduler_texts: Mapping[int, "SourceText"] = {}

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
        """The rules by which `run --once` checks nodes: the setting `nodeFit`, else upstream's.

        It builds no settings that the files do not have.
        """
        return SWEEP_NODE_FIT if self.written is None else self.written.node_fit

    @property
    def scheduler_profiles(self) -> SchedulerProfiles:
        """The profiles of the schedulers that node fit goes by.

        It builds no settings that the files do not have.
        """
        return DEFAULT_PROFILES if self.written is None else self.written.scheduler.profiles()

    @property
    def controller_schedulers(self) -> SchedulerProfiles:
        """The same of the controller: it watches devices where guards leave claims to node fit."""
        is_asked = self.written is not None and self.written.guards.resource_claims == "fit"
        return replace(self.scheduler_profiles, watches_devices=is_asked)

    @property
    def sick_conditions(self) -> frozenset[Condition]:
        """The conditions of nodes that a plugin or a rule for drains takes as a reason to evict."""
        rules = () if self.written is None else self.written.drains
        drains = frozenset(each.condition for rule in rules for each in rule.conditions)
        return self.policy.sick_conditions | drains

    def keep_calendars(self, before: "Configuration") -> "Configuration":
        """Return this with what an earlier configuration had read of the same calendars."""
        kept = {
            number: before.calendars[old]
            for number, schedule in enumerate(self.controller.budgets.schedules)
            if schedule.calendar is not None
            for old, other in enumerate(before.controller.budgets.schedules)
            if old in before.calendars
            and (other.calendar, other.time_zone) == (schedule.calendar, schedule.time_zone)
        }
        return replace(self, calendars=kept) if kept else self
