"""The settings of debounce: how long a subject is quiet before a plugin evaluates it."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field, model_validator

from reactive_desched.api.args import (
    FieldError,
    Seconds,
    Section,
    field_error,
    longer_than_zero,
    raise_field_errors,
)
from reactive_desched.api.rules import Rule
from reactive_desched.primitives.timers import DebounceConfig

FlapCount = Annotated[int, Field(ge=2, le=1000)]


class WaitSettings(Section):
    """The waits of subjects; what is left out is as for all."""

    quiet_s: Seconds | None = Field(default=None, description="Wait after the last change.")
    max_wait_s: Seconds | None = Field(default=None, description="Wait at most this long.")

    def over(self, usual: DebounceConfig) -> DebounceConfig:
        """Return these times, and the usual ones where none are set."""
        return DebounceConfig(
            usual.quiet_s if self.quiet_s is None else self.quiet_s,
            usual.max_wait_s if self.max_wait_s is None else self.max_wait_s,
        )


class PluginDebounceSettings(WaitSettings):
    """The waits of one plugin's subjects; what is left out is as for all."""

    per_change: Mapping[str, WaitSettings] = Field(
        default={},
        description="Other times for this plugin after single kinds of change, by the name that "
        "events give the change in `trigger.change`.",
    )


class FlappingSettings(Section):
    """The changes that make a node or pod flap, and how long its subjects wait then."""

    changes: FlapCount = Field(
        default=4,
        description="An object flaps when the same of its fields changed so often within `per`: a "
        "node's taints, labels, readiness, or allocatable and cordon, or a pod's labels.",
    )
    per_s: Annotated[Seconds, longer_than_zero("1m")] = Field(
        default=60.0, description="The time `changes` counts for; not 0."
    )
    quiet_s: Seconds = Field(
        default=30.0,
        description="What depends on an object that flaps is evaluated after so long without a "
        "further change of it.",
    )
    max_wait_s: Seconds = Field(
        default=300.0, description="Evaluate after this long even if the object goes on flapping."
    )

    @model_validator(mode="after")
    def _check_times(self) -> "FlappingSettings":
        if self.quiet_s > self.max_wait_s:
            raise field_error(
                "quiet is longer than maxWait",
                "shorten quiet",
                ("quiet",),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
        return self


class DebounceSettings(Section):
    """The time that a subject stays quiet before it is judged, so that bursts are judged once."""

    quiet_s: Seconds = Field(default=1.0, description="Wait this long after the last change.")
    max_wait_s: Seconds = Field(
        default=10.0, description="Evaluate after this long even if changes keep coming."
    )
    per_plugin: Mapping[str, PluginDebounceSettings] = Field(
        default={}, description="Other times for single plugins, by plugin name."
    )
    per_change: Mapping[str, WaitSettings] = Field(
        default={},
        description="Other times after single kinds of change, by the name that events give the "
        "change in `trigger.change`; a plugin's own times come before these.",
    )
    flapping: FlappingSettings | None = Field(
        default=FlappingSettings.model_construct(),
        description="What depends on an object that flaps waits longer; null: it waits as always.",
    )

    @model_validator(mode="after")
    def _check_times(self) -> "DebounceSettings":
        raise_field_errors(self._field_errors())
        return self

    def for_plugin(self, plugin: str, least: DebounceConfig | None = None) -> DebounceConfig:
        """Return how long the subjects of a plugin wait, by default at `least` so long."""
        usual = DebounceConfig(self.quiet_s, self.max_wait_s)
        if least is not None:
            usual = DebounceConfig(
                max(usual.quiet_s, least.quiet_s), max(usual.max_wait_s, least.max_wait_s)
            )
        own = self.per_plugin.get(plugin)
        return usual if own is None else own.over(usual)

    def by_change(
        self, plugin: str, least: DebounceConfig | None = None
    ) -> dict[str, DebounceConfig]:
        """Return the waits of a plugin's subjects after kinds of change that have their own."""
        usual, own = self.for_plugin(plugin, least), self.per_plugin.get(plugin)
        kinds = {} if own is None else own.per_change
        return {
            **{kind: wait.over(usual) for kind, wait in self.per_change.items()},
            **{kind: wait.over(usual) for kind, wait in kinds.items()},
        }

    def _field_errors(self) -> Iterator[FieldError]:
        """Refuse a quiet time that can never pass before the longest wait ends."""
        usual = DebounceConfig(self.quiet_s, self.max_wait_s)
        if _never_quiet(usual):
            yield FieldError(
                "quiet is longer than maxWait",
                "shorten quiet",
                ("quiet",),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
        for kind, wait in self.per_change.items():
            if _never_quiet(wait.over(usual)):
                message = f"quiet is longer than maxWait for {kind}"
                yield FieldError(
                    message, "set both", ("perChange", kind), rule=Rule.CONTRADICTING_SETTINGS
                )
        for plugin, own in self.per_plugin.items():
            usual_of_plugin = own.over(usual)
            if _never_quiet(usual_of_plugin):
                message = f"quiet is longer than maxWait for {plugin}"
                yield FieldError(
                    message, "set both", ("perPlugin", plugin), rule=Rule.CONTRADICTING_SETTINGS
                )
            for kind, wait in own.per_change.items():
                if _never_quiet(wait.over(usual_of_plugin)):
                    message = f"quiet is longer than maxWait for {kind}"
                    yield FieldError(
                        message,
                        "set both",
                        ("perPlugin", plugin, "perChange", kind),
                        rule=Rule.CONTRADICTING_SETTINGS,
                    )


def _never_quiet(wait: DebounceConfig) -> bool:
    return wait.quiet_s > wait.max_wait_s
