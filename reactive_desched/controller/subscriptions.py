"""Which plugins are on, in which profile, and which of them care about a change."""

from collections.abc import Hashable, Iterable
from typing import Any, Protocol

from msgspec import Struct

from reactive_desched.api.plugin import Plugin
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import Outcome
from reactive_desched.primitives.debounce import Pause

AnyPlugin = Plugin[Any, Any]  # plugins of every subject and argument type work side by side


class Gatekeeper(Protocol):
    """What decides on findings and is told how evictions ended; times are monotonic seconds."""

    def decide(self, finding: Finding, now: float) -> Decision:
        """Return the decision; an Evict holds its tokens."""
        ...

    def settled(self, pod: Pod, outcome: Outcome, now: float) -> None:
        """Take in the end of an eviction."""
        ...


class Instance(Struct, frozen=True, eq=False):
    """One enabled plugin of one profile, with the profile's gate and its own patience."""

    profile: str
    plugin: AnyPlugin
    gate: Gatekeeper
    pause: Pause = Pause()

    @property
    def name(self) -> str:
        """The plugin's name, as policies say it."""
        return self.plugin.name


Key = tuple[Instance, Hashable]
"""One subject as one instance sees it."""


class Routes:
    """Instances by the kind of change they react to."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self._by_change: dict[type[Change], list[Instance]] = {}
        for instance in instances:
            for kind in instance.plugin.reacts_to:
                self._by_change.setdefault(kind, []).append(instance)

    def interested(self, change: Change) -> list[Instance]:
        """Return the instances that react to this kind of change."""
        return self._by_change.get(type(change), [])
