"""One profile: which plugins run where; names that are wrong or in the wrong place show here."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from reactive_desched.policy.arguments import ArgumentsReader
from reactive_desched.policy.decode import Decoder
from reactive_desched.policy.diagnostics import ProblemList, quoted
from reactive_desched.policy.document import ProfileSection
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import Profile
from reactive_desched.policy.registry import (
    DEFAULT_EVICTOR,
    POINTS,
    READ_POINTS,
    Registry,
    naming_problem,
    points_of,
)
from reactive_desched.policy.source_location import Place

Named = Mapping[str, Place]


class ProfileReader:
    """Reads profiles leniently enough to find all that is wrong in one go."""

    def __init__(self, registry: Registry, decoder: Decoder, found: ProblemList) -> None:
        self._registry = registry
        self._decoder = decoder
        self._found = found

    def read(self, profile: Place) -> Profile:
        """Read the profile at a place; it is sound only if no problem was added."""
        self._decoder.decode(ProfileSection, profile)
        plugins = profile.below("plugins")
        enabled = {point: self._enabled(plugins, point) for point in READ_POINTS}
        self._warn_of_idle(profile, enabled)
        self._warn_of_unread(plugins)
        everywhere = {name: at for named in enabled.values() for name, at in named.items()}
        arguments = ArgumentsReader(self._registry, self._decoder, self._found, everywhere)
        args = arguments.read(profile.below("pluginConfig"))
        evictor = args.pop(DEFAULT_EVICTOR, None)
        return Profile(
            name=profile.below("name").word or "",
            deschedule=tuple(enabled["deschedule"]),
            balance=tuple(enabled["balance"]),
            filter=_with_evictor(enabled["filter"]),
            pre_eviction_filter=_with_evictor(enabled["preevictionfilter"]),
            args=MappingProxyType(args),
            evictor=evictor if isinstance(evictor, DefaultEvictorArgs) else DefaultEvictorArgs(),
        )

    def _enabled(self, plugins: Place, point: str) -> Named:
        """Give the names enabled at a point, in order and each once, after checking them."""
        enabled: dict[str, Place] = {}
        for name, at in plugins.below(point, "enabled").words():
            if name in enabled:
                self._found.warn(at.problem(f"{quoted(name)} is enabled twice", "it counts once"))
                continue
            enabled[name] = at
            self._check(name, point, at)
        return enabled

    def _check(self, name: str, point: str, at: Place) -> None:
        """Refuse a name that cannot be enabled at this point."""
        points = points_of(name, self._registry)
        if points is not None and point not in points:
            right = " and ".join(f"plugins.{each}" for each in sorted(points))
            message = f"{name} cannot be enabled at {point}"
            self._found.add(at.problem(message, f"it belongs under {right}, not plugins.{point}"))
        elif (problem := naming_problem(name, at, self._registry)) is not None:
            self._found.add(problem)

    def _warn_of_idle(self, profile: Place, enabled: Mapping[str, Named]) -> None:
        """Say that a profile will evict nothing."""
        if not (enabled["deschedule"] or enabled["balance"]):
            hint = "add plugins to plugins.deschedule.enabled or plugins.balance.enabled"
            self._found.warn(profile.problem("this profile enables no plugin that evicts", hint))

    def _warn_of_unread(self, plugins: Place) -> None:
        """Say what is accepted and has no effect, as upstream."""
        for point in POINTS:
            at = plugins.below(point)
            if point not in READ_POINTS and any(at.below("enabled").items()):
                self._found.warn(at.problem("is accepted and not read", "remove it"))
            if any(at.below("disabled").items()):
                hint = "a plugin that is not enabled is off; DefaultEvictor is always on"
                self._found.warn(at.below("disabled").problem("is accepted and not read", hint))


def _with_evictor(names: Iterable[str]) -> tuple[str, ...]:
    """Put DefaultEvictor first unless it has a place already."""
    listed = tuple(names)
    return listed if DEFAULT_EVICTOR in listed else (DEFAULT_EVICTOR, *listed)
