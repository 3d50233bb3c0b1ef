"""Keeps the faults of a source of another package to that source, and names them."""

import inspect
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final

from msgspec.structs import replace

from reactive_desched.api.installed import Offers
from reactive_desched.api.usage_source import UsageHost, UsagePlugin, UsageSourceSettings
from reactive_desched.errors import PluginError, UsageUnavailable
from reactive_desched.model.usage import NodeUsage
from reactive_desched.policy.settings.installed_sections import load_source
from reactive_desched.primitives.bounded_text import truncate
from reactive_desched.primitives.foreign_code import calls_foreign_code
from reactive_desched.telemetry.foreign_faults import faults_as

__all__ = ["InstalledSource"]

_MAX_NAME_CHARS: Final = 100
_WANTED: Final = "a sample has a node, a time and whole amounts by resource"


class InstalledSource:
    """Opens a source when it is first asked, and checks what it returns.

    Whatever it raises, in its import too, is UsageUnavailable: it is asked again, and the other
    sources go on.
    """

    def __init__(
        self, name: str, offers: Offers, section: UsageSourceSettings, host: UsageHost
    ) -> None:
        self.name = name
        self._section = section
        self._host = host
        self._origin = ""
        self._problem = ""
        self._kind: type[UsagePlugin[Any]] | None = None
        self._source: Any = None  # what the package made
        try:
            self._kind = load_source(name, offers)
            self._origin = offers.describe(name)
        except PluginError as error:
            self._problem = str(error)

    @property
    def measures_pods(self) -> bool:
        """Say whether its samples say what each pod of the node uses."""
        return self._kind is not None and self._kind.measures_pods is True

    @calls_foreign_code
    async def measure(self) -> Iterable[NodeUsage]:
        """Ask once; raises UsageUnavailable."""
        if self._kind is None:
            raise UsageUnavailable(self._problem)
        if self._source is None:
            with faults_as(UsageUnavailable, self._origin, "open"):
                self._source = self._kind.open(_section_of(self._kind, self._section), self._host)
        with faults_as(UsageUnavailable, self._origin, "measure", UsageUnavailable):
            awaitable = self._source.measure()
            if not inspect.isawaitable(awaitable):
                raise UsageUnavailable(f"{self._origin}: measure is no `async def`")
            found = await awaitable
            if not isinstance(found, Iterable):
                kind = type(found).__name__
                raise UsageUnavailable(f"{self._origin}: measure returned {kind}, and no samples")
            return [self._checked(sample) for sample in found]

    @calls_foreign_code
    async def close(self) -> None:
        """Close the source, if it was opened; raises UsageUnavailable."""
        source, self._source = self._source, None
        if source is not None:
            with faults_as(UsageUnavailable, self._origin, "close"):
                closing = source.close()
                if inspect.isawaitable(closing):
                    await closing

    def _checked(self, sample: Any) -> NodeUsage:  # Any: what the package returns
        """Return a sample under the name of this source; raises UsageUnavailable for no sample."""
        if not isinstance(sample, NodeUsage):
            raise UsageUnavailable(f"{self._origin}: {type(sample).__name__} is no NodeUsage")
        if not _is_sound(sample):
            node = truncate(repr(sample.node), _MAX_NAME_CHARS)
            raise UsageUnavailable(f"{self._origin}: {_WANTED}, and that of {node} does not")
        return replace(sample, source=self.name)


def _section_of(kind: type[UsagePlugin[Any]], section: UsageSourceSettings) -> UsageSourceSettings:
    """Return the section as it was read; where the settings have none, the defaults of the kind."""
    return section if isinstance(section, kind.settings) else kind.settings()


def _is_sound(sample: Any) -> bool:  # Any: msgspec checks no types of what code makes
    """Say whether a sample has a node, a time, and amounts by resource, of its pods too."""
    is_timed = isinstance(sample.sampled_s, int | float) and isfinite(sample.sampled_s)
    if not (is_timed and isinstance(sample.node, str) and isinstance(sample.pods, Mapping)):
        return False
    return all(map(_are_amounts, (sample.usage, *sample.pods.values())))


def _are_amounts(found: object) -> bool:
    return isinstance(found, Mapping) and all(
        isinstance(name, str) and type(amount) is int and amount >= 0
        for name, amount in found.items()
    )
