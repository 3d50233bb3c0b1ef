"""Lists the enabled plugins of each profile, and those to which a change matters."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from reactive_desched.api.plugin import Plugin
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding
from reactive_desched.model.modes import ACT, OBSERVE, Mode
from reactive_desched.model.objects import PodKey
from reactive_desched.primitives.timers import DebounceConfig

AnyPlugin = Plugin[Any, Any]  # plugins of every subject and argument type work side by side


class DecisionGate(Protocol):
    """Decides on findings; times are monotonic seconds."""

    def decide(self, finding: Finding, now: float) -> Decision:
        """Return the decision; with an Evict the eviction has begun."""
        ...

    def held_since(self, finding: Finding, now: float) -> str:
        """Say why a pod whose eviction was decided has to stay by now; empty where it may leave."""
        ...


class PluginInstance(Struct, frozen=True, eq=False):
    """One enabled plugin of one profile, with the profile's gate and view and its own debounce.

    `finds_for_others` is for migration jobs, whose findings name the plugins that had them made.
    `debounce_by_change` has the waits of single kinds of change, by the change's name. `mode` says
    what is done with what it finds.
    """

    profile: str
    plugin: AnyPlugin
    gate: DecisionGate
    view: ProfileView
    debounce: DebounceConfig = DebounceConfig()
    debounce_by_change: Mapping[str, DebounceConfig] = {}
    mode: Mode = ACT
    finds_for_others: bool = False

    @property
    def name(self) -> str:
        """The plugin's name, as policies say it."""
        return self.plugin.name

    @property
    def is_observed(self) -> bool:
        """Say whether it only shows what it would evict."""
        return self.mode == OBSERVE


SubjectKey = tuple[PluginInstance, Hashable]
"""A subject of one plugin instance."""

FindingKey = tuple[PluginInstance, Hashable, PodKey]
"""A finding of one plugin instance on one pod, with the subject to evaluate again for it."""


_Matters = Callable[[Change], bool]
Subscription = tuple[_Matters | None, PluginInstance]
"""A plugin instance with its test of whether a change matters."""


class Subscriptions:
    """Plugin instances by the type of change that they react to: `by_kind`.

    With each comes its test of whether a change matters; None where every one does.
    """

    def __init__(self, instances: Iterable[PluginInstance]) -> None:
        by_kind: dict[type[Change], list[Subscription]] = {}
        for instance in instances:
            matters = instance.plugin.matters if _has_test(instance.plugin) else None
            for kind in instance.plugin.reacts_to:
                by_kind.setdefault(kind, []).append((matters, instance))
        self.by_kind: Final[Mapping[type[Change], Sequence[Subscription]]] = by_kind


def _has_test(plugin: AnyPlugin) -> bool:
    return type(plugin).matters is not Plugin.matters
