"""Says what is only observed beside what is carried out, and what of both may fit again."""

import dataclasses
from collections.abc import Container, Iterator, Sequence

from msgspec.structs import replace

from reactive_desched.controller.evaluation_queue import NodeFitAnswers
from reactive_desched.model.decisions import CapacityHint
from reactive_desched.model.modes import ACT, OBSERVE, Mode
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.policy import Policy
from reactive_desched.primitives.long_answers import LongAnswers
from reactive_desched.telemetry.metrics import Metric, gauge

PLUGIN_MODES = gauge(
    "plugin_mode",
    "1 for each plugin of a profile, by what is done with what it finds: act, propose, or observe.",
    "profile",
    "plugin",
    "mode",
)


def modes_of(config: Configuration) -> Iterator[tuple[str, str, Mode]]:
    """Yield the profile and the name of each plugin, with its mode."""
    for profile in config.policy.profiles:
        for plugin in profile.plugins:
            yield profile.name, plugin.name, config.controller.mode_of(profile.name, plugin.name)


def collect_modes(config: Configuration) -> Metric:
    """Return the mode of each plugin."""
    return PLUGIN_MODES.by_labels(dict.fromkeys(modes_of(config), 1))


def with_modes(config: Configuration, modes: Container[Mode]) -> Policy:
    """Return the policy with the plugins of these modes alone."""
    named = {(profile, plugin) for profile, plugin, mode in modes_of(config) if mode in modes}
    profiles = tuple(
        dataclasses.replace(
            each, plugins=tuple(p for p in each.plugins if (each.name, p.name) in named)
        )
        for each in config.policy.profiles
    )
    return replace(config.policy, profiles=tuple(each for each in profiles if each.plugins))


def observes(config: Configuration) -> bool:
    """Say whether a plugin only shows what it would evict."""
    return any(mode == OBSERVE for _, _, mode in modes_of(config))


def is_watched_only(config: Configuration) -> bool:
    """Say whether no plugin acts by itself: each observes or proposes."""
    modes = [mode for _, _, mode in modes_of(config)]
    return bool(modes) and ACT not in modes


class BothCapacities:
    """Yields the pods that may fit again, by what is reserved, and by what is assumed."""

    def __init__(self, carried_out: NodeFitAnswers, observed: NodeFitAnswers) -> None:
        self._carried_out = carried_out
        self._observed = observed

    @property
    def long_answers(self) -> LongAnswers:
        """Return what says whether long answers are wanted in steps: both ask one index."""
        return self._carried_out.long_answers

    def take_capacity_hints(self) -> Sequence[CapacityHint]:
        """Return, once, which of the blocked pods may fit now."""
        observed = self._observed.take_capacity_hints()
        return (
            *self._carried_out.take_capacity_hints(),
            *(replace(hint, is_observed=True) for hint in observed),
        )

    @property
    def has_more_hints(self) -> bool:
        """Say whether more pods may be found to fit by taking hints again."""
        return self._carried_out.has_more_hints or self._observed.has_more_hints
